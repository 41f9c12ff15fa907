//! What the committer works with.

use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::published::Published;
use arc_swap::ArcSwap;
use compute_client::read_hold::ReadHolds;
use ore::clock::Clock;
use ore::memory::Share;
use persist::PersistClient;
use repr::Timestamp;
use sql::engine::Engine;
use std::sync::Arc;
use timestamp_oracle::TimestampOracle;

/// The stores, the time, and what readers have in common with the committer.
pub struct Environment {
    /// Compiles and evaluates expressions.
    pub engine: Arc<Engine>,
    /// The memory of what statements, and changes of the catalog, make of rows.
    pub memory: Arc<Share>,
    /// What readers see. The committer alone changes it.
    pub published: Arc<ArcSwap<Published>>,
    /// Gives write timestamps, and is raised when a write may be seen.
    pub oracle: Arc<dyn TimestampOracle>,
    /// The durable shards and the catalog's records.
    pub persist: PersistClient,
    /// The times that readers still read.
    pub holds: Arc<ReadHolds>,
    /// The time of day.
    pub clock: Clock,
    /// How far back reads may go without a hold, in microseconds.
    pub retain_us: Timestamp,
    /// What is counted.
    pub metrics: Metrics,
    /// How it is asked.
    pub handle: Handle,
}
