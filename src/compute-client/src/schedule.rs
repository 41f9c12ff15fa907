//! When the rows of temporal filters come and go: what a table's clock is for writes, a schedule is for the passing of time.
//!
//! A temporal filter knows at which times in the future something changes. It notes the next of them here, and the latest that
//! has passed, before anybody downstream can see that it has. So a reader that finds a snapshot complete up to some time can
//! tell whether anything has happened between that and the time at which it reads, and the committer can let time come to
//! the next change.

use repr::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The changes of one dataflow that come with time alone: one entry per worker and temporal filter.
pub struct Schedule {
    entries: Box<[Entry]>,
    claimed: AtomicUsize,
    ring: Box<dyn Fn() + Send + Sync>,
}

struct Entry {
    /// The latest change that has happened.
    last: AtomicU64,
    /// The next one; [`Timestamp::MAX`] is never.
    next: AtomicU64,
}

impl Schedule {
    /// A schedule on which nothing stands yet. `ring` is called whenever the next change becomes another one. It must not block.
    pub fn new(entry_count: usize, ring: impl Fn() + Send + Sync + 'static) -> Schedule {
        let entry = || Entry { last: AtomicU64::new(0), next: AtomicU64::new(Timestamp::MAX) };
        let entries = (0..entry_count).map(|_| entry()).collect();
        Schedule { entries, claimed: AtomicUsize::new(0), ring: Box::new(ring) }
    }

    /// An entry of one's own.
    ///
    /// # Panics
    /// When all are taken.
    pub fn claim(self: &Arc<Self>) -> Slot {
        let at = self.claimed.fetch_add(1, Ordering::Relaxed);
        assert!(at < self.entries.len(), "each temporal filter of each worker claims one entry");
        Slot { schedule: Arc::clone(self), at }
    }

    /// The next change after `ts`, or [`Timestamp::MAX`].
    pub fn next_after(&self, ts: Timestamp) -> Timestamp {
        let next = self.entries.iter().map(|entry| entry.next.load(Ordering::Acquire));
        next.filter(|next| *next > ts).min().unwrap_or(Timestamp::MAX)
    }

    /// Whether nothing changes at the times from `upper` to `as_of`.
    pub fn is_quiet(&self, upper: Timestamp, as_of: Timestamp) -> bool {
        // In this order: who sees that the next change is another one sees that the one before has happened.
        self.entries
            .iter()
            .all(|entry| entry.next.load(Ordering::Acquire) > as_of && entry.last.load(Ordering::Acquire) < upper)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").field("next", &self.next_after(0)).finish_non_exhaustive()
    }
}

/// The entry of one temporal filter on one worker.
pub struct Slot {
    schedule: Arc<Schedule>,
    at: usize,
}

impl Slot {
    /// Notes the latest change that has happened and the next one. To be called before it can be seen downstream that time
    /// has passed the latest.
    pub fn set(&self, last: Timestamp, next: Timestamp) {
        let entry = &self.schedule.entries[self.at];
        entry.last.store(last, Ordering::Release);
        if entry.next.swap(next, Ordering::AcqRel) != next {
            (self.schedule.ring)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_between_the_last_and_the_next() {
        let rung = Arc::new(AtomicUsize::new(0));
        let bell = Arc::clone(&rung);
        let schedule = Arc::new(Schedule::new(2, move || {
            bell.fetch_add(1, Ordering::Relaxed);
        }));
        let (one, other) = (schedule.claim(), schedule.claim());
        assert_eq!((schedule.next_after(0), schedule.is_quiet(1, 1_000)), (Timestamp::MAX, true));
        one.set(0, 50);
        other.set(20, 70);
        assert_eq!([0, 49, 50, 70].map(|ts| schedule.next_after(ts)), [50, 50, 70, Timestamp::MAX]);
        assert!(schedule.is_quiet(21, 49));
        assert!(!schedule.is_quiet(20, 49), "the change at 20 may be missing");
        assert!(!schedule.is_quiet(21, 50), "something changes at 50");
        other.set(20, 70);
        assert_eq!(rung.load(Ordering::Relaxed), 2, "nothing new");
    }
}
