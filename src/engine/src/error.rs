//! The one error of planning and running statements, as a client sees it, and the mapping of DataFusion's and Arrow's errors to it.
//!
//! Most errors are raised by a dialect's binder and functions and are already Postgres's; they travel through DataFusion
//! as `External` and are found again here. What DataFusion and Arrow raise by themselves is mapped by kind, and what
//! has no mapping is an internal error with its text.

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use pgrepr::error::PgReprError;
use repr::sqlstate::SqlState;
use std::io;

/// An error with everything that goes into an ErrorResponse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// The SQLSTATE.
    pub sqlstate: SqlState,
    /// One lower-case clause without a full stop, worded as Postgres does.
    pub message: String,
    /// More about what is wrong.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// 1-based position in characters within the statement's text.
    pub position: Option<usize>,
    /// 1-based line and column in the parsed text, where the position is not known yet; see [`SqlError::locate`].
    pub location: Option<(u64, u64)>,
}

/// A NOTICE that planning raises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanNotice {
    /// The SQLSTATE.
    pub sqlstate: SqlState,
    /// The message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
}

impl SqlError {
    /// An error with a code and a message.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> SqlError {
        SqlError { sqlstate, message: message.into(), detail: None, hint: None, position: None, location: None }
    }

    /// Valid SQL that we refuse by name.
    pub fn unsupported(what: impl AsRef<str>) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{} is not supported", what.as_ref()))
    }

    /// A bug.
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// Adds a detail.
    pub fn with_detail(mut self, detail: impl Into<String>) -> SqlError {
        self.detail = Some(detail.into());
        self
    }

    /// Adds a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a 1-based position in characters.
    pub fn with_position(mut self, position: usize) -> SqlError {
        self.position = Some(position);
        self
    }

    /// Adds the place of a token, unless the error has one or the token has none (line 0).
    pub fn at(mut self, span: sqlparser::tokenizer::Span) -> SqlError {
        if self.location.is_none() && self.position.is_none() && span.start.line > 0 {
            self.location = Some((span.start.line, span.start.column));
        }
        self
    }

    /// Turns a line and column into a position, given the text that was parsed.
    pub fn locate(mut self, text: &str) -> SqlError {
        if let (None, Some((line, column))) = (self.position, self.location) {
            let before: usize = text.split_inclusive('\n').take(line as usize - 1).map(|l| l.chars().count()).sum();
            self.position = Some(before + column as usize);
        }
        self
    }
}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}

impl From<SqlError> for ArrowError {
    fn from(error: SqlError) -> ArrowError {
        ArrowError::ExternalError(Box::new(error))
    }
}

impl From<ArrowError> for SqlError {
    fn from(error: ArrowError) -> SqlError {
        from_arrow(&error)
    }
}

impl From<PgReprError> for SqlError {
    fn from(error: PgReprError) -> SqlError {
        let PgReprError { sqlstate, message, detail, hint } = error;
        SqlError { detail, hint, ..SqlError::new(sqlstate, message) }
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> SqlError {
        from_datafusion(&error)
    }
}

fn from_datafusion(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => from_dyn(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(inner),
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(all) => match all.first() {
            Some(first) => from_datafusion(first),
            None => SqlError::internal("an empty collection of errors"),
        },
        DataFusionError::NotImplemented(message) => SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, clause(message)),
        DataFusionError::SchemaError(inner, _) => from_schema(inner),
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").with_detail(clause(message))
        }
        DataFusionError::IoError(inner) => from_io(inner),
        DataFusionError::Execution(message) | DataFusionError::Plan(message) | DataFusionError::Internal(message) => {
            from_message(message)
        }
        other => SqlError::internal(clause(&other.to_string())),
    }
}

/// What was put aside could not be written or read.
fn from_io(error: &io::Error) -> SqlError {
    let ours = error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>());
    ours.cloned().unwrap_or_else(|| {
        let is_full = error.kind() == io::ErrorKind::StorageFull;
        SqlError::new(if is_full { SqlState::DISK_FULL } else { SqlState::IO_ERROR }, error.to_string())
    })
}

fn from_dyn(error: &(dyn std::error::Error + Send + Sync + 'static)) -> SqlError {
    if let Some(ours) = error.downcast_ref::<SqlError>() {
        ours.clone()
    } else if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        from_datafusion(inner)
    } else if let Some(inner) = error.downcast_ref::<ArrowError>() {
        from_arrow(inner)
    } else {
        SqlError::internal(clause(&error.to_string()))
    }
}

fn from_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::ExternalError(inner) => from_dyn(inner.as_ref()),
        ArrowError::IoError(_, inner) => from_io(inner),
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
        }
        ArrowError::NotYetImplemented(message) => SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, clause(message)),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => {
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, clause(message))
        }
        ArrowError::InvalidArgumentError(message) if message.contains("too large to store in a Decimal") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
        }
        ArrowError::OffsetOverflowError(_) => {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a batch of values exceeds 2 GB")
        }
        other => from_message(&other.to_string()),
    }
}

fn from_schema(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::AmbiguousReference { field } => {
            SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{}\" is ambiguous", field.name))
        }
        SchemaError::FieldNotFound { field, .. } => {
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", field.name))
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
        }
    }
}

/// What DataFusion says only in words.
fn from_message(message: &str) -> SqlError {
    let has = |part: &str| message.contains(part);
    if has("returned more than one row") || has("more than one row returned") || has("produced more than one row") {
        SqlError::new(SqlState::CARDINALITY_VIOLATION, "more than one row returned by a subquery used as an expression")
    } else if has("OuterReferenceColumn") || has("orrelated") || has("outer_ref") {
        SqlError::unsupported("this correlated subquery").with_detail(clause(message))
    } else if has("Divide by zero") {
        SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
    } else if has("Overflow happened") || has("Arithmetic overflow") {
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
    } else if has("not implemented") || has("not supported") || has("Unsupported") || has("unsupported") {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, clause(message))
    } else {
        SqlError::internal(clause(message))
    }
}

/// The first line of a foreign message.
fn clause(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::SqlError;
    use datafusion::error::DataFusionError;
    use repr::sqlstate::SqlState;

    #[test]
    fn our_errors_survive_the_engine() {
        let ours = SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
        let wrapped = DataFusionError::Context("while running".to_owned(), Box::new(ours.clone().into()));
        assert_eq!(SqlError::from(wrapped), ours);
    }

    #[test]
    fn a_location_becomes_a_position() {
        let mut error = SqlError::new(SqlState::SYNTAX_ERROR, "x");
        error.location = Some((2, 3));
        assert_eq!(error.locate("ab\ncdef").position, Some(6));
    }
}
