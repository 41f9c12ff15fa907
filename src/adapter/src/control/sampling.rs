//! Which of its statements a session notes in the history, and how they end.

use crate::session::Session;
use catalog::builtin::history::{End, Execution, Outcome, Strategy};
use pgrepr::text::encode_text;
use rand::Rng;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, Timestamp};
use std::fmt::Display;
use std::sync::{Arc, OnceLock};

/// Of a longer statement, its beginning is kept.
const SQL_BYTES_MAX: usize = 64 << 10;
/// Of a longer parameter, its beginning.
const PARAM_BYTES_MAX: usize = 1 << 10;
/// Of more parameters, the first.
const PARAMS_MAX: usize = 64;

impl Session {
    /// Notes a statement that begins with its own text, if its turn has come.
    pub(crate) fn sample(&mut self, kind: &'static str, sql: &str) {
        if self.running.sampling.is_due() {
            self.note(kind, sql, Vec::new(), None);
        }
    }

    /// Notes the statement of a portal that begins, if its turn has come.
    pub(crate) fn sample_portal(&mut self, name: &str) {
        if !self.running.sampling.is_due() {
            return;
        }
        let Some(portal) = self.statements.portals.get(name).filter(|portal| !portal.started) else { return };
        let plan = Arc::clone(&portal.plan);
        let params = portal.params.iter().zip(&plan.params).take(PARAMS_MAX);
        let params = params.map(|(value, ty)| self.param_text(value, ty)).collect();
        let prepared = self.statements.prepared.iter().find(|(_, prepared)| Arc::ptr_eq(&prepared.plan, &plan));
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
        let sample_rate = self.running.sampling.rate.min(max.unwrap_or(0.0));
        if rand::rng().random::<f64>() * self.running.sampling.rate >= sample_rate {
            return;
        }
        // What has no end by now will have none.
        self.end(Outcome::Aborted);
        let vars = &self.settings.vars;
        let name = |name: &str| vars.get(name).unwrap_or_default().to_owned();
        let sql = if may_have_password(kind, sql) { kind } else { cut(sql, SQL_BYTES_MAX) };
        let (role, connected_us) = self.who();
        let execution = Arc::new(Execution {
            id: uuid(),
            sample_rate,
            session: self.backend_key().0,
            role: role.id,
            user: role.name.clone(),
            application_names: [self.running.sampling.first_application_name.clone(), name("application_name")],
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
        self.running.sampling.current = Some(execution);
    }

    /// Notes how the query is answered that is being run.
    #[inline]
    pub(crate) fn note_read(&self, strategy: Strategy, as_of: Timestamp) {
        if let Some(execution) = &self.running.sampling.current {
            // A statement that reads more than once began with this.
            let _again = execution.read.set((strategy, as_of));
        }
    }

    /// The statement's last message but ReadyForQuery was written. `result` are the rows and bytes of one that returns rows.
    #[inline]
    pub fn succeeded(&mut self, result: Option<(usize, usize)>) {
        if self.running.sampling.current.is_some() {
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            self.end(Outcome::Success(result.map(|(rows, bytes)| (count(rows), count(bytes)))));
        }
    }

    /// The statement was answered with an error.
    pub fn failed(&mut self, sqlstate: SqlState, message: &dyn Display) {
        if self.running.sampling.current.is_some() {
            let message = cut(&message.to_string(), PARAM_BYTES_MAX).to_owned();
            self.end(match sqlstate {
                SqlState::QUERY_CANCELED => Outcome::Canceled(message),
                _ => Outcome::Error(message),
            });
        }
    }

    pub(crate) fn end(&mut self, outcome: Outcome) {
        if let Some(execution) = self.running.sampling.current.take() {
            let us = self.now_us();
            let _again = execution.end.set(End { us, outcome });
        }
    }
}

/// Whether a statement may have a password or a secret in its text, which nobody is to see.
pub(crate) fn may_have_password(kind: &str, sql: &str) -> bool {
    let words = |text: &str| text.to_ascii_lowercase();
    kind.ends_with("SECRET") || kind.ends_with("ROLE") && words(sql).contains("password")
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
    use super::{cut, may_have_password};

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
        assert!(may_have_password("CREATE SECRET", "CREATE SECRET s AS 'x'"));
    }
}
