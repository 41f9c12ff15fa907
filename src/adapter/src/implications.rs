//! What follows from a catalog change, and nothing else: clusters to start, indexes to build, handles to hand out.
//!
//! Boot is the same code, from the empty catalog to the stored one.
//!
//! # Invariants
//! - Runs on the committer's thread, after the change is durable and before it is published: no write can come between an
//!   index's starting point and the updates that follow it.

use crate::client::{Published, Shared, Table};
use crate::error::AdapterError;
use catalog::state::State;
use catalog::transact::StateDiff;
use compute_client::controller::Controller;
use compute_client::index::{CollectionClock, IndexHandle};
use compute_client::plan::lir::{Lir, Node};
use compute_client::plan::lower::lower;
use compute_client::plan::{IndexInfo, unqualified};
use compute_client::protocol::{IndexSpec, KeyExpr};
use datafusion::common::DFSchema;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp};
use sql::engine::{Engine, SessionInfo};
use sql::names::ClusterId;
use sql::plan::{CatalogView, IndexKey, ItemKind, ItemRef, PlanContext, plan_index_keys, plan_view};
use std::sync::Arc;

/// Carries out a change and returns what readers shall see next.
pub(crate) fn apply(
    shared: &Shared,
    before: &Published,
    state: Arc<State>,
    diff: &[StateDiff],
    controller: &mut Controller,
    ts: Timestamp,
) -> Result<Published, AdapterError> {
    let mut after = Published::new(state, before.tables.clone(), before.indexes.clone());
    for change in diff {
        match change {
            StateDiff::ClusterCreated(id) => start_cluster(&after.state, *id, controller),
            StateDiff::ClusterDropped(id) => controller.drop_cluster(id.0),
            StateDiff::TableCreated(id) => {
                if let Some(item) = after.state.item(*id) {
                    let table = Table { clock: Arc::new(CollectionClock::default()), desc: Arc::clone(&item.desc) };
                    table.clock.advance(ts);
                    after.tables.insert(*id, table);
                }
            }
            StateDiff::TableDropped(id) => {
                after.tables.remove(id);
            }
            StateDiff::IndexCreated(id) => create_index(shared, &mut after, *id, controller, ts)?,
            StateDiff::IndexDropped(id) => drop_index(&mut after, *id, controller),
            StateDiff::ClusterAltered(id) => {
                // The workers of a cluster are fixed when it starts: a new size means new workers and its indexes anew.
                restart_cluster(shared, &mut after, *id, controller, ts)?;
            }
            _ => {}
        }
    }
    Ok(after)
}

fn start_cluster(state: &State, id: ClusterId, controller: &mut Controller) {
    if let Some(cluster) = state.cluster(id) {
        let worker_count = usize::try_from(cluster.workers).unwrap_or(1).max(1);
        controller.create_cluster(id.0, &cluster.name, worker_count);
    }
}

fn restart_cluster(
    shared: &Shared,
    after: &mut Published,
    id: ClusterId,
    controller: &mut Controller,
    ts: Timestamp,
) -> Result<(), AdapterError> {
    let state = Arc::clone(&after.state);
    let Some(cluster) = state.cluster(id) else { return Ok(()) };
    if controller.worker_count(id.0) == usize::try_from(cluster.workers).ok() {
        return Ok(());
    }
    let on_cluster = |item: &ItemRef| matches!(&item.kind, ItemKind::Index(index) if index.cluster == id);
    let all: Vec<GlobalId> = after.indexes.values().flatten().map(|index| index.handle.id).collect();
    let indexes: Vec<GlobalId> =
        all.into_iter().filter(|index| state.item(*index).is_some_and(|item| on_cluster(&item))).collect();
    for index in &indexes {
        drop_index(after, *index, controller);
    }
    controller.drop_cluster(id.0);
    start_cluster(&state, id, controller);
    for index in indexes {
        create_index(shared, after, index, controller, ts)?;
    }
    Ok(())
}

fn drop_index(after: &mut Published, id: GlobalId, controller: &mut Controller) {
    controller.drop_index(id);
    for indexes in after.indexes.values_mut() {
        indexes.retain(|index| index.handle.id != id);
    }
    after.indexes.retain(|_, indexes| !indexes.is_empty());
}

fn create_index(
    shared: &Shared,
    after: &mut Published,
    id: GlobalId,
    controller: &mut Controller,
    ts: Timestamp,
) -> Result<(), AdapterError> {
    let state = Arc::clone(&after.state);
    let missing = |what: &str| AdapterError::internal(format!("index {id} has no {what}"));
    let item = state.item(id).ok_or_else(|| missing("definition"))?;
    let ItemKind::Index(index) = &item.kind else { return Err(missing("definition")) };
    let on = state.item(index.on).ok_or_else(|| missing("relation"))?;
    let cluster = state.cluster(index.cluster).ok_or_else(|| missing("cluster"))?;
    let info = SessionInfo::default();
    let ctx = context(&shared.engine, &state, &info, &item);
    let plan = maintained(&ctx, &on)?;
    let tables = plan.tables();
    let clocks = tables
        .iter()
        .map(|table| after.tables.get(table).map(|table| Arc::clone(&table.clock)).ok_or_else(|| missing("table")))
        .collect::<Result<_, _>>()?;
    let keys = plan_index_keys(&ctx, &on, &index.keys)?;
    let worker_count = controller.worker_count(index.cluster.0).ok_or_else(|| missing("workers"))?;
    let handle = Arc::new(IndexHandle::new(id, worker_count, clocks));
    let spec = IndexSpec {
        id,
        name: item.name.item.clone(),
        plan,
        key: key_exprs(&shared.engine, &keys, &on, &info)?,
        as_of: ts,
        handle: Arc::clone(&handle),
    };
    let mut snapshots = Vec::new();
    for table in tables {
        let id_in_log = id;
        snapshots.push(shared.persist.snapshot(table.into(), ts)?.map(move |rows| match rows {
            Ok(rows) => (table, Arc::new(rows)),
            Err(error) => {
                // An index without all of its rows would give wrong answers; one without any gives none.
                tracing::error!(index = %id_in_log, %error, "hydration failed; ending the process");
                std::process::abort()
            }
        }));
    }
    controller.create_index(index.cluster.0, spec, snapshots.into_iter().flatten())?;
    after.indexes.entry(index.on).or_default().push(Arc::new(IndexInfo {
        handle,
        name: item.name.to_string(),
        cluster: cluster.name.clone(),
        key: index.keys.iter().map(|key| key.column).collect(),
        schema: Arc::clone(&on.desc.schema),
    }));
    Ok(())
}

/// The plan by which a relation's rows are maintained. Error 0A000 names what cannot be.
pub(crate) fn maintained(ctx: &PlanContext<'_>, on: &ItemRef) -> Result<Lir, AdapterError> {
    match &on.kind {
        ItemKind::Table { .. } | ItemKind::MaterializedView(_) => {
            Ok(Lir { node: Node::Get(on.id), schema: Arc::clone(&on.desc.schema) })
        }
        ItemKind::View(_) => maintained_view(ctx, on),
        _ => Err(AdapterError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("an index on \"{}\" is not supported", on.name.item),
        )),
    }
}

/// The plan by which the rows of a view, materialized or not, follow from what it reads. Error 0A000 names what cannot be.
pub(crate) fn maintained_view(ctx: &PlanContext<'_>, view: &ItemRef) -> Result<Lir, AdapterError> {
    let mut plan = lower(&plan_view(ctx, view)?.logical, ctx.engine)?;
    // Under the names by which readers know its columns.
    plan.schema = Arc::clone(&view.desc.schema);
    Ok(plan)
}

/// Plans as the owner of `item`, whose rights were checked when it was created.
fn context<'a>(engine: &'a Engine, state: &'a State, info: &'a SessionInfo, item: &ItemRef) -> PlanContext<'a> {
    PlanContext { engine, catalog: state, session: info, role: item.owner, cluster: "", from_tables: true }
}

/// Compiles an index's key.
pub(crate) fn key_exprs(
    engine: &Engine,
    keys: &[IndexKey],
    on: &ItemRef,
    info: &SessionInfo,
) -> Result<Vec<KeyExpr>, AdapterError> {
    let schema = DFSchema::try_from(Arc::clone(&on.desc.schema)).map_err(sql::error::SqlError::from)?;
    keys.iter()
        .map(|key| match key.def.column {
            Some(column) => Ok(KeyExpr::Column(column)),
            None => {
                let expr = unqualified(key.expr.clone())
                    .ok_or_else(|| AdapterError::internal("an index key is an expression over its relation"))?;
                let expr = engine.create_physical_expr(&expr, &schema, info)?;
                Ok(KeyExpr::Expr(expr, key.ty.data_type()))
            }
        })
        .collect()
}
