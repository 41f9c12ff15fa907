//! The clusters and their workers, and every index that they maintain. Its one caller is the committer's thread.

use crate::early::Outcome;
use crate::error::{ComputeError, Stopped};
use crate::hydration::{Lanes, Piece, Pieces};
use crate::index::IndexHandle;
use crate::plan::lir::Node;
use crate::protocol::{ComputeCommand, IndexSpec, KeyExpr};
use crate::tail::Changes;
use arrangement::allowance::Allowance;
use crossbeam_channel::Sender;
use ore::memory::{Reservation, Share};
use ore::thread::Beside;
use repr::{GlobalId, Timestamp, Updates};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// What a command takes that waits for the workers, beside its rows.
const COMMAND_BYTES: usize = 512;

/// A commit of more updates, or bytes, is not shown early.
const EARLY_UPDATES_MAX: usize = 64;
const EARLY_BYTES_MAX: usize = 1 << 14;

/// One running worker.
pub struct Worker {
    /// Where its commands go.
    pub commands: Sender<ComputeCommand>,
    /// Its thread, to be woken after a command was sent.
    pub thread: Thread,
    /// Joined when the cluster is dropped.
    pub join: Option<JoinHandle<()>>,
}

/// Starts the workers of a cluster, and waits for them; implemented by crate `compute`, handed in by the server.
pub trait SpawnWorkers: Send + Sync {
    /// Starts `worker_count` workers.
    fn spawn(&self, cluster: &str, worker_count: usize) -> Vec<Worker>;

    /// Waits until a dataflow has published everything up to `ts`, or for `patience`; returns what is left of that.
    fn await_published(&self, handle: &IndexHandle, ts: Timestamp, patience: Duration) -> Duration {
        let deadline = Instant::now() + patience;
        handle.wait_published(ts, deadline);
        deadline.saturating_duration_since(Instant::now())
    }
}

/// One cluster: its workers and what they maintain.
struct Cluster {
    name: String,
    workers: Vec<Worker>,
    indexes: BTreeMap<GlobalId, Maintained>,
    /// Whether the workers were woken for the last commit.
    is_woken: bool,
    lanes: Lanes,
    memory: Arc<Share>,
    waiting: Arc<Share>,
}

/// Something that a cluster maintains.
struct Maintained {
    spec: Arc<IndexSpec>,
    /// The collections that feed it, and the indexes whose arrangements it reads.
    inputs: BTreeSet<GlobalId>,
    /// The tables at whose writes its time goes on: those below it, and those below whatever reads it, which could not go
    /// on otherwise. Likewise the dataflows at whose scheduled changes it does.
    paced_by: BTreeSet<GlobalId>,
    /// The latest time that it was told.
    told: Timestamp,
    /// The time below which it was told that reads are over.
    since: Timestamp,
    /// Whether nobody but other dataflows reads it any more.
    is_dropped: bool,
    /// Whether it was stopped and its workers have been told to free it.
    is_freed: bool,
}

impl Maintained {
    /// By which columns another dataflow can read a table's rows of it, if it holds these and nothing else.
    fn arrangement_of(&self, table: GlobalId, as_of: Timestamp) -> Option<(GlobalId, Vec<usize>)> {
        let spec = &self.spec;
        let is_table = matches!(spec.plan.node, Node::Get(id) if id == table) && spec.maintained.is_empty();
        let is_readable = !self.is_dropped && self.since <= as_of && spec.handle.check().is_ok();
        let key = spec.key.iter().map(KeyExpr::as_column).collect::<Option<Vec<_>>>()?;
        (is_table && is_readable).then_some((spec.id, key))
    }

    /// The next change that comes with time alone and that it was not told to carry out.
    fn next_change(&self) -> Timestamp {
        match self.spec.handle.own_schedule().filter(|_| self.spec.handle.check().is_ok()) {
            Some(schedule) => schedule.next_after(self.told),
            None => Timestamp::MAX,
        }
    }
}

/// What an index's time goes on for by itself.
fn sources(handle: &IndexHandle) -> BTreeSet<GlobalId> {
    handle.clocks().keys().chain(handle.schedules().iter().map(|(id, _)| id)).copied().collect()
}

/// Finds the rows that an index held in a run before.
pub type Seed = Box<dyn FnOnce() -> Option<Vec<Updates>> + Send>;

/// Takes a piece of an input, as of a time. Fails when its index has ended.
pub type Feed<'a> = dyn FnMut(GlobalId, Timestamp, Piece) -> Result<(), ComputeError> + 'a;

/// All clusters of this process.
pub struct Controller {
    spawner: Box<dyn SpawnWorkers>,
    /// Runs hydrations.
    beside: Arc<dyn Beside>,
    clusters: BTreeMap<u64, Cluster>,
    /// What all clusters may have together, and each as long as the others do not need it.
    memory: Arc<Share>,
    /// What waits for their workers.
    waiting: Arc<Share>,
}

impl Controller {
    /// A controller without clusters, whose clusters may have so many bytes of this memory.
    pub fn new(
        spawner: Box<dyn SpawnWorkers>,
        beside: Arc<dyn Beside>,
        memory: &Arc<Share>,
        limit: usize,
    ) -> Controller {
        let (all, waiting) = (memory.child("all clusters", limit), memory.child("what waits for clusters", usize::MAX));
        Controller { spawner, beside, clusters: BTreeMap::new(), memory: all, waiting }
    }

    /// Starts a cluster's workers.
    pub fn create_cluster(&mut self, id: u64, name: &str, worker_count: usize) {
        let workers = self.spawner.spawn(name, worker_count);
        let memory = self.memory.child(format!("cluster \"{name}\""), self.memory.limit());
        let (name, indexes, lanes, waiting) =
            (name.to_owned(), BTreeMap::new(), Lanes::new(), Arc::clone(&self.waiting));
        let cluster = Cluster { name, workers, indexes, is_woken: true, lanes, memory, waiting };
        self.clusters.insert(id, cluster);
    }

    /// Stops a cluster's workers and drops its indexes.
    pub fn drop_cluster(&mut self, id: u64) {
        if let Some(mut cluster) = self.clusters.remove(&id) {
            cluster.shutdown();
        }
    }

    /// The memory that a new dataflow of a cluster may have.
    pub fn allowance(&self, cluster: u64, name: &str) -> Option<Arc<Allowance>> {
        let memory = &self.clusters.get(&cluster)?.memory;
        Some(Allowance::of(memory.child(name, usize::MAX)))
    }

    /// The number of workers of a cluster.
    pub fn worker_count(&self, cluster: u64) -> Option<usize> {
        self.clusters.get(&cluster).map(|cluster| cluster.workers.len())
    }

    /// The indexes of a table in a cluster that hold everything from `as_of` on and are older than `reader`, with their columns.
    pub fn arrangements(
        &self,
        cluster: u64,
        table: GlobalId,
        as_of: Timestamp,
        reader: GlobalId,
    ) -> Vec<(GlobalId, Vec<usize>)> {
        let here = self.clusters.get(&cluster).into_iter().flat_map(|cluster| cluster.indexes.range(..reader));
        here.filter_map(|(_, index)| index.arrangement_of(table, as_of)).collect()
    }

    /// Where an index publishes.
    pub fn handle(&self, cluster: u64, index: GlobalId) -> Option<Arc<IndexHandle>> {
        self.clusters.get(&cluster)?.indexes.get(&index).map(|index| Arc::clone(&index.spec.handle))
    }

    /// Starts an index; `rows` is called beside and gives the rows of its inputs as of `spec.as_of`, in
    /// pieces, so that a large table does not hold up commits: updates of later times may overtake them. If it fails, that
    /// is what the index's readers are told. What the index held before, if that is known, is shown until it is there.
    /// `ready` completes when `rows` can be had without waiting for another index; it is awaited before.
    pub fn create_index(
        &mut self,
        cluster: u64,
        spec: IndexSpec,
        seed: Option<Seed>,
        ready: impl Future<Output = ()> + Send + 'static,
        rows: impl FnOnce(&mut Feed<'_>) -> Result<(), ComputeError> + Send + 'static,
    ) -> Result<(), ComputeError> {
        let Some(cluster) = self.clusters.get_mut(&cluster) else {
            return Err(ComputeError::WorkersGone(cluster.to_string()));
        };
        let spec = Arc::new(spec);
        let arrangements = spec.plan.arrangements();
        cluster.broadcast(|| ComputeCommand::CreateIndex(Arc::clone(&spec)))?;
        cluster.go_on(&arrangements, spec.from)?;
        let (ports, lanes, index) = (cluster.ports(), cluster.lanes.clone(), Arc::clone(&spec));
        let hydrate = async move {
            // Workers that are gone need none of this.
            if let Some(rows) = seed.and_then(|seed| seed()) {
                let rows: Arc<[Updates]> = rows.into();
                let _gone =
                    send_all(&ports, || ComputeCommand::Seed { index: Arc::clone(&index), rows: Arc::clone(&rows) });
            }
            ready.await;
            let _lane = lanes.enter().await;
            let read = ore::thread::survive("hydration", || {
                let pieces = Pieces::of(&index.handle);
                rows(&mut |input, ts, piece: Piece| {
                    let room = pieces.admit(&piece)?;
                    let _gone = send_all(&ports, || {
                        let (index, piece, room) = (Arc::clone(&index), piece.clone(), Arc::clone(&room));
                        ComputeCommand::Hydrate { index, input, ts, piece, room }
                    });
                    Ok(())
                })
            });
            match read.unwrap_or_else(|| Err(ComputeError::Engine("reading its inputs panicked".to_owned()))) {
                Ok(()) => {
                    let _gone = send_all(&ports, || ComputeCommand::Hydrated(Arc::clone(&index)));
                    let is_there = |handle: &IndexHandle| handle.is_hydrated() && !handle.is_seeded();
                    index.handle.wait_until(is_there).await;
                }
                // Without all of its rows it would give wrong answers: it gives none.
                Err(reason) => {
                    match reason {
                        ComputeError::OutOfMemory(why) => index.handle.mark_stopped(&why),
                        reason => index.handle.mark_ended(reason),
                    }
                    let _gone = send_all(&ports, || ComputeCommand::GiveUp(Arc::clone(&index)));
                }
            }
            index.handle.progress().end();
        };
        self.beside.start(format!("hydrate-{}", spec.id), Box::pin(hydrate));
        let inputs = spec.plan.fed().into_iter().chain(arrangements).collect();
        let (paced_by, told, since) = (sources(&spec.handle), spec.from, spec.as_of);
        cluster
            .indexes
            .insert(spec.id, Maintained { spec, inputs, paced_by, told, since, is_dropped: false, is_freed: false });
        self.pace();
        Ok(())
    }

    /// Waits until a dataflow has published everything up to `ts`, or for `patience`; returns what is left of that.
    pub fn await_published(&self, handle: &IndexHandle, ts: Timestamp, patience: Duration) -> Duration {
        self.spawner.await_published(handle, ts, patience)
    }

    /// Drops an index: at once, or when the last dataflow is gone that reads its arrangement.
    pub fn drop_index(&mut self, id: GlobalId) {
        for cluster in self.clusters.values_mut() {
            if let Some(index) = cluster.indexes.get_mut(&id) {
                index.is_dropped = true;
                cluster.free();
            }
        }
        self.pace();
    }

    /// Finds out again at whose writes time goes on for what.
    fn pace(&mut self) {
        let all =
            || self.clusters.values().flat_map(|cluster| cluster.indexes.iter()).filter(|(_, index)| !index.is_freed);
        let mut paced: BTreeMap<GlobalId, BTreeSet<GlobalId>> =
            all().map(|(id, index)| (*id, sources(&index.spec.handle))).collect();
        let readings: Vec<(GlobalId, GlobalId)> = all()
            .flat_map(|(reader, index)| index.inputs.iter().map(|input| (*reader, *input)))
            .filter(|(_, input)| paced.contains_key(input))
            .collect();
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for (reader, input) in &readings {
                let above = paced[reader].clone();
                if let Some(below) = paced.get_mut(input)
                    && !above.is_subset(below)
                {
                    below.extend(above);
                    is_settled = false;
                }
            }
        }
        for (id, index) in self.clusters.values_mut().flat_map(|cluster| cluster.indexes.iter_mut()) {
            index.paced_by = paced.remove(id).unwrap_or_default();
        }
    }

    /// The next time at which something changes that was not told to: rows that come or go then.
    pub fn next_change(&self) -> Option<Timestamp> {
        let all = self.clusters.values().flat_map(|cluster| cluster.indexes.values());
        all.map(Maintained::next_change).min().filter(|next| *next < Timestamp::MAX)
    }

    /// Feeds a commit to the clusters that maintain something over one of its tables, or something that changes by itself
    /// until then. Returns what its time goes on for, each after what it reads.
    pub fn append(
        &mut self,
        ts: Timestamp,
        since: Timestamp,
        tables: &Arc<[(GlobalId, Vec<Arc<Updates>>)]>,
    ) -> Result<Vec<Arc<IndexHandle>>, ComputeError> {
        let mut touched = Vec::new();
        let byte_count = byte_count(tables);
        let is_small = is_small(tables);
        let all = self.clusters.values().flat_map(|cluster| cluster.indexes.iter());
        let due: Vec<GlobalId> = all.filter(|(_, index)| index.next_change() <= ts).map(|(id, _)| *id).collect();
        for cluster in self.clusters.values_mut() {
            let is_paced = |index: &Maintained| {
                tables.iter().map(|(written, _)| written).chain(&due).any(|source| index.paced_by.contains(source))
            };
            let mut indexes = Vec::new();
            for (id, index) in cluster.indexes.iter_mut().filter(|(_, index)| !index.is_freed && is_paced(index)) {
                (index.told, index.since) = (ts, index.since.max(since));
                indexes.push(*id);
                // Nobody waits for what was dropped.
                touched.extend((!index.is_dropped).then(|| Arc::clone(&index.spec.handle)));
            }
            if indexes.is_empty() {
                continue;
            }
            let is_shown_early = |id: &GlobalId| cluster.indexes[id].spec.handle.is_shown_early();
            cluster.is_woken = !is_small || !indexes.iter().all(is_shown_early);
            let (indexes, waiting): (Arc<[GlobalId]>, _) = (indexes.into(), cluster.waiting(byte_count));
            cluster.tell(|| {
                let (tables, indexes, waiting) = (Arc::clone(tables), Arc::clone(&indexes), Arc::clone(&waiting));
                ComputeCommand::Append { ts, since, tables, indexes, waiting }
            })?;
            if cluster.is_woken {
                cluster.wake();
            }
        }
        // Ids are never reused, and what reads something is younger than it.
        touched.sort_by_key(|handle| handle.id);
        Ok(touched)
    }

    /// Shows a commit that was appended, is durable and is small in the indexes that hold its tables' rows, before the workers come to it.
    /// Those that have something to do then, or come first, are woken.
    pub fn show(&mut self, ts: Timestamp, tables: &[(GlobalId, Vec<Arc<Updates>>)]) {
        if !is_small(tables) {
            return;
        }
        for cluster in self.clusters.values_mut() {
            let mut is_due = false;
            for index in cluster.indexes.values().filter(|index| index.told == ts && !index.is_freed) {
                let of_it = |(table, _): &&(GlobalId, _)| index.spec.handle.clocks().contains_key(table);
                let updates = tables.iter().find(of_it).map_or(&[][..], |(_, updates)| updates);
                is_due |= index.spec.handle.show(ts, updates) != Outcome::Shown;
            }
            if is_due && !std::mem::replace(&mut cluster.is_woken, true) {
                cluster.wake();
            }
        }
    }

    /// Tells what happened in a maintained collection to the clusters that read it.
    pub fn follow(&self, id: GlobalId, since: Timestamp, changes: &Arc<Changes>) -> Result<(), ComputeError> {
        for cluster in self.clusters.values() {
            if cluster.indexes.values().any(|index| !index.is_freed && index.inputs.contains(&id)) {
                let waiting = cluster.waiting(changes.bytes());
                cluster.broadcast(|| {
                    let (changes, waiting) = (Arc::clone(changes), Arc::clone(&waiting));
                    ComputeCommand::Follow { id, since, changes, waiting }
                })?;
            }
        }
        Ok(())
    }

    /// Frees what was stopped for want of memory, and stops what reads it: all that is stopped now and was not before.
    pub fn free_stopped(&mut self) -> Vec<GlobalId> {
        let mut why: BTreeMap<GlobalId, Arc<Stopped>> = BTreeMap::new();
        let all = self.clusters.values().flat_map(|cluster| cluster.indexes.iter());
        // Ids are never reused, and what reads something is younger than it.
        let mut ordered: Vec<(&GlobalId, &Maintained)> = all.filter(|(_, index)| !index.is_freed).collect();
        ordered.sort_by_key(|(id, _)| **id);
        for (id, index) in ordered {
            let below = || index.inputs.iter().find_map(|input| why.get(input));
            if let Some(reason) = index.spec.handle.stopped().or_else(below).cloned() {
                index.spec.handle.mark_stopped(&reason);
                why.insert(*id, reason);
            }
        }
        for id in why.keys().rev() {
            for cluster in self.clusters.values_mut() {
                let Some(index) = cluster.indexes.get_mut(id) else { continue };
                index.is_freed = true;
                let spec = Arc::clone(&index.spec);
                // A cluster whose workers are gone has freed it already.
                let _gone = cluster.broadcast(|| ComputeCommand::DropIndex(Arc::clone(&spec)));
            }
        }
        if !why.is_empty() {
            self.pace();
        }
        why.into_keys().collect()
    }

    /// What reads a collection.
    pub fn readers(&self, id: GlobalId) -> Vec<GlobalId> {
        let all = self.clusters.values().flat_map(|cluster| cluster.indexes.iter());
        all.filter(|(_, index)| index.inputs.contains(&id)).map(|(reader, _)| *reader).collect()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        for cluster in self.clusters.values_mut() {
            cluster.shutdown();
        }
    }
}

impl Cluster {
    fn broadcast(&self, command: impl Fn() -> ComputeCommand) -> Result<(), ComputeError> {
        self.tell(command)?;
        self.wake();
        Ok(())
    }

    /// Gives the workers a command that they find when they are woken.
    fn tell(&self, command: impl Fn() -> ComputeCommand) -> Result<(), ComputeError> {
        let mut told = self.workers.iter().map(|worker| worker.commands.send(command()));
        told.try_for_each(|told| told.map_err(|_| ComputeError::WorkersGone(self.name.clone())))
    }

    fn wake(&self) {
        self.workers.iter().for_each(|worker| worker.thread.unpark());
    }

    /// Lets these come to a time up to which everything is known.
    fn go_on(&mut self, indexes: &BTreeSet<GlobalId>, ts: Timestamp) -> Result<(), ComputeError> {
        let mut behind = Vec::new();
        for id in indexes {
            if let Some(index) = self.indexes.get_mut(id).filter(|index| index.told < ts) {
                index.told = ts;
                behind.push(*id);
            }
        }
        if behind.is_empty() {
            return Ok(());
        }
        let (tables, indexes): (Arc<[_]>, Arc<[GlobalId]>) = (Arc::new([]), behind.into());
        let waiting = self.waiting(0);
        self.broadcast(|| {
            let (tables, indexes, waiting) = (Arc::clone(&tables), Arc::clone(&indexes), Arc::clone(&waiting));
            ComputeCommand::Append { ts, since: 0, tables, indexes, waiting }
        })
    }

    /// The memory of what is about to wait for the workers. It is there already, so it is not refused: statements are, meanwhile.
    fn waiting(&self, bytes: usize) -> Arc<Reservation> {
        Arc::new(Reservation::of(&self.waiting, COMMAND_BYTES + bytes))
    }

    /// Frees what was dropped and nothing reads.
    fn free(&mut self) {
        let unread = |indexes: &BTreeMap<GlobalId, Maintained>| {
            let is_read = |id| indexes.values().any(|reader| reader.spec.plan.arrangements().contains(id));
            indexes.iter().find(|(id, index)| index.is_dropped && !is_read(*id)).map(|(id, _)| *id)
        };
        while let Some(id) = unread(&self.indexes) {
            let Some(index) = self.indexes.remove(&id) else { return };
            index.spec.handle.mark_dropped();
            // A cluster whose workers are gone has freed the index already.
            let _gone = self.broadcast(|| ComputeCommand::DropIndex(Arc::clone(&index.spec)));
        }
    }

    fn ports(&self) -> Vec<(Sender<ComputeCommand>, Thread)> {
        self.workers.iter().map(|worker| (worker.commands.clone(), worker.thread.clone())).collect()
    }

    fn shutdown(&mut self) {
        for index in self.indexes.values() {
            index.spec.handle.mark_dropped();
        }
        // Workers that are gone already need no telling.
        let _gone = self.broadcast(|| ComputeCommand::Shutdown);
        for worker in &mut self.workers {
            if let Some(join) = worker.join.take() {
                // A worker that panicked has ended the process before this.
                let _panicked = join.join();
            }
        }
    }
}

/// Whether a commit is shown early: to arrange more takes the committer longer than to wait for the workers.
fn is_small(tables: &[(GlobalId, Vec<Arc<Updates>>)]) -> bool {
    let count: usize = tables.iter().flat_map(|(_, all)| all).map(|updates| updates.len()).sum();
    count <= EARLY_UPDATES_MAX && byte_count(tables) <= EARLY_BYTES_MAX
}

fn byte_count(tables: &[(GlobalId, Vec<Arc<Updates>>)]) -> usize {
    tables.iter().flat_map(|(_, all)| all).map(|updates| updates.bytes()).sum()
}

/// A worker has ended.
struct Gone;

fn send_all(ports: &[(Sender<ComputeCommand>, Thread)], command: impl Fn() -> ComputeCommand) -> Result<(), Gone> {
    for (commands, thread) in ports {
        commands.send(command()).map_err(|_| Gone)?;
        thread.unpark();
    }
    Ok(())
}
