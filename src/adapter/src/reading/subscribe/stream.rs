//! What is followed, once for all who follow it in the same form: one tail, one dataflow where there is no index, and of each change
//! the lines once.
//!
//! A [`Stream`] has a history of what has happened. A [`Follower`] is a place in it: what is behind all of them goes, unless one that
//! broke off may come back (`subscribe_history`), for which its streams and their histories are kept. One task per stream takes what
//! the workers publish and tells whoever follows, so that neither they nor the committer wake a thousand.
//!
//! # Invariants
//! - What has happened after `base` is in the history or is still to come, and nothing is there before the oracle has reached its time.
//! - A history has no more than [`HISTORY_BYTES_MAX`], and memory for them if there is any: who is behind what is left fails.
//! - A stream that is over is followed by nobody else.

use super::ended;
use super::lines::Lines;
use crate::error::AdapterError;
use arc_swap::ArcSwap;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use committer::handle::Handle;
use committer::published::Published;
use compute_client::error::{ComputeError, decode_error};
use compute_client::index::IndexHandle;
use compute_client::plan::lir::Lir;
use compute_client::plan::share::is_equal;
use compute_client::tail::{At, Tail};
use engine::error::SqlError;
use ore::memory::{Reservation, Share};
use ore::metrics::{Gauge, Registry};
use parking_lot::Mutex;
use repr::{GlobalId, Timestamp};
use sql::plan::EnvelopePlan;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Once, Weak};
use std::time::Duration;
use timestamp_oracle::TimestampOracle;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OnceCell};
use tokio::time::Instant;

/// What may wait for those who do not read, and for those who may come back.
const HISTORY_BYTES_MAX: usize = 64 << 20;
/// What is asked for of the memory at once.
const MEMORY_STEP: usize = 64 << 10;
/// Entries for streams that may be none any more.
const FORGOTTEN_MAX: usize = 256;
/// Times of the history that a follower takes at once.
const TAKEN_MAX: usize = 64;

/// What is followed, and the form in which changes are told. Whether there is an index is not part of it: who comes back after one was
/// built finds what was told before.
pub(super) struct Subject {
    pub(super) followed: Followed,
    /// Where a dataflow runs, if one is needed.
    pub(super) cluster: String,
    /// With which of these it ends.
    pub(super) depends_on: Vec<GlobalId>,
    pub(super) envelope: EnvelopePlan,
    pub(super) schema: SchemaRef,
}

/// What is followed.
pub(super) enum Followed {
    /// All of a relation.
    Object(GlobalId),
    /// What a dataflow makes.
    Query(Lir),
}

impl Subject {
    /// The same for subjects that are the same.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match &self.followed {
            Followed::Object(id) => id.hash(&mut hasher),
            Followed::Query(plan) => plan.to_string().hash(&mut hasher),
        }
        hasher.finish()
    }

    fn is_same(&self, other: &Subject) -> bool {
        let is_same = match (&self.followed, &other.followed) {
            (Followed::Object(one), Followed::Object(other)) => one == other,
            (Followed::Query(one), Followed::Query(other)) => is_equal(one, other),
            _ => false,
        };
        is_same
            && self.cluster == other.cluster
            && self.depends_on == other.depends_on
            && self.envelope == other.envelope
            && self.schema == other.schema
    }
}

/// The streams that are followed, and what all of them need.
pub(crate) struct Streams {
    oracle: Arc<dyn TimestampOracle>,
    committer: Handle,
    published: Arc<ArcSwap<Published>>,
    /// What histories take of the memory.
    memory: Arc<Share>,
    /// How many follow, and how many streams.
    follower_count: Gauge,
    stream_count: Gauge,
    /// By the hash of what they follow.
    streams: Mutex<HashMap<u64, Vec<Weak<Stream>>>>,
}

impl Streams {
    /// None yet.
    pub(crate) fn new(
        oracle: Arc<dyn TimestampOracle>,
        committer: Handle,
        published: Arc<ArcSwap<Published>>,
        memory: Arc<Share>,
        registry: &Registry,
    ) -> Arc<Streams> {
        let stream_help = "Streams of changes that subscriptions follow together.";
        Arc::new(Streams {
            oracle,
            committer,
            published,
            memory,
            follower_count: registry.gauge("mz_active_subscribes", "Subscriptions."),
            stream_count: registry.gauge("mz_subscribe_streams", stream_help),
            streams: Mutex::default(),
        })
    }

    /// The stream of a subject.
    pub(super) fn of(self: &Arc<Streams>, subject: Subject) -> Arc<Stream> {
        let stream = self.made(subject);
        let mut streams = self.streams.lock();
        if streams.len() > FORGOTTEN_MAX + usize::try_from(2 * self.stream_count.get()).unwrap_or(0) {
            // Of what has not even started nobody else takes care.
            streams.retain(|_, alike| alike.iter().any(|stream| stream.strong_count() > 0));
        }
        let alike = streams.entry(stream.hash).or_default();
        alike.retain(goes_on);
        if let Some(found) = alike.iter().filter_map(Weak::upgrade).find(|other| other.subject.is_same(&stream.subject))
        {
            return found;
        }
        let stream = Arc::new(stream);
        alike.push(Arc::downgrade(&stream));
        stream
    }

    /// A stream that nobody else finds.
    pub(super) fn alone(self: &Arc<Streams>, subject: Subject) -> Arc<Stream> {
        Arc::new(Stream { is_found: false, ..self.made(subject) })
    }

    fn made(self: &Arc<Streams>, subject: Subject) -> Stream {
        let (hash, is_found) = (subject.hash(), subject.is_same(&subject));
        let (streams, started, driven) = (Arc::clone(self), OnceCell::new(), Once::new());
        Stream { subject, hash, is_found, streams, started, driven }
    }

    /// Forgets a stream that is over, and those that have as well.
    fn tidy(&self, hash: u64) {
        let mut streams = self.streams.lock();
        if let Some(alike) = streams.get_mut(&hash) {
            alike.retain(goes_on);
            if alike.is_empty() {
                streams.remove(&hash);
            }
        }
    }
}

fn goes_on(stream: &Weak<Stream>) -> bool {
    stream.upgrade().is_some_and(|stream| !stream.is_over())
}

/// See the module.
pub(super) struct Stream {
    pub(super) subject: Subject,
    hash: u64,
    /// Whether who comes back finds it: what cannot be compared is followed by each alone.
    is_found: bool,
    streams: Arc<Streams>,
    started: OnceCell<Arc<Started>>,
    driven: Once,
}

/// What a stream is made of.
pub(super) struct Started {
    handle: Arc<IndexHandle>,
    state: Mutex<State>,
    /// Told when there is more in the history.
    happened: Notify,
    /// Told when nobody follows any more.
    deserted: Notify,
    _dataflow: Option<Dataflow>,
}

impl Started {
    /// A stream of everything after a time.
    pub(super) fn new(tail: Tail, base: Timestamp, lines: Lines, streams: &Streams, own: Option<Dataflow>) -> Started {
        let state = State {
            upper: base + 1,
            told: base + 1,
            base,
            lines,
            memory: Reservation::empty(&streams.memory),
            waiting: BTreeMap::new(),
            events: VecDeque::new(),
            first: 0,
            fresh: 0,
            bytes: 0,
            at_end: 0,
            follower_count: 0,
            returning_count: 0,
            keep: Duration::ZERO,
            kept_until: None,
            revision: 0,
            end: None,
            tail,
        };
        Started {
            handle: Arc::clone(state.tail.handle()),
            state: Mutex::new(state),
            happened: Notify::new(),
            deserted: Notify::new(),
            _dataflow: own,
        }
    }
}

impl Started {
    /// Completes when more has happened than at the call, or may have.
    pub(super) fn happened(&self) -> Notified<'_> {
        self.happened.notified()
    }
}

/// The dataflow of a stream; it ends when this is dropped.
pub(super) struct Dataflow {
    pub(super) id: GlobalId,
    pub(super) committer: Handle,
}

impl Drop for Dataflow {
    fn drop(&mut self) {
        self.committer.unsubscribe(self.id);
    }
}

struct State {
    tail: Tail,
    lines: Lines,
    /// Changes whose time has not come.
    waiting: BTreeMap<Timestamp, At>,
    /// Everything below is in `waiting` or was told.
    upper: Timestamp,
    /// Everything below is in the history, or was.
    told: Timestamp,
    base: Timestamp,
    events: VecDeque<Event>,
    /// The number of the first of them, and of the first that followers have not been woken for.
    first: u64,
    fresh: u64,
    bytes: usize,
    memory: Reservation,
    /// Followers that have taken all events.
    at_end: usize,
    follower_count: usize,
    /// Of them, those that may go and come back.
    returning_count: usize,
    /// How long one may be away.
    keep: Duration,
    /// For those who have gone and may come back.
    kept_until: Option<Instant>,
    /// Of the catalog.
    revision: u64,
    end: Option<SqlError>,
}

/// What happened at one time.
struct Event {
    ts: Timestamp,
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// Followers that take it next.
    reader_count: usize,
    at: Instant,
}

/// What a follower takes.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) batches: Vec<RecordBatch>,
    /// Everything below was given.
    pub(super) upper: Timestamp,
}

impl Stream {
    /// Begins to follow, with what `start` gives if nobody does yet: at the front of the history. `None` of a stream that is over.
    ///
    /// # Cancellation
    /// Safe to drop: somebody else starts the stream.
    pub(super) async fn follow<F>(
        self: &Arc<Stream>,
        keep: Duration,
        start: impl FnOnce() -> F,
    ) -> Result<Option<Follower>, AdapterError>
    where
        F: Future<Output = Result<Started, AdapterError>>,
    {
        let start = || async { Ok::<_, AdapterError>(Arc::new(start().await?)) };
        self.started.get_or_try_init(start).await?;
        Ok(self.join(keep, |_| true))
    }

    /// The same of one that has started, if it has; at what happened after a time, if it has all of that.
    pub(super) fn resume(self: &Arc<Stream>, keep: Duration, after: Timestamp) -> Option<Follower> {
        let mut follower = self.join(keep, |state| state.base <= after && after < state.told)?;
        follower.skip(after).then_some(follower)
    }

    fn join(self: &Arc<Stream>, keep: Duration, is_wanted: impl FnOnce(&State) -> bool) -> Option<Follower> {
        let started = Arc::clone(self.started.get()?);
        let mut state = started.state.lock();
        if state.end.is_some() || !is_wanted(&state) {
            return None;
        }
        let keep = if self.is_found { keep } else { Duration::ZERO };
        let next = state.first;
        state.come(next);
        state.follower_count += 1;
        state.returning_count += usize::from(!keep.is_zero());
        state.keep = state.keep.max(keep);
        drop(state);
        self.streams.follower_count.add(1);
        let stream = Arc::clone(self);
        self.driven.call_once(|| ore::task::spawn("subscribe", stream.drive()).detach());
        Some(Follower { stream: Arc::clone(self), started, next, after: 0, keep })
    }

    fn is_over(&self) -> bool {
        // Of an index that is gone the task may not know yet.
        let is_over = |started: &Arc<Started>| started.handle.check().is_err() || started.state.lock().end.is_some();
        self.started.get().is_some_and(is_over)
    }

    /// Takes what is published, and tells it, for as long as somebody follows or may come back.
    async fn drive(self: Arc<Stream>) {
        let Some(started) = self.started.get() else { return };
        self.streams.stream_count.add(1);
        loop {
            // Registered before the oracle is asked: a time that comes in between is not missed.
            let (raised, deserted) = (self.streams.committer.raised(), started.deserted.notified());
            tokio::pin!(raised, deserted);
            raised.as_mut().enable();
            deserted.as_mut().enable();
            self.advance();
            let (published, look) = {
                let mut state = started.state.lock();
                state.end_deserted();
                if state.end.is_some() {
                    break;
                }
                (state.tail.wait(), state.next_look())
            };
            tokio::select! {
                () = published => {}
                () = raised => {}
                () = deserted => {}
                () = until(look) => {}
            }
        }
        self.streams.stream_count.add(-1);
        started.happened.notify_waiters();
        self.streams.tidy(self.hash);
    }

    /// Tells what has happened.
    fn advance(&self) {
        let Some(started) = self.started.get() else { return };
        let mut state = started.state.lock();
        if state.end.is_some() {
            return;
        }
        let before = (state.next(), state.revision);
        state.fresh = before.0;
        state.revision = self.streams.published.load().state.revision();
        if let Err(error) = state.advance(self.streams.oracle.known_ts()) {
            state.end = Some(SqlError::new(error.sqlstate(), error.to_string()));
        }
        state.trim();
        // A change of the catalog may have taken a right away.
        let has_happened = (state.next(), state.revision) != before || state.end.is_some();
        drop(state);
        if has_happened {
            started.happened.notify_waiters();
        }
    }
}

impl State {
    /// The number of the event that is to come.
    fn next(&self) -> u64 {
        self.first + u64::try_from(self.events.len()).expect("a length fits")
    }

    /// Takes what is published, and tells what has happened up to a time that the oracle has reached.
    fn advance(&mut self, read_ts: Timestamp) -> Result<(), AdapterError> {
        while let Some(changes) = self.tail.take().map_err(|error| ended(&error))? {
            self.upper = changes.upper;
            self.waiting.extend(changes.at);
        }
        // Nothing that the oracle has reached is outstanding if all of it was published.
        let limit = if self.tail.is_complete(read_ts) { read_ts + 1 } else { self.upper.min(read_ts + 1) };
        let later = self.waiting.split_off(&limit);
        for (ts, at) in std::mem::replace(&mut self.waiting, later) {
            // What comes before an error is told.
            self.told = self.told.max(ts);
            if let Some((error, _)) = at.errs.iter().find(|(_, diff)| *diff > 0) {
                return Err(decode_error(error).into());
            }
            self.lines.rows(ts, &at.oks)?;
            let mut batches = VecDeque::new();
            self.lines.flush(&mut batches, true)?;
            if !batches.is_empty() {
                self.push(ts, batches.into());
            }
        }
        self.told = self.told.max(limit);
        Ok(())
    }

    fn push(&mut self, ts: Timestamp, batches: Vec<RecordBatch>) {
        let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() + size_of::<Event>();
        let reader_count = std::mem::take(&mut self.at_end);
        self.bytes += bytes;
        let wanted = self.bytes.saturating_sub(self.memory.bytes());
        if wanted > 0 && self.memory.try_grow_last(wanted + MEMORY_STEP).is_err() {
            // There is memory for those who keep up, and for nobody else.
            while self.first < self.fresh && !self.events.is_empty() {
                self.forget_first();
            }
            self.memory.resize(self.bytes);
        }
        self.events.push_back(Event { ts, batches, bytes, reader_count, at: Instant::now() });
    }

    /// Forgets what nobody wants any more, and what there is no room for.
    fn trim(&mut self) {
        // Who goes now has seen what happened a while ago.
        let keep = if self.is_kept() { self.keep * 2 } else { Duration::ZERO };
        while let Some(event) = self.events.front() {
            let is_kept = event.at.elapsed() < keep;
            // Nobody is too slow for what has just come, which is no more than a tail holds.
            let is_fresh = self.first >= self.fresh;
            if (is_fresh || self.bytes <= HISTORY_BYTES_MAX) && (event.reader_count > 0 || is_kept) {
                break;
            }
            self.forget_first();
        }
        if self.memory.bytes() > 2 * self.bytes + 2 * MEMORY_STEP {
            self.memory.resize(self.bytes + MEMORY_STEP);
        }
    }

    fn forget_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.bytes;
            self.base = event.ts;
            self.first += 1;
        }
    }

    /// How many take this event next; `None` if it is forgotten.
    fn readers(&mut self, number: u64) -> Option<&mut usize> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        match self.events.get_mut(at) {
            Some(event) => Some(&mut event.reader_count),
            None => Some(&mut self.at_end),
        }
    }

    fn come(&mut self, number: u64) {
        if let Some(readers) = self.readers(number) {
            *readers += 1;
        }
    }

    fn leave(&mut self, number: u64) {
        if let Some(readers) = self.readers(number) {
            *readers -= 1;
        }
    }

    /// Whether somebody may come back, now or after having gone.
    fn is_kept(&self) -> bool {
        self.returning_count > 0 || self.kept_until.is_some_and(|until| until > Instant::now())
    }

    /// Ends what nobody follows, and nobody may come back to.
    fn end_deserted(&mut self) {
        if self.follower_count == 0 && !self.is_kept() && self.end.is_none() {
            self.end = Some(SqlError::internal("nobody follows the stream"));
        }
    }

    /// When something is over although nothing happens.
    fn next_look(&self) -> Option<Instant> {
        match (self.follower_count, self.events.front()) {
            (0, _) => self.kept_until,
            // What somebody has still to take is forgotten when it is taken.
            (_, Some(event)) if self.is_kept() && event.reader_count == 0 => Some(event.at + self.keep * 2),
            _ => None,
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// A place in the history of a stream.
pub(super) struct Follower {
    stream: Arc<Stream>,
    started: Arc<Started>,
    /// The event that is taken next.
    next: u64,
    /// What happened up to this time is not for it: of what it has seen otherwise, the stream may tell later.
    after: Timestamp,
    /// How long its history is kept when it goes.
    keep: Duration,
}

impl Follower {
    /// Tells what has happened, to all who follow the same.
    pub(super) fn advance(&self) {
        self.stream.advance();
    }

    /// What tells when more has happened, or may have.
    pub(super) fn started(&self) -> Arc<Started> {
        Arc::clone(&self.started)
    }

    /// What is followed.
    pub(super) fn handle(&self) -> &Arc<IndexHandle> {
        &self.started.handle
    }

    /// What has happened after this time is taken, or still to be taken.
    pub(super) fn base(&self) -> Timestamp {
        self.started.state.lock().base
    }

    /// Leaves out what happened up to a time. Returns whether everything after it is taken, or still to be taken.
    #[must_use]
    pub(super) fn skip(&mut self, up_to: Timestamp) -> bool {
        let mut state = self.started.state.lock();
        let count = state.events.partition_point(|event| event.ts <= up_to);
        let next = state.first + u64::try_from(count).expect("a length fits");
        state.leave(self.next);
        state.come(next);
        (self.next, self.after) = (next, up_to);
        let has_all = state.base <= up_to;
        state.trim();
        has_all
    }

    /// What has happened since, before `limit`, as far as it is taken at once. Errors: 53400 if some of it is forgotten, why the stream
    /// is over.
    pub(super) fn take(&mut self, limit: Option<Timestamp>) -> Result<Taken, AdapterError> {
        let mut state = self.started.state.lock();
        let Some(skipped) = self.next.checked_sub(state.first) else {
            return Err(ended(&ComputeError::TooSlow(self.started.handle.id)));
        };
        let mut taken = Taken { batches: Vec::new(), upper: state.told };
        let mut count = 0;
        let skipped = usize::try_from(skipped).expect("a place in the history");
        for event in state.events.iter().skip(skipped) {
            if count == TAKEN_MAX || limit.is_some_and(|limit| event.ts >= limit) {
                taken.upper = event.ts;
                break;
            }
            if event.ts > self.after {
                taken.batches.extend(event.batches.iter().cloned());
            }
            count += 1;
        }
        if count == 0
            && let Some(error) = &state.end
        {
            return Err(error.clone().into());
        }
        if count > 0 {
            state.leave(self.next);
            self.next += u64::try_from(count).expect("a count fits");
            let next = self.next;
            state.come(next);
            state.trim();
        }
        Ok(taken)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stream.streams.follower_count.add(-1);
        let mut state = self.started.state.lock();
        state.leave(self.next);
        state.follower_count -= 1;
        if !self.keep.is_zero() {
            state.returning_count -= 1;
            state.kept_until = state.kept_until.max(Some(Instant::now() + self.keep));
        }
        state.trim();
        if state.follower_count == 0 {
            self.started.deserted.notify_one();
        }
    }
}
