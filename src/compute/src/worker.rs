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

use crate::publish;
use crate::render::{Rendered, render};
use compute_client::controller::Worker as WorkerHandle;
use compute_client::protocol::{ComputeCommand, IndexSpec};
use crossbeam_channel::{Receiver, bounded};
use differential_dataflow::trace::TraceReader;
use repr::{GlobalId, Timestamp};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use timely::progress::Antichain;
use timely::worker::Worker as TimelyWorker;

/// Commands that may wait for a worker before their sender has to.
const COMMANDS_MAX: usize = 1_024;
/// How long a worker with unfinished work waits for another worker before it looks again.
const PEER_PATIENCE: Duration = Duration::from_millis(1);

/// Starts the workers of a cluster, one thread each.
///
/// # Panics
/// When the operating system refuses a thread.
pub fn spawn(cluster: &str, worker_count: usize) -> Vec<WorkerHandle> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..worker_count).map(|_| bounded(COMMANDS_MAX)).unzip();
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
    hydrated: bool,
    /// The latest time fed, at which the input stands once it is hydrated.
    target: Timestamp,
    since: Timestamp,
    published_upper: Timestamp,
    published_batches: usize,
}

struct WorkerLoop<'a> {
    worker: &'a mut TimelyWorker,
    commands: Receiver<ComputeCommand>,
    indexes: BTreeMap<GlobalId, Index>,
}

impl WorkerLoop<'_> {
    fn run(mut self) {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                if !self.apply(command) {
                    return;
                }
            }
            self.worker.step();
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

    /// Applies a command; false ends the worker.
    fn apply(&mut self, command: ComputeCommand) -> bool {
        match command {
            ComputeCommand::CreateIndex(spec) => self.create_index(spec),
            ComputeCommand::Hydrate { id, table, rows } => {
                let (me, peers) = (self.worker.index(), self.worker.peers());
                if let Some(index) = self.indexes.get_mut(&id)
                    && let Some(input) = index.rendered.inputs.get_mut(&table)
                {
                    for (row, diff) in rows.iter().skip(me).step_by(peers) {
                        input.update_at(row.to_vec(), index.spec.as_of, diff);
                    }
                    input.flush();
                }
            }
            ComputeCommand::Hydrated(id) => {
                if let Some(index) = self.indexes.get_mut(&id) {
                    index.hydrated = true;
                    index.advance(index.target, index.since);
                }
            }
            ComputeCommand::Append { ts, since, tables } => {
                let (me, peers) = (self.worker.index(), self.worker.peers());
                for index in self.indexes.values_mut() {
                    let mut is_touched = false;
                    for (table, updates) in tables.iter() {
                        let Some(input) = index.rendered.inputs.get_mut(table) else { continue };
                        is_touched = true;
                        for (row, diff) in updates.iter().flat_map(|updates| updates.iter().skip(me).step_by(peers)) {
                            input.update_at(row.to_vec(), ts, diff);
                        }
                    }
                    if is_touched {
                        index.advance(ts, since);
                    }
                }
            }
            ComputeCommand::DropIndex(id) => {
                if let Some(index) = self.indexes.remove(&id) {
                    let dataflow = index.rendered.dataflow;
                    drop(index);
                    self.worker.drop_dataflow(dataflow);
                }
            }
            ComputeCommand::Shutdown => return false,
        }
        true
    }

    fn create_index(&mut self, spec: Arc<IndexSpec>) {
        let mut rendered = render(self.worker, &spec).expect("the planner admits only storable types");
        for input in rendered.inputs.values_mut() {
            input.advance_to(spec.as_of);
            input.flush();
        }
        let index = Index {
            target: spec.as_of,
            since: spec.as_of,
            hydrated: false,
            published_upper: 0,
            published_batches: 0,
            rendered,
            spec,
        };
        self.indexes.insert(index.spec.id, index);
    }
}

impl Index {
    /// Declares that no further updates come at or before `ts`, and that reads below `since` are over.
    fn advance(&mut self, ts: Timestamp, since: Timestamp) {
        self.target = self.target.max(ts);
        self.since = self.since.max(since).max(self.spec.as_of);
        if self.hydrated {
            for input in self.rendered.inputs.values_mut() {
                input.advance_to(self.target + 1);
                input.flush();
            }
        }
    }

    /// Publishes if there is something new to show; returns whether everything fed has been published.
    fn publish(&mut self, worker: usize) -> bool {
        if !self.hydrated {
            return true;
        }
        let mut upper = publish::upper(&mut self.rendered.oks);
        let mut batches = publish::batch_count(&self.rendered.oks);
        if let Some(errs) = &mut self.rendered.errs {
            upper = upper.min(publish::upper(errs));
            batches += publish::batch_count(errs);
        }
        if upper > self.spec.as_of && (upper, batches) != (self.published_upper, self.published_batches) {
            let upper_frontier = Antichain::from_elem(upper);
            let since_frontier = Antichain::from_elem(self.since.min(upper - 1));
            for trace in [Some(&mut self.rendered.oks), self.rendered.errs.as_mut()].into_iter().flatten() {
                trace.set_logical_compaction(since_frontier.borrow());
                trace.set_physical_compaction(upper_frontier.borrow());
            }
            let since = self.since.min(upper - 1);
            let snapshot = publish::snapshot(&self.rendered.oks, self.rendered.errs.as_ref(), since, upper);
            self.spec.handle.publish(worker, snapshot);
            (self.published_upper, self.published_batches) = (upper, batches);
        }
        self.published_upper > self.target
    }
}
