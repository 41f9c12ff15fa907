//! The lease: until when this process knows that nobody else moves the time ([`crate::handover`] says why).
//!
//! `test/model` compiles this file against the model checker's atomics, which is why they come from the parent module.
//!
//! # Invariants
//! * `until_ns` is at most the term after a moment before a beat of our epoch succeeded.
//! * Once ended, a lease never holds again.

use std::time::Duration;

use super::sync::{AtomicU64, Ordering};

/// Of how many parts of the term one is the margin: for clocks that run at different speeds.
const MARGIN: u32 = 10;
/// The value of a lease that has ended.
const ENDED: u64 = 0;
/// The value of a lease that was not given yet.
const NOT_YET: u64 = 1;

/// See the module. Written by the task that keeps it, and by whoever ends it.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Up to here on the monotonic clock, in nanoseconds.
    until_ns: AtomicU64,
}

impl Lease {
    /// A lease that does not hold yet.
    pub(crate) fn new() -> Lease {
        Lease { until_ns: AtomicU64::new(NOT_YET) }
    }

    /// Whether the timeline was certainly ours at `now` on the monotonic clock. What this is to vouch for must have been
    /// read before the clock was.
    #[inline]
    pub(crate) fn holds(&self, now: Duration) -> bool {
        nanos(now) < self.until_ns.load(Ordering::Acquire)
    }

    /// A beat that was asked for at `asked` has succeeded.
    pub(crate) fn extend(&self, asked: Duration, term: Duration) {
        let until = nanos(asked + term.saturating_sub(term / MARGIN));
        let later = |current: u64| (current != ENDED).then(|| current.max(until));
        // An ended lease stays so.
        let _ended = self.until_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// It never holds again.
    pub(crate) fn end(&self) {
        self.until_ns.store(ENDED, Ordering::Release);
    }
}

#[inline]
fn nanos(time: Duration) -> u64 {
    // Five hundred years of uptime fit.
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ore::clock::ManualClock;

    const TERM: Duration = Duration::from_secs(10);

    #[test]
    fn holds_for_the_term_less_a_margin_from_when_it_was_asked_for() {
        let hands = ManualClock::new(0);
        let lease = Lease::new();
        hands.advance(Duration::from_secs(1));
        assert!(!lease.holds(hands.clock().monotonic()), "it was not given yet");
        let asked = hands.clock().monotonic();
        hands.advance(Duration::from_secs(3));
        lease.extend(asked, TERM);
        assert!(lease.holds(hands.clock().monotonic()));
        hands.advance(Duration::from_secs(6) - Duration::from_micros(1));
        assert!(lease.holds(hands.clock().monotonic()));
        hands.advance(Duration::from_micros(1));
        assert!(!lease.holds(hands.clock().monotonic()), "nine seconds after it was asked for");
        lease.extend(hands.clock().monotonic(), TERM);
        assert!(lease.holds(hands.clock().monotonic()), "a late beat gives it back");
        lease.extend(asked, TERM);
        assert!(lease.holds(hands.clock().monotonic()), "an earlier one takes nothing away");
    }

    #[test]
    fn an_ended_lease_stays_so() {
        let hands = ManualClock::new(0);
        let lease = Lease::new();
        lease.extend(hands.clock().monotonic(), TERM);
        assert!(lease.holds(hands.clock().monotonic()));
        lease.end();
        assert!(!lease.holds(hands.clock().monotonic()));
        lease.extend(hands.clock().monotonic(), TERM);
        assert!(!lease.holds(hands.clock().monotonic()));
    }
}
