//! The clusters and their workers, and every index that they maintain. Its one caller is the committer's thread.

use crate::error::ComputeError;
use crate::index::IndexHandle;
use crate::protocol::{ComputeCommand, IndexSpec};
use crossbeam_channel::Sender;
use repr::{GlobalId, Timestamp, Updates};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// How long the committer waits for the indexes it has fed before it lets time advance without them: readers then wait
/// by themselves. Well above a worker's step for a small commit, well below what a writer would notice.
const PUBLISH_PATIENCE: Duration = Duration::from_millis(5);

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
    /// By index: the tables that feed it, and its handle.
    indexes: BTreeMap<GlobalId, (BTreeSet<GlobalId>, Arc<IndexHandle>)>,
}

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
        self.clusters.insert(id, Cluster { name: name.to_owned(), workers, indexes: BTreeMap::new() });
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

    /// Starts an index; `rows` are those of its tables as of `spec.as_of`, in pieces. They are sent by a thread of their own,
    /// so that a large table does not hold up commits: updates of later times may overtake them.
    pub fn create_index(
        &mut self,
        cluster: u64,
        spec: IndexSpec,
        rows: impl Iterator<Item = (GlobalId, Arc<Updates>)> + Send + 'static,
    ) -> Result<(), ComputeError> {
        let Some(cluster) = self.clusters.get_mut(&cluster) else {
            return Err(ComputeError::WorkersGone(cluster.to_string()));
        };
        let (id, tables, handle) = (spec.id, spec.plan.tables(), Arc::clone(&spec.handle));
        let spec = Arc::new(spec);
        cluster.broadcast(|| ComputeCommand::CreateIndex(Arc::clone(&spec)))?;
        let ports = cluster.ports();
        let hydrate = move || {
            for (table, rows) in rows {
                // Workers that are gone do not need the rest.
                if send_all(&ports, || ComputeCommand::Hydrate { id, table, rows: Arc::clone(&rows) }).is_err() {
                    return;
                }
            }
            let _gone = send_all(&ports, || ComputeCommand::Hydrated(id));
        };
        drop(ore::thread::spawn(format!("hydrate-{id}"), hydrate));
        cluster.indexes.insert(id, (tables, handle));
        Ok(())
    }

    /// Drops an index.
    pub fn drop_index(&mut self, id: GlobalId) {
        for cluster in self.clusters.values_mut() {
            if let Some((_, handle)) = cluster.indexes.remove(&id) {
                handle.mark_dropped();
                // A cluster whose workers are gone has freed the index already.
                let _gone = cluster.broadcast(|| ComputeCommand::DropIndex(id));
            }
        }
    }

    /// Feeds a commit to the clusters that have an index over one of its tables, and waits until they have published it or
    /// patience runs out.
    pub fn append(
        &self,
        ts: Timestamp,
        since: Timestamp,
        tables: &Arc<[(GlobalId, Vec<Arc<Updates>>)]>,
    ) -> Result<(), ComputeError> {
        let mut touched = Vec::new();
        for cluster in self.clusters.values() {
            let first = touched.len();
            touched.extend(
                cluster
                    .indexes
                    .values()
                    .filter(|(read, _)| tables.iter().any(|(written, _)| read.contains(written)))
                    .map(|(_, handle)| handle),
            );
            if touched.len() > first {
                cluster.broadcast(|| ComputeCommand::Append { ts, since, tables: Arc::clone(tables) })?;
            }
        }
        for handle in touched {
            handle.wait_published(ts, PUBLISH_PATIENCE);
        }
        Ok(())
    }

    /// Every index with its handle.
    pub fn indexes(&self) -> impl Iterator<Item = (GlobalId, &Arc<IndexHandle>)> {
        self.clusters.values().flat_map(|cluster| cluster.indexes.iter().map(|(id, (_, handle))| (*id, handle)))
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
        for (_, handle) in self.indexes.values() {
            handle.mark_dropped();
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

/// A worker has ended.
struct Gone;

fn send_all(ports: &[(Sender<ComputeCommand>, Thread)], command: impl Fn() -> ComputeCommand) -> Result<(), Gone> {
    for (commands, thread) in ports {
        commands.send(command()).map_err(|_| Gone)?;
        thread.unpark();
    }
    Ok(())
}
