//! EXISTS, IN, ANY and ALL: as conditions of a filter they are semi and anti joins; inside expressions, the outer relation
//! gets a column, the *mark*, that says whether there is a partner.
//!
//! A mark is true or false. `x IN (SELECT y …)` is NULL as well: where no y equals x but one of them, or x itself, is NULL.
//! Often it does not matter: to a filter, NULL is false, and under NOT it can be true. Where it does, further marks say
//! whether there is such a row.

use super::keys::{is_outer_in, plan_reads};
use super::pull::{Pulled, Use, is_plain};
use super::{Result, Unnesting, has_open_subquery, project};
use crate::error::SqlError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue};
use datafusion::logical_expr::expr::SetQuantifier;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, Filter, Join, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit,
    when,
};
use std::sync::Arc;

/// What may be done with a predicate that is NULL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    /// It counts as false.
    AsFalse,
    /// It counts as true.
    AsTrue,
    /// It is something else.
    Matters,
}

impl Null {
    fn negated(self) -> Null {
        match self {
            Null::AsFalse => Null::AsTrue,
            Null::AsTrue => Null::AsFalse,
            Null::Matters => Null::Matters,
        }
    }
}

/// A comparison with the rows of a subquery: `value op ANY (plan)`.
struct Any {
    value: Expr,
    op: Operator,
    plan: LogicalPlan,
}

impl Unnesting {
    /// A filter: first the conditions without subqueries, as PostgreSQL does; then what is a semi or anti join; then the rest.
    pub(super) fn filtered(&mut self, input: LogicalPlan, predicate: Expr) -> Result<LogicalPlan> {
        let conditions = split_conjunction_owned(predicate);
        let (open, plain): (Vec<_>, Vec<_>) = conditions.into_iter().partition(has_open_subquery);
        let mut plan = input;
        if let Some(predicate) = conjunction(plain) {
            plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
        }
        let mut rest = Vec::new();
        for condition in open {
            let condition = match self.semi_join(condition, &mut plan)? {
                None => continue,
                Some(condition) => condition,
            };
            rest.push(self.expr(condition, &mut plan, Null::AsFalse)?);
        }
        if let Some(predicate) = conjunction(rest) {
            plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
        }
        Ok(plan)
    }

    /// Makes a semi or anti join of a condition, or gives it back.
    fn semi_join(&mut self, condition: Expr, plan: &mut LogicalPlan) -> Result<Option<Expr>> {
        match condition {
            Expr::Not(inner) => match *inner {
                Expr::Exists(mut exists) => {
                    exists.negated = !exists.negated;
                    self.semi_join(Expr::Exists(exists), plan)
                }
                Expr::InSubquery(mut within) => {
                    within.negated = !within.negated;
                    self.semi_join(Expr::InSubquery(within), plan)
                }
                other => Ok(Some(Expr::Not(Box::new(other)))),
            },
            Expr::Exists(exists) => {
                let subquery = Arc::unwrap_or_clone(exists.subquery.subquery);
                if let Some((_, condition)) = self.one_row(&subquery, plan)? {
                    let exists_one = condition.map_or(lit(true), Expr::is_true);
                    return Ok(Some(if exists.negated { !exists_one } else { exists_one }));
                }
                let kind = if exists.negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
                let pulled = self.relation(subquery, plan, Use::Existence)?;
                self.join_to(plan, pulled.relation, pulled.conditions, kind)?;
                Ok(None)
            }
            Expr::InSubquery(within) if !has_open_subquery(&within.expr) => {
                let any =
                    Any { value: *within.expr, op: Operator::Eq, plan: Arc::unwrap_or_clone(within.subquery.subquery) };
                self.any_join(any, within.negated, plan)?;
                Ok(None)
            }
            Expr::SetComparison(comparison) if !has_open_subquery(&comparison.expr) => {
                let all = comparison.quantifier == SetQuantifier::All;
                let op = if all { negated(comparison.op)? } else { comparison.op };
                let plan_of_rows = Arc::unwrap_or_clone(comparison.subquery.subquery);
                self.any_join(Any { value: *comparison.expr, op, plan: plan_of_rows }, all, plan)?;
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    /// Keeps the rows for which `ANY` is true, or, negated, those for which it is false.
    fn any_join(&mut self, any: Any, negated: bool, plan: &mut LogicalPlan) -> Result<()> {
        let Any { value, op, plan: subquery } = any;
        let is_correlated = plan_reads(&subquery, plan.schema());
        let pulled = self.relation(subquery, plan, Use::Values)?;
        let may_be_null = value.nullable(plan.schema())? || pulled.value.nullable(&pulled.pairs(plan)?)?;
        let is_key = is_over(&value, plan.schema()) && is_over(&pulled.value, pulled.relation.schema());
        let mut conditions = pulled.conditions;
        let comparison = binary_expr(value, op, pulled.value);
        if !negated {
            conditions.push(comparison);
            return self.join_to(plan, pulled.relation, conditions, JoinType::LeftSemi);
        }
        if may_be_null && is_key && op == Operator::Eq && !is_correlated && conditions.is_empty() {
            // The form that both engines have an operator for.
            self.join_to(plan, pulled.relation, vec![comparison], JoinType::LeftAnti)?;
            if let LogicalPlan::Join(join) = std::mem::take(plan) {
                *plan = LogicalPlan::Join(Join { null_aware: true, ..join });
            }
            return Ok(());
        }
        conditions.push(if may_be_null { comparison.is_not_false() } else { comparison });
        self.join_to(plan, pulled.relation, conditions, JoinType::LeftAnti)
    }

    /// The rows of a subquery as a relation to join.
    fn relation(&mut self, subquery: LogicalPlan, outer: &LogicalPlan, usage: Use) -> Result<Pulled> {
        if let Some(pulled) = self.pull(subquery.clone(), outer.schema(), usage)? {
            return Ok(pulled);
        }
        let (relation, value, conditions) = self.keyed_relation(subquery, outer)?;
        Ok(Pulled { relation, conditions, value })
    }

    /// Joins a relation to another; a condition on either one alone filters it before, where that is the same.
    pub(super) fn join_to(
        &mut self,
        plan: &mut LogicalPlan,
        relation: LogicalPlan,
        conditions: Vec<Expr>,
        kind: JoinType,
    ) -> Result<()> {
        let schema = Arc::clone(relation.schema());
        let (local, mut conditions): (Vec<_>, Vec<_>) =
            conditions.into_iter().partition(|condition| is_over(condition, &schema));
        let relation = match conjunction(local) {
            Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(relation))?),
            None => relation,
        };
        let outer = Arc::clone(plan.schema());
        let has_own = conditions.iter().any(|condition| is_over(condition, &outer));
        if has_own && kind == JoinType::LeftAnti {
            // Such a condition says which rows may go, not which stay.
            let mark = self.mark(plan, relation, conditions)?;
            *plan = LogicalPlan::Filter(Filter::try_new(!mark, Arc::new(std::mem::take(plan)))?);
            return Ok(());
        }
        if has_own && kind == JoinType::LeftSemi {
            let own = conditions.extract_if(.., |condition| is_over(condition, &outer)).collect::<Vec<_>>();
            let predicate = conjunction(own).unwrap_or_else(|| lit(true));
            *plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(std::mem::take(plan)))?);
        }
        if conditions.is_empty() {
            conditions.push(lit(true));
        }
        let left = LogicalPlanBuilder::from(std::mem::take(plan));
        *plan = left.join_on(relation, kind, conditions)?.build()?;
        Ok(())
    }

    /// Rewrites an expression over a relation, to which it adds the columns that it needs.
    pub(super) fn expr(&mut self, expr: Expr, plan: &mut LogicalPlan, null: Null) -> Result<Expr> {
        if !has_open_subquery(&expr) {
            return Ok(expr);
        }
        match expr {
            Expr::ScalarSubquery(subquery) => self.scalar(Arc::unwrap_or_clone(subquery.subquery), plan),
            Expr::Exists(exists) => {
                let subquery = Arc::unwrap_or_clone(exists.subquery.subquery);
                let mark = match self.one_row(&subquery, plan)? {
                    Some((_, condition)) => condition.map_or(lit(true), Expr::is_true),
                    None => {
                        let pulled = self.relation(subquery, plan, Use::Existence)?;
                        self.mark(plan, pulled.relation, pulled.conditions)?
                    }
                };
                Ok(if exists.negated { !mark } else { mark })
            }
            Expr::InSubquery(within) => {
                let value = self.expr(*within.expr, plan, Null::Matters)?;
                let null = if within.negated { null.negated() } else { null };
                let any = Any { value, op: Operator::Eq, plan: Arc::unwrap_or_clone(within.subquery.subquery) };
                let any = self.any(any, plan, null)?;
                Ok(if within.negated { !any } else { any })
            }
            Expr::SetComparison(comparison) => {
                let value = self.expr(*comparison.expr, plan, Null::Matters)?;
                let subquery = Arc::unwrap_or_clone(comparison.subquery.subquery);
                match comparison.quantifier {
                    SetQuantifier::Any => self.any(Any { value, op: comparison.op, plan: subquery }, plan, null),
                    SetQuantifier::All => {
                        let op = negated(comparison.op)?;
                        Ok(!self.any(Any { value, op, plan: subquery }, plan, null.negated())?)
                    }
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let left = self.expr(*left, plan, null)?;
                let right = self.expr(*right, plan, null)?;
                Ok(binary_expr(left, op, right))
            }
            Expr::Not(inner) => Ok(!self.expr(*inner, plan, null.negated())?),
            Expr::IsTrue(inner) => Ok(self.expr(*inner, plan, Null::AsFalse)?.is_true()),
            Expr::IsNotTrue(inner) => Ok(self.expr(*inner, plan, Null::AsFalse)?.is_not_true()),
            Expr::IsFalse(inner) => Ok(self.expr(*inner, plan, Null::AsTrue)?.is_false()),
            Expr::IsNotFalse(inner) => Ok(self.expr(*inner, plan, Null::AsTrue)?.is_not_false()),
            Expr::Case(case) => self.case(case, plan),
            other => {
                let rewritten = other.map_children(|child| {
                    Ok(Transformed::yes(self.expr(child, plan, Null::Matters).map_err(super::external)?))
                })?;
                Ok(rewritten.data)
            }
        }
    }

    fn case(&mut self, case: Case, plan: &mut LogicalPlan) -> Result<Expr> {
        let mut rewrite = |expr: Box<Expr>, null| self.expr(*expr, plan, null).map(Box::new);
        let expr = case.expr.map(|expr| rewrite(expr, Null::Matters)).transpose()?;
        let tested = if expr.is_some() { Null::Matters } else { Null::AsFalse };
        let mut branches = Vec::new();
        for (condition, result) in case.when_then_expr {
            branches.push((rewrite(condition, tested)?, rewrite(result, Null::Matters)?));
        }
        let else_expr = case.else_expr.map(|expr| rewrite(expr, Null::Matters)).transpose()?;
        Ok(Expr::Case(Case { expr, when_then_expr: branches, else_expr }))
    }

    /// `value op ANY (rows)` as an expression of marks.
    fn any(&mut self, any: Any, plan: &mut LogicalPlan, null: Null) -> Result<Expr> {
        let Any { value, op, plan: subquery } = any;
        let value_may_be_null = value.nullable(plan.schema())?;
        let outer = plan.clone();
        let mut pulled = self.relation(subquery.clone(), &outer, Use::Values)?;
        let row_may_be_null = pulled.value.nullable(&pulled.pairs(&outer)?)?;
        pulled.conditions.push(binary_expr(value.clone(), op, pulled.value));
        let found = self.mark(plan, pulled.relation, pulled.conditions)?;
        if null == Null::AsFalse || !(value_may_be_null || row_may_be_null) {
            return Ok(found);
        }
        let mut open = Vec::new();
        if row_may_be_null {
            let mut pulled = self.relation(subquery.clone(), &outer, Use::Values)?;
            pulled.conditions.push(pulled.value.is_null());
            open.push(self.mark(plan, pulled.relation, pulled.conditions)?);
        }
        if value_may_be_null {
            let pulled = self.relation(subquery, &outer, Use::Values)?;
            let any_row = self.mark(plan, pulled.relation, pulled.conditions)?;
            open.push(value.is_null().and(any_row));
        }
        let open = open.into_iter().reduce(Expr::or).unwrap_or_else(|| lit(false));
        if null == Null::AsTrue {
            return Ok(found.or(open));
        }
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        Ok(when(found, lit(true)).when(open, unknown).otherwise(lit(false))?)
    }

    /// Adds a mark: whether a row has a partner under the conditions.
    fn mark(&mut self, plan: &mut LogicalPlan, relation: LogicalPlan, conditions: Vec<Expr>) -> Result<Expr> {
        let qualifier = match relation.schema().iter().next() {
            Some((Some(qualifier), _)) => qualifier.clone(),
            _ => return Err(SqlError::internal("what is marked by has a qualifier")),
        };
        // A condition on the outer row alone is no matter of partners.
        let schema = Arc::clone(plan.schema());
        let (own, conditions): (Vec<_>, Vec<_>) =
            conditions.into_iter().partition(|condition| is_over(condition, &schema));
        self.join_to(plan, relation, conditions, JoinType::LeftMark)?;
        let mark = Expr::Column(Column::new(Some(qualifier), "mark"));
        Ok(own.into_iter().fold(mark, |mark, condition| mark.and(condition.is_true())))
    }

    /// A plan without the columns that were added to it.
    pub(super) fn only(&self, plan: LogicalPlan, shown: Vec<Expr>) -> Result<LogicalPlan> {
        if plan.schema().fields().len() == shown.len() { Ok(plan) } else { project(plan, shown) }
    }
}

/// Whether an expression is made of columns of one relation.
fn is_over(expr: &Expr, relation: &DFSchema) -> bool {
    let columns = expr.column_refs();
    let is_of_it = !columns.is_empty() && columns.iter().all(|column| relation.has_column(column));
    is_of_it && is_plain(expr) && !is_outer_in(expr)
}

/// The comparison that is true where this one is false.
fn negated(op: Operator) -> Result<Operator> {
    Ok(match op {
        Operator::Eq => Operator::NotEq,
        Operator::NotEq => Operator::Eq,
        Operator::Lt => Operator::GtEq,
        Operator::LtEq => Operator::Gt,
        Operator::Gt => Operator::LtEq,
        Operator::GtEq => Operator::Lt,
        other => return Err(SqlError::unsupported(format!("{other} ALL"))),
    })
}
