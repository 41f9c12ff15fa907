//! A session's configuration parameters, and what is made of them for its statements.

use crate::rights::Rights;
use crate::running::Running;
use crate::shared::{Others, Shared};
use crate::status::Status;
use engine::error::SqlError;
use engine::{SessionInfo, Settings};
use pgrepr::options::EncodeOptions;
use sql::names::temporary_schema;
use sql::vars::{SessionVars, definitions};
use std::sync::Arc;
use std::time::Duration;

/// The parameters that a statement reads: the session's as they are when it begins, and the system's.
struct CurrentSettings {
    /// The session's own.
    vars: SessionVars,
    /// Where the system's are.
    shared: Arc<Shared>,
}

impl Settings for CurrentSettings {
    fn get(&self, name: &str) -> Option<String> {
        let system = || self.shared.published.load().state.system().get(name).map(str::to_owned);
        self.vars.get(name).map(str::to_owned).or_else(system)
    }

    fn check(&self, name: &str, value: Option<&str>) -> Result<String, SqlError> {
        SessionVars::check_raw(name, value, self.get(&name.to_lowercase()).as_deref())
    }
}

/// A session's parameters, and what is made of them for its statements.
pub(crate) struct SessionSettings {
    pub(crate) vars: SessionVars,
    /// What planning reads of them, as part of plan-cache keys.
    pub(crate) key: Arc<str>,
    /// The session as functions see it, but for what is a statement's.
    pub(crate) info: SessionInfo,
    /// How values are printed.
    pub(crate) options: EncodeOptions,
    /// Whether the session has made temporary tables, and so may have a schema of its own.
    pub(crate) has_temporary: bool,
    /// This session's own `enable_frontend_peek_sequencing`.
    pub(crate) fast_path: Option<bool>,
    /// Of which version of the parameters all this was made.
    version: u64,
    /// Of which version it was made first.
    first_version: Option<u64>,
    /// If what then ran was read-only, whether in a transaction; and whether that was deferrable. They are no part of the version:
    /// every BEGIN says them.
    modes: (Option<bool>, bool),
}

/// Under which settings the session's plans were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlansMade {
    /// The same in all that plans depend on.
    UnderThese,
    /// Others.
    UnderOthers,
}

impl SessionSettings {
    /// Of a session that begins. Nothing is made of them yet.
    pub(crate) fn new(vars: SessionVars) -> SessionSettings {
        SessionSettings {
            vars,
            key: Arc::from(""),
            info: SessionInfo::default(),
            options: EncodeOptions::default(),
            has_temporary: false,
            fast_path: None,
            version: u64::MAX,
            first_version: None,
            modes: (None, false),
        }
    }

    /// Whether no parameter was changed, and no temporary table made.
    pub(crate) fn is_as_new(&self) -> bool {
        self.first_version == Some(self.vars.version()) && self.fast_path.is_none() && !self.has_temporary
    }

    /// Something else has changed that what is made of them depends on.
    pub(crate) fn invalidate(&mut self) {
        self.version = u64::MAX;
    }

    /// Whether they have changed since something was made of them. Notes that it is made now.
    pub(crate) fn take_changed(&mut self) -> bool {
        let modes = (self.vars.read_only().then(|| self.vars.in_transaction()), self.vars.deferrable());
        if self.version == self.vars.version() && self.modes == modes {
            return false;
        }
        (self.version, self.modes) = (self.vars.version(), modes);
        true
    }

    /// Makes what statements need of them, for a session that acts in the name of a role.
    pub(crate) fn refresh(&mut self, rights: &Rights, running: &Running, shared: &Arc<Shared>) -> PlansMade {
        self.vars.set_superuser(rights.role.superuser);
        self.version = self.vars.version();
        self.first_version.get_or_insert(self.version);
        let vars = &self.vars;
        let temporary = self.has_temporary.then(|| temporary_schema(running.key.0));
        let key = format!(
            "{}\u{1}{:?}\u{1}{}\u{1}{:?}\u{1}{}\u{1}{:?}\u{1}{:?}\u{1}{:?}",
            rights.role.id,
            rights.claims,
            vars.database(),
            vars.search_path(),
            vars.cluster(),
            vars.locale(),
            vars.isolation(),
            temporary,
        );
        self.options.locale = vars.locale();
        self.info = SessionInfo {
            user: rights.role.name.clone(),
            session_user: rights.own().name.clone(),
            claims: rights.claims.clone(),
            database: vars.database().to_owned(),
            search_path: vars.search_path().to_vec(),
            locale: vars.locale(),
            started_us: shared.started_us,
            version: format!(
                "PostgreSQL {} on x86_64-unknown-linux-gnu (Glimpse {})",
                definitions::SERVER_VERSION,
                env!("CARGO_PKG_VERSION"),
            ),
            mz_version: definitions::MZ_VERSION.to_owned(),
            backend_pid: running.key.0,
            ends: running.activity.ends(),
            temporary,
            settings: Arc::new(CurrentSettings { vars: vars.clone(), shared: Arc::clone(shared) }),
            assignments: Arc::clone(&self.info.assignments),
            timer: Some(Arc::new(|duration| Box::pin(tokio::time::sleep(duration)))),
            backends: Some(Arc::new(Others(Arc::clone(shared)))),
            ..SessionInfo::default()
        };
        if *key == *self.key {
            return PlansMade::UnderThese;
        }
        self.key = Arc::from(key);
        PlansMade::UnderOthers
    }

    /// How long the session may now be idle.
    pub(crate) fn idle_timeout(&self, status: Status) -> Option<Duration> {
        match status {
            Status::Idle => self.vars.idle_session_timeout(),
            Status::InBlock | Status::Failed => self.vars.idle_in_transaction_session_timeout(),
        }
    }
}
