//! sqllogictest: files of statements with the answers that PostgreSQL gave.
//!
//! Each file runs in a database of its own, so files are independent of each other and of their order. The runner
//! goes on after a failed record and reports all of them. What differs from PostgreSQL on purpose is listed in
//! `sqllogictest/differences.txt` (see [`differences`]).
//!
//! # How an answer is written
//! One line per row, columns joined by ` | `; see [`render`] for the values. An error is its SQLSTATE alone: texts
//! are nobody's contract.

pub mod differences;
pub mod driver;
pub mod render;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use sqllogictest::{QueryExpect, Record, RecordOutput, Runner, SortMode};

use crate::target::Target;
use crate::views::close_numbers;
use differences::{Differences, Expectation};
use driver::{ColumnKind, Mode, Session};

/// What running files came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Records that met their expectation.
    pub passed: usize,
    /// Records that a difference says to skip.
    pub skipped: usize,
    /// One text per failed record.
    pub failed: Vec<String>,
}

/// The corpus directory.
pub fn corpus_dir() -> PathBuf {
    crate::manifest_dir().join("sqllogictest")
}

/// All files of `dir` with this ending, sorted, one level of directories deep or more.
pub fn files(dir: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The name of a file in reports and in the list of differences: its path below the corpus.
pub fn file_name(path: &Path) -> String {
    path.strip_prefix(corpus_dir()).unwrap_or(path).display().to_string()
}

/// Makes the database of one file, runs `body`, and drops the database.
pub fn in_own_database<T>(target: &Target, body: impl FnOnce(&str) -> anyhow::Result<T>) -> anyhow::Result<T> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let database = format!("slt_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let mut admin = target.admin()?;
    admin.execute(&format!("CREATE DATABASE {database}"))?;
    let result = body(&database);
    // A session that is still closing holds the database in PostgreSQL; the server is thrown away anyway.
    let _ = admin.query(&format!("DROP DATABASE {database}"));
    result
}

/// Runs one file.
pub fn run_file(target: &Target, path: &Path, differences: &Differences, mode: Mode<'_>) -> anyhow::Result<Outcome> {
    let name = file_name(path);
    let text = std::fs::read_to_string(path)?;
    let records = sqllogictest::parse_with_name::<ColumnKind>(&text, name.clone())?;
    in_own_database(target, |database| {
        let mut runner = Runner::new(|| std::future::ready(Session::open(target, database, mode)));
        runner.with_validator(|_, actual, expected| {
            actual.iter().map(|row| render::join(row)).collect::<Vec<_>>() == expected
        });
        if matches!(mode, Mode::Views(_)) {
            runner.add_label("views");
            // A view meets its rows in another order, so that sums of floats end in other digits.
            runner.with_validator(|_, actual, expected| {
                actual.len() == expected.len()
                    && actual.iter().zip(expected).all(|(row, line)| {
                        let values: Vec<&str> = line.split(" | ").collect();
                        row.len() == values.len() && row.iter().zip(values).all(|(a, b)| a == b || close_numbers(a, b))
                    })
            });
        }
        runner.with_column_validator(driver::kinds_agree);
        let mut outcome = Outcome::default();
        let mut ids = differences::Ids::default();
        for mut record in records {
            if matches!(record, Record::Statement { .. } | Record::Query { .. }) {
                let id = ids.next(&name, &record);
                let difference = if target.is_glimpse() { differences.get(&id) } else { None };
                match difference {
                    Some(Expectation::Skip) => {
                        outcome.skipped += 1;
                        continue;
                    }
                    Some(expectation) => expectation.apply(&mut record),
                    None => {}
                }
                if matches!(mode, Mode::Views(_)) {
                    forget_order(&mut record);
                }
                sort_expected(&mut record);
                match runner.run(record) {
                    Ok(RecordOutput::Nothing) => {}
                    Ok(_) => outcome.passed += 1,
                    Err(error) => outcome.failed.push(format!("{id}\n{}", error.display(false))),
                }
            } else if let Err(error) = runner.run(record) {
                outcome.failed.push(format!("{name}\n{}", error.display(false)));
            }
        }
        runner.shutdown();
        Ok(outcome)
    })
}

/// The rows of a view have no order.
fn forget_order(record: &mut Record<ColumnKind>) {
    if let Record::Query { expected: QueryExpect::Results { sort_mode, .. }, .. } = record {
        *sort_mode = Some(SortMode::RowSort);
    }
}

/// Sorts expected rows where the answer is sorted: a reader may have added rows in another order.
fn sort_expected(record: &mut Record<ColumnKind>) {
    if let Record::Query { expected: QueryExpect::Results { sort_mode: Some(_), results, .. }, .. } = record {
        let split = |line: &String| line.split(" | ").map(str::to_owned).collect::<Vec<_>>();
        results.sort_by_key(split);
    }
}
