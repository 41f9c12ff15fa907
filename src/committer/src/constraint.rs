//! What a table demands of its rows, compiled for those who write: keys, conditions, NOT NULL.
//!
//! NOT NULL and CHECK are about one row, so the session that makes a row checks them. A key is about all rows, of which only
//! the committer knows (`group_commit/claims.rs`). A write says by which definition its rows were checked; if that is not
//! the table's any more, because DDL came between, the committer checks them again.
//!
//! # Invariants
//! - A table's definition is one `Arc` for as long as neither its columns nor its constraints and unique indexes change.

mod key;
mod reference;
mod run;
mod validate;

use crate::error::CommitError;
use arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use catalog::state::State;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use engine::error::SqlError;
use engine::{Engine, SessionInfo};
use persist::PersistClient;
use pgrepr::options::EncodeOptions;
use repr::row::{RowCodec, read_datum, skip_datum};
use repr::sqlstate::SqlState;
use repr::subject::{Part, Subject};
use repr::{Datum, GlobalId, RelationDesc, Updates};
use sql::plan::constraint::{Check, Reference as Planned, keys, plan_checks, references, references_to};
use sql::plan::{ItemRef, PlanContext};
use sql_functions::row::has_long;
use sql_syntax::names::FullName;
use std::collections::HashMap;
use std::sync::Arc;

pub use key::{CountedKey, Duplicate, KeyCounts, NetKeys, duplicate, first_duplicate, net_keys};
pub use reference::{Orphan, Reference, Violation, orphan};
pub use run::LoadedKeys;
pub(crate) use run::{Changed, KeyRun, Watch, both};
pub use validate::{Validated, validate};

/// Rows that are checked at once.
const CHECKED_ROWS: usize = 8_192;
/// Bytes of a value that DETAIL shows, as in Postgres.
const SHOWN_BYTES_MAX: usize = 64;

/// What a table demands of its rows.
#[derive(Debug)]
pub struct TableConstraints {
    /// Its columns; those that are not nullable are NOT NULL.
    pub desc: Arc<RelationDesc>,
    /// Their types.
    pub types: Arc<[DataType]>,
    /// PRIMARY KEY, UNIQUE and unique indexes, in the order in which they are checked.
    pub keys: Vec<CountedKey>,
    /// Its FOREIGN KEYs.
    pub references: Vec<Arc<Reference>>,
    /// The FOREIGN KEYs of tables, itself among them, that refer to it.
    pub referenced: Vec<Arc<Reference>>,
    checks: Vec<Check>,
    /// Whether a condition calls what may take long.
    pub has_long_checks: bool,
    /// Its columns without a qualifier, as expressions over them are bound.
    pub schema: DFSchemaRef,
}

/// How violations are put into words.
#[derive(Clone, Copy)]
pub struct Wording<'a> {
    /// The table.
    pub table: &'a FullName,
    /// How values are printed.
    pub options: &'a EncodeOptions,
    /// Whether its rows may be shown to who reads the error.
    pub shows_rows: &'a dyn Fn() -> bool,
}

impl TableConstraints {
    /// The keys of these constraints that the latest rows of the table have.
    pub fn stored_keys(
        &self,
        persist: &PersistClient,
        table: GlobalId,
        constraints: &[u32],
    ) -> Result<Validated, CommitError> {
        let keys: Vec<&CountedKey> = constraints.iter().filter_map(|oid| self.counted(*oid)).collect();
        let mut taken: Validated = keys.iter().map(|key| (key.oid, KeyCounts::new())).collect();
        for rows in persist.snapshot(table.into(), persist.upper().saturating_sub(1))? {
            for (row, copies) in rows?.iter() {
                for (key, (_, taken)) in keys.iter().zip(&mut taken) {
                    if let Some(bytes) = key.of(&self.types, row) {
                        *taken.entry(bytes.into()).or_default() += copies;
                    }
                }
            }
        }
        Ok(taken)
    }

    /// Those of a table.
    pub fn of(engine: &Engine, state: &State, table: &ItemRef) -> Result<Arc<TableConstraints>, SqlError> {
        let session = SessionInfo::default();
        let ctx = PlanContext {
            engine,
            catalog: state,
            session: &session,
            role: table.owner,
            cluster: "",
            from_tables: true,
        };
        let (keys, checks) = (keys(state, table).into_iter(), plan_checks(&ctx, table)?);
        Ok(Arc::new(TableConstraints {
            desc: Arc::clone(&table.desc),
            types: table.desc.columns.iter().map(|column| column.data_type.clone()).collect(),
            keys: keys.map(|key| CountedKey::new(key, &table.desc)).collect(),
            has_long_checks: checks.iter().any(|check| has_long(&check.expr)),
            checks,
            references: planned(&ctx, references(state, table))?,
            referenced: planned(&ctx, references_to(state, table))?,
            schema: Arc::new(DFSchema::try_from(Arc::clone(&table.desc.schema))?),
        }))
    }

    /// Whether it has conditions.
    pub fn has_checks(&self) -> bool {
        !self.checks.is_empty()
    }

    /// The key with this oid.
    pub fn key(&self, oid: u32) -> Option<&CountedKey> {
        self.keys.iter().find(|key| key.oid == oid)
    }

    /// The keys of which is counted how often each is there: of constraints and of foreign keys.
    pub fn all_counted(&self) -> impl Iterator<Item = &CountedKey> {
        self.keys.iter().chain(self.references.iter().map(|reference| &reference.key))
    }

    /// The one of these with this oid.
    pub fn counted(&self, oid: u32) -> Option<&CountedKey> {
        self.all_counted().find(|key| key.oid == oid)
    }

    /// Whether a foreign key is of it, or refers to it.
    pub fn has_references(&self) -> bool {
        !(self.references.is_empty() && self.referenced.is_empty())
    }

    /// The other tables whose keys are asked for when it is written to.
    pub fn related(&self) -> impl Iterator<Item = GlobalId> {
        let parents = self.references.iter().map(|reference| reference.parent);
        parents.chain(self.referenced.iter().map(|reference| reference.child))
    }

    /// The same with only those of its keys and foreign keys that another definition has as well, and without conditions.
    pub fn as_before(&self, before: Option<&TableConstraints>) -> TableConstraints {
        let is_kept = |key: &CountedKey| before.is_some_and(|before| before.counted(key.oid).is_some());
        let was_referenced = |reference: &&Arc<Reference>| {
            let is_it = |known: &Arc<Reference>| known.key.oid == reference.key.oid;
            before.is_some_and(|before| before.referenced.iter().any(is_it))
        };
        TableConstraints {
            desc: Arc::clone(&self.desc),
            types: Arc::clone(&self.types),
            keys: self.keys.iter().filter(|key| is_kept(key)).cloned().collect(),
            references: self.references.iter().filter(|reference| is_kept(&reference.key)).cloned().collect(),
            referenced: self.referenced.iter().filter(was_referenced).cloned().collect(),
            checks: Vec::new(),
            has_long_checks: false,
            schema: Arc::clone(&self.schema),
        }
    }

    /// The foreign keys that the rows which are there have yet to be checked against.
    pub fn new_references<'a>(
        &'a self,
        before: Option<&'a TableConstraints>,
    ) -> impl Iterator<Item = &'a Arc<Reference>> {
        let is_checked = move |reference: &Arc<Reference>| {
            let is_it = |known: &Arc<Reference>| known.key.oid == reference.key.oid && known.foreign.is_valid;
            before.is_some_and(|before| before.references.iter().any(is_it))
        };
        self.references.iter().filter(move |reference| reference.foreign.is_valid && !is_checked(reference))
    }

    /// Whether rows that satisfy `before` may not satisfy this.
    pub fn demands_more_than(&self, before: &TableConstraints) -> bool {
        let columns = self.desc.columns.iter().zip(&before.desc.columns);
        self.keys.iter().any(|key| before.key(key.oid).is_none())
            || self.references.iter().any(|reference| before.counted(reference.key.oid).is_none())
            || self.new_references(Some(before)).next().is_some()
            || self.checks.iter().any(|check| before.checks.iter().all(|known| known.oid != check.oid))
            || columns.into_iter().any(|(after, before)| !after.nullable && before.nullable)
    }

    /// Checks what NOT NULL and CHECK demand of the rows that `updates` add. Errors: 23502, 23514, and those of a condition that
    /// cannot be evaluated.
    pub fn check_rows(
        &self,
        engine: &Engine,
        info: &SessionInfo,
        updates: &Updates,
        wording: Wording<'_>,
    ) -> Result<(), CommitError> {
        self.check_not_null(updates, wording)?;
        self.check_full(updates, wording)?;
        self.check_conditions(engine, info, updates, wording)
    }

    fn check_not_null(&self, updates: &Updates, wording: Wording<'_>) -> Result<(), CommitError> {
        if self.desc.columns.iter().all(|column| column.nullable) {
            return Ok(());
        }
        for (row, _) in updates.iter().filter(|(_, diff)| *diff > 0) {
            if let Some(column) = self.null_column(row, |_| true) {
                return Err(not_null(&self.desc, column, row, wording));
            }
        }
        Ok(())
    }

    /// The first of the NOT NULL columns of which `counts` is true that has none in a row.
    fn null_column(&self, row: &[u8], counts: impl Fn(usize) -> bool) -> Option<usize> {
        let mut rest = row;
        self.desc.columns.iter().enumerate().find_map(|(at, column)| {
            let value = skip_datum(&mut rest, &column.data_type);
            // NULL of any type begins with a zero.
            (!column.nullable && counts(at) && value.first() == Some(&0)).then_some(at)
        })
    }

    /// Checks what CHECK demands of the rows that `updates` add.
    pub fn check_conditions(
        &self,
        engine: &Engine,
        info: &SessionInfo,
        updates: &Updates,
        wording: Wording<'_>,
    ) -> Result<(), CommitError> {
        if self.checks.is_empty() {
            return Ok(());
        }
        let conditions = Conditions::new(self, engine, info, |_| true)?;
        let rows: Vec<&[u8]> = updates.iter().filter(|(_, diff)| *diff > 0).map(|(row, _)| row).collect();
        for (chunk, rows) in rows.chunks(CHECKED_ROWS).enumerate() {
            if let Some((row, check)) = conditions.first_violation(rows)? {
                let (relation, name) = (&wording.table.item, &check.name);
                let message = format!("new row for relation \"{relation}\" violates check constraint \"{name}\"");
                let detail = wording.failing_row(&self.desc, rows[row]);
                let subject = Subject { row: Some(chunk * CHECKED_ROWS + row), ..wording.constraint(name) };
                return Err(CommitError::violation(SqlState::CHECK_VIOLATION, message, detail, subject));
            }
        }
        Ok(())
    }
}

/// CHECK constraints, compiled for one statement.
struct Conditions<'a> {
    table: &'a TableConstraints,
    checks: Vec<(&'a Check, Arc<dyn PhysicalExpr>)>,
    codec: RowCodec,
}

impl<'a> Conditions<'a> {
    /// Those of which `counts` is true.
    fn new(
        table: &'a TableConstraints,
        engine: &Engine,
        info: &SessionInfo,
        counts: impl Fn(&Check) -> bool,
    ) -> Result<Conditions<'a>, CommitError> {
        let checks = table.checks.iter().filter(|check| counts(check));
        let checks = checks
            .map(|check| Ok((check, engine.create_physical_expr(&check.expr, &table.schema, info)?)))
            .collect::<Result<_, SqlError>>()?;
        Ok(Conditions { table, checks, codec: RowCodec::new(&table.types)? })
    }

    /// The first row that violates a condition, and the first condition that it violates.
    fn first_violation(&self, rows: &[&[u8]]) -> Result<Option<(usize, &'a Check)>, CommitError> {
        if rows.is_empty() || self.checks.is_empty() {
            return Ok(None);
        }
        match (self.evaluate(rows), rows) {
            // Of several rows it may be a later one that cannot be evaluated.
            (Err(_), [_, _, ..]) => {
                for (at, row) in rows.iter().enumerate() {
                    if let Some((_, check)) = self.first_violation(&[*row])? {
                        return Ok(Some((at, check)));
                    }
                }
                Ok(None)
            }
            (found, _) => found,
        }
    }

    fn evaluate(&self, rows: &[&[u8]]) -> Result<Option<(usize, &'a Check)>, CommitError> {
        let internal = |error: &dyn std::fmt::Display| CommitError::internal(error.to_string());
        let columns = self.codec.decode(rows.iter().copied())?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.table.desc.schema), columns, &options)
            .map_err(|error| internal(&error))?;
        let mut first: Option<(usize, &Check)> = None;
        for (check, condition) in &self.checks {
            let holds = condition.evaluate(&batch).and_then(|value| value.into_array(rows.len()));
            let holds = holds.map_err(SqlError::from)?;
            let holds = holds.as_any().downcast_ref::<BooleanArray>();
            let holds = holds.ok_or_else(|| internal(&format!("CHECK {} is no condition", check.name)))?;
            // NULL is not false.
            let violated = (0..rows.len()).find(|at| holds.is_valid(*at) && !holds.value(*at));
            if let Some(at) = violated
                && first.is_none_or(|(before, _)| at < before)
            {
                first = Some((at, *check));
            }
        }
        Ok(first)
    }
}

impl Wording<'_> {
    /// DETAIL of a row, for who may see it.
    fn failing_row(&self, desc: &RelationDesc, row: &[u8]) -> Option<String> {
        (self.shows_rows)().then(|| failing_row(desc, row, self.options))
    }

    fn column(&self, name: &str) -> Subject {
        self.subject(Part::Column(name.to_owned()))
    }

    fn constraint(&self, name: &str) -> Subject {
        self.subject(Part::Constraint(name.to_owned()))
    }

    fn subject(&self, part: Part) -> Subject {
        Subject { schema: self.table.schema.clone(), table: self.table.item.clone(), part, row: None }
    }
}

fn planned(ctx: &PlanContext<'_>, all: Vec<Planned>) -> Result<Vec<Arc<Reference>>, SqlError> {
    all.iter().map(|reference| Ok(Arc::new(Reference::new(ctx, reference)?))).collect()
}

/// 23502 of a row.
pub fn not_null(desc: &RelationDesc, column: usize, row: &[u8], wording: Wording<'_>) -> CommitError {
    let (column, relation) = (&desc.columns[column].name, &wording.table.item);
    let message = format!("null value in column \"{column}\" of relation \"{relation}\" violates not-null constraint");
    let detail = wording.failing_row(desc, row);
    CommitError::violation(SqlState::NOT_NULL_VIOLATION, message, detail, wording.column(column))
}

/// `Failing row contains (1, null).`, long values cut off.
fn failing_row(desc: &RelationDesc, row: &[u8], options: &EncodeOptions) -> String {
    let mut rest = row;
    let values = desc.columns.iter().map(|column| {
        let bytes = skip_datum(&mut rest, &column.data_type);
        let mut text = value_text(column, bytes, options);
        if text.len() > SHOWN_BYTES_MAX {
            let mut end = SHOWN_BYTES_MAX;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("...");
        }
        text
    });
    format!("Failing row contains ({}).", values.collect::<Vec<_>>().join(", "))
}

/// A stored value as Postgres prints it.
fn value_text(column: &repr::ColumnDesc, bytes: &[u8], options: &EncodeOptions) -> String {
    let (mut rest, mut scratch) = (bytes, Vec::new());
    match read_datum(&mut rest, &column.data_type, &mut scratch) {
        Datum::Null => "null".to_owned(),
        datum => {
            let mut text = Vec::new();
            pgrepr::text::encode_text(&column.ty, &datum, options, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
    }
}

/// Whether updates take nothing away: then each is a row as it is.
pub fn only_adds(updates: &Updates) -> bool {
    updates.iter().all(|(_, diff)| diff > 0)
}

/// Rows by what is added to them and taken from them; those of which nothing remains are left out.
pub fn net_rows(updates: &Updates) -> HashMap<&[u8], repr::Diff> {
    let mut net: HashMap<&[u8], repr::Diff> = HashMap::new();
    for (row, diff) in updates.iter() {
        *net.entry(row).or_default() += diff;
    }
    net.retain(|_, diff| *diff != 0);
    net
}
