//! COPY: what it reads or writes, and what is forced.

use super::Statement;
use crate::names::Name;
use pgrepr::copy::CopyOptions;

/// COPY.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// The table or query.
    pub source: CopySource,
    /// In or out.
    pub direction: CopyDirection,
    /// Format and its details.
    pub options: CopyOptions,
    /// csv: columns that are written or read in another way than their values say.
    pub forced: Vec<(Forced, ForcedColumns)>,
}

/// What is done whatever a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// FORCE_QUOTE: values are quoted.
    Quote,
    /// FORCE_NOT_NULL: what stands for NULL is a value.
    NotNull,
    /// FORCE_NULL: what stands for NULL is NULL when it is quoted, too.
    Null,
}

impl Forced {
    /// The option's name.
    pub fn name(self) -> &'static str {
        match self {
            Forced::Quote => "FORCE_QUOTE",
            Forced::NotNull => "FORCE_NOT_NULL",
            Forced::Null => "FORCE_NULL",
        }
    }
}

/// The columns that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForcedColumns {
    /// `*`.
    All,
    /// Each by its name.
    Named(Vec<String>),
}

/// What COPY reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// A table.
    Table {
        /// Which one.
        name: Name,
        /// The columns; empty means all.
        columns: Vec<String>,
    },
    /// COPY (query or SUBSCRIBE) TO.
    Query(Box<Statement>),
}

/// The direction of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// FROM STDIN.
    FromStdin,
    /// TO STDOUT.
    ToStdout,
}
