//! The options of sequences, and CREATE and ALTER SEQUENCE.

use super::cursor::Cursor;
use crate::ast::{AlterSequence, Bound, ColumnSequence, CreateSequence, Identity, SequenceOptions, Statement};
use crate::names::Name;
use crate::types;
use engine::error::SqlError;
use repr::PgType;
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::Token;

/// What follows CREATE SEQUENCE.
pub(super) fn parse_create(cursor: &mut Cursor<'_>, temporary: bool) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.name()?;
    let span = cursor.span();
    let options = parse_options(cursor)?;
    if options.restart.is_some() {
        return Err(SqlError::unsupported("CREATE SEQUENCE … RESTART").at(span));
    }
    Ok(Statement::CreateSequence(CreateSequence { name, if_not_exists, temporary, options }))
}

/// What follows the name in ALTER SEQUENCE.
pub(super) fn parse_alter(cursor: &mut Cursor<'_>, name: Name, if_exists: bool) -> Result<Statement, SqlError> {
    let options = parse_options(cursor)?;
    if options == SequenceOptions::default() {
        return Err(match cursor.peek("SET") {
            true => cursor.unsupported("ALTER SEQUENCE … SET"),
            false => cursor.unexpected(),
        });
    }
    Ok(Statement::AlterSequence(AlterSequence { name, if_exists, options }))
}

/// The type of a `serial` column, if it is one. Errors: 0A000 for an array of it.
pub(super) fn serial(cursor: &mut Cursor<'_>) -> Result<Option<PgType>, SqlError> {
    let ty = match cursor.word().as_deref() {
        Some("SMALLSERIAL" | "SERIAL2") => PgType::Int2,
        Some("SERIAL" | "SERIAL4") => PgType::Int4,
        Some("BIGSERIAL" | "SERIAL8") => PgType::Int8,
        _ => return Ok(None),
    };
    cursor.advance();
    if *cursor.token(0) == Token::LBracket || cursor.peek("ARRAY") {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "array of serial is not implemented"));
    }
    Ok(Some(ty))
}

/// `GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(options)]`, if it comes next.
pub(super) fn parse_identity(cursor: &mut Cursor<'_>) -> Result<Option<ColumnSequence>, SqlError> {
    if !cursor.peek("GENERATED") {
        return Ok(None);
    }
    let identity = match cursor.peek_nth(1, "ALWAYS") {
        true if cursor.peek_nth(2, "AS") && cursor.peek_nth(3, "IDENTITY") => Identity::Always,
        true => return Err(cursor.unsupported("a GENERATED column")),
        false => Identity::ByDefault,
    };
    cursor.expect(&["GENERATED"])?;
    match identity {
        Identity::Always => cursor.expect(&["ALWAYS"])?,
        Identity::ByDefault => cursor.expect(&["BY", "DEFAULT"])?,
    }
    cursor.expect(&["AS", "IDENTITY"])?;
    let mut options = SequenceOptions::default();
    if cursor.eat_token(&Token::LParen) {
        options = parse_options(cursor)?;
        cursor.expect_token(&Token::RParen)?;
    }
    Ok(Some(ColumnSequence { identity: Some(identity), options }))
}

/// Options, as many as there are. Errors: 42601 for one that was given before, 22003.
pub(super) fn parse_options(cursor: &mut Cursor<'_>) -> Result<SequenceOptions, SqlError> {
    let mut options = SequenceOptions::default();
    loop {
        let span = cursor.span();
        let is_new = if cursor.eat(&["AS"]) {
            let data_type = cursor.run(|parser| parser.parse_data_type())?;
            let ty = types::from_ast(&data_type).map_err(|error| error.at(span))?;
            options.ty.replace(ty).is_none()
        } else if cursor.eat(&["INCREMENT"]) {
            cursor.eat(&["BY"]);
            options.increment.replace(integer(cursor)?).is_none()
        } else if cursor.eat(&["MINVALUE"]) {
            options.min.replace(Bound::At(integer(cursor)?)).is_none()
        } else if cursor.eat(&["NO", "MINVALUE"]) {
            options.min.replace(Bound::Default).is_none()
        } else if cursor.eat(&["MAXVALUE"]) {
            options.max.replace(Bound::At(integer(cursor)?)).is_none()
        } else if cursor.eat(&["NO", "MAXVALUE"]) {
            options.max.replace(Bound::Default).is_none()
        } else if cursor.eat(&["START"]) {
            cursor.eat(&["WITH"]);
            options.start.replace(integer(cursor)?).is_none()
        } else if cursor.eat(&["RESTART"]) {
            let is_given = cursor.eat(&["WITH"]) || matches!(cursor.token(0), Token::Number(..) | Token::Minus);
            let with = if is_given { Some(integer(cursor)?) } else { None };
            options.restart.replace(with).is_none()
        } else if cursor.eat(&["CACHE"]) {
            options.cache.replace(integer(cursor)?).is_none()
        } else if cursor.eat(&["CYCLE"]) {
            options.cycle.replace(true).is_none()
        } else if cursor.eat(&["NO", "CYCLE"]) {
            options.cycle.replace(false).is_none()
        } else if cursor.eat(&["OWNED", "BY"]) {
            options.owned_by.replace(owner(cursor)?).is_none()
        } else if cursor.peek("SEQUENCE") && cursor.peek_nth(1, "NAME") {
            return Err(cursor.unsupported("SEQUENCE NAME"));
        } else {
            return Ok(options);
        };
        if !is_new {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options").at(span));
        }
    }
}

/// `NONE` or `table.column`.
fn owner(cursor: &mut Cursor<'_>) -> Result<Option<Name>, SqlError> {
    if cursor.peek("NONE") && *cursor.token(1) != Token::Period {
        cursor.advance();
        return Ok(None);
    }
    let name = cursor.name()?;
    if name.parts.len() < 2 {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
            .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
    }
    Ok(Some(name))
}

/// A whole number, perhaps with a sign.
fn integer(cursor: &mut Cursor<'_>) -> Result<i64, SqlError> {
    let is_negative = cursor.eat_token(&Token::Minus);
    if !is_negative {
        cursor.eat_token(&Token::Plus);
    }
    let Token::Number(digits, _) = cursor.token(0) else { return Err(cursor.unexpected()) };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(cursor.unexpected());
    }
    let digits = if is_negative { format!("-{digits}") } else { digits.clone() };
    let number = digits.parse().map_err(|_| {
        let message = format!("value \"{digits}\" is out of range for type bigint");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message).at(cursor.span())
    })?;
    cursor.advance();
    Ok(number)
}
