//! The keys of a subquery: what it reads of the query around it.

use super::Result;
use crate::rewrite::collect;
use crate::rules::guard::can_fail;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr};

/// Whether a plan refers to any outer query. Its own subqueries have been rewritten.
pub(super) fn has_outer(plan: &LogicalPlan) -> bool {
    plan.exists(|node| Ok(node.expressions().iter().any(is_outer_in))).unwrap_or(true)
}

/// Whether an expression refers to any outer query.
pub(super) fn is_outer_in(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..)))).unwrap_or(true)
}

/// Whether an expression reads a column of this outer relation.
pub(super) fn reads(expr: &Expr, outer: &DFSchema) -> bool {
    expr.exists(|expr| Ok(is_reference(expr, outer))).unwrap_or(true)
}

/// Whether a plan does.
pub(super) fn plan_reads(plan: &LogicalPlan, outer: &DFSchema) -> bool {
    plan.exists(|node| Ok(node.expressions().iter().any(|expr| reads(expr, outer)))).unwrap_or(true)
}

fn is_reference(expr: &Expr, outer: &DFSchema) -> bool {
    matches!(expr, Expr::OuterReferenceColumn(_, column) if outer.has_column(column))
}

/// What a plan reads of an outer relation, as it stands in the plan: the largest expressions over outer columns alone, so
/// that `outer.a::int8 = inner.b` has the key `outer.a::int8`, which `inner.b` can stand for; or the columns themselves if
/// those expressions have columns in common.
pub(super) fn keys_of(plan: &LogicalPlan, outer: &DFSchema) -> Result<Vec<Expr>> {
    let (mut keys, mut columns): (Vec<Expr>, Vec<Expr>) = (Vec::new(), Vec::new());
    plan.apply(|node| {
        for expr in node.expressions() {
            collect(&expr, &mut keys, |expr| is_key(expr, outer))?;
            collect(&expr, &mut columns, |expr| is_reference(expr, outer))?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut seen = 0;
    for key in &keys {
        let mut within = Vec::new();
        collect(key, &mut within, |expr| is_reference(expr, outer))?;
        seen += within.len();
    }
    Ok(if seen > columns.len() { columns } else { keys })
}

fn is_key(expr: &Expr, outer: &DFSchema) -> bool {
    let allowed = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => outer.has_column(column),
        // Not a whole conjunction, which filters take apart.
        Expr::BinaryExpr(binary) => binary.op != Operator::And,
        Expr::Cast(_) | Expr::Literal(..) | Expr::ScalarFunction(_) => !expr.is_volatile_node(),
        _ => false,
    };
    reads(expr, outer) && !can_fail(expr) && !expr.exists(|expr| Ok(!allowed(expr))).unwrap_or(true)
}

/// An expression of a subquery where the outer columns are at hand: references become columns.
pub(super) fn inward(expr: Expr, outer: &DFSchema) -> Result<Expr> {
    let turned = expr.transform_up(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) if outer.has_column(&column) => {
                Transformed::yes(Expr::Column(column))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(turned.data)
}

/// Whether calculating an expression for rows that nobody asks for is likely to fail. Sums and products overflow too, but so
/// rarely that the price of not calculating them is too high.
pub(super) fn is_risky(expr: &Expr) -> bool {
    let is_arithmetic = |name: &str| matches!(name, "+" | "-" | "*");
    let total = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => is_arithmetic(call.name()) || !can_fail_itself(expr),
        _ => true,
    };
    expr.exists(|expr| Ok(!total(expr))).unwrap_or(true)
}

/// Whether a call can fail, its arguments aside.
fn can_fail_itself(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    let mut bare = call.clone();
    bare.args = vec![Expr::Literal(datafusion::common::ScalarValue::Null, None); bare.args.len()];
    can_fail(&Expr::ScalarFunction(bare))
}

/// Whether any expression of a plan is.
pub(super) fn is_plan_risky(plan: &LogicalPlan) -> bool {
    plan.exists(|node| Ok(node.expressions().iter().any(is_risky))).unwrap_or(true)
}

/// Whether two keys are the same, which NULLs are to each other; equality says so where one of them cannot be NULL.
pub(super) fn same(left: Expr, right: Expr, never_null: bool) -> Expr {
    binary_expr(left, if never_null { Operator::Eq } else { Operator::IsNotDistinctFrom }, right)
}

/// The type of an expression over a plan.
pub(super) fn type_of(expr: &Expr, plan: &LogicalPlan) -> Result<DataType> {
    Ok(datafusion::logical_expr::ExprSchemable::get_type(expr, plan.schema().as_ref())?)
}
