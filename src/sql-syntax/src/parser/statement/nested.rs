//! Statements with statements in them, and what is done with these by name: PREPARE and DECLARE, EXECUTE, FETCH and their like.

use crate::ast::Statement;
use crate::parser::cursor::Cursor;
use crate::parser::statement::parse_inner;
use crate::types;
use engine::error::SqlError;
use repr::PgType;
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::Token;

/// PREPARE, EXECUTE, DEALLOCATE.
pub(super) fn parse_prepared(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.eat(&["DEALLOCATE"]) {
        cursor.eat(&["PREPARE"]);
        let name = if cursor.eat(&["ALL"]) { None } else { Some(cursor.ident()?) };
        return Ok(Statement::Deallocate(name));
    }
    if cursor.eat(&["EXECUTE"]) {
        let name = cursor.ident()?;
        let arguments =
            if *cursor.token(0) == Token::LParen { cursor.parenthesized(Cursor::expr)? } else { Vec::new() };
        return Ok(Statement::Execute { name, arguments });
    }
    cursor.expect(&["PREPARE"])?;
    if cursor.peek("TRANSACTION") {
        return Err(cursor.unsupported("two-phase commit"));
    }
    let name = cursor.ident()?;
    let types =
        if *cursor.token(0) == Token::LParen { cursor.parenthesized(parse_parameter_type)? } else { Vec::new() };
    cursor.expect(&["AS"])?;
    let sql = cursor.rest().to_owned();
    let span = cursor.span();
    let statement = parse_inner(cursor, "PREPARE")?;
    match statement {
        Statement::Query(_) | Statement::Insert(..) | Statement::Update(_) | Statement::Delete(_) => {}
        other => return Err(SqlError::unsupported(format!("PREPARE of {}", other.name())).at(span)),
    }
    Ok(Statement::Prepare { name, types, statement: Box::new(statement), sql })
}

fn parse_parameter_type(cursor: &mut Cursor<'_>) -> Result<Option<PgType>, SqlError> {
    if cursor.eat(&["UNKNOWN"]) {
        return Ok(None);
    }
    let span = cursor.span();
    let data_type = cursor.run(|parser| parser.parse_data_type())?;
    types::from_ast(&data_type).map(Some).map_err(|error| error.at(span))
}

/// DECLARE, FETCH, MOVE, CLOSE.
pub(super) fn parse_cursor(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.eat(&["CLOSE"]) {
        let name = if cursor.eat(&["ALL"]) { None } else { Some(cursor.ident()?) };
        return Ok(Statement::Close(name));
    }
    if cursor.eat(&["DECLARE"]) {
        return parse_declare(cursor);
    }
    let skip = cursor.eat(&["MOVE"]);
    if !skip {
        cursor.expect(&["FETCH"])?;
    }
    let count = parse_fetch_count(cursor)?;
    if !cursor.eat(&["FROM"]) {
        cursor.eat(&["IN"]);
    }
    let name = cursor.ident()?;
    let mut timeout = None;
    if cursor.eat(&["WITH"]) {
        cursor.parenthesized(|cursor| {
            cursor.expect(&["TIMEOUT"])?;
            cursor.eat_token(&Token::Eq);
            timeout = Some(cursor.string_or_ident()?);
            Ok(())
        })?;
    }
    Ok(Statement::Fetch { name, count, skip, timeout })
}

/// [FORWARD] n | ALL | NEXT or nothing, which is one row.
fn parse_fetch_count(cursor: &mut Cursor<'_>) -> Result<Option<u64>, SqlError> {
    const BACKWARD: [&str; 6] = ["PRIOR", "BACKWARD", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"];
    // A cursor may be called like a direction; then the statement ends after the word.
    let last = *cursor.token(1) == Token::EOF;
    if !last {
        if let Some(word) = BACKWARD.iter().find(|word| cursor.peek(word)) {
            return Err(cursor.unsupported(format!("FETCH {word}")));
        }
        if cursor.eat(&["NEXT"]) {
            return Ok(Some(1));
        }
        cursor.eat(&["FORWARD"]);
        if cursor.eat(&["ALL"]) {
            return Ok(None);
        }
    }
    match cursor.token(0) {
        Token::Number(..) => Ok(Some(cursor.unsigned()?)),
        Token::Minus => Err(cursor.unsupported("FETCH of a negative number of rows")),
        _ => Ok(Some(1)),
    }
}

/// DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [NO SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query
fn parse_declare(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let name = cursor.ident()?;
    let (mut binary, mut insensitive) = (false, false);
    loop {
        if cursor.peek("SCROLL") {
            return Err(cursor.unsupported("DECLARE … SCROLL CURSOR"));
        }
        if cursor.eat(&["BINARY"]) {
            binary = true;
        } else if cursor.eat(&["INSENSITIVE"]) {
            insensitive = true;
        } else if !(cursor.eat(&["ASENSITIVE"]) || cursor.eat(&["NO", "SCROLL"])) {
            break;
        }
    }
    cursor.expect(&["CURSOR"])?;
    let hold = cursor.eat(&["WITH", "HOLD"]);
    if !hold {
        cursor.eat(&["WITHOUT", "HOLD"]);
    }
    cursor.expect(&["FOR"])?;
    match parse_inner(cursor, "DECLARE … CURSOR FOR")? {
        Statement::Query(query) if hold && !query.locks.is_empty() => {
            Err(cursor.unsupported("DECLARE CURSOR WITH HOLD … FOR UPDATE/SHARE"))
        }
        Statement::Query(query) if insensitive && !query.locks.is_empty() => {
            let message = "DECLARE INSENSITIVE CURSOR … FOR UPDATE/SHARE is not valid";
            Err(SqlError::new(SqlState("42P11"), message).with_detail("Insensitive cursors must be READ ONLY."))
        }
        query @ (Statement::Query(_) | Statement::Subscribe(_)) => {
            Ok(Statement::Declare { name, binary, hold, query: Box::new(query) })
        }
        other => Err(SqlError::unsupported(format!("DECLARE … CURSOR FOR {}", other.name()))),
    }
}
