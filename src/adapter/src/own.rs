//! What a session shows of itself: its prepared statements and cursors, for `pg_prepared_statements` and `pg_cursors`.
//!
//! A statement is handed them as they are when it begins. The statements are shared with it and not copied: who prepares another
//! while some statement still has them makes the copy.

use crate::bindable::Portal;
use crate::plan_cache::{Made, Prepared};
use crate::session::Session;
use ahash::AHashMap;
use engine::session::{Cursor, OwnState, PreparedStatement};
use std::sync::Arc;

/// A session's own, as one statement sees it.
struct Own {
    statements: Arc<AHashMap<String, Prepared>>,
    cursors: Vec<Cursor>,
}

impl Session {
    /// What is made now under this name, by a statement or by a message.
    pub(crate) fn made(&self, name: &str, by: Option<&Arc<str>>) -> Made {
        Made { at_us: (!name.is_empty()).then(|| self.now_us()), by: by.map(Arc::clone) }
    }

    /// Keeps a prepared statement.
    pub(crate) fn keep(&mut self, name: &str, prepared: Prepared) {
        Arc::make_mut(&mut self.statements).insert(name.to_owned(), prepared);
    }

    /// Forgets a prepared statement. Whether there was one.
    pub(crate) fn forget(&mut self, name: &str) -> bool {
        self.statements.contains_key(name) && Arc::make_mut(&mut self.statements).remove(name).is_some()
    }

    /// What a query that begins now sees.
    pub(crate) fn own(&self, now_us: i64) -> Arc<dyn OwnState> {
        let cursor = |(name, portal): (&String, &Portal)| Cursor {
            name: name.clone(),
            text: Arc::clone(portal.made.by.as_ref().unwrap_or(&portal.plan.text)),
            is_holdable: portal.hold,
            is_binary: portal.is_binary,
            created_us: portal.made.at_us.unwrap_or(now_us),
        };
        Arc::new(Own { statements: Arc::clone(&self.statements), cursors: self.portals.iter().map(cursor).collect() })
    }
}

impl OwnState for Own {
    fn prepared_statements(&self) -> Vec<PreparedStatement> {
        let named = self.statements.iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, prepared)| shown(name, prepared)).collect()
    }

    fn cursors(&self) -> Vec<Cursor> {
        self.cursors.clone()
    }
}

fn shown(name: &str, prepared: &Prepared) -> PreparedStatement {
    let text = prepared.made.by.as_ref().unwrap_or(&prepared.plan.text);
    PreparedStatement {
        name: name.to_owned(),
        text: Arc::clone(text),
        prepared_us: prepared.made.at_us.unwrap_or_default(),
        params: prepared.plan.params.clone(),
        from_sql: prepared.made.by.is_some(),
    }
}
