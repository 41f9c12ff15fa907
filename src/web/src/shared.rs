//! What every connection shares.

use crate::cube::CubeConfig;
use crate::told::Refusal;
use axum::http::StatusCode;
use door::entrance::Entrance;
use door::visitor;
use repr::sqlstate::SqlState;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A connection.
pub(crate) type Visitor = visitor::Visitor<Arc<Shared>>;
/// A session that answers a request of one.
pub(crate) type Seated = visitor::Seated<Arc<Shared>>;

/// What every connection shares.
pub(crate) struct Shared {
    /// Known when SQL is served.
    pub(crate) entrance: Arc<OnceLock<Arc<Entrance>>>,
    /// The largest body that is read into memory.
    pub(crate) request_bytes_max: usize,
    /// Pages of these origins may send requests.
    pub(crate) origins: Vec<String>,
    /// How Cube's API is served.
    pub(crate) cube: CubeConfig,
    /// Queries that may still be followed by it.
    pub(crate) followed: Arc<Semaphore>,
    /// How long what was told in events is kept after its reader has gone, if a request does not say.
    pub(crate) subscribe_history: Duration,
    /// WebSockets may be introduced, so many at a time.
    pub(crate) introductions: Semaphore,
    /// So many may stay that were not let in, for a while.
    pub(crate) strangers: Semaphore,
}

impl Shared {
    /// Where sessions begin. Error 503 before SQL is served.
    pub(crate) fn entrance(&self) -> Result<&Arc<Entrance>, Refusal> {
        self.entrance.get().ok_or_else(|| {
            let message = "SQL is not served yet";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, SqlState::CANNOT_CONNECT_NOW, message)
        })
    }
}
