//! A small budget of fuzzing. `bin/fuzz` has a large one.
//!
//! `FUZZ_SEED` repeats a run.

use glimpse_fuzz::{TARGETS, drive, target};
use glimpse_test::amount;

/// Executions of a target that takes microseconds, and of one that plans statements.
const QUICK: u64 = 100_000;
const SLOW: u64 = 2_000;

fn fuzz(name: &str, executions: u64) {
    let given = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    match drive::run(target(name), seed, 0, amount(executions), None) {
        Ok(report) => eprintln!("{name}: {report:?}, FUZZ_SEED={seed}"),
        Err(failure) => panic!(
            "execution {} of FUZZ_SEED={seed}: {}\n{}",
            failure.number,
            failure.message,
            failure.input.escape_ascii()
        ),
    }
}

#[test]
fn what_is_right_passes() {
    for target in TARGETS {
        for seed in (target.seeds)() {
            assert_eq!(drive::execute(target, &seed), Ok(()), "{}: {}", target.name, seed.escape_ascii());
        }
    }
}

#[test]
fn the_wire() {
    for name in ["frames", "bodies", "packets", "scram"] {
        fuzz(name, QUICK);
    }
}

#[test]
fn http_and_flight() {
    for name in ["shown", "http_request", "http_line", "flight_command"] {
        fuzz(name, QUICK);
    }
    // Each of their executions is a connection, or a stream read twice.
    for name in ["arrow", "http_port", "flight_port"] {
        fuzz(name, 5 * SLOW);
    }
}

#[test]
fn rows_of_copy() {
    for name in ["copy_text", "copy_csv", "copy_binary"] {
        fuzz(name, QUICK);
    }
}

#[test]
fn values() {
    for name in ["binary", "text"] {
        fuzz(name, QUICK);
    }
}

#[test]
fn statements() {
    for (name, executions) in [("parse", 10 * SLOW), ("lift", 10 * SLOW), ("plan", SLOW)] {
        fuzz(name, executions);
    }
}

/// Those of cargo-fuzz are the same.
#[test]
fn every_target_is_a_program() {
    let manifest = include_str!("../Cargo.toml");
    for target in TARGETS {
        let path = format!("fuzz_targets/{}.rs", target.name);
        assert!(manifest.contains(&format!("name = \"{}\"\npath = \"{path}\"", target.name)), "{path} is no program");
        let source =
            std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&path)).expect("a source");
        let called = format!("prepare(&{0}), |bytes: &[u8]| ({0}.run)(bytes)", target.name.to_uppercase());
        assert!(source.contains(&called), "{path} runs another target");
    }
}
