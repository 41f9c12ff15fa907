//! Reads of the time from a shared store: how many a second, how long they wait, and how many calls they cost.
//!
//! Readers are tasks in a closed loop on the oracle itself, without a server: what is measured is the oracle. Beside them a
//! writer applies write timestamps, and every reader checks that its time is at or above the latest that was acknowledged
//! before it asked, and never below its last.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ore::clock::Clock;
use ore::metrics::Registry;
use timestamp_oracle::TimestampOracle;
use timestamp_oracle::local::LocalOracle;
use timestamp_oracle::metrics::Metrics;
use timestamp_oracle::postgres::PostgresTimeline;
use timestamp_oracle::shared::{Options, Reads, SharedOracle};

use crate::arguments::Window;
use crate::histogram::Histogram;
use crate::servers::Server;

/// How often the writer applies a write.
const WRITE_EVERY: Duration = Duration::from_millis(5);
/// How many reads from memory are timed together: one takes less than a look at the clock.
const FAST_READS: u32 = 1_000_000;
/// The longest an attempt at the store may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What to measure.
pub struct Sweep {
    /// Numbers of readers.
    pub readers: Vec<usize>,
    /// Numbers of calls under way.
    pub in_flight: Vec<usize>,
    /// The time of each run.
    pub window: Window,
}

/// One run of readers without a lease.
pub struct Line {
    /// Calls that could be under way.
    pub in_flight: usize,
    /// Readers side by side.
    pub readers: usize,
    /// Reads per second.
    pub reads_per_second: f64,
    /// What a reader waited.
    pub waits: Histogram,
    /// Reads per call to the store.
    pub reads_per_call: f64,
}

/// Nanoseconds of a read from memory.
pub struct FastReads {
    /// By the embedded oracle.
    pub embedded_ns: f64,
    /// By the shared one under its lease.
    pub leased_ns: f64,
}

/// A PostgreSQL with timelines.
pub struct Store {
    server: Server,
}

impl Store {
    /// Starts one.
    pub fn start(work_dir: &Path, pg_bin: Option<&Path>) -> Result<Store> {
        Ok(Store { server: Server::start_postgres(work_dir, pg_bin, 50)? })
    }

    /// What it says it is.
    pub fn version(&self) -> String {
        self.server.version()
    }

    fn open(&self, reads: Reads, in_flight_max: usize, metrics: Metrics) -> Result<SharedOracle<PostgresTimeline>> {
        let timeline = PostgresTimeline::new(&self.server.endpoint.url(), "bench", in_flight_max, TIMEOUT)?;
        let (term, name) = (Duration::from_secs(5), "bench".to_owned());
        let options = Options { term, reads, in_flight_max, takeover: false, patience: TIMEOUT, name };
        Ok(SharedOracle::open(timeline, &options, Clock::system(), metrics)?)
    }

    /// Readers without a lease, for each number of calls and of readers.
    pub fn sweep(&self, sweep: &Sweep, mut each: impl FnMut(&Line)) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for in_flight in &sweep.in_flight {
            let metrics = Metrics::register(&Registry::new());
            let oracle = Arc::new(self.open(Reads::FromStore, *in_flight, metrics.clone())?);
            for readers in &sweep.readers {
                let line = run(&oracle, &metrics, *in_flight, *readers, sweep)?;
                each(&line);
                lines.push(line);
            }
            oracle.close();
        }
        Ok(lines)
    }

    /// Reads from memory, one after the other on one thread.
    pub fn fast_reads(&self) -> Result<FastReads> {
        let leased = self.open(Reads::UnderLease, 1, Metrics::register(&Registry::new()))?;
        let leased_ns = nanos_per_read(&leased)?;
        leased.close();
        let embedded_ns = nanos_per_read(&LocalOracle::ephemeral(Clock::system()))?;
        Ok(FastReads { embedded_ns, leased_ns })
    }
}

/// What readers and the writer share.
struct Run {
    oracle: Arc<SharedOracle<PostgresTimeline>>,
    acknowledged: AtomicU64,
    is_measured: AtomicBool,
    is_over: AtomicBool,
}

fn run(
    oracle: &Arc<SharedOracle<PostgresTimeline>>,
    metrics: &Metrics,
    in_flight: usize,
    readers: usize,
    sweep: &Sweep,
) -> Result<Line> {
    let shared = Arc::new(Run {
        oracle: Arc::clone(oracle),
        acknowledged: AtomicU64::new(0),
        is_measured: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    });
    let of_writer = Arc::clone(&shared);
    let writer = ore::thread::spawn("writer", move || write(&of_writer));
    // One thread, as each I/O thread of the server has its readers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (waits, elapsed, calls) = runtime.block_on(async {
        let tasks: Vec<_> = (0..readers).map(|_| ore::task::spawn("reader", read(Arc::clone(&shared)))).collect();
        tokio::time::sleep(sweep.window.warmup()).await;
        let (calls, started) = (metrics.batch.inner_read_seconds.count(), Instant::now());
        shared.is_measured.store(true, Ordering::SeqCst);
        tokio::time::sleep(sweep.window.duration()).await;
        let calls = metrics.batch.inner_read_seconds.count() - calls;
        let elapsed = started.elapsed();
        shared.is_over.store(true, Ordering::SeqCst);
        let mut waits = Histogram::new();
        for task in tasks {
            waits.merge(&task.await.context("a reader panicked")??);
        }
        anyhow::Ok((waits, elapsed, calls))
    })?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let reads = waits.total() as f64;
    let (reads_per_second, reads_per_call) = (reads / elapsed.as_secs_f64(), reads / calls.max(1) as f64);
    Ok(Line { in_flight, readers, reads_per_second, waits, reads_per_call })
}

async fn read(run: Arc<Run>) -> Result<Histogram> {
    let (mut waits, mut latest) = (Histogram::new(), 0);
    while !run.is_over.load(Ordering::SeqCst) {
        let (known, asked) = (run.acknowledged.load(Ordering::SeqCst), Instant::now());
        let ts = run.oracle.read_ts().await?;
        if run.is_measured.load(Ordering::Relaxed) {
            waits.record(asked.elapsed());
        }
        ensure!(ts >= known && ts >= latest, "the time {ts} is before {known}, which was acknowledged, or {latest}");
        latest = ts;
    }
    Ok(waits)
}

fn write(run: &Run) -> Result<()> {
    while !run.is_over.load(Ordering::SeqCst) {
        let ts = run.oracle.write_ts()?;
        run.oracle.apply_write(ts)?;
        run.acknowledged.fetch_max(ts, Ordering::SeqCst);
        std::thread::sleep(WRITE_EVERY);
    }
    Ok(())
}

fn nanos_per_read(oracle: &dyn TimestampOracle) -> Result<f64> {
    let started = Instant::now();
    for _ in 0..FAST_READS {
        ensure!(std::hint::black_box(oracle).read_ts_fast().is_some(), "a read was not answered from memory");
    }
    Ok(started.elapsed().as_nanos() as f64 / f64::from(FAST_READS))
}
