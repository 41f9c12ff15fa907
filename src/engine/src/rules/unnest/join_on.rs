//! Joins: LATERAL, whose right side refers to the left one, and conditions with subqueries.

use super::dependent::Domain;
use super::keys::{keys_of, plan_reads, reads};
use super::predicate::Null;
use super::{Result, Unnesting, columns, has_open_subquery, project};
use crate::error::SqlError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator, Union, binary_expr, lit};
use std::sync::Arc;

impl Unnesting {
    pub(super) fn join(&mut self, join: Join) -> Result<LogicalPlan> {
        let shown = columns(&LogicalPlan::Join(join.clone()));
        let join = if plan_reads(&join.right, join.left.schema()) { self.lateral(join)? } else { join };
        if !join.filter.as_ref().is_some_and(has_open_subquery) {
            return self.only(LogicalPlan::Join(join), shown);
        }
        let joined = self.conditional(join)?;
        self.only(joined, shown)
    }

    /// A join whose right side is joined by its keys, which it has as columns then.
    fn lateral(&mut self, join: Join) -> Result<Join> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return Err(SqlError::unsupported("a LATERAL subquery in this kind of join"));
        }
        let domain = Domain::new(keys_of(&join.right, join.left.schema())?, &join.left, &join.right)?;
        let keyed = self.keyed(Arc::unwrap_or_clone(join.right), &domain)?;
        let mut conditions = domain.condition(&keyed.keys, keyed.never_null)?;
        conditions.extend(join.filter);
        let left = LogicalPlanBuilder::from(Arc::unwrap_or_clone(join.left));
        match left.join_on(keyed.plan, join.join_type, conditions)?.build()? {
            LogicalPlan::Join(join) => Ok(join),
            other => Err(SqlError::internal(format!("a join became {}", other.display()))),
        }
    }

    /// A join whose condition has subqueries.
    fn conditional(&mut self, join: Join) -> Result<LogicalPlan> {
        let (mut left, mut right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
        let shown: Vec<Expr> = columns(&left).into_iter().chain(columns(&right)).collect();
        let conditions = join.filter.map(split_conjunction_owned).unwrap_or_default();
        let (open, mut plain): (Vec<_>, Vec<_>) = conditions.into_iter().partition(has_open_subquery);
        if join.join_type == JoinType::Inner {
            plain.push(lit(true));
            let pairs = LogicalPlanBuilder::from(left).join_on(right, JoinType::Inner, plain)?.build()?;
            let predicate = conjunction(open).unwrap_or_else(|| lit(true));
            let filtered = self.filtered(pairs, predicate)?;
            return self.only(filtered, shown);
        }
        // A condition whose subqueries read one side only is one over a column more of that side.
        let mut mixed = Vec::new();
        for condition in open {
            match (subqueries_read(&condition, left.schema())?, subqueries_read(&condition, right.schema())?) {
                (true, true) => mixed.push(condition),
                (_, false) => plain.push(self.expr(condition, &mut left, Null::AsFalse)?),
                (false, true) => plain.push(self.expr(condition, &mut right, Null::AsFalse)?),
            }
        }
        if mixed.is_empty() {
            let joined = LogicalPlanBuilder::from(left).join_on(right, join.join_type, plain)?.build()?;
            return project(joined, shown);
        }
        plain.extend(mixed);
        self.by_pairs(left, right, join.join_type, plain, shown)
    }

    /// An outer join as its pairs and the rows without partner. Equal rows have the same partners, so a row without one is a
    /// row that is equal to none in a pair.
    fn by_pairs(
        &mut self,
        left: LogicalPlan,
        right: LogicalPlan,
        kind: JoinType,
        conditions: Vec<Expr>,
        shown: Vec<Expr>,
    ) -> Result<LogicalPlan> {
        let (lefts, rights) = (columns(&left), columns(&right));
        let pairs = LogicalPlanBuilder::from(left.clone()).cross_join(right.clone())?.build()?;
        let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
        let pairs = self.filtered(pairs, predicate)?;
        let pairs = project(pairs, lefts.iter().chain(&rights).cloned().collect())?;
        let mut parts = vec![pairs.clone()];
        if matches!(kind, JoinType::Left | JoinType::Full) {
            let lonely = self.without(left, &lefts, &pairs)?;
            parts.push(project(lonely, padded(&lefts, &rights, &pairs)?)?);
        }
        if matches!(kind, JoinType::Right | JoinType::Full) {
            let lonely = self.without(right, &rights, &pairs)?;
            let mut exprs = padded(&rights, &lefts, &pairs)?;
            exprs.rotate_left(rights.len());
            parts.push(project(lonely, exprs)?);
        }
        let parts: Vec<_> = parts
            .into_iter()
            .map(|part| project(part.clone(), columns(&part).into_iter().enumerate().map(numbered).collect()))
            .collect::<Result<_>>()?;
        let union = LogicalPlan::Union(Union::try_new_with_loose_types(parts.into_iter().map(Arc::new).collect())?);
        let all = columns(&union);
        let names = lefts.iter().chain(&rights).zip(all).map(|(name, column)| match name {
            Expr::Column(name) => column.alias_qualified(name.relation.clone(), name.name.clone()),
            _ => column,
        });
        project(project(union, names.collect())?, shown)
    }

    /// The rows of one side that are in no pair.
    fn without(&mut self, side: LogicalPlan, own: &[Expr], pairs: &LogicalPlan) -> Result<LogicalPlan> {
        let parts = project(pairs.clone(), own.iter().cloned().enumerate().map(numbered).collect())?;
        let (parts, columns) = self.aliased(parts, "pairs")?;
        let equal = own.iter().zip(columns).map(|(l, r)| binary_expr(l.clone(), Operator::IsNotDistinctFrom, r));
        Ok(LogicalPlanBuilder::from(side).join_on(parts, JoinType::LeftAnti, equal)?.build()?)
    }
}

fn numbered((at, column): (usize, Expr)) -> Expr {
    column.alias(format!("c{at}"))
}

/// The columns of one side and NULLs for those of the other, of which several may have one name.
fn padded(own: &[Expr], missing: &[Expr], pairs: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut exprs = own.to_vec();
    for (at, column) in missing.iter().enumerate() {
        let data_type = super::keys::type_of(column, pairs)?;
        exprs.push(Expr::Literal(ScalarValue::try_from(&data_type)?, None).alias(format!("null {at}")));
    }
    Ok(exprs)
}

/// Whether the subqueries of a condition, or what they are compared with, read a side of a join.
fn subqueries_read(condition: &Expr, side: &DFSchema) -> Result<bool> {
    let mut found = false;
    let names = |expr: &Expr| expr.column_refs().iter().any(|column| side.has_column(column));
    condition.apply(|expr| {
        let (subquery, compared) = match expr {
            Expr::ScalarSubquery(subquery) => (subquery, None),
            Expr::Exists(exists) => (&exists.subquery, None),
            Expr::InSubquery(within) => (&within.subquery, Some(&within.expr)),
            Expr::SetComparison(comparison) => (&comparison.subquery, Some(&comparison.expr)),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        found |= plan_reads(&subquery.subquery, side);
        found |= compared.is_some_and(|compared| names(compared) || reads(compared, side));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
