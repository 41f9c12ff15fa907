//! What a session is doing, as others see it, and what ends that early.

use crate::activity::Activity;
use crate::cancel::{Cancel, Interrupt, timed_out};
use crate::error::AdapterError;
use crate::history::Sampling;
use crate::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A session's work.
pub(crate) struct Running {
    /// Connection id and secret.
    pub(crate) key: (u32, u32),
    pub(crate) cancel: Arc<Cancel>,
    /// Fires when the server stops or the session is to end.
    pub(crate) ended: CancellationToken,
    pub(crate) activity: Arc<Activity>,
    /// Whether a statement was noted there, or has failed, since the session was last ready.
    is_active: AtomicBool,
    /// Which of its statements are noted for later.
    pub(crate) sampling: Sampling,
    /// When `statement_timeout` ends the statement whose text has come, or what the extended protocol has begun and not executed or
    /// synced; `None` without one.
    deadline: Option<Instant>,
}

impl Running {
    /// Nothing yet.
    pub(crate) fn new(
        id: u32,
        secret: u32,
        cancel: Arc<Cancel>,
        ended: CancellationToken,
        activity: Arc<Activity>,
        application_name: &str,
    ) -> Running {
        let sampling = Sampling::new(application_name);
        Running {
            key: (id, secret),
            cancel,
            ended,
            activity,
            is_active: AtomicBool::new(false),
            sampling,
            deadline: None,
        }
    }

    /// Notes a statement that may take its time, in a transaction that began at `started_us`.
    pub(crate) fn begin(&self, statement: &Arc<str>, started_us: Option<i64>, now_us: i64) {
        self.activity.begin(statement, started_us, now_us);
        self.is_active.store(true, Ordering::Relaxed);
    }

    /// Whether something was noted since this was last asked.
    pub(crate) fn take_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed) && self.is_active.swap(false, Ordering::Relaxed)
    }

    /// Notes that the session rests, where its transaction stands.
    pub(crate) fn rest(&self, status: Status, started_us: Option<i64>, now_us: i64) {
        self.activity.rest(status, started_us, now_us);
    }

    /// Notes that something has failed.
    pub(crate) fn fail(&mut self) {
        self.end_time();
        self.is_active.store(true, Ordering::Relaxed);
    }

    /// A statement begins whose time runs from here. One that goes on elsewhere has its time already.
    pub(crate) fn start_time(&mut self, timeout: Option<Duration>, goes_on: GoesOn) {
        if goes_on == GoesOn::No || self.deadline.is_none() {
            self.deadline = timeout.map(|timeout| Instant::now() + timeout);
        }
    }

    /// The statement is over: the next one has its own time.
    pub(crate) fn end_time(&mut self) {
        self.deadline = None;
    }

    /// Whether `statement_timeout` is not over, which counts from the first message of the extended protocol until one is
    /// executed. Error: 57014.
    pub(crate) fn in_time(&mut self, timeout: Option<Duration>) -> Result<(), AdapterError> {
        let Some(timeout) = timeout else { return Ok(()) };
        let now = Instant::now();
        match *self.deadline.get_or_insert(now + timeout) <= now {
            true => Err(timed_out()),
            false => Ok(()),
        }
    }

    /// What ends the current statement early.
    pub(crate) fn interrupt(&self, timeout: Option<Duration>) -> Interrupt {
        match self.deadline {
            Some(deadline) => Interrupt::until(Arc::clone(&self.cancel), deadline),
            None => Interrupt::new(Arc::clone(&self.cancel), timeout),
        }
    }
}

/// Whether a statement has begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoesOn {
    /// It goes on where it can wait.
    Yes,
    /// It begins.
    No,
}

#[cfg(test)]
mod tests {
    use super::{GoesOn, Running};
    use crate::activity::Activity;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    const LONG: Option<Duration> = Some(Duration::from_secs(3600));

    fn running() -> Running {
        let activity = Arc::new(Activity::for_tests());
        Running::new(1, 2, Arc::default(), CancellationToken::new(), activity, "")
    }

    #[test]
    fn time_counts_from_the_first_message() {
        let mut running = running();
        assert!(running.in_time(None).is_ok() && running.in_time(Some(Duration::ZERO)).is_err());
        assert!(running.in_time(LONG).is_err(), "it ran out before");
        running.end_time();
        assert!(running.in_time(LONG).is_ok() && running.in_time(Some(Duration::ZERO)).is_ok());
    }

    #[test]
    fn what_goes_on_elsewhere_keeps_its_time() {
        let mut running = running();
        running.start_time(Some(Duration::ZERO), GoesOn::No);
        running.start_time(LONG, GoesOn::Yes);
        assert!(running.in_time(LONG).is_err());
        running.start_time(LONG, GoesOn::No);
        assert!(running.in_time(LONG).is_ok());
    }

    #[test]
    fn a_session_rests_once() {
        let mut running = running();
        assert!(!running.take_active());
        running.begin(&Arc::from("SELECT 1"), None, 0);
        assert!(running.take_active() && !running.take_active());
        running.fail();
        assert!(running.take_active());
    }
}
