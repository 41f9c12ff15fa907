//! A log-linear histogram of durations: 64 sub-buckets per power of two.
//!
//! Why our own: recording has to cost a few nanoseconds, since client and server share the cores of the machine, and a
//! quantile needs no more than 1.6 % precision. Values are nanoseconds.
//!
//! # Invariants
//! - `total` is the sum of `counts`; buckets partition `u64` in order.

use std::time::Duration;

/// Bits of precision below the leading one: an error of at most 1/64.
const SUB_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Powers of two above the linear part: up to `u64::MAX` nanoseconds.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB_BUCKETS;

/// Counts of durations by bucket.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    /// Adds one duration.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanos)] += 1;
        self.total += 1;
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// How many durations were recorded.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The duration, in microseconds, that the share `quantile` of all durations does not exceed; zero when empty.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let rank = ((self.total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_of(bucket) as f64 / 1000.0;
            }
        }
        0.0
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < SUB_BUCKETS as u64 {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - SUB_BITS;
    let octave = (shift as usize + 1) << SUB_BITS;
    octave + ((nanos >> shift) as usize - SUB_BUCKETS)
}

fn middle_of(bucket: usize) -> u64 {
    if bucket < SUB_BUCKETS {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let lower = ((bucket % SUB_BUCKETS + SUB_BUCKETS) as u64) << shift;
    lower + (1u64 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_partition_the_values_in_order() {
        let mut last = 0;
        for nanos in (0..5_000u64).chain((13..64).map(|bit| 1 << bit)) {
            let bucket = bucket_of(nanos);
            assert!(bucket == last || nanos >= 5_000 || bucket == last + 1, "a gap at {nanos}");
            assert!(bucket >= last, "{nanos} goes backwards");
            last = bucket;
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_within_two_percent() {
        let mut histogram = Histogram::new();
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (quantile, expected) in [(0.5, 5_000.0), (0.99, 9_900.0), (0.999, 9_990.0)] {
            let measured = histogram.quantile_us(quantile);
            assert!((measured / expected - 1.0_f64).abs() < 0.02, "{quantile}: {measured}");
        }
    }

    #[test]
    fn merging_adds_up() {
        let (mut one, mut other) = (Histogram::new(), Histogram::new());
        one.record(Duration::from_micros(1));
        other.record(Duration::from_millis(1));
        one.merge(&other);
        assert_eq!(one.total(), 2);
        assert!(one.quantile_us(1.0) > 980.0);
        assert!(one.quantile_us(0.5) < 1.1);
    }
}
