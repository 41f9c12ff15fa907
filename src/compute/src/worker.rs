//! The loop of a timely worker.
//!
//! 1. Take the commands that have arrived and apply them: build a dataflow, feed rows, advance the inputs.
//! 2. Step the dataflows.
//! 3. Publish every index whose time has completed or whose batches were merged.
//! 4. With nothing left to do, park until a command or another worker wakes the thread.
//!
//! # Invariants
//! - An index's inputs stay at its `as_of` until it is hydrated; updates of later times wait inside them. So its first
//!   published snapshot has everything up to its upper.
//! - A panic here ends the process: a worker that has lost its state must not go on answering.

use crate::publish::{self, Listener};
use crate::render::flow::{Chunk, RowFeed, Update};
use crate::render::{Feed, Rendered, render};
use arrangement::snapshot::Snapshot;
use arrangement::spine;
use compute_client::controller::Worker as WorkerHandle;
use compute_client::error::Stopped;
use compute_client::hydration::Piece;
use compute_client::index::route;
use compute_client::protocol::{ComputeCommand, IndexSpec};
use compute_client::queue::Sealed;
use crossbeam_channel::{Receiver, bounded, unbounded};
use differential_dataflow::trace::TraceReader;
use repr::{GlobalId, Timestamp, Updates};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use timely::progress::Antichain;
use timely::worker::Worker as TimelyWorker;

/// Commands that are applied before the dataflows go on, at the most.
const COMMANDS_AT_ONCE: usize = 1_024;
/// How long a worker with unfinished work waits for another worker before it looks again.
const PEER_PATIENCE: Duration = Duration::from_millis(1);

/// Starts the workers of a cluster, one thread each.
///
/// # Panics
/// When the operating system refuses a thread.
pub fn spawn(cluster: &str, worker_count: usize) -> Vec<WorkerHandle> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..worker_count).map(|_| unbounded()).unzip();
    let receivers = Arc::new(Mutex::new(receivers.into_iter().map(Some).collect::<Vec<_>>()));
    let (threads_tx, threads_rx) = bounded(worker_count);
    let config = match worker_count {
        1 => timely::Config::thread(),
        count => timely::Config::process(count),
    };
    let supervisor = ore::thread::spawn(format!("cluster-{cluster}"), move || {
        let guards = timely::execute(config, move |worker| {
            let index = worker.index();
            let commands = receivers.lock().expect("nobody panics with the lock held")[index]
                .take()
                .expect("each worker takes its own commands once");
            threads_tx.send((index, std::thread::current())).expect("the spawner waits for every worker");
            let run = AssertUnwindSafe(|| WorkerLoop { worker, commands, indexes: BTreeMap::new() }.run());
            if catch_unwind(run).is_err() {
                tracing::error!(worker = index, "a worker panicked; ending the process");
                std::process::abort();
            }
        });
        drop(guards.expect("timely starts its worker threads"));
    });
    let mut threads: Vec<_> =
        (0..worker_count).map(|_| threads_rx.recv().expect("every worker reports its thread before it runs")).collect();
    threads.sort_by_key(|(index, _)| *index);
    let mut join = Some(supervisor);
    senders
        .into_iter()
        .zip(threads)
        .map(|(commands, (_, thread))| WorkerHandle { commands, thread, join: join.take() })
        .collect()
}

/// An index on this worker.
struct Index {
    spec: Arc<IndexSpec>,
    rendered: Rendered,
    listeners: Vec<Listener>,
    hydrated: bool,
    /// Whether it never will be.
    is_given_up: bool,
    /// The latest commit, behind which the tables stand once the index is hydrated.
    target: Timestamp,
    /// The indexes whose arrangements it reads.
    reads: Vec<GlobalId>,
    /// Where the maintained inputs stand.
    uppers: BTreeMap<GlobalId, Timestamp>,
    since: Timestamp,
    published_upper: Timestamp,
    published_spans: usize,
}

struct WorkerLoop<'a> {
    worker: &'a mut TimelyWorker,
    commands: Receiver<ComputeCommand>,
    indexes: BTreeMap<GlobalId, Index>,
}

impl WorkerLoop<'_> {
    fn run(mut self) {
        loop {
            for _ in 0..COMMANDS_AT_ONCE {
                let Ok(command) = self.commands.try_recv() else { break };
                if !self.apply(command) {
                    return;
                }
            }
            self.worker.step();
            self.stop();
            let index = self.worker.index();
            let mut busy = false;
            for state in self.indexes.values_mut() {
                busy |= !state.publish(index);
            }
            if self.commands.is_empty() {
                self.worker.step_or_park(busy.then_some(PEER_PATIENCE));
            }
        }
    }

    /// Stops what was refused memory, and what reads its arrangement: from here on both would be wrong. The committer, which is
    /// told, has them freed.
    fn stop(&mut self) {
        let mut stopped: BTreeMap<GlobalId, Arc<Stopped>> = BTreeMap::new();
        for (id, index) in &mut self.indexes {
            let below = || index.reads.iter().find_map(|read| stopped.get(read).cloned());
            let Some(why) = index.refusal().or_else(below) else { continue };
            if !std::mem::replace(&mut index.is_given_up, true) {
                tracing::error!(%id, %why, "a dataflow is stopped");
                index.spec.handle.mark_stopped(&why);
            }
            stopped.insert(*id, why);
        }
    }

    /// Applies a command; false ends the worker.
    #[expect(clippy::too_many_lines, reason = "a line or two for each command")]
    fn apply(&mut self, command: ComputeCommand) -> bool {
        match command {
            ComputeCommand::CreateIndex(spec) => self.create_index(spec),
            ComputeCommand::Hydrate { index, input, ts, piece, .. } => {
                let share = self.share();
                if let Some(index) = self.incarnation(&index)
                    && let Some(source) = index.rendered.sources.get_mut(&input)
                {
                    match &piece {
                        Piece::Oks(rows) => {
                            share.put(&mut source.oks, rows, ts);
                            source.oks.flush();
                        }
                        Piece::Errs(rows) => {
                            if let Some(errs) = &mut source.errs {
                                share.put_errs(errs, rows, ts);
                                errs.flush();
                            }
                        }
                    }
                }
            }
            ComputeCommand::Hydrated(index) => {
                if let Some(index) = self.incarnation(&index) {
                    index.hydrated = true;
                    index.advance();
                }
            }
            ComputeCommand::Seed { index, rows } => {
                let share = self.share();
                if let Some(index) = self.incarnation(&index) {
                    index.seed(&share, &rows);
                }
            }
            ComputeCommand::Append { ts, since, tables, indexes, .. } => {
                let share = self.share();
                for id in indexes.iter() {
                    let Some(index) = self.indexes.get_mut(id).filter(|index| !index.is_given_up) else { continue };
                    for (table, updates) in tables.iter() {
                        let Some(source) = index.rendered.sources.get_mut(table) else { continue };
                        updates.iter().for_each(|updates| share.put(&mut source.oks, updates, ts));
                    }
                    index.target = index.target.max(ts);
                    index.since = index.since.max(since);
                    index.advance();
                }
            }
            ComputeCommand::Follow { id, since, changes, .. } => {
                let share = self.share();
                for index in self.indexes.values_mut().filter(|index| !index.is_given_up) {
                    let Some(source) = index.rendered.sources.get_mut(&id) else { continue };
                    for (ts, at) in changes.at.range(index.spec.from + 1..) {
                        share.put(&mut source.oks, &Arc::new(at.oks.clone()), *ts);
                        if let Some(errs) = &mut source.errs {
                            share.put_errs(errs, &at.errs, *ts);
                        }
                    }
                    index.uppers.insert(id, changes.upper);
                    index.since = index.since.max(since);
                    index.advance();
                }
            }
            ComputeCommand::GiveUp(spec) => {
                if let Some(index) = self.incarnation(&spec) {
                    index.is_given_up = true;
                }
            }
            ComputeCommand::DropIndex(spec) => {
                if self.incarnation(&spec).is_some()
                    && let Some(index) = self.indexes.remove(&spec.id)
                {
                    spec.handle.forget(self.worker.index());
                    let dataflow = index.rendered.dataflow;
                    drop(index);
                    self.worker.drop_dataflow(dataflow);
                }
            }
            ComputeCommand::Shutdown => {
                let worker = self.worker.index();
                self.indexes.values().for_each(|index| index.spec.handle.forget(worker));
                self.indexes.clear();
                // Timely would let them finish, and a recursion need not.
                for dataflow in self.worker.installed_dataflows() {
                    self.worker.drop_dataflow(dataflow);
                }
                return false;
            }
        }
        true
    }

    /// An index, unless it was dropped, or built anew, since the command was sent.
    fn incarnation(&mut self, spec: &Arc<IndexSpec>) -> Option<&mut Index> {
        self.indexes.get_mut(&spec.id).filter(|index| Arc::ptr_eq(&index.spec, spec))
    }

    /// The part of everything that is sent to all workers that this one takes.
    fn share(&self) -> Share {
        Share { me: self.worker.index(), peers: self.worker.peers() }
    }

    fn create_index(&mut self, spec: Arc<IndexSpec>) {
        let arrangement = |id| {
            let index: &Index =
                self.indexes.get(&id).expect("an index is there as long as something reads its arrangement");
            (id, index.rendered.oks.clone())
        };
        let arrangements = spec.plan.arrangements().into_iter().map(arrangement).collect();
        let rendered = render(self.worker, &spec, arrangements);
        let mut rendered = rendered.expect("the planner admits only storable types");
        rendered.sources.values_mut().for_each(|source| source.advance_to(spec.as_of));
        if let Some(clock) = &mut rendered.clock {
            clock.advance_to(spec.as_of);
            clock.flush();
        }
        let mut listeners = vec![Listener::new(self.worker, &mut rendered.oks, Sealed::Oks)];
        if let Some(errs) = &mut rendered.errs {
            listeners.push(Listener::new(self.worker, errs, Sealed::Errs));
        }
        let index = Index {
            listeners,
            target: spec.from,
            reads: spec.plan.arrangements().into_iter().collect(),
            uppers: BTreeMap::new(),
            since: spec.as_of,
            hydrated: false,
            is_given_up: false,
            published_upper: 0,
            published_spans: 0,
            rendered,
            spec,
        };
        self.indexes.insert(index.spec.id, index);
    }
}

impl Index {
    /// Why it is to be stopped, or was by another worker.
    fn refusal(&self) -> Option<Arc<Stopped>> {
        let refused = || {
            let IndexSpec { name, handle, .. } = self.spec.as_ref();
            let allowance = handle.allowance();
            let refused = allowance.refused()?.clone();
            Some(Arc::new(Stopped { name: name.clone(), used: allowance.used(), refused }))
        };
        self.spec.handle.stopped().cloned().or_else(refused)
    }

    /// The time below which an input is known.
    fn upper_of(&self, input: GlobalId) -> Timestamp {
        match self.spec.maintained.contains(&input) {
            true => self.uppers.get(&input).copied().unwrap_or(0).max(self.spec.from + 1),
            false => self.target + 1,
        }
    }

    /// The time below which all inputs are known.
    fn fed_upper(&self) -> Timestamp {
        self.rendered.sources.keys().map(|input| self.upper_of(*input)).min().unwrap_or(self.target + 1)
    }

    /// Declares that no further updates come below the times up to which the inputs are known.
    fn advance(&mut self) {
        if !self.hydrated {
            return;
        }
        let fed_upper = self.fed_upper();
        if let Some(clock) = &mut self.rendered.clock {
            clock.advance_to(fed_upper);
            clock.flush();
        }
        let uppers: Vec<Timestamp> = self.rendered.sources.keys().map(|input| self.upper_of(*input)).collect();
        for (source, upper) in self.rendered.sources.values_mut().zip(uppers) {
            source.advance_to(upper);
        }
    }

    /// Shows rows that the index held in a run before, which are what it holds as of its `as_of`.
    fn seed(&mut self, share: &Share, rows: &[Updates]) {
        if self.published_upper > 0 {
            return;
        }
        let as_of = self.spec.as_of;
        let mut updates = Vec::new();
        for rows in rows {
            let rows: Vec<_> = rows.iter().map(|(row, diff)| Update { row, time: &as_of, diff }).collect();
            let give = |key: &[u8], row: &[u8], update: &Update<'_, Timestamp>| {
                if route(key, share.peers) == share.me {
                    updates.push(((key.to_vec(), row.to_vec()), as_of, update.diff));
                }
            };
            // Keys that cannot be computed are found out by the dataflow, which is what counts.
            self.rendered.arranged_by.apply(&rows, give, |_, _| {});
        }
        let batches = spine::batch(updates, self.spec.handle.allowance()).into_iter().collect();
        if self.refusal().is_some() {
            return;
        }
        self.spec.handle.publish_seed(share.me, Snapshot::new(batches, Vec::new(), as_of, as_of + 1));
    }

    /// Publishes if there is something new to show; returns whether everything fed has been published.
    fn publish(&mut self, worker: usize) -> bool {
        if !self.hydrated || self.is_given_up {
            return true;
        }
        let mut upper = publish::upper(&mut self.rendered.oks);
        let mut spans = publish::span_count(&self.rendered.oks);
        if let Some(errs) = &mut self.rendered.errs {
            upper = upper.min(publish::upper(errs));
            spans += publish::span_count(errs);
        }
        if upper > self.spec.as_of && (upper, spans) != (self.published_upper, self.published_spans) {
            let upper_frontier = Antichain::from_elem(upper);
            let since_frontier = Antichain::from_elem(self.since.min(upper - 1));
            for trace in [Some(&mut self.rendered.oks), self.rendered.errs.as_mut()].into_iter().flatten() {
                trace.set_logical_compaction(since_frontier.borrow());
                trace.set_physical_compaction(upper_frontier.borrow());
            }
            if self.refusal().is_some() {
                // A merge was refused just now: what is left is not all. It is stopped before it shows anything.
                return false;
            }
            let since = self.since.min(upper - 1);
            let snapshot = publish::snapshot(&self.rendered.oks, self.rendered.errs.as_ref(), since, upper);
            // What one trace has beyond the other's upper is told now, as it is in the snapshot, and held back by who follows.
            let sealed = self.listeners.iter().flat_map(Listener::take).collect();
            self.spec.handle.publish(worker, snapshot, sealed);
            (self.published_upper, self.published_spans) = (upper, spans);
        }
        self.published_upper >= self.fed_upper()
    }
}

/// Which of the rows that all workers are sent one of them takes.
struct Share {
    me: usize,
    peers: usize,
}

impl Share {
    /// Feeds this worker's rows.
    fn put(&self, feed: &mut RowFeed, rows: &Arc<Updates>, ts: Timestamp) {
        if !rows.is_empty() {
            feed.put(Chunk { updates: Arc::clone(rows), me: self.me, peers: self.peers }, ts);
        }
    }

    /// Feeds this worker's errors.
    fn put_errs(&self, feed: &mut Feed, errors: &Updates, ts: Timestamp) {
        for (error, diff) in errors.iter().skip(self.me).step_by(self.peers) {
            feed.update_at(error.to_vec(), ts, diff);
        }
    }
}
