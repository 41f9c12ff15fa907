//! A scalar subquery without rows is NULL, whatever its column was.
//!
//! Binding says so where the column is not nullable, by a function that gives what it is given. A column that could be NULL then
//! can be found never to be by the optimizer (`least('', '')` becomes a constant), and the engine would take its word. So it is said
//! again when nothing is folded any more.

use crate::error::SqlError;
use crate::nullable::nullable;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};
use std::sync::Arc;

/// The plan, in which every scalar subquery may be NULL.
pub(super) fn subqueries_or_null(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let mut has_changed = false;
    let changed = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::ScalarSubquery(subquery) if is_never_null(&subquery.subquery) => {
                    has_changed = true;
                    Ok(Transformed::yes(Expr::ScalarSubquery(or_null(subquery)?)))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        // Whoever reads a column that is nullable now has to know.
        match has_changed {
            true => Ok(Transformed::yes(node.data.recompute_schema()?)),
            false => Ok(node),
        }
    })?;
    Ok(changed.data)
}

fn is_never_null(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().any(|field| !field.is_nullable())
}

fn or_null(subquery: Subquery) -> Result<Subquery> {
    let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
    let (column, name) = (Expr::Column(Column::from((qualifier, field))), field.name().clone());
    let plan =
        LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([nullable(column).alias(name)])?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..subquery })
}
