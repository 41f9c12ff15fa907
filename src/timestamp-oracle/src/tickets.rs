//! Which call to the store answers whom: the bookkeeping of [`crate::batching`], without its waiting.
//!
//! `test/model` compiles this file against the model checker's atomics, which is why they come from the parent module.

use super::sync::{AtomicU64, Ordering};

/// Tickets that were taken, and calls that were begun for them.
#[derive(Debug)]
pub(crate) struct Tickets {
    /// The next ticket.
    next: AtomicU64,
    /// Tickets below have a call that was begun for them.
    begun: AtomicU64,
}

/// A call that is to be begun: it answers all tickets below `noted`.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) noted: u64,
    /// How many tickets had no call before.
    pub(crate) new: u64,
}

impl Tickets {
    pub(crate) fn new() -> Tickets {
        Tickets { next: AtomicU64::new(0), begun: AtomicU64::new(0) }
    }

    /// Asks. What answers this ticket is a call that begins later.
    pub(crate) fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes which tickets were taken before now. The call must begin after this has returned; `None` if there is nobody
    /// for whom none was begun.
    pub(crate) fn begin(&self) -> Option<Begun> {
        let noted = self.taken();
        let covered = self.begun.fetch_max(noted, Ordering::SeqCst);
        (covered < noted).then(|| Begun { noted, new: noted - covered })
    }

    /// How many tickets were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }
}

/// What calls have answered so far. `E` is why a call failed.
#[derive(Debug)]
pub(crate) struct Done<E> {
    /// Tickets below are answered by `ts`.
    mark: u64,
    ts: u64,
    /// Tickets below that are not below the mark have failed with `error`.
    failed: u64,
    error: Option<E>,
}

impl<E: Clone> Done<E> {
    pub(crate) fn new() -> Done<E> {
        Done { mark: 0, ts: 0, failed: 0, error: None }
    }

    /// A call that was begun for the tickets below `noted` has ended.
    pub(crate) fn note(&mut self, noted: u64, answer: Result<u64, E>) {
        match answer {
            Ok(ts) => {
                self.mark = self.mark.max(noted);
                self.ts = self.ts.max(ts);
            }
            Err(error) => {
                self.failed = self.failed.max(noted);
                self.error = Some(error);
            }
        }
    }

    /// The answer to a ticket, if there is one.
    pub(crate) fn answer(&self, ticket: u64) -> Option<Result<u64, E>> {
        match &self.error {
            _ if ticket < self.mark => Some(Ok(self.ts)),
            Some(error) if ticket < self.failed => Some(Err(error.clone())),
            _ => None,
        }
    }
}
