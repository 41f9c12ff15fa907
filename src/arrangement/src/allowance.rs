//! What a dataflow may hold in memory.
//!
//! Whatever grows with a dataflow's data (what waits to be arranged, batches, a map of groups) holds bytes of the dataflow's
//! [`Allowance`] and asks before it grows. The first refusal is final: nothing more is given, whoever was refused throws away
//! what it was to keep, and the dataflow is to be stopped, as it is wrong from then on.
//!
//! # Invariants
//! - Who was refused looks at [`Allowance::refused`] before it shows anything: a dataflow's workers share one allowance, so a
//!   refusal comes before anything that follows from what was thrown away.

use ore::memory::{Refused, Reservation, STEP, Share};
use std::sync::{Arc, OnceLock};

/// Bytes that are asked for at once at the most beyond what is needed, so that there is rarely a need to ask.
const AHEAD_MAX: usize = 1 << 20;

/// The memory of one dataflow.
#[derive(Debug)]
pub struct Allowance {
    share: Arc<Share>,
    refused: OnceLock<Refused>,
}

impl Allowance {
    /// A dataflow that may have what the share has.
    pub fn of(share: Arc<Share>) -> Arc<Allowance> {
        Arc::new(Allowance { share, refused: OnceLock::new() })
    }

    /// A dataflow that may have everything.
    pub fn unlimited() -> Arc<Allowance> {
        Allowance::of(Share::root(usize::MAX, None))
    }

    /// The bytes that it has.
    pub fn used(&self) -> usize {
        self.share.used()
    }

    /// The bytes that it may have if nobody else has any.
    pub fn limit(&self) -> usize {
        self.share.least_limit()
    }

    /// Why it is to be stopped, if it is.
    pub fn refused(&self) -> Option<&Refused> {
        self.refused.get()
    }

    /// Nothing yet.
    pub fn nothing(self: &Arc<Allowance>) -> Held {
        Held { allowance: Arc::clone(self), reservation: Reservation::empty(&self.share) }
    }

    /// So many bytes; `None` if they are refused.
    pub fn hold(self: &Arc<Allowance>, bytes: usize) -> Option<Held> {
        let mut held = self.nothing();
        held.cover(bytes).then_some(held)
    }
}

/// Bytes of a dataflow's memory that are given back when this goes away. What is less than [`STEP`] is not counted.
#[derive(Debug)]
pub struct Held {
    allowance: Arc<Allowance>,
    reservation: Reservation,
}

impl Held {
    /// Whose they are.
    pub fn allowance(&self) -> &Arc<Allowance> {
        &self.allowance
    }

    /// Has at least so many bytes afterwards; false if they are refused.
    #[must_use]
    #[inline]
    pub fn cover(&mut self, bytes: usize) -> bool {
        bytes <= self.reservation.bytes().max(STEP - 1) || self.grow(bytes)
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> bool {
        if self.allowance.refused.get().is_some() {
            return false;
        }
        let more = bytes - self.reservation.bytes() + (self.reservation.bytes() / 4).min(AHEAD_MAX);
        let refused = self.reservation.try_grow_first(more).err();
        let is_refused = refused.is_some();
        refused.into_iter().for_each(|refused| drop(self.allowance.refused.set(refused)));
        !is_refused
    }

    /// Gives much back where far less than is held is needed.
    pub fn fall_to(&mut self, bytes: usize) {
        if self.reservation.bytes() / 2 > bytes + AHEAD_MAX {
            self.settle(bytes);
        }
    }

    /// Has so many bytes afterwards, which are there already.
    pub fn settle(&mut self, bytes: usize) {
        self.reservation.resize(if bytes < STEP { 0 } else { bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::Allowance;
    use ore::memory::{STEP, Share};

    #[test]
    fn a_refusal_is_final() {
        let root = Share::root(usize::MAX, None);
        let allowance = Allowance::of(root.child("a cluster", 10 * STEP).child("a dataflow", usize::MAX));
        let mut small = allowance.hold(STEP - 1).expect("little is not asked for");
        assert_eq!(root.used(), 0);
        let mut held = allowance.hold(6 * STEP).expect("there is room");
        assert!(small.cover(2 * STEP));
        assert!(allowance.refused().is_none());
        assert!(!held.cover(11 * STEP));
        assert_eq!(allowance.refused().map(|refused| refused.limit), Some(10 * STEP));
        held.settle(0);
        assert_eq!(allowance.used(), 2 * STEP);
        assert!(allowance.hold(STEP).is_none(), "although there is room");
        drop((small, held));
        assert_eq!(root.used(), 0);
    }
}
