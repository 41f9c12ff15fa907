//! What happens to servers while clients are at work.

use std::fmt;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::deployment::{Deployment, Store};
use crate::stage::Stage;

/// How long it is between two faults, at the least and at the most, in milliseconds.
const CALM_MS: std::ops::Range<u64> = 200..1_500;
/// How long a fault that lasts lasts, in milliseconds: longer than a lease, at times.
const TROUBLE_MS: std::ops::Range<u64> = 50..1_500;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// Nothing.
    Calm,
    /// `kill -9`, and a start on the same data.
    Kill,
    /// SIGSTOP, and after a while SIGCONT.
    Pause,
    /// Connections are cut, and delayed, between clients and server; and between server and store if there is one.
    Network,
    /// The store ends without a checkpoint, and starts again.
    StoreRestart,
    /// The wall clock jumps, forward by up to an hour and back by less than time may be ahead of it.
    Clock,
    /// A second server is started on the same data. It must refuse; clients use it if it does not.
    Second,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Fault {
    /// Those that can happen to servers with such a store.
    pub fn of(store: Store) -> &'static [Fault] {
        match store {
            Store::Embedded => &[Fault::Kill, Fault::Pause, Fault::Network, Fault::Clock, Fault::Calm],
            Store::Postgres => &[Fault::StoreRestart, Fault::Kill, Fault::Network, Fault::Pause],
        }
    }
}

impl Fault {
    /// Whether it is the same for clients of every door: nothing happens between clients and server, and there is one server.
    pub fn is_of_all_doors(self) -> bool {
        !matches!(self, Fault::Network | Fault::Second)
    }
}

/// How long a history is.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// At the least.
    pub duration: Duration,
    /// Operations at the least; it lasts as long as that takes, but not for ever.
    pub operations: u64,
}

/// What is done to the servers of one history.
#[derive(Clone, Copy, Debug)]
pub struct Ordeal {
    /// What happens to them.
    pub fault: Fault,
    /// What decides when, and what clients ask.
    pub seed: u64,
    /// How long it is.
    pub extent: Extent,
}

/// Until the end of the history, which it decides, lets a fault happen again and again; returns how often it did. Afterwards
/// everything runs.
pub fn torment(deployment: &mut Deployment, stage: &Stage, ordeal: Ordeal) -> anyhow::Result<u64> {
    let Ordeal { fault, seed, extent } = ordeal;
    let (mut random, started, mut count) = (StdRng::seed_from_u64(seed), Instant::now(), 0);
    let is_over = || {
        let elapsed = started.elapsed();
        let is_long = elapsed >= extent.duration && stage.counts().operations >= extent.operations;
        stage.is_over() || is_long || elapsed >= extent.duration * 10
    };
    while !is_over() {
        rest(Duration::from_millis(random.random_range(CALM_MS)), is_over);
        if fault == Fault::Calm || is_over() {
            continue;
        }
        let trouble = Duration::from_millis(random.random_range(TROUBLE_MS));
        let struck = strike(deployment, stage, fault, trouble, &mut random);
        if struck.is_err() {
            stage.end();
        }
        count += u64::from(struck?);
    }
    stage.end();
    Ok(count)
}

/// Lets a fault happen; whether it could.
fn strike(
    deployment: &mut Deployment,
    stage: &Stage,
    fault: Fault,
    trouble: Duration,
    random: &mut StdRng,
) -> anyhow::Result<bool> {
    match fault {
        Fault::Calm => return Ok(false),
        Fault::Kill => {
            deployment.check_log()?;
            deployment.server.kill9()?;
            deployment.server.restart()?;
        }
        Fault::Pause => {
            deployment.server.signal("STOP")?;
            std::thread::sleep(trouble);
            deployment.server.signal("CONT")?;
        }
        Fault::Network => {
            let networks = deployment.store_network.iter().chain([&deployment.network]);
            let networks: Vec<_> = networks.collect();
            let network = networks[random.random_range(0..networks.len())];
            if random.random_bool(0.5) {
                network.cut();
            } else {
                network.delay(Duration::from_millis(random.random_range(1..100)));
            }
            std::thread::sleep(trouble);
            network.heal();
        }
        Fault::Clock => {
            let Some(clock) = &mut deployment.clock else { return Ok(false) };
            // Back from where it was the furthest, whence writes have their times.
            let furthest = deployment.clock_furthest;
            let next: f64 = match random.random_range(0..4) {
                0 | 1 => f64::max(furthest - random.random_range(0.0..8.0), 0.0),
                2 => furthest + random.random_range(0.0..10.0),
                _ => furthest + random.random_range(0.0..3_600.0),
            };
            deployment.clock_furthest = furthest.max(next);
            clock.set(Duration::from_secs_f64(next))?;
        }
        Fault::Second => {
            if deployment.second.is_some() {
                return Ok(false);
            }
            if let Ok(second) = deployment.server.beside(&[]) {
                stage.move_to(vec![deployment.network.addr, second.internal_sql_addr()]);
                deployment.second = Some(second);
                deployment.network.cut();
                deployment.network.heal();
            }
        }
        Fault::StoreRestart => {
            let Some(store) = &mut deployment.store else { return Ok(false) };
            store.kill9()?;
            store.restart()?;
        }
    }
    Ok(true)
}

/// Waits, but not beyond the end.
pub fn rest(duration: Duration, is_over: impl Fn() -> bool) {
    let until = Instant::now() + duration;
    while Instant::now() < until && !is_over() {
        std::thread::sleep(Duration::from_millis(10));
    }
}
