//! Guards conditions that can fail by the conditions written before them.

use crate::error::SqlError;
use crate::fold::fold;
use crate::temporal::{Comparison, reads_now};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Cast, Expr, Filter, LogicalPlan, Operator, Volatility, binary_expr, lit, when};

/// `A AND B`, where `B` can fail, becomes `A AND (CASE WHEN A THEN B::int ELSE 0 END) = 1` in every filter.
pub fn guard_filters(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let guarded = plan.transform_up_with_subqueries(|plan| {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let conjuncts = split(&filter.predicate);
        if conjuncts.len() < 2 || !conjuncts.iter().skip(1).any(|expr| is_guarded(expr)) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let conjuncts = guarded(conjuncts.into_iter().cloned().collect())?;
        let predicate = conjuncts.into_iter().reduce(Expr::and).unwrap_or_else(|| lit(true));
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
    })?;
    Ok(guarded.data)
}

/// Conjuncts, of which those that can fail are calculated only where those before them are true.
pub fn guarded(conjuncts: Vec<Expr>) -> datafusion::common::Result<Vec<Expr>> {
    let mut before: Option<Expr> = None;
    let mut all = Vec::with_capacity(conjuncts.len());
    for conjunct in conjuncts {
        all.push(match &before {
            Some(before) if is_guarded(&conjunct) => match Comparison::of(&conjunct) {
                // Remains one: where the conditions before it are not true, it is NULL.
                Some(Comparison { now, op, with }) => binary_expr(now, op, when(before.clone(), with).end()?),
                None => when(before.clone(), as_number(conjunct.clone())).otherwise(lit(0_i32))?.eq(lit(1_i32)),
            },
            _ => conjunct.clone(),
        });
        if !can_fail(&conjunct) && !has_subquery(&conjunct) && !reads_now(&conjunct) {
            before = Some(match before {
                Some(before) => before.and(conjunct),
                None => conjunct,
            });
        }
    }
    Ok(all)
}

/// Whether an expression's value depends on its inputs only.
pub fn is_immutable(expr: &Expr) -> bool {
    let is_mutable = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        _ => false,
    };
    !expr.exists(|expr| Ok(is_mutable(expr))).unwrap_or(true)
}

/// A boolean as a number: the optimizer takes a CASE of booleans apart into ANDs and ORs, which guard nothing.
pub fn as_number(expr: Expr) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), DataType::Int32))
}

fn is_guarded(expr: &Expr) -> bool {
    can_fail(expr) && !has_subquery(expr)
}

fn split(expr: &Expr) -> Vec<&Expr> {
    let (mut out, mut stack) = (Vec::new(), vec![expr]);
    while let Some(expr) = stack.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == Operator::And => {
                stack.push(&binary.right);
                stack.push(&binary.left);
            }
            other => out.push(other),
        }
    }
    out
}

/// Functions that have an answer for every argument, whoever's they are: a dialect calls by these names none that can fail.
/// Guarding them would only hide them from the index paths.
const TOTAL: [&str; 49] = [
    "coalesce",
    "like",
    "ilike",
    "bpchar_key",
    "bpchar_padded",
    "nonzero",
    "interval_key",
    "order_key",
    "lower",
    "upper",
    "initcap",
    "length",
    "char_length",
    "octet_length",
    "btrim",
    "ltrim",
    "rtrim",
    "left",
    "right",
    "reverse",
    "starts_with",
    "strpos",
    "position",
    "replace",
    "translate",
    "md5",
    "ascii",
    "concat",
    "text_concat",
    "quote_ident",
    "any=",
    "any<>",
    "all=",
    "all<>",
    "array_length",
    "cardinality",
    "array_position",
    "as_is",
    "now",
    "mz_now",
    "mz_now_timestamp",
    "mz_now_timestamptz",
    "current_date",
    "current_user",
    "session_user",
    "current_database",
    "->",
    "->>",
    "pg_table_is_visible",
];

/// Whether a function has an answer for every argument.
pub(crate) fn is_total(function: &str) -> bool {
    TOTAL.contains(&function)
}

/// Whether evaluating it may raise an error: arithmetic, casts and most functions may, unless they are of constants and do
/// not; comparisons may not.
pub fn can_fail(expr: &Expr) -> bool {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::ScalarFunction(call) => !is_total(call.name()) && (!is_immutable(expr) || fold(expr).is_none()),
            _ => false,
        })
    })
    .unwrap_or(true)
}

/// Whether an expression has a subquery, or belongs to one; guarded it could no longer become a join.
pub fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| {
        Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_))
            || matches!(expr, Expr::OuterReferenceColumn(..)))
    })
    .unwrap_or(true)
}
