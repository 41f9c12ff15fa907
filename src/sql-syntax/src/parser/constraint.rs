//! Constraints: PRIMARY KEY, UNIQUE, CHECK and FOREIGN KEY, of a table or a column.

use super::cursor::Cursor;
use crate::ast::{Action, ConstraintSpec, Deferral, ForeignSpec, SetConstraints, TableConstraint};
use crate::parser::storage::parse_storage_parameter;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
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
    } else if cursor.eat(&["FOREIGN", "KEY"]) {
        let columns = cursor.parenthesized(Cursor::ident)?;
        parse_references(cursor, columns)?
    } else {
        return Err(match refused(cursor) {
            Some(what) => cursor.unsupported(what),
            None => cursor.unexpected(),
        });
    };
    let (deferral, is_valid) = parse_attributes(cursor, Some(&spec))?;
    Ok(TableConstraint { name, spec, deferral, is_valid, span })
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
    } else if cursor.peek("REFERENCES") {
        parse_references(cursor, vec![column.to_owned()])?
    } else {
        return match refused(cursor) {
            Some(what) => Err(SqlError::unsupported(what).at(span)),
            None if name.is_some() => Err(cursor.unexpected()),
            None => Ok(None),
        };
    };
    let (deferral, is_valid) = parse_attributes(cursor, Some(&spec))?;
    Ok(Some(TableConstraint { name, spec, deferral, is_valid, span }))
}

/// What is refused by name where a constraint can stand.
fn refused(cursor: &Cursor<'_>) -> Option<&'static str> {
    Some(match cursor.word()?.as_str() {
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

/// `REFERENCES t (a, b) MATCH … ON DELETE … ON UPDATE …`.
fn parse_references(cursor: &mut Cursor<'_>, columns: Vec<String>) -> Result<ConstraintSpec, SqlError> {
    cursor.expect(&["REFERENCES"])?;
    let parent = cursor.name()?;
    let referred = match *cursor.token(0) == Token::LParen {
        true => cursor.parenthesized(Cursor::ident)?,
        false => Vec::new(),
    };
    let is_full = match cursor.eat(&["MATCH"]) {
        false => false,
        true if cursor.eat(&["FULL"]) => true,
        true if cursor.peek("PARTIAL") => return Err(cursor.unsupported("MATCH PARTIAL")),
        true => {
            cursor.expect(&["SIMPLE"])?;
            false
        }
    };
    let (mut on_delete, mut on_update) = (None, None);
    while cursor.peek("ON") {
        let action = if cursor.eat(&["ON", "DELETE"]) {
            &mut on_delete
        } else {
            cursor.expect(&["ON", "UPDATE"])?;
            &mut on_update
        };
        if action.is_some() {
            return Err(cursor.unexpected());
        }
        *action = Some(parse_action(cursor)?);
    }
    let (on_delete, on_update) = (on_delete.unwrap_or_default(), on_update.unwrap_or_default());
    Ok(ConstraintSpec::Foreign(ForeignSpec { columns, parent, referred, is_full, on_delete, on_update }))
}

fn parse_action(cursor: &mut Cursor<'_>) -> Result<Action, SqlError> {
    let is_it = |action: &Action| cursor.eat(&action.sql().split(' ').collect::<Vec<_>>());
    let action = Action::ALL.into_iter().find(is_it).ok_or_else(|| cursor.unexpected())?;
    if matches!(action, Action::SetNull | Action::SetDefault) && *cursor.token(0) == Token::LParen {
        return Err(cursor.unsupported(format!("{} of some columns", action.sql())));
    }
    Ok(action)
}

/// What may follow a constraint: when it is checked, and NOT VALID. Only a FOREIGN KEY may say so, which is what ALTER CONSTRAINT is about.
pub(super) fn parse_attributes(
    cursor: &mut Cursor<'_>,
    spec: Option<&ConstraintSpec>,
) -> Result<(Deferral, bool), SqlError> {
    let is_foreign = spec.is_none_or(|spec| matches!(spec, ConstraintSpec::Foreign(_)));
    let (mut is_deferrable, mut is_deferred, mut is_valid) = (None, None, true);
    loop {
        let span = cursor.span();
        if cursor.peek("NOT") && cursor.peek_nth(1, "DEFERRABLE") {
            set(&mut is_deferrable, false, cursor)?;
            cursor.expect(&["NOT", "DEFERRABLE"])?;
        } else if cursor.peek("DEFERRABLE") || cursor.peek("INITIALLY") && cursor.peek_nth(1, "DEFERRED") {
            if !is_foreign {
                return Err(cursor.unsupported("a DEFERRABLE constraint that is no FOREIGN KEY"));
            }
            match cursor.eat(&["DEFERRABLE"]) {
                true => set(&mut is_deferrable, true, cursor)?,
                false => {
                    set(&mut is_deferred, true, cursor)?;
                    cursor.expect(&["INITIALLY", "DEFERRED"])?;
                }
            }
        } else if cursor.eat(&["INITIALLY", "IMMEDIATE"]) {
            set(&mut is_deferred, false, cursor)?;
        } else if cursor.peek("NOT") && cursor.peek_nth(1, "VALID") {
            if !is_foreign {
                return Err(cursor.unsupported("a NOT VALID constraint that is no FOREIGN KEY"));
            }
            cursor.expect(&["NOT", "VALID"])?;
            is_valid = false;
        } else if cursor.peek("NO") && cursor.peek_nth(1, "INHERIT") {
            return Err(cursor.unsupported("a NO INHERIT constraint"));
        } else {
            let is_deferred = is_deferred.unwrap_or(false);
            return match is_deferrable.unwrap_or(is_deferred) {
                false if is_deferred => {
                    let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
                    Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(span))
                }
                false => Ok((Deferral::Never, is_valid)),
                true if is_deferred => Ok((Deferral::Deferred, is_valid)),
                true => Ok((Deferral::Immediate, is_valid)),
            };
        }
    }
}

/// What is said twice is said against each other.
fn set(said: &mut Option<bool>, what: bool, cursor: &Cursor<'_>) -> Result<(), SqlError> {
    match said.replace(what) {
        None => Ok(()),
        Some(_) => Err(cursor.unexpected()),
    }
}

/// The rest of SET CONSTRAINTS.
pub(super) fn parse_set(cursor: &mut Cursor<'_>) -> Result<SetConstraints, SqlError> {
    let names = match cursor.eat(&["ALL"]) {
        true => None,
        false => Some(cursor.comma_separated(Cursor::name)?),
    };
    let to = match cursor.eat(&["DEFERRED"]) {
        true => Deferral::Deferred,
        false => {
            cursor.expect(&["IMMEDIATE"])?;
            Deferral::Immediate
        }
    };
    Ok(SetConstraints { names, to })
}
