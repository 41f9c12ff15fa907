//! How a timeline passes from one process to the next.
//!
//! No two clocks have to agree, and no wall clock is asked; every wait is measured by the one who waits.
//!
//! # The protocol
//! 1. The owner counts up the row's beat again and again. It trusts a beat for the row's *term*, less a margin, from the
//!    moment in which it *asked* for it: [`crate::lease`].
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

use std::time::Duration;

use ore::clock::Clock;

use crate::OracleError;
use crate::timeline::{Owner, Timeline};

/// How often a wait looks at the clock at least.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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
