//! The word that readers load: a time that only moves forward.
//!
//! `test/model` compiles this file against the model checker's atomics, which is why they come from the parent module.

use super::sync::{AtomicU64, Ordering};

/// A time. On a cache line of its own: it is read by every core and written by few.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new(ts: u64) -> Word {
        Word(AtomicU64::new(ts))
    }

    /// The time. Whatever happened before it was raised to this is seen by who reads it.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Raises the time to `ts`, if it is below. Returns the time afterwards.
    pub(crate) fn raise(&self, ts: u64) -> u64 {
        self.0.fetch_max(ts, Ordering::AcqRel).max(ts)
    }

    /// Moves the time to what `next` makes of it, and returns that. `Err` is a time that `next` makes nothing of, and then
    /// nothing has moved.
    pub(crate) fn step(&self, next: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        let mut moved_to = 0;
        let step = |ts| {
            let ts = next(ts)?;
            moved_to = ts;
            Some(ts)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).map(|_| moved_to)
    }
}
