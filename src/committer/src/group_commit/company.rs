//! How long a group of writes gathers: no longer than it pays.

use crate::request::Request;
use crossbeam_channel::Receiver;
use ore::clock::Clock;
use std::time::Duration;

/// How long a group gathers at most.
const GATHER_MAX: Duration = Duration::from_micros(500);
/// A commit that takes less is quick.
const QUICK: Duration = Duration::from_millis(2);
/// What takes longer than this counts as this long.
const SLOW: Duration = Duration::from_millis(10);

/// How many write at once, and how long a commit of theirs takes.
pub(super) struct Company {
    /// Writes of the last group.
    size: usize,
    /// How long the last commit took, smoothed.
    commit: Duration,
    /// When the last group was answered, by the monotonic clock.
    answered: Duration,
}

impl Company {
    /// Nobody has written yet.
    pub(super) fn none() -> Company {
        Company { size: 0, commit: Duration::ZERO, answered: Duration::ZERO }
    }

    /// Waits for a group of `gathered` writes to become as large as the last one; not longer than a commit takes since
    /// that one was answered.
    pub(super) fn await_more(&self, gathered: usize, requests: &Receiver<Request>, clock: &Clock) -> Option<Request> {
        if gathered == 0 || gathered >= self.size {
            return None;
        }
        let rest = (self.answered + self.commit.min(GATHER_MAX)).saturating_sub(clock.monotonic());
        requests.recv_timeout(clock.sleep_for(rest)).ok()
    }

    /// So many writes were answered at a time, after a commit that took so long.
    pub(super) fn answered(&mut self, size: usize, took: Duration, at: Duration) {
        self.commit = (self.commit * 7 + took.min(SLOW)) / 8;
        *self = Company { size, answered: at, ..*self };
    }

    /// Whether the last write was alone, and commits take little.
    pub(super) fn is_quick(&self) -> bool {
        self.size == 1 && self.commit < QUICK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ore::clock::ManualClock;

    /// A far deadline, which only a group that has to wait would reach.
    fn company(size: usize) -> Company {
        let answered = Clock::system().monotonic() + Duration::from_secs(3_600);
        Company { size, commit: SLOW, answered }
    }

    #[test]
    fn a_lone_writer_waits_for_nobody() {
        let (_writers, requests) = crossbeam_channel::bounded(1);
        // Would wait for an hour.
        assert!(company(1).await_more(1, &requests, &Clock::system()).is_none());
        assert!(company(0).await_more(1, &requests, &Clock::system()).is_none());
        // What is not a group does not gather.
        assert!(company(8).await_more(0, &requests, &Clock::system()).is_none());
    }

    #[test]
    fn writers_in_company_gather_until_they_are_as_many_as_before() {
        let (writers, requests) = crossbeam_channel::bounded(1);
        let (company, clock) = (company(2), Clock::system());
        std::thread::scope(|scope| {
            scope.spawn(|| writers.send(Request::Progress).expect("it is awaited"));
            assert!(matches!(company.await_more(1, &requests, &clock), Some(Request::Progress)));
        });
        assert!(company.await_more(2, &requests, &clock).is_none());
    }

    #[test]
    fn a_group_gathers_no_longer_than_a_commit_takes() {
        let (_writers, requests) = crossbeam_channel::bounded(1);
        let clock = ManualClock::new(0).clock();
        let mut company = Company { size: 8, ..Company::none() };
        assert!(company.await_more(1, &requests, &clock).is_none());
        assert_eq!(clock.monotonic(), Duration::ZERO, "it is not known to take any time");
        for _ in 0..100 {
            company.answered(8, Duration::from_secs(3_600), clock.monotonic());
        }
        assert!(company.commit > GATHER_MAX && company.commit <= SLOW, "{:?}", company.commit);
        assert!(company.await_more(1, &requests, &clock).is_none());
        assert_eq!(clock.monotonic().as_micros(), GATHER_MAX.as_micros(), "no longer than that");
    }
}
