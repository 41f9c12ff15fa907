//! The clusters and their workers, and every index that they maintain. Its one caller is the committer's thread.

use crate::error::ComputeError;
use crate::index::IndexHandle;
use crate::protocol::{ComputeCommand, IndexSpec, Piece};
use crate::tail::Changes;
use crossbeam_channel::{Receiver, Sender, bounded};
use repr::{GlobalId, Timestamp, Updates};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};

/// Indexes of a cluster that are hydrated at once. One after the other each is there as soon as it can be, instead of all of
/// them in the end; a second lane lets small ones pass a large one.
const HYDRATION_LANES: usize = 2;

/// One running worker.
pub struct Worker {
    /// Where its commands go.
    pub commands: Sender<ComputeCommand>,
    /// Its thread, to be woken after a command was sent.
    pub thread: Thread,
    /// Joined when the cluster is dropped.
    pub join: Option<JoinHandle<()>>,
}

/// Starts the workers of a cluster; implemented by crate `compute`, handed in by the server.
pub trait SpawnWorkers: Send + Sync {
    /// Starts `worker_count` workers.
    fn spawn(&self, cluster: &str, worker_count: usize) -> Vec<Worker>;
}

/// One cluster: its workers and what they maintain.
struct Cluster {
    name: String,
    workers: Vec<Worker>,
    indexes: BTreeMap<GlobalId, Maintained>,
    lanes: Lanes,
}

/// Something that a cluster maintains.
struct Maintained {
    spec: Arc<IndexSpec>,
    /// The collections that feed it.
    inputs: BTreeSet<GlobalId>,
    /// The tables at whose writes its time goes on: those below it, and those below whatever reads it, which could not go
    /// on otherwise. Likewise the dataflows at whose scheduled changes it does.
    paced_by: BTreeSet<GlobalId>,
    /// The latest time that it was told.
    told: Timestamp,
}

impl Maintained {
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

/// All clusters of this process.
pub struct Controller {
    spawner: Box<dyn SpawnWorkers>,
    clusters: BTreeMap<u64, Cluster>,
}

impl Controller {
    /// A controller without clusters.
    pub fn new(spawner: Box<dyn SpawnWorkers>) -> Controller {
        Controller { spawner, clusters: BTreeMap::new() }
    }

    /// Starts a cluster's workers.
    pub fn create_cluster(&mut self, id: u64, name: &str, worker_count: usize) {
        let workers = self.spawner.spawn(name, worker_count);
        let cluster = Cluster { name: name.to_owned(), workers, indexes: BTreeMap::new(), lanes: Lanes::new() };
        self.clusters.insert(id, cluster);
    }

    /// Stops a cluster's workers and drops its indexes.
    pub fn drop_cluster(&mut self, id: u64) {
        if let Some(mut cluster) = self.clusters.remove(&id) {
            cluster.shutdown();
        }
    }

    /// The number of workers of a cluster.
    pub fn worker_count(&self, cluster: u64) -> Option<usize> {
        self.clusters.get(&cluster).map(|cluster| cluster.workers.len())
    }

    /// Starts an index; `rows` is called on a thread of its own and gives the rows of its inputs as of `spec.as_of`, in
    /// pieces, so that a large table does not hold up commits: updates of later times may overtake them. If it fails, that
    /// is what the index's readers are told. What the index held before, if that is known, is shown until it is there.
    /// `ready` is called on that thread before, and waits until `rows` can be had without waiting for another index.
    pub fn create_index(
        &mut self,
        cluster: u64,
        spec: IndexSpec,
        seed: Option<Seed>,
        ready: impl FnOnce() + Send + 'static,
        rows: impl FnOnce(&mut dyn FnMut(GlobalId, Timestamp, Piece)) -> Result<(), ComputeError> + Send + 'static,
    ) -> Result<(), ComputeError> {
        let Some(cluster) = self.clusters.get_mut(&cluster) else {
            return Err(ComputeError::WorkersGone(cluster.to_string()));
        };
        let spec = Arc::new(spec);
        cluster.broadcast(|| ComputeCommand::CreateIndex(Arc::clone(&spec)))?;
        let (ports, lanes, index) = (cluster.ports(), cluster.lanes.clone(), Arc::clone(&spec));
        let hydrate = move || {
            // Workers that are gone need none of this.
            if let Some(rows) = seed.and_then(|seed| seed()) {
                let rows: Arc<[Updates]> = rows.into();
                let _gone =
                    send_all(&ports, || ComputeCommand::Seed { index: Arc::clone(&index), rows: Arc::clone(&rows) });
            }
            ready();
            let _lane = lanes.enter();
            let read = rows(&mut |input, ts, piece| {
                let _gone = send_all(&ports, || {
                    let (index, piece) = (Arc::clone(&index), piece.clone());
                    ComputeCommand::Hydrate { index, input, ts, piece }
                });
            });
            match read {
                Ok(()) => {
                    let _gone = send_all(&ports, || ComputeCommand::Hydrated(Arc::clone(&index)));
                    let is_there = |handle: &IndexHandle| handle.is_hydrated() && !handle.is_seeded();
                    futures::executor::block_on(index.handle.wait_until(is_there));
                }
                // Without all of its rows it would give wrong answers: it gives none.
                Err(reason) => {
                    index.handle.mark_ended(reason);
                    let _gone = send_all(&ports, || ComputeCommand::DropIndex(Arc::clone(&index)));
                }
            }
        };
        drop(ore::thread::spawn(format!("hydrate-{}", spec.id), hydrate));
        let (inputs, paced_by, told) = (spec.plan.tables(), sources(&spec.handle), spec.from);
        cluster.indexes.insert(spec.id, Maintained { spec, inputs, paced_by, told });
        self.pace();
        Ok(())
    }

    /// Drops an index.
    pub fn drop_index(&mut self, id: GlobalId) {
        for cluster in self.clusters.values_mut() {
            if let Some(index) = cluster.indexes.remove(&id) {
                index.spec.handle.mark_dropped();
                // A cluster whose workers are gone has freed the index already.
                let _gone = cluster.broadcast(|| ComputeCommand::DropIndex(Arc::clone(&index.spec)));
            }
        }
        self.pace();
    }

    /// Finds out again at whose writes time goes on for what.
    fn pace(&mut self) {
        let all = || self.clusters.values().flat_map(|cluster| cluster.indexes.iter());
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
        let all = self.clusters.values().flat_map(|cluster| cluster.indexes.iter());
        let due: Vec<GlobalId> = all.filter(|(_, index)| index.next_change() <= ts).map(|(id, _)| *id).collect();
        for cluster in self.clusters.values_mut() {
            let is_paced = |index: &Maintained| {
                tables.iter().map(|(written, _)| written).chain(&due).any(|source| index.paced_by.contains(source))
            };
            let first = touched.len();
            for index in cluster.indexes.values_mut().filter(|index| is_paced(index)) {
                index.told = ts;
                touched.push(Arc::clone(&index.spec.handle));
            }
            if touched.len() > first {
                let indexes: Arc<[GlobalId]> = touched[first..].iter().map(|handle| handle.id).collect();
                cluster.broadcast(|| {
                    let (tables, indexes) = (Arc::clone(tables), Arc::clone(&indexes));
                    ComputeCommand::Append { ts, since, tables, indexes }
                })?;
            }
        }
        // Ids are never reused, and what reads something is younger than it.
        touched.sort_by_key(|handle| handle.id);
        Ok(touched)
    }

    /// Tells what happened in a maintained collection to the clusters that read it.
    pub fn follow(&self, id: GlobalId, since: Timestamp, changes: &Arc<Changes>) -> Result<(), ComputeError> {
        for cluster in self.clusters.values() {
            if cluster.indexes.values().any(|index| index.inputs.contains(&id)) {
                cluster.broadcast(|| ComputeCommand::Follow { id, since, changes: Arc::clone(changes) })?;
            }
        }
        Ok(())
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
        send_all(&self.ports(), command).map_err(|Gone| ComputeError::WorkersGone(self.name.clone()))
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

/// The lanes of a cluster in which indexes are hydrated: as many tokens as may be at once.
#[derive(Clone)]
struct Lanes(Sender<()>, Receiver<()>);

impl Lanes {
    fn new() -> Lanes {
        let (free, tokens) = bounded(HYDRATION_LANES);
        (0..HYDRATION_LANES).for_each(|_| free.send(()).expect("there is room for every token"));
        Lanes(free, tokens)
    }

    /// Waits for a lane, which is free again when what is returned is dropped.
    fn enter(&self) -> Lane {
        self.1.recv().expect("a sender is at hand");
        Lane(self.0.clone())
    }
}

struct Lane(Sender<()>);

impl Drop for Lane {
    fn drop(&mut self) {
        self.0.send(()).expect("the receiver is held by whoever waits or by the cluster");
    }
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
