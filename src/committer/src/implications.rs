//! What follows from a catalog change, and nothing else: clusters to start, indexes to build, handles to hand out.
//!
//! Boot is the same code, from the empty catalog to the stored one.
//!
//! # Invariants
//! - Runs on the committer's thread, after the change is durable and before it is published: no write can come between an
//!   index's starting point and the updates that follow it.

use crate::environment::Environment;
use crate::error::CommitError;
use crate::maintain::{Dataflows, Job, maintain};
use crate::plans::{Planned, Plans, planned};
use crate::published::{Published, Table};
use crate::sequence::Sequence;
use catalog::state::State;
use catalog::transact::StateDiff;
use compute_client::clock::CollectionClock;
use compute_client::plan::IndexInfo;
use engine::names::ClusterId;
use repr::{GlobalId, Timestamp};
use sql::plan::CatalogView;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Carries out a change, of which some plans may be known, and returns what readers shall see next.
#[expect(clippy::too_many_arguments, reason = "what there is, what changes, and where it is carried out")]
pub(crate) fn apply(
    env: &Environment,
    before: &Published,
    state: Arc<State>,
    diff: &[StateDiff],
    dataflows: &mut Dataflows,
    ts: Timestamp,
    mut plans: Plans,
) -> Result<Published, CommitError> {
    let mut after = before.next(state);
    for change in diff {
        match change {
            StateDiff::ClusterCreated(id) => start_cluster(&after.state, *id, dataflows),
            StateDiff::ClusterDropped(id) => dataflows.controller.drop_cluster(id.0),
            StateDiff::TableCreated(id) => {
                let clock = Arc::new(CollectionClock::default());
                clock.advance(ts);
                let since = env.persist.shard_stats((*id).into()).map_or(0, |stats| stats.since);
                put_table(env, &mut after, *id, (clock, since))?;
            }
            StateDiff::TableAltered(id) => {
                if let Some(table) = after.tables.get(id) {
                    let kept = (Arc::clone(&table.clock), table.readable_from);
                    put_table(env, &mut after, *id, kept)?;
                }
            }
            StateDiff::TableDropped(id) => {
                after.tables.remove(id);
            }
            StateDiff::IndexCreated(id) | StateDiff::MaterializedViewCreated(id) => {
                start(env, &mut after, *id, dataflows, ts, &mut plans)?;
            }
            StateDiff::IndexDropped(id) | StateDiff::MaterializedViewDropped(id) => stop(&mut after, *id, dataflows),
            StateDiff::MaterializedViewMoved(id) => {
                restart(env, &mut after, vec![*id], dataflows, ts, |_| {})?;
            }
            StateDiff::ClusterAltered(id) => {
                // The workers of a cluster are fixed when it starts: a new size means new workers and its indexes anew.
                restart_cluster(env, &mut after, *id, dataflows, ts)?;
            }
            StateDiff::SequenceCreated(id) | StateDiff::SequenceAltered(id, _) => {
                let stored = after.state.item(*id).map(|item| Sequence::stored(&env.persist, &item)).transpose()?;
                stored.flatten().into_iter().for_each(|sequence| after.put_sequence(sequence));
            }
            StateDiff::SequenceDropped(id) => {
                after.sequences.remove(id);
                after.sequence_oids.retain(|_, sequence| sequence != id);
            }
            StateDiff::Renamed(_) => rename(&mut after),
            _ => {}
        }
    }
    Ok(after)
}

/// A table as the catalog has it now.
fn put_table(
    env: &Environment,
    after: &mut Published,
    id: GlobalId,
    (clock, readable_from): (Arc<CollectionClock>, Timestamp),
) -> Result<(), CommitError> {
    if let Some(item) = after.state.item(id) {
        let table = Table::new(&env.engine, &after.state, &item, clock, readable_from)?;
        env.persist.describe(id.into(), &table.constraints.types);
        after.tables.insert(id, table);
    }
    Ok(())
}

/// Builds these and everything that reads them anew, from what is durable as of `ts`, and returns what readers shall see:
/// under a revision of its own, as plans hold on to what they read.
pub(crate) fn start_over(
    env: &Environment,
    before: &Published,
    ids: Vec<GlobalId>,
    dataflows: &mut Dataflows,
    ts: Timestamp,
) -> Result<Published, CommitError> {
    let mut after = before.next(Arc::new(before.state.revised()));
    restart(env, &mut after, ids, dataflows, ts, |_| {})?;
    Ok(after)
}

/// What readers shall see when these have been stopped for want of memory: their tables without them. Views and what is
/// maintained of them are still read there, and told why they cannot be.
pub(crate) fn without(before: &Published, stopped: &[GlobalId]) -> Published {
    let mut after = before.next(Arc::new(before.state.revised()));
    let tables = after.tables.keys().copied().collect::<Vec<_>>();
    for table in tables {
        let Some(indexes) = after.indexes.get_mut(&table) else { continue };
        let gone = indexes.extract_if(.., |index| stopped.contains(&index.handle.id));
        after.stopped.extend(gone);
    }
    after.indexes.retain(|_, indexes| !indexes.is_empty());
    after
}

/// Indexes are shown under the names that things have now.
fn rename(after: &mut Published) {
    for (on, indexes) in &mut after.indexes {
        let on = after.state.item(*on);
        for index in indexes {
            let Some(item) = after.state.item(index.handle.id) else { continue };
            let cluster = item.cluster().and_then(|cluster| after.state.cluster(cluster));
            *index = Arc::new(IndexInfo {
                handle: Arc::clone(&index.handle),
                name: item.name.to_string(),
                cluster: cluster.map_or_else(|| index.cluster.clone(), |cluster| cluster.name.clone()),
                key: index.key.clone(),
                schema: on.as_ref().map_or_else(|| Arc::clone(&index.schema), |on| Arc::clone(&on.desc.schema)),
            });
        }
    }
}

fn start_cluster(state: &State, id: ClusterId, dataflows: &mut Dataflows) {
    if let Some(cluster) = state.cluster(id) {
        let worker_count = usize::try_from(cluster.workers).unwrap_or(1).max(1);
        dataflows.controller.create_cluster(id.0, &cluster.name, worker_count);
    }
}

fn restart_cluster(
    env: &Environment,
    after: &mut Published,
    id: ClusterId,
    dataflows: &mut Dataflows,
    ts: Timestamp,
) -> Result<(), CommitError> {
    let state = Arc::clone(&after.state);
    let Some(cluster) = state.cluster(id) else { return Ok(()) };
    if dataflows.controller.worker_count(id.0) == usize::try_from(cluster.workers).ok() {
        return Ok(());
    }
    let all = after.started().map(|index| index.handle.id);
    let here = all.filter(|index| state.item(*index).is_some_and(|item| item.cluster() == Some(id))).collect();
    restart(env, after, here, dataflows, ts, |dataflows| {
        dataflows.controller.drop_cluster(id.0);
        start_cluster(&state, id, dataflows);
    })
}

/// Stops what is maintained under these ids and everything that reads it, and starts it again after `between`.
fn restart(
    env: &Environment,
    after: &mut Published,
    ids: Vec<GlobalId>,
    dataflows: &mut Dataflows,
    ts: Timestamp,
    between: impl FnOnce(&mut Dataflows),
) -> Result<(), CommitError> {
    let (mut all, mut next) = (BTreeSet::new(), ids);
    while let Some(id) = next.pop() {
        if all.insert(id) {
            next.extend(dataflows.controller.readers(id));
        }
    }
    // Ids are never reused: what reads something is younger than it.
    let kept: Vec<GlobalId> = all.iter().filter(|id| !matches!(id, GlobalId::Transient(_))).copied().collect();
    // Before anything is stopped: where one cannot be planned, all stay as they are.
    let mut plans = Plans::new();
    for item in kept.iter().filter_map(|id| after.state.item(*id)) {
        plans.insert(item.id, planned(&env.engine, &after.state, &item)?);
    }
    all.iter().rev().for_each(|id| stop(after, *id, dataflows));
    between(dataflows);
    kept.into_iter().try_for_each(|id| start(env, after, id, dataflows, ts, &mut plans))
}

fn stop(after: &mut Published, id: GlobalId, dataflows: &mut Dataflows) {
    dataflows.controller.drop_index(id);
    dataflows.materialized.remove(id);
    for indexes in after.indexes.values_mut() {
        indexes.retain(|index| index.handle.id != id);
    }
    after.indexes.retain(|_, indexes| !indexes.is_empty());
    after.stopped.retain(|index| index.handle.id != id);
}

/// Starts an index or a materialized view.
fn start(
    env: &Environment,
    after: &mut Published,
    id: GlobalId,
    dataflows: &mut Dataflows,
    ts: Timestamp,
    plans: &mut Plans,
) -> Result<(), CommitError> {
    let state = Arc::clone(&after.state);
    let missing = |what: &str| CommitError::internal(format!("{id} has no {what}"));
    let item = state.item(id).ok_or_else(|| missing("definition"))?;
    let Planned { on, plan, keys, columns, durable } = match plans.remove(&id) {
        Some(planned) => planned,
        None => planned(&env.engine, &state, &item)?,
    };
    let cluster = item.cluster().ok_or_else(|| missing("cluster"))?;
    let job = Job { id, name: item.name.item.clone(), cluster, plan, key: keys, as_of: ts, from: ts };
    let handle = maintain(env, after, dataflows, job, durable)?;
    after.indexes.entry(on.id).or_default().push(Arc::new(IndexInfo {
        handle,
        name: item.name.to_string(),
        cluster: state.cluster(cluster).map(|cluster| cluster.name.clone()).unwrap_or_default(),
        key: columns,
        schema: Arc::clone(&on.desc.schema),
    }));
    Ok(())
}
