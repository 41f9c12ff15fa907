//! A batch while it grows: its layers of keys, values and updates, filled in their order.

use crate::allowance::Held;
use crate::arc_batch::{ArcBatch, byte_count};
use crate::row_layout::RowLayout;
use differential_dataflow::consolidation::consolidate;
use differential_dataflow::lattice::Lattice;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::val_batch::OrdValStorage;
use differential_dataflow::trace::implementations::ord_neu::{OrdValBatch, Upds, Vals};
use repr::Diff;
use timely::progress::Timestamp;

/// The layers of a batch.
pub(crate) type Storage<T> = OrdValStorage<RowLayout<T>>;
/// A shared batch.
pub(crate) type Batch<T> = ArcBatch<OrdValBatch<RowLayout<T>>>;

/// A batch while it grows. Updates come first, then the value that they are of, then, when it has all of its values, its key.
pub(crate) struct Layers<T: Timestamp + Lattice> {
    pub(crate) storage: Storage<T>,
    /// The updates so far, those that stand for others included.
    update_count: usize,
    /// Updates of the next value.
    staged: Vec<(T, Diff)>,
}

impl<T: Timestamp + Lattice> Layers<T> {
    /// Nothing, with room for so many of each.
    pub(crate) fn with_capacity(keys: usize, values: usize, updates: usize) -> Layers<T> {
        Layers::new(OrdValStorage {
            keys: BatchContainer::with_capacity(keys),
            vals: Vals::with_capacity(keys + 1, values),
            upds: Upds::with_capacity(values + 1, updates),
        })
    }

    /// Nothing, with room for what two batches have.
    pub(crate) fn for_both(first: &Storage<T>, second: &Storage<T>) -> Layers<T> {
        Layers::new(OrdValStorage {
            keys: BatchContainer::merge_capacity(&first.keys, &second.keys),
            vals: Vals::merge_capacity(&first.vals, &second.vals),
            upds: Upds::merge_capacity(&first.upds, &second.upds),
        })
    }

    fn new(storage: Storage<T>) -> Layers<T> {
        Layers { storage, update_count: 0, staged: Vec::new() }
    }

    /// The number of values so far.
    pub(crate) fn value_count(&self) -> usize {
        self.storage.vals.vals.len()
    }

    /// Appends the only update of a value, which stands for itself if it equals the one before.
    #[inline]
    pub(crate) fn push_single(&mut self, time: T, diff: Diff) {
        let upds = &mut self.storage.upds;
        if upds.diffs.last() != Some(&diff) || upds.times.last() != Some(&time) {
            upds.times.push(time);
            upds.diffs.push(diff);
        }
        upds.offs.push(upds.times.len());
        self.update_count += 1;
    }

    /// Notes one of several updates of a value.
    pub(crate) fn stage(&mut self, time: T, diff: Diff) {
        self.staged.push((time, diff));
    }

    /// Appends the noted updates; false if they add up to nothing.
    pub(crate) fn push_staged(&mut self) -> bool {
        consolidate(&mut self.staged);
        match self.staged.len() {
            0 => return false,
            1 => {
                let (time, diff) = self.staged.pop().expect("there is one");
                self.push_single(time, diff);
            }
            count => {
                let upds = &mut self.storage.upds;
                for (time, diff) in self.staged.drain(..) {
                    upds.times.push(time);
                    upds.diffs.push(diff);
                }
                upds.offs.push(upds.times.len());
                self.update_count += count;
            }
        }
        true
    }

    /// Appends a key, which has the values since the one before.
    pub(crate) fn push_key(&mut self, key: &[u8]) {
        self.storage.keys.push_ref(key);
        self.end_key(self.value_count());
    }

    /// Notes that the values of a key end here.
    #[inline]
    pub(crate) fn end_key(&mut self, value_count: usize) {
        self.storage.vals.offs.push(value_count);
    }

    /// The batch, absent if nothing was appended, and what is left of the memory that was held for it.
    pub(crate) fn done(self, mut held: Held) -> Option<Batch<T>> {
        let Layers { mut storage, update_count, .. } = self;
        // Room was made for what might have come, and of most updates one stands for many.
        storage.keys.shrink_to_fit();
        storage.vals.vals.shrink_to_fit();
        storage.upds.times.shrink_to_fit();
        storage.upds.diffs.shrink_to_fit();
        held.settle(byte_count(&storage));
        (update_count > 0).then(|| Batch::new(OrdValBatch { storage, updates: update_count }, held))
    }
}
