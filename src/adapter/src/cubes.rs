//! What a door that speaks of cubes has to know of them beside their rows.

use crate::error::AdapterError;
use crate::session::Session;
use repr::Timestamp;
use semantic::model::Model;
use sql::names::{resolve_cube, unknown_relation};
use sql::plan::{CatalogView, ItemKind};
use sql_syntax::names::Name;
use std::sync::Arc;

impl Session {
    /// The model of the cube or view that queries of this session know by a name. Whether it may be read is said when it is. Errors: 42P01 if
    /// there is none.
    pub fn model_of(&self, cube: &str) -> Result<Arc<Model>, AdapterError> {
        let published = self.published();
        let state = published.state.as_ref();
        let found = resolve_cube(state, self.settings.info.scope(), cube);
        let Some(ItemKind::Cube(of)) = found.as_ref().map(|found| &found.kind) else {
            return Err(unknown_relation(&Name { parts: vec![cube.to_owned()] }).into());
        };
        match state.item(of.model).as_ref().map(|item| &item.kind) {
            Some(ItemKind::SemanticModel(def)) => Ok(Arc::clone(&def.model)),
            _ => Err(AdapterError::internal(format!("the model of \"{cube}\" is not there"))),
        }
    }

    /// What is asked from here on, up to the end of the transaction, is read at one time.
    pub fn read_together(&mut self) {
        self.transaction.is_together = true;
    }

    /// The time at which the transaction reads, once it has, in microseconds since the epoch; of a single statement nobody keeps it unless
    /// [`Session::read_together`] was said.
    pub fn reads_at(&self) -> Option<Timestamp> {
        self.transaction.held_ts()
    }

    /// The time of day, in microseconds since the epoch: what is relative in a query is relative to this.
    pub fn clock_us(&self) -> i64 {
        self.now_us()
    }
}
