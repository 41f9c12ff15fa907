//! Many reads of the time answered by few calls to a store that is far away.
//!
//! # The protocol
//! 1. A caller takes a *ticket*: the next number.
//! 2. A worker notes the next ticket, N: every ticket below it was taken before now.
//! 3. *Then* it calls the store.
//! 4. With the answer it raises the *mark* to N, and the time beside it. Marks and times only grow.
//! 5. A caller whose ticket is below the mark has its answer: the time beside the mark came from a call that began after the
//!    ticket was taken.
//!
//! The order of 2 and 3 is the law. Were a call to answer tickets that were taken while it was under way, it could give a
//! caller a time from before something that the caller knows to have been acknowledged.
//!
//! Several workers have a call under way each, so that a caller need not wait for the end of a call that is of no use to it,
//! and then for another. A call that began later answers for all that began before it, and an answer that comes late is
//! covered by the greater mark.
//!
//! Steps 1, 2, 4 and 5 are [`crate::tickets`]; here is who waits for what.

use crate::OracleError;
use crate::metrics::BatchMetrics;
use crate::tickets::{Done, Tickets};
use futures::future::BoxFuture;
use ore::task::JoinHandle;
use repr::Timestamp;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

/// A call to the store.
pub type Call = Box<dyn Fn() -> BoxFuture<'static, Result<Timestamp, OracleError>> + Send + Sync>;

/// See the module. The workers end with it.
pub struct Batching {
    shared: Arc<Shared>,
    _workers: Vec<JoinHandle<()>>,
}

struct Shared {
    tickets: Tickets,
    /// Told of every ticket.
    asked: Notify,
    /// Written by workers, each change atomic.
    done: watch::Sender<Done<OracleError>>,
    call: Call,
    note: Note,
    metrics: BatchMetrics,
}

/// When a worker notes whose call it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Note {
    BeforeCall,
    /// The mistake that the tests must find.
    #[cfg(test)]
    AfterCall,
}

impl Batching {
    /// Starts `in_flight_max` workers on `runtime`.
    pub fn spawn(runtime: &Handle, in_flight_max: usize, call: Call, metrics: BatchMetrics) -> Batching {
        Batching::start(runtime, in_flight_max, call, metrics, Note::BeforeCall)
    }

    fn start(runtime: &Handle, in_flight_max: usize, call: Call, metrics: BatchMetrics, note: Note) -> Batching {
        let shared = Arc::new(Shared {
            tickets: Tickets::new(),
            asked: Notify::new(),
            done: watch::Sender::new(Done::new()),
            call,
            note,
            metrics,
        });
        let worker = |_| ore::task::spawn_critical(runtime, "oracle reads", work(Arc::clone(&shared)));
        let workers = (0..in_flight_max.max(1)).map(worker).collect();
        Batching { shared, _workers: workers }
    }

    /// The time, from a call that began after this one did.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn read_ts(&self) -> Result<Timestamp, OracleError> {
        let (shared, asked) = (&*self.shared, Instant::now());
        let mut done = shared.done.subscribe();
        let ticket = shared.tickets.take();
        shared.asked.notify_one();
        let known = done.wait_for(|done| done.answer(ticket).is_some()).await.expect("the sender is beside us");
        shared.metrics.wait_seconds.observe_duration(asked.elapsed());
        known.answer(ticket).expect("it was waited for")
    }
}

/// Steps 2 to 4, again and again.
async fn work(shared: Arc<Shared>) {
    loop {
        shared.asked.notified().await;
        // Those who were answered together ask again together: let them take their tickets.
        tokio::task::yield_now().await;
        let Some(begun) = shared.tickets.begin() else { continue };
        shared.metrics.batch_size.observe(begun.new as f64);
        let started = Instant::now();
        let answer = (shared.call)().await;
        shared.metrics.inner_read_seconds.observe_duration(started.elapsed());
        let noted = match shared.note {
            Note::BeforeCall => begun.noted,
            #[cfg(test)]
            Note::AfterCall => shared.tickets.taken(),
        };
        shared.done.send_modify(|done| done.note(noted, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryTimeline;
    use crate::metrics::Metrics;
    use crate::timeline::{Owner, Timeline};
    use crate::{TimestampOracle, contract};
    use futures::FutureExt;
    use ore::abandon::{at_every_poll, polled};
    use ore::clock::Clock;
    use ore::metrics::Registry;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;
    use tokio::runtime::Runtime;
    use tokio::sync::Semaphore;

    /// An oracle all of whose reads are batched.
    struct Batched {
        timeline: Arc<MemoryTimeline>,
        epoch: u64,
        batching: Batching,
        runtime: Arc<Runtime>,
    }

    impl Batched {
        fn open(runtime: &Arc<Runtime>, timeline: &Arc<MemoryTimeline>, note: Note) -> Batched {
            let seen: Owner = runtime.block_on(timeline.owner()).expect("it is there");
            let taken = runtime.block_on(timeline.take(&seen, Duration::ZERO, "test")).expect("it is there");
            let epoch = taken.expect("nobody else takes it");
            let of_worker = Arc::clone(timeline);
            let call: Call = Box::new(move || {
                let timeline = Arc::clone(&of_worker);
                async move { timeline.read_ts(epoch).await }.boxed()
            });
            let metrics = Metrics::register(&Registry::new()).batch;
            let batching = Batching::start(runtime.handle(), 3, call, metrics, note);
            Batched { timeline: Arc::clone(timeline), epoch, batching, runtime: Arc::clone(runtime) }
        }
    }

    impl TimestampOracle for Batched {
        fn read_ts_fast(&self) -> Option<Timestamp> {
            None
        }

        fn read_ts(&self) -> BoxFuture<'_, Result<Timestamp, OracleError>> {
            self.batching.read_ts().boxed()
        }

        fn known_ts(&self) -> Timestamp {
            self.runtime.block_on(self.timeline.read_ts(self.epoch)).expect("it is there")
        }

        fn write_ts(&self) -> Result<Timestamp, OracleError> {
            self.runtime.block_on(self.timeline.write_ts(self.epoch, Clock::system().now_us(), 10_000_000))
        }

        fn apply_write(&self, ts: Timestamp) -> Result<(), OracleError> {
            self.runtime.block_on(self.timeline.apply_write(self.epoch, ts))
        }
    }

    fn check(note: Note) {
        let runtime = Arc::new(Runtime::new().expect("a runtime starts"));
        let timeline = Arc::new(MemoryTimeline::default());
        contract::check(|| Batched::open(&runtime, &timeline, note), drop);
    }

    #[test]
    fn passes_the_contract() {
        check(Note::BeforeCall);
    }

    /// A checker that has never failed proves nothing.
    #[test]
    #[should_panic(expected = "law")]
    fn the_contract_finds_a_call_that_begins_too_early() {
        // It takes a read that is overtaken by a write at the wrong moment, which one round may not have.
        for _ in 0..100 {
            check(Note::AfterCall);
        }
    }

    /// Calls whose answers come when the test says so.
    struct Gated {
        answers: Arc<Semaphore>,
        calls: Arc<AtomicU64>,
        /// What a call finds that begins now.
        stored: Arc<AtomicU64>,
        batching: Batching,
    }

    fn gated(in_flight_max: usize, note: Note) -> Gated {
        let (answers, calls) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
        let stored = Arc::new(AtomicU64::new(1));
        let (gate, count, of_call) = (Arc::clone(&answers), Arc::clone(&calls), Arc::clone(&stored));
        let call: Call = Box::new(move || {
            let (gate, ts) = (Arc::clone(&gate), of_call.load(Ordering::SeqCst));
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                gate.acquire().await.expect("it stays open").forget();
                Ok(ts)
            }
            .boxed()
        });
        let metrics = Metrics::register(&Registry::new()).batch;
        let batching = Batching::start(&Handle::current(), in_flight_max, call, metrics, note);
        Gated { answers, calls, stored, batching }
    }

    /// What a caller is told who asks while a call is under way and after a later time was acknowledged.
    async fn asked_while_under_way(note: Note) -> Timestamp {
        let Gated { answers, calls, stored, batching } = gated(1, note);
        let batching = Arc::new(batching);
        let of_first = Arc::clone(&batching);
        let first = ore::task::spawn("first", async move { of_first.read_ts().await });
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        stored.store(2, Ordering::SeqCst);
        let mut second = Box::pin(batching.read_ts());
        assert!((&mut second).now_or_never().is_none());
        answers.add_permits(1);
        assert_eq!(first.await.expect("it runs").expect("it is answered"), 1);
        answers.add_permits(1);
        second.await.expect("it is answered")
    }

    #[tokio::test]
    async fn a_call_answers_nobody_who_asked_after_it_began() {
        assert_eq!(asked_while_under_way(Note::BeforeCall).await, 2);
        // The mistake that this test is for.
        assert_eq!(asked_while_under_way(Note::AfterCall).await, 1);
    }

    /// Somebody who gives up does not keep the answer from others, nor a worker from the next call.
    #[test]
    fn who_gives_up_asking_harms_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let polls = at_every_poll(20, |times| {
            let calls = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&calls);
            let call: Call = Box::new(move || {
                let ts = counted.fetch_add(1, Ordering::SeqCst);
                async move { Ok(ts) }.boxed()
            });
            let metrics = Metrics::register(&Registry::new()).batch;
            let batching = Batching::start(runtime.handle(), 1, call, metrics, Note::BeforeCall);
            let step = || runtime.block_on(tokio::task::yield_now());
            let is_done = polled(batching.read_ts(), times, step).is_some();
            let answer = runtime.block_on(batching.read_ts()).expect("the call does not fail");
            assert_eq!(answer + 1, calls.load(Ordering::SeqCst), "given up after {times} polls");
            is_done
        });
        assert!(polls > 1, "it has to wait");
    }

    #[tokio::test]
    async fn all_who_wait_share_a_call() {
        let Gated { answers, calls, batching, .. } = gated(1, Note::BeforeCall);
        let mut all: Vec<_> = (0..100).map(|_| Box::pin(batching.read_ts())).collect();
        for one in &mut all {
            assert!(one.now_or_never().is_none());
        }
        answers.add_permits(2);
        for one in all {
            assert_eq!(one.await.expect("it is answered"), 1);
        }
        // The first may have gone alone.
        assert!(calls.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn several_calls_are_under_way_and_no_more_than_may_be() {
        let Gated { answers, calls, batching, .. } = gated(3, Note::BeforeCall);
        let mut all = Vec::new();
        for expected in [1, 2, 3, 3, 3] {
            let mut one = Box::pin(batching.read_ts());
            assert!((&mut one).now_or_never().is_none());
            all.push(one);
            // As often as any worker could need to come round.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(calls.load(Ordering::SeqCst), expected);
        }
        answers.add_permits(4);
        for one in all {
            assert_eq!(one.await.expect("it is answered"), 1);
        }
        assert_eq!(calls.load(Ordering::SeqCst), 4, "the last two share one");
    }

    #[tokio::test]
    async fn a_failed_call_fails_those_it_was_for_and_nobody_after() {
        let calls = Arc::new(AtomicU64::new(0));
        let call: Call = Box::new(move || {
            let is_first = calls.fetch_add(1, Ordering::SeqCst) == 0;
            std::future::ready(if is_first { Err(OracleError::Fenced { by: "other".to_owned() }) } else { Ok(7) })
                .boxed()
        });
        let metrics = Metrics::register(&Registry::new()).batch;
        let batching = Batching::spawn(&Handle::current(), 2, call, metrics);
        assert!(matches!(batching.read_ts().await, Err(OracleError::Fenced { .. })));
        assert_eq!(batching.read_ts().await.expect("it is answered"), 7);
    }
}
