//! A session: one connection's state, and the protocol's verbs on it.
//!
//! The simple and the extended protocol differ only in how a plan and its parameters are found; both then call
//! [`Session::run`] (`control/execute.rs`).

use crate::activity::Activity;
use crate::advisory::StatementLocks;
use crate::bindable::Bindable;
use crate::cancel::{Cancel, Interrupt, committed};
use crate::control::short::{SMALL_PARAMS, SMALL_TEXT, is_elsewhere};
use crate::description::RowDesc;
use crate::error::{AdapterError, Notice};
use crate::locks::Owner;
use crate::plan_cache::{CachedPlan, Made};
use crate::response::{Response, Rows, Tag};
use crate::rights::Rights;
use crate::running::{GoesOn, Running};
use crate::sequence::{Given, SessionSequences};
use crate::settings::{PlansMade, SessionSettings};
use crate::shared::{SessionHandle, Shared};
use crate::statements::Statements;
use crate::status::Status;
use crate::transaction::Transaction;
use crate::writing::copy_in::CopyIn;
use catalog::builtin::history::Outcome;
use committer::published::Published;
use committer::request::Committed;
use committer::sequence::Unreserved;
use engine::SessionInfo;
use engine::session::Assignment;
use ore::memory::{Reservation, Share};
use parking_lot::Mutex;
use pgrepr::options::EncodeOptions;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, Timestamp};
use sql::plan::RoleRef;
use sql::vars::SessionVars;
use sql_syntax::parser::ParsedStatement;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// One connection's session: parts with one job each, which verbs work on.
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    /// In whose name it acts.
    pub(crate) rights: Rights,
    pub(crate) settings: SessionSettings,
    pub(crate) transaction: Transaction,
    pub(crate) statements: Statements,
    pub(crate) running: Running,
    /// Who takes the advisory locks that last as long as the session.
    pub(crate) locks: Arc<Owner>,
    /// What it was given of sequences.
    pub(crate) given: Arc<Mutex<Given>>,
    pub(crate) notices: Vec<Notice>,
    /// Whether it works on a thread that nobody else waits for.
    pub(crate) is_elsewhere: bool,
    /// The catalog's revision when it began.
    first_revision: u64,
}

/// The statements of one simple query.
pub struct Script {
    pub(crate) steps: Steps,
    /// Whether the statements share one implicit transaction.
    pub(crate) implicit: bool,
    done: bool,
    /// Whether its text was small: if not, nothing of it is short, were it only for the sizes of its literals.
    is_small: bool,
    /// Whether its next statement has begun here, and was noted, before it is run elsewhere.
    is_noted: bool,
    /// What a large text takes of the memory until it has run.
    _memory: Option<Reservation>,
}

impl Script {
    /// Whether all of its statements were run.
    pub fn is_done(&self) -> bool {
        match &self.steps {
            Steps::Planned(planned, _) => planned.is_none(),
            Steps::Parsed(statements, _) => statements.is_empty(),
            Steps::Empty => self.done,
        }
    }
}

/// What a script runs.
pub(crate) enum Steps {
    /// One statement whose plan and literals were found in the cache; and its text, if it writes.
    Planned(Option<(Arc<CachedPlan>, Vec<Datum<'static>>)>, Option<Box<str>>),
    /// Parsed statements, and the text that they are parts of.
    Parsed(VecDeque<ParsedStatement>, Arc<str>),
    /// No statement at all.
    Empty,
}

impl Session {
    pub(crate) fn new(
        shared: Arc<Shared>,
        vars: SessionVars,
        locks: Arc<Owner>,
        (id, handle): (u32, SessionHandle),
        claims: Option<Arc<str>>,
    ) -> Session {
        let SessionHandle { secret, role, cancel, ended, activity } = handle;
        let first_application_name = vars.get("application_name").unwrap_or_default();
        let running = Running::new(id, secret, cancel, ended, activity, first_application_name);
        let first_revision = shared.published.load().state.revision();
        let mut session = Session {
            first_revision,
            shared,
            rights: Rights::new(role, claims),
            settings: SessionSettings::new(vars),
            transaction: Transaction::new(),
            statements: Statements::default(),
            running,
            locks,
            given: Arc::default(),
            notices: Vec::new(),
            is_elsewhere: false,
        };
        session.refresh_settings();
        session
    }

    /// What large messages, and the rows of large results, take of the memory.
    pub fn message_memory(&self) -> &Arc<Share> {
        &self.shared.messages
    }

    /// Connection id and secret, for BackendKeyData.
    pub fn backend_key(&self) -> (u32, u32) {
        self.running.key
    }

    /// Where others see what it does.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.running.activity
    }

    /// Who logged in, and when.
    pub(crate) fn who(&self) -> (&RoleRef, i64) {
        (self.rights.own(), self.running.activity.started_us())
    }

    /// All reported parameters.
    pub fn parameter_statuses(&self) -> Vec<(&'static str, String)> {
        self.settings.vars.statuses()
    }

    /// Reported parameters that have changed.
    pub fn take_parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        self.settings.vars.take_changes()
    }

    /// Notices to be sent.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        if self.locks.warns() {
            notices.extend(self.locks.take_warnings());
        }
        if !notices.is_empty() {
            let level = self.settings.vars.get("client_min_messages").unwrap_or_default();
            notices.retain(|notice| notice.reaches(level));
        }
        notices
    }

    /// Whether there are notices or parameter changes to be sent.
    pub fn has_pending(&self) -> bool {
        !self.notices.is_empty() || self.settings.vars.has_changes() || self.locks.warns()
    }

    /// Whether it is as it was when it began, but for plans that it has made: no transaction is open, and no parameter, name, lock or value
    /// is left of what it ran. Whoever has it next cannot tell that somebody had it before.
    pub fn is_as_new(&mut self) -> bool {
        self.assign();
        self.transaction.status == Status::Idle
            && self.transaction.is_fresh()
            && self.settings.is_as_new()
            && self.statements.has_no_names()
            && self.locks.count() == 0
            && self.given.lock().is_nothing()
    }

    /// Whether roles, databases and privileges are what they were when it began: [`crate::client::Client::connect`] would say the same now.
    pub fn is_current(&self) -> bool {
        self.first_revision == self.shared.published.load().state.revision()
    }

    /// Where its transaction stands. Said when a statement has ended, which notes that the session rests.
    pub fn transaction_status(&self) -> Status {
        if self.running.take_active() {
            if self.transaction.status == Status::Idle {
                // It ended with the statement.
                self.transaction.unlock();
            }
            self.running.rest(self.transaction.status, self.transaction.started_us, self.now_us());
        }
        self.transaction.status
    }

    /// How values are printed.
    pub fn encode_options(&self) -> &EncodeOptions {
        &self.settings.options
    }

    /// How values are printed among which are some of `regclass` and its kin: by what the objects are called now.
    pub fn naming_options(&self) -> EncodeOptions {
        EncodeOptions { names: Some(Arc::new(self.info(0))), ..self.settings.options.clone() }
    }

    /// Reads a value that a client sent as text.
    pub fn decode_text(&self, ty: &PgType, text: &str) -> Result<Datum<'static>, AdapterError> {
        Ok(match ty.names_objects() {
            true => pgrepr::text::decode_text(ty, text, &self.naming_options())?,
            false => pgrepr::text::decode_text(ty, text, &self.settings.options)?,
        })
    }

    /// Fires when the server stops or the session is to end.
    pub fn shutdown(&self) -> CancellationToken {
        self.running.ended.clone()
    }

    /// How long the session may now be idle.
    pub fn idle_timeout(&self) -> Option<std::time::Duration> {
        self.settings.idle_timeout(self.transaction.status)
    }

    /// The error with which a session ends that was idle for too long.
    pub fn idle_for_too_long(&self) -> AdapterError {
        let (sqlstate, message) = match self.transaction.status {
            Status::Idle => (SqlState::IDLE_SESSION_TIMEOUT, "terminating connection due to idle-session timeout"),
            Status::InBlock | Status::Failed => (
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            ),
        };
        AdapterError::new(sqlstate, message)
    }

    /// Ends the session; an open transaction is rolled back, and temporary tables are dropped.
    pub async fn close(mut self) {
        self.transaction = Transaction::new();
        if let Err(error) = self.drop_temporary().await {
            // They go when the server starts again.
            tracing::warn!(connection_id = self.running.key.0, %error, "temporary tables were not dropped");
        }
    }

    // ---- simple protocol

    /// Takes a simple query apart. Errors: what its syntax errors are.
    pub fn start_script(&mut self, sql: &str) -> Result<Script, AdapterError> {
        let is_small = sql.len() <= SMALL_TEXT;
        let goes_on = if self.is_elsewhere { GoesOn::Yes } else { GoesOn::No };
        self.running.start_time(self.settings.vars.statement_timeout(), goes_on);
        self.stay_if(is_small)?;
        self.running.cancel.reset();
        self.assign();
        self.transaction.begin_implicit();
        let memory = self.memory_for(sql)?;
        if let Some(planned) = self.cached(sql)? {
            self.sample(planned.0.name, sql);
            let text = (!planned.0.only_reads()).then(|| Box::from(sql));
            return Ok(Script {
                steps: Steps::Planned(Some(planned), text),
                implicit: false,
                done: false,
                is_small,
                is_noted: false,
                _memory: memory,
            });
        }
        let statements = match sql_syntax::parser::parse(sql) {
            Ok(statements) => statements,
            Err(error) => {
                self.fail_transaction();
                return Err(error.into());
            }
        };
        let implicit = statements.len() > 1 && self.transaction.status == Status::Idle;
        let steps = if statements.is_empty() { Steps::Empty } else { Steps::Parsed(statements.into(), Arc::from(sql)) };
        Ok(Script { steps, implicit, done: false, is_small, is_noted: false, _memory: memory })
    }

    /// Runs the next statement of a script if that needs no waiting, as a read of an index does not. `None` if it does, or if
    /// there is none: then nothing has happened, and [`Session::next_in_script`] goes on.
    ///
    /// No future is made here. One would have room for all that a statement might do, and be moved with it.
    pub fn next_at_once(&mut self, script: &mut Script) -> Option<Result<Response, AdapterError>> {
        let Steps::Planned(planned, _) = &mut script.steps else { return None };
        self.stay_if(script.is_small).ok()?;
        let (plan, params) = planned.as_ref()?;
        let result = self.run_at_once(plan, params)?;
        self.running.end_time();
        *planned = None;
        Some(result)
    }

    /// Runs the next statement of a script that is not done.
    ///
    /// # Cancellation
    /// Dropping the work abandons the statement; a write that was handed to the committer still commits.
    pub async fn next_in_script(&mut self, script: &mut Script) -> Result<Response, AdapterError> {
        self.stay_if(script.is_small)?;
        let over = || AdapterError::internal("there is nothing left to run");
        let result = match &mut script.steps {
            Steps::Empty => match std::mem::replace(&mut script.done, true) {
                true => Err(over()),
                false => Ok(Response::Empty),
            },
            Steps::Planned(planned, text) => {
                let statement = planned.take().ok_or_else(over)?;
                let result = self.run_cached(&statement, text.as_deref()).await;
                if is_elsewhere(&result) {
                    *planned = Some(statement);
                }
                result
            }
            Steps::Parsed(statements, text) => {
                let statement = statements.pop_front().ok_or_else(over)?;
                let autocommit = if script.implicit { Autocommit::No } else { Autocommit::Yes };
                self.assign();
                if !std::mem::take(&mut script.is_noted) {
                    self.sample(statement.ast.name(), &statement.sql);
                }
                let result = self.run_parsed(&statement, autocommit).await.map_err(|error| error.locate(text));
                if is_elsewhere(&result) {
                    statements.push_front(statement);
                    script.is_noted = true;
                }
                result
            }
        };
        if !is_elsewhere(&result) {
            // The next one has its own time.
            self.running.end_time();
        }
        self.concluded(result)
    }

    /// Whether [`Session::finish_script`] has something to do.
    pub fn must_finish(&self, script: &Script) -> bool {
        script.implicit && self.transaction.status == Status::Idle
    }

    /// Ends a script's implicit transaction.
    pub async fn finish_script(&mut self, script: &Script) -> Result<(), AdapterError> {
        self.assign();
        if self.must_finish(script) { self.end_implicit().await } else { Ok(()) }
    }

    // ---- extended protocol

    /// Parse.
    pub fn parse(&mut self, name: &str, sql: &str, param_oids: &[u32]) -> Result<(), AdapterError> {
        self.stay_if(sql.len() <= SMALL_TEXT)?;
        self.running.cancel.reset();
        self.assign();
        let memory = self.memory_for(sql);
        let result = memory.and_then(|_memory| self.in_time().and_then(|()| self.prepare(name, sql, param_oids)));
        self.concluded(result)
    }

    /// The same of a statement that was read already.
    pub fn parse_tree(&mut self, name: &str, statement: ParsedStatement) -> Result<(), AdapterError> {
        self.stay_if(statement.sql.len() <= SMALL_TEXT)?;
        self.running.cancel.reset();
        self.assign();
        let text = statement.sql.clone();
        let result = self.in_time().and_then(|()| self.prepare_tree(name, Some(statement), &text, Vec::new()));
        self.concluded(result).map(drop)
    }

    /// Describe of a statement. Error 26000.
    pub fn describe_statement(&mut self, name: &str) -> Result<Bindable, AdapterError> {
        let result = self.in_time().and_then(|()| self.revalidated(name));
        self.concluded(result).map(|plan| Bindable { plan, is_small: true })
    }

    /// Bind, first half: what the values are decoded for, `bytes` of which have come. Errors: 26000, 42P03.
    #[inline]
    pub fn to_bind(&mut self, portal: &str, statement: &str, bytes: usize) -> Result<Bindable, AdapterError> {
        let is_small = bytes <= SMALL_PARAMS;
        self.stay_if(is_small)?;
        self.assign();
        let result = self.in_time().and_then(|()| self.bindable(portal, statement));
        self.concluded(result).map(|plan| Bindable { plan, is_small })
    }

    /// Bind, second half: as many values as the statement has parameters, each of its type. Which of all that were bound it is.
    #[inline]
    pub fn bind(&mut self, portal: &str, bindable: Bindable, params: Vec<Datum<'static>>) -> u64 {
        debug_assert_eq!(params.len(), bindable.plan.params.len(), "as many as there are parameters");
        self.bind_portal(portal, bindable, params)
    }

    /// Which of all that were bound the portal with this name is, 0 of a cursor; `None` if there is none.
    pub fn portal_number(&self, name: &str) -> Option<u64> {
        self.statements.portals.get(name).map(|portal| portal.number)
    }

    /// Describe of a portal; and which of all that were bound it is. Error 34000.
    pub fn describe_portal(&mut self, name: &str) -> Result<(Option<Arc<RowDesc>>, u64), AdapterError> {
        let result = match self.statements.portals.get(name) {
            Some(portal) => Ok((portal.plan.desc.clone(), portal.number)),
            None => Err(unknown_portal(name)),
        };
        self.concluded(result)
    }

    /// Execute, if that needs no waiting. `None` if it does: then nothing has happened, and [`Session::execute`] does it.
    pub fn execute_at_once(&mut self, portal: &str) -> Option<Result<Response, AdapterError>> {
        self.running.cancel.reset();
        self.sample_portal(portal);
        let result = self.execute_portal_at_once(portal)?;
        self.running.end_time();
        Some(result)
    }

    /// Execute. `sync_follows` says that nothing else comes before the next Sync, so that the statement may commit by itself.
    ///
    /// # Cancellation
    /// As [`Session::next_in_script`].
    pub async fn execute(&mut self, portal: &str, sync_follows: bool) -> Result<Response, AdapterError> {
        self.running.cancel.reset();
        let autocommit = if sync_follows { Autocommit::Yes } else { Autocommit::No };
        let result = self.execute_portal(portal, autocommit).await;
        if !is_elsewhere(&result) {
            self.running.end_time();
        }
        result
    }

    /// Gives back rows of which the client has not taken all.
    pub fn suspend(&mut self, portal: &str, rows: Rows) {
        if let Some(portal) = self.statements.portals.get_mut(portal) {
            portal.rows = Some(rows);
        }
    }

    /// Close of a statement, whether there is one or not.
    pub fn close_statement(&mut self, name: &str) {
        self.statements.forget(name);
    }

    /// Close of a portal, whether there is one or not.
    pub fn close_portal(&mut self, name: &str) {
        self.statements.portals.remove(name);
    }

    /// Sync, if there is no implicit transaction to be ended; whether that was so.
    pub fn sync_at_once(&mut self) -> bool {
        self.running.end_time();
        self.assign();
        self.transaction.begin_implicit();
        if self.transaction.status != Status::Idle {
            return true;
        }
        self.statements.end_transaction();
        self.transaction.is_fresh()
    }

    /// Sync: ends the implicit transaction.
    pub async fn sync(&mut self) -> Result<(), AdapterError> {
        if self.sync_at_once() { Ok(()) } else { self.end_implicit().await }
    }

    /// Commits the rows of a COPY.
    pub async fn copy_in_finish(&mut self, copy: Box<CopyIn>) -> Result<Tag, AdapterError> {
        let result = self.finish_copy(copy).await;
        self.concluded(result)
    }

    /// Notes that something failed outside the session's own verbs.
    pub fn fail_transaction(&mut self) {
        self.running.fail();
        self.settings.info.assignments.take();
        match self.transaction.status {
            Status::Idle => {
                self.transaction = Transaction::new();
                self.given.lock().undone(None);
            }
            Status::InBlock | Status::Failed => self.transaction.fail(),
        }
    }

    // ---- shared by the verbs

    /// Notes a statement that may take its time.
    pub(crate) fn begin_statement(&self, statement: &Arc<str>) {
        self.running.begin(statement, self.transaction.started_us, self.now_us());
    }

    /// What is made now under this name, by a statement or by a message.
    pub(crate) fn made(&self, name: &str, by: Option<&Arc<str>>) -> Made {
        Made { at_us: (!name.is_empty()).then(|| self.now_us()), by: by.map(Arc::clone) }
    }

    /// The wall clock, in microseconds since the epoch.
    pub(crate) fn now_us(&self) -> i64 {
        i64::try_from(self.shared.clock.now_us()).unwrap_or(i64::MAX)
    }

    /// Whether `statement_timeout` is not over, which counts from the first message of the extended protocol until one is
    /// executed. Error: 57014.
    fn in_time(&mut self) -> Result<(), AdapterError> {
        self.running.in_time(self.settings.vars.statement_timeout())
    }

    /// Whoever may ask for the end of what it runs.
    pub(crate) fn cancel(&self) -> Arc<Cancel> {
        Arc::clone(&self.running.cancel)
    }

    /// What ends the current statement early.
    pub(crate) fn interrupt(&self) -> Interrupt {
        self.running.interrupt(self.settings.vars.statement_timeout())
    }

    /// The same for a statement that may take for ever.
    pub(crate) fn interrupt_without_timeout(&self) -> Interrupt {
        Interrupt::new(Arc::clone(&self.running.cancel), None)
    }

    /// The session as functions see it, reading at `as_of`.
    pub(crate) fn info(&self, as_of: Timestamp) -> SessionInfo {
        let now = self.now_us();
        let mut info = self.settings.info.clone();
        info.now_us = Some(self.transaction.started_us.unwrap_or(now));
        info.statement_now_us = now;
        info.mz_now = as_of;
        info.transaction = self.transaction.number(&self.shared);
        info.interrupts = Some(Arc::new(self.interrupt()));
        info.memory = Some(Arc::clone(&self.shared.memory));
        info.sequences = Some(Arc::new(self.sequences(None)));
        info.locks = Some(Arc::new(StatementLocks {
            session: Arc::clone(&self.locks),
            transaction: self.transaction.locks(&self.locks),
            timeout: self.settings.vars.lock_timeout(),
        }));
        info.catalog = Some(match self.transaction.staged() {
            Some(staged) => Arc::clone(&staged.functions),
            None => Arc::clone(&self.shared.published.load().functions),
        });
        info
    }

    /// The sequences as a statement that begins now takes from them.
    pub(crate) fn sequences(&self, unreserved: Option<Unreserved>) -> SessionSequences {
        SessionSequences {
            shared: Arc::clone(&self.shared),
            staged: self.transaction.staged().cloned(),
            role: self.rights.role.id,
            read_only: self.settings.vars.read_only(),
            given: Arc::clone(&self.given),
            unreserved,
            allowed: Mutex::default(),
        }
    }

    /// The catalog that this session's statements are planned by, and read.
    pub(crate) fn published(&self) -> Arc<Published> {
        self.transaction.staged().map_or_else(|| self.shared.published.load_full(), Arc::clone)
    }

    /// The revision of [`Session::published`].
    pub(crate) fn revision(&self) -> u64 {
        match self.transaction.staged() {
            Some(staged) => staged.state.revision(),
            None => self.shared.published.load().state.revision(),
        }
    }

    /// Does what `set_config()` has asked for in the statement before. The function has checked it.
    fn assign(&mut self) {
        let assignments = self.settings.info.assignments.take();
        if assignments.is_empty() {
            return;
        }
        for Assignment { name, value, local } in assignments {
            // Outside of a block, what is local has ended with its statement.
            if local && self.transaction.status == Status::Idle {
                continue;
            }
            let done = match &value {
                Some(value) => self.settings.vars.set_raw(&name, value, local).map(drop),
                None => self.settings.vars.reset(&name),
            };
            if let Err(error) = done {
                self.warn(error.sqlstate, &error.message);
            }
        }
        self.refresh_settings();
    }

    /// Recomputes what depends on settings, after something else of the session has changed that it depends on.
    pub(crate) fn settings_changed(&mut self) {
        self.settings.invalidate();
        self.refresh_settings();
    }

    /// Recomputes what depends on settings, after they have changed.
    pub(crate) fn refresh_settings(&mut self) {
        if !self.settings.take_changed() {
            return;
        }
        let vars = &self.settings.vars;
        self.rights.follow(&self.shared.published.load().state, vars.get("role"));
        self.running.activity.name(vars.get("application_name").unwrap_or_default());
        self.running.sampling.set_rate(vars.statement_logging_sample_rate());
        if self.settings.refresh(&self.rights, &self.running, &self.shared) == PlansMade::UnderOthers {
            self.statements.plans.clear();
        }
    }

    /// The role to which SET ROLE may change. Errors: 22023 unknown, 42501 the session's user is not a member of it.
    pub(crate) fn allowed_role(&self, name: &str) -> Result<Arc<RoleRef>, AdapterError> {
        self.rights.allowed(&self.shared.published.load().state, name)
    }

    /// Whether reads of an index may be answered on this thread.
    pub(crate) fn fast_path_enabled(&self) -> bool {
        self.settings.fast_path.unwrap_or_else(|| self.shared.published.load().fast_path)
    }

    /// Ends an implicit transaction by committing it.
    pub(crate) async fn end_implicit(&mut self) -> Result<(), AdapterError> {
        let shared = Arc::clone(&self.shared);
        let may_have_made = self.transaction.staged().is_some();
        let cancel = self.cancel();
        let result = committed(&cancel, self.transaction.commit(&shared)).await;
        self.transaction = Transaction::new();
        if may_have_made {
            match &result {
                Ok(Committed::At) => self.given.lock().committed(),
                _ => self.given.lock().undone(None),
            }
        }
        self.statements.end_transaction();
        match result? {
            Committed::Violates(violation) => Err(self.violation(&violation)),
            _ => Ok(()),
        }
    }

    /// A statement's result, which fails the transaction if it is an error.
    #[inline]
    pub(crate) fn concluded<T>(&mut self, result: Result<T, AdapterError>) -> Result<T, AdapterError> {
        if !is_elsewhere(&result) && result.is_err() {
            self.fail_transaction();
        }
        result
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.locks.end();
        self.end(Outcome::Aborted);
        self.shared.unregister(self.running.key.0);
    }
}

/// Whether a statement outside a block commits by itself, or with what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Autocommit {
    /// By itself.
    Yes,
    /// At the end of the implicit transaction.
    No,
}

pub(crate) fn unknown_portal(name: &str) -> AdapterError {
    AdapterError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
