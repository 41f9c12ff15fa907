//! Passwords: hashed when they are set, checked when somebody logs in.
//!
//! Hashing takes milliseconds, so it happens on the ad hoc runtime, never on the thread of a connection, and only so many
//! at a time, which bounds how fast passwords can be guessed and what that costs everybody else. A user who does not
//! exist, or has no password, is asked and refused exactly as one whose password is wrong, after the same work.

use crate::error::{AdapterError, Notice};
use catalog::state::State;
use catalog::transact::{Op, PasswordChange};
use catalog::verifier::{ITERATIONS, ITERATIONS_MAX, SALT_BYTES, Verifier};
use engine::error::PlanNotice;
use rand::Rng;
use repr::sqlstate::SqlState;
use sql::plan::{CatalogView, Plan};
use sql_syntax::ast::{NewPassword, RoleOptions};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Passwords hashed at a time: one, on a machine of any size, is some hundred a second.
const HASHES_MAX: usize = 1;

/// What a login is checked against.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Of the user's password, or of none.
    pub verifier: Verifier,
    /// Why no password can be right, for the log and for nobody else.
    pub refusal: Option<&'static str>,
}

/// Where passwords are hashed, so many at a time.
#[derive(Debug)]
pub(crate) struct Hashing {
    permits: Arc<Semaphore>,
    runtime: Handle,
}

/// What a password of this user is checked against, whether there is such a user or not.
pub(crate) fn credentials(state: &State, user: &str) -> Credentials {
    // Made in every case, so that looking for what is not there takes no longer.
    let mock = Verifier::mock(state.mock_secret(), user);
    let role = state.role_by_name(user);
    match role.as_ref().map(|role| state.verifier(role.id)) {
        Some(Some(verifier)) => Credentials { verifier: verifier.clone(), refusal: None },
        Some(None) => Credentials { verifier: mock, refusal: Some("the role has no password") },
        None => Credentials { verifier: mock, refusal: Some("there is no such role") },
    }
}

impl Hashing {
    /// On this runtime.
    pub(crate) fn on(runtime: Handle) -> Hashing {
        Hashing { permits: Arc::new(Semaphore::new(HASHES_MAX)), runtime }
    }

    /// Does work that takes long off the threads of connections, after what others have asked for before.
    pub(crate) async fn hash<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AdapterError> {
        let stopped = || AdapterError::new(SqlState::CANNOT_CONNECT_NOW, "the server is shutting down");
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| stopped())?;
        let (done_tx, done_rx) = tokio::sync::oneshot::channel();
        let task = ore::task::spawn_on(&self.runtime, "hash", async move {
            // Who asked may have gone; the work goes on, and nobody else's begins before it is done.
            let _gone = done_tx.send(work());
            drop(permit);
        });
        let done = done_rx.await.map_err(|_| stopped());
        drop(task);
        done
    }

    /// Replaces the password that a plan gives a role by its verifier. Errors: what cannot be a password; the notice is
    /// for one that is none.
    pub(crate) async fn seal(&self, plan: &Plan, op: &mut Op) -> Result<Option<Notice>, AdapterError> {
        let (Plan::CreateRole { options, .. } | Plan::AlterRole { options, .. }) = plan else { return Ok(None) };
        let (Op::CreateRole { password, .. } | Op::AlterRole { password, .. }) = op else { return Ok(None) };
        let RoleOptions { password: Some(new), .. } = options else { return Ok(None) };
        let cleared = || {
            let message = "empty string is not a valid password, clearing password".to_owned();
            Some(Notice::from(PlanNotice { sqlstate: SqlState::SUCCESSFUL_COMPLETION, message, detail: None }))
        };
        let text = match new {
            NewPassword::Null => {
                *password = PasswordChange::Clear;
                return Ok(None);
            }
            NewPassword::Text(text) => text.reveal().to_owned(),
        };
        if text.is_empty() {
            *password = PasswordChange::Clear;
            return Ok(cleared());
        }
        let verifier = match given(&text)? {
            Some(verifier) => {
                let checked = verifier.clone();
                if self.hash(move || checked.accepts_password("")).await? {
                    *password = PasswordChange::Clear;
                    return Ok(cleared());
                }
                verifier
            }
            None => {
                let salt: [u8; SALT_BYTES] = rand::rng().random();
                self.hash(move || Verifier::derive(&text, &salt, ITERATIONS)).await?
            }
        };
        *password = PasswordChange::Set(verifier);
        Ok(None)
    }
}

/// A password that was given as its verifier. Errors: it was hashed in a way that is not known here.
fn given(text: &str) -> Result<Option<Verifier>, AdapterError> {
    if let Some(hash) = text.strip_prefix("md5")
        && hash.len() == 32
        && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    {
        return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, "MD5 password verifiers are not supported"));
    }
    match Verifier::parse(text) {
        None if Verifier::is_meant(text) => Err(AdapterError::with_detail(
            SqlState::INVALID_PARAMETER_VALUE,
            "invalid SCRAM-SHA-256 password verifier",
            format!("It is malformed, or asks for more than {ITERATIONS_MAX} iterations."),
        )),
        verifier => Ok(verifier),
    }
}
