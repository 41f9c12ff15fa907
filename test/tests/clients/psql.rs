//! psql: what its meta commands show, a session of what people type, and what the tabulator key completes.
//!
//! The same psql talks to a PostgreSQL as well, and what it prints must be the same, but for the commands that
//! `test/clients/psql/commands.txt` marks: `~ reason` in front of one says that it is only to succeed, `! reason` that it
//! fails, which a command that has learned to succeed is told by this test.

use std::path::Path;

use glimpse_test::postgres_server::find_bin;
use glimpse_test::programs::{program, run, try_run};
use glimpse_test::secured::Secured;

use crate::{RULES, secure, server, suite};

/// What is expected of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Same,
    Success,
    Failure,
}

fn commands() -> Vec<(String, Expected)> {
    let text = std::fs::read_to_string(suite("psql/commands.txt")).expect("the commands");
    let (mut commands, mut next) = (Vec::new(), Expected::Same);
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.as_bytes()[0] {
            b'~' => next = Expected::Success,
            b'!' => next = Expected::Failure,
            _ => commands.push((line.to_owned(), std::mem::replace(&mut next, Expected::Same))),
        }
    }
    commands
}

/// A server with the suite's objects.
fn prepared(psql: &Path, server: Secured) -> Secured {
    run(secure(psql, &server.target).args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(suite("psql/setup.sql")));
    server
}

/// The referee, if there is a server beside its psql.
fn referee(psql: &Path) -> Option<Secured> {
    if find_bin().is_err() {
        eprintln!("SKIPPED: psql's output is not compared: there is no PostgreSQL server here");
        return None;
    }
    Some(prepared(psql, crate::referee(RULES)))
}

/// What psql prints for a file of commands, errors among the rest where they happen.
fn outputs(psql: &Path, server: &Secured, file: &Path) -> String {
    let mut command = secure(psql, &server.target);
    command.env("PGTZ", "UTC").args(["-X", "-f"]).arg(file);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec 2>&1; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    try_run(&mut shell).unwrap_or_else(|said| said)
}

#[test]
fn psql_meta_commands() {
    let Some(psql) = program("psql", "GLIMPSE_PSQL") else { return };
    let glimpse = prepared(&psql, server(RULES));
    let Some(postgres) = referee(&psql) else { return };
    let commands = commands();
    let script = tempfile::NamedTempFile::new().expect("a file");
    let lines: Vec<String> = commands.iter().map(|(command, _)| format!("{command}\n\\echo ====")).collect();
    std::fs::write(script.path(), lines.join("\n") + "\n").expect("written");
    let [theirs, ours] = [&postgres, &glimpse].map(|server| outputs(&psql, server, script.path()));
    let (theirs, ours): (Vec<&str>, Vec<&str>) = (theirs.split("====\n").collect(), ours.split("====\n").collect());
    assert_eq!((theirs.len(), ours.len()), (commands.len() + 1, commands.len() + 1), "{ours:?}");
    let mut wrong = String::new();
    for (((command, expected), theirs), ours) in commands.iter().zip(theirs).zip(ours) {
        let failed = ours.contains("ERROR:");
        let holds = match expected {
            _ if !glimpse.target.is_glimpse() => true,
            Expected::Same => ours == theirs,
            Expected::Success => !failed,
            Expected::Failure => failed,
        };
        if !holds {
            wrong += &format!("{command}: expected {expected:?}\nPostgreSQL:\n{theirs}\nGlimpse:\n{ours}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn psql_session() {
    let Some(psql) = program("psql", "GLIMPSE_PSQL") else { return };
    let glimpse = prepared(&psql, server(RULES));
    let Some(postgres) = referee(&psql) else { return };
    let script = suite("psql/session.sql");
    let [theirs, ours] = [&postgres, &glimpse].map(|server| outputs(&psql, server, &script));
    let mut section = "";
    for (at, (theirs, ours)) in theirs.lines().zip(ours.lines()).enumerate() {
        if theirs.starts_with("==") {
            section = theirs;
        }
        assert_eq!(ours, theirs, "line {at}, in {section}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn psql_completion() {
    let (Some(psql), Some(python)) = (program("psql", "GLIMPSE_PSQL"), program("python3", "GLIMPSE_PYTHON")) else {
        return;
    };
    let server = prepared(&psql, server(RULES));
    crate::passes(secure(&python, &server.target).arg(suite("psql/complete.py")).arg(&psql));
}
