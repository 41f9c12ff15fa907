//! The lease: until when this process knows that nobody else moves the time.
//!
//! No two clocks have to agree, and no wall clock is asked; every wait is measured by the one who waits.
//!
//! # The protocol
//! 1. The owner counts up the row's beat again and again. It trusts a beat for the row's *term*, less a margin, from the
//!    moment in which it *asked* for it: [`Lease::extend`].
//! 2. Whoever wants the timeline reads whose it is, waits for the term, and reads again. If the beat has moved, the owner
//!    lives, and the wait begins again. If not, the last beat was asked for more than a term ago: the owner has ceased to
//!    trust it. The timeline is taken on the condition that it still has not moved, in a new epoch.
//! 3. Whoever may not wait for the owner's death (`--takeover`) takes the timeline at once, and then waits for the term:
//!    from the new epoch on no beat of the old one succeeds, and the last that did was asked for before.
//! 4. Only then the new owner answers anybody. The old owner's calls fail, because the epoch is not theirs.
//!
//! A process that was stopped, by a signal or a debugger, finds the term over when it goes on, because the monotonic clock
//! goes on meanwhile. What it had checked just before it stopped is an answer from before the stop, to a question from
//! before it.
//!
//! # Invariants
//! * `until_ns` is at most the term after a moment before a beat of our epoch succeeded.
//! * Once ended, a lease never holds again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ore::clock::Clock;

use crate::OracleError;
use crate::timeline::{Owner, Timeline};

/// Of how many parts of the term one is the margin: for clocks that run at different speeds.
const MARGIN: u32 = 10;
/// The value of a lease that has ended.
const ENDED: u64 = 0;
/// The value of a lease that was not given yet.
const NOT_YET: u64 = 1;
/// How often a wait looks at the clock at least.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// See the module. Written by the task that keeps it, and by whoever ends it.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Up to here on the monotonic clock, in nanoseconds.
    until_ns: AtomicU64,
    clock: Clock,
}

impl Lease {
    /// A lease that does not hold yet.
    pub(crate) fn new(clock: Clock) -> Lease {
        Lease { until_ns: AtomicU64::new(NOT_YET), clock }
    }

    /// Whether the timeline is certainly ours, now.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        nanos(self.clock.monotonic()) < self.until_ns.load(Ordering::Acquire)
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

/// Steps 2 and 3. Returns the new epoch, when the timeline was asked for, and how long its former owner must be waited for.
pub(crate) async fn take<T: Timeline>(
    timeline: &T,
    clock: &Clock,
    term: Duration,
    name: &str,
    takeover: bool,
) -> Result<(u64, Duration, Duration), OracleError> {
    let mut told = None;
    loop {
        let seen = timeline.owner().await?;
        let is_free = seen.term.is_zero();
        if !is_free && !takeover {
            tell(&mut told, &seen);
            wait(clock, seen.term).await;
            if timeline.owner().await? != seen {
                continue;
            }
            tracing::info!(
                owner = seen.name,
                epoch = seen.epoch,
                "the timeline's owner has ceased to show that it lives"
            );
        }
        let asked = clock.monotonic();
        if let Some(epoch) = timeline.take(&seen, term, name).await? {
            let remaining = if takeover { seen.term } else { Duration::ZERO };
            return Ok((epoch, asked, remaining));
        }
    }
}

/// Says for whom we wait, once for each.
fn tell(told: &mut Option<u64>, owner: &Owner) {
    if told.replace(owner.epoch) != Some(owner.epoch) {
        let term_ms = u64::try_from(owner.term.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(
            owner = owner.name,
            epoch = owner.epoch,
            term_ms,
            "the timeline belongs to another process; waiting until that ends (--takeover does not wait)"
        );
    }
}

/// Lets time pass on `clock`.
pub(crate) async fn wait(clock: &Clock, duration: Duration) {
    let until = clock.monotonic().saturating_add(duration);
    loop {
        let left = until.saturating_sub(clock.monotonic());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_EVERY)).await;
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
        let lease = Lease::new(hands.clock());
        hands.advance(Duration::from_secs(1));
        assert!(!lease.holds(), "it was not given yet");
        let asked = hands.clock().monotonic();
        hands.advance(Duration::from_secs(3));
        lease.extend(asked, TERM);
        assert!(lease.holds());
        hands.advance(Duration::from_secs(6) - Duration::from_micros(1));
        assert!(lease.holds());
        hands.advance(Duration::from_micros(1));
        assert!(!lease.holds(), "nine seconds after it was asked for");
        lease.extend(hands.clock().monotonic(), TERM);
        assert!(lease.holds(), "a late beat gives it back");
        lease.extend(asked, TERM);
        assert!(lease.holds(), "an earlier one takes nothing away");
    }

    #[test]
    fn an_ended_lease_stays_so() {
        let hands = ManualClock::new(0);
        let lease = Lease::new(hands.clock());
        lease.extend(hands.clock().monotonic(), TERM);
        assert!(lease.holds());
        lease.end();
        assert!(!lease.holds());
        lease.extend(hands.clock().monotonic(), TERM);
        assert!(!lease.holds());
    }
}
