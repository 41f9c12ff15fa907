//! Functions and operators that give NULL where an argument is NULL.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::ExprSimplifyResult;

/// NULL, if one of a strict function's arguments is a constant NULL: its others are not evaluated then, as in PostgreSQL.
pub(super) fn null_of_null(args: Vec<Expr>, data_type: &DataType) -> Result<ExprSimplifyResult> {
    let is_null = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if value.is_null());
    Ok(match args.iter().any(is_null) {
        true => ExprSimplifyResult::Simplified(Expr::Literal(ScalarValue::try_from(data_type)?, None)),
        false => ExprSimplifyResult::Original(args),
    })
}
