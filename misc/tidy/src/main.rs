//! The checker of what rustc and clippy cannot see: layers, circles, file headers, file sizes, stray paths.
//!
//! `tidy [ROOT]` reads the repository once into memory, runs every rule over it, prints one line per finding and
//! exits with 1 if there was any. The rules are those of `doc/architecture.md` (layers) and `doc/developer/style.md`
//! (the rest); each finding says what to do about it. `bin/check` runs this.
//!
//! How: [`tree`] is the repository as a map from path to text, so that each rule is a pure function and its tests
//! break it on a tree of three files; [`manifest`] reads as much of a `Cargo.toml` as the rules ask for; [`layers`]
//! judges crates, [`sources`] judges files, [`circles`] how those of a crate use each other, [`exceptions`] is the list of
//! those let off.
//!
//! No dependencies: the checker builds in a second and cannot be broken by what it checks.

use crate::exceptions::Exceptions;
use crate::tree::Tree;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

mod circles;
mod exceptions;
mod layers;
mod manifest;
mod signatures;
mod sources;
mod tree;

/// Where the list of exceptions lives, from the root.
const EXCEPTIONS_PATH: &str = "misc/tidy/exceptions.txt";

/// One broken rule in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// From the repository's root.
    path: String,
    /// Counted from one; 0 when the whole file is meant.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

fn main() -> ExitCode {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: cannot read {}: {error}", root.display());
            return ExitCode::from(2);
        }
    };
    let findings = check(&tree);
    let mut out = std::io::stdout().lock();
    for Finding { path, line, message } in &findings {
        let place = if *line == 0 { path.clone() } else { format!("{path}:{line}") };
        // A closed pipe only means that nobody reads on; the exit code still tells.
        let _ = writeln!(out, "{place}: {message}");
    }
    let _ = writeln!(out, "tidy: {} files, {} findings", tree.files().count(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every finding of every rule, sorted by place.
fn check(tree: &Tree) -> Vec<Finding> {
    let (exceptions, mut findings) = Exceptions::parse(EXCEPTIONS_PATH, tree.text(EXCEPTIONS_PATH).unwrap_or_default());
    layers::check(tree, &mut findings);
    sources::check(tree, &exceptions, &mut findings);
    circles::check(tree, &mut findings);
    signatures::check(tree, &exceptions, &mut findings);
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_sorted_and_an_empty_tree_lacks_its_map() {
        let tree = Tree::of(&[("src/ore/src/b.rs", "fn b() {}\n"), ("src/ore/src/a.rs", "fn a() {}\n")]);
        let paths: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["doc/architecture.md", "src/ore/src/a.rs", "src/ore/src/b.rs"]);
    }
}
