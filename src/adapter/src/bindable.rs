//! A prepared statement on its way to a portal.

use crate::description::RowDesc;
use crate::plan_cache::CachedPlan;
use repr::PgType;
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
