//! What was run: a sample of the server's statements, the newest of them, for `mz_recent_activity_log`.
//!
//! 1. Each session draws how many statements pass before it notes one, so that most of them cost it a decrement.
//! 2. A statement whose turn it is is put into the server's history when it begins: it is seen while it runs.
//! 3. How it is answered is noted where that is decided, and how it ended where its last message is written.
//!
//! `statement_logging_sample_rate` is a session's own, `statement_logging_max_sample_rate` the server's: of the statements
//! whose turn it is, so many are left out that the smaller of the two is met.
//!
//! # Invariants
//! - Passwords are not kept: of a statement that may have one, there is its name.
//! - What is kept is bounded, in number and in bytes.

use crate::session::Session;
use catalog::builtin::history::{End, Execution, Outcome, Strategy};
use parking_lot::Mutex;
use pgrepr::text::encode_text;
use rand::Rng;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, Timestamp};
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};

/// The most statements that are kept.
const EXECUTIONS_MAX: usize = 10_000;
/// The most memory that they take, about.
const BYTES_MAX: usize = 16 << 20;
/// Of a longer statement, its beginning is kept.
const SQL_BYTES_MAX: usize = 64 << 10;
/// Of a longer parameter, its beginning.
const PARAM_BYTES_MAX: usize = 1 << 10;
/// Of more parameters, the first.
const PARAMS_MAX: usize = 64;

/// The server's history, the oldest first.
#[derive(Default)]
pub(crate) struct History {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    executions: VecDeque<Arc<Execution>>,
    bytes: usize,
}

impl History {
    fn push(&self, execution: Arc<Execution>) {
        let mut kept = self.kept.lock();
        kept.bytes += execution.bytes();
        kept.executions.push_back(execution);
        while kept.bytes > BYTES_MAX || kept.executions.len() > EXECUTIONS_MAX {
            let Some(oldest) = kept.executions.pop_front() else { break };
            kept.bytes -= oldest.bytes();
        }
    }

    /// All that there is.
    pub(crate) fn executions(&self) -> Vec<Arc<Execution>> {
        self.kept.lock().executions.iter().map(Arc::clone).collect()
    }
}

/// A session's part in it.
pub(crate) struct Sampling {
    /// The share of statements that are noted.
    rate: f64,
    /// How many statements pass before the next one is.
    passing: u64,
    /// What is being run, if it is noted.
    current: Option<Arc<Execution>>,
    /// What the client called itself when it came.
    first_application_name: String,
}

impl Sampling {
    /// Of a session that begins.
    pub(crate) fn new(application_name: &str) -> Sampling {
        let first_application_name = application_name.to_owned();
        Sampling { rate: 0.0, passing: u64::MAX, current: None, first_application_name }
    }

    /// Changes the share of statements that are noted.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        if rate != self.rate {
            self.rate = rate;
            self.draw();
        }
    }

    /// Whether the statement that begins now is to be noted.
    #[inline]
    fn is_due(&mut self) -> bool {
        match self.passing.checked_sub(1) {
            Some(left) => {
                self.passing = left;
                false
            }
            None => {
                self.draw();
                true
            }
        }
    }

    /// How many statements pass before one is noted, if each is noted with the same chance.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
    fn draw(&mut self) {
        let chance: f64 = rand::rng().random_range(f64::MIN_POSITIVE..1.0);
        self.passing = match self.rate {
            rate if rate <= 0.0 => u64::MAX,
            rate if rate >= 1.0 => 0,
            rate => (chance.ln() / (1.0 - rate).ln()) as u64,
        };
    }
}

impl Session {
    /// Notes a statement that begins with its own text, if its turn has come.
    pub(crate) fn sample(&mut self, kind: &'static str, sql: &str) {
        if self.sampling.is_due() {
            self.note(kind, sql, Vec::new(), None);
        }
    }

    /// Notes the statement of a portal that begins, if its turn has come.
    pub(crate) fn sample_portal(&mut self, name: &str) {
        if !self.sampling.is_due() {
            return;
        }
        let Some(portal) = self.portals.get(name).filter(|portal| !portal.started) else { return };
        let plan = Arc::clone(&portal.plan);
        let params = portal.params.iter().zip(&plan.params).take(PARAMS_MAX);
        let params = params.map(|(value, ty)| self.param_text(value, ty)).collect();
        let prepared = self.statements.iter().find(|(_, prepared)| Arc::ptr_eq(&prepared.plan, &plan));
        let prepared = prepared.map(|(name, _)| name.clone());
        // The empty statement has no name.
        if !plan.name.is_empty() {
            self.note(plan.name, &plan.text, params, prepared);
        }
    }

    fn param_text(&self, value: &Datum<'_>, ty: &PgType) -> Option<String> {
        if value.is_null() {
            return None;
        }
        let mut text = Vec::new();
        encode_text(ty, value, self.encode_options(), &mut text);
        Some(cut(&String::from_utf8_lossy(&text), PARAM_BYTES_MAX).to_owned())
    }

    fn note(&mut self, kind: &'static str, sql: &str, params: Vec<Option<String>>, prepared: Option<String>) {
        let max = self.shared.published.load().state.system().get_real("statement_logging_max_sample_rate");
        let sample_rate = self.sampling.rate.min(max.unwrap_or(0.0));
        if rand::rng().random::<f64>() * self.sampling.rate >= sample_rate {
            return;
        }
        // What has no end by now will have none.
        self.end(Outcome::Aborted);
        let vars = &self.vars;
        let name = |name: &str| vars.get(name).unwrap_or_default().to_owned();
        let sql = if may_have_password(kind, sql) { kind } else { cut(sql, SQL_BYTES_MAX) };
        let (role, connected_us) = self.who();
        let execution = Arc::new(Execution {
            id: uuid(),
            sample_rate,
            session: self.backend_key().0,
            role: role.id,
            user: role.name.clone(),
            application_names: [self.sampling.first_application_name.clone(), name("application_name")],
            connected_us,
            cluster: vars.cluster().to_owned(),
            database: vars.database().to_owned(),
            search_path: vars.search_path().to_vec(),
            isolation: name("transaction_isolation"),
            params,
            prepared,
            sql: Arc::from(sql),
            kind,
            began_us: self.now_us(),
            read: OnceLock::new(),
            end: OnceLock::new(),
        });
        self.shared.history.push(Arc::clone(&execution));
        self.sampling.current = Some(execution);
    }

    /// Notes how the query is answered that is being run.
    #[inline]
    pub(crate) fn note_read(&self, strategy: Strategy, as_of: Timestamp) {
        if let Some(execution) = &self.sampling.current {
            // A statement that reads more than once began with this.
            let _again = execution.read.set((strategy, as_of));
        }
    }

    /// The statement's last message but ReadyForQuery was written. `result` are the rows and bytes of one that returns rows.
    #[inline]
    pub fn succeeded(&mut self, result: Option<(usize, usize)>) {
        if self.sampling.current.is_some() {
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            self.end(Outcome::Success(result.map(|(rows, bytes)| (count(rows), count(bytes)))));
        }
    }

    /// The statement was answered with an error.
    pub fn failed(&mut self, sqlstate: SqlState, message: &dyn Display) {
        if self.sampling.current.is_some() {
            let message = cut(&message.to_string(), PARAM_BYTES_MAX).to_owned();
            self.end(match sqlstate {
                SqlState::QUERY_CANCELED => Outcome::Canceled(message),
                _ => Outcome::Error(message),
            });
        }
    }

    pub(crate) fn end(&mut self, outcome: Outcome) {
        if let Some(execution) = self.sampling.current.take() {
            let us = self.now_us();
            let _again = execution.end.set(End { us, outcome });
        }
    }
}

/// Whether a statement's text may have a password in it.
fn may_have_password(kind: &str, sql: &str) -> bool {
    let words = |text: &str| text.to_ascii_lowercase();
    kind.ends_with("ROLE") && words(sql).contains("password")
}

/// A text, or as much of it as fits.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A random UUID.
fn uuid() -> [u8; 16] {
    let mut id: [u8; 16] = rand::rng().random();
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    id
}

#[cfg(test)]
mod tests {
    use super::{Sampling, cut, may_have_password};

    fn noted(rate: f64, statements: u32) -> u32 {
        let mut sampling = Sampling::new("");
        sampling.set_rate(rate);
        (0..statements).map(|_| u32::from(sampling.is_due())).sum()
    }

    #[test]
    fn as_many_are_noted_as_the_rate_says() {
        assert_eq!(noted(0.0, 10_000), 0);
        assert_eq!(noted(1.0, 10_000), 10_000);
        // Seven standard deviations and more.
        let half = noted(0.5, 10_000);
        assert!((4_600..5_400).contains(&half), "{half}");
        let few = noted(0.01, 100_000);
        assert!((750..1_250).contains(&few), "{few}");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 3), "");
    }

    #[test]
    fn passwords_are_expected_where_they_may_be() {
        assert!(may_have_password("ALTER ROLE", "alter user x PassWord 'y'"));
        assert!(!may_have_password("ALTER ROLE", "ALTER ROLE x SET a = 1"));
        assert!(!may_have_password("SELECT", "SELECT 'password'"));
    }
}
