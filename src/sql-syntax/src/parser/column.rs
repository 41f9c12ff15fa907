//! Columns of CREATE TABLE and ALTER TABLE.

use crate::ast::{ColumnDef, ColumnSequence, SequenceOptions, TableConstraint};
use crate::parser::cursor::Cursor;
use crate::parser::{constraint, sequence};
use crate::types;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast as sp;
use sqlparser::tokenizer::Token;

pub(super) fn parse_column(
    cursor: &mut Cursor<'_>,
    constraints: &mut Vec<TableConstraint>,
) -> Result<ColumnDef, SqlError> {
    let name = cursor.ident()?;
    let span = cursor.span();
    let serial = sequence::serial(cursor)?;
    let sequence = serial.as_ref().map(|_| ColumnSequence { identity: None, options: SequenceOptions::default() });
    let ty = match serial {
        Some(ty) => ty,
        None => {
            let data_type = cursor.data_type()?;
            types::from_ast(&data_type).map_err(|error| error.at(span))?
        }
    };
    let mut nullability = sequence.as_ref().map(|_| false);
    let mut column = ColumnDef { name, ty, nullable: true, default: None, sequence };
    loop {
        let span = cursor.span();
        if cursor.eat(&["NOT", "NULL"]) {
            if nullability == Some(true) {
                return Err(conflicting_null(&column.name).at(span));
            }
            nullability = Some(false);
        } else if cursor.eat(&["NULL"]) {
            if nullability == Some(false) {
                return Err(conflicting_null(&column.name).at(span));
            }
            nullability = Some(true);
        } else if cursor.eat(&["DEFAULT"]) {
            if column.default.is_some() {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("multiple default values specified for column \"{}\"", column.name),
                )
                .at(span));
            }
            column.default = Some(parse_default(cursor)?);
        } else if let Some(identity) = sequence::parse_identity(cursor)? {
            if nullability == Some(true) {
                return Err(conflicting_null(&column.name).at(span));
            }
            nullability = Some(false);
            if let Some(before) = column.sequence.replace(identity) {
                let what = match before.identity {
                    Some(_) => "multiple identity specifications",
                    None => "both default and identity specified",
                };
                let message = format!("{what} for column \"{}\"", column.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(span));
            }
        } else if cursor.peek("COLLATE") {
            return Err(cursor.unsupported("COLLATE of a column"));
        } else if let Some(constraint) = constraint::parse_of_column(cursor, &column.name)? {
            constraints.push(constraint);
        } else {
            break;
        }
    }
    column.nullable = nullability.unwrap_or(true);
    Ok(column)
}

/// The expression after DEFAULT: up to the next constraint, because `DEFAULT 1 NOT NULL` is no `1 NOT NULL`.
pub(super) fn parse_default(cursor: &mut Cursor<'_>) -> Result<sp::Expr, SqlError> {
    const AFTER: [&str; 9] =
        ["NOT", "NULL", "DEFAULT", "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "GENERATED"];
    let mut tokens = Vec::new();
    let mut depth = 0_usize;
    loop {
        let ends = match cursor.token(0) {
            Token::EOF => true,
            Token::Comma | Token::RParen | Token::RBracket => depth == 0,
            _ => depth == 0 && !tokens.is_empty() && AFTER.iter().any(|word| cursor.peek(word)),
        };
        if ends {
            break;
        }
        let token = cursor.advance();
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            _ => {}
        }
        tokens.push(token);
    }
    if tokens.is_empty() {
        return Err(cursor.unexpected());
    }
    let mut inner = cursor.sub_cursor(tokens);
    let expr = inner.expr()?;
    inner.expect_end()?;
    Ok(expr)
}

fn conflicting_null(column: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("conflicting NULL/NOT NULL declarations for column \"{column}\""))
}
