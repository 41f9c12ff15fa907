//! What a session has prepared, and what it shows of that in `pg_prepared_statements` and `pg_cursors`.
//!
//! A statement is handed what is shown as it is when the statement begins. What is prepared is shared with it and not copied: who prepares
//! another while some statement still has it makes the copy.

use crate::bindable::Portal;
use crate::plan_cache::{Prepared, SessionPlans};
use ahash::AHashMap;
use engine::session::{Cursor, OwnState, PreparedStatement};
use sql::plan::lift::Lifted;
use std::sync::Arc;

/// A session's own, as one statement sees it.
struct Own {
    statements: Arc<AHashMap<String, Prepared>>,
    cursors: Vec<Cursor>,
}

/// What a session has prepared: statements and portals by name, and the plans that it keeps.
#[derive(Default)]
pub(crate) struct Statements {
    pub(crate) prepared: Arc<AHashMap<String, Prepared>>,
    pub(crate) portals: AHashMap<String, Portal>,
    /// How many were bound so far.
    bound: u64,
    pub(crate) plans: SessionPlans,
    /// The literals of the latest text: their room is used again.
    pub(crate) lifted: Lifted,
}

impl Statements {
    /// Keeps a prepared statement.
    pub(crate) fn keep(&mut self, name: &str, prepared: Prepared) {
        Arc::make_mut(&mut self.prepared).insert(name.to_owned(), prepared);
    }

    /// Forgets a prepared statement. Whether there was one.
    pub(crate) fn forget(&mut self, name: &str) -> bool {
        self.prepared.contains_key(name) && Arc::make_mut(&mut self.prepared).remove(name).is_some()
    }

    /// Forgets all prepared statements.
    pub(crate) fn forget_all(&mut self) {
        self.prepared = Arc::default();
    }

    /// Whether nothing has a name.
    pub(crate) fn has_no_names(&self) -> bool {
        self.prepared.keys().chain(self.portals.keys()).all(String::is_empty)
    }

    /// The number of the portal that is bound now.
    pub(crate) fn next_portal(&mut self) -> u64 {
        self.bound += 1;
        self.bound
    }

    /// A transaction has ended: its portals go.
    pub(crate) fn end_transaction(&mut self) {
        if !self.portals.is_empty() {
            self.portals.retain(|_, portal| portal.hold);
        }
    }

    /// What a query that begins now sees.
    pub(crate) fn shown(&self, now_us: i64) -> Arc<dyn OwnState> {
        let cursor = |(name, portal): (&String, &Portal)| Cursor {
            name: name.clone(),
            text: Arc::clone(portal.made.by.as_ref().unwrap_or(&portal.plan.text)),
            is_holdable: portal.hold,
            is_binary: portal.is_binary,
            created_us: portal.made.at_us.unwrap_or(now_us),
        };
        Arc::new(Own { statements: Arc::clone(&self.prepared), cursors: self.portals.iter().map(cursor).collect() })
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
