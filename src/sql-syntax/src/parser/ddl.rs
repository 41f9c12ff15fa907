//! CREATE, ALTER, DROP, COMMENT ON.

use super::cursor::Cursor;
use super::query::check_query;
use super::{alter_table, constraint, model, secret, sequence, webhook};
use crate::ast::{
    AlterModel, AlterSecret, ClusterOptions, CreateIndex, CreateTable, CreateTableAs, CreateView, Drop, KeyOptions,
    Materialized, NewPassword, RoleOptions, Secret, SetValue, Statement,
};
use crate::parser::column::parse_column;
use crate::parser::storage::parse_storage;
use engine::error::SqlError;
use engine::names::ObjectKind;
use repr::sqlstate::SqlState;
use sqlparser::ast as sp;
use sqlparser::tokenizer::Token;

/// What CREATE, ALTER and DROP refuse by name, by the words that follow.
const UNSUPPORTED_OBJECTS: [&str; 37] = [
    "SINK",
    "CONNECTION",
    "TYPE",
    "FUNCTION",
    "PROCEDURE",
    "TRIGGER",
    "EXTENSION",
    "DOMAIN",
    "AGGREGATE",
    "OPERATOR",
    "RULE",
    "POLICY",
    "PUBLICATION",
    "SUBSCRIPTION",
    "SERVER",
    "FOREIGN",
    "LANGUAGE",
    "TRUSTED LANGUAGE",
    "COLLATION",
    "CONVERSION",
    "CAST",
    "STATISTICS",
    "TABLESPACE",
    "EVENT TRIGGER",
    "ACCESS METHOD",
    "TRANSFORM",
    "TEXT SEARCH",
    "GROUP",
    "NETWORK POLICY",
    "CONTINUAL TASK",
    "DEFAULT PRIVILEGES",
    "LARGE OBJECT",
    "ROUTINE",
    "RECURSIVE VIEW",
    "CONSTRAINT TRIGGER",
    "OWNED",
    "CLUSTER REPLICA",
];

pub(super) fn parse_create(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["CREATE"])?;
    let or_replace = cursor.eat(&["OR", "REPLACE"]);
    if cursor.eat(&["TEMPORARY"]) || cursor.eat(&["TEMP"]) {
        return parse_create_temporary(cursor);
    }
    if let Some(word) = ["UNLOGGED", "LOCAL", "GLOBAL"].iter().find(|word| cursor.peek(word)) {
        return Err(cursor.unsupported(format!("CREATE {word}")));
    }
    if let Some(what) = unsupported_object(cursor) {
        return Err(cursor.unsupported(format!("CREATE {what}")));
    }
    if cursor.eat(&["VIEW"]) {
        return parse_create_view(cursor, or_replace);
    }
    if cursor.eat(&["MATERIALIZED", "VIEW"]) {
        return parse_create_materialized_view(cursor, or_replace);
    }
    if or_replace {
        return Err(cursor.unexpected());
    }
    if cursor.eat(&["TABLE"]) {
        return parse_create_table(cursor, false);
    }
    let kinds = [
        (&["UNIQUE", "INDEX"][..], IndexKind::Unique),
        (&["DEFAULT", "INDEX"], IndexKind::Default),
        (&["INDEX"], IndexKind::Plain),
    ];
    if let Some((_, kind)) = kinds.into_iter().find(|(words, _)| cursor.eat(words)) {
        return parse_create_index(cursor, kind);
    }
    if cursor.eat(&["SEQUENCE"]) {
        return sequence::parse_create(cursor, false);
    }
    if cursor.eat(&["SOURCE"]) {
        return webhook::parse_create(cursor);
    }
    if cursor.eat(&["SECRET"]) {
        return secret::parse_create(cursor);
    }
    if cursor.eat(&["SEMANTIC", "MODEL"]) {
        return model::parse_create(cursor);
    }
    if cursor.eat(&["DATABASE"]) {
        let if_not_exists = cursor.if_not_exists();
        let name = cursor.ident()?;
        if !cursor.at_end() {
            return Err(cursor.unsupported("CREATE DATABASE with options"));
        }
        return Ok(Statement::CreateDatabase { name, if_not_exists });
    }
    if cursor.eat(&["SCHEMA"]) {
        return parse_create_schema(cursor);
    }
    if cursor.eat(&["CLUSTER"]) {
        let if_not_exists = cursor.if_not_exists();
        let name = cursor.ident()?;
        let options = parse_cluster_options(cursor)?;
        return Ok(Statement::CreateCluster { name, if_not_exists, options });
    }
    if cursor.eat(&["ROLE"]) {
        return parse_create_role(cursor, None);
    }
    // CREATE USER is CREATE ROLE … LOGIN.
    if cursor.eat(&["USER"]) {
        return parse_create_role(cursor, Some(true));
    }
    Err(cursor.unexpected())
}

/// What follows CREATE ROLE or CREATE USER.
fn parse_create_role(cursor: &mut Cursor<'_>, can_login: Option<bool>) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.ident()?;
    let mut options = parse_role_options(cursor)?;
    options.login = options.login.or(can_login);
    Ok(Statement::CreateRole { name, if_not_exists, options })
}

fn unsupported_object(cursor: &Cursor<'_>) -> Option<&'static str> {
    UNSUPPORTED_OBJECTS.into_iter().find(|words| words.split(' ').enumerate().all(|(n, word)| cursor.peek_nth(n, word)))
}

fn parse_create_view(cursor: &mut Cursor<'_>, or_replace: bool) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.name()?;
    let columns = parse_view_columns(cursor)?;
    if cursor.peek("WITH") {
        return Err(cursor.unsupported("CREATE VIEW … WITH options"));
    }
    let (query, sql) = parse_view_query(cursor)?;
    if cursor.peek("WITH") {
        return Err(cursor.unsupported("WITH CHECK OPTION"));
    }
    let materialized = None;
    Ok(Statement::CreateView(CreateView { name, or_replace, if_not_exists, columns, query, sql, materialized }))
}

fn parse_create_materialized_view(cursor: &mut Cursor<'_>, or_replace: bool) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.name()?;
    let columns = parse_view_columns(cursor)?;
    let cluster = if cursor.eat(&["IN", "CLUSTER"]) { Some(cursor.ident()?) } else { None };
    if let Some(word @ ("USING" | "TABLESPACE" | "IN")) = cursor.word().as_deref() {
        return Err(cursor.unsupported(format!("CREATE MATERIALIZED VIEW … {word}")));
    }
    if cursor.eat(&["WITH"]) {
        refuse_view_options(cursor)?;
    }
    let (query, sql) = parse_view_query(cursor)?;
    with_data(cursor, "CREATE MATERIALIZED VIEW")?;
    let materialized = Some(Materialized { cluster });
    Ok(Statement::CreateView(CreateView { name, or_replace, if_not_exists, columns, query, sql, materialized }))
}

/// `REFRESH MATERIALIZED VIEW [CONCURRENTLY] m [WITH DATA]`.
pub(super) fn parse_refresh(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["REFRESH", "MATERIALIZED", "VIEW"])?;
    cursor.eat(&["CONCURRENTLY"]);
    let name = cursor.name()?;
    with_data(cursor, "REFRESH MATERIALIZED VIEW")?;
    Ok(Statement::Rebuild { kind: ObjectKind::MaterializedView, name })
}

/// `REINDEX [(option, …)] {INDEX | TABLE} [CONCURRENTLY] name`.
pub(super) fn parse_reindex(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["REINDEX"])?;
    if *cursor.token(0) == Token::LParen {
        cursor.parenthesized(|cursor| {
            if !cursor.eat(&["VERBOSE"]) && !cursor.eat(&["CONCURRENTLY"]) {
                return Err(cursor.unexpected());
            }
            if !matches!(cursor.token(0), Token::Comma | Token::RParen) {
                cursor.advance();
            }
            Ok(())
        })?;
    }
    let kind = match cursor.word().as_deref() {
        Some("INDEX") => ObjectKind::Index,
        Some("TABLE") => ObjectKind::Table,
        Some(word @ ("SCHEMA" | "DATABASE" | "SYSTEM")) => return Err(cursor.unsupported(format!("REINDEX {word}"))),
        _ => return Err(cursor.unexpected()),
    };
    cursor.advance();
    cursor.eat(&["CONCURRENTLY"]);
    Ok(Statement::Rebuild { kind, name: cursor.name()? })
}

/// WITH DATA is the default; without, a materialized view could not be read.
fn with_data(cursor: &mut Cursor<'_>, statement: &str) -> Result<(), SqlError> {
    if cursor.eat(&["WITH", "DATA"]) || !cursor.peek("WITH") {
        return Ok(());
    }
    Err(cursor.unsupported(format!("{statement} … WITH NO DATA")))
}

fn parse_view_columns(cursor: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    if *cursor.token(0) == Token::LParen { cursor.parenthesized(Cursor::ident) } else { Ok(Vec::new()) }
}

/// AS and the query, with its text.
fn parse_view_query(cursor: &mut Cursor<'_>) -> Result<(Box<sp::Query>, String), SqlError> {
    cursor.expect(&["AS"])?;
    let start = cursor.span().start;
    let query = cursor.query()?;
    check_query(&query)?;
    // Without a comment that may follow: more text will be put behind it.
    Ok((query, cursor.text_since(start).to_owned()))
}

/// `(REFRESH EVERY '1 day', …)`: a materialized view is as fresh as its inputs, and kept as long as any table.
fn refuse_view_options(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    cursor.expect_token(&Token::LParen)?;
    match cursor.word() {
        Some(word) => Err(cursor.unsupported(format!("the MATERIALIZED VIEW option {word}"))),
        None => Err(cursor.unexpected()),
    }
}

fn parse_create_temporary(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.eat(&["SEQUENCE"]) {
        return sequence::parse_create(cursor, true);
    }
    if !cursor.eat(&["TABLE"]) {
        let what = cursor.word().unwrap_or_default();
        return Err(cursor.unsupported(format!("CREATE TEMPORARY {what}")));
    }
    parse_create_table(cursor, true)
}

fn parse_create_table(cursor: &mut Cursor<'_>, temporary: bool) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.name()?;
    // Names alone are those of what a query gives; without any, it gives those as well.
    let has_names_alone = *cursor.token(0) == Token::LParen && matches!(cursor.token(2), Token::Comma | Token::RParen);
    if has_names_alone || ["AS", "WITH", "ON"].iter().any(|word| cursor.peek(word)) {
        let columns = parse_view_columns(cursor)?;
        let key_index = parse_storage(cursor)?.key_index;
        let (query, with_data) = parse_create_table_as(cursor)?;
        let create = CreateTableAs { name, if_not_exists, temporary, columns, key_index, query, with_data };
        return Ok(Statement::CreateTableAs(create));
    }
    match cursor.word().as_deref() {
        Some(word @ ("OF" | "PARTITION")) => return Err(cursor.unsupported(format!("CREATE TABLE … {word}"))),
        Some("FROM") => return Err(cursor.unsupported("CREATE TABLE … FROM SOURCE")),
        _ => {}
    }
    if *cursor.token(0) == Token::LParen && *cursor.token(1) == Token::RParen {
        return Err(cursor.unsupported("a table without columns"));
    }
    let (mut columns, mut constraints) = (Vec::new(), Vec::new());
    cursor.parenthesized(|cursor| {
        if constraint::is_of_table(cursor) {
            constraints.push(constraint::parse(cursor)?);
        } else {
            columns.push(parse_column(cursor, &mut constraints)?);
        }
        Ok(())
    })?;
    if columns.is_empty() {
        return Err(cursor.unsupported("a table without columns"));
    }
    let key_index = parse_storage(cursor)?.key_index;
    if let Some(word @ ("WITH" | "WITHOUT" | "INHERITS" | "PARTITION" | "TABLESPACE" | "USING" | "ON")) =
        cursor.word().as_deref()
    {
        return Err(cursor.unsupported(format!("CREATE TABLE … {word}")));
    }
    Ok(Statement::CreateTable(CreateTable { name, if_not_exists, temporary, columns, constraints, key_index }))
}

/// What follows the names of the columns and how they are stored: `AS query [WITH [NO] DATA]`.
fn parse_create_table_as(cursor: &mut Cursor<'_>) -> Result<(Box<sp::Query>, bool), SqlError> {
    if let Some(word @ ("WITH" | "WITHOUT" | "TABLESPACE" | "USING" | "ON")) = cursor.word().as_deref() {
        return Err(cursor.unsupported(format!("CREATE TABLE … {word}")));
    }
    cursor.expect(&["AS"])?;
    if cursor.peek("EXECUTE") {
        return Err(cursor.unsupported("CREATE TABLE … AS EXECUTE"));
    }
    let query = cursor.query()?;
    check_query(&query)?;
    let with_data = !cursor.eat(&["WITH", "NO", "DATA"]);
    if with_data {
        cursor.eat(&["WITH", "DATA"]);
    }
    Ok((query, with_data))
}

/// What stands before INDEX.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IndexKind {
    Plain,
    Unique,
    Default,
}

fn parse_create_index(cursor: &mut Cursor<'_>, kind: IndexKind) -> Result<Statement, SqlError> {
    // No index keeps writers waiting.
    cursor.eat(&["CONCURRENTLY"]);
    let if_not_exists = cursor.if_not_exists();
    let name = if cursor.peek("ON") || cursor.peek("IN") { None } else { Some(cursor.ident()?) };
    let cluster = if cursor.eat(&["IN", "CLUSTER"]) { Some(cursor.ident()?) } else { None };
    cursor.expect(&["ON"])?;
    cursor.eat(&["ONLY"]);
    let on = cursor.name()?;
    if cursor.eat(&["USING"]) {
        let span = cursor.span();
        let method = cursor.ident()?;
        // An arrangement answers what a btree or a hash index answers.
        if !matches!(method.as_str(), "arrangement" | "btree" | "hash") {
            return Err(SqlError::unsupported(format!("the index method \"{method}\"")).at(span));
        }
    }
    let keys = (kind != IndexKind::Default && *cursor.token(0) == Token::LParen)
        .then(|| cursor.parenthesized(parse_index_key));
    let keys = keys.transpose()?;
    let unique = kind == IndexKind::Unique;
    if let Some(word @ ("INCLUDE" | "WITH" | "WHERE" | "TABLESPACE" | "NULLS")) = cursor.word().as_deref() {
        return Err(cursor.unsupported(format!("CREATE INDEX … {word}")));
    }
    if unique && keys.is_none() {
        return Err(cursor.unexpected());
    }
    Ok(Statement::CreateIndex(CreateIndex { name, if_not_exists, unique, cluster, on, keys }))
}

fn parse_index_key(cursor: &mut Cursor<'_>) -> Result<(sp::Expr, KeyOptions), SqlError> {
    let expr = cursor.expr()?;
    let class = match cursor.word().as_deref() {
        None | Some("ASC" | "DESC" | "NULLS") => None,
        Some(_) => Some(cursor.name()?.item().to_owned()),
    };
    let descending = cursor.eat(&["DESC"]);
    if !descending {
        cursor.eat(&["ASC"]);
    }
    let nulls_first = cursor.eat(&["NULLS", "FIRST"]) || (!cursor.eat(&["NULLS", "LAST"]) && descending);
    Ok((expr, KeyOptions { class, descending, nulls_first }))
}

fn parse_create_schema(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    if cursor.eat(&["AUTHORIZATION"]) {
        let role = cursor.ident()?;
        let name = crate::names::Name::bare(role.clone());
        return Ok(Statement::CreateSchema { name, if_not_exists, authorization: Some(role) });
    }
    let name = cursor.name()?;
    let authorization = if cursor.eat(&["AUTHORIZATION"]) { Some(cursor.ident()?) } else { None };
    if !cursor.at_end() {
        return Err(cursor.unsupported("CREATE SCHEMA with elements"));
    }
    Ok(Statement::CreateSchema { name, if_not_exists, authorization })
}

/// `(SIZE '1', WORKERS 2)`, `SIZE = '1'`, `SET (SIZE …)` after the name.
fn parse_cluster_options(cursor: &mut Cursor<'_>) -> Result<ClusterOptions, SqlError> {
    let mut options = ClusterOptions::default();
    if cursor.at_end() {
        return Ok(options);
    }
    if *cursor.token(0) == Token::LParen {
        cursor.parenthesized(|cursor| parse_cluster_option(cursor, &mut options))?;
    } else {
        cursor.comma_separated(|cursor| parse_cluster_option(cursor, &mut options))?;
    }
    Ok(options)
}

fn parse_cluster_option(cursor: &mut Cursor<'_>, options: &mut ClusterOptions) -> Result<(), SqlError> {
    if cursor.eat(&["SIZE"]) {
        cursor.eat_token(&Token::Eq);
        options.size = Some(match cursor.token(0) {
            Token::Number(..) => cursor.unsigned()?.to_string(),
            _ => cursor.string_or_ident()?,
        });
    } else if cursor.eat(&["WORKERS"]) {
        cursor.eat_token(&Token::Eq);
        options.workers = Some(cursor.unsigned()?);
    } else if cursor.eat(&["REPLICATION", "FACTOR"]) {
        cursor.eat_token(&Token::Eq);
        options.replication_factor = Some(cursor.unsigned()?);
    } else {
        return match cursor.word() {
            Some(word) => Err(cursor.unsupported(format!("the CLUSTER option {word}"))),
            None => Err(cursor.unexpected()),
        };
    }
    Ok(())
}

fn parse_role_options(cursor: &mut Cursor<'_>) -> Result<RoleOptions, SqlError> {
    let mut options = RoleOptions::default();
    cursor.eat(&["WITH"]);
    while let Some(word) = cursor.word() {
        let conflict = SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
        if cursor.eat(&["ENCRYPTED", "PASSWORD"]) || cursor.eat(&["PASSWORD"]) {
            let password = match cursor.eat(&["NULL"]) {
                true => NewPassword::Null,
                false => NewPassword::Text(Secret::new(cursor.string()?)),
            };
            if options.password.replace(password).is_some() {
                return Err(conflict.at(cursor.span()));
            }
            continue;
        }
        let (attribute, on) = match word.strip_prefix("NO") {
            Some(rest) => (rest, false),
            None => (word.as_str(), true),
        };
        let slot = match attribute {
            "SUPERUSER" => &mut options.superuser,
            "INHERIT" => &mut options.inherit,
            "LOGIN" => &mut options.login,
            "CREATEDB" => &mut options.create_db,
            "CREATEROLE" => &mut options.create_role,
            "CREATECLUSTER" => &mut options.create_cluster,
            _ => return Err(cursor.unsupported(format!("the role option {word}"))),
        };
        if slot.replace(on).is_some() {
            return Err(conflict.at(cursor.span()));
        }
        cursor.advance();
    }
    Ok(options)
}

fn parse_kind(cursor: &mut Cursor<'_>) -> Option<ObjectKind> {
    let kinds: [(&[&str], ObjectKind); 13] = [
        (&["TABLE"], ObjectKind::Table),
        (&["VIEW"], ObjectKind::View),
        (&["MATERIALIZED", "VIEW"], ObjectKind::MaterializedView),
        (&["INDEX"], ObjectKind::Index),
        (&["SEQUENCE"], ObjectKind::Sequence),
        (&["SOURCE"], ObjectKind::Source),
        (&["SECRET"], ObjectKind::Secret),
        (&["SEMANTIC", "MODEL"], ObjectKind::SemanticModel),
        (&["SCHEMA"], ObjectKind::Schema),
        (&["DATABASE"], ObjectKind::Database),
        (&["CLUSTER"], ObjectKind::Cluster),
        (&["ROLE"], ObjectKind::Role),
        (&["USER"], ObjectKind::Role),
    ];
    kinds.into_iter().find(|(words, _)| cursor.eat(words)).map(|(_, kind)| kind)
}

pub(super) fn parse_drop(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["DROP"])?;
    if let Some(what) = unsupported_object(cursor) {
        return Err(cursor.unsupported(format!("DROP {what}")));
    }
    let Some(kind) = parse_kind(cursor) else { return Err(cursor.unexpected()) };
    if kind == ObjectKind::Index {
        cursor.eat(&["CONCURRENTLY"]);
    }
    let if_exists = cursor.if_exists();
    let names = cursor.comma_separated(Cursor::name)?;
    if kind == ObjectKind::Database && *cursor.token(0) == Token::LParen {
        return Err(cursor.unsupported("DROP DATABASE … (FORCE)"));
    }
    let cascade = cursor.eat(&["CASCADE"]);
    if !cascade {
        cursor.eat(&["RESTRICT"]);
    }
    Ok(Statement::Drop(Drop { kind, if_exists, names, cascade }))
}

pub(super) fn parse_alter(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["ALTER"])?;
    if cursor.eat(&["SYSTEM"]) {
        return parse_alter_system(cursor);
    }
    if cursor.eat(&["DEFAULT", "PRIVILEGES"]) {
        return super::grant::parse_default_privileges(cursor);
    }
    if let Some(what) = unsupported_object(cursor) {
        return Err(cursor.unsupported(format!("ALTER {what}")));
    }
    let Some(kind) = parse_kind(cursor) else { return Err(cursor.unexpected()) };
    let if_exists = cursor.if_exists();
    if kind == ObjectKind::Table {
        cursor.eat(&["ONLY"]);
    }
    let name = cursor.name()?;
    if cursor.eat(&["OWNER", "TO"]) {
        let owner = super::grant::parse_role_spec(cursor)?;
        return Ok(Statement::AlterOwner { kind, name, if_exists, owner });
    }
    if cursor.eat(&["RENAME", "TO"]) {
        return Ok(Statement::AlterRename { kind, name, if_exists, to: cursor.ident()? });
    }
    match kind {
        ObjectKind::Table if alter_table::is_altered(cursor) => alter_table::parse(cursor, name, if_exists),
        ObjectKind::MaterializedView | ObjectKind::Index if cursor.eat(&["SET", "CLUSTER"]) => {
            Ok(Statement::AlterSetCluster { kind, name, if_exists, cluster: cursor.ident()? })
        }
        ObjectKind::Cluster if cursor.eat(&["SET"]) => {
            let options = parse_cluster_options(cursor)?;
            Ok(Statement::AlterCluster { name: name.item().to_owned(), if_exists, options })
        }
        ObjectKind::Sequence => sequence::parse_alter(cursor, name, if_exists),
        ObjectKind::Secret if cursor.peek("AS") => {
            let value = secret::parse_value(cursor)?;
            Ok(Statement::AlterSecret(AlterSecret { name, if_exists, value }))
        }
        ObjectKind::SemanticModel if cursor.peek("AS") => {
            let files = model::parse_files(cursor)?;
            Ok(Statement::AlterModel(AlterModel { name, if_exists, files }))
        }
        ObjectKind::Role => parse_alter_role(cursor, name.item().to_owned()),
        _ => {
            let action = cursor.word().unwrap_or_default();
            let object = kind.to_string().to_uppercase();
            if action.is_empty() {
                Err(cursor.unexpected())
            } else {
                Err(cursor.unsupported(format!("ALTER {object} … {action}")))
            }
        }
    }
}

fn parse_alter_role(cursor: &mut Cursor<'_>, name: String) -> Result<Statement, SqlError> {
    if cursor.peek("IN") {
        return Err(cursor.unsupported("ALTER ROLE … IN DATABASE"));
    }
    if cursor.eat(&["SET"]) {
        let (variable, value) = super::session::parse_assignment(cursor)?;
        return Ok(Statement::AlterRoleSet { name, variable, value });
    }
    if cursor.eat(&["RESET"]) {
        if cursor.peek("ALL") {
            return Err(cursor.unsupported("ALTER ROLE … RESET ALL"));
        }
        let variable = super::session::parse_variable(cursor)?;
        return Ok(Statement::AlterRoleSet { name, variable, value: SetValue::Default });
    }
    let options = parse_role_options(cursor)?;
    Ok(Statement::AlterRole { name, options })
}

fn parse_alter_system(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.eat(&["SET"]) {
        let (variable, value) = super::session::parse_assignment(cursor)?;
        return Ok(match value {
            SetValue::Default => Statement::AlterSystemReset(Some(variable)),
            value => Statement::AlterSystemSet { variable, value },
        });
    }
    cursor.expect(&["RESET"])?;
    if cursor.eat(&["ALL"]) {
        return Ok(Statement::AlterSystemReset(None));
    }
    Ok(Statement::AlterSystemReset(Some(super::session::parse_variable(cursor)?)))
}

/// COMMENT ON kind name IS 'text' | NULL
pub(super) fn parse_comment(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["COMMENT", "ON"])?;
    let kind = if cursor.eat(&["COLUMN"]) {
        None
    } else {
        match parse_kind(cursor) {
            Some(kind) => Some(kind),
            None => {
                let word = cursor.word().unwrap_or_default();
                return Err(cursor.unsupported(format!("COMMENT ON {word}")));
            }
        }
    };
    let name = cursor.name()?;
    cursor.expect(&["IS"])?;
    let text = if cursor.eat(&["NULL"]) { None } else { Some(cursor.string()?) };
    Ok(Statement::Comment { kind, name, text })
}
