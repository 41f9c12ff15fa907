//! Leaves out sorts whose rows are sorted again.
//!
//! Not to save work alone: where what is below delivers rows in the order that the outer of two sorts asks for, DataFusion's
//! physical planner drops both, and the outer one's LIMIT with them.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;

/// Rewrites a plan and its subqueries.
pub fn drop_inner_sorts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Sort(mut sort) => {
            let input = unsorted(Arc::unwrap_or_clone(sort.input))?;
            sort.input = Arc::new(input.data);
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), input.transformed))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// A plan without the order that it gives its rows; what counts rows in their order keeps it.
fn unsorted(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            let input = unsorted(Arc::unwrap_or_clone(sort.input))?;
            Ok(Transformed::yes(input.data))
        }
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => {
            plan.map_children(unsorted)
        }
        other => Ok(Transformed::no(other)),
    }
}
