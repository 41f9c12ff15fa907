//! WITH of tables, indexes and constraints: how they are stored.

use crate::parser::cursor::Cursor;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::Token;

/// How a table is stored.
#[derive(Default)]
pub(super) struct Storage {
    /// `KEY INDEX`, unless nothing was said of it.
    pub(super) key_index: Option<bool>,
}

/// How and for how long the rows of a table are kept.
pub(super) fn parse_storage(cursor: &mut Cursor<'_>) -> Result<Storage, SqlError> {
    let mut storage = Storage::default();
    if cursor.peek("WITH") && *cursor.token(1) == Token::LParen {
        cursor.advance();
        cursor.parenthesized(|cursor| {
            if cursor.eat(&["KEY", "INDEX"]) {
                storage.key_index = Some(cursor.switch()?);
                return Ok(());
            }
            parse_storage_parameter(cursor)
        })?;
    }
    // What becomes of the rows without it.
    let _keeps_rows = cursor.eat(&["ON", "COMMIT", "PRESERVE", "ROWS"]);
    Ok(storage)
}

/// How full pages are made, of which there are none: it asks for nothing.
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
