//! Statements whose plan the catalog has left behind while they ran: they have done nothing, and run again by a new plan.

use crate::error::AdapterError;
use crate::plan_cache::CachedPlan;
use crate::response::Response;
use crate::session::{Autocommit, Session};
use repr::Datum;
use std::sync::Arc;

impl Session {
    /// Runs a simple query by its cached plan. If the catalog changed under it, and the text is given, by the plan that it has
    /// then.
    pub(crate) async fn run_cached(
        &mut self,
        (plan, params): &(Arc<CachedPlan>, Vec<Datum<'static>>),
        text: Option<&str>,
    ) -> Result<Response, AdapterError> {
        let error = match self.run(plan, params, Autocommit::Yes).await {
            Err(error) if is_stale(&error) => error,
            result => return result,
        };
        match text.map(|text| self.cached(text)).transpose()?.flatten() {
            Some((plan, params)) => self.run(&plan, &params, Autocommit::Yes).await,
            None => Err(error),
        }
    }

    /// The plan that a prepared statement has now, if it takes the same parameters.
    pub(crate) fn renewed(&mut self, plan: &Arc<CachedPlan>) -> Option<Arc<CachedPlan>> {
        let mut prepared = self.statements.prepared.iter().filter(|(_, prepared)| Arc::ptr_eq(&prepared.plan, plan));
        let name = prepared.next()?.0.clone();
        self.revalidated(&name).ok().filter(|renewed| renewed.params == plan.params)
    }
}

/// Whether a statement failed only because the catalog changed after it was planned.
pub(crate) fn is_stale(error: &AdapterError) -> bool {
    matches!(error, AdapterError::Stale)
}
