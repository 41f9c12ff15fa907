//! What every connection shares.

use door::entrance::Entrance;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// What every connection shares.
pub(crate) struct Shared {
    /// Known when SQL is served.
    pub(crate) entrance: OnceLock<Arc<Entrance>>,
    /// The largest body that is read into memory.
    pub(crate) request_bytes_max: usize,
    /// Pages of these origins may send requests.
    pub(crate) origins: Vec<String>,
    /// WebSockets may be introduced, so many at a time.
    pub(crate) introductions: Semaphore,
}
