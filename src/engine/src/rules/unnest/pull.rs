//! Subqueries of predicates whose references to the outer query are filters: the filters become a join's condition.

use super::keys::{inward, is_risky, plan_reads, reads};
use super::{Result, Unnesting, columns, project};
use crate::rewrite::replace;
use crate::rules::guard::guarded;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Distinct, Expr, Filter, LogicalPlan, Projection, SubqueryAlias, lit};
use std::sync::Arc;

/// A subquery as a relation and the condition under which a row of it belongs to an outer row.
pub(super) struct Pulled {
    /// Reads nothing of the outer relation.
    pub(super) relation: LogicalPlan,
    /// Over the outer relation's columns and those of `relation`.
    pub(super) conditions: Vec<Expr>,
    /// The subquery's column, likewise.
    pub(super) value: Expr,
}

impl Pulled {
    /// The columns that the conditions and the value are over.
    pub(super) fn pairs(&self, outer: &LogicalPlan) -> Result<DFSchema> {
        Ok(outer.schema().join(self.relation.schema())?)
    }
}

/// What a subquery's rows are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Whether there are any.
    Existence,
    /// Their values.
    Values,
}

impl Unnesting {
    /// Pulls the filters out of a subquery, if that is all that refers to the outer relation.
    pub(super) fn pull(&mut self, plan: LogicalPlan, outer: &DFSchema, usage: Use) -> Result<Option<Pulled>> {
        // The value first, then conditions, all over the columns of `plan`.
        let Some(value) = columns(&plan).into_iter().next() else { return Ok(None) };
        let mut exprs = vec![value];
        let mut plan = plan;
        loop {
            plan = match plan {
                LogicalPlan::Projection(projection) => {
                    exprs = through_projection(exprs, &projection)?;
                    Arc::unwrap_or_clone(projection.input)
                }
                LogicalPlan::SubqueryAlias(alias) => {
                    exprs = through_alias(exprs, &alias)?;
                    Arc::unwrap_or_clone(alias.input)
                }
                LogicalPlan::Sort(sort) if sort.fetch.is_none() => Arc::unwrap_or_clone(sort.input),
                LogicalPlan::Distinct(Distinct::All(input)) => Arc::unwrap_or_clone(input),
                // Of rows that no condition is left for.
                LogicalPlan::Limit(limit) if usage == Use::Existence && exprs.len() == 1 && keeps_one(&limit) => {
                    Arc::unwrap_or_clone(limit.input)
                }
                LogicalPlan::Filter(filter) => {
                    let inner = split_conjunction_owned(filter.predicate);
                    exprs.splice(1..1, inner);
                    Arc::unwrap_or_clone(filter.input)
                }
                other => {
                    plan = other;
                    break;
                }
            };
        }
        if plan_reads(&plan, outer) {
            return Ok(None);
        }
        let conditions = exprs.split_off(1);
        let value = exprs.remove(0);
        // What is likely to fail waits until the conditions before it are known to hold.
        let first = conditions.iter().position(|condition| reads(condition, outer)).unwrap_or(conditions.len());
        let waits = conditions.iter().skip(first).any(is_risky);
        let is_local = |(at, condition): &(usize, Expr)| !(reads(condition, outer) || waits && *at > first);
        let (local, pulled): (Vec<_>, Vec<_>) = conditions.into_iter().enumerate().partition(is_local);
        let local = local.into_iter().map(|(_, condition)| condition);
        if let Some(predicate) = conjunction(local) {
            plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
        }
        let pulled: Vec<Expr> = pulled.into_iter().map(|(_, condition)| condition).collect();
        let mut pulled = self.exposed(plan, pulled, value, outer)?;
        if waits {
            pulled.conditions = guarded(pulled.conditions)?;
        }
        Ok(Some(pulled))
    }

    /// Gives the relation a qualifier of its own, and to join only the value and the columns that are read.
    fn exposed(&mut self, plan: LogicalPlan, conditions: Vec<Expr>, value: Expr, outer: &DFSchema) -> Result<Pulled> {
        let mut read: Vec<Expr> = Vec::new();
        // As a column, so that what compares it has one to compare, whatever it may be simplified to.
        let is_column = !reads(&value, outer);
        let others = if is_column { None } else { Some(&value) };
        for expr in conditions.iter().chain(others) {
            for column in expr.column_refs() {
                let column = Expr::Column(column.clone());
                if !read.contains(&column) {
                    read.push(column);
                }
            }
        }
        // In an order that does not depend on hashing.
        read.sort_by_key(|column| column.to_string());
        if is_column {
            read.push(value.clone());
        }
        if read.is_empty() {
            read.push(lit(true));
        }
        let exposed = read.iter().enumerate().map(|(at, expr)| expr.clone().alias(format!("c{at}"))).collect();
        let (relation, mut names) = self.aliased(project(plan, exposed)?, "subquery")?;
        let shown = if is_column { names.pop() } else { None };
        let map: Vec<(Expr, Expr)> = read.into_iter().zip(names).collect();
        let turn = |expr: Expr| inward(replace(expr, &map)?, outer);
        let conditions = conditions.into_iter().map(turn).collect::<Result<Vec<_>>>()?;
        let value = match shown {
            Some(shown) => shown,
            None => turn(value)?,
        };
        Ok(Pulled { relation, conditions, value })
    }
}

/// Expressions over a projection's output, over its input.
pub(super) fn through_projection(exprs: Vec<Expr>, projection: &Projection) -> Result<Vec<Expr>> {
    let output = projection.schema.iter();
    let map: Vec<(Expr, Expr)> = output
        .zip(&projection.expr)
        .map(|((qualifier, field), expr)| {
            (Expr::Column(Column::new(qualifier.cloned(), field.name())), expr.clone().unalias())
        })
        .collect();
    Ok(exprs.into_iter().map(|expr| replace(expr, &map)).collect::<datafusion::error::Result<_>>()?)
}

/// Expressions over an alias, over what is aliased.
pub(super) fn through_alias(exprs: Vec<Expr>, alias: &SubqueryAlias) -> Result<Vec<Expr>> {
    let output =
        alias.schema.iter().map(|(qualifier, field)| Expr::Column(Column::new(qualifier.cloned(), field.name())));
    let map: Vec<(Expr, Expr)> = output.zip(columns(&alias.input)).collect();
    Ok(exprs.into_iter().map(|expr| replace(expr, &map)).collect::<datafusion::error::Result<_>>()?)
}

fn keeps_one(limit: &datafusion::logical_expr::Limit) -> bool {
    let constant = |expr: &Option<Box<Expr>>| match expr.as_deref() {
        None => Some(None),
        Some(Expr::Literal(ScalarValue::Int64(Some(count)), _)) => Some(Some(*count)),
        Some(_) => None,
    };
    matches!(constant(&limit.skip), Some(None | Some(0)))
        && matches!(constant(&limit.fetch), Some(None) | Some(Some(1..)))
}

/// Whether an expression is free of subqueries.
pub(super) fn is_plain(expr: &Expr) -> bool {
    !expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_)))).unwrap_or(true)
}
