//! One history after the other: deploy, let clients and faults at it, judge.

use std::fmt;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};

use crate::clock::{WallClock, shown};
use crate::deployment::{Deployment, Setup, Store, wrong};
use crate::faults::{Extent, Fault, Ordeal, torment};
use crate::levels::Levels;
use crate::lists::Lists;
use crate::registers::Registers;
use crate::stage::{Counts, Stage};
use crate::{bank, keys, levels, linearizable, list_append, lists, references, registers};

/// Clients of a history.
const CLIENTS: usize = 12;
/// How long an answer may take after faults are over.
const PATIENCE: Duration = Duration::from_secs(40);
/// How far time may be ahead of the clock, and a moment for asking.
const AHEAD_MAX: Duration = Duration::from_secs(11);
/// Violations that are printed.
const PRINTED_MAX: usize = 5;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Registers and a view's definition, judged by porcupine.
    Registers,
    /// Transactions over lists, and a SUBSCRIBE, judged by our cycle checker.
    Lists,
    /// Transfers that keep a total.
    Bank,
    /// Rows of a table with a primary key.
    Keys,
    /// Rows that refer to others.
    References,
    /// Lists of rows with keys, at both levels.
    Levels,
}

impl Workload {
    /// All.
    pub const ALL: [Workload; 6] =
        [Workload::Registers, Workload::Lists, Workload::Bank, Workload::Keys, Workload::References, Workload::Levels];
}

impl Workload {
    /// Whether clients of every door can do it: Flight SQL has transactions of one kind.
    pub fn is_of_all_doors(self) -> bool {
        self != Workload::Levels
    }
}

/// What a history was, if nothing was wrong with it.
#[derive(Clone, Debug)]
pub struct Report {
    workload: Workload,
    store: Store,
    by: &'static str,
    fault: Fault,
    seed: u64,
    /// How often the fault happened.
    pub faults: u64,
    /// What clients met with.
    pub counts: Counts,
    took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { workload, store, by, fault, seed, faults, counts, took } = self;
        let Counts { operations, lost, refused } = counts;
        write!(
            f,
            "{workload:?} on {store:?}{by}: {operations} operations, {lost} unknown, {refused} refused, {faults} x {fault}, \
             {:.1} s, seed {seed}: explained",
            took.as_secs_f64()
        )
    }
}

/// What decides the runs of a test: `CONSISTENCY_SEED`, or chance.
pub fn seed() -> u64 {
    std::env::var("CONSISTENCY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random)
}

/// Makes a history and judges it. An error says what is wrong and how to make such a history again.
pub fn history(workload: Workload, setup: &Setup, fault: Fault, seed: u64, extent: Extent) -> anyhow::Result<Report> {
    let started = Instant::now();
    let by = if setup.all_doors { " by all doors" } else { "" };
    let again = format!("{workload:?} on {:?}{by} with {fault}, seed {seed}", setup.store);
    let setup =
        &Setup { jumping_clock: fault == Fault::Clock, is_straight: workload == Workload::Levels, ..setup.clone() };
    let mut deployment = Deployment::start(setup)?;
    if setup.all_doors {
        // Who comes by Flight is not the system user.
        let granted = "ALTER DEFAULT PRIVILEGES FOR ROLE mz_system GRANT ALL ON TABLES TO materialize";
        deployment.session()?.execute(granted).map_err(|failure| wrong(&failure))?;
    }
    let stage = Stage::new(vec![deployment.network.addr]);
    let stage = if setup.all_doors { stage.by_all(deployment.doors()) } else { stage };
    let ordeal = Ordeal { fault, seed, extent };
    let judged = match workload {
        Workload::Registers => of_registers(&mut deployment, &stage, ordeal),
        Workload::Lists => of_lists(&mut deployment, &stage, ordeal),
        Workload::Bank => of_bank(&mut deployment, &stage, ordeal),
        Workload::Keys => of_keys(&mut deployment, &stage, ordeal),
        Workload::References => of_references(&mut deployment, &stage, ordeal),
        Workload::Levels => of_levels(&mut deployment, &stage, ordeal),
    };
    let judged = judged.and_then(|faults| {
        deployment.check_log()?;
        check_time(&deployment)?;
        Ok(faults)
    });
    let faults = judged.map_err(|error| anyhow!("{again}: {error:#}"))?;
    Ok(Report {
        workload,
        store: setup.store,
        by,
        fault,
        seed,
        faults,
        counts: stage.counts(),
        took: started.elapsed(),
    })
}

/// Lets clients work while faults happen; returns what the clients recorded, and how often the fault happened.
fn perform<H: Send>(
    deployment: &mut Deployment,
    stage: &Stage,
    ordeal: Ordeal,
    clients: impl FnOnce() -> H + Send,
) -> anyhow::Result<(H, u64)> {
    let (recorded, faults) = std::thread::scope(|scope| {
        let running = scope.spawn(clients);
        let faults = torment(deployment, stage, ordeal);
        await_end(&running, deployment, stage);
        (running.join(), faults)
    });
    let faults = faults?;
    let reports = stage.reports();
    if !reports.is_empty() {
        bail!("{}", reports.into_iter().take(PRINTED_MAX).collect::<Vec<_>>().join("\n"));
    }
    Ok((recorded.map_err(|_| anyhow!("a client panicked"))?, faults))
}

/// Whoever has no answer when everything has been well for long will not get one: then its connection is cut.
fn await_end<H>(running: &ScopedJoinHandle<'_, H>, deployment: &Deployment, stage: &Stage) {
    let until = Instant::now() + PATIENCE;
    while !running.is_finished() {
        if Instant::now() > until {
            stage.report(format!("no answer for {} s", PATIENCE.as_secs()));
            deployment.network.cut();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn of_registers(deployment: &mut Deployment, stage: &Stage, ordeal: Ordeal) -> anyhow::Result<u64> {
    registers::prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let clients = || Registers::default().run(stage, CLIENTS, ordeal.seed);
    let (history, faults) = perform(deployment, stage, ordeal, clients)?;
    refuse(linearizable::check(&history)?)?;
    Ok(faults)
}

fn of_lists(deployment: &mut Deployment, stage: &Stage, ordeal: Ordeal) -> anyhow::Result<u64> {
    lists::prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let lists = Lists::default();
    let clients = || lists.run(stage, CLIENTS, ordeal.seed);
    let (mut history, faults) = perform(deployment, stage, ordeal, clients)?;
    let last = lists.last_word(stage, &mut deployment.session()?);
    history.extend(last.map_err(|failure| wrong(&failure))?);
    refuse(list_append::check(&history))?;
    Ok(faults)
}

fn of_bank(deployment: &mut Deployment, stage: &Stage, ordeal: Ordeal) -> anyhow::Result<u64> {
    bank::prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let clients = || bank::run(stage, CLIENTS, ordeal.seed);
    let (moves, faults) = perform(deployment, stage, ordeal, clients)?;
    bank::last_word(&mut deployment.session()?, moves).map_err(|failure| wrong(&failure))?;
    Ok(faults)
}

fn of_keys(deployment: &mut Deployment, stage: &Stage, ordeal: Ordeal) -> anyhow::Result<u64> {
    keys::prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let clients = || keys::run(stage, CLIENTS, ordeal.seed);
    let (deeds, faults) = perform(deployment, stage, ordeal, clients)?;
    keys::last_word(&mut deployment.session()?, &deeds).map_err(|failure| wrong(&failure))?;
    Ok(faults)
}

fn of_references(deployment: &mut Deployment, stage: &Stage, ordeal: Ordeal) -> anyhow::Result<u64> {
    references::prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let clients = || references::run(stage, CLIENTS, ordeal.seed);
    let (deeds, faults) = perform(deployment, stage, ordeal, clients)?;
    references::last_word(&mut deployment.session()?, &deeds).map_err(|failure| wrong(&failure))?;
    Ok(faults)
}

fn of_levels(deployment: &mut Deployment, stage: &Stage, ordeal: Ordeal) -> anyhow::Result<u64> {
    levels::prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let levels = Levels::default();
    let clients = || levels.run(stage, CLIENTS, ordeal.seed);
    let (mut history, faults) = perform(deployment, stage, ordeal, clients)?;
    let last = levels::last_word(stage, &mut deployment.session()?);
    history.push(last.map_err(|failure| wrong(&failure))?);
    refuse(levels::check(&history))?;
    Ok(faults)
}

/// Time is never ahead of the clock by more than a bound, or later reads would have to wait for it, after restarts too.
fn check_time(deployment: &Deployment) -> anyhow::Result<()> {
    let time = deployment.session()?.value("SELECT mz_now()::text::int8").map_err(|failure| wrong(&failure))?;
    let time = time.and_then(|time| time.parse().ok()).map(Duration::from_micros).context("a time")?;
    let ahead = time.saturating_sub(shown(deployment.clock.as_ref().map_or(Duration::ZERO, WallClock::ahead)));
    ensure!(ahead < AHEAD_MAX, "time is {ahead:?} ahead of the clock");
    Ok(())
}

fn refuse<A: fmt::Display>(anomalies: Vec<A>) -> anyhow::Result<()> {
    if anomalies.is_empty() {
        return Ok(());
    }
    let printed: Vec<String> = anomalies.iter().take(PRINTED_MAX).map(ToString::to_string).collect();
    bail!("{} violations:\n{}", anomalies.len(), printed.join("\n"))
}
