//! Postgres's SQL, as a dialect of the engine.

use crate::dates::compare_dates;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use engine::dialect::{Dialect, Dialects};
use engine::error::SqlError;
use sql_functions::row::is_long;

/// The dialect that this crate binds.
#[derive(Debug)]
pub struct Postgres;

impl Dialect for Postgres {
    fn is_long(&self, function: &ScalarUDF) -> bool {
        is_long(function)
    }

    fn prepare(&self, plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
        compare_dates(plan)
    }
}

/// An engine for it alone.
pub const DIALECTS: Dialects = &[&Postgres];
