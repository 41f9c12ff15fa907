//! Functions that wait: `pg_sleep`, and those that take advisory locks. They hold up neither a thread nor a cancellation, as a
//! body of the library would.
//!
//! The ad hoc engine awaits them, in a SELECT list or in WHERE; elsewhere they are refused.

use super::library::Library;
use super::sequence::nextval_of;
use super::{advisory, datum, interval};
use crate::library::Choice;
use arrow::array::{Array, ArrayRef, StringViewBuilder};
use arrow::datatypes::DataType;
use chrono::Utc;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use engine::error::SqlError;
use engine::session::{LockLifetime, LockMode, SessionInfo, Waiting};
use repr::{Datum, PgType};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// What a call waits for; `None` if there is nothing that waits in this session.
type Body = fn(&SessionInfo, &[Datum<'_>]) -> Option<Waiting>;

/// The functions, all of which give `void`.
const FUNCTIONS: [(&str, &[&str], Body); 7] = [
    ("pg_sleep", &["float8"], |session, args| match args.first()? {
        Datum::Float8(seconds) => sleep(session, *seconds),
        _ => None,
    }),
    ("pg_sleep_for", &["interval"], |session, args| {
        let (months, days, us) = interval::parts(args.first()?);
        sleep(session, interval::total_us(months, days, us) as f64 / 1e6)
    }),
    ("pg_sleep_until", &["timestamptz"], |session, args| match args.first()? {
        Datum::Timestamp(at) => sleep(session, at.saturating_sub(Utc::now().timestamp_micros()) as f64 / 1e6),
        _ => None,
    }),
    ("pg_advisory_lock", &advisory::KEYS, |session, args| {
        advisory::lock(session, args, LockMode::Exclusive, LockLifetime::Session)
    }),
    ("pg_advisory_lock_shared", &advisory::KEYS, |session, args| {
        advisory::lock(session, args, LockMode::Share, LockLifetime::Session)
    }),
    ("pg_advisory_xact_lock", &advisory::KEYS, |session, args| {
        advisory::lock(session, args, LockMode::Exclusive, LockLifetime::Transaction)
    }),
    ("pg_advisory_xact_lock_shared", &advisory::KEYS, |session, args| {
        advisory::lock(session, args, LockMode::Share, LockLifetime::Transaction)
    }),
];

/// Declares the functions of this file. Where they are called as values, [`udf`] has them; elsewhere they are refused.
pub fn declare(library: &mut Library) {
    for (name, arguments, _) in FUNCTIONS {
        for types in arguments {
            library.add(&format!("{name}({types}) void !session !each"), |call, _| Err(refused(call.name)));
        }
    }
}

/// Whether a function is one of these.
pub fn is_waiting(name: &str) -> bool {
    FUNCTIONS.iter().any(|(function, ..)| *function == name)
}

/// The function that was chosen, which is one of these.
pub fn udf(choice: &Choice) -> Arc<ScalarUDF> {
    let types: Vec<DataType> = choice.args.iter().map(PgType::data_type).collect();
    let signature = Signature::exact(types, Volatility::Volatile);
    let function = WaitingFunction { name: choice.overload.name.clone(), signature };
    Arc::new(AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf())
}

/// Whether a query calls a function that may have to wait, one that takes values of a sequence among them, or that has to do with
/// locks, of which the end of its transaction must know.
pub fn query_waits(plan: &LogicalPlan) -> bool {
    let is_lock = |name: &str| name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_");
    let waits = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => {
            nextval_of(expr).is_some() || call.name() == "setval" || is_waiting(call.name()) || is_lock(call.name())
        }
        _ => false,
    };
    let mut found = false;
    let visited = plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(waits(expr)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found || visited.is_err()
}

fn refused(name: &str) -> SqlError {
    SqlError::unsupported(format!("function {name} here"))
}

fn sleep(session: &SessionInfo, seconds: f64) -> Option<Waiting> {
    let timer = session.timer.as_ref()?;
    // What is too long for a duration ends as little as that.
    let slept = timer(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
    Some(Box::pin(async move {
        slept.await;
        Ok(())
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WaitingFunction {
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for WaitingFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(PgType::Void.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(refused(&self.name).into())
    }
}

impl AsyncScalarUDFImpl for WaitingFunction {
    fn invoke_async_with_args<'s, 'f>(
        &'s self,
        args: ScalarFunctionArgs,
    ) -> Pin<Box<dyn Future<Output = Result<ColumnarValue>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let body = FUNCTIONS.iter().find(|(name, ..)| *name == self.name).map(|(_, _, body)| body);
            let session = SessionInfo::from_config(&args.config_options);
            let (Some(body), Some(session)) = (body, session) else { return Err(refused(&self.name).into()) };
            let columns = ColumnarValue::values_to_arrays(&args.args)?;
            let mut results = StringViewBuilder::with_capacity(args.number_rows);
            for row in 0..args.number_rows {
                let waiting = {
                    // Of a constant there is one, which each row waits for.
                    let at = |column: &ArrayRef| if column.len() == 1 { 0 } else { row };
                    let values = columns.iter().map(|column| datum(column.as_ref(), at(column)));
                    let values = values.collect::<std::result::Result<Vec<_>, SqlError>>()?;
                    if values.iter().any(Datum::is_null) {
                        results.append_null();
                        continue;
                    }
                    body(session, &values).ok_or_else(|| refused(&self.name))?
                };
                waiting.await?;
                results.append_value("");
            }
            Ok(ColumnarValue::Array(Arc::new(results.finish())))
        })
    }
}
