//! CREATE SECRET, and the value of a secret.

use super::cursor::Cursor;
use crate::ast::{CreateSecret, Secret, SecretValue, Statement};
use engine::error::SqlError;
use sqlparser::tokenizer::Token;

/// What follows CREATE SECRET.
pub(super) fn parse_create(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.name()?;
    Ok(Statement::CreateSecret(CreateSecret { name, if_not_exists, value: parse_value(cursor)? }))
}

/// `AS 'text'`, `AS decode('text', 'encoding')`. Nothing that is computed: an error would show it.
pub(super) fn parse_value(cursor: &mut Cursor<'_>) -> Result<SecretValue, SqlError> {
    cursor.expect(&["AS"])?;
    if cursor.eat(&["DECODE"]) {
        cursor.expect_token(&Token::LParen)?;
        let text = Secret::new(cursor.string()?);
        cursor.expect_token(&Token::Comma)?;
        let encoding = Some(cursor.string()?);
        cursor.expect_token(&Token::RParen)?;
        return Ok(SecretValue { text, encoding });
    }
    let is_computed = matches!(cursor.token(0), Token::Word(_) | Token::LParen | Token::Number(..));
    match is_computed {
        true => Err(cursor.unsupported("a secret's value that is neither a text nor decode('text', 'encoding')")),
        false => Ok(SecretValue { text: Secret::new(cursor.string()?), encoding: None }),
    }
}
