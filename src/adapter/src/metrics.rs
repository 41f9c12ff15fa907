//! The adapter's metrics: handles made once, cheap enough to leave on.

use ore::counter::Counter;
use ore::metrics::{Gauge, Registry, SampledTimer};

/// One of how many statements is timed: a clock read costs as much as a good part of a point read.
const TIMED_EVERY: u32 = 64;

/// Handles for everything the adapter counts.
pub struct Metrics {
    /// Time to answer a SELECT from an index, up to its first row.
    pub peek_seconds: SampledTimer,
    /// Time from a SELECT's start to its first row, however it is answered.
    pub first_row_seconds: SampledTimer,
    /// Read timestamps that were one load.
    pub oracle_fast_reads: Counter,
    /// Read timestamps that the oracle had to ask elsewhere.
    pub oracle_slow_reads: Counter,
    /// Plans found in a cache.
    pub plan_hits: Counter,
    /// Plans made.
    pub plan_misses: Counter,
    /// Plans held.
    pub plan_entries: Gauge,
    /// SELECTs by how they were answered.
    pub peeks_direct: Counter,
    /// SELECTs that evaluated expressions over an index's rows.
    pub peeks_evaluated: Counter,
    /// SELECTs that the ad hoc engine ran.
    pub peeks_adhoc: Counter,
    /// SELECTs without any relation.
    pub peeks_constant: Counter,
    /// Open sessions.
    pub sessions: Gauge,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> Metrics {
        let fast_path = registry.counter_vec(
            "mz_ts_oracle_fast_path_total",
            "Read timestamps, by whether one load was enough.",
            &["result"],
        );
        let peeks = registry.counter_vec("mz_peeks_total", "SELECTs by the way they were answered.", &["strategy"]);
        let cache = registry.counter_vec("mz_plan_cache_lookups_total", "Look-ups in the plan cache.", &["result"]);
        let timed = |name: &str, help: &str| SampledTimer::new(registry.histogram_seconds(name, help), TIMED_EVERY);
        Metrics {
            peek_seconds: timed("mz_frontend_peek_seconds", "Time to open a peek on an index (sampled)."),
            first_row_seconds: timed("mz_time_to_first_row_seconds", "Time to a SELECT's first row (sampled)."),
            oracle_fast_reads: fast_path.with(&["hit"]),
            oracle_slow_reads: fast_path.with(&["miss"]),
            plan_hits: cache.with(&["hit"]),
            plan_misses: cache.with(&["miss"]),
            plan_entries: registry.gauge("mz_plan_cache_entries", "Plans in the shared cache."),
            peeks_direct: peeks.with(&["direct"]),
            peeks_evaluated: peeks.with(&["evaluated"]),
            peeks_adhoc: peeks.with(&["adhoc"]),
            peeks_constant: peeks.with(&["constant"]),
            sessions: registry.gauge("mz_active_sessions", "Open sessions."),
        }
    }
}
