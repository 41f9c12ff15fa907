//! GRANT and REVOKE, of privileges and of membership, and the privileges that there are by default.

use super::cursor::Cursor;
use crate::ast::{
    DefaultKind, DefaultPrivileges, GrantPrivileges, GrantRole, GrantTarget, PrivilegeSpec, RoleSpec, Statement,
};
use crate::names::Name;
use engine::error::SqlError;
use engine::names::{ObjectKind, Privilege};
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::{Span, Token};

/// Of `GRANT role (column)`.
const COLUMNS_OF_ROLE: &str = "column names cannot be included in GRANT/REVOKE ROLE";

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
    let words = parse_words(cursor)?;
    if !cursor.eat(&["ON"]) {
        let roles = words.into_iter().map(|(word, columns)| match word {
            None => Err(cursor.unexpected()),
            Some(_) if !columns.is_empty() => Err(invalid_grant(COLUMNS_OF_ROLE).at(span)),
            Some(role) => Ok(role),
        });
        let roles = roles.collect::<Result<_, _>>()?;
        cursor.expect(&[preposition])?;
        let members = cursor.comma_separated(parse_role_spec)?;
        refuse_options(cursor)?;
        return Ok(Statement::GrantRole(GrantRole { revoke, roles, members }));
    }
    let known = |(word, columns): (Option<String>, Vec<String>)| -> Result<PrivilegeSpec, SqlError> {
        let privilege = word.map(|word| known_privilege(&word, span)).transpose()?;
        Ok(PrivilegeSpec { privilege, columns })
    };
    let privileges = words.into_iter().map(known).collect::<Result<_, _>>()?;
    let target = parse_target(cursor)?;
    let grantees = parse_grantees(cursor, preposition)?;
    Ok(Statement::GrantPrivileges(GrantPrivileges { revoke, privileges, target, grantees }))
}

/// What stands before ON or TO: privileges, or roles, each perhaps with columns; `None` is ALL.
fn parse_words(cursor: &mut Cursor<'_>) -> Result<Vec<(Option<String>, Vec<String>)>, SqlError> {
    if cursor.eat(&["ALL"]) {
        cursor.eat(&["PRIVILEGES"]);
        return Ok(vec![(None, parse_columns(cursor)?)]);
    }
    cursor.comma_separated(|cursor| Ok((Some(parse_privilege_or_role(cursor)?), parse_columns(cursor)?)))
}

fn parse_columns(cursor: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    match cursor.token(0) {
        Token::LParen => cursor.parenthesized(Cursor::ident),
        _ => Ok(Vec::new()),
    }
}

fn known_privilege(word: &str, span: Span) -> Result<Privilege, SqlError> {
    Privilege::from_name(word).ok_or_else(|| {
        SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized privilege type \"{word}\"")).at(span)
    })
}

fn invalid_grant(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_GRANT_OPERATION, message)
}

fn parse_grantees(cursor: &mut Cursor<'_>, preposition: &str) -> Result<Vec<RoleSpec>, SqlError> {
    cursor.expect(&[preposition])?;
    let grantees = cursor.comma_separated(|cursor| {
        cursor.eat(&["GROUP"]);
        parse_role_spec(cursor)
    })?;
    refuse_options(cursor)?;
    Ok(grantees)
}

/// What follows ALTER DEFAULT PRIVILEGES.
pub(super) fn parse_default_privileges(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if cursor.eat(&["FOR", "ALL", "ROLES"]) {
            return Err(cursor.unsupported("ALTER DEFAULT PRIVILEGES FOR ALL ROLES"));
        } else if roles.is_empty() && (cursor.eat(&["FOR", "ROLE"]) || cursor.eat(&["FOR", "USER"])) {
            roles = cursor.comma_separated(parse_role_spec)?;
        } else if schemas.is_empty() && cursor.eat(&["IN", "SCHEMA"]) {
            schemas = cursor.comma_separated(Cursor::name)?;
        } else if cursor.eat(&["IN", "DATABASE"]) {
            return Err(cursor.unsupported("ALTER DEFAULT PRIVILEGES IN DATABASE"));
        } else {
            break;
        }
    }
    let revoke = cursor.eat(&["REVOKE"]);
    if !revoke {
        cursor.expect(&["GRANT"])?;
    }
    if cursor.eat(&["GRANT", "OPTION", "FOR"]) {
        return Err(cursor.unsupported("REVOKE GRANT OPTION FOR"));
    }
    let span = cursor.span();
    let words = parse_words(cursor)?;
    if words.iter().any(|(_, columns)| !columns.is_empty()) {
        return Err(invalid_grant("default privileges cannot be set for columns").at(span));
    }
    let words: Option<Vec<String>> = words.into_iter().map(|(word, _)| word).collect();
    let known =
        |words: Vec<String>| words.iter().map(|word| known_privilege(word, span)).collect::<Result<Vec<_>, SqlError>>();
    let privileges = words.map(known).transpose()?;
    cursor.expect(&["ON"])?;
    let kind = if cursor.eat(&["TABLES"]) {
        DefaultKind::Tables
    } else if cursor.eat(&["SCHEMAS"]) {
        DefaultKind::Schemas
    } else {
        let word = cursor.word().ok_or_else(|| cursor.unexpected())?;
        return Err(cursor.unsupported(format!("default privileges on {word}")));
    };
    let grantees = parse_grantees(cursor, if revoke { "FROM" } else { "TO" })?;
    let defaults = DefaultPrivileges { roles, schemas, revoke, privileges, kind, grantees };
    Ok(Statement::DefaultPrivileges(defaults))
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
        if cursor.eat(&["SEQUENCES", "IN", "SCHEMA"]) {
            return Ok(GrantTarget::AllSequencesInSchema(cursor.comma_separated(Cursor::name)?));
        }
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
        ("SEQUENCE", ObjectKind::Sequence),
        ("SECRET", ObjectKind::Secret),
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
        "FUNCTION",
        "PROCEDURE",
        "ROUTINE",
        "DOMAIN",
        "FOREIGN",
        "LANGUAGE",
        "LARGE",
        "TABLESPACE",
        "TYPE",
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
