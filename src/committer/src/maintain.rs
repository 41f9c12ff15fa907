//! Starts what clusters maintain: indexes, materialized views, and what a SUBSCRIBE follows.
//!
//! A dataflow is *hydrated* with its inputs as of a time and then follows them. Tables come from their shards; a
//! materialized view comes from what its own dataflow has published, for which the hydration waits, and is held until then.
//! What a join finds in the arrangement of an index is read there, once the index is hydrated.
//!
//! # Invariants
//! - Runs on the committer's thread: everything at or below [`Job::from`] is what a dataflow is hydrated with, and everything
//!   after it is what it is fed.

use crate::environment::Environment;
use crate::error::CommitError;
use crate::materialized::{self, Materialized};
use crate::plans::{Durable, described};
use crate::published::Published;
use compute_client::controller::{Controller, Seed};
use compute_client::error::ComputeError;
use compute_client::hydration::Piece;
use compute_client::index::{Clocks, IndexHandle, Schedules};
use compute_client::plan::lir::Lir;
use compute_client::plan::reuse::reuse;
use compute_client::plan::share::share;
use compute_client::progress::Progress;
use compute_client::protocol::{IndexSpec, KeyExpr, layout};
use compute_client::schedule::Schedule;
use compute_client::tail::{At, Tail};
use engine::names::ClusterId;
use ore::exit::{End, Exit};
use persist::{PersistClient, PersistError};
use repr::{GlobalId, Timestamp, Updates};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows of a maintained input that are sent at once.
const PIECE_ROWS: usize = 16_384;

/// Everything that is maintained.
pub(crate) struct Dataflows {
    pub(crate) controller: Controller,
    pub(crate) materialized: Materialized,
}

/// Something to be maintained.
pub(crate) struct Job {
    pub id: GlobalId,
    /// For logs.
    pub name: String,
    pub cluster: ClusterId,
    /// What its rows are.
    pub plan: Lir,
    /// What they are arranged by.
    pub key: Vec<KeyExpr>,
    /// It is readable from this time on.
    pub as_of: Timestamp,
    /// The current time: its inputs are followed from here.
    pub from: Timestamp,
}

/// Starts a dataflow.
pub(crate) fn maintain(
    env: &Environment,
    published: &Published,
    dataflows: &mut Dataflows,
    job: Job,
    durable: Durable,
) -> Result<Arc<IndexHandle>, CommitError> {
    let Job { id, name, cluster, plan, key, as_of, from } = job;
    let arrangements = |table| dataflows.controller.arrangements(cluster.0, table, as_of, id);
    let plan = share(reuse(plan, &|table| described(published, table, arrangements(table))));
    let missing = |what: &str| CommitError::internal(format!("{id} has no {what}"));
    let worker_count = dataflows.controller.worker_count(cluster.0).ok_or_else(|| missing("workers"))?;
    let (mut clocks, mut schedules) = (Clocks::new(), Schedules::new());
    let (mut maintained, mut inputs) = (BTreeSet::new(), Vec::new());
    for input in plan.tables() {
        if let Some(table) = published.tables.get(&input) {
            clocks.insert(input, Arc::clone(&table.clock));
        }
    }
    for index in plan.arrangements() {
        let handle = dataflows.controller.handle(cluster.0, index).ok_or_else(|| missing("arrangement"))?;
        inputs.push((index, Input::Arranged(handle)));
    }
    for input in plan.fed() {
        if published.tables.contains_key(&input) {
            inputs.push((input, Input::Shard(env.persist.clone(), plan.columns_of(input))));
        } else {
            let handle = published.maintained(input).ok_or_else(|| missing("input"))?;
            clocks.extend(handle.clocks().iter().map(|(table, clock)| (*table, Arc::clone(clock))));
            let other = |(id, _): &&(GlobalId, _)| schedules.iter().all(|(known, _)| known != id);
            let below: Schedules = handle.schedules().iter().filter(other).cloned().collect();
            schedules.extend(below);
            maintained.insert(input);
            // Held until it has been read.
            inputs.push((input, Input::Maintained(Arc::clone(handle), env.holds.acquire(as_of))));
        }
    }
    if plan.temporal_count() > 0 {
        schedules.push((id, Arc::new(Schedule::new(worker_count * plan.temporal_count(), env.handle.ring()))));
    }
    let allowance = dataflows.controller.allowance(cluster.0, &name).ok_or_else(|| missing("workers"))?;
    let layout = layout(&plan, &key).filter(|_| maintained.is_empty() && matches!(durable, Durable::No));
    let handle = IndexHandle::new(id, worker_count, clocks, schedules, allowance).with_layout(layout);
    let handle = Arc::new(handle.with_alarm(matches!(durable, Durable::Yes), env.handle.ring()));
    let seed = match durable {
        Durable::No => None,
        Durable::Yes => {
            let is_marked = materialized::is_marked(&env.persist, id)?;
            dataflows.materialized.add(id, Tail::from_start(Arc::clone(&handle)), is_marked);
            let is_shown = is_marked && !handle.is_temporal();
            if is_shown { Some(seed(env, id, from)?) } else { None }
        }
    };
    let spec = IndexSpec { id, name, plan, key, maintained, as_of, from, handle: Arc::clone(&handle) };
    // Opened here, while nothing commits; what was readable a moment ago stays so.
    let contents = inputs
        .into_iter()
        .map(|(input, source)| source.open(input, as_of, from).map(|contents| (input, contents)))
        .collect::<Result<Vec<_>, _>>()?;
    for (input, contents) in &contents {
        if let (Contents::Shard(..), Some(stats)) = (contents, env.persist.shard_stats((*input).into())) {
            handle.progress().expect(stats.update_count, stats.bytes);
        }
    }
    let awaited: Vec<_> = contents.iter().filter_map(|(_, contents)| contents.maintained()).collect();
    let ready = async move {
        for handle in awaited {
            handle.wait_until(|handle| handle.all_complete(as_of)).await;
        }
    };
    let (progress, end) = (Arc::clone(&handle), env.end);
    dataflows.controller.create_index(cluster.0, spec, seed, ready, move |feed| {
        contents.into_iter().try_for_each(|(input, contents)| {
            let mut give = |ts, piece| feed(input, ts, piece);
            let read = contents.read(as_of, from, progress.progress(), &mut give);
            read.map_err(|error| unreadable(id, input, error, end))
        })
    })?;
    Ok(handle)
}

/// What the readers of a dataflow are told of which an input cannot be read. A dataflow without all of its rows would give wrong
/// answers; without any it gives none.
fn unreadable(id: GlobalId, input: GlobalId, error: ReadError, end: End) -> ComputeError {
    match error {
        // Whoever dropped the input drops or rebuilds what reads it.
        ReadError::Compute(
            error @ (ComputeError::Dropped(_) | ComputeError::Unreadable { .. } | ComputeError::OutOfMemory(_)),
        ) => error,
        ReadError::Persist(error) if error.is_damage() => {
            tracing::error!(%id, %input, %error, "what is durable is damaged; reads of it will fail");
            ComputeError::Unreadable { sqlstate: error.sqlstate(), message: error.to_string() }
        }
        error => {
            tracing::error!(%id, %input, %error, "hydration failed; ending the process");
            let exit = match &error {
                ReadError::Persist(error) => error.exit(),
                ReadError::Compute(_) => Exit::StorageFailed,
            };
            end(exit, &error)
        }
    }
}

/// What a materialized view held when the server stopped.
fn seed(env: &Environment, id: GlobalId, as_of: Timestamp) -> Result<Seed, CommitError> {
    let snapshot = match env.persist.snapshot(id.into(), as_of) {
        Err(error) if !error.is_damage() => return Err(error.into()),
        snapshot => snapshot,
    };
    Ok(Box::new(move || {
        snapshot.and_then(materialized::rows).unwrap_or_else(|error| {
            tracing::warn!(%id, %error, "what a materialized view held is not shown");
            None
        })
    }))
}

/// Where the contents of an input are.
enum Input {
    /// Of which these columns are read, if not all are.
    Shard(PersistClient, Option<BTreeSet<usize>>),
    /// In the arrangement of an index, where they stay.
    Arranged(Arc<IndexHandle>),
    Maintained(Arc<IndexHandle>, compute_client::read_hold::ReadHold),
}

/// The contents of an input, opened.
enum Contents {
    Shard(Box<persist::ShardContents>, BTreeMap<Timestamp, Updates>),
    Damaged(PersistError),
    Arranged(Arc<IndexHandle>),
    Maintained(Arc<IndexHandle>, compute_client::read_hold::ReadHold),
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Persist(#[from] PersistError),
    #[error(transparent)]
    Compute(#[from] ComputeError),
}

impl Input {
    fn open(self, id: GlobalId, as_of: Timestamp, from: Timestamp) -> Result<Contents, CommitError> {
        Ok(match self {
            Input::Shard(persist, columns) => match open_shard(&persist, id, columns, as_of, from) {
                Ok((contents, later)) => Contents::Shard(Box::new(contents), later),
                // Told by whoever reads it: what does not read it goes on.
                Err(error) if error.is_damage() => Contents::Damaged(error),
                Err(error) => return Err(error.into()),
            },
            Input::Arranged(handle) => Contents::Arranged(handle),
            Input::Maintained(handle, hold) => Contents::Maintained(handle, hold),
        })
    }
}

fn open_shard(
    persist: &PersistClient,
    id: GlobalId,
    columns: Option<BTreeSet<usize>>,
    as_of: Timestamp,
    from: Timestamp,
) -> Result<(persist::ShardContents, BTreeMap<Timestamp, Updates>), PersistError> {
    let later = if as_of < from { persist.changes(id.into(), as_of, from)? } else { BTreeMap::new() };
    Ok((persist.contents(id.into(), as_of, columns)?, later))
}

impl Contents {
    /// What has to be hydrated before.
    fn maintained(&self) -> Option<Arc<IndexHandle>> {
        match self {
            Contents::Shard(..) | Contents::Damaged(_) => None,
            Contents::Arranged(handle) | Contents::Maintained(handle, _) => Some(Arc::clone(handle)),
        }
    }

    /// Gives what was there at `as_of`, and what happened until `from`.
    fn read(
        self,
        as_of: Timestamp,
        from: Timestamp,
        progress: &Progress,
        give: &mut dyn FnMut(Timestamp, Piece) -> Result<(), ComputeError>,
    ) -> Result<(), ReadError> {
        match self {
            Contents::Damaged(error) => return Err(error.into()),
            Contents::Arranged(handle) => handle.check()?,
            Contents::Shard(contents, later) => {
                for rows in *contents {
                    give(as_of, Piece::Oks(Arc::new(rows?)))?;
                }
                for (ts, rows) in later {
                    give(ts, Piece::Oks(Arc::new(rows)))?;
                }
            }
            Contents::Maintained(handle, hold) => {
                let (mut contents, mut tail) =
                    futures::executor::block_on(Tail::since(Arc::clone(&handle), as_of, usize::MAX))?;
                drop(hold);
                let (updates, bytes) = handle.size();
                progress.expect(updates as u64, bytes as u64);
                while let Some(rows) = contents.next_rows(PIECE_ROWS) {
                    give(as_of, Piece::Oks(Arc::new(rows)))?;
                }
                give(as_of, Piece::Errs(Arc::new(contents.errors())))?;
                if as_of < from {
                    futures::executor::block_on(handle.wait_until(|handle| handle.all_complete(from)));
                    for (ts, At { oks, errs }) in tail.take()?.into_iter().flat_map(|changes| changes.at) {
                        if ts <= from {
                            give(ts, Piece::Oks(Arc::new(oks)))?;
                            give(ts, Piece::Errs(Arc::new(errs)))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
