//! Programs that tests run as clients: psql, pgbench, Python, Go.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::find_program;
use crate::target::Target;

/// Finds a program, or says on one line that its test is skipped, which `bin/test` counts. `variable` names another one.
pub fn program(name: &str, variable: &str) -> Option<PathBuf> {
    let mut extra: Vec<PathBuf> = vec!["/usr/local/go/bin".into()];
    for entry in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        extra.push(entry.path().join("bin"));
    }
    let found = std::env::var_os(variable).map(PathBuf::from).or_else(|| find_program(name, &extra));
    if found.is_none() {
        eprintln!("SKIPPED: {name} is not installed and {variable} is not set");
    }
    found
}

/// Finds a Python that has a module, or says that the test is skipped.
pub fn python(module: &str) -> Option<PathBuf> {
    let python = program("python3", "GLIMPSE_PYTHON")?;
    let there = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    eprintln!("SKIPPED: {} has no module {module}: bin/test makes an environment that has", python.display());
    None
}

/// A command that connects to the target through the environment.
pub fn client(program: &Path, target: &Target) -> Command {
    let mut command = Command::new(program);
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", target.addr().port().to_string())
        .env("PGUSER", "materialize")
        .env("PGDATABASE", "materialize")
        .env("PGCONNECT_TIMEOUT", "20");
    command
}

/// Runs a command that must succeed, and returns what it printed.
pub fn run(command: &mut Command) -> String {
    match try_run(command) {
        Ok(said) => said,
        Err(said) => panic!("{command:?}: {said}"),
    }
}

/// Runs a command, and returns what it printed, as an error if it failed.
pub fn try_run(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(format!("{}\n{said}", output.status)) }
}
