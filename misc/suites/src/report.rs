//! What the runner prints. Of what failed the first cause comes last, where the end of a long log still has it.

#![allow(clippy::print_stdout, reason = "what is printed is what the runner is for")]

use std::path::Path;
use std::time::Duration;

use crate::options::{Choice, Options};
use crate::run::Outcome;
use crate::select::Chosen;

/// Failures of which the first lines are shown at the end.
const SHOWN_FAILURES: usize = 3;
/// Lines of one.
const SHOWN_LINES: usize = 14;

pub(crate) fn fatal(error: &anyhow::Error) {
    println!("bin/test: {error:#}");
    println!("0 passed, 1 failed, 0 skipped");
}

/// Another run goes on.
pub(crate) fn waiting(lock: &Path) {
    println!("waiting for another bin/test, which holds {}", lock.display());
}

/// What suites are chosen by.
pub(crate) fn changes(since: &str, count: usize) {
    println!("{count} files have changed since {since}");
}

/// What will run, and why.
pub(crate) fn chosen(chosen: &[Chosen<'_>], options: &Options) {
    if options.choice != Choice::All || options.list {
        for one in chosen {
            let why = if one.why.is_empty() { String::new() } else { format!("  {}", one.why) };
            println!("{:<20} {:>4} s{why}", one.suite.name, one.suite.budget);
        }
    }
}

/// A suite that has ended.
pub(crate) fn outcome(outcome: &Outcome) {
    let verdict = if outcome.failed.is_empty() { "ok" } else { "FAILED" };
    let over = if outcome.took > Duration::from_secs(outcome.budget) { ", over its budget" } else { "" };
    println!(
        "{verdict:<6} {:<20} {:>4} passed {:>3} failed {:>7.1} s of {}{over}",
        outcome.name,
        outcome.passed,
        outcome.failed.len(),
        outcome.took.as_secs_f64(),
        outcome.budget
    );
}

/// What was left out, what failed, and how many; whether nothing failed.
pub(crate) fn outcomes(outcomes: &[Outcome]) -> bool {
    let mut skipped: Vec<&String> = outcomes.iter().flat_map(|outcome| &outcome.skipped).collect();
    skipped.sort();
    skipped.dedup();
    skipped.iter().for_each(|line| println!("{line}"));
    let passed: usize = outcomes.iter().map(|outcome| outcome.passed).sum();
    let mut failed: usize = outcomes.iter().map(|outcome| outcome.failed.len()).sum();
    if passed + failed == 0 && !outcomes.is_empty() {
        println!("no test has such a name");
        failed = 1;
    }
    let failures = outcomes.iter().flat_map(|outcome| outcome.failed.iter().map(move |test| (outcome, test)));
    for (outcome, test) in failures.clone().take(SHOWN_FAILURES) {
        println!("---- {}: {test} ({})", outcome.name, outcome.log.display());
        let log = std::fs::read(&outcome.log).unwrap_or_default();
        cause(&String::from_utf8_lossy(&log), test).iter().for_each(|line| println!("{line}"));
    }
    for (outcome, test) in failures.skip(SHOWN_FAILURES).take(SHOWN_LINES) {
        println!("---- {}: {test} ({})", outcome.name, outcome.log.display());
    }
    println!("{passed} passed, {failed} failed, {} skipped", skipped.len());
    failed == 0
}

/// The first lines that a test printed from its panic on; without one, its last lines, or the log's.
fn cause(log: &str, test: &str) -> Vec<String> {
    let header = format!("---- {test} stdout ----");
    let of_test: Vec<&str> = match log.lines().position(|line| line == header) {
        Some(at) => {
            log.lines().skip(at + 1).take_while(|line| !line.starts_with("---- ") && *line != "failures:").collect()
        }
        None => log.lines().collect(),
    };
    let panic = of_test.iter().position(|line| line.contains("panicked at"));
    let from = panic.unwrap_or(of_test.len().saturating_sub(SHOWN_LINES));
    let line = |line: &&str| line.chars().take(400).collect();
    of_test[from..].iter().filter(|line| !line.is_empty()).take(SHOWN_LINES).map(line).collect()
}

/// Where the time went: crates, and what suites took.
pub(crate) fn timings(crates: &[(String, f64)], outcomes: &[Outcome]) {
    println!("\n| compiled | seconds |\n|---|--:|");
    crates.iter().for_each(|(name, seconds)| println!("| {name} | {seconds:.1} |"));
    let mut outcomes: Vec<&Outcome> = outcomes.iter().collect();
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    println!("\n| suite | seconds | budget |\n|---|--:|--:|");
    for outcome in outcomes {
        println!("| {} | {:.1} | {} |", outcome.name, outcome.took.as_secs_f64(), outcome.budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_what_the_test_said_from_its_panic_on() {
        let log = "noise\nfailures:\n\n---- a stdout ----\nseed 7\nthread 'a' panicked at x.rs:1:2:\nleft is not right\n\n\
            ---- b stdout ----\nthread 'b' panicked\nfailures:\n    a\n";
        assert_eq!(cause(log, "a"), ["thread 'a' panicked at x.rs:1:2:", "left is not right"]);
        assert_eq!(cause("one\ntwo\n", "p:t ended with signal 6"), ["one", "two"]);
    }
}
