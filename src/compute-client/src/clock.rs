//! When a table was last written: how a reader knows that an index that heard of nothing missed nothing
//! ([`crate::index`]).
//!
//! `test/model` compiles this file against the model checker's atomics, which is why they come from the parent module.

use super::sync::{AtomicU64, Ordering};

/// The time of a table's latest write. Its one writer is the committer.
#[derive(Debug, Default)]
pub struct CollectionClock(AtomicU64);

impl CollectionClock {
    /// Notes a write, before the oracle is raised to it.
    pub fn advance(&self, ts: u64) {
        self.0.fetch_max(ts, Ordering::Release);
    }

    /// The latest write.
    pub fn last_write(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
