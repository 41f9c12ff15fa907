//! Where a connection keeps its session, which is away while it works at what is not known to be short.
//!
//! A connection's thread serves others too. Its session's verbs do there what is known to be short before it begins, and refuse the
//! rest with [`AdapterError::Elsewhere`] before anything has happened. [`Seat::elsewhere`] then sends the session to a thread of its
//! own, where the same verb does the same thing: reads a text of a hundred megabytes, plans a join of two hundred relations, evaluates
//! what makes much of little.
//!
//! There the session can be in the midst of a step that nothing ends: one call of a function, one rule of the optimizer. A cancel
//! or a timeout answers the client all the same. The session is then *given up*: it comes back when the step is over, finds that its
//! statement has failed, and whatever the client sends meanwhile waits for it.

use crate::cancel::{Cancel, Interrupt};
use crate::error::AdapterError;
use crate::session::Session;
use crate::status::Status;
use futures::future::BoxFuture;
use ore::task::{JoinHandle, spawn_apart};
use repr::sqlstate::SqlState;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// How long a session that works elsewhere gets to end its statement by itself, which says best why.
const GRACE: Duration = Duration::from_millis(200);

/// A connection's session, or the task that has it.
pub struct Seat {
    here: Option<Box<Session>>,
    away: Option<JoinHandle<Box<Session>>>,
    /// Of one that is away: what the client was told of its transaction when it was given up.
    status: Status,
    /// Of one that is away: whether its client was told that its statement has failed.
    is_given_up: bool,
    cancel: Arc<Cancel>,
}

impl Seat {
    /// A session's place.
    pub fn new(session: Session) -> Seat {
        let cancel = session.cancel();
        Seat { here: Some(Box::new(session)), away: None, status: Status::Idle, is_given_up: false, cancel }
    }

    /// The session, unless it is away.
    pub fn here(&mut self) -> Option<&mut Session> {
        self.here.as_deref_mut()
    }

    /// Where its transaction stands.
    pub fn transaction_status(&mut self) -> Status {
        let status = self.status;
        self.here().map_or(status, |session| session.transaction_status())
    }

    /// Does `work` on a thread of its own. Error 57014 if the session was given up, and is away.
    ///
    /// # Cancellation
    /// When this is dropped the session stays away until the work is done.
    ///
    /// # Panics
    /// If the session is away, or if the work panics: then there is no session any more.
    pub async fn elsewhere<T: Send + 'static, E: From<AdapterError> + Send + 'static>(
        &mut self,
        work: impl for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        let mut session = self.here.take().expect("who works elsewhere is here");
        let (interrupt, cancel) = (session.interrupt(), session.cancel());
        cancel.begin();
        self.status = session.status_after_failure();
        // Until the result is here, whatever comes of it.
        self.is_given_up = true;
        let (tx, rx) = tokio::sync::oneshot::channel();
        let runtime = session.shared.adhoc.clone();
        let task = spawn_apart(&runtime, "statement", async move {
            session.is_elsewhere = true;
            let result = work(&mut session).await;
            session.is_elsewhere = false;
            // Whoever gave it up does not want the result.
            let _gone = tx.send(result);
            session
        });
        self.away = Some(task);
        tokio::select! {
            biased;
            // Without an answer it has panicked, which coming back finds.
            result = rx => {
                self.is_given_up = false;
                self.back().await;
                result.unwrap_or_else(|_| Err(AdapterError::internal("the work elsewhere has no result").into()))
            }
            error = given_up(&interrupt, &cancel) => Err(error.into()),
        }
    }

    /// Waits for the session, if it is away.
    ///
    /// # Cancellation
    /// Safe to drop: it stays away.
    ///
    /// # Panics
    /// If its work has panicked.
    pub async fn back(&mut self) {
        let Some(task) = &mut self.away else { return };
        match task.await {
            Ok(mut session) => {
                if std::mem::take(&mut self.is_given_up) {
                    // Whatever has come of it, the client was told that it failed, and perhaps its Sync was answered.
                    session.fail_transaction();
                    session.failed(SqlState::QUERY_CANCELED, &"canceling statement while it went on");
                    if session.transaction_status() == Status::Idle {
                        session.sync_at_once();
                    }
                }
                self.cancel.begin();
                self.here = Some(session);
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The server stops, and ends this connection.
                Err(_) => std::future::pending().await,
            },
        }
        self.away = None;
    }

    /// Ends the session, as soon as it is here.
    pub async fn close(mut self) {
        match self.here.take() {
            Some(session) => session.close().await,
            None => {
                // Nobody wants any more what it works at.
                self.cancel.leave();
                ore::task::spawn("session_back", async move {
                    self.back().await;
                    if let Some(session) = self.here.take() {
                        session.close().await;
                    }
                })
                .detach();
            }
        }
    }
}

/// Returns when a session that works elsewhere is not waited for any longer, which is never once its statement commits.
async fn given_up(interrupt: &Interrupt, cancel: &Cancel) -> AdapterError {
    let error = interrupt.interrupted().await;
    tokio::time::sleep(GRACE).await;
    match cancel.give_up() {
        true => error,
        false => std::future::pending().await,
    }
}

impl Deref for Seat {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.here.as_deref().expect("the session is waited for before it is used")
    }
}

impl DerefMut for Seat {
    fn deref_mut(&mut self) -> &mut Session {
        self.here.as_deref_mut().expect("the session is waited for before it is used")
    }
}
