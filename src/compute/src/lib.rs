//! The timely workers: they turn tables' updates into arrangements and publish them.
//!
//! Plain threads that never wait for a session. [`worker`] runs one worker's loop over its commands; [`render`] builds the
//! dataflow of an index; [`publish`] shows what it maintains to readers. Entry point: [`LocalWorkers`], which the server
//! hands to the controller.

pub mod publish;
pub mod render;
pub mod worker;

use compute_client::controller::{SpawnWorkers, Worker};

/// Runs the workers of every cluster as threads of this process.
#[derive(Debug, Default)]
pub struct LocalWorkers;

impl SpawnWorkers for LocalWorkers {
    fn spawn(&self, cluster: &str, worker_count: usize) -> Vec<Worker> {
        worker::spawn(cluster, worker_count)
    }
}
