//! The runner behind `bin/test`: chooses suites, builds what they need, runs several at once, and says what came of it.
//!
//! Which suites there are, what each may take and what touches it is data: `test/suites.txt`, read by [`map`].
//! [`workspace`] is what cargo knows of our packages; [`select`] chooses suites, by name or by what a change touches;
//! [`build`] compiles, and refuses libraries that are compiled twice; [`run`] runs programs, each suite by itself and several
//! suites beside each other; [`report`] is everything that is printed; [`timings`] is where the time of builds went.
//!
//! # Invariants
//! - Every test of the workspace is in a suite of the map: a program that the map does not name is an error.
//! - A suite that was chosen is run, or counts as failed; so does a program that ends without libtest's verdict.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::map::Map;
use crate::options::{Choice, Options};
use crate::workspace::Workspace;

mod build;
mod map;
mod options;
mod report;
mod run;
mod select;
mod timings;
mod workspace;

fn main() -> ExitCode {
    match test() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report::fatal(&error);
            ExitCode::from(2)
        }
    }
}

/// Whether everything that was chosen passed.
fn test() -> Result<bool> {
    let options = Options::parse(std::env::args().skip(1))?;
    // bin/test starts this from the root.
    let root = std::env::current_dir()?;
    let workspace = Workspace::read(&root)?;
    let map = Map::read(&root, &workspace)?;
    let chosen = match &options.choice {
        Choice::All => select::all(&map),
        Choice::Only(names) => select::named(&map, names)?,
        Choice::Changed(since) => select::changed(&map, &workspace, &root, since.as_deref())?,
    };
    report::chosen(&chosen, &options);
    if options.list {
        return Ok(true);
    }
    let _alone = alone()?;
    let prepared = build::prepare(&chosen, options.install)?;
    // Also what a change of Cargo.toml chooses, which is what has libraries compiled twice.
    let whole = chosen.len() == map.suites.len();
    let built = build::build(&workspace, &chosen, whole, options.timings);
    // Waited for in any case: it does not outlive this run, and what does not compile is told first.
    let prepared = prepared.wait();
    let (built, ()) = (built?, prepared?);
    let logs: PathBuf = target_dir()?.join("test-logs");
    let outcomes = run::run(&chosen, &built, &logs, &options)?;
    if options.timings {
        report::timings(&timings::crates(&built)?, &outcomes);
    }
    Ok(report::outcomes(&outcomes))
}

/// Waits until no other run has this target directory: each would run what the other builds.
fn alone() -> Result<File> {
    let path = target_dir()?.join("test.lock");
    let lock = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    match lock.try_lock() {
        Ok(()) => return Ok(lock),
        Err(TryLockError::WouldBlock) => report::waiting(&path),
        Err(TryLockError::Error(error)) => return Err(error).context("lock the target directory"),
    }
    lock.lock().context("lock the target directory")?;
    Ok(lock)
}

/// Where builds go; bin/test says it.
fn target_dir() -> Result<PathBuf> {
    std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).context("CARGO_TARGET_DIR is not set")
}
