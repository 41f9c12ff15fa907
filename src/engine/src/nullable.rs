//! A function that gives what it is given, and of which nobody knows that it is never NULL.

use crate::session::SessionInfo;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

static AS_IS: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(AsIs { signature: Signature::any(1, Volatility::Immutable) })));

/// The value itself, which may be NULL whatever it was before.
pub fn nullable(value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&AS_IS), vec![value]))
}

/// Not a PostgreSQL function: its name is no identifier.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsIs {
    signature: Signature,
}

impl ScalarUDFImpl for AsIs {
    fn name(&self) -> &'static str {
        "as_is"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args {
            [data_type] => Ok(data_type.clone()),
            _ => internal_err!("as_is takes one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => Ok(Arc::new(Field::new(self.name(), field.data_type().clone(), true))),
            _ => internal_err!("as_is takes one argument"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match inputs {
            [input] => Interval::make_unbounded(&input.data_type()),
            _ => internal_err!("as_is takes one argument"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // A constant in its place would be one that is not NULL. The error is seen by nobody: the call stays.
        if SessionInfo::from_config(&args.config_options).is_some_and(|session| session.folds) {
            return internal_err!("a call of as_is is not folded");
        }
        match args.args.pop() {
            Some(value) => Ok(value),
            None => internal_err!("as_is takes one argument"),
        }
    }
}
