//! AND and OR: bound along their chains, and calculated as Postgres does where an operand can fail.
//!
//! Postgres goes through the operands from left to right and stops when the answer is known, and users rely on it:
//! `b <> 0 AND a / b > 1`. DataFusion evaluates both sides over a whole batch. So an operand that can fail, and is not the
//! first, is calculated in a CASE on those before it. At the top of a filter this is left to the optimizer's guard
//! (`rules::guard`), which keeps the conjuncts apart.
//!
//! What every alternative of an OR asks for is asked for once: `(a AND b) OR (a AND c)` is `a AND (b OR c)`, also where NULLs
//! are. A condition between two relations is then a join's key, though it is written in each alternative.

use super::Binder;
use super::from::operator;
use super::scope::Clause;
use crate::bind::cx::Cx;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, Operator, lit, when};
use engine::error::SqlError;
use engine::rules::guard::{as_number, can_fail, has_subquery};
use repr::PgType;
use sql_functions::TypedExpr;
use sqlparser::ast::{self, BinaryOperator};

impl Binder<'_> {
    /// Binds a predicate; `what` names its clause in the error.
    pub fn condition(&mut self, expr: &ast::Expr, cx: &Cx<'_>, what: &str) -> Result<Expr, SqlError> {
        if !matches!(cx.clause, Clause::Where | Clause::JoinOn | Clause::Having) {
            return self.operand(expr, what, cx);
        }
        let conjuncts = operands(expr, &BinaryOperator::And);
        let what = if conjuncts.len() > 1 { "AND" } else { what };
        let mut bound = Vec::with_capacity(conjuncts.len());
        for conjunct in conjuncts {
            if let Some(found) = self.row_in_filter(conjunct, cx)? {
                bound.push(found);
                continue;
            }
            match operands(conjunct, &BinaryOperator::Or).as_slice() {
                [_] => bound.push(self.operand(conjunct, what, cx)?),
                alternatives => bound.extend(self.disjunction(alternatives, cx)?),
            }
        }
        Ok(balanced(bound, Operator::And))
    }

    /// Binds a chain of AND or of OR, whichever `expr` is, that is not the top of a filter.
    pub(super) fn logical(
        &mut self,
        expr: &ast::Expr,
        op: &BinaryOperator,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        let operands = operands(expr, op);
        let bound = match op {
            BinaryOperator::Or => in_turn(self.disjunction(&operands, cx)?, Operator::And)?,
            _ => {
                let all = operands.iter().map(|operand| self.operand(operand, "AND", cx));
                in_turn(all.collect::<Result<_, _>>()?, Operator::And)?
            }
        };
        Ok(TypedExpr::new(bound, PgType::Bool, DataType::Boolean))
    }

    /// Binds the alternatives of an OR. The result is a list of conjuncts.
    fn disjunction(&mut self, alternatives: &[&ast::Expr], cx: &Cx<'_>) -> Result<Vec<Expr>, SqlError> {
        let mut bound: Vec<Vec<Expr>> = Vec::with_capacity(alternatives.len());
        for alternative in alternatives {
            let conjuncts = match operands(alternative, &BinaryOperator::And).as_slice() {
                [_] => vec![self.operand(alternative, "OR", cx)?],
                conjuncts => {
                    let all = conjuncts.iter().map(|conjunct| self.operand(conjunct, "AND", cx));
                    all.collect::<Result<_, _>>()?
                }
            };
            bound.push(conjuncts);
        }
        let mut conjuncts = common(&mut bound);
        // If one asks for nothing else, the others' further conditions do not matter.
        if !bound.iter().any(Vec::is_empty) {
            let alternatives = bound.into_iter().map(|conjuncts| in_turn(conjuncts, Operator::And));
            conjuncts.push(in_turn(alternatives.collect::<Result<_, _>>()?, Operator::Or)?);
        }
        Ok(conjuncts)
    }

    fn operand(&mut self, expr: &ast::Expr, of: &str, cx: &Cx<'_>) -> Result<Expr, SqlError> {
        let typed = self.expr(expr, cx)?;
        Ok(self.boolean(typed, of, expr)?.expr)
    }
}

/// The operands of a chain of `op`, from left to right; what is not such a chain is its only one. Chains in parentheses are
/// part of it, as the operators are associative.
fn operands<'a>(expr: &'a ast::Expr, op: &BinaryOperator) -> Vec<&'a ast::Expr> {
    let (mut operands, mut stack) = (Vec::new(), vec![expr]);
    while let Some(expr) = stack.pop() {
        match without_parentheses(expr) {
            ast::Expr::BinaryOp { left, op: of, right } if of == op => stack.extend([right.as_ref(), left.as_ref()]),
            _ => operands.push(expr),
        }
    }
    operands
}

fn without_parentheses(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Takes what all alternatives ask for out of them. What can fail stays: in its place it may be not calculated at all.
fn common(alternatives: &mut [Vec<Expr>]) -> Vec<Expr> {
    let [first, others @ ..] = alternatives else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let is_common = |expr: &Expr| {
        others.iter().all(|conjuncts| conjuncts.contains(expr))
            && !can_fail(expr)
            && !has_subquery(expr)
            && !expr.is_volatile()
    };
    let common: Vec<Expr> = first.iter().filter(|expr| is_common(expr)).cloned().collect();
    for conjuncts in alternatives {
        conjuncts.retain(|expr| !common.contains(expr));
    }
    common
}

/// AND or OR whose later operands can fail: they are calculated only where the earlier ones leave the answer open.
fn in_turn(operands: Vec<Expr>, op: Operator) -> Result<Expr, SqlError> {
    let is_guarded = |expr: &Expr| can_fail(expr) && !contains_subquery(expr);
    if !operands.iter().skip(1).any(is_guarded) || operands.iter().any(contains_subquery) {
        return Ok(balanced(operands, op));
    }
    let mut operands = operands.into_iter();
    let mut result = operands.next().unwrap_or_default();
    for operand in operands {
        if !is_guarded(&operand) {
            result = operator(result, op, operand);
            continue;
        }
        let (open, decided) = match op {
            Operator::And => (result.clone().is_not_false(), 0_i32),
            _ => (result.clone().is_not_true(), 1_i32),
        };
        let both = as_number(operator(result, op, operand));
        result = when(open, both).otherwise(lit(decided))?.eq(lit(1_i32));
    }
    Ok(result)
}

fn contains_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| {
        Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)))
    })
    .unwrap_or(true)
}

/// A tree of least depth, so that later passes do not recurse along a spine.
pub fn balanced(mut exprs: Vec<Expr>, op: Operator) -> Expr {
    if exprs.len() <= 1 {
        return exprs.pop().unwrap_or_default();
    }
    if exprs.len() <= 8 {
        let mut exprs = exprs.into_iter();
        let first = exprs.next().unwrap_or_default();
        return exprs.fold(first, |left, right| operator(left, op, right));
    }
    let right = exprs.split_off(exprs.len() / 2);
    operator(balanced(exprs, op), op, balanced(right, op))
}
