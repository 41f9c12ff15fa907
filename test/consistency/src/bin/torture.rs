//! `bin/torture`: histories, crashes and races for as long as one likes.
//!
//! Each part has a share of the time; whichever has had the least of its share is next. Every run has a seed, which is printed.
#![allow(clippy::print_stdout, reason = "it reports to whoever runs it")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use glimpse_consistency::crash::{self, DiskError};
use glimpse_consistency::deployment::{Setup, Store};
use glimpse_consistency::faults::{Extent, Fault};
use glimpse_consistency::runs::{Workload, history};
use glimpse_consistency::{races, takeover};

/// Torments servers and judges what clients saw.
#[derive(Debug, Parser)]
#[command(name = "bin/torture")]
struct Options {
    /// For how long
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Only this
    #[arg(long)]
    only: Option<Part>,
    /// Histories only with this fault; by turns otherwise
    #[arg(long)]
    fault: Option<Fault>,
    /// Only what runs on this store; by turns otherwise
    #[arg(long)]
    store: Option<Store>,
    /// Clients of histories come by all doors wherever they can; by turns otherwise
    #[arg(long)]
    all_doors: bool,
    /// The seed of the first run; the others follow it
    #[arg(long)]
    seed: Option<u64>,
    /// Seconds of a history at the least
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// What there is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Histories of registers
    Registers,
    /// Histories of lists
    Lists,
    /// Histories of transfers
    Bank,
    /// Histories of rows with keys
    Keys,
    /// Histories of rows that refer to others
    References,
    /// Histories of rows with keys, at both levels
    Levels,
    /// kill -9 under writers
    Crash,
    /// Disks that are full, or fail
    Disk,
    /// Readers, DDL, compaction, restarts
    Races,
    /// A stopped server that was replaced
    Takeover,
}

/// Operations of a history at the least.
const OPERATIONS: u64 = 2_000;
/// How long one run of crashes or races is.
const RUN: Duration = Duration::from_secs(30);

impl Part {
    /// Of the time, beside the others' shares. Where each commit goes to a PostgreSQL, writes need more of it and readers,
    /// whom writers disturb less, need little.
    fn share(self, store: Option<Store>) -> u32 {
        match (self, store) {
            (Part::Registers | Part::Lists | Part::Bank | Part::Keys | Part::References | Part::Levels, _) => 12,
            (Part::Crash, Some(Store::Postgres)) => 50,
            (Part::Races, Some(Store::Postgres)) => 12,
            (Part::Crash, _) => 45,
            (Part::Races, _) => 25,
            (Part::Disk | Part::Takeover, _) => 2,
        }
    }

    fn runs_on(self, store: Store) -> bool {
        match self {
            Part::Disk => store == Store::Embedded,
            Part::Takeover => store == Store::Postgres,
            _ => true,
        }
    }
}

impl Options {
    fn selects(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part) && self.store.is_none_or(|store| part.runs_on(store))
    }

    /// Where the next run of a part is.
    fn store(&self, part: Part, turn: u64) -> Store {
        let by_turns = if turn.is_multiple_of(2) { Store::Embedded } else { Store::Postgres };
        let needed = (self.fault == Some(Fault::StoreRestart)).then_some(Store::Postgres);
        let wanted = self.store.or(needed).unwrap_or(by_turns);
        if part.runs_on(wanted) {
            return wanted;
        }
        if part.runs_on(Store::Embedded) { Store::Embedded } else { Store::Postgres }
    }
}

/// What was done in all.
#[derive(Debug, Default)]
struct Totals {
    histories: u64,
    operations: u64,
    kills: u64,
    acknowledged: u64,
    rows: u64,
    peeks: u64,
    failed: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let until = Instant::now() + Duration::from_secs(options.minutes * 60);
    let parts = Part::value_variants().iter().copied().filter(|part| options.selects(*part));
    let mut used: Vec<(Part, Duration, u64)> = parts.map(|part| (part, Duration::ZERO, 0)).collect();
    if used.is_empty() || (options.fault == Some(Fault::StoreRestart) && options.store == Some(Store::Embedded)) {
        println!(
            "there is no such run: disks are tested on the embedded store, take-overs and its restarts on postgres"
        );
        return ExitCode::FAILURE;
    }
    let (mut seed, mut totals) = (options.seed.unwrap_or_else(rand::random), Totals::default());
    while Instant::now() < until {
        let Some(next) = used.iter_mut().min_by_key(|(part, time, _)| *time / part.share(options.store)) else { break };
        let (part, time, turn) = next;
        let started = Instant::now();
        match run(*part, *turn, seed, &options, &mut totals) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                println!("VIOLATION in {part:?}, seed {seed}: {error:#}");
                totals.failed += 1;
            }
        }
        *time += started.elapsed();
        *turn += 1;
        seed = seed.wrapping_add(1);
    }
    let Totals { histories, operations, kills, acknowledged, rows, peeks, failed } = totals;
    println!(
        "{histories} histories of {operations} operations, {kills} kills under {acknowledged} acknowledged writes of {rows} rows, \
         {peeks} peeks in races: {failed} violations"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(part: Part, turn: u64, seed: u64, options: &Options, totals: &mut Totals) -> anyhow::Result<String> {
    let store = options.store(part, turn);
    let setup = Setup { store, ..Setup::default() };
    let workload = match part {
        Part::Registers => Workload::Registers,
        Part::Lists => Workload::Lists,
        Part::Bank => Workload::Bank,
        Part::Keys => Workload::Keys,
        Part::References => Workload::References,
        Part::Levels => Workload::Levels,
        Part::Crash => {
            let report = crash::kills(&setup, seed, RUN)?;
            totals.kills += report.kills;
            totals.acknowledged += report.acknowledged;
            totals.rows += report.rows;
            return Ok(format!("Crash on {store:?}: {report}, seed {seed}"));
        }
        Part::Disk => {
            let report = match turn % 3 {
                0 => crash::full_disk(seed)?,
                1 => crash::disk_errors(DiskError::Sync, seed)?,
                _ => crash::disk_errors(DiskError::NoRoom, seed)?,
            };
            return Ok(report.map_or("Disk: skipped".to_owned(), |report| format!("Disk: {report}, seed {seed}")));
        }
        Part::Races => {
            let report = races::run(&setup, seed, RUN)?;
            totals.peeks += report.peeks;
            return Ok(format!("Races on {store:?}: {report}, seed {seed}"));
        }
        Part::Takeover => {
            let report = takeover::run(&setup, seed)?;
            return Ok(format!("Takeover: {report:?}, seed {seed}"));
        }
    };
    let faults = Fault::of(store);
    let by_turns = faults[usize::try_from(turn / 2).unwrap_or_default() % faults.len()];
    let extent = Extent { duration: Duration::from_secs(options.seconds), operations: OPERATIONS };
    let fault = options.fault.unwrap_or(by_turns);
    let all_doors = options.all_doors || turn % 4 >= 2;
    let all_doors = all_doors && workload.is_of_all_doors() && fault.is_of_all_doors();
    let report = history(workload, &Setup { all_doors, ..setup }, fault, seed, extent)?;
    totals.histories += 1;
    totals.operations += report.counts.operations;
    Ok(report.to_string())
}
