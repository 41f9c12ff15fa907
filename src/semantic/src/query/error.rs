//! What is wrong with a query, in words that Cube's users know.

use std::fmt;

/// A query that cannot be answered as it is written: its sender's mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError(String);

impl QueryError {
    pub fn invalid(message: impl Into<String>) -> QueryError {
        QueryError(message.into())
    }

    /// A query whose form is not right.
    pub fn form(message: impl fmt::Display) -> QueryError {
        QueryError(format!("Invalid query format: {message}"))
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}
