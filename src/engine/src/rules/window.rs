//! What the physical planner needs of window functions.
//!
//! - The keys of a partition are dropped from the order within it, of whose rows they are alike: the physical planner cannot
//!   plan some orders that begin with them. One key stays where nothing else would, because an order is more than its keys: it
//!   ends the frame at the current row.
//! - What sorts rows without columns gets a column: the engine's batches forget how many rows they have.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, lit};
use std::sync::Arc;

/// Drops the keys of partitions from the orders within.
pub fn drop_partition_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Window(_) => plan.map_expressions(|expr| expr.transform_up(shortened)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn shortened(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let params = &mut call.params;
    let (keys, rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut params.order_by).into_iter().partition(|sort| params.partition_by.contains(&sort.expr));
    let changed = !keys.is_empty();
    params.order_by = if rest.is_empty() { keys.into_iter().take(1).collect() } else { rest };
    Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed))
}

/// Gives the rows of every window, sort and ordered aggregate a column.
pub fn widen_empty_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let input = match &plan {
            LogicalPlan::Window(window) => &window.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(is_ordered) => &aggregate.input,
            _ => return Ok(Transformed::no(plan)),
        };
        if !input.schema().fields().is_empty() {
            return Ok(Transformed::no(plan));
        }
        let column = vec![lit(true).alias("__row")];
        let widened = LogicalPlan::Projection(Projection::try_new(column, Arc::clone(input))?);
        let shown =
            plan.schema().iter().map(|(q, field)| Expr::Column(Column::new(q.cloned(), field.name()))).collect();
        let plan = plan.with_new_exprs(plan.expressions(), vec![widened])?;
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(plan))?)))
    })?;
    Ok(rewritten.data)
}

fn is_ordered(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::AggregateFunction(call) if !call.params.order_by.is_empty())))
        .unwrap_or(true)
}
