//! Queries.

use super::resolver::Dependencies;
use super::{ItemRef, PlanContext, SelectPlan, ViewDef};
use crate::engine::Params;
use crate::error::SqlError;
use datafusion::sql::sqlparser::ast as sp;
use std::sync::Arc;

/// Plans a query for the context's role.
pub(super) fn plan_select(
    ctx: &PlanContext<'_>,
    query: &sp::Query,
    params: &mut Params,
) -> Result<SelectPlan, SqlError> {
    let dependencies = Dependencies::new();
    let planned = ctx.engine.plan_query(query, &dependencies.resolver(ctx), params)?;
    let logical = ctx.engine.optimize(planned.plan, ctx.session)?;
    Ok(SelectPlan { logical, desc: Arc::new(planned.desc), params: params.finish()?, depends_on: dependencies.all() })
}

/// Plans the query of a view, materialized or not, with the rights of its owner, as whoever maintains it needs it.
///
/// The plan's columns are the view's, in order. Errors with an internal error if `item` is no view.
pub fn plan_view(ctx: &PlanContext<'_>, item: &ItemRef) -> Result<SelectPlan, SqlError> {
    let view = item.view().ok_or_else(|| SqlError::internal(format!("{} is not a view", item.name)))?;
    let mut select = plan_view_def(&PlanContext { role: item.owner, ..*ctx }, view)?;
    select.desc = Arc::clone(&item.desc);
    Ok(select)
}

/// Plans the query of a view that need not exist yet, for the context's role and from tables alone. Its columns have the
/// names that the query gives them.
pub fn plan_view_def(ctx: &PlanContext<'_>, view: &ViewDef) -> Result<SelectPlan, SqlError> {
    let mut session = ctx.session.clone();
    session.database.clone_from(&view.database);
    session.search_path.clone_from(&view.search_path);
    let ctx = PlanContext { session: &session, from_tables: true, ..*ctx };
    let query = crate::parser::parse_query(&view.query)?;
    plan_select(&ctx, &query, &mut Params::none())
}
