//! SHOW: of a variable, or of objects.

use super::cursor::Cursor;
use crate::ast::{ShowFilter, ShowKind, ShowObjects, Statement};
use engine::error::SqlError;
use engine::names::ObjectKind;
use sqlparser::tokenizer::Token;

pub(super) fn parse_show(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["SHOW"])?;
    if cursor.eat(&["ALL"]) {
        return Ok(Statement::ShowAll);
    }
    if cursor.eat(&["CREATE"]) {
        return parse_show_create(cursor);
    }
    if cursor.eat(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        return Ok(Statement::ShowIsolationLevel);
    }
    if let Some(kind) = parse_kind(cursor) {
        return parse_objects(cursor, kind);
    }
    const REFUSED: [&str; 7] = ["SINKS", "SUBSOURCES", "CONNECTIONS", "FUNCTIONS", "PRIVILEGES", "TYPES", "DEFAULT"];
    if let Some(word) = REFUSED.iter().find(|word| cursor.peek(word)) {
        return Err(cursor.unsupported(format!("SHOW {word}")));
    }
    if cursor.peek("CLUSTER") && cursor.peek_nth(1, "REPLICAS") {
        return Err(cursor.unsupported("SHOW CLUSTER REPLICAS"));
    }
    Ok(Statement::ShowVariable(super::session::parse_variable(cursor)?))
}

fn parse_kind(cursor: &mut Cursor<'_>) -> Option<ShowKind> {
    let kinds: [(&[&str], ShowKind); 15] = [
        (&["TABLES"], ShowKind::Tables),
        (&["VIEWS"], ShowKind::Views),
        (&["MATERIALIZED", "VIEWS"], ShowKind::MaterializedViews),
        (&["SOURCES"], ShowKind::Sources),
        (&["SECRETS"], ShowKind::Secrets),
        (&["SEMANTIC", "MODELS"], ShowKind::SemanticModels),
        (&["INDEXES"], ShowKind::Indexes),
        (&["INDICES"], ShowKind::Indexes),
        (&["KEYS"], ShowKind::Indexes),
        (&["COLUMNS"], ShowKind::Columns),
        (&["SCHEMAS"], ShowKind::Schemas),
        (&["DATABASES"], ShowKind::Databases),
        (&["CLUSTERS"], ShowKind::Clusters),
        (&["ROLES"], ShowKind::Roles),
        (&["OBJECTS"], ShowKind::Objects),
    ];
    kinds.into_iter().find(|(words, _)| cursor.eat(words)).map(|(_, kind)| kind)
}

fn parse_objects(cursor: &mut Cursor<'_>, kind: ShowKind) -> Result<Statement, SqlError> {
    let mut show = ShowObjects { kind, from: None, on: None, cluster: None, filter: None };
    loop {
        let clustered = matches!(kind, ShowKind::Indexes | ShowKind::MaterializedViews);
        if clustered && show.cluster.is_none() && cursor.eat(&["IN", "CLUSTER"]) {
            show.cluster = Some(cursor.ident()?);
        } else if kind == ShowKind::Indexes && show.on.is_none() && cursor.eat(&["ON"]) {
            show.on = Some(cursor.name()?);
        } else if show.from.is_none() && show.on.is_none() && (cursor.eat(&["FROM"]) || cursor.eat(&["IN"])) {
            let name = cursor.name()?;
            if kind == ShowKind::Columns { show.on = Some(name) } else { show.from = Some(name) }
        } else {
            break;
        }
    }
    if kind == ShowKind::Columns && show.on.is_none() {
        return Err(cursor.unexpected());
    }
    if show.from.is_some() && matches!(kind, ShowKind::Databases | ShowKind::Clusters | ShowKind::Roles) {
        return Err(cursor.unexpected());
    }
    if cursor.eat(&["LIKE"]) {
        show.filter = Some(ShowFilter::Like(cursor.string()?));
    } else if cursor.eat(&["WHERE"]) {
        show.filter = Some(ShowFilter::Where(Box::new(cursor.expr()?)));
    }
    Ok(Statement::ShowObjects(show))
}

fn parse_show_create(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let kinds: [(&[&str], ObjectKind); 6] = [
        (&["TABLE"], ObjectKind::Table),
        (&["VIEW"], ObjectKind::View),
        (&["MATERIALIZED", "VIEW"], ObjectKind::MaterializedView),
        (&["INDEX"], ObjectKind::Index),
        (&["SOURCE"], ObjectKind::Source),
        (&["SEMANTIC", "MODEL"], ObjectKind::SemanticModel),
    ];
    match kinds.into_iter().find(|(words, _)| cursor.eat(words)) {
        Some((_, kind)) => Ok(Statement::ShowCreate { kind, name: cursor.name()? }),
        None if matches!(cursor.token(0), Token::Word(_)) => {
            let word = cursor.word().unwrap_or_default();
            Err(cursor.unsupported(format!("SHOW CREATE {word}")))
        }
        None => Err(cursor.unexpected()),
    }
}
