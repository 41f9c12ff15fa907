//! `-0.0` and `0.0` are one value where rows are ordered, numbered and put into partitions.
//!
//! Arrow compares and groups floats as Postgres does, but sorts `-0.0` before `0.0`, and windows take for peers and for one
//! partition what a sort does. So floats are sorted by `x + 0.0`, in which there is one zero and all else is as it was.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Rewrites what the sorts, windows and ordered aggregates of a plan and its subqueries go by.
pub fn one_zero(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let schema = match &plan {
            LogicalPlan::Sort(sort) => Arc::clone(sort.input.schema()),
            LogicalPlan::Window(window) => Arc::clone(window.input.schema()),
            LogicalPlan::Aggregate(aggregate) => Arc::clone(aggregate.input.schema()),
            _ => return Ok(Transformed::no(plan)),
        };
        if let LogicalPlan::Sort(_) = plan {
            return plan.map_expressions(|key| sorted_by(key, &schema));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(|expr| called(expr, &schema))?.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(rewritten.data)
}

/// A call with the keys of its window or order rewritten.
fn called(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (partition_by, order_by) = match &mut expr {
        Expr::WindowFunction(call) => (&mut call.params.partition_by[..], &mut call.params.order_by),
        Expr::AggregateFunction(call) => (&mut [][..], &mut call.params.order_by),
        _ => return Ok(Transformed::no(expr)),
    };
    let mut changed = false;
    for key in partition_by.iter_mut().chain(order_by.iter_mut().map(|sort| &mut sort.expr)) {
        let rewritten = sorted_by(std::mem::take(key), schema)?;
        changed |= rewritten.transformed;
        *key = rewritten.data;
    }
    Ok(Transformed::new_transformed(expr, changed))
}

/// What values are sorted by, so that equal ones are peers.
fn sorted_by(key: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let zero = match ScalarValue::new_zero(&key.get_type(schema)?) {
        Ok(zero @ (ScalarValue::Float32(_) | ScalarValue::Float64(_))) => lit(zero),
        _ => return Ok(Transformed::no(key)),
    };
    // A plan may be optimised again, when its parameters are known.
    let is_done = matches!(&key, Expr::BinaryExpr(BinaryExpr { op: Operator::Plus, right, .. }) if **right == zero);
    Ok(if is_done { Transformed::no(key) } else { Transformed::yes(key + zero) })
}
