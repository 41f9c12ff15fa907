//! WITH of tables, indexes and constraints: how they are stored.

use crate::parser::cursor::Cursor;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::Token;

/// How and for how long the rows are kept: only what asks for nothing.
pub(super) fn parse_storage(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    if cursor.peek("WITH") && *cursor.token(1) == Token::LParen {
        cursor.advance();
        cursor.parenthesized(parse_storage_parameter)?;
    }
    // What becomes of the rows without it.
    let _keeps_rows = cursor.eat(&["ON", "COMMIT", "PRESERVE", "ROWS"]);
    Ok(())
}

/// How full pages are made, of which there are none: the only parameter of a table's storage that asks for nothing.
pub(super) fn parse_storage_parameter(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    let span = cursor.span();
    let name = cursor.ident()?;
    if name != "fillfactor" {
        return Err(SqlError::unsupported(format!("the storage parameter \"{name}\"")).at(span));
    }
    cursor.expect_token(&Token::Eq)?;
    let percent = cursor.unsigned()?;
    if (10..=100).contains(&percent) {
        return Ok(());
    }
    let message = format!("value {percent} out of bounds for option \"fillfactor\"");
    let detail = "Valid values are between \"10\" and \"100\".";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_detail(detail).at(span))
}
