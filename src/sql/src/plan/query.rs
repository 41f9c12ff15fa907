//! Queries.

use super::resolver::{Dependencies, under_names};
use super::{ItemRef, PlanContext, SelectPlan, ViewDef};
use crate::bind::{self, Origin, Params, PlannedQuery};
use engine::error::SqlError;
use repr::RelationDesc;
use repr::sqlstate::SqlState;
use sqlparser::ast as sp;
use std::sync::Arc;

/// Plans a query for the context's role.
pub(super) fn plan_select(
    ctx: &PlanContext<'_>,
    query: &sp::Query,
    params: &mut Params,
) -> Result<SelectPlan, SqlError> {
    let dependencies = Dependencies::new();
    let planned = bind::plan_query(query, &dependencies.resolver(ctx), params)?;
    finish(ctx, planned, params, &dependencies)
}

/// Plans a query of the system's own, which nobody needs rights for.
pub(super) fn plan_trusted(
    ctx: &PlanContext<'_>,
    query: &sp::Query,
    params: &mut Params,
) -> Result<SelectPlan, SqlError> {
    let dependencies = Dependencies::new();
    let planned = bind::plan_query(query, &dependencies.trusted(ctx), params)?;
    finish(ctx, planned, params, &dependencies)
}

fn finish(
    ctx: &PlanContext<'_>,
    planned: PlannedQuery,
    params: &Params,
    dependencies: &Dependencies,
) -> Result<SelectPlan, SqlError> {
    let logical = ctx.engine.optimize(planned.plan, ctx.session)?;
    let origin = |origin: &Option<Origin>| origin.and_then(|(id, column)| ctx.column_origin(id, column));
    Ok(SelectPlan {
        logical,
        desc: Arc::new(planned.desc),
        origins: planned.origins.iter().map(origin).collect(),
        params: params.finish()?,
        depends_on: dependencies.all(),
        locks: dependencies.locks(),
        rights: dependencies.rights(),
    })
}

/// Plans the query of a view, materialized or not, as whoever maintains it needs it.
///
/// The plan's columns are the view's, in order. The rights to read what it reads were checked when it was created. Errors with an internal error if `item` is no view.
pub fn plan_view(ctx: &PlanContext<'_>, item: &ItemRef) -> Result<SelectPlan, SqlError> {
    let ctx = PlanContext { from_tables: true, ..*ctx };
    let dependencies = Dependencies::new();
    let planned = dependencies.trusted(&ctx).view(definition(item)?, item.owner)?;
    let select = finish(&ctx, planned, &Params::none(), &dependencies)?;
    Ok(SelectPlan { desc: Arc::clone(&item.desc), ..select })
}

/// The columns of a view over what it reads now, under the names that it was created with.
///
/// Errors: what it reads has changed so that the view cannot be bound, or has other columns or types.
pub fn describe_view(ctx: &PlanContext<'_>, item: &ItemRef) -> Result<RelationDesc, SqlError> {
    let ctx = PlanContext { from_tables: true, ..*ctx };
    let planned = Dependencies::new().trusted(&ctx).view(definition(item)?, item.owner)?;
    under_names(&planned.desc, &item.desc).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_TABLE_DEFINITION, format!("the columns of view {} would change", item.name))
    })
}

fn definition(item: &ItemRef) -> Result<&ViewDef, SqlError> {
    item.view().ok_or_else(|| SqlError::internal(format!("{} is not a view", item.name)))
}
