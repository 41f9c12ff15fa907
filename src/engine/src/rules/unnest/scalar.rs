//! Scalar subqueries: the outer relation gets a column with their value.

use super::dependent::{Domain, default_of, or_default};
use super::keys::{inward, keys_of, plan_reads};
use super::pull::{through_alias, through_projection};
use super::{Result, Unnesting, columns, project};
use crate::error::SqlError;
use crate::rewrite::replace;
use datafusion::common::JoinType;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, lit, when};
use std::sync::Arc;

/// A subquery that is made of the one row of an aggregate over everything.
struct Aggregated {
    aggregate: Aggregate,
    /// Its columns, over those of the aggregate.
    values: Vec<Expr>,
    /// What HAVING asks of that row.
    conditions: Vec<Expr>,
}

impl Unnesting {
    /// Joins the value of a scalar subquery to the outer relation; gives what it is called there.
    pub(super) fn scalar(&mut self, plan: LogicalPlan, outer: &mut LogicalPlan) -> Result<Expr> {
        if let Some((mut values, condition)) = self.one_row(&plan, outer)? {
            let value = values.pop().ok_or_else(|| SqlError::internal("a scalar subquery has a column"))?;
            return Ok(match condition {
                None => value,
                Some(condition) => when(condition, value).end()?,
            });
        }
        // At most one row for each key, which is the binder's care.
        let (relation, value, conditions) = self.keyed_relation(plan, outer)?;
        self.join_to(outer, relation, conditions, JoinType::Left)?;
        Ok(value)
    }

    /// For a subquery of one row, or of one that passes a condition: joins what it is made of to the outer relation, and
    /// gives its columns and the condition there.
    pub(super) fn one_row(
        &mut self,
        plan: &LogicalPlan,
        outer: &mut LogicalPlan,
    ) -> Result<Option<(Vec<Expr>, Option<Expr>)>> {
        let Some(Aggregated { aggregate, values, conditions }) = aggregated(plan.clone())? else { return Ok(None) };
        let schema = Arc::clone(outer.schema());
        let width = aggregate.aggr_expr.len();
        let shown = columns(&LogicalPlan::Aggregate(aggregate.clone()));
        let defaults = aggregate.aggr_expr.iter().map(default_of).collect::<Result<Vec<_>>>()?;
        let aggregate = LogicalPlan::Aggregate(aggregate);
        let names = match plan_reads(&aggregate, &schema) {
            // One row for all.
            false => {
                let (relation, names) = self.aliased(aggregate, "scalar")?;
                *outer = LogicalPlanBuilder::from(std::mem::take(outer)).cross_join(relation)?.build()?;
                names
            }
            true => {
                let domain = Domain::new(keys_of(&aggregate, &schema)?, outer, &aggregate)?;
                let LogicalPlan::Aggregate(aggregate) = aggregate else { unreachable!("made above") };
                let keyed = self.grouped(aggregate, &domain)?;
                let mut exprs = keyed.keys.clone();
                exprs.extend(columns(&keyed.plan).split_off(keyed.plan.schema().fields().len() - width));
                let exprs = exprs.into_iter().enumerate().map(|(at, expr)| expr.alias(format!("c{at}"))).collect();
                let (relation, mut names) = self.aliased(project(keyed.plan, exprs)?, "scalar")?;
                let values = names.split_off(keyed.keys.len());
                let conditions = domain.condition(&names, keyed.never_null)?;
                self.join_to(outer, relation, conditions, JoinType::Left)?;
                let values = values.into_iter().zip(defaults).map(|(value, default)| or_default(value, default));
                values.collect::<Result<Vec<_>>>()?
            }
        };
        let map: Vec<(Expr, Expr)> = shown.into_iter().zip(names).collect();
        let turn = |expr: Expr| inward(replace(expr, &map)?, &schema);
        let values = values.into_iter().map(turn).collect::<Result<Vec<_>>>()?;
        let conditions = conditions.into_iter().map(turn).collect::<Result<Vec<_>>>()?;
        Ok(Some((values, conditions.into_iter().reduce(Expr::and))))
    }

    /// A subquery of one column with its keys, under a qualifier of its own; its column; and how it is joined.
    pub(super) fn keyed_relation(
        &mut self,
        plan: LogicalPlan,
        outer: &LogicalPlan,
    ) -> Result<(LogicalPlan, Expr, Vec<Expr>)> {
        let first = columns(&plan).into_iter().next().unwrap_or_else(|| lit(true));
        let keys = keys_of(&plan, outer.schema())?;
        if keys.is_empty() {
            let (relation, mut names) = self.aliased(project(plan, vec![first.alias("c0")])?, "subquery")?;
            return Ok((relation, names.remove(0), Vec::new()));
        }
        let domain = Domain::new(keys, outer, &plan)?;
        let keyed = self.keyed(plan, &domain)?;
        let exprs = keyed.keys.iter().cloned().chain([first]).enumerate();
        let exprs = exprs.map(|(at, expr)| expr.alias(format!("c{at}"))).collect();
        let (relation, mut names) = self.aliased(project(keyed.plan, exprs)?, "subquery")?;
        let value = names.pop().ok_or_else(|| SqlError::internal("a column was added"))?;
        let conditions = domain.condition(&names, keyed.never_null)?;
        Ok((relation, value, conditions))
    }
}

/// Looks through projections, aliases and HAVING for an aggregate without groups.
fn aggregated(plan: LogicalPlan) -> Result<Option<Aggregated>> {
    let mut exprs = columns(&plan);
    let width = exprs.len();
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
            LogicalPlan::Filter(filter) => {
                exprs.push(filter.predicate);
                Arc::unwrap_or_clone(filter.input)
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                let conditions = exprs.split_off(width);
                return Ok(Some(Aggregated { aggregate, values: exprs, conditions }));
            }
            _ => return Ok(None),
        };
    }
}
