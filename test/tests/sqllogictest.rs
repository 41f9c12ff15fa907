//! Runs every sqllogictest file and reports all records that failed.
//!
//! `SLT_ONLY=part/of/name` runs the files whose path contains it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use glimpse_test::slt::differences::{Differences, Ids};
use glimpse_test::slt::driver::ColumnKind;
use glimpse_test::slt::{self, Outcome};
use glimpse_test::target::Target;
use sqllogictest::Record;

/// The issue asks for at least this many.
const RECORDS_MIN: usize = 2_000;

fn differences() -> Differences {
    let path = slt::corpus_dir().join("differences.txt");
    let text = std::fs::read_to_string(path).expect("the list of differences is checked in");
    Differences::parse(&text).expect("the list of differences is well formed")
}

#[test]
fn the_list_of_differences_names_existing_records() {
    let mut known = BTreeSet::new();
    for path in slt::files(&slt::corpus_dir(), "slt").expect("the corpus is readable") {
        let text = std::fs::read_to_string(&path).expect("the file is readable");
        let name = slt::file_name(&path);
        let records = sqllogictest::parse_with_name::<ColumnKind>(&text, name.clone()).expect("the file parses");
        let mut ids = Ids::default();
        let is_test = |record: &&Record<ColumnKind>| matches!(record, Record::Statement { .. } | Record::Query { .. });
        known.extend(records.iter().filter(is_test).map(|record| ids.next(&name, record)));
    }
    assert!(known.len() >= RECORDS_MIN, "the corpus has only {} records", known.len());
    assert_eq!(differences().stale(&known), Vec::<String>::new(), "entries of differences.txt without a record");
}

#[test]
fn answers_are_those_of_postgres() {
    let only = std::env::var("SLT_ONLY").unwrap_or_default();
    let mut files = slt::files(&slt::corpus_dir(), "slt").expect("the corpus is readable");
    files.retain(|path| path.to_string_lossy().contains(&only));
    let target = Target::start().expect("the server starts");
    let differences = differences();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Outcome::default());
    // Two files at a time: the server and this process share the machine.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = slt::run_file(&target, path, &differences).unwrap_or_else(|error| {
                        let failed = vec![format!("{}: {error:#}", path.display())];
                        Outcome { failed, ..Outcome::default() }
                    });
                    let mut total = total.lock().expect("no thread panics while it holds the lock");
                    total.passed += outcome.passed;
                    total.skipped += outcome.skipped;
                    total.failed.extend(outcome.failed);
                }
            });
        }
    });
    let total = total.into_inner().expect("no thread panics while it holds the lock");
    eprintln!(
        "sqllogictest: {} records passed, {} failed, {} skipped by differences.txt ({} entries), {} files",
        total.passed,
        total.failed.len(),
        total.skipped,
        differences.count(),
        files.len()
    );
    assert!(total.failed.is_empty(), "{}", total.failed.join("\n\n"));
}
