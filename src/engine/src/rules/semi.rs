//! Semi joins go below inner joins.
//!
//! Which rows of an inner join have a partner elsewhere is decided by the side that the keys come from. Asked there, the question
//! is asked of that side's rows and not of all their pairs, and the join is one of what is left.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Projection};
use std::sync::Arc;

/// Rewrites an optimized plan and its subqueries.
pub fn push_down_semi_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_down_with_subqueries(|plan| match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::LeftSemi && join.filter.is_none() => {
            let keys: Vec<Expr> = join.on.iter().map(|(left, _)| left.clone()).collect();
            Ok(match pushed(&join.left, &keys, &join)? {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::no(LogicalPlan::Join(join)),
            })
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// The rows of `plan` that have a partner by these keys, if there is an inner join to go below.
fn pushed(plan: &LogicalPlan, keys: &[Expr], semi: &Join) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let below: Option<Vec<Expr>> = keys.iter().map(|key| through(key, projection)).collect();
            let Some(below) = below else { return Ok(None) };
            let Some(input) = pushed(&projection.input, &below, semi)? else { return Ok(None) };
            let schema = Arc::clone(&projection.schema);
            let projection = Projection::try_new_with_schema(projection.expr.clone(), Arc::new(input), schema)?;
            Ok(Some(LogicalPlan::Projection(projection)))
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let is_of = |side: &LogicalPlan| {
                keys.iter().all(|key| key.column_refs().iter().all(|column| side.schema().has_column(column)))
            };
            let mut join = join.clone();
            let side = match (is_of(&join.left), is_of(&join.right)) {
                (true, false) => &mut join.left,
                (false, true) => &mut join.right,
                _ => return Ok(None),
            };
            let below = match pushed(side, keys, semi)? {
                Some(below) => below,
                None => with_partner(Arc::clone(side), keys, semi)?,
            };
            *side = Arc::new(below);
            Ok(Some(LogicalPlan::Join(join)))
        }
        _ => Ok(None),
    }
}

/// A key as it is below a projection, if it passes through.
fn through(key: &Expr, projection: &Projection) -> Option<Expr> {
    let Expr::Column(column) = key else { return None };
    let at = projection.schema.maybe_index_of_column(column)?;
    match projection.expr[at].clone().unalias_nested().data {
        below @ Expr::Column(_) => Some(below),
        _ => None,
    }
}

/// The semi join of other rows.
fn with_partner(left: Arc<LogicalPlan>, keys: &[Expr], semi: &Join) -> Result<LogicalPlan> {
    let on = keys.iter().cloned().zip(semi.on.iter().map(|(_, right)| right.clone())).collect();
    let join = Join::try_new(
        left,
        Arc::clone(&semi.right),
        on,
        None,
        JoinType::LeftSemi,
        semi.join_constraint,
        semi.null_equality,
        semi.null_aware,
    )?;
    Ok(LogicalPlan::Join(join))
}
