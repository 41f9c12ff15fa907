//! The defaults of columns to which a statement gives no value.

use crate::bind::{self, Params, TableResolver, coerce};
use crate::plan::dml::default_of;
use crate::plan::resolver::Dependencies;
use crate::plan::{ItemRef, PlanContext};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use engine::error::SqlError;

/// For each column that is not among `given`, its default, cast to its type.
pub(in crate::plan) fn default_exprs(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    given: &[usize],
) -> Result<Vec<(usize, Expr)>, SqlError> {
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    (0..table.desc.arity())
        .filter(|position| !given.contains(position))
        .map(|position| Ok((position, default_expr(ctx, table, position, &resolver)?)))
        .collect()
}

pub(super) fn default_expr(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    position: usize,
    resolver: &dyn TableResolver,
) -> Result<Expr, SqlError> {
    let column = &table.desc.columns[position];
    let Some(ast) = default_of(ctx, table, position)? else {
        return Ok(Expr::Literal(ScalarValue::try_from(&column.data_type)?, None));
    };
    let mut params = Params::none();
    let typed = bind::plan_expr(&ast, &DFSchema::empty(), &mut params, resolver)?;
    coerce::assign(typed, &column.ty, &column.name, &mut params, resolver)
}
