//! The other side: a view's text planned, lowered and rendered by the product's own crates, fed as the server feeds it.

use crate::stream::Batch;
use anyhow::{Context, Result, anyhow, ensure};
use arrangement::allowance::Allowance;
use arrangement::snapshot::cursor::{Bounds, Hits, Walk, first_error, value};
use compute::LocalWorkers;
use compute_client::controller::Controller;
use compute_client::hydration::Piece;
use compute_client::index::{Clocks, IndexHandle};
use compute_client::plan::lir::Lir;
use compute_client::plan::lower::lower;
use compute_client::protocol::{IndexSpec, KeyExpr};
use engine::error::SqlError;
use engine::{Engine, SessionInfo};
use ore::memory::Share;
use ore::thread::OwnThreads;
use pgrepr::options::EncodeOptions;
use pgrepr::text::{decode_text, encode_text};
use repr::row::{read_datum, skip_datum, write_datum};
use repr::{GlobalId, RelationDesc, Timestamp, Updates};
use sql::bind::{Params, ResolvedTable, TableResolver};
use sql_syntax::ast::Statement;
use sql_syntax::parser::{parse, parse_query};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tpch::{Row, Table};

const CLUSTER: u64 = 1;
const AS_OF: Timestamp = 1;
/// How long a batch may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A query over TPC-H's tables, lowered.
pub(crate) struct View {
    plan: Lir,
    desc: RelationDesc,
    tables: BTreeMap<Table, Arc<RelationDesc>>,
    encode: EncodeOptions,
}

struct Resolver<'a>(&'a BTreeMap<Table, Arc<RelationDesc>>);

impl TableResolver for Resolver<'_> {
    fn resolve(&self, name: &[String]) -> Result<ResolvedTable, SqlError> {
        let found = self.0.iter().find(|(table, _)| name.last().is_some_and(|name| name == table.name()));
        let (table, desc) = found.ok_or_else(|| SqlError::internal(format!("there is no table {name:?}")))?;
        Ok(ResolvedTable::Collection {
            name: None,
            id: id(*table),
            desc: Arc::clone(desc),
            columns: desc.arity(),
            names: Vec::new(),
            primary_key: Vec::new(),
        })
    }
}

fn id(table: Table) -> GlobalId {
    GlobalId::User(table as u64 + 1)
}

impl View {
    /// Plans a query as the server plans a view.
    pub(crate) fn of_query(query: u8) -> Result<View> {
        let engine = Engine::new(sql::dialect::DIALECTS);
        let mut tables = BTreeMap::new();
        for statement in parse(tpch::SCHEMA)? {
            let Statement::CreateTable(create) = statement.ast else { continue };
            let table = Table::ALL.into_iter().find(|table| table.name() == create.name.item());
            let table = table.with_context(|| format!("{} is not a table of TPC-H", create.name))?;
            let columns = create.columns.into_iter().map(|column| (column.name, column.ty, true));
            tables.insert(table, Arc::new(RelationDesc::new(columns)));
        }
        let name = format!("q{query:02}");
        let (_, text) =
            tpch::queries().find(|(found, _)| *found == name).with_context(|| format!("no query {query}"))?;
        let planned = sql::bind::plan_query(parse_query(text)?.as_ref(), &Resolver(&tables), &mut Params::none())?;
        let mut plan = lower(&engine.optimize(planned.plan, &SessionInfo::default())?, &engine)?;
        plan.schema = Arc::clone(&planned.desc.schema);
        Ok(View { plan, desc: planned.desc, tables, encode: EncodeOptions::default() })
    }

    /// What is rendered.
    pub(crate) fn plan(&self) -> &Lir {
        &self.plan
    }

    /// Whether a table is among its inputs.
    pub(crate) fn reads(&self, table: Table) -> bool {
        self.plan.tables().contains(&id(table))
    }

    /// A table as the plan names it.
    pub(crate) fn id(&self, table: Table) -> GlobalId {
        id(table)
    }

    /// Appends a row as tables hold it.
    pub(crate) fn encode(&self, table: Table, row: &Row, diff: i64, updates: &mut Updates) -> Result<()> {
        let desc = &self.tables[&table];
        updates.push_with(diff, |out| {
            for (column, field) in desc.columns.iter().zip(row.fields()) {
                let datum = match field {
                    None => repr::Datum::Null,
                    Some(text) => decode_text(&column.ty, text, &self.encode)?,
                };
                write_datum(out, &column.data_type, &datum)?;
            }
            Ok(())
        })
    }
}

/// A maintained view.
pub(crate) struct Rendered {
    controller: Controller,
    handle: Arc<IndexHandle>,
    desc: RelationDesc,
    encode: EncodeOptions,
    ts: Timestamp,
}

impl Rendered {
    /// Renders the view, arranged by its first column, and waits until it is hydrated with these rows.
    pub(crate) fn start(view: View, workers: usize, rows: &[(GlobalId, Arc<Updates>)]) -> Result<Rendered> {
        let mut controller =
            Controller::new(Box::new(LocalWorkers), Arc::new(OwnThreads), &Share::root(usize::MAX, None), usize::MAX);
        controller.create_cluster(CLUSTER, "bench", workers);
        let clocks: Clocks = view.plan.tables().into_iter().map(|id| (id, Arc::default())).collect();
        let handle =
            Arc::new(IndexHandle::new(GlobalId::User(100), workers, clocks, Vec::new(), Allowance::unlimited()));
        let spec = IndexSpec {
            id: handle.id,
            name: "bench".to_owned(),
            plan: view.plan,
            key: vec![KeyExpr::Column(0)],
            maintained: BTreeSet::new(),
            as_of: AS_OF,
            from: AS_OF,
            handle: Arc::clone(&handle),
        };
        let rows = rows.to_vec();
        let created = controller.create_index(CLUSTER, spec, None, std::future::ready(()), move |give| {
            rows.into_iter().try_for_each(|(id, rows)| give(id, AS_OF, Piece::Oks(rows)))
        });
        created.map_err(|error| anyhow!("{error:?}"))?;
        while !handle.is_hydrated() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Rendered { controller, handle, desc: view.desc, encode: view.encode, ts: AS_OF })
    }

    /// Feeds a batch and waits until readers can see it.
    pub(crate) fn apply(&mut self, batch: &Batch) -> Result<()> {
        let since = self.ts;
        self.ts += 1;
        let touched = self.controller.append(self.ts, since, batch).map_err(|error| anyhow!("{error:?}"))?;
        touched.iter().for_each(|handle| handle.wait_published(self.ts, Instant::now() + PATIENCE));
        ensure!(self.handle.upper() > self.ts, "a batch was not visible after {PATIENCE:?}");
        Ok(())
    }

    /// The rows that readers see, as text without padding.
    pub(crate) fn rows(&mut self) -> Result<Vec<Vec<String>>> {
        let mut rows = Vec::new();
        for slot in self.handle.slots() {
            let snapshot = slot.load_full();
            ensure!(first_error(&snapshot, self.ts).is_none(), "the view has errors");
            let mut hits = Hits::new();
            Walk::new(&snapshot.oks, Bounds::All).take(&snapshot.oks, self.ts, usize::MAX, &mut hits);
            for hit in &hits {
                let row = self.text(value(&snapshot.oks, hit));
                rows.extend((0..hit.count).map(|_| row.clone()));
            }
        }
        Ok(rows)
    }

    fn text(&self, mut row: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        for column in &self.desc.columns {
            let (mut scratch, mut out) = (Vec::new(), Vec::new());
            let mut value = skip_datum(&mut row, &column.data_type);
            encode_text(&column.ty, &read_datum(&mut value, &column.data_type, &mut scratch), &self.encode, &mut out);
            fields.push(String::from_utf8_lossy(&out).trim_end().to_owned());
        }
        fields
    }
}
