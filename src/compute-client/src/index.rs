//! A maintained index as its readers see it.
//!
//! Time advances by itself only in the oracle: a worker hears of a timestamp only when one of its inputs was written. So
//! an index is complete up to the read timestamp either because its `upper` is beyond it, or because none of its inputs
//! was written since:
//!
//! 1. the committer stores a write's timestamp into the [`CollectionClock`] of every table it touches,
//! 2. then feeds the workers, then raises the oracle, then acknowledges;
//! 3. a reader asks the oracle first and looks at the clocks afterwards: every write at or below its timestamp is in
//!    them, and if the latest is below the index's `upper` the snapshot has them all.
//!
//! Hence no ticks: an idle database does nothing, and a write wakes only the indexes it changes. Where rows come and go with
//! time, the times at which they do are known beforehand and stand in a [`Schedule`], which is asked as the clocks are.

use crate::clock::CollectionClock;
use crate::early::{Early, Outcome};
use crate::error::{ComputeError, Stopped};
use crate::layout::Layout;
use crate::progress::Progress;
use crate::queue::{Queue, Sealed};
use crate::schedule::Schedule;
use arrangement::allowance::Allowance;
use arrangement::snapshot::cursor::{Hits, seek};
use arrangement::snapshot::{Snapshot, SnapshotSlot};
use parking_lot::{Condvar, Mutex};
use repr::{Diff, GlobalId, Timestamp, Updates};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use tokio::sync::Notify;

/// The tables below a maintained collection, with their clocks.
pub type Clocks = BTreeMap<GlobalId, Arc<CollectionClock>>;

/// The dataflows below a maintained collection, and its own, in which rows come and go with time, with their schedules.
pub type Schedules = Vec<(GlobalId, Arc<Schedule>)>;

/// An index: one slot per worker, and how to wait for them.
pub struct IndexHandle {
    /// The index.
    pub id: GlobalId,
    slots: Vec<SnapshotSlot>,
    clocks: Clocks,
    schedules: Schedules,
    /// Why nothing more will be published: dropped, or unreadable.
    end: OnceLock<ComputeError>,
    /// What is shown is from a run before; the workers have not published yet.
    is_seeded: AtomicBool,
    published: Notify,
    committer: (Mutex<()>, Condvar),
    /// Who follows the index. Locked while a worker publishes, so that a tail begins exactly where its snapshots end.
    tails: Mutex<Vec<Weak<Queue>>>,
    alarm: Option<Alarm>,
    /// Of what holds a table's rows.
    early: Option<Early>,
    progress: Progress,
    allowance: Arc<Allowance>,
}

/// Called when something was published that somebody had given up waiting for, and when the index is stopped.
struct Alarm {
    is_set: AtomicBool,
    ring: Box<dyn Fn() + Send + Sync>,
}

impl IndexHandle {
    /// An index with one empty slot per worker, over these tables, which may have this memory on all workers together.
    pub fn new(
        id: GlobalId,
        worker_count: usize,
        clocks: Clocks,
        schedules: Schedules,
        allowance: Arc<Allowance>,
    ) -> IndexHandle {
        IndexHandle {
            id,
            slots: (0..worker_count).map(|_| SnapshotSlot::default()).collect(),
            clocks,
            schedules,
            end: OnceLock::new(),
            is_seeded: AtomicBool::new(false),
            published: Notify::new(),
            committer: (Mutex::new(()), Condvar::new()),
            tails: Mutex::default(),
            alarm: None,
            early: None,
            progress: Progress::default(),
            allowance,
        }
    }

    /// The same with a bell: `ring` is called when the index is stopped, and after each [`IndexHandle::set_alarm`] by the worker
    /// that publishes next; for what is `followed`, by the one that publishes first as well. It must not block.
    #[must_use]
    pub fn with_alarm(self, followed: bool, ring: impl Fn() + Send + Sync + 'static) -> IndexHandle {
        IndexHandle { alarm: Some(Alarm { is_set: AtomicBool::new(followed), ring: Box::new(ring) }), ..self }
    }

    /// The same of an index that holds a table's rows in this layout: what is committed is shown before the workers publish it.
    #[must_use]
    pub fn with_layout(self, layout: Option<Layout>) -> IndexHandle {
        let early = layout.map(|layout| Early::new(layout, self.slots.len(), Arc::clone(&self.allowance)));
        IndexHandle { early, ..self }
    }

    /// Whether [`IndexHandle::show`] may be expected to show a commit, so that no worker has to be woken for it.
    pub fn is_shown_early(&self) -> bool {
        let is_early = self.early.as_ref().is_some_and(|early| !early.is_due());
        is_early && self.is_hydrated() && !self.is_seeded() && !self.is_followed()
    }

    /// Shows a commit to the table before the workers publish it. Called by the committer when the commit is durable, and before the
    /// table's clock is advanced.
    pub fn show(&self, ts: Timestamp, updates: &[Arc<Updates>]) -> Outcome {
        let Some(early) = self.early.as_ref().filter(|_| !self.is_seeded() && self.check().is_ok()) else {
            return Outcome::Not;
        };
        let rows = updates.iter().flat_map(|updates| updates.iter());
        let outcome = early.show(&self.slots, ts, rows, |upper| self.is_quiet(upper, ts), |key| self.owner(key));
        if outcome != Outcome::Not {
            self.wake();
        }
        // Who has begun to follow since has what is shown, or is seen here.
        if outcome == Outcome::Shown && self.is_followed() { Outcome::Due } else { outcome }
    }

    fn is_followed(&self) -> bool {
        !self.tails.lock().is_empty()
    }

    /// Asks to be rung for the next publication.
    pub fn set_alarm(&self) {
        if let Some(alarm) = &self.alarm {
            alarm.is_set.store(true, Ordering::SeqCst);
        }
    }

    /// Shows a worker's new snapshot to readers, hands what is new in it to those who follow, then wakes who waits. Called
    /// by that worker only.
    pub fn publish(&self, worker: usize, snapshot: Snapshot, sealed: Vec<Sealed>) {
        let mut tails = self.tails.lock();
        if !tails.is_empty() {
            let sealed: Arc<[Sealed]> = sealed.into();
            tails.retain(|tail| match tail.upgrade() {
                Some(queue) => {
                    queue.push(worker, snapshot.upper, &sealed);
                    true
                }
                None => false,
            });
        }
        let slot = &self.slots[worker];
        let before = match &self.early {
            Some(early) => early.publish(worker, slot, snapshot).to_vec(),
            None => vec![slot.publish(snapshot)],
        };
        self.is_seeded.store(false, Ordering::Release);
        drop(tails);
        self.wake();
        // Nobody waits for much memory to be freed.
        drop(before);
        if let Some(alarm) = &self.alarm
            && alarm.is_set.swap(false, Ordering::SeqCst)
        {
            (alarm.ring)();
        }
    }

    /// Shows what the index held in a run before, until the worker has something of its own. Called by that worker only.
    pub fn publish_seed(&self, worker: usize, snapshot: Snapshot) {
        self.is_seeded.store(true, Ordering::Release);
        self.slots[worker].publish(snapshot);
        self.wake();
    }

    /// Lets a worker's snapshot go, of an index that has ended: whoever still has the handle keeps no memory by it. Called by that
    /// worker only, last.
    pub fn forget(&self, worker: usize) {
        debug_assert!(self.check().is_err(), "what has not ended is read");
        if let Some(early) = &self.early {
            early.forget(worker);
        }
        self.slots[worker].clear();
    }

    /// Begins to hand everything new to a queue, and returns the snapshots that it follows on from.
    pub(crate) fn follow(&self, queue: &Arc<Queue>) -> Vec<Arc<Snapshot>> {
        let mut tails = self.tails.lock();
        tails.push(Arc::downgrade(queue));
        self.snapshots()
    }

    /// What the workers have published last.
    pub(crate) fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.slots.iter().map(SnapshotSlot::load_full).collect()
    }

    /// The tables below the index, with their clocks.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// The schedules of the index and of what is below it.
    pub fn schedules(&self) -> &Schedules {
        &self.schedules
    }

    /// The schedule of the index's own dataflow.
    pub fn own_schedule(&self) -> Option<&Arc<Schedule>> {
        self.schedules.iter().find(|(id, _)| *id == self.id).map(|(_, schedule)| schedule)
    }

    /// Whether its rows may come and go with time.
    pub fn is_temporal(&self) -> bool {
        !self.schedules.is_empty()
    }

    /// Whether nothing below the index has happened, and nothing happens, at the times from `upper` to `as_of`, a time read
    /// from the oracle before.
    pub fn is_quiet(&self, upper: Timestamp, as_of: Timestamp) -> bool {
        self.clocks.values().all(|clock| clock.last_write() < upper)
            && self.schedules.iter().all(|(_, schedule)| schedule.is_quiet(upper, as_of))
    }

    /// How many rows are published under a key, and up to which time.
    pub fn count(&self, key: &[u8]) -> (Diff, Timestamp) {
        let snapshot = self.slots[self.owner(key)].load();
        (count_in(&snapshot, key, Timestamp::MAX), snapshot.upper)
    }

    /// How many rows there are under a key as of a time that the oracle gave; `None` if that cannot be told, or may be over: something has
    /// become durable since and is about to be shown.
    pub fn count_at(&self, key: &[u8], as_of: Timestamp) -> Option<Diff> {
        let snapshot = self.slots[self.owner(key)].load();
        let is_readable = self.check().is_ok() && snapshot.since <= as_of && self.is_complete(&snapshot, as_of);
        let count = is_readable.then(|| count_in(&snapshot, key, as_of));
        count.filter(|_| self.last_write() <= as_of)
    }

    /// The latest write to any table below the index.
    pub fn last_write(&self) -> Timestamp {
        self.clocks.values().map(|clock| clock.last_write()).max().unwrap_or(0)
    }

    /// The slots, one per worker.
    pub fn slots(&self) -> &[SnapshotSlot] {
        &self.slots
    }

    /// The worker that owns a key.
    pub fn owner(&self, key: &[u8]) -> usize {
        match self.slots.len() {
            1 => 0,
            count => route(key, count),
        }
    }

    /// Whether the snapshot has every update up to and including `as_of`, a time read from the oracle before.
    pub fn is_complete(&self, snapshot: &Snapshot, as_of: Timestamp) -> bool {
        snapshot.upper > as_of || (snapshot.upper > 0 && self.is_quiet(snapshot.upper, as_of))
    }

    /// Whether all workers have every update up to and including `as_of`.
    pub fn all_complete(&self, as_of: Timestamp) -> bool {
        self.slots.iter().all(|slot| self.is_complete(&slot.load(), as_of))
    }

    /// Whether every worker has published at least once.
    pub fn is_hydrated(&self) -> bool {
        self.slots.iter().all(|slot| slot.load().upper > 0)
    }

    /// Whether what is shown is from a run before.
    pub fn is_seeded(&self) -> bool {
        self.is_seeded.load(Ordering::Acquire)
    }

    /// The least `upper` over the workers.
    pub fn upper(&self) -> Timestamp {
        self.slots.iter().map(|slot| slot.load().upper).min().unwrap_or(0)
    }

    /// The updates that it holds, an upper bound on its rows, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let sizes = self.slots.iter().map(|slot| {
            let snapshot = slot.load();
            (snapshot.update_count(), snapshot.byte_count())
        });
        sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// The greatest `since` over the workers.
    pub fn since(&self) -> Timestamp {
        self.slots.iter().map(|slot| slot.load().since).max().unwrap_or(0)
    }

    /// The memory that it has and may have.
    pub fn allowance(&self) -> &Arc<Allowance> {
        &self.allowance
    }

    /// How far its hydration is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Says that the index is stopped for want of memory. Called by a worker that is about to show something wrong, or for what
    /// reads the index.
    pub fn mark_stopped(&self, why: &Arc<Stopped>) {
        self.mark_ended(ComputeError::OutOfMemory(Arc::clone(why)));
        if let Some(alarm) = &self.alarm {
            (alarm.ring)();
        }
    }

    /// Why it was stopped, if it was.
    pub fn stopped(&self) -> Option<&Arc<Stopped>> {
        match self.end.get() {
            Some(ComputeError::OutOfMemory(why)) => Some(why),
            _ => None,
        }
    }

    /// Marks the index as dropped and wakes its readers.
    pub fn mark_dropped(&self) {
        self.mark_ended(ComputeError::Dropped(self.id));
    }

    /// Says why nothing more will be published and wakes the readers. The first reason stays.
    pub(crate) fn mark_ended(&self, reason: ComputeError) {
        let _ended_before = self.end.set(reason);
        self.wake();
    }

    /// Why nothing more will be published.
    ///
    /// # Errors
    /// The index was dropped, or what it is made of cannot be read.
    pub fn check(&self) -> Result<(), ComputeError> {
        self.end.get().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Waits until something was published after `is_ready` was last false; returns when `is_ready` or the index has ended.
    ///
    /// # Cancellation
    /// Safe to drop: it registers with nobody but its own notification.
    pub async fn wait_until(&self, is_ready: impl Fn(&IndexHandle) -> bool) {
        loop {
            let notified = self.published.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if is_ready(self) || self.check().is_err() {
                return;
            }
            notified.await;
        }
    }

    /// Blocks the committer until the index has published everything up to `ts`, or the deadline. An index that is still
    /// being hydrated is not waited for.
    pub fn wait_published(&self, ts: Timestamp, deadline: Instant) {
        let mut guard = self.committer.0.lock();
        let is_expected = || self.is_hydrated() && !self.is_seeded() && self.check().is_ok();
        while is_expected() && self.upper() <= ts {
            if self.committer.1.wait_until(&mut guard, deadline).timed_out() {
                return;
            }
        }
    }

    fn wake(&self) {
        drop(self.committer.0.lock());
        self.committer.1.notify_all();
        self.published.notify_waiters();
    }
}

/// How many rows a snapshot has under a key as of a time.
fn count_in(snapshot: &Snapshot, key: &[u8], as_of: Timestamp) -> Diff {
    let mut hits = Hits::new();
    seek(&snapshot.oks, key, as_of, &mut hits);
    hits.iter().map(|hit| hit.count).sum()
}

/// The worker that a key belongs to, among `worker_count`. Dataflows exchange by [`key_hash`] and agree with this.
pub fn route(key: &[u8], worker_count: usize) -> usize {
    usize::try_from(key_hash(key) % u64::try_from(worker_count).expect("fits")).expect("below the worker count")
}

/// The hash by which keys are dealt to workers: FNV-1a, folded once so that its low bits depend on every byte.
pub fn key_hash(key: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in key {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use repr::Datum;
    use repr::row::write_datum;

    #[test]
    fn a_count_is_not_told_while_something_is_durable_and_not_shown() {
        let (table, clock) = (GlobalId::User(1), Arc::<CollectionClock>::default());
        let clocks = Clocks::from([(table, Arc::clone(&clock))]);
        let layout = Layout::new([DataType::Int32], [Some(0)]).expect("numbers are keys as they are stored");
        let index = IndexHandle::new(GlobalId::User(2), 1, clocks, Schedules::new(), Allowance::unlimited());
        let index = index.with_layout(Some(layout));
        let (mut key, mut row) = (Vec::new(), Updates::new());
        write_datum(&mut key, &DataType::Int32, &Datum::Int4(7)).expect("it is of that type");
        row.push(&key, 1);
        assert_eq!(index.count_at(&key, 10), None, "nothing is published");
        index.publish(0, Snapshot::new(Vec::new(), Vec::new(), 5, 11), Vec::new());
        assert_eq!([4, 10, 15].map(|as_of| index.count_at(&key, as_of)), [None, Some(0), Some(0)]);
        assert_eq!(index.show(20, &[Arc::new(row)]), Outcome::Shown);
        assert_eq!(index.count_at(&key, 15), Some(0), "it was not there then");
        clock.advance(20);
        assert_eq!([15, 20].map(|as_of| index.count_at(&key, as_of)), [None, Some(1)], "15 may be over");
        index.mark_dropped();
        assert_eq!(index.count_at(&key, 20), None);
    }
}
