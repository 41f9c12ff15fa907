//! Runs a declared function over Arrow columns, one row at a time, unless it has a body for columns.

use super::datum;
use super::lengths::{check_length, size};
use super::library::Overload;
use super::strict::null_of_null;
use crate::call::Call;
use crate::cast::CastContextInfo;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use engine::dialect::plan_has;
use engine::error::SqlError;
use engine::memory::claim;
use engine::value::{first_scalar, to_array};
use ore::memory::{Reservation, STEP};
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use std::sync::Arc;

/// How often a single value is there until somebody has it.
const CONSTANT_COPIES: usize = 5;

/// One declared function for given argument types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowFunction {
    overload: &'static Overload,
    args: Vec<PgType>,
    returns: PgType,
    data_type: DataType,
    column: usize,
    signature: Signature,
}

impl RowFunction {
    /// The function with its argument and result types.
    pub fn udf(overload: &'static Overload, args: &[PgType], returns: &PgType, data_type: &DataType) -> Arc<ScalarUDF> {
        RowFunction::column_udf(overload, 0, args, returns, data_type)
    }

    /// One column of a function whose rows have several.
    pub fn column_udf(
        overload: &'static Overload,
        column: usize,
        args: &[PgType],
        returns: &PgType,
        data_type: &DataType,
    ) -> Arc<ScalarUDF> {
        let volatility = if overload.session || overload.each { Volatility::Volatile } else { Volatility::Immutable };
        let signature =
            if args.is_empty() { Signature::nullary(volatility) } else { Signature::any(args.len(), volatility) };
        Arc::new(ScalarUDF::new_from_impl(RowFunction {
            overload,
            args: args.to_vec(),
            returns: returns.clone(),
            data_type: data_type.clone(),
            column,
            signature,
        }))
    }

    fn evaluate(&self, columns: &[Column], rows: usize, call: &Call<'_>) -> Result<ArrayRef, SqlError> {
        let overload = self.overload;
        let mut out = Vec::with_capacity(rows);
        let mut values = Vec::with_capacity(columns.len());
        let watched = call.session.filter(|_| overload.long);
        let share = watched.and_then(|session| session.memory.as_ref());
        // It is there twice before it is a column. A constant goes on from hand to hand.
        let copies = if rows == 1 { CONSTANT_COPIES } else { 2 };
        let (mut bytes, mut reserved) = (0, share.map(Reservation::empty));
        for row in 0..rows {
            if let Some(session) = watched {
                session.check_interrupts()?;
            }
            values.clear();
            for column in columns {
                values.push(datum(column.array.as_ref(), if column.is_scalar { 0 } else { row })?);
            }
            if overload.strict && values.iter().any(Datum::is_null) {
                out.push(Datum::Null);
                continue;
            }
            if overload.long && call.is_planning() {
                call.check_length(values.iter().map(size).sum())?;
            }
            let result = (overload.body)(call, &values)?;
            check_length(size(&result))?;
            if let Some(reserved) = &mut reserved {
                bytes += copies * usize::try_from(size(&result)).unwrap_or(0);
                if bytes >= STEP {
                    reserved.cover(bytes)?;
                }
            }
            out.push(result);
        }
        let array = to_array(&out, &self.data_type)?;
        if let Some(share) = share {
            claim(&array, share);
        }
        Ok(array)
    }
}

/// Whether a call gives another value each time it is evaluated.
pub fn gives_new_values(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    call.func.inner().downcast_ref::<RowFunction>().is_some_and(|function| function.overload.each)
}

/// Whether an expression calls what may make much of little, or take long.
pub fn has_long(expr: &Expr) -> bool {
    let is_call = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if is_long(&call.func));
    expr.exists(|expr| Ok(is_call(expr) || matches!(expr, Expr::HigherOrderFunction(_)))).unwrap_or(true)
}

/// Whether any expression of a plan does.
pub fn plan_has_long(plan: &LogicalPlan) -> bool {
    plan_has(plan, has_long)
}

/// Whether a call may make much of little, or take long.
pub fn is_long(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<RowFunction>().is_some_and(|function| function.overload.long)
}

struct Column {
    array: ArrayRef,
    is_scalar: bool,
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        &self.overload.name
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        // The types are part of the name, because casts do not show in the names of arguments.
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{}#{}.{}({})", self.name(), self.overload.id, self.column, args.join(",")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> DfResult<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.data_type.clone(), true)))
    }

    fn is_strict(&self) -> bool {
        self.overload.strict
    }

    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        if self.overload.strict { null_of_null(args, &self.data_type) } else { Ok(ExprSimplifyResult::Original(args)) }
    }

    fn evaluate_bounds(&self, _args: &[&Interval]) -> DfResult<Interval> {
        // Of the right type, without which comparisons of the result have no properties at all.
        Interval::make_unbounded(&self.data_type)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let context = CastContextInfo::running(&args.config_options);
        let session = context.session;
        let overload = self.overload;
        if overload.session && session.is_none() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("function {} is not supported here", overload.name),
            )
            .into());
        }
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let one = all_scalar && !overload.each;
        if let Some(body) = overload.column_body
            && let Some(array) = body(&args.args, &self.data_type)?
        {
            return Ok(ColumnarValue::Array(array));
        }
        let rows = if one { 1 } else { args.number_rows };
        let mut columns = Vec::with_capacity(args.args.len());
        for arg in args.args {
            columns.push(match arg {
                ColumnarValue::Array(array) => Column { array, is_scalar: false },
                ColumnarValue::Scalar(scalar) => Column { array: scalar.to_array()?, is_scalar: true },
            });
        }
        let call = Call {
            session,
            context: &context,
            args: &self.args,
            returns: &self.returns,
            name: &overload.name,
            column: self.column,
        };
        let array = self.evaluate(&columns, rows, &call)?;
        if one {
            return Ok(ColumnarValue::Scalar(first_scalar(&array)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}
