//! Read holds of transactions and cursors: what keeps compaction from passing a time that is still being read.
//!
//! Autocommit reads take none: a snapshot is its own hold. A transaction acquires one hold on the whole timeline with its
//! first read, so that later reads of any object can use the same timestamp.
//!
//! # Invariants
//! - Compaction frontiers are computed from [`ReadHolds::oldest`] less the retain window, so a hold acquired within that
//!   window after its timestamp was chosen is never too late.

use parking_lot::Mutex;
use repr::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All holds on the timeline.
#[derive(Debug, Default)]
pub struct ReadHolds {
    counts: Mutex<BTreeMap<Timestamp, usize>>,
}

impl ReadHolds {
    /// Holds every collection at `ts` until the result is dropped.
    pub fn acquire(self: &Arc<Self>, ts: Timestamp) -> ReadHold {
        *self.counts.lock().entry(ts).or_default() += 1;
        ReadHold { holds: Arc::clone(self), ts }
    }

    /// The least held time.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.counts.lock().keys().next().copied()
    }
}

/// A hold at one time; dropping it releases it.
#[derive(Debug)]
pub struct ReadHold {
    holds: Arc<ReadHolds>,
    ts: Timestamp,
}

impl ReadHold {
    /// The held time.
    pub fn ts(&self) -> Timestamp {
        self.ts
    }
}

impl Drop for ReadHold {
    fn drop(&mut self) {
        let mut counts = self.holds.counts.lock();
        if let Some(count) = counts.get_mut(&self.ts) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.ts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReadHolds;
    use std::sync::Arc;

    #[test]
    fn the_oldest_hold_counts() {
        let holds = Arc::new(ReadHolds::default());
        assert_eq!(holds.oldest(), None);
        let (a, b, c) = (holds.acquire(7), holds.acquire(3), holds.acquire(3));
        assert_eq!(holds.oldest(), Some(3));
        drop(b);
        assert_eq!(holds.oldest(), Some(3));
        drop(c);
        assert_eq!(holds.oldest(), Some(7));
        drop(a);
        assert_eq!(holds.oldest(), None);
    }
}
