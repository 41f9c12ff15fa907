//! Metric handles that are made once and cost next to nothing to use.
//!
//! Every crate has one `metrics.rs`: a struct of these handles, made at start from the process's [`Registry`] and
//! passed down. Label look-ups happen then, in [`CounterVec::with`] and its siblings, and never per query: what a
//! hot path holds is a child. On the read path, counters are single relaxed additions, and timings go through a
//! [`SampledTimer`], which reads the clock for one call in N.
//!
//! The types wrap the `prometheus` crate, so that the rest of the workspace depends on what we promise here and
//! not on that crate. Counters are our own ([`crate::counter`]), because its are one contended word each.
//!
//! # Invariants
//! * A name is registered once per registry; a second time is a bug and panics at start.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::counter::{Counter, CounterVec};
use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec as PromHistogramVec, IntGauge, IntGaugeVec, Opts, TextEncoder};

/// Upper bounds for durations in seconds: powers of two from 1 µs to 33 s. Reads take microseconds here and commits
/// milliseconds, so that the usual default of 5 ms and up would put every peek into its first bucket.
pub const SECONDS_BUCKET_COUNT: usize = 26;

/// Upper bounds for counts of things (rows in a batch, writes in a group): powers of two from 1 to 65 536.
pub const SIZE_BUCKET_COUNT: usize = 17;

/// All metrics of one process; `gather_text` is what `/metrics` serves. Clones share the same set.
#[derive(Clone, Debug, Default)]
pub struct Registry(prometheus::Registry);

impl Registry {
    /// An empty set. Tests make their own, so that they may run side by side.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// A count that only grows.
    pub fn counter(&self, name: &str, help: &str) -> Counter {
        self.counter_vec(name, help, &[]).with(&[])
    }

    /// Counts that only grow, told apart by `labels`.
    pub fn counter_vec(&self, name: &str, help: &str, labels: &[&str]) -> CounterVec {
        self.register(name, CounterVec::new(name, help, labels))
    }

    /// A value that goes up and down.
    pub fn gauge(&self, name: &str, help: &str) -> Gauge {
        Gauge(self.register(name, IntGauge::new(name, help)))
    }

    /// Values that go up and down, told apart by `labels`.
    pub fn gauge_vec(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        GaugeVec(self.register(name, IntGaugeVec::new(Opts::new(name, help), labels)))
    }

    /// A distribution of durations, in seconds, from microseconds to half a minute.
    pub fn histogram_seconds(&self, name: &str, help: &str) -> Histogram {
        self.histogram(name, help, powers_of_two(1e-6, SECONDS_BUCKET_COUNT))
    }

    /// A distribution of sizes, from one to tens of thousands.
    pub fn histogram_sizes(&self, name: &str, help: &str) -> Histogram {
        self.histogram(name, help, powers_of_two(1.0, SIZE_BUCKET_COUNT))
    }

    /// A distribution over buckets of one's own: ascending upper bounds.
    pub fn histogram(&self, name: &str, help: &str, buckets: Vec<f64>) -> Histogram {
        let opts = HistogramOpts::new(name, help).buckets(buckets);
        Histogram(self.register(name, prometheus::Histogram::with_opts(opts)))
    }

    /// Distributions of durations in seconds, told apart by `labels`.
    pub fn histogram_seconds_vec(&self, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
        let opts = HistogramOpts::new(name, help).buckets(powers_of_two(1e-6, SECONDS_BUCKET_COUNT));
        HistogramVec(self.register(name, PromHistogramVec::new(opts, labels)))
    }

    /// Every metric in Prometheus's text format.
    pub fn gather_text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.0.gather()).expect("names and labels were checked when registered")
    }

    /// Registers what `made` holds. A bad or repeated name can only be a bug in a `metrics.rs`.
    fn register<C: Collector + Clone + 'static>(&self, name: &str, made: prometheus::Result<C>) -> C {
        let collector = made.unwrap_or_else(|error| panic!("metric {name} is malformed: {error}"));
        let registered = self.0.register(Box::new(collector.clone()));
        registered.unwrap_or_else(|error| panic!("metric {name} cannot be registered: {error}"));
        collector
    }
}

fn powers_of_two(first: f64, count: usize) -> Vec<f64> {
    prometheus::exponential_buckets(first, 2.0, count).expect("the first bound and the count are positive")
}

/// A value that goes up and down. Clones share it.
#[derive(Clone, Debug)]
pub struct Gauge(IntGauge);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: i64) {
        self.0.set(value);
    }

    /// Replaces the value by an unsigned one, capped at what the metric can show.
    pub fn set_u64(&self, value: u64) {
        self.0.set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Adds `by`, which may be negative.
    pub fn add(&self, by: i64) {
        self.0.add(by);
    }

    /// The current value.
    pub fn get(&self) -> i64 {
        self.0.get()
    }
}

/// Gauges told apart by labels.
#[derive(Clone, Debug)]
pub struct GaugeVec(IntGaugeVec);

impl GaugeVec {
    /// The gauge for these label values. Takes a lock: keep it.
    pub fn with(&self, label_values: &[&str]) -> Gauge {
        Gauge(self.0.with_label_values(label_values))
    }

    /// Forgets the gauge for these label values, when what it describes was dropped.
    pub fn remove(&self, label_values: &[&str]) {
        // An error says that there was none, which is what the caller wants.
        let _ = self.0.remove_label_values(label_values);
    }
}

/// A distribution of values. Clones share it.
#[derive(Clone, Debug)]
pub struct Histogram(prometheus::Histogram);

impl Histogram {
    /// Counts one value.
    pub fn observe(&self, value: f64) {
        self.0.observe(value);
    }

    /// Counts one duration, in seconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.0.observe(duration.as_secs_f64());
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.0.get_sample_count()
    }

    /// The sum of the values counted.
    pub fn sum(&self) -> f64 {
        self.0.get_sample_sum()
    }
}

/// Histograms told apart by labels.
#[derive(Clone, Debug)]
pub struct HistogramVec(PromHistogramVec);

impl HistogramVec {
    /// The histogram for these label values. Takes a lock: keep it.
    pub fn with(&self, label_values: &[&str]) -> Histogram {
        Histogram(self.0.with_label_values(label_values))
    }
}

/// Times about one call in `every` into a histogram: cheap enough to leave on around every read.
///
/// Calls are drawn at random, by a generator per thread, and not counted off: two timers on one thread that take
/// turns would fall into step with a counter, and one of them would never be sampled. The histogram's count is the
/// number of samples, so a rate needs a counter beside it.
#[derive(Clone, Debug)]
pub struct SampledTimer {
    histogram: Histogram,
    every: u32,
}

impl SampledTimer {
    /// Samples one in `every` calls; 1 times them all.
    pub fn new(histogram: Histogram, every: u32) -> SampledTimer {
        assert_ne!(every, 0, "one in zero calls cannot be timed");
        SampledTimer { histogram, every }
    }

    /// Starts timing, if this call is one of those drawn. Hand the result to [`SampledTimer::stop`].
    #[inline]
    pub fn start(&self) -> Option<Instant> {
        drawn(self.every).then(Instant::now)
    }

    /// Records the time since `started`, if that call was drawn. A call that failed may be left unrecorded.
    #[inline]
    pub fn stop(&self, started: Option<Instant>) {
        if let Some(started) = started {
            self.histogram.observe_duration(started.elapsed());
        }
    }
}

/// True for about one call in `every`: a step of Marsaglia's xorshift32 on a word of this thread's own.
#[inline]
fn drawn(every: u32) -> bool {
    thread_local! {
        // Any word but zero, which the generator could never leave.
        static WORD: Cell<u32> = Cell::new(rand::random::<u32>() | 1);
    }
    WORD.with(|cell| {
        let mut word = cell.get();
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        cell.set(word);
        (u64::from(word) * u64::from(every)) >> 32 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_served() {
        let registry = Registry::new();
        let requests = registry.counter_vec("requests_total", "Requests.", &["kind"]);
        let reads = requests.with(&["read"]);
        reads.inc();
        reads.clone().inc_by(2);
        requests.with(&["write"]).inc();
        let open = registry.gauge("open", "Open connections.");
        open.add(5);
        open.add(-2);
        registry.histogram_sizes("group_size", "Writes per group.").observe(3.0);
        let text = registry.clone().gather_text();
        for line in [
            "requests_total{kind=\"read\"} 3",
            "requests_total{kind=\"write\"} 1",
            "open 3",
            "group_size_bucket{le=\"2\"} 0",
            "group_size_bucket{le=\"4\"} 1",
            "group_size_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
        }
    }

    #[test]
    fn seconds_reach_from_microseconds_to_half_a_minute() {
        let bounds = powers_of_two(1e-6, SECONDS_BUCKET_COUNT);
        assert_eq!(bounds[0], 1e-6);
        assert!(bounds.last().is_some_and(|last| (30.0..40.0).contains(last)), "{bounds:?}");
        assert_eq!(powers_of_two(1.0, SIZE_BUCKET_COUNT).last(), Some(&65_536.0));
    }

    #[test]
    fn a_dropped_object_leaves_no_gauge() {
        let registry = Registry::new();
        let rows = registry.gauge_vec("rows", "Rows.", &["id"]);
        rows.with(&["u1"]).set_u64(u64::MAX);
        assert_eq!(rows.with(&["u1"]).get(), i64::MAX);
        rows.remove(&["u1"]);
        rows.remove(&["u1"]);
        assert!(!registry.gather_text().contains("u1"));
    }

    #[test]
    #[should_panic(expected = "metric twice cannot be registered")]
    fn a_name_is_registered_once() {
        let registry = Registry::new();
        registry.counter("twice", "One.");
        registry.gauge("twice", "Other.");
    }

    #[test]
    fn a_timer_samples_one_in_n() {
        let registry = Registry::new();
        let all = SampledTimer::new(registry.histogram_seconds("all", "All."), 1);
        let some = SampledTimer::new(registry.histogram_seconds("some", "Some."), 16);
        for _ in 0..16_000 {
            all.stop(all.start());
            some.stop(some.start());
        }
        assert_eq!(all.histogram.count(), 16_000);
        // A thousand are expected; thirty standard deviations wide, so that no seed fails it.
        assert!((100..2_000).contains(&some.histogram.count()), "{} samples", some.histogram.count());
    }
}
