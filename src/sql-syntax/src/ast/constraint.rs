//! Constraints of tables.

use sqlparser::ast as sp;
use sqlparser::tokenizer::Span;

/// A constraint as CREATE TABLE or ALTER TABLE states it: of the table, or of a column, which is the same.
#[derive(Clone, Debug, PartialEq)]
pub struct TableConstraint {
    /// The name that the statement gives it.
    pub name: Option<String>,
    /// What it demands.
    pub spec: ConstraintSpec,
    /// Where it stands in the text.
    pub span: Span,
}

/// What a constraint demands.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstraintSpec {
    /// PRIMARY KEY or UNIQUE.
    Key {
        /// PRIMARY KEY.
        primary: bool,
        /// Its columns.
        columns: Vec<String>,
    },
    /// CHECK.
    Check(Box<sp::Expr>),
}
