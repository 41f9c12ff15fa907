//! Makes correlated scalar subqueries joinable: DataFusion turns only those into joins whose correlation is equality.
//!
//! - A column of the outer query that is equal to an inner one is replaced by it in the other conditions, which are then no
//!   longer correlated: `c.oid = a.x AND a.x <> t.y` becomes `c.oid = a.x AND c.oid <> t.y`.
//! - A condition on the outer query alone is taken out of a subquery that collects rows: `(SELECT … WHERE a.flag AND …)`
//!   becomes `CASE WHEN a.flag THEN (SELECT … WHERE …) END`.

use crate::error::SqlError;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Subquery, when};
use std::sync::Arc;

/// Rewrites the scalar subqueries of a plan.
pub fn simplify(plan: LogicalPlan) -> std::result::Result<LogicalPlan, SqlError> {
    let rewritten =
        plan.transform_up_with_subqueries(|plan| plan.map_expressions(|expr| expr.transform_up(subquery)))?;
    Ok(rewritten.data)
}

fn subquery(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(Transformed::no(expr)) };
    let collects = collects_rows(&subquery.subquery);
    let mut outer = Vec::new();
    let plan = subquery.subquery.as_ref().clone().transform_down(|plan| {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let conjuncts = substitute(split_conjunction_owned(filter.predicate));
        let (taken, kept): (Vec<Expr>, Vec<Expr>) =
            conjuncts.into_iter().partition(|expr| collects && is_outer_alone(expr));
        outer.extend(taken);
        Ok(Transformed::yes(match conjunction(kept) {
            Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?),
            None => filter.input.as_ref().clone(),
        }))
    })?;
    let rewritten = Expr::ScalarSubquery(Subquery {
        outer_ref_columns: plan.data.all_out_ref_exprs(),
        subquery: Arc::new(plan.data),
        ..subquery
    });
    let Some(condition) = conjunction(outer) else { return Ok(Transformed::yes(rewritten)) };
    let condition = condition.transform_up(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Transformed::yes(when(condition.data, rewritten).end()?))
}

/// Whether the plan gives one list of rows, which is NULL when there are none.
fn collects_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => collects_rows(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => collects_rows(&alias.input),
        LogicalPlan::Aggregate(aggregate) => {
            let is_list = |expr: &Expr| match expr.clone().unalias() {
                Expr::AggregateFunction(call) => call.func.name() == "array_agg",
                _ => false,
            };
            aggregate.group_expr.is_empty() && aggregate.aggr_expr.iter().all(is_list)
        }
        _ => false,
    }
}

/// Replaces outer columns by the inner columns that they are equal to, except in those equalities.
fn substitute(conjuncts: Vec<Expr>) -> Vec<Expr> {
    let equal: Vec<(Expr, Expr)> = conjuncts.iter().filter_map(equality).collect();
    let replace = |expr: Expr| {
        if equality(&expr).is_some() || is_outer_alone(&expr) {
            return expr;
        }
        let replaced = expr.clone().transform_up(|node| match equal.iter().find(|(outer, _)| *outer == node) {
            Some((_, inner)) => Ok(Transformed::yes(inner.clone())),
            None => Ok(Transformed::no(node)),
        });
        replaced.map_or(expr, |replaced| replaced.data)
    };
    conjuncts.into_iter().map(replace).collect()
}

/// The outer and the inner column of an equality between two such.
fn equality(expr: &Expr) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return None };
    match (left.as_ref(), right.as_ref()) {
        (outer @ Expr::OuterReferenceColumn(..), inner @ Expr::Column(_))
        | (inner @ Expr::Column(_), outer @ Expr::OuterReferenceColumn(..)) => Some((outer.clone(), inner.clone())),
        _ => None,
    }
}

/// Whether an expression refers to the outer query and to nothing of the inner one.
fn is_outer_alone(expr: &Expr) -> bool {
    let exists = |test: fn(&Expr) -> bool| expr.exists(|expr| Ok(test(expr))).unwrap_or(true);
    exists(|expr| matches!(expr, Expr::OuterReferenceColumn(..)))
        && !exists(|expr| {
            matches!(expr, Expr::Column(_) | Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))
        })
}
