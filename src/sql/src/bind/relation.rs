//! What stands in FROM, bound.

use crate::bind::scope::Scope;
use datafusion::logical_expr::LogicalPlan;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast::ObjectName;

/// A relation or join: its plan and what its columns are called.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The plan.
    pub plan: LogicalPlan,
    /// Its columns.
    pub scope: Scope,
}

/// One call of a function in FROM.
pub struct TableCall<'a> {
    /// Its name.
    pub name: &'a ObjectName,
    /// Its arguments.
    pub args: Vec<&'a sqlparser::ast::Expr>,
}

/// Checks the number of column aliases.
pub(super) fn aliased_columns(table: &str, available: usize, aliases: &[String]) -> Result<(), SqlError> {
    if aliases.len() <= available {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        format!("table \"{table}\" has {available} columns available but {} columns specified", aliases.len()),
    ))
}
