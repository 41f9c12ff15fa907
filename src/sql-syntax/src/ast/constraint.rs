//! Constraints of tables.

use crate::names::Name;
use sqlparser::ast as sp;
use sqlparser::tokenizer::Span;

/// A constraint as CREATE TABLE or ALTER TABLE states it: of the table, or of a column, which is the same.
#[derive(Clone, Debug, PartialEq)]
pub struct TableConstraint {
    /// The name that the statement gives it.
    pub name: Option<String>,
    /// What it demands.
    pub spec: ConstraintSpec,
    /// When it is checked.
    pub deferral: Deferral,
    /// False for NOT VALID: rows that are there need not satisfy it.
    pub is_valid: bool,
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
    /// FOREIGN KEY, or REFERENCES of a column.
    Foreign(ForeignSpec),
}

/// FOREIGN KEY … REFERENCES.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignSpec {
    /// The columns.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub parent: Name,
    /// Columns of that; none for those of its primary key.
    pub referred: Vec<String>,
    /// MATCH FULL: all columns are NULL, or none is.
    pub is_full: bool,
    /// ON DELETE.
    pub on_delete: Action,
    /// ON UPDATE.
    pub on_update: Action,
}

/// What becomes of the rows that refer to one that goes, or gets another key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// They keep it from going, unless something else refers to nothing any more when the constraint is checked.
    #[default]
    NoAction,
    /// They keep it from going at once.
    Restrict,
    /// They go as well, or get the other key.
    Cascade,
    /// They refer to nothing.
    SetNull,
    /// They get the defaults of their columns.
    SetDefault,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 5] =
        [Action::NoAction, Action::Restrict, Action::Cascade, Action::SetNull, Action::SetDefault];

    /// As SQL has it.
    pub fn sql(self) -> &'static str {
        match self {
            Action::NoAction => "NO ACTION",
            Action::Restrict => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
            Action::SetDefault => "SET DEFAULT",
        }
    }
}

/// When a constraint is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// By each statement.
    #[default]
    Never,
    /// By each statement, unless a transaction says otherwise.
    Immediate,
    /// By COMMIT, unless a transaction says otherwise.
    Deferred,
}

/// SET CONSTRAINTS.
#[derive(Clone, Debug, PartialEq)]
pub struct SetConstraints {
    /// Which; `None` for ALL.
    pub names: Option<Vec<Name>>,
    /// DEFERRED or IMMEDIATE.
    pub to: Deferral,
}
