//! How long a group of writes gathers: no longer than it pays.

use crate::request::Request;
use crossbeam_channel::Receiver;
use std::time::{Duration, Instant};

/// How long a group gathers at most.
const GATHER_MAX: Duration = Duration::from_micros(500);

/// How many write at once, and how long a commit of theirs takes.
pub(super) struct Company {
    /// Writes of the last group.
    size: usize,
    /// How long the last commit took, smoothed.
    commit: Duration,
    /// When the last group was answered.
    answered: Instant,
}

impl Company {
    /// Nobody has written yet.
    pub(super) fn none(now: Instant) -> Company {
        Company { size: 0, commit: Duration::ZERO, answered: now }
    }

    /// Waits for a group of `gathered` writes to become as large as the last one; not longer than a commit takes since
    /// that one was answered.
    pub(super) fn await_more(&self, gathered: usize, requests: &Receiver<Request>) -> Option<Request> {
        if gathered == 0 || gathered >= self.size {
            return None;
        }
        requests.recv_deadline(self.answered + self.commit).ok()
    }

    pub(super) fn answered(&mut self, size: usize, took: Duration) {
        self.commit = (self.commit * 7 + took.min(GATHER_MAX)) / 8;
        *self = Company { size, answered: Instant::now(), ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A far deadline, which only a group that has to wait would reach.
    fn company(size: usize) -> Company {
        Company { size, commit: Duration::from_secs(3_600), answered: Instant::now() }
    }

    #[test]
    fn a_lone_writer_waits_for_nobody() {
        let (_writers, requests) = crossbeam_channel::bounded(1);
        // Would wait for an hour.
        assert!(company(1).await_more(1, &requests).is_none());
        assert!(company(0).await_more(1, &requests).is_none());
        // What is not a group does not gather.
        assert!(company(8).await_more(0, &requests).is_none());
    }

    #[test]
    fn writers_in_company_gather_until_they_are_as_many_as_before() {
        let (writers, requests) = crossbeam_channel::bounded(1);
        let company = company(2);
        std::thread::scope(|scope| {
            scope.spawn(|| writers.send(Request::Progress).expect("it is awaited"));
            assert!(matches!(company.await_more(1, &requests), Some(Request::Progress)));
        });
        assert!(company.await_more(2, &requests).is_none());
    }

    #[test]
    fn a_group_gathers_no_longer_than_a_commit_takes() {
        let (_writers, requests) = crossbeam_channel::bounded(1);
        let mut company = Company { size: 8, commit: Duration::ZERO, answered: Instant::now() };
        assert!(company.await_more(1, &requests).is_none());
        for _ in 0..100 {
            company.answered(8, Duration::from_secs(3_600));
        }
        assert!(company.commit <= GATHER_MAX, "{:?}", company.commit);
    }
}
