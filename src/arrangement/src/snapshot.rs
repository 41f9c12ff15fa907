//! What a reader sees of an arrangement: the batches of one moment, and the slot they are published in.
//!
//! 1. The worker that maintains an arrangement collects its batches into a [`Snapshot`] and stores it
//!    ([`SnapshotSlot::publish`]).
//! 2. A reader loads the slot ([`SnapshotSlot::load`]); what it got stays readable for as long as it keeps it, whatever
//!    the worker merges or drops meanwhile: a snapshot is its own read hold.
//!
//! # Invariants
//! - `since` and `upper` of a slot only advance.
//! - A new slot holds no batch and has `upper` 0: nothing is readable before the worker has published.
//!
//! A small collection that changes often has more history than rows. Its rows are found once, when it is published, and
//! not by each of the many reads until the next change.

pub mod cursor;

use crate::spine::RowBatch;
use arc_swap::{ArcSwap, Guard};
use cursor::{Bounds, Hit, Hits, Walk};
use repr::Timestamp;
use std::sync::Arc;

/// Collections with no more updates than this are walked when they are published.
const SMALL_UPDATES_MAX: usize = 64;

/// A consistent view of one worker's part of an arrangement, readable at times in `[since, upper)`.
#[derive(Default)]
pub struct Snapshot {
    /// The collection's rows, by key.
    pub oks: Vec<RowBatch>,
    /// The errors that its evaluation met, as values under the empty key; any of them makes a read fail.
    pub errs: Vec<RowBatch>,
    /// Reads below this time would see updates that compaction has moved.
    pub since: Timestamp,
    /// Updates at and above this time may be missing.
    pub upper: Timestamp,
    /// The rows of a small collection, as of all times from its latest update on.
    settled: Option<Settled>,
}

#[derive(Default)]
struct Settled {
    latest: Timestamp,
    hits: Hits,
}

impl Snapshot {
    /// A view of these batches.
    pub fn new(oks: Vec<RowBatch>, errs: Vec<RowBatch>, since: Timestamp, upper: Timestamp) -> Snapshot {
        let mut snapshot = Snapshot { oks, errs, since, upper, settled: None };
        if snapshot.update_count() <= SMALL_UPDATES_MAX {
            let times = snapshot.oks.iter().flat_map(|batch| batch.storage.upds.times.iter());
            let mut settled = Settled { latest: times.max().copied().unwrap_or(0), hits: Hits::new() };
            Walk::new(&snapshot.oks, Bounds::All).take(
                &snapshot.oks,
                Timestamp::MAX,
                SMALL_UPDATES_MAX,
                &mut settled.hits,
            );
            snapshot.settled = Some(settled);
        }
        snapshot
    }

    /// The same with batches over it, of updates before every time.
    #[must_use]
    pub fn under(&self, batches: &[RowBatch]) -> Snapshot {
        let oks = self.oks.iter().chain(batches).cloned().collect();
        Snapshot { oks, errs: self.errs.clone(), since: self.since, upper: self.upper, settled: None }
    }

    /// All rows as of a time, if they were found beforehand.
    pub fn settled(&self, as_of: Timestamp) -> Option<&[Hit]> {
        self.settled.as_ref().filter(|settled| settled.latest <= as_of).map(|settled| settled.hits.as_slice())
    }

    /// The number of updates in the collection's batches, an upper bound on its rows.
    pub fn update_count(&self) -> usize {
        self.oks.iter().map(|batch| batch.updates).sum()
    }

    /// The bytes that the collection's batches occupy, without allocator overhead.
    pub fn byte_count(&self) -> usize {
        self.oks.iter().map(RowBatch::byte_count).sum()
    }
}

/// The cell through which one worker shows its arrangement to all readers.
#[derive(Default)]
pub struct SnapshotSlot {
    current: ArcSwap<Snapshot>,
}

impl SnapshotSlot {
    /// Replaces the snapshot and returns the one before, which may be the last hold on much memory. Only whoever keeps the slot calls
    /// this, one call at a time.
    ///
    /// # Panics
    /// When `since` or `upper` would go back.
    pub fn publish(&self, snapshot: impl Into<Arc<Snapshot>>) -> Arc<Snapshot> {
        let (previous, snapshot) = (self.current.load(), snapshot.into());
        assert!(
            previous.since <= snapshot.since && previous.upper <= snapshot.upper,
            "frontiers only advance: since {} to {}, upper {} to {}",
            previous.since,
            snapshot.since,
            previous.upper,
            snapshot.upper,
        );
        self.current.swap(snapshot)
    }

    /// Lets go of the snapshot: nothing is readable any more. Called by whoever publishes, last.
    pub fn clear(&self) {
        self.current.store(Arc::default());
    }

    /// The latest snapshot, without touching its reference count.
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// The latest snapshot, held.
    pub fn load_full(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }
}
