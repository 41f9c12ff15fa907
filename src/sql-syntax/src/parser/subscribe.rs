//! SUBSCRIBE, and AS OF at the end of a query.
//!
//! SUBSCRIBE [TO] object | (query) [ENVELOPE UPSERT (KEY (…)) | ENVELOPE DEBEZIUM (KEY (…)) | WITHIN TIMESTAMP ORDER BY …]
//! [WITH (SNAPSHOT [= bool], PROGRESS [= bool])] [AS OF [AT LEAST] time] [UP TO time]
//!
//! sqlparser would take AS OF for an alias, so it is cut off a query's tokens before they are parsed.

use super::cursor::{Cursor, is_word};
use super::query::check_query;
use crate::ast::{AsOf, Envelope, OrderBy, Statement, Subscribe, SubscribeTo};
use engine::error::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

pub(super) fn parse_subscribe(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["SUBSCRIBE"])?;
    cursor.eat(&["TO"]);
    let to = if cursor.eat_token(&Token::LParen) {
        let query = cursor.query()?;
        check_query(&query)?;
        cursor.expect_token(&Token::RParen)?;
        SubscribeTo::Query(query)
    } else {
        SubscribeTo::Object(cursor.name()?)
    };
    let envelope = parse_envelope(cursor)?;
    let (mut snapshot, mut progress) = (true, false);
    if cursor.eat(&["WITH"]) {
        cursor.parenthesized(|cursor| {
            let option = if cursor.eat(&["SNAPSHOT"]) {
                &mut snapshot
            } else if cursor.eat(&["PROGRESS"]) {
                &mut progress
            } else {
                return Err(cursor.unexpected());
            };
            *option = cursor.switch()?;
            Ok(())
        })?;
    }
    let as_of = if cursor.peek("AS") { Some(parse_as_of(cursor)?) } else { None };
    let up_to = if cursor.eat(&["UP", "TO"]) { Some(cursor.expr()?) } else { None };
    Ok(Statement::Subscribe(Box::new(Subscribe { to, envelope, snapshot, progress, as_of, up_to })))
}

fn parse_envelope(cursor: &mut Cursor<'_>) -> Result<Envelope, SqlError> {
    if cursor.eat(&["WITHIN"]) {
        cursor.expect(&["TIMESTAMP", "ORDER", "BY"])?;
        return Ok(Envelope::Within(cursor.comma_separated(parse_order_by)?));
    }
    if !cursor.eat(&["ENVELOPE"]) {
        return Ok(Envelope::Diff);
    }
    let is_upsert = cursor.eat(&["UPSERT"]);
    if !is_upsert {
        cursor.expect(&["DEBEZIUM"])?;
    }
    cursor.expect_token(&Token::LParen)?;
    cursor.expect(&["KEY"])?;
    let key = cursor.parenthesized(Cursor::ident)?;
    cursor.expect_token(&Token::RParen)?;
    Ok(if is_upsert { Envelope::Upsert(key) } else { Envelope::Debezium(key) })
}

fn parse_order_by(cursor: &mut Cursor<'_>) -> Result<OrderBy, SqlError> {
    let column = cursor.ident()?;
    let descending = cursor.eat(&["DESC"]);
    if !descending {
        cursor.eat(&["ASC"]);
    }
    let nulls_first = if cursor.eat(&["NULLS", "FIRST"]) {
        true
    } else if cursor.eat(&["NULLS", "LAST"]) {
        false
    } else {
        descending
    };
    Ok(OrderBy { column, descending, nulls_first })
}

/// AS OF [AT LEAST] time
pub(super) fn parse_as_of(cursor: &mut Cursor<'_>) -> Result<AsOf, SqlError> {
    cursor.expect(&["AS", "OF"])?;
    let at_least = cursor.eat(&["AT", "LEAST"]);
    Ok(AsOf { at_least, at: cursor.expr()? })
}

/// Cuts AS OF and what follows it off the tokens of a statement that may end with it.
pub(super) fn cut_as_of(tokens: &mut Vec<TokenWithSpan>) -> Option<Vec<TokenWithSpan>> {
    const FIRST: [&str; 5] = ["SELECT", "WITH", "VALUES", "TABLE", "DECLARE"];
    let first = tokens.first()?;
    if first.token != Token::LParen && !FIRST.iter().any(|word| is_word(first, word)) {
        return None;
    }
    let visible: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let (mut depth, mut found) = (0_usize, None);
    for (n, at) in visible.iter().enumerate() {
        match &tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            // It has an AS OF of its own.
            Token::Word(_) if depth == 0 && is_word(&tokens[*at], "SUBSCRIBE") => return None,
            Token::Word(_) if depth == 0 && is_word(&tokens[*at], "AS") => {
                let word = |n: usize, word| visible.get(n).is_some_and(|at| is_word(&tokens[*at], word));
                if word(n + 1, "OF") && visible.get(n + 2).is_some_and(|at| begins_a_time(&tokens[*at])) {
                    found = Some(*at);
                }
            }
            _ => {}
        }
    }
    found.map(|at| tokens.split_off(at))
}

/// Whether a time can begin with this token; anything else follows an alias that is called `of`.
fn begins_a_time(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Number(..) | Token::SingleQuotedString(_) | Token::LParen | Token::Placeholder(_) | Token::Minus => true,
        Token::Word(word) => {
            let taken =
                ["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT"];
            let joins =
                ["JOIN", "LEFT", "RIGHT", "FULL", "CROSS", "INNER", "NATURAL", "ON", "USING", "WINDOW", "FETCH"];
            word.quote_style.is_some() || !taken.iter().chain(&joins).any(|word| is_word(token, word))
        }
        _ => false,
    }
}
