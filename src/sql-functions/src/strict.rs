//! Functions and operators that give NULL where an argument is NULL.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::ExprSimplifyResult;

/// NULL, if one of a strict function's arguments is a constant NULL: its others are not evaluated then, as in PostgreSQL. Not if a call of
/// constants is among those, which has failed: PostgreSQL evaluates these before.
pub(crate) fn null_of_null(args: Vec<Expr>, data_type: &DataType) -> Result<ExprSimplifyResult> {
    let is_null = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if value.is_null());
    let has_failed = |arg: &Expr| arg.exists(|expr| Ok(is_constant_call(expr))).unwrap_or(true);
    let is_folded = args.iter().any(is_null) && !args.iter().any(has_failed);
    Ok(match is_folded {
        true => ExprSimplifyResult::Simplified(Expr::Literal(ScalarValue::try_from(data_type)?, None)),
        false => ExprSimplifyResult::Original(args),
    })
}

/// Whether an expression is a call without anything that is known only when it runs: the optimizer has tried to evaluate it.
fn is_constant_call(expr: &Expr) -> bool {
    let is_open = |expr: &Expr| {
        matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        )
    };
    let is_call = matches!(expr, Expr::ScalarFunction(_) | Expr::BinaryExpr(_) | Expr::Cast(_));
    is_call && !expr.is_volatile() && !expr.exists(|expr| Ok(is_open(expr))).unwrap_or(true)
}
