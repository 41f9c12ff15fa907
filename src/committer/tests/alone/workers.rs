//! Workers that publish when they are told to: late, never, or twice. What they maintain is made of what they were fed, so that
//! it is wrong if that was.
//!
//! A cluster is simulated as a whole: its workers share what they have heard, and each shows its own part of the rows, up to a time
//! of its own. Plans are those that pass rows on: of tables and materialized views, and unions of them.

use crate::choices::Choices;
use arrangement::snapshot::Snapshot;
use arrangement::spine::{RowBatch, RowUpdate, batch};
use arrow::datatypes::DataType;
use compute_client::controller::{SpawnWorkers, Worker};
use compute_client::hydration::Piece;
use compute_client::index::{IndexHandle, route};
use compute_client::plan::lir::{Lir, Node, SharedId, Stage, column};
use compute_client::protocol::{ComputeCommand, IndexSpec, KeyExpr};
use compute_client::queue::Sealed;
use crossbeam_channel::Receiver;
use ore::clock::Clock;
use parking_lot::Mutex;
use repr::row::split;
use repr::{GlobalId, Timestamp, Updates};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One in so many dataflows never publishes by itself.
const STUCK: usize = 12;

/// See the module. Each clone has the same workers.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Mutex<State>>);

struct State {
    clusters: Vec<Cluster>,
    choices: Choices,
    clock: Clock,
    /// What materialized views showed before they were hydrated, by the time as of which they did.
    seeds: Vec<(GlobalId, Timestamp, Vec<Updates>)>,
}

struct Cluster {
    commands: Vec<Receiver<ComputeCommand>>,
    indexes: Vec<Index>,
}

struct Index {
    spec: Arc<IndexSpec>,
    /// What it was fed, by input.
    inputs: BTreeMap<GlobalId, Vec<RowUpdate>>,
    is_hydrated: bool,
    is_given_up: bool,
    is_stuck: bool,
    /// It was told to come to this time.
    target: Timestamp,
    /// By maintained input: no more comes below this time.
    uppers: BTreeMap<GlobalId, Timestamp>,
    since: Timestamp,
    /// By worker: what it shows, and up to which time.
    shown: Vec<(Vec<RowBatch>, Timestamp)>,
}

impl SpawnWorkers for Workers {
    fn spawn(&self, _cluster: &str, worker_count: usize) -> Vec<Worker> {
        let start = |_| {
            let (commands, heard) = crossbeam_channel::unbounded();
            (Worker { commands, thread: std::thread::current(), join: None }, heard)
        };
        let (workers, commands) = (0..worker_count).map(start).unzip();
        self.0.lock().clusters.push(Cluster { commands, indexes: Vec::new() });
        workers
    }

    fn await_published(&self, handle: &IndexHandle, ts: Timestamp, patience: Duration) -> Duration {
        let state = &mut *self.0.lock();
        state.hear();
        let is_it = |index: &&mut Index| std::ptr::eq(Arc::as_ptr(&index.spec.handle), handle);
        let indexes = state.clusters.iter_mut().flat_map(|cluster| cluster.indexes.iter_mut());
        if let Some(index) = indexes.into_iter().find(is_it) {
            match state.choices.below(4) {
                0 | 1 => index.publish_all(),
                2 => index.publish_some(&mut state.choices),
                _ => {}
            }
        }
        let is_awaited = handle.is_hydrated() && !handle.is_seeded() && handle.check().is_ok() && handle.upper() <= ts;
        if is_awaited { state.clock.sleep_for(patience) } else { patience }
    }
}

impl Workers {
    pub(crate) fn new(choices: Choices, clock: Clock) -> Workers {
        Workers(Arc::new(Mutex::new(State { clusters: Vec::new(), choices, clock, seeds: Vec::new() })))
    }

    /// Lets some workers publish something.
    pub(crate) fn publish_some(&self) {
        let state = &mut *self.0.lock();
        state.hear();
        for index in state.clusters.iter_mut().flat_map(|cluster| &mut cluster.indexes) {
            if state.choices.one_in(2) {
                index.publish_some(&mut state.choices);
            }
        }
    }

    /// Lets all workers publish everything, those that are stuck as well.
    pub(crate) fn publish_all(&self) {
        let state = &mut *self.0.lock();
        state.hear();
        for index in state.clusters.iter_mut().flat_map(|cluster| &mut cluster.indexes) {
            index.is_stuck = false;
            index.publish_all();
        }
    }

    /// What was shown of views before they were hydrated, since this was asked last.
    pub(crate) fn take_seeds(&self) -> Vec<(GlobalId, Timestamp, Vec<Updates>)> {
        std::mem::take(&mut self.0.lock().seeds)
    }
}

impl State {
    fn hear(&mut self) {
        for cluster in &mut self.clusters {
            let commands: Vec<ComputeCommand> = cluster.commands[0].try_iter().collect();
            cluster.commands[1..].iter().for_each(|others| others.try_iter().for_each(drop));
            for command in commands {
                cluster.follow(command, &mut self.choices, &mut self.seeds);
            }
        }
    }
}

impl Cluster {
    fn incarnation(&mut self, spec: &Arc<IndexSpec>) -> Option<&mut Index> {
        self.indexes.iter_mut().find(|index| Arc::ptr_eq(&index.spec, spec))
    }

    fn follow(
        &mut self,
        command: ComputeCommand,
        choices: &mut Choices,
        seeds: &mut Vec<(GlobalId, Timestamp, Vec<Updates>)>,
    ) {
        match command {
            ComputeCommand::CreateIndex(spec) => {
                let inputs = spec.plan.fed().into_iter().map(|input| (input, Vec::new())).collect();
                let uppers = spec.maintained.iter().map(|input| (*input, spec.from + 1)).collect();
                let shown = vec![(Vec::new(), 0); self.commands.len()];
                let (target, since) = (spec.from, spec.as_of);
                let (is_hydrated, is_given_up, is_stuck) = (false, false, choices.one_in(STUCK));
                let index = Index { spec, inputs, is_hydrated, is_given_up, is_stuck, target, uppers, since, shown };
                self.indexes.push(index);
            }
            ComputeCommand::Hydrate { index, input, ts, piece, .. } => {
                let Some(index) = self.incarnation(&index) else { return };
                assert!(ts <= index.spec.from, "{} is hydrated with what it is fed", index.spec.id);
                match piece {
                    Piece::Oks(updates) => index.take(input, ts, &updates),
                    Piece::Errs(errors) => assert!(errors.is_empty(), "nothing here can fail"),
                }
            }
            ComputeCommand::Hydrated(spec) => {
                if let Some(index) = self.incarnation(&spec) {
                    index.is_hydrated = true;
                }
            }
            ComputeCommand::Seed { index, rows } => {
                if let Some(index) = self.incarnation(&index).filter(|index| !index.is_published()) {
                    index.seed(&rows);
                    seeds.push((index.spec.id, index.spec.as_of, rows.to_vec()));
                }
            }
            ComputeCommand::Append { ts, since, tables, indexes, .. } => {
                for index in self.indexes.iter_mut().filter(|index| indexes.contains(&index.spec.id)) {
                    assert!(ts > index.spec.from, "{} is fed what it was hydrated with", index.spec.id);
                    for (table, updates) in tables.iter() {
                        if index.inputs.contains_key(table) {
                            updates.iter().for_each(|updates| index.take(*table, ts, updates));
                        }
                    }
                    (index.target, index.since) = (index.target.max(ts), index.since.max(since));
                }
            }
            ComputeCommand::Follow { id, since, changes, .. } => {
                for index in self.indexes.iter_mut().filter(|index| index.inputs.contains_key(&id)) {
                    for (ts, at) in changes.at.range(index.spec.from + 1..) {
                        index.take(id, *ts, &at.oks);
                    }
                    index.uppers.entry(id).and_modify(|upper| *upper = (*upper).max(changes.upper));
                    index.since = index.since.max(since);
                }
            }
            ComputeCommand::GiveUp(spec) => {
                if let Some(index) = self.incarnation(&spec) {
                    index.is_given_up = true;
                }
            }
            ComputeCommand::DropIndex(spec) => self.indexes.retain(|index| !Arc::ptr_eq(&index.spec, &spec)),
            ComputeCommand::Shutdown => self.indexes.clear(),
        }
    }
}

impl Index {
    fn take(&mut self, input: GlobalId, ts: Timestamp, updates: &Updates) {
        let rows = self.inputs.get_mut(&input).expect("it is fed what its plan reads");
        rows.extend(updates.iter().map(|(row, diff)| ((row.to_vec(), row.to_vec()), ts, diff)));
    }

    fn is_published(&self) -> bool {
        self.shown.iter().any(|(_, upper)| *upper > 0)
    }

    /// Below this time everything is known.
    fn upper(&self) -> Timestamp {
        if !self.is_hydrated || self.is_given_up || self.is_stuck {
            return 0;
        }
        self.uppers.values().copied().min().unwrap_or(Timestamp::MAX).min(self.target + 1)
    }

    fn publish_all(&mut self) {
        for worker in 0..self.shown.len() {
            self.publish(worker, self.upper());
        }
    }

    /// Some workers publish something, up to any time up to which they can, or what they have published already.
    fn publish_some(&mut self, choices: &mut Choices) {
        for worker in 0..self.shown.len() {
            let (last, upper) = (self.shown[worker].1, self.upper());
            if upper > 0 && choices.one_in(2) {
                let from = last.max(self.spec.as_of + 1).min(upper);
                self.publish(worker, choices.within(from..=upper));
            }
        }
    }

    /// Publishes everything below a time, unless that was shown already; with that time once more, the same again.
    fn publish(&mut self, worker: usize, upper: Timestamp) {
        let last = self.shown[worker].1;
        if upper == 0 || upper < last {
            return;
        }
        let peers = self.shown.len();
        let mut new = evaluate(&self.spec.plan, &self.inputs, &BTreeMap::new());
        new.iter_mut().for_each(|((key, row), ..)| *key = self.key_of(row));
        new.retain(|((key, _), ts, _)| *ts >= last && *ts < upper && (peers == 1 || route(key, peers) == worker));
        let new: Vec<RowBatch> = batch(new, self.spec.handle.allowance()).into_iter().collect();
        let shown = &mut self.shown[worker];
        shown.0.extend(new.iter().cloned());
        shown.1 = upper;
        let since = self.since.min(upper - 1);
        let snapshot = Snapshot::new(shown.0.clone(), Vec::new(), since, upper);
        self.spec.handle.publish(worker, snapshot, new.into_iter().map(Sealed::Oks).collect());
    }

    /// What a row is arranged by.
    fn key_of(&self, row: &[u8]) -> Vec<u8> {
        let types: Vec<DataType> = self.spec.plan.schema.fields().iter().map(|it| it.data_type().clone()).collect();
        let slices = split(row, &types);
        let columns = self.spec.key.iter().filter_map(KeyExpr::as_column);
        columns.flat_map(|column| slices[column]).copied().collect()
    }

    fn seed(&mut self, rows: &[Updates]) {
        let (as_of, peers) = (self.spec.as_of, self.shown.len());
        for worker in 0..peers {
            let all = rows.iter().flat_map(|rows| rows.iter());
            let keyed = all.map(|(row, diff)| ((self.key_of(row), row.to_vec()), as_of, diff));
            let own = keyed.filter(|((key, _), ..)| peers == 1 || route(key, peers) == worker).collect();
            let batches = batch(own, self.spec.handle.allowance()).into_iter().collect();
            self.spec.handle.publish_seed(worker, Snapshot::new(batches, Vec::new(), as_of, as_of + 1));
        }
    }
}

/// What a plan makes of its inputs.
fn evaluate(
    plan: &Lir,
    inputs: &BTreeMap<GlobalId, Vec<RowUpdate>>,
    shared: &BTreeMap<SharedId, Vec<RowUpdate>>,
) -> Vec<RowUpdate> {
    match &plan.node {
        Node::Get(id) => inputs[id].clone(),
        Node::Mfp { input, stages } if stages.iter().all(passes_on) => evaluate(input, inputs, shared),
        Node::Union(all) => all.iter().flat_map(|input| evaluate(input, inputs, shared)).collect(),
        Node::GetShared(id) => shared[id].clone(),
        Node::Shared(parts) => {
            let mut shared = shared.clone();
            for (id, part) in &parts.parts {
                let rows = evaluate(part, inputs, &shared);
                shared.insert(*id, rows);
            }
            evaluate(&parts.body, inputs, &shared)
        }
        _ => panic!("no plan of this simulation has more than tables and unions: {plan}"),
    }
}

/// Whether a stage leaves rows as they are.
fn passes_on(stage: &Stage) -> bool {
    match stage {
        Stage::Project(columns, _) => columns.iter().enumerate().all(|(at, expr)| column(expr) == Some(at)),
        _ => false,
    }
}
