//! What ends a running statement early: CancelRequest, a timeout.

use crate::error::AdapterError;
use committer::request::Committed;
use engine::error::SqlError;
use engine::session::Interrupts;
use repr::sqlstate::SqlState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Asks a session to give up what it is running. One per session, shared with whoever may cancel.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    is_requested: AtomicBool,
    requested: Notify,
    /// Whether the session is to end, about which its connection is told elsewhere.
    is_over: AtomicBool,
    /// Whether its connection has said the last word.
    is_left: AtomicBool,
    left: Notify,
    stage: AtomicU8,
}

/// How far a statement has come that a session works at elsewhere: it is given up, or it commits, and never both.
const WORKING: u8 = 0;
const COMMITTING: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Cancel {
    /// Asks.
    pub(crate) fn request(&self) {
        self.is_requested.store(true, Ordering::Release);
        self.requested.notify_waiters();
    }

    /// Says that the session is to end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Says that its connection has gone: what the session still works at is to end.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
        self.left.notify_waiters();
        self.request();
    }

    async fn left(&self) {
        let left = self.left.notified();
        tokio::pin!(left);
        // Registered before the flag is looked at, as below.
        left.as_mut().enable();
        if !self.is_left.load(Ordering::Acquire) {
            left.await;
        }
    }

    /// Forgets a request that came too late for the statement it was meant for.
    pub(crate) fn reset(&self) {
        // Loaded first: every statement asks, and hardly ever is there anything to write.
        if self.is_requested.load(Ordering::Relaxed) {
            self.is_requested.store(false, Ordering::Relaxed);
        }
    }

    /// A statement begins.
    pub(crate) fn begin(&self) {
        self.stage.store(WORKING, Ordering::Release);
    }

    /// Gives the statement up, unless it commits: then whoever asked for its end learns what has become of it. Whether it did.
    pub(crate) fn give_up(&self) -> bool {
        self.stage.compare_exchange(WORKING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// From here on the statement is not given up: what it commits is committed, and said to be. Error 57014 if it was before.
    pub(crate) fn commits(&self) -> Result<(), AdapterError> {
        match self.stage.swap(COMMITTING, Ordering::AcqRel) {
            GIVEN_UP => Err(AdapterError::canceled()),
            _ => Ok(()),
        }
    }

    fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Acquire)
    }

    async fn requested(&self) {
        let requested = self.requested.notified();
        tokio::pin!(requested);
        // Registered before the flag is looked at: a request between the two is not missed.
        requested.as_mut().enable();
        if !self.is_requested() {
            requested.await;
        }
    }
}

/// Waits for a commit. Once it has begun, its statement is not given up, unless it comes to nothing.
pub(crate) async fn committed<E: Into<AdapterError>>(
    cancel: &Cancel,
    commit: impl Future<Output = Result<Committed, E>>,
) -> Result<Committed, AdapterError> {
    cancel.commits()?;
    let committed = commit.await.map_err(Into::into);
    if !matches!(committed, Ok(Committed::At)) {
        cancel.begin();
    }
    committed
}

/// What a statement that waits is guarded by.
#[derive(Clone, Debug)]
pub struct Interrupt {
    cancel: Arc<Cancel>,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Interrupted by a request, or after `timeout`.
    pub(crate) fn new(cancel: Arc<Cancel>, timeout: Option<Duration>) -> Interrupt {
        Interrupt { cancel, deadline: timeout.map(|timeout| Instant::now() + timeout) }
    }

    /// Interrupted by a request, or at `deadline`.
    pub(crate) fn until(cancel: Arc<Cancel>, deadline: std::time::Instant) -> Interrupt {
        Interrupt { cancel, deadline: Some(deadline.into()) }
    }

    /// Runs `work` unless interrupted before it is done. Error: 57014.
    ///
    /// # Cancellation
    /// As safe to drop as `work`.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, AdapterError> {
        // Looked at first, because work that is always ready would never let the others be polled.
        self.look()?;
        let result = tokio::select! {
            biased;
            result = work => Ok(result),
            error = self.interrupted() => Err(error),
        };
        // The work may have been to ask for it.
        if self.cancel.is_over.load(Ordering::Acquire) {
            // The connection says the last word.
            self.cancel.left().await;
            return Err(AdapterError::canceled());
        }
        if self.cancel.is_requested() { Err(AdapterError::canceled()) } else { result }
    }

    /// Whether it has come. Error: 57014.
    fn look(&self) -> Result<(), AdapterError> {
        if self.cancel.is_requested() {
            return Err(AdapterError::canceled());
        }
        match self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            true => Err(timed_out()),
            false => Ok(()),
        }
    }

    /// Returns when it has come, with the error that it is.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn interrupted(&self) -> AdapterError {
        let timeout = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.requested() => AdapterError::canceled(),
            () = timeout => timed_out(),
        }
    }
}

impl Interrupts for Interrupt {
    fn check(&self) -> Result<(), SqlError> {
        self.look().map_err(|error| SqlError::new(error.sqlstate(), error.to_string()))
    }
}

/// 57014 of `statement_timeout`.
pub(crate) fn timed_out() -> AdapterError {
    AdapterError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")
}

#[cfg(test)]
mod tests {
    use super::{Cancel, Interrupt};
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn a_request_ends_what_waits_and_not_what_comes_after() {
        let cancel = Arc::new(Cancel::default());
        let interrupt = Interrupt::new(Arc::clone(&cancel), None);
        let waiting = interrupt.guard(std::future::pending::<()>());
        let (result, ()) = tokio::join!(waiting, async { cancel.request() });
        assert!(result.is_err());
        // Even what would not have to wait.
        assert!(interrupt.guard(async {}).await.is_err());
        cancel.reset();
        assert!(interrupt.guard(async {}).await.is_ok());
    }

    #[tokio::test]
    async fn what_asks_for_its_own_end_is_not_answered() {
        let cancel = Arc::new(Cancel::default());
        let interrupt = Interrupt::new(Arc::clone(&cancel), None);
        assert!(interrupt.guard(async { cancel.request() }).await.is_err());
        cancel.reset();
        let ending = interrupt.guard(async { cancel.end() });
        assert!(tokio::time::timeout(Duration::from_millis(5), ending).await.is_err());
        // But for whoever has to be brought to an end after its connection.
        let (ended, ()) = tokio::join!(interrupt.guard(async {}), async { cancel.leave() });
        assert!(ended.is_err());
    }

    #[test]
    fn a_statement_is_given_up_or_commits() {
        let cancel = Cancel::default();
        cancel.begin();
        assert!(cancel.give_up() && cancel.commits().is_err());
        cancel.begin();
        assert!(cancel.commits().is_ok() && !cancel.give_up());
        cancel.begin();
        assert!(cancel.commits().is_ok() && cancel.commits().is_ok());
    }

    #[tokio::test]
    async fn time_runs_out() {
        let interrupt = Interrupt::new(Arc::default(), Some(Duration::from_millis(5)));
        assert!(interrupt.guard(std::future::pending::<()>()).await.is_err());
        assert!(interrupt.guard(async {}).await.is_err());
    }
}
