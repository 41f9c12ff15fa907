//! The mistakes of misc/bugs are in the server that tests use, and in none that is built for people.

use std::path::{Path, PathBuf};
use std::process::Command;

use bugs::{Bug, PANICS};
use glimpse_test::server::find_binary;

/// The names by which mistakes are asked for.
fn all() -> impl Iterator<Item = &'static str> {
    Bug::ALL.into_iter().map(Bug::name).chain([PANICS])
}

/// Those that are in a file.
fn found_in(path: &Path) -> Vec<&'static str> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_there = |name: &&str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    all().filter(is_there).collect()
}

/// Compiles a program with the questions of `misc/bugs` into a folder, as the server is compiled for people.
fn program_for_people(folder: &Path) -> PathBuf {
    let root = glimpse_test::manifest_dir().join("..");
    let mut cargo = Command::new("cargo");
    cargo.args([
        "build",
        "--config",
        ".cargo/optimized.toml",
        "--package",
        "glimpse-bugs",
        "--example",
        "asks",
        "--offline",
        "--target-dir",
    ]);
    let output = cargo.arg(folder).current_dir(root).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join("debug/examples/asks")
}

#[test]
fn what_people_run_makes_no_mistakes_on_purpose() {
    let tested = find_binary().expect("a server is built");
    assert_eq!(found_in(&tested), all().collect::<Vec<_>>(), "a server that can make them has their names in it");
    // bin/environmentd looks at the whole program each time it has built one.
    let folder = tempfile::tempdir().expect("a directory");
    assert_eq!(found_in(&program_for_people(folder.path())), [""; 0]);
}
