//! What is committed and the workers have not published, shown to readers all the same.
//!
//! An index of a table holds the table's rows, so that what a commit changes there is known without a dataflow. The committer lays a
//! small commit over what the workers have published as soon as it is durable: nobody waits for a worker, and none is woken for each
//! commit. A worker has its turn when some commits have come together; what it publishes then takes the place of what was shown of them.
//!
//! # Invariants
//! - A commit is shown only over snapshots that have everything before it.
//! - What was shown stays shown: a snapshot of a worker that is not so far is shown with what it does not have over it.

use crate::layout::Layout;
use arrangement::allowance::Allowance;
use arrangement::snapshot::{Snapshot, SnapshotSlot};
use arrangement::spine::RowBatch;
use parking_lot::Mutex;
use repr::{Diff, Timestamp};
use std::collections::VecDeque;
use std::sync::Arc;

/// So many commits may be shown before the workers have their turn: every read of the index looks at each of them.
const COMMITS_DUE: usize = 16;
/// So many are shown at the most, should workers be slow.
const COMMITS_MAX: usize = 64;

/// What an index shows early.
pub(crate) struct Early {
    layout: Layout,
    /// The index's.
    allowance: Arc<Allowance>,
    /// By worker.
    shown: Mutex<Vec<Shown>>,
}

/// What is shown of one worker.
#[derive(Clone, Default)]
struct Shown {
    /// What it has published.
    published: Arc<Snapshot>,
    /// What was committed since, with what that changes here.
    commits: VecDeque<(Timestamp, Option<RowBatch>)>,
}

/// What has become of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is shown.
    Shown,
    /// It is shown, and workers have something to do.
    Due,
    /// It is not: workers come first.
    Not,
}

impl Early {
    /// Nothing yet, of an index on so many workers.
    pub(crate) fn new(layout: Layout, workers: usize, allowance: Arc<Allowance>) -> Early {
        Early { layout, allowance, shown: Mutex::new(vec![Shown::default(); workers]) }
    }

    /// Shows a worker's new snapshot in its slot, and over it what it does not have; returns what was there before.
    pub(crate) fn publish(&self, worker: usize, slot: &SnapshotSlot, snapshot: Snapshot) -> [Arc<Snapshot>; 2] {
        let shown = &mut self.shown.lock()[worker];
        while shown.commits.front().is_some_and(|(ts, _)| *ts < snapshot.upper) {
            shown.commits.pop_front();
        }
        let before = std::mem::replace(&mut shown.published, Arc::new(snapshot));
        [before, slot.publish(shown.all())]
    }

    /// Shows a commit; `has_all` says of an upper whether nothing was committed at or after it, and `owner` whose a key is.
    pub(crate) fn show<'a>(
        &self,
        slots: &[SnapshotSlot],
        ts: Timestamp,
        updates: impl IntoIterator<Item = (&'a [u8], Diff)>,
        has_all: impl Fn(Timestamp) -> bool,
        owner: impl Fn(&[u8]) -> usize,
    ) -> Outcome {
        let mut shown = self.shown.lock();
        let is_ready = |upper: Timestamp| upper > ts || (upper > 0 && has_all(upper));
        let is_full = shown.iter().any(|shown| shown.commits.len() >= COMMITS_MAX);
        if is_full || !slots.iter().all(|slot| is_ready(slot.load().upper)) {
            return Outcome::Not;
        }
        let batches = self.layout.arrange(updates, ts, slots.len(), owner, &self.allowance);
        if self.allowance.refused().is_some() {
            return Outcome::Not;
        }
        for ((shown, slot), batch) in shown.iter_mut().zip(slots).zip(batches) {
            if slot.load().upper <= ts {
                shown.commits.push_back((ts, batch));
                // It is little that is let go of: the worker's snapshot stays.
                drop(slot.publish(shown.all()));
            }
        }
        let is_due = shown.iter().any(|shown| shown.commits.len() >= COMMITS_DUE);
        if is_due { Outcome::Due } else { Outcome::Shown }
    }

    /// Whether workers have something to do with the next commit: better while the disk is at it than afterwards.
    pub(crate) fn is_due(&self) -> bool {
        self.shown.lock().iter().any(|shown| shown.commits.len() + 1 >= COMMITS_DUE)
    }

    /// Lets go of everything of a worker.
    pub(crate) fn forget(&self, worker: usize) {
        self.shown.lock()[worker] = Shown::default();
    }
}

impl Shown {
    fn all(&self) -> Arc<Snapshot> {
        let Some((last, _)) = self.commits.back() else { return Arc::clone(&self.published) };
        let Snapshot { oks, errs, since, upper, .. } = self.published.as_ref();
        let over = self.commits.iter().filter_map(|(_, batch)| batch.clone());
        Arc::new(Snapshot::new(oks.iter().cloned().chain(over).collect(), errs.clone(), *since, (*upper).max(last + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrangement::snapshot::cursor::{self, Bounds, Hits, Walk};
    use arrow::datatypes::DataType;
    use repr::Datum;
    use repr::row::write_datum;
    use std::collections::BTreeMap;

    const WORKERS: usize = 2;
    /// Each takes a row away and brings another.
    const COMMITS: i32 = 5;

    /// What happens next, in every order.
    const STEPS: [Step; 4] = [Step::Show, Step::LeaveToWorkers, Step::PublishAll, Step::PublishFirstWorker];

    #[derive(Clone, Copy)]
    enum Step {
        /// A commit, shown if that can be.
        Show,
        /// A commit that is not.
        LeaveToWorkers,
        /// Both workers publish everything.
        PublishAll,
        /// One of them publishes everything but the last commit.
        PublishFirstWorker,
    }

    /// An index of a table of one column, and all that was committed.
    struct World {
        early: Early,
        slots: Vec<SnapshotSlot>,
        committed: i32,
        /// By worker, up to which commit.
        published: [i32; WORKERS],
    }

    fn time(commit: i32) -> Timestamp {
        Timestamp::from(commit.unsigned_abs()) * 10
    }

    fn row(number: i32) -> Vec<u8> {
        let mut row = Vec::new();
        write_datum(&mut row, &DataType::Int32, &Datum::Int4(number)).expect("it is of that type");
        row
    }

    fn owner(key: &[u8]) -> usize {
        usize::from(key.last().copied().unwrap_or_default()) % WORKERS
    }

    fn layout() -> Layout {
        Layout::new([DataType::Int32], [Some(0)]).expect("numbers are keys as they are stored")
    }

    fn changes(commit: i32) -> [(Vec<u8>, Diff); 2] {
        [(row(commit - 1), -1), (row(commit), 1)]
    }

    impl World {
        fn new() -> World {
            let early = Early::new(layout(), WORKERS, Allowance::unlimited());
            let slots = (0..WORKERS).map(|_| SnapshotSlot::default()).collect();
            let mut world = World { early, slots, committed: 0, published: [0; WORKERS] };
            (0..WORKERS).for_each(|worker| world.publish(worker, 0));
            world
        }

        /// Lets a worker publish everything up to a commit, if it has not published more.
        fn publish(&mut self, worker: usize, commit: i32) {
            if commit < self.published[worker] {
                return;
            }
            self.published[worker] = commit;
            let first = layout().arrange([(row(0).as_slice(), 1)], 0, WORKERS, owner, &Allowance::unlimited());
            let all = (1..=commit).map(|commit| self.arranged(commit)).chain([first]);
            let batches = all.filter_map(|mut batches| batches[worker].take()).collect();
            self.early.publish(worker, &self.slots[worker], Snapshot::new(batches, Vec::new(), 0, time(commit) + 1));
        }

        fn arranged(&self, commit: i32) -> Vec<Option<RowBatch>> {
            let changes = changes(commit);
            let updates = changes.iter().map(|(row, diff)| (row.as_slice(), *diff));
            self.early.layout.arrange(updates, time(commit), WORKERS, owner, &Allowance::unlimited())
        }

        /// Whether the next commit is shown.
        fn show(&mut self) -> bool {
            let last = time(self.committed);
            self.committed += 1;
            let changes = changes(self.committed);
            let updates = changes.iter().map(|(row, diff)| (row.as_slice(), *diff));
            let (ts, has_all) = (time(self.committed), |upper| upper > last);
            self.early.show(&self.slots, ts, updates, has_all, owner) != Outcome::Not
        }

        fn upper(&self) -> Timestamp {
            self.slots.iter().map(|slot| slot.load().upper).min().unwrap_or(0)
        }

        /// Makes sure that every time that can be read shows what was committed by then.
        fn check(&self) {
            for commit in (0..=self.committed).filter(|commit| time(*commit) < self.upper()) {
                let mut rows = BTreeMap::new();
                for slot in &self.slots {
                    let (snapshot, mut hits) = (slot.load(), Hits::new());
                    Walk::new(&snapshot.oks, Bounds::All).take(&snapshot.oks, time(commit), usize::MAX, &mut hits);
                    rows.extend(hits.iter().map(|hit| (cursor::value(&snapshot.oks, hit).to_vec(), hit.count)));
                }
                assert_eq!(rows, BTreeMap::from([(row(commit), 1)]), "as of commit {commit}");
            }
        }
    }

    #[test]
    fn what_is_shown_is_what_was_committed_in_whatever_order_workers_publish() {
        let (mut shown, mut refused) = (0, 0);
        for mut order in 0..STEPS.len().pow(6) {
            let mut world = World::new();
            for _ in 0..6 {
                let (step, before) = (STEPS[order % STEPS.len()], world.upper());
                order /= STEPS.len();
                match step {
                    Step::Show if world.committed < COMMITS => {
                        let (is_behind, is_shown) = (world.upper() <= time(world.committed), world.show());
                        assert_eq!(is_shown, !is_behind, "it is shown over everything before it, and then always");
                        assert!(!is_shown || world.upper() > time(world.committed));
                        (shown, refused) = (shown + usize::from(is_shown), refused + usize::from(is_behind));
                    }
                    Step::LeaveToWorkers if world.committed < COMMITS => world.committed += 1,
                    Step::PublishAll => (0..WORKERS).for_each(|worker| world.publish(worker, world.committed)),
                    Step::PublishFirstWorker if world.committed > 1 => world.publish(0, world.committed - 1),
                    _ => {}
                }
                assert!(world.upper() >= before, "what was shown stays");
                world.check();
            }
        }
        assert!(shown > refused && refused > 0, "{shown} were shown and {refused} were not");
    }

    #[test]
    fn workers_have_their_turn_after_some_commits_and_come_first_after_many() {
        let mut world = World::new();
        let outcome = |world: &mut World| {
            world.committed += 1;
            let ts = time(world.committed);
            world.early.show(&world.slots, ts, [], |_| true, owner)
        };
        let outcomes: Vec<Outcome> = (0..=COMMITS_MAX).map(|_| outcome(&mut world)).collect();
        let of = |outcome| outcomes.iter().filter(|it| **it == outcome).count();
        assert_eq!((of(Outcome::Shown), of(Outcome::Not)), (COMMITS_DUE - 1, 1), "{outcomes:?}");
        assert!(world.early.is_due());
        (0..WORKERS).for_each(|worker| world.publish(worker, world.committed));
        assert!(!world.early.is_due(), "they have had it");
        assert_eq!(outcome(&mut world), Outcome::Shown);
    }
}
