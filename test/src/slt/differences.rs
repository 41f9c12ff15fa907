//! The list of records whose answer differs from PostgreSQL's on purpose.
//!
//! `sqllogictest/differences.txt` has one entry per record, and every entry a reason:
//!
//! ```text
//! types/int.slt:1a2b3c4d skip -- why
//! types/int.slt:1a2b3c4d ok -- why
//! types/int.slt:1a2b3c4d error 0A000 -- why
//! types/int.slt:1a2b3c4d rows -- why
//!   first row
//!   second row
//! ```
//!
//! The id is printed with every failure. It is a hash of the statement's text (with `.2`, `.3` for repetitions in
//! one file), so it survives edits elsewhere in the file, and an edit of the statement makes the entry stale, which
//! fails the suite.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use sqllogictest::{QueryExpect, Record, StatementExpect};

use super::driver::ColumnKind;

/// What Glimpse answers instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The record is not run.
    Skip,
    /// The statement succeeds.
    Ok,
    /// The statement fails with this SQLSTATE.
    Error(String),
    /// The query gives these rows.
    Rows(Vec<String>),
}

/// The parsed list.
#[derive(Debug, Default)]
pub struct Differences(BTreeMap<String, Expectation>);

/// Gives each record of one file its id.
#[derive(Debug, Default)]
pub struct Ids(BTreeMap<u32, usize>);

impl Ids {
    /// The id of the next statement or query.
    pub fn next(&mut self, file: &str, record: &Record<ColumnKind>) -> String {
        let (Record::Statement { sql, .. } | Record::Query { sql, .. }) = record else {
            return file.to_owned();
        };
        let hash = fnv1a(sql.as_bytes());
        let seen = self.0.entry(hash).or_insert(0);
        *seen += 1;
        match seen {
            1 => format!("{file}:{hash:08x}"),
            _ => format!("{file}:{hash:08x}.{seen}"),
        }
    }
}

/// FNV-1a: short, and the same on every machine.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl Differences {
    /// Parses the list.
    pub fn parse(text: &str) -> anyhow::Result<Differences> {
        let mut entries = BTreeMap::new();
        let mut last: Option<String> = None;
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if let Some(row) = line.strip_prefix("  ") {
                let entry = last.as_ref().and_then(|id| entries.get_mut(id));
                match entry {
                    Some(Expectation::Rows(rows)) => rows.push(row.to_owned()),
                    _ => bail!("a row without a `rows` entry above it: {line}"),
                }
                continue;
            }
            let (id, expectation) = parse_entry(line)?;
            if entries.insert(id.clone(), expectation).is_some() {
                bail!("{id} is listed twice");
            }
            last = Some(id);
        }
        Ok(Differences(entries))
    }

    /// The entry of a record.
    pub fn get(&self, id: &str) -> Option<&Expectation> {
        self.0.get(id)
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Entries that no record has.
    pub fn stale(&self, known: &BTreeSet<String>) -> Vec<String> {
        self.0.keys().filter(|id| !known.contains(*id)).cloned().collect()
    }
}

fn parse_entry(line: &str) -> anyhow::Result<(String, Expectation)> {
    let (head, reason) = line.split_once(" -- ").with_context(|| format!("no reason: {line}"))?;
    if reason.trim().is_empty() {
        bail!("no reason: {line}");
    }
    let words: Vec<&str> = head.split_whitespace().collect();
    let expectation = match words[1..] {
        ["skip"] => Expectation::Skip,
        ["ok"] => Expectation::Ok,
        ["rows"] => Expectation::Rows(Vec::new()),
        ["error", code] => Expectation::Error(code.to_owned()),
        _ => bail!("expected skip, ok, rows or error SQLSTATE: {line}"),
    };
    Ok((words[0].to_owned(), expectation))
}

impl Expectation {
    /// Replaces what a record expects.
    pub fn apply(&self, record: &mut Record<ColumnKind>) {
        let (Record::Statement { loc, conditions, connection, sql, .. }
        | Record::Query { loc, conditions, connection, sql, .. }) = record
        else {
            return;
        };
        let (loc, conditions) = (loc.clone(), conditions.clone());
        let (connection, sql) = (connection.clone(), sql.clone());
        *record = match self {
            Expectation::Rows(rows) => {
                let kinds = match record {
                    Record::Query { expected: QueryExpect::Results { types, .. }, .. } => types.len(),
                    _ => rows.first().map_or(1, |row| row.split(" | ").count()),
                };
                let expected = QueryExpect::Results {
                    types: vec![ColumnKind::Any; kinds],
                    sort_mode: sort_mode(record),
                    result_mode: None,
                    label: None,
                    results: rows.clone(),
                };
                Record::Query { loc, conditions, connection, sql, expected, retry: None }
            }
            Expectation::Ok | Expectation::Skip => {
                let expected = StatementExpect::Ok;
                Record::Statement { loc, conditions, connection, sql, expected, retry: None }
            }
            Expectation::Error(code) => {
                let expected = StatementExpect::Error(sqllogictest::ExpectedError::SqlState(code.clone()));
                Record::Statement { loc, conditions, connection, sql, expected, retry: None }
            }
        };
    }
}

fn sort_mode(record: &Record<ColumnKind>) -> Option<sqllogictest::SortMode> {
    match record {
        Record::Query { expected: QueryExpect::Results { sort_mode, .. }, .. } => *sort_mode,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Differences, Expectation};

    #[test]
    fn entries_have_ids_expectations_and_reasons() {
        let text = "# comment\na.slt:1 skip -- why\na.slt:2 rows -- why\n  x | y\n\na.slt:3 error 0A000 -- why\n";
        let differences = Differences::parse(text).expect("the text is well formed");
        assert_eq!(differences.get("a.slt:1"), Some(&Expectation::Skip));
        assert_eq!(differences.get("a.slt:2"), Some(&Expectation::Rows(vec!["x | y".to_owned()])));
        assert_eq!(differences.get("a.slt:3"), Some(&Expectation::Error("0A000".to_owned())));
        assert!(Differences::parse("a.slt:1 skip").is_err(), "an entry needs a reason");
        assert!(Differences::parse("a.slt:1 skip -- a\na.slt:1 ok -- b").is_err(), "one entry per record");
    }
}
