//! What a statement may know about its session: everything that stable and volatile functions read.
//!
//! Plans are shared between sessions, so nothing of this is folded into a plan; functions find it at run time in the
//! configuration that DataFusion hands to them.

use super::effort::Effort;
use crate::error::SqlError;
use crate::names::Scope;
use datafusion::common::Result;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use ore::memory::Share;
use pgrepr::error::PgReprError;
use pgrepr::options::{Locale, ObjectNames};
use repr::sqlstate::SqlState;
use repr::{Datum, GlobalId, PgType};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The configuration parameters, as a session has them.
pub trait Settings: Send + Sync {
    /// The value of a parameter of the session or the system.
    fn get(&self, name: &str) -> Option<String>;

    /// The value that a parameter would have if it were set to this, or reset. Errors: 42704, 22023, 55P02.
    fn check(&self, name: &str, value: Option<&str>) -> std::result::Result<String, SqlError>;
}

/// Where there is no session there are no parameters: none is known.
struct NoSettings;

impl Settings for NoSettings {
    fn get(&self, _name: &str) -> Option<String> {
        None
    }

    fn check(&self, name: &str, _value: Option<&str>) -> std::result::Result<String, SqlError> {
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\"")))
    }
}

/// What `set_config()` has asked for: the session does it before its next statement.
#[derive(Debug, Default)]
pub struct Assignments {
    /// Whether there is any: that there is none is found out without a lock.
    any: AtomicBool,
    list: Mutex<Vec<Assignment>>,
}

impl Assignments {
    /// Notes a call.
    pub fn ask(&self, assignment: Assignment) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(assignment);
        self.any.store(true, Ordering::Release);
    }

    /// The calls since this was last asked, in order.
    pub fn take(&self) -> Vec<Assignment> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One call of `set_config()`.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The parameter.
    pub name: String,
    /// Its value, or what RESET goes back to.
    pub value: Option<String>,
    /// Whether for the transaction only.
    pub local: bool,
}

/// Functions that only the catalog can answer, such as `pg_get_userbyid` or the text of a `regclass`.
pub trait CatalogFunctions: Send + Sync {
    /// Calls the function `name`; its name says which.
    fn call(
        &self,
        name: &str,
        args: &[Datum<'_>],
        session: &SessionInfo,
    ) -> std::result::Result<Datum<'static>, SqlError>;
}

/// What one session may ask of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `pg_cancel_backend`: to give up the statement that it runs.
    Cancel,
    /// `pg_terminate_backend`: to end.
    Terminate,
}

/// The server's sessions.
pub trait Backends: Send + Sync {
    /// Sends a signal to the session that `pg_backend_pid()` calls `pid`, in the name of another one; whether there is one. Error: 42501.
    fn signal(&self, pid: i32, signal: Signal, by: &SessionInfo) -> std::result::Result<bool, SqlError>;
}

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last value, or the one to be given first.
    pub last: i64,
    /// Which of the two.
    pub is_called: bool,
}

/// The sequences, as one session takes from them. Sequences are named by their oids.
pub trait Sequences: Send + Sync {
    /// The next value, which nobody else is given. May have to wait until more values are reserved. For an identity column nobody
    /// needs privileges on the sequence.
    ///
    /// Errors: 42P01, 42809 for what is no sequence, 42501, 25006, 2200H if there are no more.
    fn next(&self, oid: u32, of_identity: bool, session: &SessionInfo) -> std::result::Result<i64, SqlError>;

    /// The value that the session was given last. Errors: likewise, and 55000 if it was given none.
    fn current(&self, oid: u32, session: &SessionInfo) -> std::result::Result<i64, SqlError>;

    /// The value that the session was given last of any sequence. Errors: 55000, 42501.
    fn last(&self, session: &SessionInfo) -> std::result::Result<i64, SqlError>;

    /// The value that was given last, to whichever session, if one was. Errors: 42P01, 42809, 42501.
    fn last_value(&self, oid: u32) -> std::result::Result<Option<i64>, SqlError>;

    /// Makes this the last value, or the next one. Waits until that is durable. Errors: as [`Sequences::next`]; 22003.
    fn set(&self, oid: u32, value: i64, is_called: bool, session: &SessionInfo) -> std::result::Result<(), SqlError>;

    /// Where a sequence stands; `None` of what is no sequence.
    fn position(&self, id: GlobalId) -> Option<Position>;
}

/// The number by which a transaction can be told from others. It is given when it is first asked for.
#[derive(Clone, Debug, Default)]
pub struct TransactionNumber {
    given: Arc<OnceLock<i64>>,
    latest: Arc<AtomicI64>,
}

impl TransactionNumber {
    /// Of a transaction that begins; `latest` is the largest number that was given so far.
    pub fn new(latest: Arc<AtomicI64>) -> TransactionNumber {
        TransactionNumber { given: Arc::default(), latest }
    }

    /// The number: larger than any that was given before.
    pub fn get(&self) -> i64 {
        *self.given.get_or_init(|| self.latest.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// What a session shows of itself to nobody else.
pub trait OwnState: Send + Sync {
    /// Its prepared statements but the one without a name, in any order.
    fn prepared_statements(&self) -> Vec<PreparedStatement>;

    /// Its cursors and portals, in any order.
    fn cursors(&self) -> Vec<Cursor>;
}

/// A prepared statement, for `pg_prepared_statements`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedStatement {
    /// Its name.
    pub name: String,
    /// The text of PREPARE, or what a Parse message had.
    pub text: Arc<str>,
    /// When it was made. Microseconds since the epoch.
    pub prepared_us: i64,
    /// The types of its parameters.
    pub params: Vec<PgType>,
    /// Whether it was made by PREPARE.
    pub from_sql: bool,
}

/// A cursor or a portal, for `pg_cursors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its name; a portal's may be empty.
    pub name: String,
    /// The text of DECLARE, or of the statement that was bound.
    pub text: Arc<str>,
    /// Whether it survives its transaction.
    pub is_holdable: bool,
    /// Whether it was declared BINARY.
    pub is_binary: bool,
    /// When it was made. Microseconds since the epoch.
    pub created_us: i64,
}

/// What is locked, as `pg_locks` shows it: of one number the two halves and 1, of two numbers these and 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdvisoryKey {
    /// The upper half, or the first number.
    pub classid: u32,
    /// The lower half, or the second.
    pub objid: u32,
    /// Which of the two.
    pub objsubid: i16,
}

/// Whom a lock keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Who wants it for itself.
    Share,
    /// All other sessions.
    Exclusive,
}

impl LockMode {
    /// What PostgreSQL calls it.
    pub fn name(self) -> &'static str {
        match self {
            LockMode::Share => "ShareLock",
            LockMode::Exclusive => "ExclusiveLock",
        }
    }
}

/// How long a lock is held unless it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockLifetime {
    /// Until the session ends.
    Session,
    /// Until the transaction ends, or is rolled back to before.
    Transaction,
}

/// A lock as a session asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// What is locked.
    pub key: AdvisoryKey,
    /// Whom it keeps out.
    pub mode: LockMode,
    /// For how long.
    pub lifetime: LockLifetime,
}

/// Comes to an end when what is waited for has come. Dropping it ends the waiting.
pub type Waiting = Pin<Box<dyn Future<Output = std::result::Result<(), SqlError>> + Send>>;

/// The advisory locks of a database, as one session takes them. What it holds already it can take again, and has to give up as
/// often.
pub trait AdvisoryLocks: Send + Sync {
    /// Takes a lock as soon as nobody else holds it, or has waited longer for it. Errors: 40P01, 55P03.
    fn lock(&self, lock: AdvisoryLock) -> Waiting;

    /// Takes a lock unless it would have to be waited for; whether it did.
    fn try_lock(&self, lock: AdvisoryLock) -> bool;

    /// Gives up a lock that the session took for as long as it lasts; whether it held it.
    fn unlock(&self, key: AdvisoryKey, mode: LockMode) -> bool;

    /// Gives up all of these.
    fn unlock_all(&self);

    /// The sessions that the session which `pg_backend_pid()` calls `pid` waits for.
    fn blocking(&self, pid: i32) -> Vec<i32>;
}

/// The two ends of a session's connection, each an address and a port. Without a network there are none.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// The client's.
    pub peer: Option<(String, u16)>,
    /// The server's.
    pub local: Option<(String, u16)>,
}

/// Says whether a statement is to end early. What goes on for long asks now and then, because nothing else can end it.
pub trait Interrupts: Send + Sync {
    /// Error 57014 if it is.
    fn check(&self) -> std::result::Result<(), SqlError>;
}

/// Waits for a duration, on whatever runtime calls it.
pub type Timer = Arc<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A session's identity, clock and settings as of one statement.
#[derive(Clone)]
pub struct SessionInfo {
    /// `current_user`.
    pub user: String,
    /// `session_user`.
    pub session_user: String,
    /// What the token says by which it was opened, a JSON object; `None` without one.
    pub claims: Option<Arc<str>>,
    /// `current_database()`.
    pub database: String,
    /// The schemas that are searched, in order, without the implicit ones.
    pub search_path: Vec<String>,
    /// How it reads and prints values.
    pub locale: Locale,
    /// The transaction's start: `now()`. Microseconds since the epoch. `None` while a plan is made: it outlasts this.
    pub now_us: Option<i64>,
    /// Whether constants are being folded while a plan is optimized: a call that refuses that stays in it.
    pub folds: bool,
    /// The statement's start: `statement_timestamp()`, and `clock_timestamp()`. Microseconds since the epoch.
    pub statement_now_us: i64,
    /// `mz_now()`: the timestamp at which this statement reads. Microseconds since the epoch.
    pub mz_now: u64,
    /// When the server started, in microseconds since 1970.
    pub started_us: i64,
    /// `version()`.
    pub version: String,
    /// `mz_version()`.
    pub mz_version: String,
    /// `pg_backend_pid()`.
    pub backend_pid: u32,
    /// Its connection.
    pub ends: Arc<Ends>,
    /// The schema of its temporary tables, if it has made any.
    pub temporary: Option<String>,
    /// `current_setting()`.
    pub settings: Arc<dyn Settings>,
    /// `set_config()`.
    pub assignments: Arc<Assignments>,
    /// `txid_current()`.
    pub transaction: TransactionNumber,
    /// What only the session itself sees; `None` where there is no session.
    pub own: Option<Arc<dyn OwnState>>,
    /// What waits for `pg_sleep()`; `None` where nothing does.
    pub timer: Option<Timer>,
    /// The advisory locks; `None` where there are none.
    pub locks: Option<Arc<dyn AdvisoryLocks>>,
    /// The other sessions; `None` where there are none.
    pub backends: Option<Arc<dyn Backends>>,
    /// The sequences; `None` where there are none.
    pub sequences: Option<Arc<dyn Sequences>>,
    /// The catalog, for functions that need it; `None` refuses them.
    pub catalog: Option<Arc<dyn CatalogFunctions>>,
    /// What ends the statement early; `None` where nothing does.
    pub interrupts: Option<Arc<dyn Interrupts>>,
    /// Whose memory its batches are; `None` where nobody counts.
    pub memory: Option<Arc<Share>>,
    /// What planning it takes; `None` where nobody asks.
    pub effort: Option<Arc<Effort>>,
}

impl SessionInfo {
    /// Whether it may know what a session does whose token says this, if it may know it of the role. Who has a token is one of many who come as
    /// one role, and knows nothing of those whose tokens say something else.
    pub fn may_know_of(&self, claims: Option<&Arc<str>>) -> bool {
        self.claims.is_none() || self.claims.as_ref() == claims
    }

    /// The session that a function runs in.
    pub fn from_config(config: &ConfigOptions) -> Option<&SessionInfo> {
        config.extensions.get::<SessionInfo>()
    }

    /// Error 57014 if the statement is to end early.
    pub fn check_interrupts(&self) -> std::result::Result<(), SqlError> {
        self.interrupts.as_ref().map_or(Ok(()), |interrupts| interrupts.check())
    }

    /// Where it looks names up.
    pub fn scope(&self) -> Scope<'_> {
        Scope {
            database: &self.database,
            search_path: &self.search_path,
            user: &self.user,
            temporary: self.temporary.as_deref(),
        }
    }

    /// Calls a function of the catalog.
    pub fn call_catalog(&self, name: &str, args: &[Datum<'_>]) -> std::result::Result<Datum<'static>, SqlError> {
        match &self.catalog {
            Some(catalog) => catalog.call(name, args, self),
            None => Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} is not supported here"))),
        }
    }
}

impl ObjectNames for SessionInfo {
    fn name(&self, ty: &PgType, oid: u32) -> String {
        match self.call_catalog(&format!("{}out", ty.name()), &[Datum::Oid(oid)]) {
            Ok(Datum::Text(name)) => name.into_owned(),
            _ => oid.to_string(),
        }
    }

    fn oid(&self, ty: &PgType, text: &str) -> std::result::Result<u32, PgReprError> {
        match self.call_catalog(&format!("{}in", ty.name()), &[Datum::Text(Cow::Borrowed(text))]) {
            Ok(Datum::Oid(oid)) => Ok(oid),
            Ok(_) => Err(PgReprError::invalid_text(&ty.name(), text)),
            Err(error) => Err(PgReprError::new(error.sqlstate, error.message)),
        }
    }
}

impl Default for SessionInfo {
    /// A session without an identity, for planning and tests.
    fn default() -> SessionInfo {
        SessionInfo {
            user: "materialize".to_owned(),
            session_user: "materialize".to_owned(),
            claims: None,
            database: "materialize".to_owned(),
            search_path: vec!["public".to_owned()],
            locale: Locale::default(),
            now_us: Some(0),
            folds: false,
            statement_now_us: 0,
            mz_now: 0,
            started_us: 0,
            version: String::new(),
            mz_version: String::new(),
            backend_pid: 0,
            ends: Arc::default(),
            temporary: None,
            settings: Arc::new(NoSettings),
            assignments: Arc::default(),
            transaction: TransactionNumber::default(),
            own: None,
            timer: None,
            locks: None,
            backends: None,
            sequences: None,
            catalog: None,
            interrupts: None,
            memory: None,
            effort: None,
        }
    }
}

impl fmt::Debug for SessionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionInfo")
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl ConfigExtension for SessionInfo {
    const PREFIX: &'static str = "glimpse";
}

impl ExtensionOptions for SessionInfo {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        Err(SqlError::internal(format!("glimpse.{key} is not an option")).into())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
