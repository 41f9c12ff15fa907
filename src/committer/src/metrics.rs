//! The committer's metrics.

use ore::counter::Counter;
use ore::metrics::{Histogram, Registry};

/// Handles for everything that the committer counts.
pub struct Metrics {
    /// Write timestamps asked for.
    pub oracle_writes: Counter,
    /// Writes that were applied.
    pub oracle_applies: Counter,
    /// Time of a group commit, durable and applied.
    pub append_seconds: Histogram,
    /// Statements per group commit.
    pub group_size: Histogram,
    /// Group commits that failed.
    pub append_failures: Counter,
    /// Writes sent back because what they had read changed.
    pub conflicts: Counter,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> Metrics {
        let oracle = registry.counter_vec("mz_ts_oracle_started_count", "Calls to the timestamp oracle.", &["op"]);
        Metrics {
            oracle_writes: oracle.with(&["write_ts"]),
            oracle_applies: oracle.with(&["apply_write"]),
            append_seconds: registry.histogram_seconds("mz_append_table_duration_seconds", "Time of a group commit."),
            group_size: registry.histogram_sizes("mz_group_commit_statements", "Statements per group commit."),
            append_failures: registry.counter("mz_append_table_failures_total", "Group commits that failed."),
            conflicts: registry.counter("mz_write_conflicts_total", "Writes whose reads had changed."),
        }
    }
}
