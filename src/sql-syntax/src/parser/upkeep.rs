//! VACUUM and ANALYZE, which clients send after loading tables. There is nothing to be done here, but the tables must exist.

use super::cursor::Cursor;
use crate::ast::{Statement, Upkeep};
use engine::error::SqlError;
use sqlparser::tokenizer::Token;

/// VACUUM [(option, …)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [t [(column, …)], …], and the same of ANALYZE.
pub(super) fn parse_upkeep(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let verb = if cursor.eat(&["VACUUM"]) { "VACUUM" } else { "ANALYZE" };
    if verb == "ANALYZE" {
        cursor.advance();
    }
    let words: &[&str] = match verb {
        "VACUUM" => &["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"],
        _ => &["VERBOSE"],
    };
    if *cursor.token(0) == Token::LParen {
        cursor.parenthesized(parse_option)?;
    } else {
        for word in words {
            cursor.eat(&[word]);
        }
    }
    let mut tables = Vec::new();
    if !cursor.at_end() {
        tables = cursor.comma_separated(|cursor| {
            let name = cursor.name()?;
            if *cursor.token(0) == Token::LParen {
                cursor.parenthesized(Cursor::ident)?;
            }
            Ok(name)
        })?;
    }
    Ok(Statement::Upkeep(Upkeep { verb, tables }))
}

/// A known option and its value. None of them has anything to choose between here.
fn parse_option(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    const OPTIONS: [&str; 12] = [
        "FULL",
        "FREEZE",
        "VERBOSE",
        "ANALYZE",
        "ANALYSE",
        "DISABLE_PAGE_SKIPPING",
        "SKIP_LOCKED",
        "INDEX_CLEANUP",
        "PROCESS_TOAST",
        "TRUNCATE",
        "PARALLEL",
        "BUFFER_USAGE_LIMIT",
    ];
    if !OPTIONS.iter().any(|option| cursor.eat(&[option])) {
        return Err(cursor.unexpected());
    }
    if !matches!(cursor.token(0), Token::Comma | Token::RParen) {
        cursor.advance();
    }
    Ok(())
}
