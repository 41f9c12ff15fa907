//! What the engine has to be told of a dialect of SQL.

use crate::error::SqlError;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use std::fmt;

/// A dialect whose plans an engine runs.
///
/// An engine serves several dialects: each is asked about every function and is given every plan, and leaves alone what is not its
/// own.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// Whether a call of the function may make much of little, or take long: few rows at a time are given to it.
    fn is_long(&self, function: &ScalarUDF) -> bool;

    /// Rewrites a plan whose subqueries have become joins, before the optimizer sees it.
    fn prepare(&self, plan: LogicalPlan) -> Result<LogicalPlan, SqlError>;
}

/// The dialects of an engine.
pub type Dialects = &'static [&'static dyn Dialect];
