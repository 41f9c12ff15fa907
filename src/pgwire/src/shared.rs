//! What every connection shares.

use crate::metrics::Metrics;
use door::entrance::Entrance;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The protocol's name in ALPN.
pub(crate) const PROTOCOL: &[u8] = b"postgresql";

/// What every connection shares.
pub(crate) struct Shared {
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) metrics: Metrics,
    pub(crate) handshake_timeout: Duration,
    pub(crate) request_bytes_max: usize,
    /// Fires when the server stops.
    pub(crate) stop: CancellationToken,
}
