//! Counters that many threads add to without touching each other's cache lines.
//!
//! A point read adds to three counters. Were each of them one word, it would travel between the cores for every query of
//! either. So a counter is a few words on lines of their own, and a thread adds to the one that it was dealt; reading sums
//! them up, which only `/metrics` does.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use prometheus::core::{Collector, Desc};
use prometheus::proto;

/// Words per counter. Threads beyond as many share.
const SHARD_COUNT: usize = 8;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

/// A count that only grows. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<[Shard; SHARD_COUNT]>);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn inc(&self) {
        self.inc_by(1);
    }

    /// Adds `by`.
    #[inline]
    pub fn inc_by(&self, by: u64) {
        self.0[shard()].0.fetch_add(by, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }
}

/// The shard of this thread.
#[inline]
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SHARD_COUNT);
    }
    SHARD.with(Cell::get)
}

/// Counters of one name, told apart by labels. All of them are made at start.
#[derive(Clone, Debug)]
pub struct CounterVec {
    desc: Desc,
    labels: Arc<[String]>,
    children: Arc<parking_lot::Mutex<Vec<(Vec<String>, Counter)>>>,
}

impl CounterVec {
    pub(crate) fn new(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<CounterVec> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels.clone(), std::collections::HashMap::new())?;
        Ok(CounterVec { desc, labels: labels.into(), children: Arc::default() })
    }

    /// The counter for these label values, in the order in which the labels were declared. Takes a lock: keep it.
    ///
    /// # Panics
    /// When there are not as many values as labels.
    pub fn with(&self, label_values: &[&str]) -> Counter {
        assert_eq!(label_values.len(), self.labels.len(), "one value per label of {}", self.desc.fq_name);
        let mut children = self.children.lock();
        if let Some((_, counter)) = children.iter().find(|(values, _)| values == label_values) {
            return counter.clone();
        }
        let counter = Counter::default();
        children.push((label_values.iter().map(|value| (*value).to_owned()).collect(), counter.clone()));
        counter
    }
}

impl Collector for CounterVec {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let children = self.children.lock();
        let metrics = children.iter().map(|(values, counter)| {
            let mut count = proto::Counter::default();
            #[allow(clippy::cast_precision_loss, reason = "Prometheus counts in floats")]
            count.set_value(counter.get() as f64);
            let pairs = self.labels.iter().zip(values).map(|(name, value)| {
                let mut pair = proto::LabelPair::default();
                pair.set_name(name.clone());
                pair.set_value(value.clone());
                pair
            });
            let mut metric = proto::Metric::from_label(pairs.collect());
            metric.set_counter(count);
            metric
        });
        let mut family = proto::MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(proto::MetricType::COUNTER);
        family.set_metric(metrics.collect());
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;

    #[test]
    fn threads_add_up() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1_000).for_each(|_| counter.inc()));
            }
        });
        counter.inc_by(5);
        assert_eq!(counter.get(), 20_005);
    }
}
