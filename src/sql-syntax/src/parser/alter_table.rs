//! ALTER TABLE: what is done to columns and constraints.

use super::constraint;
use super::cursor::Cursor;
use crate::ast::{AlterTable, Statement, TableAction};
use crate::names::Name;
use crate::parser::column::{parse_column, parse_default};
use crate::types;
use engine::error::SqlError;

/// Whether ALTER TABLE goes on with something that is done to a column or a constraint.
pub(super) fn is_altered(cursor: &Cursor<'_>) -> bool {
    ["ADD", "DROP", "ALTER", "RENAME", "VALIDATE"].iter().any(|word| cursor.peek(word))
}

/// The rest of ALTER TABLE.
pub(super) fn parse(cursor: &mut Cursor<'_>, name: Name, if_exists: bool) -> Result<Statement, SqlError> {
    let actions =
        if cursor.eat(&["RENAME"]) { vec![parse_rename(cursor)?] } else { cursor.comma_separated(parse_action)? };
    Ok(Statement::AlterTable(AlterTable { name, if_exists, actions }))
}

fn parse_rename(cursor: &mut Cursor<'_>) -> Result<TableAction, SqlError> {
    let is_constraint = cursor.eat(&["CONSTRAINT"]);
    if !is_constraint {
        cursor.eat(&["COLUMN"]);
    }
    let from = cursor.ident()?;
    cursor.expect(&["TO"])?;
    let to = cursor.ident()?;
    Ok(if is_constraint { TableAction::Rename { from, to } } else { TableAction::RenameColumn { from, to } })
}

fn parse_action(cursor: &mut Cursor<'_>) -> Result<TableAction, SqlError> {
    if cursor.eat(&["ADD"]) {
        return parse_add(cursor);
    }
    if cursor.eat(&["DROP"]) {
        return parse_drop(cursor);
    }
    if cursor.eat(&["ALTER", "CONSTRAINT"]) {
        let name = cursor.ident()?;
        let (deferral, is_valid) = constraint::parse_attributes(cursor, None)?;
        if !is_valid {
            return Err(cursor.unsupported("ALTER CONSTRAINT … NOT VALID"));
        }
        return Ok(TableAction::SetDeferral { name, deferral });
    }
    if cursor.eat(&["ALTER"]) {
        cursor.eat(&["COLUMN"]);
        return parse_alter_column(cursor);
    }
    if cursor.eat(&["VALIDATE", "CONSTRAINT"]) {
        return Ok(TableAction::Validate(cursor.ident()?));
    }
    match cursor.word() {
        Some(action) => Err(cursor.unsupported(format!("ALTER TABLE … {action}"))),
        None => Err(cursor.unexpected()),
    }
}

fn parse_add(cursor: &mut Cursor<'_>) -> Result<TableAction, SqlError> {
    const CONSTRAINTS: [&str; 6] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"];
    if CONSTRAINTS.iter().any(|word| cursor.peek(word)) {
        return Ok(TableAction::Add(constraint::parse(cursor)?));
    }
    cursor.eat(&["COLUMN"]);
    let if_not_exists = cursor.if_not_exists();
    let mut constraints = Vec::new();
    let column = Box::new(parse_column(cursor, &mut constraints)?);
    Ok(TableAction::AddColumn { column, constraints, if_not_exists })
}

fn parse_drop(cursor: &mut Cursor<'_>) -> Result<TableAction, SqlError> {
    let is_constraint = cursor.eat(&["CONSTRAINT"]);
    if !is_constraint {
        cursor.eat(&["COLUMN"]);
    }
    let if_exists = cursor.if_exists();
    let name = cursor.ident()?;
    let cascade = cursor.eat(&["CASCADE"]);
    if !cascade {
        cursor.eat(&["RESTRICT"]);
    }
    Ok(match is_constraint {
        true => TableAction::Drop { name, if_exists, cascade },
        false => TableAction::DropColumn { name, if_exists, cascade },
    })
}

fn parse_alter_column(cursor: &mut Cursor<'_>) -> Result<TableAction, SqlError> {
    let column = cursor.ident()?;
    if cursor.eat(&["SET", "NOT", "NULL"]) {
        return Ok(TableAction::SetNotNull(column));
    }
    if cursor.eat(&["DROP", "NOT", "NULL"]) {
        return Ok(TableAction::DropNotNull(column));
    }
    if cursor.eat(&["SET", "DEFAULT"]) {
        let default = Some(Box::new(parse_default(cursor)?));
        return Ok(TableAction::SetDefault { column, default });
    }
    if cursor.eat(&["DROP", "DEFAULT"]) {
        return Ok(TableAction::SetDefault { column, default: None });
    }
    if cursor.eat(&["TYPE"]) || cursor.eat(&["SET", "DATA", "TYPE"]) {
        return parse_set_type(cursor, column);
    }
    let verb = cursor.word();
    let takes_another = cursor.eat(&["SET"]) || cursor.eat(&["DROP"]) || cursor.eat(&["ADD"]);
    match (verb, cursor.word()) {
        (Some(verb), Some(what)) if takes_another => {
            Err(cursor.unsupported(format!("ALTER TABLE … ALTER COLUMN … {verb} {what}")))
        }
        (Some(verb), _) if !takes_another => Err(cursor.unsupported(format!("ALTER TABLE … ALTER COLUMN … {verb}"))),
        _ => Err(cursor.unexpected()),
    }
}

/// The type, and USING.
fn parse_set_type(cursor: &mut Cursor<'_>, column: String) -> Result<TableAction, SqlError> {
    let span = cursor.span();
    let data_type = cursor.data_type()?;
    let ty = types::from_ast(&data_type).map_err(|error| error.at(span))?;
    if cursor.peek("COLLATE") {
        return Err(cursor.unsupported("COLLATE of a column"));
    }
    let using = match cursor.eat(&["USING"]) {
        true => Some(Box::new(cursor.run(|parser| parser.parse_expr())?)),
        false => None,
    };
    Ok(TableAction::SetType { column, ty, using })
}
