//! What the committer works with.
//!
//! Each capability is a trait of the crate to which it belongs, below this one: the oracle's time, the stores under the
//! [`PersistClient`], the workers under the controller, and here the clock, what runs beside, and how the process ends. So a
//! simulation (`tests/alone`) puts stores that fail, workers that are late, and time that jumps under the code that the server
//! runs, that of persist and of the controller included.

use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::published::Published;
use arc_swap::ArcSwap;
use compute_client::read_hold::ReadHolds;
use engine::Engine;
use ore::clock::Clock;
use ore::exit::End;
use ore::memory::Share;
use ore::thread::Beside;
use persist::PersistClient;
use repr::Timestamp;
use std::sync::Arc;
use timestamp_oracle::TimestampOracle;

/// What [`Environment::long_updates`] is for a server.
pub const LONG_UPDATES: u64 = 10_000;

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
    /// The time of day, and how long something takes.
    pub clock: Clock,
    /// Runs what takes long while the committer goes on.
    pub beside: Arc<dyn Beside>,
    /// Tables with more updates than this are read beside.
    pub long_updates: u64,
    /// Ends the process, which cannot go on.
    pub end: End,
    /// How far back reads may go without a hold, in microseconds.
    pub retain_us: Timestamp,
    /// What is counted.
    pub metrics: Metrics,
    /// How it is asked.
    pub handle: Handle,
}
