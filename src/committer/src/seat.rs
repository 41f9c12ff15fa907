//! Who does the committer's work: its thread, or for one commit the session that would wait for it.
//!
//! A lone writer pays for two hand-overs, to another thread and back, and gets nothing for them. So a session commits by itself what it
//! writes if nobody else wants the committer, and its own thread serves nobody else ([`ore::turns`]): that thread waits for the disk.
//!
//! # Invariants
//! - One thread at a time has the committer. Its own waits for requests without it.
//! - What is due without a request is due for the committer's own thread, which a session that leaves something behind wakes.

use crate::request::Request;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ore::clock::Clock;
use parking_lot::Mutex;
use std::time::Duration;

/// What a committer does, step by step.
pub(crate) trait Work: Send {
    /// What comes next.
    fn awaits(&mut self) -> Next;

    /// Does what is due, or what the request and all that are there by then ask for. False ends the committer.
    fn proceed(&mut self, next: Result<Request, RecvTimeoutError>, requests: &Receiver<Request>) -> bool;

    /// Whether a write that comes alone would be committed at once, and soon.
    fn is_quick(&self) -> bool;

    /// Commits a write by itself, and sends its reply.
    fn commit_alone(&mut self, write: Request);

    /// Whether there is something to do without a request, now or later.
    fn is_due(&self) -> bool;
}

/// What a committer goes on with.
pub(crate) enum Next {
    /// What it already has.
    Request(Request),
    /// What it is asked for next, if that comes before something is due without.
    Awaited(Option<Duration>),
}

impl Next {
    /// Waits for it.
    pub(crate) fn receive(self, requests: &Receiver<Request>, clock: &Clock) -> Result<Request, RecvTimeoutError> {
        match self {
            Next::Request(request) => Ok(request),
            Next::Awaited(None) => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Next::Awaited(Some(Duration::ZERO)) => Err(RecvTimeoutError::Timeout),
            Next::Awaited(Some(wait)) => requests.try_recv().or_else(|_| requests.recv_timeout(clock.sleep_for(wait))),
        }
    }
}

/// Where the committer is, once it has begun and until it ends.
#[derive(Default)]
pub(crate) struct Seat(Mutex<Option<Box<dyn Work>>>);

impl Seat {
    /// Works until the committer is told to stop.
    pub(crate) fn run(&self, committer: Box<dyn Work>, requests: &Receiver<Request>, clock: &Clock) {
        *self.0.lock() = Some(committer);
        loop {
            let next = self.0.lock().as_mut().map_or(Next::Request(Request::Stop), |committer| committer.awaits());
            let next = next.receive(requests, clock);
            let mut seat = self.0.lock();
            if !seat.as_mut().is_some_and(|committer| committer.proceed(next, requests)) {
                let ended = seat.take();
                drop(seat);
                return drop(ended);
            }
        }
    }

    /// Commits a write on this thread, which waits for the disk, and sends the reply; gives the write back if the committer has
    /// something else to do.
    pub(crate) fn commit_here(&self, write: Request, requests: &Sender<Request>) -> Option<Request> {
        if !requests.is_empty() {
            return Some(write);
        }
        let Some(mut seat) = self.0.try_lock() else { return Some(write) };
        let Some(committer) = seat.as_mut().filter(|committer| committer.is_quick()) else { return Some(write) };
        // Half of a commit is no state to go on from.
        let is_due = ore::thread::critical("commit", || {
            committer.commit_alone(write);
            committer.is_due()
        });
        drop(seat);
        if is_due {
            // A committer with a full channel is awake.
            drop(requests.try_send(Request::Progress));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what it has committed.
    struct Counting {
        commits: Sender<()>,
        is_quick: bool,
        is_due: bool,
    }

    impl Work for Counting {
        fn awaits(&mut self) -> Next {
            Next::Awaited(None)
        }

        fn proceed(&mut self, next: Result<Request, RecvTimeoutError>, _: &Receiver<Request>) -> bool {
            !matches!(next, Ok(Request::Stop))
        }

        fn is_quick(&self) -> bool {
            self.is_quick
        }

        fn commit_alone(&mut self, _: Request) {
            self.commits.send(()).expect("somebody counts");
        }

        fn is_due(&self) -> bool {
            self.is_due
        }
    }

    /// Whether a write is committed here, and how many requests the committer's own thread finds then.
    fn here(is_quick: bool, is_due: bool, before: Option<Request>) -> (bool, usize) {
        let ((commits, count), (requests, sent)) = (crossbeam_channel::unbounded(), crossbeam_channel::unbounded());
        before.into_iter().for_each(|request| requests.send(request).expect("it is received"));
        let seat = Seat(Mutex::new(Some(Box::new(Counting { commits, is_quick, is_due }))));
        let left = seat.commit_here(Request::Progress, &requests);
        assert_eq!(left.is_none(), count.try_recv().is_ok(), "it is given back, or committed");
        (left.is_none(), sent.len())
    }

    #[test]
    fn who_writes_commits_where_nobody_else_wants_to() {
        assert_eq!(here(true, false, None), (true, 0));
        assert_eq!(here(true, true, None), (true, 1), "the committer's thread has something to do then");
        assert_eq!(here(false, true, None), (false, 0), "commits take long");
        assert_eq!(here(true, true, Some(Request::Progress)), (false, 1), "somebody has come before");
    }

    #[test]
    fn nobody_commits_beside_the_committer_nor_after_its_end() {
        let ((commits, _count), (requests, received)) =
            (crossbeam_channel::unbounded(), crossbeam_channel::unbounded());
        let seat = Seat::default();
        assert!(seat.commit_here(Request::Progress, &requests).is_some(), "it has not begun");
        requests.send(Request::Stop).expect("it is received");
        seat.run(Box::new(Counting { commits, is_quick: true, is_due: false }), &received, &Clock::system());
        assert!(seat.commit_here(Request::Progress, &requests).is_some(), "it has ended");
        let (commits, _count) = crossbeam_channel::unbounded();
        *seat.0.lock() = Some(Box::new(Counting { commits, is_quick: true, is_due: false }));
        let _working = seat.0.lock();
        assert!(seat.commit_here(Request::Progress, &requests).is_some(), "another has it");
    }
}
