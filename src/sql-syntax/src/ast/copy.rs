//! COPY: what it reads or writes, and how rows are written.

use super::Statement;
use crate::names::Name;

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

/// What is forced in one field of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForcedField {
    /// FORCE_QUOTE.
    pub quote: bool,
    /// FORCE_NOT_NULL.
    pub not_null: bool,
    /// FORCE_NULL.
    pub null: bool,
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

/// The wire format of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Tab separated with backslash escapes.
    Text,
    /// Comma separated with quotes.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// How COPY's rows are written, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Text, csv or binary; what follows is for the first two.
    pub format: CopyFormat,
    /// Between columns.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// Whether the first line holds the column names.
    pub header: bool,
    /// csv: around values.
    pub quote: u8,
    /// csv: before a quote inside a value.
    pub escape: u8,
    /// csv: what is forced in each field; planning knows the fields. Those beyond the last have nothing.
    pub fields: Vec<ForcedField>,
}

impl CopyOptions {
    /// Postgres's defaults for a format.
    pub fn new(format: CopyFormat) -> CopyOptions {
        let (delimiter, null) = match format {
            CopyFormat::Text => (b'\t', "\\N".to_owned()),
            CopyFormat::Csv => (b',', String::new()),
            CopyFormat::Binary => (0, String::new()),
        };
        CopyOptions { format, delimiter, null, header: false, quote: b'"', escape: b'"', fields: Vec::new() }
    }
}
