//! A question to a cube: what an Aggregate node over a scan of it asks for, in terms of the cube's members.

use super::CubeScan;
use crate::bind::grouping::outer_columns;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use engine::error::SqlError;
use std::sync::Arc;

/// A grouped query over a cube. Its expressions are over the columns of the scan.
pub(super) struct Ask {
    pub(super) scan: CubeScan,
    /// The scan's qualifier.
    pub(super) qualifier: String,
    pub(super) keys: Vec<Expr>,
    pub(super) conditions: Vec<Expr>,
    /// Aggregates, each under its name.
    pub(super) calls: Vec<Expr>,
    /// The columns of the answer: keys, then calls.
    pub(super) schema: DFSchemaRef,
}

impl Ask {
    /// Whether it asks for `count(*)`.
    pub(super) fn counts_rows(&self) -> bool {
        self.calls.iter().any(|call| match call.clone().unalias() {
            Expr::AggregateFunction(call) => call.func.name() == "count" && is_of_rows(&call.params),
            _ => false,
        })
    }

    /// What a node asks of a cube; None if something else than projections and conditions stands between the two.
    ///
    /// Errors: 0A000 for grouping sets.
    pub(super) fn of(aggregate: &Aggregate) -> Result<Option<Ask>, SqlError> {
        let (mut keys, mut calls) = (aggregate.group_expr.clone(), aggregate.aggr_expr.clone());
        let mut conditions: Vec<Expr> = Vec::new();
        let mut plan = aggregate.input.as_ref();
        let (scan, qualifier) = loop {
            if let Some(scan) = CubeScan::of(plan) {
                let LogicalPlan::TableScan(node) = plan else { return Ok(None) };
                break (scan.clone(), node.table_name.table().to_owned());
            }
            let all = keys.iter_mut().chain(&mut calls).chain(&mut conditions);
            plan = match plan {
                LogicalPlan::Filter(filter) => {
                    conditions.push(filter.predicate.clone());
                    filter.input.as_ref()
                }
                LogicalPlan::Sort(sort) if sort.fetch.is_none() => sort.input.as_ref(),
                LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
                    for expr in all {
                        match below(std::mem::take(expr), plan)? {
                            Some(found) => *expr = found,
                            None => return Ok(None),
                        }
                    }
                    plan.inputs()[0]
                }
                _ => return Ok(None),
            };
        };
        if keys.iter().any(|key| matches!(key, Expr::GroupingSet(_))) {
            let hint = "Write a query for each of the groupings, and UNION ALL between them.";
            return Err(SqlError::unsupported("GROUPING SETS, ROLLUP or CUBE over a cube").with_hint(hint));
        }
        let schema = Arc::clone(&aggregate.schema);
        Ok(Some(Ask { scan, qualifier, keys, conditions, calls, schema }))
    }
}

/// Whether the arguments of `count` say nothing of a row: `*`, or a constant that is not NULL.
pub(super) fn is_of_rows(params: &AggregateFunctionParams) -> bool {
    let is_constant = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if !value.is_null());
    !params.distinct && params.args.iter().all(is_constant)
}

/// An expression over the columns of a Projection or SubqueryAlias as one over those of its input; None if a sub-query in it refers
/// to a column that is something else there.
fn below(expr: Expr, plan: &LogicalPlan) -> Result<Option<Expr>, SqlError> {
    let input = plan.inputs()[0];
    let value = |column: &Column| {
        let at = plan.schema().maybe_index_of_column(column)?;
        match plan {
            LogicalPlan::Projection(projection) => {
                projection.expr.get(at).map(|expr| expr.clone().unalias_nested().data)
            }
            _ => {
                let (qualifier, field) = input.schema().qualified_field(at);
                Some(Expr::Column(Column::new(qualifier.cloned(), field.name())))
            }
        }
    };
    let mut is_known = true;
    let replaced = expr.transform_down(|expr| {
        is_known &= outer_columns(&expr)
            .into_iter()
            .all(|column| value(column).is_none_or(|value| matches!(value, Expr::Column(same) if same == *column)));
        Ok(match &expr {
            Expr::Column(column) => match value(column) {
                Some(value) => Transformed::new(value, true, TreeNodeRecursion::Jump),
                None => Transformed::no(expr),
            },
            _ => Transformed::no(expr),
        })
    })?;
    Ok(is_known.then_some(replaced.data))
}

/// The columns in an expression, also those that its sub-queries refer to.
pub(super) fn columns_in(expr: &Expr) -> Vec<Column> {
    let mut found: Vec<Column> = Vec::new();
    expr.apply(|expr| {
        if let Expr::Column(column) = expr {
            found.push(column.clone());
        }
        found.extend(outer_columns(expr).into_iter().cloned());
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("the visitor does not fail");
    found
}
