//! Servers with a bug on purpose, and what finds it: a checker that has never failed proves nothing.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use bugs::Bug;

use crate::deployment::{Setup, Store};
use crate::faults::{Extent, Fault};
use crate::runs::{Workload, history};
use crate::takeover;

/// Within which a bug is found.
pub const FOUND_WITHIN: Duration = Duration::from_secs(60);
/// Histories that are tried.
const ATTEMPTS: u64 = 3;
const EXTENT: Extent = Extent { duration: Duration::from_secs(6), operations: 500 };

/// How a bug was found.
#[derive(Debug)]
pub struct Found {
    bug: Bug,
    took: Duration,
    /// What the checker said.
    said: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { bug, took, said } = self;
        let line: String = said.lines().take(2).collect::<Vec<_>>().join(" ").chars().take(240).collect();
        write!(f, "{} found in {:.1} s: {line}", bug.name(), took.as_secs_f64())
    }
}

/// Lets the checker that should find a bug find it, and then judge the same server without it.
pub fn control(bug: Bug, seed: u64) -> anyhow::Result<Found> {
    let setup = Setup::default();
    let started = Instant::now();
    let with_bug = Setup { bug: Some(bug), ..setup.clone() };
    let said = (0..ATTEMPTS).find_map(|attempt| judge(&with_bug, bug, seed.wrapping_add(attempt)).err());
    let took = started.elapsed();
    let said = said.ok_or_else(|| anyhow!("{} is not found in {took:?}, seed {seed}", bug.name()))?;
    ensure!(took < FOUND_WITHIN, "{} is found, but only after {took:?}, seed {seed}", bug.name());
    judge(&setup, bug, seed).map_err(|error| error.context(format!("without {}", bug.name())))?;
    Ok(Found { bug, took, said: format!("{said:#}") })
}

/// The run that should find a bug; an error is what it has found.
fn judge(setup: &Setup, bug: Bug, seed: u64) -> anyhow::Result<()> {
    let (workload, fault) = match bug {
        Bug::RaisedBeforeDurable => (Workload::Lists, Fault::Kill),
        Bug::AcknowledgedBeforeRaised | Bug::TransactionsHoldNothing => (Workload::Lists, Fault::Calm),
        Bug::FarFuture => (Workload::Bank, Fault::Calm),
        Bug::EmptyUpdateIsStale | Bug::PlanOutlivesDdl => (Workload::Registers, Fault::Calm),
        Bug::KeysUnclaimed => (Workload::Keys, Fault::Calm),
        Bug::OrphansCommitted => (Workload::References, Fault::Calm),
        Bug::RefreshSkipped | Bug::UnlockedBeforeDurable => (Workload::Levels, Fault::Calm),
        Bug::FenceLost => (Workload::Registers, Fault::Second),
        Bug::StoppedOwnerReads => return takeover::run(setup, seed).map(drop),
    };
    history(workload, &Setup { store: Store::Embedded, ..setup.clone() }, fault, seed, EXTENT).map(drop)
}
