//! Temporary tables: tables in a schema of the session's own, `pg_temp`, which is searched first and goes with the session.
//!
//! They are tables like others: durable, indexed, seen in the catalog, by others too, who may not touch them. What a server that
//! ended in another way has left of them is dropped when it starts ([`catalog::Catalog::open`]).
//!
//! # Invariants
//! - The schema is in the session's own plan-cache keys once it may be there: no other session shares a plan that found a
//!   temporary table, or found none.

use crate::error::AdapterError;
use crate::session::Session;
use catalog::transact::Op;
use committer::request::{CatalogChange, Committed};
use sql::names::temporary_schema;
use sql::plan::CatalogView;

impl Session {
    /// From now on names are looked up among temporary tables as well.
    pub(crate) fn note_temporary(&mut self) {
        if !self.settings.has_temporary {
            self.settings.has_temporary = true;
            self.settings_changed();
        }
    }

    /// Drops the session's temporary tables.
    pub(crate) async fn drop_temporary(&mut self) -> Result<(), AdapterError> {
        if !self.settings.has_temporary {
            return Ok(());
        }
        loop {
            let published = self.shared.published.load_full();
            let state = &published.state;
            let database = state.database_by_name(self.settings.vars.database());
            let schema = database
                .and_then(|database| state.schema_by_name(Some(database.id), &temporary_schema(self.backend_key().0)));
            let Some(schema) = schema else { return Ok(()) };
            let change = CatalogChange::new(state.revision(), vec![Op::DropTemporary(schema.id)]);
            match self.shared.committer.change_catalog(change).await? {
                Committed::Conflict => {}
                Committed::At | Committed::Repeated | Committed::Violates(_) => return Ok(()),
            }
        }
    }
}
