//! Runs every sqllogictest file and reports all records that failed.
//!
//! Queries run as they are, and once more from the index on a view of each. `SLT_ONLY=part/of/name` runs the files whose
//! path contains it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use glimpse_test::slt::differences::{Differences, Ids};
use glimpse_test::slt::driver::{ColumnKind, Mode, Refusals};
use glimpse_test::slt::{self, Outcome};
use glimpse_test::target::Target;
use sqllogictest::Record;

/// Transactions that change the catalog, and conflict with whoever else changes it meanwhile.
const CHANGES_CATALOG: [&str; 6] = [
    "ddl_transaction.slt",
    "create_table_as.slt",
    "alter_column.slt",
    "alter_column_type.slt",
    "sequence_transaction.slt",
    "sequence_undone.slt",
];

fn changes_catalog(path: &Path) -> bool {
    CHANGES_CATALOG.iter().any(|ending| path.to_string_lossy().ends_with(ending))
}

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
    run(Mode::Plain, "as they are");
}

/// Every query answers the same from the index on a view of it, or its view is refused for a reason that
/// `unmaintained.txt` lists.
#[test]
fn maintained_views_give_the_same_answers() {
    let refusals = Mutex::new(Refusals::new());
    run(Mode::Views(&refusals), "from maintained views");
    let refusals = refusals.into_inner().expect("no thread panics while it holds the lock");
    let path = slt::corpus_dir().join("unmaintained.txt");
    let text = std::fs::read_to_string(path).expect("the list of refusals is checked in");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let listed: Vec<&str> =
        lines.map(|line| line.split_once(" -- ").expect("an entry has a reason after ` -- `").0).collect();
    for (message, count) in &refusals {
        eprintln!("{count} refused: {message}");
    }
    let is_listed = |message: &&String| listed.iter().any(|listed| message.contains(listed));
    let unknown: Vec<&String> = refusals.keys().filter(|message| !is_listed(message)).collect();
    assert_eq!(unknown, Vec::<&String>::new(), "refused for reasons that unmaintained.txt does not list");
    if std::env::var("SLT_ONLY").is_err() {
        let stale: Vec<&&str> =
            listed.iter().filter(|listed| !refusals.keys().any(|message| message.contains(*listed))).collect();
        assert_eq!(stale, Vec::<&&str>::new(), "entries of unmaintained.txt without a query");
    }
}

fn run(mode: Mode<'_>, how: &str) {
    let only = std::env::var("SLT_ONLY").unwrap_or_default();
    let mut files = slt::files(&slt::corpus_dir(), "slt").expect("the corpus is readable");
    files.retain(|path| path.to_string_lossy().contains(&only));
    assert!(!files.is_empty(), "no file of the corpus contains SLT_ONLY={only} in its path");
    if let Mode::Views(_) = mode {
        // Views are made by a connection of their own, with which transactions that change the catalog would conflict.
        files.retain(|path| !changes_catalog(path));
    }
    let target = Target::start().expect("the server starts");
    let differences = differences();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Outcome::default());
    let run_file = |path: &Path| {
        let outcome = slt::run_file(&target, path, &differences, mode).unwrap_or_else(|error| {
            let failed = vec![format!("{}: {error:#}", path.display())];
            Outcome { failed, ..Outcome::default() }
        });
        let mut total = total.lock().expect("no thread panics while it holds the lock");
        total.passed += outcome.passed;
        total.skipped += outcome.skipped;
        total.failed.extend(outcome.failed);
    };
    let (alone, others): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(|path| changes_catalog(path));
    alone.into_iter().for_each(|path| run_file(path));
    // Two files at a time: the server and this process share the machine.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(path) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run_file(path);
                }
            });
        }
    });
    let total = total.into_inner().expect("no thread panics while it holds the lock");
    eprintln!(
        "sqllogictest {how}: {} records passed, {} failed, {} skipped by differences.txt ({} entries), {} files",
        total.passed,
        total.failed.len(),
        total.skipped,
        differences.count(),
        files.len()
    );
    assert!(total.failed.is_empty(), "{}", total.failed.join("\n\n"));
}
