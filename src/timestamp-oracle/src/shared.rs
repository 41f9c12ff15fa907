//! An oracle whose time is in a shared store, and which answers reads from one word while it may.
//!
//! One process at a time owns the timeline, under an epoch ([`crate::lease`]); it alone takes write timestamps and applies
//! them. While it holds the lease nobody else can have moved the time, so that the word, which it raises itself, is the
//! oracle and not a cache of it. When it does not hold, because the store did not answer in time, a read asks the store,
//! together with others ([`crate::batching`]); so it does if the lease is not to be used at all.
//!
//! # A read
//! 1. Load the word.
//! 2. *Then* look whether the lease holds: if so, it has held in step 1, and the word was the time then.
//! 3. If not, take a ticket. The answer raises the word, too, before it is given: the next read under the lease must not be
//!    from before this one.
//!
//! # A write
//! 1. `write_ts` is the store's.
//! 2. The committer makes the write durable at that time.
//! 3. `apply_write` raises the time in the store, where it is durable, and then the word. It goes on trying until the store
//!    answers: the write is durable, and only whether it may be seen is open.
//!
//! # Invariants
//! * The word is never above what the store has as applied.
//! * After another owner was seen (`fenced`), no call succeeds any more.

use std::sync::Arc;
use std::time::Duration;

use bugs::Bug;
use futures::FutureExt;
use futures::future::BoxFuture;
use ore::clock::Clock;
use ore::task::JoinHandle;
use persist::postgres::{in_full, retry};
use repr::Timestamp;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;

use crate::batching::Batching;
use crate::handover;
use crate::lease::Lease;
use crate::local::AHEAD_US_MAX;
use crate::metrics::Metrics;
use crate::timeline::Timeline;
use crate::word::Word;
use crate::{OracleError, TimestampOracle};

/// How long a read or a write timestamp waits for a store that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the timeline may take to be given back at the end; after that the next owner waits for the term.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);
/// Beats per term. One may be lost, and one late, without the lease being lost.
const BEATS_PER_TERM: u32 = 4;

/// How to own a timeline.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a beat is trusted.
    pub term: Duration,
    /// Who answers reads.
    pub reads: Reads,
    /// Calls that batched reads may have under way.
    pub in_flight_max: usize,
    /// Take the timeline from an owner that lives.
    pub takeover: bool,
    /// How long to wait at start for a store that does not answer.
    pub patience: Duration,
    /// What others are told of us.
    pub name: String,
}

/// Who answers reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The word while the lease holds, the store otherwise.
    UnderLease,
    /// The store.
    FromStore,
    /// The word, lease or not: the mistake that the tests must find.
    #[cfg(test)]
    FromWord,
}

/// See the module.
pub struct SharedOracle<T> {
    core: Arc<Core<T>>,
    batching: Batching,
    /// Keeps the lease.
    keeper: JoinHandle<()>,
    /// Where calls to the store run. `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// What tasks share.
struct Core<T> {
    /// What readers load.
    read: Word,
    lease: Lease,
    reads: Reads,
    epoch: u64,
    term: Duration,
    timeline: T,
    clock: Clock,
    fenced: CancellationToken,
    metrics: Metrics,
}

impl<T: Timeline> SharedOracle<T> {
    /// Waits for the store, then for the timeline, and becomes its owner. Blocks, for as long as the timeline has another
    /// owner that lives. The time may be behind what is durable elsewhere; whoever knows that applies it.
    pub fn open(
        timeline: T,
        options: &Options,
        clock: Clock,
        metrics: Metrics,
    ) -> Result<SharedOracle<T>, OracleError> {
        let threads = Builder::new_multi_thread().worker_threads(1).thread_name("oracle").enable_all().build();
        let runtime = threads.map_err(|error| OracleError::Runtime(Arc::new(error)))?;
        let handle = runtime.handle().clone();
        let (core, keeper) = handle.block_on(start(timeline, options, clock, metrics))?;
        let of_worker = Arc::clone(&core);
        let call = Box::new(move || read_store(Arc::clone(&of_worker)).boxed());
        let batching = Batching::spawn(&handle, options.in_flight_max, call, core.metrics.batch.clone());
        Ok(SharedOracle { core, batching, keeper, runtime: Some(runtime) })
    }

    /// Completes when another process owns the timeline: this one can answer nothing any more.
    pub fn fenced(&self) -> impl Future<Output = ()> + Send + use<T> {
        self.core.fenced.clone().cancelled_owned()
    }

    /// Gives the timeline back, after the last write: the next owner need not wait. Blocks for a moment.
    pub fn close(&self) {
        self.core.lease.end();
        self.keeper.abort();
        let release = self.core.timeline.release(self.core.epoch);
        match self.block_on(async { tokio::time::timeout(RELEASE_PATIENCE, release).await }) {
            Ok(Ok(()) | Err(OracleError::Fenced { .. })) => {}
            Ok(Err(error)) => tracing::warn!(error = in_full(&error), "the timeline could not be given back"),
            Err(_elapsed) => tracing::warn!("the timeline could not be given back in time"),
        }
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.as_ref().expect("it is there until the drop").handle().block_on(future)
    }

    /// Notes that somebody else owns the timeline, if that is what an answer says.
    fn seen<A>(&self, answer: Result<A, OracleError>) -> Result<A, OracleError> {
        answer.inspect_err(|error| self.core.see(error))
    }
}

impl<T: Timeline> TimestampOracle for SharedOracle<T> {
    #[inline]
    fn read_ts_fast(&self) -> Option<Timestamp> {
        let ts = self.core.read.get();
        let may = match self.core.reads {
            Reads::UnderLease => self.core.holds_lease() || bugs::is(Bug::StoppedOwnerReads),
            Reads::FromStore => false,
            #[cfg(test)]
            Reads::FromWord => true,
        };
        may.then_some(ts)
    }

    fn read_ts(&self) -> BoxFuture<'_, Result<Timestamp, OracleError>> {
        async {
            let ts = self.seen(self.batching.read_ts().await)?;
            Ok(self.core.read.raise(ts))
        }
        .boxed()
    }

    fn known_ts(&self) -> Timestamp {
        self.core.read.get()
    }

    fn write_ts(&self) -> Result<Timestamp, OracleError> {
        let core = &self.core;
        let attempt = || core.timeline.write_ts(core.epoch, core.clock.now_us(), AHEAD_US_MAX);
        self.seen(self.block_on(retry("taking a write timestamp", PATIENCE, attempt)))
    }

    fn apply_write(&self, ts: Timestamp) -> Result<(), OracleError> {
        let core = &self.core;
        let attempt = || core.timeline.apply_write(core.epoch, ts);
        self.seen(self.block_on(retry("applying a write", Duration::MAX, attempt)))?;
        core.read.raise(ts);
        Ok(())
    }
}

impl<T> Drop for SharedOracle<T> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last one to hold us may be a task, which must not wait for threads.
            runtime.shutdown_background();
        }
    }
}

impl<T> Core<T> {
    #[inline]
    fn holds_lease(&self) -> bool {
        self.lease.holds(self.clock.monotonic())
    }

    fn see(&self, error: &OracleError) {
        if let OracleError::Fenced { by } = error
            && !self.fenced.is_cancelled()
        {
            self.lease.end();
            self.metrics.lease_held.set(0);
            tracing::error!(by, epoch = self.epoch, "another process has taken over the timeline");
            self.fenced.cancel();
        }
    }
}

async fn start<T: Timeline>(
    timeline: T,
    options: &Options,
    clock: Clock,
    metrics: Metrics,
) -> Result<(Arc<Core<T>>, JoinHandle<()>), OracleError> {
    retry("opening the timeline", options.patience, || timeline.prepare()).await?;
    let (term, name) = (options.term, options.name.as_str());
    let take = || handover::take(&timeline, &clock, term, name, options.takeover);
    let (epoch, asked, remaining) = retry("taking the timeline", options.patience, take).await?;
    metrics.epoch.set_u64(epoch);
    metrics.lease_held.set(i64::from(options.reads == Reads::UnderLease));
    let core = Arc::new(Core {
        read: Word::new(0),
        lease: Lease::new(),
        reads: options.reads,
        epoch,
        term,
        timeline,
        clock,
        fenced: CancellationToken::new(),
        metrics,
    });
    core.lease.extend(asked, term);
    let keeper = ore::task::spawn_critical(&Handle::current(), "oracle lease", keep(Arc::clone(&core)));
    handover::wait(&core.clock, remaining).await;
    let ts = retry("reading the time", options.patience, || core.timeline.read_ts(epoch)).await?;
    core.read.raise(ts);
    tracing::info!(epoch, ts, owner = name, "the timeline is ours");
    Ok((core, keeper))
}

/// Shows that we live, and notes for how long we may trust in it.
async fn keep<T: Timeline>(core: Arc<Core<T>>) {
    let mut held = true;
    loop {
        tokio::time::sleep(core.term / BEATS_PER_TERM).await;
        let asked = core.clock.monotonic();
        let beat = core.timeline.beat(core.epoch).await;
        match &beat {
            Ok(()) => core.lease.extend(asked, core.term),
            Err(error) => core.see(error),
        }
        if core.fenced.is_cancelled() {
            return;
        }
        let holds = core.holds_lease();
        core.metrics.lease_held.set(i64::from(holds && core.reads == Reads::UnderLease));
        match (held, holds, &beat) {
            (true, false, Err(error)) => {
                tracing::warn!(error = in_full(error), "the lease has run out: reads ask the store for the time");
            }
            (false, true, _) => tracing::info!("the lease holds again"),
            _ => {}
        }
        held = holds;
    }
}

/// The call behind batched reads.
async fn read_store<T: Timeline>(core: Arc<Core<T>>) -> Result<Timestamp, OracleError> {
    retry("reading the time", PATIENCE, || core.timeline.read_ts(core.epoch)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use crate::memory::MemoryTimeline;
    use crate::timeline::Owner;
    use ore::clock::ManualClock;
    use ore::metrics::Registry;

    const TERM: Duration = Duration::from_secs(10);

    /// A timeline that outlives its owners.
    impl Timeline for Arc<MemoryTimeline> {
        async fn prepare(&self) -> Result<(), OracleError> {
            self.as_ref().prepare().await
        }
        async fn owner(&self) -> Result<Owner, OracleError> {
            self.as_ref().owner().await
        }
        async fn take(&self, seen: &Owner, term: Duration, name: &str) -> Result<Option<u64>, OracleError> {
            self.as_ref().take(seen, term, name).await
        }
        async fn beat(&self, epoch: u64) -> Result<(), OracleError> {
            self.as_ref().beat(epoch).await
        }
        async fn release(&self, epoch: u64) -> Result<(), OracleError> {
            self.as_ref().release(epoch).await
        }
        async fn read_ts(&self, epoch: u64) -> Result<Timestamp, OracleError> {
            self.as_ref().read_ts(epoch).await
        }
        async fn write_ts(&self, epoch: u64, now_us: u64, ahead_us_max: u64) -> Result<Timestamp, OracleError> {
            self.as_ref().write_ts(epoch, now_us, ahead_us_max).await
        }
        async fn apply_write(&self, epoch: u64, ts: Timestamp) -> Result<(), OracleError> {
            self.as_ref().apply_write(epoch, ts).await
        }
    }

    type Oracle = SharedOracle<Arc<MemoryTimeline>>;

    fn options(reads: Reads) -> Options {
        let name = "test".to_owned();
        Options { term: TERM, reads, in_flight_max: 3, takeover: false, patience: TERM, name }
    }

    fn open(timeline: &Arc<MemoryTimeline>, options: &Options, clock: Clock) -> Oracle {
        let metrics = Metrics::register(&Registry::new());
        SharedOracle::open(Arc::clone(timeline), options, clock, metrics).expect("it opens")
    }

    fn read(oracle: &Oracle) -> Result<Timestamp, OracleError> {
        futures::executor::block_on(oracle.read_ts())
    }

    #[test]
    fn passes_the_contract_under_a_lease_and_without() {
        for reads in [Reads::UnderLease, Reads::FromStore] {
            let timeline = Arc::new(MemoryTimeline::default());
            contract::check(|| open(&timeline, &options(reads), Clock::system()), |oracle| oracle.close());
        }
    }

    #[test]
    fn a_lease_that_runs_out_sends_reads_to_the_store_and_a_beat_brings_them_back() {
        let (timeline, hands) = (Arc::new(MemoryTimeline::default()), ManualClock::new(50_000_000));
        let oracle = open(&timeline, &options(Reads::UnderLease), hands.clock());
        oracle.keeper.abort();
        let ts = oracle.write_ts().expect("in bounds");
        oracle.apply_write(ts).expect("it is ours");
        assert_eq!(oracle.read_ts_fast(), Some(ts));
        hands.advance(TERM);
        assert_eq!(oracle.read_ts_fast(), None);
        assert_eq!(read(&oracle).expect("it is ours"), ts);
        let asked = hands.clock().monotonic();
        oracle.block_on(timeline.beat(oracle.core.epoch)).expect("it is ours");
        oracle.core.lease.extend(asked, TERM);
        assert_eq!(oracle.read_ts_fast(), Some(ts));
    }

    /// Lets the clock go on until another process has the timeline.
    fn successor(timeline: &Arc<MemoryTimeline>, options: &Options, hands: &ManualClock) -> Oracle {
        let (timeline, options, clock) = (Arc::clone(timeline), options.clone(), hands.clock());
        let opening = std::thread::spawn(move || open(&timeline, &options, clock));
        while !opening.is_finished() {
            hands.advance(Duration::from_millis(100));
            std::thread::sleep(Duration::from_millis(1));
        }
        opening.join().expect("it opens")
    }

    /// An owner is stopped, another takes the timeline and acknowledges a write, the first goes on: what it answers.
    fn stopped_owner(reads: Reads, takeover: bool) -> (Option<Timestamp>, Timestamp) {
        let (timeline, hands) = (Arc::new(MemoryTimeline::default()), ManualClock::new(50_000_000));
        let stopped = open(&timeline, &options(reads), hands.clock());
        // As SIGSTOP does, as far as anybody can tell.
        stopped.keeper.abort();
        let ts = stopped.write_ts().expect("in bounds");
        stopped.apply_write(ts).expect("it is ours");
        let next = successor(&timeline, &Options { takeover, ..options(reads) }, &hands);
        let acknowledged = next.write_ts().expect("in bounds");
        assert!(acknowledged > ts, "law 5");
        next.apply_write(acknowledged).expect("it is its own");
        // Its own lease may have run out, too: the clock runs faster here than its beats do.
        assert!(next.read_ts_fast().is_none_or(|ts| ts == acknowledged));
        let answer = stopped.read_ts_fast();
        for refused in [read(&stopped).map(drop), stopped.write_ts().map(drop), stopped.apply_write(acknowledged + 1)] {
            assert!(matches!(refused, Err(OracleError::Fenced { .. })), "{refused:?}");
        }
        assert_eq!(read(&next).expect("it is its own"), acknowledged, "what the old owner applied is not seen");
        futures::executor::block_on(stopped.fenced());
        (answer, acknowledged)
    }

    #[test]
    fn a_stopped_owner_answers_nothing_after_another_has_acknowledged() {
        for takeover in [false, true] {
            assert_eq!(stopped_owner(Reads::UnderLease, takeover).0, None);
        }
        // The mistake that this test is for: the word is trusted without the lease.
        let (stale, acknowledged) = stopped_owner(Reads::FromWord, false);
        assert!(stale.is_some_and(|stale| stale < acknowledged), "{stale:?} is from before {acknowledged}");
    }

    #[test]
    fn an_owner_that_lives_is_waited_for_and_one_that_leaves_is_not() {
        let timeline = Arc::new(MemoryTimeline::default());
        let first = open(&timeline, &options(Reads::UnderLease), Clock::system());
        let term = Duration::from_millis(200);
        let waiting = {
            let (timeline, options) = (Arc::clone(&timeline), Options { term, ..options(Reads::UnderLease) });
            std::thread::spawn(move || open(&timeline, &options, Clock::system()))
        };
        let ts = first.write_ts().expect("in bounds");
        first.apply_write(ts).expect("it is ours");
        first.close();
        assert_eq!(first.read_ts_fast(), None, "it has given the timeline back");
        let second = waiting.join().expect("it opens");
        assert!(second.read_ts_fast().is_some_and(|read| read >= ts));
    }

    #[test]
    fn time_comes_to_what_is_durable_elsewhere() {
        let timeline = Arc::new(MemoryTimeline::default());
        let oracle = open(&timeline, &options(Reads::UnderLease), Clock::system());
        oracle.apply_write(77).expect("it is ours");
        assert_eq!((oracle.read_ts_fast(), read(&oracle).expect("it is ours")), (Some(77), 77));
    }
}
