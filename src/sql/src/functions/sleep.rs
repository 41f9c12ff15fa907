//! `pg_sleep`: the one function that waits. It holds up neither a thread nor a cancellation, as a body of the library would.
//!
//! The ad hoc engine awaits it, in a SELECT list or in WHERE; elsewhere it is refused.

use crate::engine::session::SessionInfo;
use crate::error::SqlError;
use arrow::array::{Array, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use repr::PgType;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The function, of seconds as `float8`; it gives `void`.
pub static PG_SLEEP: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    Arc::new(AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf())
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(PgType::Void.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(SqlError::unsupported("function pg_sleep here").into())
    }
}

impl AsyncScalarUDFImpl for Sleep {
    fn invoke_async_with_args<'s, 'f>(
        &'s self,
        args: ScalarFunctionArgs,
    ) -> Pin<Box<dyn Future<Output = Result<ColumnarValue>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let timer = SessionInfo::from_config(&args.config_options).and_then(|session| session.timer.clone());
            let timer = timer.ok_or_else(|| SqlError::unsupported("function pg_sleep here"))?;
            let seconds = ColumnarValue::values_to_arrays(&args.args)?;
            let rows = seconds.first().and_then(|seconds| seconds.as_any().downcast_ref::<Float64Array>());
            let rows = rows.ok_or_else(|| SqlError::internal("pg_sleep takes float8"))?;
            // Of a constant there is one, which each row waits for.
            let each = args.number_rows.checked_div(rows.len()).unwrap_or(0);
            for seconds in rows.iter().flatten() {
                for _ in 0..each {
                    // What is too long for a duration ends as little as that.
                    timer(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)).await;
                }
            }
            Ok(ColumnarValue::Array(arrow::array::new_null_array(&PgType::Void.data_type(), args.number_rows)))
        })
    }
}
