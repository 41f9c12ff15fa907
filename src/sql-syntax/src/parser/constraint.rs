//! Constraints: PRIMARY KEY, UNIQUE and CHECK, of a table or a column.

use super::cursor::Cursor;
use crate::ast::{ConstraintSpec, TableConstraint};
use crate::parser::storage::parse_storage_parameter;
use engine::error::SqlError;
use sqlparser::tokenizer::Token;

/// Whether what comes next among the elements of CREATE TABLE is a constraint and no column.
pub(super) fn is_of_table(cursor: &Cursor<'_>) -> bool {
    const FIRST: [&str; 7] = ["PRIMARY", "FOREIGN", "CONSTRAINT", "LIKE", "CHECK", "UNIQUE", "EXCLUDE"];
    FIRST.iter().any(|word| cursor.peek(word))
}

/// A constraint of a table.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<TableConstraint, SqlError> {
    let span = cursor.span();
    let name = if cursor.eat(&["CONSTRAINT"]) { Some(cursor.ident()?) } else { None };
    let spec = if cursor.eat(&["PRIMARY", "KEY"]) {
        parse_key(cursor, true)?
    } else if cursor.eat(&["UNIQUE"]) {
        parse_key(cursor, false)?
    } else if cursor.peek("CHECK") {
        parse_check(cursor)?
    } else {
        return Err(match refused(cursor) {
            Some(what) => cursor.unsupported(what),
            None => cursor.unexpected(),
        });
    };
    parse_attributes(cursor)?;
    Ok(TableConstraint { name, spec, span })
}

/// A constraint among those of a column; `None` if none comes next. Those that are not supported are refused.
pub(super) fn parse_of_column(cursor: &mut Cursor<'_>, column: &str) -> Result<Option<TableConstraint>, SqlError> {
    let span = cursor.span();
    let name = if cursor.eat(&["CONSTRAINT"]) { Some(cursor.ident()?) } else { None };
    let key = |primary| ConstraintSpec::Key { primary, columns: vec![column.to_owned()] };
    let spec = if cursor.eat(&["PRIMARY", "KEY"]) {
        refuse_index_options(cursor)?;
        key(true)
    } else if cursor.eat(&["UNIQUE"]) {
        parse_nulls(cursor)?;
        refuse_index_options(cursor)?;
        key(false)
    } else if cursor.peek("CHECK") {
        parse_check(cursor)?
    } else {
        return match refused(cursor) {
            Some(what) => Err(SqlError::unsupported(what).at(span)),
            None if name.is_some() => Err(cursor.unexpected()),
            None => Ok(None),
        };
    };
    parse_attributes(cursor)?;
    Ok(Some(TableConstraint { name, spec, span }))
}

/// What is refused by name where a constraint can stand.
fn refused(cursor: &Cursor<'_>) -> Option<&'static str> {
    Some(match cursor.word()?.as_str() {
        "REFERENCES" | "FOREIGN" => "a FOREIGN KEY constraint",
        "EXCLUDE" => "an EXCLUDE constraint",
        "GENERATED" => "a GENERATED column",
        "LIKE" => "CREATE TABLE … LIKE",
        "NOT" | "NULL" | "DEFAULT" => "a named NOT NULL or DEFAULT constraint",
        _ => return None,
    })
}

/// `[NULLS DISTINCT] (a, b)` and what may follow it.
fn parse_key(cursor: &mut Cursor<'_>, primary: bool) -> Result<ConstraintSpec, SqlError> {
    if !primary {
        parse_nulls(cursor)?;
    }
    if cursor.peek("USING") {
        return Err(cursor.unsupported("a constraint USING INDEX"));
    }
    let columns = cursor.parenthesized(Cursor::ident)?;
    refuse_index_options(cursor)?;
    Ok(ConstraintSpec::Key { primary, columns })
}

/// NULLs are distinct unless a constraint says otherwise, which none can.
fn parse_nulls(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    if cursor.peek("NULLS") && cursor.peek_nth(1, "NOT") {
        return Err(cursor.unsupported("a UNIQUE NULLS NOT DISTINCT constraint"));
    }
    cursor.eat(&["NULLS", "DISTINCT"]);
    Ok(())
}

/// What a constraint can say of its index: how full its pages are, of which there are none.
fn refuse_index_options(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    if cursor.peek("INCLUDE") {
        return Err(cursor.unsupported("a constraint that INCLUDEs columns"));
    }
    if cursor.peek("WITH") && *cursor.token(1) == Token::LParen {
        cursor.advance();
        cursor.parenthesized(parse_storage_parameter)?;
    }
    if cursor.peek("USING") {
        return Err(cursor.unsupported("a constraint USING INDEX"));
    }
    Ok(())
}

fn parse_check(cursor: &mut Cursor<'_>) -> Result<ConstraintSpec, SqlError> {
    cursor.expect(&["CHECK"])?;
    cursor.expect_token(&Token::LParen)?;
    let expr = cursor.expr()?;
    cursor.expect_token(&Token::RParen)?;
    Ok(ConstraintSpec::Check(Box::new(expr)))
}

/// What may follow a constraint. All of it but the defaults is refused.
fn parse_attributes(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    loop {
        if cursor.eat(&["NOT", "DEFERRABLE"]) || cursor.eat(&["INITIALLY", "IMMEDIATE"]) {
            continue;
        }
        let what = if cursor.peek("DEFERRABLE") || cursor.peek("INITIALLY") {
            "a DEFERRABLE constraint"
        } else if cursor.peek("NOT") && cursor.peek_nth(1, "VALID") {
            "a NOT VALID constraint"
        } else if cursor.peek("NO") && cursor.peek_nth(1, "INHERIT") {
            "a NO INHERIT constraint"
        } else {
            return Ok(());
        };
        return Err(cursor.unsupported(what));
    }
}
