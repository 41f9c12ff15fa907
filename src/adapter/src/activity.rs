//! What a session does, for `pg_stat_activity`.
//!
//! A statement that is answered at once, from an index, on the connection's own thread, leaves no trace here: it would be over
//! before anybody could see it, and noting it would cost a good part of what it costs. All others are noted when they begin, or when
//! it turns out that they have to wait, and the session as idle when it is ready for the next.

use crate::startup::StartupParams;
use crate::status::Status;
use catalog::builtin::introspection::{Encryption, SessionStatus};
use engine::names::RoleId;
use engine::session::Ends;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

/// One session's, shared with whoever looks.
pub(crate) struct Activity {
    role: RoleId,
    database: String,
    claims: Option<Arc<str>>,
    peer: Option<SocketAddr>,
    ends: Arc<Ends>,
    encryption: Option<Encryption>,
    started_us: i64,
    doing: Mutex<Doing>,
}

/// What changes.
struct Doing {
    application_name: String,
    transaction_us: Option<i64>,
    statement_us: Option<i64>,
    changed_us: i64,
    state: &'static str,
    statement: Arc<str>,
    /// Statements that wait for a turn.
    waiting: usize,
}

impl Activity {
    /// Of a session that begins.
    pub(crate) fn new(role: RoleId, database: &str, startup: &StartupParams, now_us: i64) -> Activity {
        let doing = Doing {
            application_name: String::new(),
            transaction_us: None,
            statement_us: None,
            changed_us: now_us,
            state: "idle",
            statement: Arc::from(""),
            waiting: 0,
        };
        let doing = Mutex::new(doing);
        Activity {
            role,
            database: database.to_owned(),
            claims: startup.claims.clone(),
            peer: startup.peer,
            ends: Arc::new(Ends { peer: startup.peer.map(end), local: startup.local.map(end) }),
            encryption: startup.encryption.clone(),
            started_us: now_us,
            doing,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Activity {
        let (user, options) = (String::new(), Vec::new());
        let (database, internal, peer, local, encryption) = (None, false, None, None, None);
        let startup = StartupParams { user, database, internal, options, claims: None, peer, local, encryption };
        Activity::new(catalog::system::MZ_SYSTEM, "", &startup, 0)
    }

    /// What its token says.
    pub(crate) fn claims(&self) -> Option<&Arc<str>> {
        self.claims.as_ref()
    }

    /// The ends of its connection.
    pub(crate) fn ends(&self) -> Arc<Ends> {
        Arc::clone(&self.ends)
    }

    /// When the session began.
    pub(crate) fn started_us(&self) -> i64 {
        self.started_us
    }

    /// What the client calls itself now.
    pub(crate) fn name(&self, application: &str) {
        application.clone_into(&mut self.doing.lock().application_name);
    }

    /// A statement begins, in the transaction that began at `transaction_us`, if not in its own.
    pub(crate) fn begin(&self, statement: &Arc<str>, transaction_us: Option<i64>, now_us: i64) {
        let mut doing = self.doing.lock();
        doing.state = "active";
        doing.statement = Arc::clone(statement);
        doing.statement_us = Some(now_us);
        doing.changed_us = now_us;
        doing.transaction_us = Some(transaction_us.unwrap_or(now_us));
    }

    /// The session is ready for the next statement.
    pub(crate) fn rest(&self, status: Status, transaction_us: Option<i64>, now_us: i64) {
        let mut doing = self.doing.lock();
        doing.state = match status {
            Status::Idle => "idle",
            Status::InBlock => "idle in transaction",
            Status::Failed => "idle in transaction (aborted)",
        };
        doing.changed_us = now_us;
        doing.transaction_us = transaction_us;
    }

    /// A statement waits for a turn until the result is dropped.
    pub(crate) fn waits_for_turn(self: &Arc<Activity>) -> Waiting {
        self.doing.lock().waiting += 1;
        Waiting(Arc::clone(self))
    }

    /// How it looks now.
    pub(crate) fn status(&self, id: u32) -> SessionStatus {
        let doing = self.doing.lock();
        SessionStatus {
            id,
            role: self.role,
            database: self.database.clone(),
            claims: self.claims.clone(),
            application_name: doing.application_name.clone(),
            peer: self.peer,
            encryption: self.encryption.clone(),
            started_us: self.started_us,
            transaction_us: doing.transaction_us,
            statement_us: doing.statement_us,
            changed_us: doing.changed_us,
            state: doing.state,
            statement: Arc::clone(&doing.statement),
            is_waiting_for_turn: doing.waiting > 0,
        }
    }
}

/// A statement that waits for a turn.
pub(crate) struct Waiting(Arc<Activity>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.doing.lock().waiting -= 1;
    }
}

fn end(address: SocketAddr) -> (String, u16) {
    (address.ip().to_canonical().to_string(), address.port())
}
