//! A prepared statement on its way to a portal, and the portal.

use crate::description::RowDesc;
use crate::plan_cache::{CachedPlan, Made};
use crate::response::Rows;
use repr::{Datum, PgType};
use std::sync::Arc;

/// A prepared statement whose parameters are to be given.
pub struct Bindable {
    pub(crate) plan: Arc<CachedPlan>,
    pub(crate) is_small: bool,
}

impl Bindable {
    /// The types of its parameters.
    pub fn params(&self) -> &[PgType] {
        &self.plan.params
    }

    /// The shape of its result, if it has one.
    pub fn desc(&self) -> Option<&Arc<RowDesc>> {
        self.plan.desc.as_ref()
    }
}

/// A bound statement, or a cursor.
pub(crate) struct Portal {
    pub(crate) plan: Arc<CachedPlan>,
    pub(crate) params: Vec<Datum<'static>>,
    /// Which of those that the client has bound it is; 0 of a cursor.
    pub(crate) number: u64,
    /// Rows of an execution that was suspended.
    pub(crate) rows: Option<Rows>,
    pub(crate) started: bool,
    /// Whether its parameters are small: if not, nothing that is done with them is short.
    pub(crate) is_small: bool,
    /// Made by DECLARE … WITH HOLD: survives its transaction.
    pub(crate) hold: bool,
    /// Made by DECLARE … BINARY CURSOR.
    pub(crate) is_binary: bool,
    /// How many savepoints there were when it was made: it goes with those that came before it.
    pub(crate) savepoints: usize,
    pub(crate) made: Made,
}
