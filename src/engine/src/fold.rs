//! Expressions compiled by themselves, and their values.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// Compiles an expression that the optimizer has not seen. It would have made CASE of COALESCE, which cannot run as it is.
pub(crate) fn physical(expr: Expr, schema: &DFSchema, props: &ExecutionProps) -> DfResult<Arc<dyn PhysicalExpr>> {
    let expr = expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(call) if call.name() == COALESCE => Ok(Transformed::yes(first_value(call.args)?)),
        other => Ok(Transformed::no(other)),
    })?;
    datafusion::physical_expr::create_physical_expr(&expr.data, schema, props, &Default::default())
}

/// DataFusion's name of the function.
const COALESCE: &str = "coalesce";

/// The first of the values that is not NULL.
fn first_value(mut values: Vec<Expr>) -> DfResult<Expr> {
    let Some(last) = values.pop() else { return Err(DataFusionError::Internal("no value to choose".to_owned())) };
    let mut whens = values.into_iter().map(|value| (value.clone().is_not_null(), value));
    let Some((condition, value)) = whens.next() else { return Ok(last) };
    let mut case = datafusion::logical_expr::when(condition, value);
    for (condition, value) in whens {
        case = case.when(condition, value);
    }
    case.otherwise(last)
}

/// The value of an expression of constants, if it is the same in every session: what reads one is volatile, or fails without.
pub fn fold(expr: &Expr) -> Option<ScalarValue> {
    let varies = |expr: &Expr| matches!(expr, Expr::Column(_) | Expr::Placeholder(_)) || expr.is_volatile_node();
    if expr.exists(|expr| Ok(varies(expr))).unwrap_or(true) {
        return None;
    }
    let physical = physical(expr.clone(), &DFSchema::empty(), &ExecutionProps::new()).ok()?;
    value_of(physical.as_ref()).ok()
}

/// The value of a compiled expression without columns.
pub(crate) fn value_of(expr: &dyn PhysicalExpr) -> DfResult<ScalarValue> {
    let empty = Arc::new(Schema::empty());
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(empty, vec![], &one)?;
    match expr.evaluate(&batch)? {
        ColumnarValue::Scalar(scalar) => Ok(scalar),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}
