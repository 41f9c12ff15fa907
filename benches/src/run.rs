//! One run: N connections on a few threads, a warm-up, a measured window, and what was counted in it.
//!
//! How, in steps:
//! 1. Each thread connects its share of the connections, prepares the statements and reports that it is ready.
//! 2. When all are ready the phase becomes WARMING, then MEASURING, then STOPPED. Every connection runs a closed loop:
//!    the next query leaves when the last reply is complete.
//! 3. A round trip counts if it ends in the MEASURING phase. CPU times are read just outside both ends of that phase.
//! 4. RELEASED lets the connections close.
//! 5. The first failure on any connection stops the run and is its result.
//!
//! # Invariants
//! - The phase only advances (`fetch_max`). Its writer is [`run`], except that a failing thread may set STOPPED.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::connection::{Connection, Endpoint};
use crate::driver::{Driver, Kind, Plan, Verify};
use crate::histogram::Histogram;
use crate::workload::{Workload, check_pair};
use crate::{freshness, procfs};

const CONNECTING: u8 = 0;
const WARMING: u8 = 1;
const MEASURING: u8 = 2;
/// The phase in which no connection starts another query.
pub(crate) const STOPPED: u8 = 3;
/// The phase in which connections may be closed. Before it they stay open, because a PostgreSQL backend that ends while
/// the CPU times of its tree are being read would be missed.
const RELEASED: u8 = 4;

/// How long connecting, and the last replies, may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to run.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// The server.
    pub endpoint: Endpoint,
    /// What each connection asks.
    pub plan: Plan,
    /// Client threads; each has a runtime of its own.
    pub threads: u32,
    /// Time before anything is measured.
    pub warmup: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// The server's process: with it, CPU per query is reported.
    pub server_pid: Option<u32>,
    /// Whether writes beside the reads prove that the data is live.
    pub check_freshness: bool,
}

/// Quantiles of round trips, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The median.
    pub p50_us: f64,
    /// 99 in 100 are at most this.
    pub p99_us: f64,
    /// 999 in 1000 are at most this.
    pub p999_us: f64,
}

/// What was measured. A "query" is a row when the workload loads rows in bulk.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Length of the measured window.
    pub seconds: f64,
    /// Queries answered per second.
    pub qps: f64,
    /// Of these, reads.
    pub reads_per_second: f64,
    /// Of these, writes.
    pub writes_per_second: f64,
    /// All round trips.
    pub latency: Latency,
    /// Round trips of reads.
    pub read_latency: Latency,
    /// Round trips of writes.
    pub write_latency: Latency,
    /// CPU of this process, microseconds per query.
    pub client_cpu_us: f64,
    /// CPU of the server's process tree, microseconds per query.
    pub server_cpu_us: Option<f64>,
    /// Rows that the server acknowledged as written, warm-up included.
    pub rows_written: u64,
    /// Pairs of a write and a read that saw it.
    pub freshness_checks: u64,
}

impl LoadReport {
    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "seconds": self.seconds,
            "qps": self.qps,
            "reads_per_second": self.reads_per_second,
            "writes_per_second": self.writes_per_second,
            "latency": self.latency.to_json(),
            "read_latency": self.read_latency.to_json(),
            "write_latency": self.write_latency.to_json(),
            "client_cpu_us_per_query": self.client_cpu_us,
            "server_cpu_us_per_query": self.server_cpu_us,
            "rows_written": self.rows_written,
            "freshness_checks": self.freshness_checks,
        })
    }
}

impl Latency {
    fn of(histogram: &Histogram) -> Self {
        Self {
            p50_us: histogram.quantile_us(0.5),
            p99_us: histogram.quantile_us(0.99),
            p999_us: histogram.quantile_us(0.999),
        }
    }

    fn to_json(self) -> Value {
        json!({ "p50_us": self.p50_us, "p99_us": self.p99_us, "p999_us": self.p999_us })
    }
}

/// What one thread counted.
#[derive(Default)]
struct Tally {
    reads: Histogram,
    writes: Histogram,
    read_count: u64,
    write_count: u64,
    rows_written: u64,
}

/// CPU times at one moment.
struct Usage {
    client_seconds: f64,
    server_seconds: Option<f64>,
}

/// What passed between the two edges of the measured phase.
struct Window {
    seconds: f64,
    client_seconds: f64,
    server_seconds: Option<f64>,
    freshness_checks: u64,
}

/// Runs one load and reports it.
pub fn run(config: &LoadConfig) -> Result<LoadReport> {
    check_pair(config.plan.workload, config.plan.protocol)?;
    ensure!(config.plan.connections > 0, "no connections");
    ensure!(config.plan.rows >= config.plan.connections, "fewer rows than connections");
    let phase = Arc::new(AtomicU8::new(CONNECTING));
    let (events_tx, events) = channel();
    let threads = config.threads.clamp(1, config.plan.connections);
    let workers = (0..threads).map(|thread| spawn_worker(config, thread, threads, &phase, &events_tx));
    let workers: Vec<_> = workers.collect();
    drop(events_tx);
    let measured = conduct(config, threads, &phase, &events);
    advance(&phase, RELEASED);
    let mut total = Tally::default();
    for worker in workers {
        let tally = worker.join().map_err(|_| anyhow!("a client thread panicked"))??;
        total.merge(&tally);
    }
    Ok(report(&total, &measured?))
}

/// Steps 2 and 3: moves the phase on, and reads the clocks at its edges.
fn conduct(config: &LoadConfig, threads: u32, phase: &Arc<AtomicU8>, events: &Receiver<Result<()>>) -> Result<Window> {
    for _ in 0..threads {
        events.recv_timeout(PATIENCE).context("the connections were not ready in time")??;
    }
    advance(phase, WARMING);
    let checker = spawn_checker(config, phase);
    sleep(config.warmup, events)?;
    // Reading the tree's CPU times takes milliseconds when there are a thousand backends: outside of the window.
    let before = usage(config)?;
    let start = Instant::now();
    advance(phase, MEASURING);
    sleep(config.duration, events)?;
    advance(phase, STOPPED);
    let seconds = start.elapsed().as_secs_f64();
    let after = usage(config)?;
    let freshness_checks = match checker {
        Some(checker) => checker.join().map_err(|_| anyhow!("the freshness check panicked"))??,
        None => 0,
    };
    Ok(Window {
        seconds,
        client_seconds: after.client_seconds - before.client_seconds,
        server_seconds: after.server_seconds.zip(before.server_seconds).map(|(after, before)| after - before),
        freshness_checks,
    })
}

fn advance(phase: &AtomicU8, next: u8) {
    phase.fetch_max(next, Ordering::Relaxed);
}

/// Sleeps, unless a thread reports a failure first.
fn sleep(duration: Duration, events: &Receiver<Result<()>>) -> Result<()> {
    match events.recv_timeout(duration) {
        Ok(event) => event,
        Err(RecvTimeoutError::Timeout) => Ok(()),
        // Every thread is gone before its time: joining them tells why.
        Err(RecvTimeoutError::Disconnected) => Ok(()),
    }
}

fn usage(config: &LoadConfig) -> Result<Usage> {
    Ok(Usage {
        client_seconds: procfs::cpu_seconds(std::process::id())?,
        server_seconds: config.server_pid.map(procfs::tree_cpu_seconds).transpose()?,
    })
}

fn spawn_checker(config: &LoadConfig, phase: &Arc<AtomicU8>) -> Option<JoinHandle<Result<u64>>> {
    let reads = matches!(config.plan.workload, Workload::SelectStar | Workload::Point);
    if !config.check_freshness || !reads || config.plan.verify == Verify::Shape {
        return None;
    }
    let (endpoint, phase) = (config.endpoint.clone(), Arc::clone(phase));
    let (workload, fresh_ids) = (config.plan.workload, config.plan.fresh_ids);
    Some(spawn(move || freshness::check(&endpoint, workload, fresh_ids, &phase)))
}

fn spawn_worker(
    config: &LoadConfig,
    thread: u32,
    threads: u32,
    phase: &Arc<AtomicU8>,
    events: &Sender<Result<()>>,
) -> JoinHandle<Result<Tally>> {
    let (config, phase, events) = (config.clone(), Arc::clone(phase), events.clone());
    spawn(move || {
        let result = work(&config, thread, threads, &phase, &events);
        if let Err(error) = &result {
            advance(&phase, STOPPED);
            // The conductor may have left already; then joining this thread tells it.
            let _ = events.send(Err(anyhow!("{error:#}")));
        }
        result
    })
}

/// One client thread: its connections, and a loop on each.
fn work(
    config: &LoadConfig,
    thread: u32,
    threads: u32,
    phase: &Arc<AtomicU8>,
    events: &Sender<Result<()>>,
) -> Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tally = Rc::new(RefCell::new(Tally::default()));
    let all = async {
        let mut sessions = Vec::new();
        for index in (thread..config.plan.connections).step_by(threads as usize) {
            let mut connection = Connection::connect(&config.endpoint).await?;
            let driver = Driver::new(config.plan.clone(), index);
            driver.prepare(&mut connection).await?;
            sessions.push((connection, driver));
        }
        events.send(Ok(())).context("the run was given up")?;
        while phase.load(Ordering::Relaxed) == CONNECTING {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut tasks = Vec::new();
        for (connection, driver) in sessions {
            let (phase, tally) = (Arc::clone(phase), Rc::clone(&tally));
            tasks.push(tokio::task::spawn_local(serve(connection, driver, phase, tally)));
        }
        let mut open = Vec::new();
        for task in tasks {
            open.push(task.await??);
        }
        while phase.load(Ordering::Relaxed) < RELEASED {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    };
    let bound = 2 * PATIENCE + config.warmup + config.duration;
    let local = LocalSet::new();
    runtime.block_on(local.run_until(async {
        tokio::time::timeout(bound, all).await.map_err(|_| anyhow!("the server stopped answering"))?
    }))?;
    drop(local);
    let tally = Rc::into_inner(tally).context("a connection outlived its thread")?;
    Ok(tally.into_inner())
}

/// The closed loop of one connection, which it hands back.
async fn serve(
    mut connection: Connection,
    mut driver: Driver,
    phase: Arc<AtomicU8>,
    tally: Rc<RefCell<Tally>>,
) -> Result<Connection> {
    while phase.load(Ordering::Relaxed) < STOPPED {
        let start = Instant::now();
        let step = driver.step(&mut connection).await;
        if step.is_err() {
            advance(&phase, STOPPED);
        }
        let (kind, count) = step?;
        let measuring = phase.load(Ordering::Relaxed) == MEASURING;
        tally.borrow_mut().add(kind, u64::from(count), measuring.then(|| start.elapsed()));
    }
    Ok(connection)
}

impl Tally {
    fn add(&mut self, kind: Kind, count: u64, measured: Option<Duration>) {
        if kind == Kind::Write {
            self.rows_written += count;
        }
        let Some(elapsed) = measured else {
            return;
        };
        match kind {
            Kind::Read => {
                self.reads.record(elapsed);
                self.read_count += count;
            }
            Kind::Write => {
                self.writes.record(elapsed);
                self.write_count += count;
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.read_count += other.read_count;
        self.write_count += other.write_count;
        self.rows_written += other.rows_written;
    }
}

fn report(tally: &Tally, window: &Window) -> LoadReport {
    let per_second = |count: u64| count as f64 / window.seconds;
    let count = (tally.read_count + tally.write_count).max(1) as f64;
    let mut all = tally.reads.clone();
    all.merge(&tally.writes);
    LoadReport {
        seconds: window.seconds,
        qps: per_second(tally.read_count + tally.write_count),
        reads_per_second: per_second(tally.read_count),
        writes_per_second: per_second(tally.write_count),
        latency: Latency::of(&all),
        read_latency: Latency::of(&tally.reads),
        write_latency: Latency::of(&tally.writes),
        client_cpu_us: window.client_seconds * 1e6 / count,
        server_cpu_us: window.server_seconds.map(|seconds| seconds * 1e6 / count),
        rows_written: tally.rows_written,
        freshness_checks: window.freshness_checks,
    }
}
