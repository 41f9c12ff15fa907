//! INSERT, UPDATE, DELETE, TRUNCATE.
//!
//! sqlparser reads the first three in the dialects of a dozen databases; what is not Postgres's, or not supported, is
//! refused here, so that planning only looks at the fields that remain.

use super::cursor::Cursor;
use super::query::check_query;
use crate::ast::{Overriding, Statement, Truncate};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast as sp;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

pub(super) fn parse_insert(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let span = cursor.span();
    let token = cursor.advance();
    if !cursor.peek("INTO") {
        return Err(cursor.unexpected());
    }
    let Some((overriding, tokens)) = take_overriding(cursor)? else {
        return insert(cursor, token, None, span);
    };
    let mut without = cursor.sub_cursor(tokens);
    let statement = insert(&mut without, token, Some(overriding), span)?;
    without.expect_end()?;
    Ok(statement)
}

/// OVERRIDING, which sqlparser does not know, and the rest of the statement without it; nothing is taken where there is none.
fn take_overriding(cursor: &mut Cursor<'_>) -> Result<Option<(Overriding, Vec<TokenWithSpan>)>, SqlError> {
    // INTO name [AS alias] [(columns)]: it stands before what gives the rows.
    let is_end = |n: usize| {
        let first = ["VALUES", "SELECT", "DEFAULT", "WITH", "RETURNING"];
        *cursor.token(n) == Token::EOF || first.iter().any(|word| cursor.peek_nth(n, word))
    };
    let mut at = 0;
    while !cursor.peek_nth(at, "OVERRIDING") {
        if is_end(at) {
            return Ok(None);
        }
        at += 1;
    }
    let overriding = match () {
        () if !cursor.peek_nth(at + 2, "VALUE") => return Ok(None),
        () if cursor.peek_nth(at + 1, "SYSTEM") => Overriding::System,
        () if cursor.peek_nth(at + 1, "USER") => Overriding::User,
        () => return Ok(None),
    };
    let mut tokens = Vec::new();
    for n in 0.. {
        let token = cursor.advance();
        if token.token == Token::EOF {
            break;
        }
        if !(at..at + 3).contains(&n) {
            tokens.push(token);
        }
    }
    Ok(Some((overriding, tokens)))
}

fn insert(
    cursor: &mut Cursor<'_>,
    token: TokenWithSpan,
    overriding: Option<Overriding>,
    span: Span,
) -> Result<Statement, SqlError> {
    match cursor.run(|parser| parser.parse_insert(token))? {
        sp::Statement::Insert(insert) => {
            check_insert(&insert).map_err(|error| error.at(span))?;
            Ok(Statement::Insert(Box::new(insert), overriding))
        }
        _ => Err(syntax("INSERT").at(span)),
    }
}

/// Refuses what is not supported of an INSERT.
pub(super) fn check_insert(insert: &sp::Insert) -> Result<(), SqlError> {
    let foreign = insert.or.is_some()
        || insert.ignore
        || insert.overwrite
        || insert.has_table_keyword
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || !insert.assignments.is_empty()
        || insert.output.is_some()
        || insert.priority.is_some()
        || insert.insert_alias.is_some()
        || insert.settings.is_some()
        || insert.format_clause.is_some()
        || insert.multi_table_insert_type.is_some()
        || !matches!(insert.table, sp::TableObject::TableName(_));
    if foreign {
        return Err(syntax("INSERT"));
    }
    if insert.on.as_ref().is_some_and(|on| !matches!(on, sp::OnInsert::OnConflict(_))) {
        return Err(syntax("INSERT"));
    }
    match &insert.source {
        Some(query) => check_query(query),
        None => Ok(()),
    }
}

pub(super) fn parse_update(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let span = cursor.span();
    let token = cursor.advance();
    cursor.eat(&["ONLY"]);
    match cursor.run(|parser| parser.parse_update(token))? {
        sp::Statement::Update(update) => {
            let foreign = update.or.is_some()
                || update.output.is_some()
                || !update.order_by.is_empty()
                || update.limit.is_some()
                || matches!(update.from, Some(sp::UpdateTableFromKind::BeforeSet(_)))
                || !update.table.joins.is_empty();
            if foreign {
                return Err(syntax("UPDATE").at(span));
            }
            Ok(Statement::Update(Box::new(update)))
        }
        _ => Err(syntax("UPDATE").at(span)),
    }
}

pub(super) fn parse_delete(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let span = cursor.span();
    let token = cursor.advance();
    if !cursor.peek("FROM") {
        return Err(cursor.unexpected());
    }
    match cursor.run(|parser| parser.parse_delete(token))? {
        sp::Statement::Delete(delete) => {
            let foreign = !delete.tables.is_empty()
                || delete.output.is_some()
                || !delete.order_by.is_empty()
                || delete.limit.is_some();
            let single = matches!(&delete.from, sp::FromTable::WithFromKeyword(from)
                if from.len() == 1 && from[0].joins.is_empty());
            if foreign || !single {
                return Err(syntax("DELETE").at(span));
            }
            Ok(Statement::Delete(Box::new(delete)))
        }
        _ => Err(syntax("DELETE").at(span)),
    }
}

/// TRUNCATE [TABLE] [ONLY] t [, …] [RESTART | CONTINUE IDENTITY] [CASCADE | RESTRICT]
pub(super) fn parse_truncate(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["TRUNCATE"])?;
    cursor.eat(&["TABLE"]);
    cursor.eat(&["ONLY"]);
    let names = cursor.comma_separated(Cursor::name)?;
    let restart = cursor.eat(&["RESTART", "IDENTITY"]);
    if !restart {
        cursor.eat(&["CONTINUE", "IDENTITY"]);
    }
    let cascade = cursor.eat(&["CASCADE"]);
    if !cascade {
        cursor.eat(&["RESTRICT"]);
    }
    Ok(Statement::Truncate(Truncate { names, restart, cascade }))
}

fn syntax(statement: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error in {statement}"))
}
