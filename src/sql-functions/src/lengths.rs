//! How long values may be.

use engine::error::SqlError;
use repr::Datum;
use repr::sqlstate::SqlState;

/// The longest text a function makes, as in Postgres.
const TEXT_BYTES_MAX: i64 = 1 << 30;

/// Error 54000 if no value may have so many bytes, as in PostgreSQL. What can make much of little asks before it does.
pub(crate) fn check_length(length: i64) -> Result<(), SqlError> {
    if length < TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(too_long())
}

/// 54000 of a value that nobody may have.
pub(crate) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

/// About how many bytes a value takes.
pub(crate) fn size(value: &Datum<'_>) -> i64 {
    match value {
        Datum::Text(text) => text.len() as i64,
        Datum::Bytes(bytes) => bytes.len() as i64,
        Datum::List(items) => items.iter().map(size).sum(),
        _ => 8,
    }
}
