//! Writes the expectations of the recorded suites from a real PostgreSQL.
//!
//! ```text
//! record                       all files of sqllogictest/, pgtest/ and columns/
//! record FILE ..               these files
//! record --import SQL SLT      turn a script of statements into a sqllogictest file, and record it
//! ```
//!
//! A record keeps its statement, its connection, its comments and its sort mode; everything else is what PostgreSQL
//! answered. Records under `onlyif glimpse` stay as they are.
//!
//! In a script to import, a statement ends with `;` at the end of a line, `-- text` lines become comments, and
//! `-- connection NAME` names the connection of the next statement. A query without ORDER BY is sorted.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use glimpse_test::postgres_server::Postgres;
use glimpse_test::slt::driver::{ColumnKind, Mode, Session};
use glimpse_test::slt::{self, render};
use glimpse_test::target::Target;
use glimpse_test::{blocks, columns, pgtest};
use sqllogictest::{
    Condition, Connection, DB, DBOutput, ExpectedError, QueryExpect, Record, SortMode, StatementExpect,
};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help") {
        eprintln!("record [FILE ..] | record --import SQL SLT");
        return Ok(());
    }
    let target = Target::Postgres(Postgres::start()?);
    if args.first().is_some_and(|arg| arg == "--import") {
        let [_, sql, slt] = args.as_slice() else { bail!("record --import SQL SLT") };
        std::fs::write(slt, import(&std::fs::read_to_string(sql)?))?;
        return record_slt(&target, Path::new(slt));
    }
    let mut files: Vec<_> = args.iter().map(Into::into).collect();
    if files.is_empty() {
        files.extend(slt::files(&slt::corpus_dir(), "slt")?);
        files.extend(slt::files(&pgtest::dir(), "pt")?);
        files.extend(slt::files(&columns::dir(), "txt")?);
    }
    for file in &files {
        record(&target, file).with_context(|| format!("record {}", file.display()))?;
    }
    Ok(())
}

fn record(target: &Target, file: &Path) -> anyhow::Result<()> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("slt") => record_slt(target, file),
        Some("pt") => record_blocks(target, file, pgtest::run),
        Some("txt") => record_blocks(target, file, columns::run),
        _ => bail!("not a file of a recorded suite"),
    }
}

fn record_blocks(
    target: &Target,
    file: &Path,
    run: fn(&mut glimpse_test::wire::Wire, &[String]) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<()> {
    slt::in_own_database(target, |database| {
        let mut wire = glimpse_test::wire::Wire::start(target.admin_addr(), "mz_system", database)?;
        blocks::record(file, |input| run(&mut wire, input))
    })
}

/// Turns a script into records without expectations.
fn import(script: &str) -> String {
    let mut out = String::new();
    let mut statement = String::new();
    for line in script.lines() {
        if statement.is_empty() {
            if let Some(name) = line.strip_prefix("-- connection ") {
                let _ = writeln!(out, "connection {name}");
                continue;
            }
            if let Some(comment) = line.strip_prefix("--") {
                let _ = writeln!(out, "#{comment}\n");
                continue;
            }
            if line.trim().is_empty() {
                continue;
            }
        }
        match line.trim_end().strip_suffix(';') {
            Some(end) => {
                statement.push_str(end);
                let _ = writeln!(out, "statement ok\n{statement}\n");
                statement.clear();
            }
            None => {
                statement.push_str(line);
                statement.push('\n');
            }
        }
    }
    out
}

fn record_slt(target: &Target, path: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path)?;
    let records = sqllogictest::parse::<ColumnKind>(&text)?;
    let recorded = slt::in_own_database(target, |database| {
        let mut sessions: HashMap<Connection, Session<'_>> = HashMap::new();
        let mut out = String::new();
        for record in records {
            let record = record_one(target, database, &mut sessions, record)?;
            let _ = writeln!(out, "{record}");
        }
        Ok(out)
    })?;
    std::fs::write(path, format!("{}\n", recorded.trim_end()))?;
    Ok(())
}

fn record_one<'a>(
    target: &'a Target,
    database: &str,
    sessions: &mut HashMap<Connection, Session<'a>>,
    record: Record<ColumnKind>,
) -> anyhow::Result<Record<ColumnKind>> {
    let (Record::Statement { loc, conditions, connection, sql, .. }
    | Record::Query { loc, conditions, connection, sql, .. }) = &record
    else {
        return Ok(record);
    };
    if conditions.iter().any(|c| matches!(c, Condition::OnlyIf { label } if label == "glimpse")) {
        return Ok(record);
    }
    let session = match sessions.entry(connection.clone()) {
        std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Session::open(target, database, Mode::Plain)?),
    };
    let (loc, conditions, connection, sql) = (loc.clone(), conditions.clone(), connection.clone(), sql.clone());
    let statement = |expected| Record::Statement {
        loc: loc.clone(),
        conditions: conditions.clone(),
        connection: connection.clone(),
        sql: sql.clone(),
        expected,
        retry: None,
    };
    match session.run(&sql) {
        Err(error) => {
            let code = error.code.clone().with_context(|| format!("{sql}: {error}"))?;
            Ok(statement(StatementExpect::Error(ExpectedError::SqlState(code))))
        }
        Ok(DBOutput::StatementComplete(count)) => {
            let verb = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
            let counts = ["INSERT", "UPDATE", "DELETE"].contains(&verb.as_str());
            Ok(statement(if counts { StatementExpect::Count(count) } else { StatementExpect::Ok }))
        }
        Ok(DBOutput::Rows { types, mut rows }) => {
            let sort_mode = sort_mode(&record, &sql, rows.len());
            if sort_mode.is_some() {
                rows.sort_unstable();
            }
            let results = rows.iter().map(|row| render::join(row)).collect();
            let expected = QueryExpect::Results { types, sort_mode, result_mode: None, label: None, results };
            Ok(Record::Query { loc, conditions, connection, sql, expected, retry: None })
        }
        Ok(_) => bail!("{sql}: an output that sqllogictest did not have when this was written"),
    }
}

/// A new record of several rows is sorted unless its statement orders them.
fn sort_mode(record: &Record<ColumnKind>, sql: &str, rows: usize) -> Option<SortMode> {
    match record {
        Record::Query { expected: QueryExpect::Results { sort_mode, .. }, .. } => *sort_mode,
        _ => {
            let ordered = sql.to_ascii_lowercase().contains("order by") || sql.to_ascii_lowercase().starts_with("show");
            (rows > 1 && !ordered).then_some(SortMode::RowSort)
        }
    }
}
