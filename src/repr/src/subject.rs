//! What of a table an error is about.

/// What of a table an error is about. Clients tell by it which constraint was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column or constraint.
    pub part: Part,
    /// Which of the rows that the statement adds, if one does not fit: COPY knows the line that it was in.
    pub row: Option<usize>,
}

/// A part of a table, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A column that is NOT NULL.
    Column(String),
    /// A PRIMARY KEY, UNIQUE or CHECK constraint.
    Constraint(String),
}
