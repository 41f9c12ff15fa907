//! Following an index: what it holds as of a time, and then every update after that, in order.
//!
//! A worker hands the batches that its arrangement seals to a queue per follower, in the same moment in which it publishes the
//! snapshot that has them. So a [`Tail`] begins exactly where its snapshots end, and nothing is looked for: an update costs
//! its follower what the update costs, whatever the index holds.
//!
//! SUBSCRIBE and materialized views are made of this.
//!
//! # Invariants
//! - Updates come out in order of time, and each time whole: only below the least `upper` of the workers.

use crate::error::{ComputeError, decode_error};
use crate::index::IndexHandle;
use crate::queue::{Queue, Sealed};
use arrangement::snapshot::Snapshot;
use arrangement::snapshot::cursor::{self, Bounds, Hits, Walk};
use repr::{Timestamp, Updates};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The updates of one time.
#[derive(Debug, Default)]
pub struct At {
    /// Rows.
    pub oks: Updates,
    /// Encoded errors.
    pub errs: Updates,
}

/// Everything that happened below `upper` and was not told before.
#[derive(Debug)]
pub struct Changes {
    /// No more updates come below this time.
    pub upper: Timestamp,
    /// The updates by time.
    pub at: BTreeMap<Timestamp, At>,
}

impl Changes {
    /// The length of all updates.
    pub fn bytes(&self) -> usize {
        self.at.values().map(|at| at.oks.bytes() + at.errs.bytes()).sum()
    }
}

/// A follower of an index.
pub struct Tail {
    handle: Arc<IndexHandle>,
    queue: Arc<Queue>,
    /// Updates at or below this time are not told.
    after: Option<Timestamp>,
    /// By worker: what is below this time was in the snapshot that the tail has begun with.
    from: Vec<Timestamp>,
    /// By worker: below this time everything is known.
    uppers: Vec<Timestamp>,
    /// Updates at or above the least of them.
    held: BTreeMap<Timestamp, At>,
    /// The upper that was told last.
    told: Timestamp,
}

impl Tail {
    /// Follows an index from before its first publication.
    pub fn from_start(handle: Arc<IndexHandle>) -> Tail {
        Tail::open(handle, None, usize::MAX).0
    }

    /// What an index holds as of a time, and a tail of everything after it; at most `bytes_max` bytes of batches wait for
    /// the follower.
    ///
    /// # Errors
    /// A time that was compacted away, or an index that was dropped.
    ///
    /// # Cancellation
    /// Safe to drop at any await.
    pub async fn since(
        handle: Arc<IndexHandle>,
        as_of: Timestamp,
        bytes_max: usize,
    ) -> Result<(Contents, Tail), ComputeError> {
        handle.wait_until(|handle| handle.all_complete(as_of)).await;
        let (mut tail, snapshots) = Tail::open(handle, Some(as_of), bytes_max);
        let contents = Contents::new(&tail.handle, snapshots.clone(), as_of)?;
        let batches = snapshots.iter().flat_map(|snapshot| {
            let oks = snapshot.oks.iter().cloned().map(Sealed::Oks);
            oks.chain(snapshot.errs.iter().cloned().map(Sealed::Errs))
        });
        for sealed in batches {
            tail.hold(&sealed, 0);
        }
        Ok((contents, tail))
    }

    fn open(handle: Arc<IndexHandle>, after: Option<Timestamp>, bytes_max: usize) -> (Tail, Vec<Arc<Snapshot>>) {
        let queue = Arc::new(Queue::new(bytes_max));
        let snapshots = handle.follow(&queue);
        let uppers: Vec<Timestamp> = snapshots.iter().map(|snapshot| snapshot.upper).collect();
        let told = after.map_or(0, |after| after + 1);
        (Tail { handle, queue, after, from: uppers.clone(), uppers, held: BTreeMap::new(), told }, snapshots)
    }

    /// What is new, without waiting for it; `None` if nothing is.
    ///
    /// # Errors
    /// The index was dropped, or this follower was too slow.
    pub fn take(&mut self) -> Result<Option<Changes>, ComputeError> {
        self.handle.check()?;
        let Some(published) = self.queue.take() else { return Err(ComputeError::TooSlow(self.handle.id)) };
        for (worker, upper, sealed) in published {
            // Batches of a worker come in order, and those of its snapshot are not among them, but for what it was shown early.
            self.uppers[worker] = self.uppers[worker].max(upper);
            for sealed in sealed.iter() {
                self.hold(sealed, self.from[worker]);
            }
        }
        let upper = self.uppers.iter().copied().min().unwrap_or(0);
        if upper <= self.told {
            return Ok(None);
        }
        self.told = upper;
        let later = self.held.split_off(&upper);
        Ok(Some(Changes { upper, at: std::mem::replace(&mut self.held, later) }))
    }

    /// Waits until [`Tail::take`] may have something.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let (handle, queue) = (Arc::clone(&self.handle), Arc::clone(&self.queue));
        async move { handle.wait_until(|_: &IndexHandle| queue.is_ready()).await }
    }

    /// Whether every change up to and including `as_of`, a time read from the oracle before the last [`Tail::take`], was
    /// taken.
    pub fn is_complete(&self, as_of: Timestamp) -> bool {
        self.told > as_of || self.handle.is_quiet(self.told, as_of)
    }

    /// The index.
    pub fn handle(&self) -> &Arc<IndexHandle> {
        &self.handle
    }

    /// Keeps what happened at a time or after it.
    fn hold(&mut self, sealed: &Sealed, from: Timestamp) {
        let (Sealed::Oks(batch) | Sealed::Errs(batch)) = sealed;
        for (row, ts, diff) in cursor::updates(batch) {
            if ts < from || self.after.is_some_and(|after| ts <= after) {
                continue;
            }
            let at = self.held.entry(ts).or_default();
            match sealed {
                Sealed::Oks(_) => at.oks.push(row, diff),
                Sealed::Errs(_) => at.errs.push(row, diff),
            }
        }
    }
}

/// What an index holds as of a time, a piece at a time.
pub struct Contents {
    snapshots: Vec<Arc<Snapshot>>,
    as_of: Timestamp,
    at: usize,
    walk: Option<Walk>,
    hits: Hits,
}

impl Contents {
    /// What an index holds as of a time, once all of that is there.
    ///
    /// # Errors
    /// A time that was compacted away, or an index that was dropped.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn of(handle: &IndexHandle, as_of: Timestamp) -> Result<Contents, ComputeError> {
        handle.wait_until(|handle| handle.all_complete(as_of)).await;
        Contents::new(handle, handle.snapshots(), as_of)
    }

    fn new(handle: &IndexHandle, snapshots: Vec<Arc<Snapshot>>, as_of: Timestamp) -> Result<Contents, ComputeError> {
        handle.check()?;
        let since = snapshots.iter().map(|snapshot| snapshot.since).max().unwrap_or(0);
        match since > as_of {
            true => Err(ComputeError::SinceAdvanced { id: handle.id, since, as_of }),
            false => Ok(Contents { snapshots, as_of, at: 0, walk: None, hits: Hits::new() }),
        }
    }

    /// The next rows, about `rows_max` of them; `None` after the last.
    pub fn next_rows(&mut self, rows_max: usize) -> Option<Updates> {
        while let Some(snapshot) = self.snapshots.get(self.at) {
            let walk = self.walk.get_or_insert_with(|| Walk::new(&snapshot.oks, Bounds::All));
            self.hits.clear();
            walk.take(&snapshot.oks, self.as_of, rows_max, &mut self.hits);
            if !self.hits.is_empty() {
                let mut rows = Updates::new();
                self.hits.iter().for_each(|hit| rows.push(cursor::value(&snapshot.oks, hit), hit.count));
                return Some(rows);
            }
            (self.at, self.walk) = (self.at + 1, None);
        }
        None
    }

    /// The errors, encoded.
    pub fn errors(&self) -> Updates {
        let mut errors = Updates::new();
        for snapshot in &self.snapshots {
            let mut hits = Hits::new();
            Walk::new(&snapshot.errs, Bounds::All).take(&snapshot.errs, self.as_of, usize::MAX, &mut hits);
            hits.iter().for_each(|hit| errors.push(cursor::value(&snapshot.errs, hit), hit.count));
        }
        errors
    }

    /// The first of the errors.
    pub fn first_error(&self) -> Option<ComputeError> {
        self.errors().iter().next().map(|(error, _)| decode_error(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::early::Outcome;
    use crate::index::Clocks;
    use crate::layout::Layout;
    use arrangement::allowance::Allowance;
    use arrow::datatypes::DataType;
    use futures::executor::block_on;
    use repr::row::write_datum;
    use repr::{Datum, GlobalId};

    fn layout() -> Layout {
        Layout::new([DataType::Int32], [Some(0)]).expect("numbers are keys as they are stored")
    }

    fn updates(number: i32) -> Updates {
        let mut row = Vec::new();
        write_datum(&mut row, &DataType::Int32, &Datum::Int4(number)).expect("it is of that type");
        let mut updates = Updates::new();
        updates.push(&row, 1);
        updates
    }

    #[test]
    fn what_was_shown_early_is_told_once() {
        let handle = IndexHandle::new(GlobalId::User(1), 1, Clocks::new(), Vec::new(), Allowance::unlimited());
        let handle = Arc::new(handle.with_layout(Some(layout())));
        let mut batches = Vec::new();
        let mut publish = |commits: &[Timestamp], upper: Timestamp| {
            let arranged = commits.iter().flat_map(|ts| {
                let number = i32::try_from(*ts).expect("small");
                layout().arrange(updates(number).iter(), *ts, 1, |_| 0, &Allowance::unlimited()).into_iter().flatten()
            });
            let new: Vec<_> = arranged.collect();
            batches.extend(new.iter().cloned());
            let snapshot = Snapshot::new(batches.clone(), Vec::new(), 0, upper);
            handle.publish(0, snapshot, new.into_iter().map(Sealed::Oks).collect());
        };
        publish(&[10], 11);
        assert_eq!(handle.show(20, &[Arc::new(updates(20))]), Outcome::Shown);
        let (mut contents, mut tail) = block_on(Tail::since(Arc::clone(&handle), 10, usize::MAX)).expect("it is there");
        assert_eq!(contents.next_rows(9).map(|rows| rows.len()), Some(1), "one row as of 10");
        assert_eq!(handle.show(30, &[Arc::new(updates(30))]), Outcome::Due, "somebody waits for the workers");
        publish(&[20, 30], 31);
        let told = tail.take().expect("it goes on").expect("there is something new");
        let at = |ts: Timestamp| told.at.get(&ts).map(|at| at.oks.iter().map(|(_, diff)| diff).collect::<Vec<_>>());
        assert_eq!((told.upper, at(10), at(20), at(30)), (31, None, Some(vec![1]), Some(vec![1])));
    }
}
