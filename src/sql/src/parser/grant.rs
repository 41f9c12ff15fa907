//! GRANT and REVOKE, of privileges and of membership.

use super::cursor::Cursor;
use crate::ast::{GrantPrivileges, GrantRole, GrantTarget, RoleSpec, Statement};
use crate::error::SqlError;
use crate::names::{Name, ObjectKind, Privilege};
use datafusion::sql::sqlparser::tokenizer::Token;
use repr::sqlstate::SqlState;

pub(super) fn parse_grant(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["GRANT"])?;
    parse(cursor, false)
}

pub(super) fn parse_revoke(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["REVOKE"])?;
    if cursor.peek("GRANT") && cursor.peek_nth(1, "OPTION") {
        return Err(cursor.unsupported("REVOKE GRANT OPTION FOR"));
    }
    if cursor.peek("ADMIN") && cursor.peek_nth(1, "OPTION") {
        return Err(cursor.unsupported("REVOKE ADMIN OPTION FOR"));
    }
    parse(cursor, true)
}

fn parse(cursor: &mut Cursor<'_>, revoke: bool) -> Result<Statement, SqlError> {
    let span = cursor.span();
    let preposition = if revoke { "FROM" } else { "TO" };
    let all = cursor.eat(&["ALL"]);
    let words = if all {
        cursor.eat(&["PRIVILEGES"]);
        Vec::new()
    } else {
        cursor.comma_separated(parse_privilege_or_role)?
    };
    if *cursor.token(0) == Token::LParen {
        return Err(cursor.unsupported("a privilege on columns"));
    }
    if !cursor.eat(&["ON"]) {
        if all {
            return Err(cursor.unexpected());
        }
        cursor.expect(&[preposition])?;
        let members = cursor.comma_separated(parse_role_spec)?;
        refuse_options(cursor)?;
        return Ok(Statement::GrantRole(GrantRole { revoke, roles: words, members }));
    }
    let privileges = if all {
        None
    } else {
        let known = words
            .iter()
            .map(|word| {
                Privilege::from_name(word).ok_or_else(|| {
                    SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized privilege type \"{word}\"")).at(span)
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Some(known)
    };
    let target = parse_target(cursor)?;
    cursor.expect(&[preposition])?;
    let grantees = cursor.comma_separated(|cursor| {
        cursor.eat(&["GROUP"]);
        parse_role_spec(cursor)
    })?;
    refuse_options(cursor)?;
    Ok(Statement::GrantPrivileges(GrantPrivileges { revoke, privileges, target, grantees }))
}

/// A privilege may be a reserved word (SELECT, CREATE, REFERENCES), a role may not.
fn parse_privilege_or_role(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    match cursor.word() {
        Some(word) if Privilege::from_name(&word).is_some() => {
            cursor.advance();
            Ok(word.to_lowercase())
        }
        _ => cursor.ident(),
    }
}

fn parse_target(cursor: &mut Cursor<'_>) -> Result<GrantTarget, SqlError> {
    if cursor.eat(&["SYSTEM"]) {
        return Ok(GrantTarget::System);
    }
    if cursor.eat(&["ALL"]) {
        let what = cursor.word().unwrap_or_default();
        if !cursor.eat(&["TABLES", "IN", "SCHEMA"]) {
            return match what.as_str() {
                "SEQUENCES" | "FUNCTIONS" | "PROCEDURES" | "ROUTINES" | "TABLES" => {
                    Err(cursor.unsupported(format!("GRANT ON ALL {what}")))
                }
                _ => Err(cursor.unexpected()),
            };
        }
        return Ok(GrantTarget::AllTablesInSchema(cursor.comma_separated(Cursor::name)?));
    }
    let kinds = [
        ("TABLE", ObjectKind::Table),
        ("SCHEMA", ObjectKind::Schema),
        ("DATABASE", ObjectKind::Database),
        ("CLUSTER", ObjectKind::Cluster),
    ];
    // A table may be called like one of these; then a name does not follow.
    for (word, kind) in kinds {
        if cursor.peek(word) && name_follows(cursor) {
            cursor.advance();
            return Ok(GrantTarget::Objects(kind, cursor.comma_separated(Cursor::name)?));
        }
    }
    let refused = [
        "SEQUENCE",
        "FUNCTION",
        "PROCEDURE",
        "ROUTINE",
        "DOMAIN",
        "FOREIGN",
        "LANGUAGE",
        "LARGE",
        "TABLESPACE",
        "TYPE",
        "SECRET",
        "CONNECTION",
        "NETWORK",
        "PARAMETER",
    ];
    if let Some(word) = refused.iter().find(|word| cursor.peek(word) && name_follows(cursor)) {
        return Err(cursor.unsupported(format!("GRANT ON {word}")));
    }
    let names: Vec<Name> = cursor.comma_separated(Cursor::name)?;
    Ok(GrantTarget::Objects(ObjectKind::Table, names))
}

fn name_follows(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.token(1), Token::Word(_)) && !cursor.peek_nth(1, "TO") && !cursor.peek_nth(1, "FROM")
}

fn refuse_options(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    if cursor.peek("WITH") {
        return Err(cursor.unsupported("WITH GRANT or ADMIN OPTION"));
    }
    if cursor.peek("GRANTED") {
        return Err(cursor.unsupported("GRANTED BY"));
    }
    // RESTRICT is what happens: grants do not depend on each other.
    cursor.eat(&["RESTRICT"]);
    Ok(())
}

/// A role's name, CURRENT_USER, SESSION_USER or PUBLIC.
pub(super) fn parse_role_spec(cursor: &mut Cursor<'_>) -> Result<RoleSpec, SqlError> {
    if cursor.eat(&["CURRENT_USER"]) || cursor.eat(&["CURRENT_ROLE"]) {
        return Ok(RoleSpec::Current);
    }
    if cursor.eat(&["SESSION_USER"]) {
        return Ok(RoleSpec::Session);
    }
    let quoted = matches!(cursor.token(0), Token::Word(word) if word.quote_style.is_some());
    let name = cursor.ident()?;
    // Even quoted, public is no role's name in Postgres.
    Ok(if name == "public" && !quoted { RoleSpec::Public } else { RoleSpec::Name(name) })
}
