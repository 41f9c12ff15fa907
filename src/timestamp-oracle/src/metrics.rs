//! What a shared oracle costs and whether its fast path is open. How often it is asked is counted by who asks.

use ore::metrics::{Gauge, Histogram, Registry};

/// Handles for everything that a shared oracle measures.
#[derive(Clone)]
pub struct Metrics {
    /// Of batched reads.
    pub batch: BatchMetrics,
    /// 1 while reads are one load.
    pub lease_held: Gauge,
    /// The owner's number.
    pub epoch: Gauge,
}

/// What batched reads measure.
#[derive(Clone)]
pub struct BatchMetrics {
    /// How long a caller waited.
    pub wait_seconds: Histogram,
    /// How long a call to the store took.
    pub inner_read_seconds: Histogram,
    /// How many callers a call was for.
    pub batch_size: Histogram,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> Metrics {
        let seconds = |name: &str, help: &str| registry.histogram_seconds_vec(name, help, &["op"]).with(&["read_ts"]);
        Metrics {
            batch: BatchMetrics {
                wait_seconds: seconds("mz_ts_oracle_batch_wait_seconds", "Time that a caller waited for a batch."),
                inner_read_seconds: seconds("mz_ts_oracle_batch_inner_read_seconds", "Time of a batch's call."),
                batch_size: registry.histogram_sizes("mz_ts_oracle_batch_size", "Callers per call to the store."),
            },
            lease_held: registry.gauge("mz_ts_oracle_lease_held", "Whether reads of the time are one load."),
            epoch: registry.gauge("mz_ts_oracle_epoch", "The number of this owner of the timeline."),
        }
    }
}
