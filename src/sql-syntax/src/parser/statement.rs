//! Which statement it is, by its first words.

mod nested;

use super::cursor::Cursor;
use super::{copy, data, ddl, grant, session, show, subscribe, upkeep};
use crate::ast::{AsOf, Explain, ExplainFormat, ExplainOf, ExplainStage, Statement};
use crate::parser::query::{check_query, is_data_change};
use engine::error::SqlError;
use sqlparser::ast as sp;
use sqlparser::tokenizer::Token;

/// Parses one statement; whatever follows it is left.
pub(super) fn parse_statement(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if *cursor.token(0) == Token::LParen {
        return parse_query(cursor);
    }
    let Some(word) = cursor.word() else { return Err(cursor.unexpected()) };
    match word.as_str() {
        "SELECT" | "WITH" | "VALUES" => parse_query(cursor),
        "INSERT" => data::parse_insert(cursor),
        "UPDATE" => data::parse_update(cursor),
        "DELETE" => data::parse_delete(cursor),
        "TRUNCATE" => data::parse_truncate(cursor),
        "COPY" => copy::parse_copy(cursor),
        "EXPLAIN" => parse_explain(cursor),
        "CREATE" => ddl::parse_create(cursor),
        "DROP" => ddl::parse_drop(cursor),
        "ALTER" => ddl::parse_alter(cursor),
        "COMMENT" => ddl::parse_comment(cursor),
        "REFRESH" => ddl::parse_refresh(cursor),
        "REINDEX" => ddl::parse_reindex(cursor),
        "GRANT" => grant::parse_grant(cursor),
        "REVOKE" => grant::parse_revoke(cursor),
        "SHOW" => show::parse_show(cursor),
        "SET" => session::parse_set(cursor),
        "RESET" => session::parse_reset(cursor),
        "BEGIN" | "START" => session::parse_begin(cursor),
        "COMMIT" | "END" | "ROLLBACK" | "ABORT" => session::parse_transaction_end(cursor),
        "SAVEPOINT" | "RELEASE" => session::parse_savepoint(cursor),
        "PREPARE" | "EXECUTE" | "DEALLOCATE" => nested::parse_prepared(cursor),
        "DECLARE" | "FETCH" | "MOVE" | "CLOSE" => nested::parse_cursor(cursor),
        "DISCARD" | "LISTEN" | "UNLISTEN" => session::parse_miscellaneous(cursor),
        "SUBSCRIBE" => subscribe::parse_subscribe(cursor),
        "VACUUM" | "ANALYZE" | "ANALYSE" => upkeep::parse_upkeep(cursor),
        // Statements of Postgres and Materialize that are refused by name.
        "TAIL" | "MERGE" | "CALL" | "DO" | "LOCK" | "NOTIFY" | "CLUSTER" | "CHECKPOINT" | "LOAD" | "REASSIGN"
        | "IMPORT" | "SECURITY" | "VALIDATE" | "INSPECT" | "USE" => Err(cursor.unsupported(&word)),
        _ => Err(cursor.unexpected()),
    }
}

/// Parses the statement inside EXPLAIN, PREPARE or DECLARE: a query or a data change. Others that Postgres takes there are refused
/// by name. Nothing else is parsed, so that `EXPLAIN EXPLAIN …` does not recurse.
pub(super) fn parse_inner(cursor: &mut Cursor<'_>, outer: &str) -> Result<Statement, SqlError> {
    let Some(word) = cursor.word() else { return parse_statement(cursor) };
    match (word.as_str(), outer) {
        ("SELECT" | "WITH" | "VALUES", _) => parse_statement(cursor),
        ("INSERT" | "UPDATE" | "DELETE", "EXPLAIN" | "PREPARE") | ("SHOW", "EXPLAIN") => parse_statement(cursor),
        ("SUBSCRIBE", _) if outer.starts_with("DECLARE") => parse_statement(cursor),
        ("CREATE" | "DECLARE" | "EXECUTE" | "REFRESH" | "MERGE", "EXPLAIN") | ("MERGE", "PREPARE") => {
            Err(cursor.unsupported(format!("{outer} {word}")))
        }
        _ => Err(cursor.unexpected()),
    }
}

/// The statement at the time that stood at its end.
pub(super) fn with_as_of(statement: Statement, as_of: Box<AsOf>) -> Result<Statement, SqlError> {
    match statement {
        Statement::Query(query) => Ok(Statement::QueryAsOf { query, as_of }),
        Statement::Declare { name, binary, hold, query } => {
            let query = Box::new(with_as_of(*query, as_of)?);
            Ok(Statement::Declare { name, binary, hold, query })
        }
        other => Err(SqlError::unsupported(format!("{} … AS OF", other.name()))),
    }
}

/// SELECT, VALUES, TABLE, or a data change that begins with WITH.
fn parse_query(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let span = cursor.span();
    let query = cursor.query()?;
    if !is_data_change(&query.body) {
        check_query(&query)?;
        return Ok(Statement::Query(query));
    }
    let sp::Query { with, body, .. } = *query;
    match *body {
        sp::SetExpr::Insert(sp::Statement::Insert(mut insert)) => {
            // WITH x AS (…) INSERT INTO t SELECT … is INSERT INTO t WITH x AS (…) SELECT ….
            match &mut insert.source {
                Some(source) if source.with.is_none() => source.with = with,
                _ => return Err(SqlError::unsupported("WITH before an INSERT that has its own WITH").at(span)),
            }
            data::check_insert(&insert).map_err(|error| error.at(span))?;
            Ok(Statement::Insert(Box::new(insert), None))
        }
        sp::SetExpr::Update(_) => Err(SqlError::unsupported("WITH … UPDATE").at(span)),
        sp::SetExpr::Delete(_) => Err(SqlError::unsupported("WITH … DELETE").at(span)),
        _ => Err(SqlError::unsupported("MERGE").at(span)),
    }
}

/// EXPLAIN [ANALYZE] [VERBOSE] s, EXPLAIN (options) s, EXPLAIN [stage] PLAN … FOR s, EXPLAIN TIMESTAMP FOR s.
fn parse_explain(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["EXPLAIN"])?;
    let mut explain = Explain {
        stage: ExplainStage::Default,
        verbose: false,
        format: ExplainFormat::Text,
        of: ExplainOf::Statement(Box::new(Statement::ShowAll)),
    };
    if *cursor.token(0) == Token::LParen && !cursor.peek_nth(1, "SELECT") && !cursor.peek_nth(1, "WITH") {
        parse_explain_options(cursor, &mut explain)?;
    } else if let Some(stage) = parse_explain_stage(cursor)? {
        explain.stage = stage;
        if cursor.eat(&["WITH"]) {
            cursor.parenthesized(Cursor::ident)?;
            explain.verbose = true;
        }
        if cursor.eat(&["AS"]) {
            explain.format = parse_format(cursor)?;
        }
        cursor.expect(&["FOR"])?;
        if cursor.eat(&["VIEW"]) || cursor.eat(&["MATERIALIZED", "VIEW"]) || cursor.eat(&["INDEX"]) {
            if explain.stage == ExplainStage::Timestamp {
                return Err(cursor.unsupported("EXPLAIN TIMESTAMP of a catalog object"));
            }
            explain.of = ExplainOf::Object(cursor.name()?);
            return Ok(Statement::Explain(explain));
        }
        if ["REPLAN", "CREATE", "BROKEN"].iter().any(|word| cursor.peek(word)) {
            return Err(cursor.unsupported("EXPLAIN of this kind of object"));
        }
    } else {
        if cursor.eat(&["ANALYZE"]) || cursor.eat(&["ANALYSE"]) {
            explain.stage = ExplainStage::Analyze;
        }
        explain.verbose = cursor.eat(&["VERBOSE"]);
    }
    let span = cursor.span();
    let statement = parse_inner(cursor, "EXPLAIN")?;
    match statement {
        Statement::Query(_) | Statement::Insert(..) | Statement::Update(_) | Statement::Delete(_) => {}
        Statement::ShowObjects(_) => {}
        other => return Err(SqlError::unsupported(format!("EXPLAIN {}", other.name())).at(span)),
    }
    explain.of = ExplainOf::Statement(Box::new(statement));
    Ok(Statement::Explain(explain))
}

fn parse_explain_stage(cursor: &mut Cursor<'_>) -> Result<Option<ExplainStage>, SqlError> {
    if cursor.eat(&["TIMESTAMP"]) {
        return Ok(Some(ExplainStage::Timestamp));
    }
    if cursor.eat(&["OPTIMIZED"]) {
        cursor.eat(&["PLAN"]);
        return Ok(Some(ExplainStage::Optimized));
    }
    if cursor.eat(&["PHYSICAL"]) {
        cursor.eat(&["PLAN"]);
        return Ok(Some(ExplainStage::Physical));
    }
    if cursor.eat(&["PLAN"]) {
        return Ok(Some(ExplainStage::Optimized));
    }
    match cursor.word().as_deref() {
        Some(word @ ("RAW" | "DECORRELATED" | "LOCALLY" | "FILTER" | "QUERY" | "KEY" | "VALUE" | "CREATE")) => {
            Err(cursor.unsupported(format!("EXPLAIN {word}")))
        }
        _ => Ok(None),
    }
}

/// `(ANALYZE off, VERBOSE, FORMAT json)`
fn parse_explain_options(cursor: &mut Cursor<'_>, explain: &mut Explain) -> Result<(), SqlError> {
    let mut times = None;
    cursor.parenthesized(|cursor| {
        let span = cursor.span();
        let option = cursor.string_or_ident()?.to_ascii_uppercase();
        if option == "FORMAT" {
            explain.format = parse_format(cursor)?;
            return Ok(());
        }
        let on = match cursor.token(0) {
            Token::Comma | Token::RParen => true,
            Token::Number(digits, _) => {
                let on = digits != "0";
                cursor.advance();
                on
            }
            _ => matches!(cursor.string_or_ident()?.as_str(), "on" | "true"),
        };
        match option.as_str() {
            "VERBOSE" => explain.verbose = on,
            "ANALYZE" if on => explain.stage = ExplainStage::Analyze,
            "ANALYZE" => explain.stage = ExplainStage::Default,
            // On by default in Postgres; there are no costs to show.
            "COSTS" if !on => {}
            // What ran is shown with its time, and nothing else is.
            "SUMMARY" | "TIMING" => times = Some((on, option, span)),
            "BUFFERS" | "WAL" | "SETTINGS" | "GENERIC_PLAN" if !on => {}
            other => return Err(SqlError::unsupported(format!("the EXPLAIN option {other}")).at(span)),
        }
        Ok(())
    })?;
    match times {
        Some((on, option, span)) if on != (explain.stage == ExplainStage::Analyze) => {
            let off = if on { "" } else { " off" };
            Err(SqlError::unsupported(format!("the EXPLAIN option {option}{off}")).at(span))
        }
        _ => Ok(()),
    }
}

fn parse_format(cursor: &mut Cursor<'_>) -> Result<ExplainFormat, SqlError> {
    let span = cursor.span();
    match cursor.string_or_ident()?.as_str() {
        "text" => Ok(ExplainFormat::Text),
        "json" => Ok(ExplainFormat::Json),
        other => Err(SqlError::unsupported(format!("the EXPLAIN format {}", other.to_ascii_uppercase())).at(span)),
    }
}
