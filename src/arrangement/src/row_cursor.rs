//! Moves through a batch of rows.
//!
//! Differential's own cursor finds a key by comparing rows from where it stands. This one looks at the next few, and then goes
//! to where the key must be ([`Rows::lower_bound`]).

use crate::arc_batch::ArcBatch;
use crate::row_layout::{RowLayout, Rows};
use differential_dataflow::lattice::Lattice;
use differential_dataflow::trace::cursor::{Cursor, Navigable};
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::OrdValBatch;
use repr::Diff;
use std::marker::PhantomData;
use timely::progress::Timestamp;

/// So many keys are looked at one by one.
const NEAR: usize = 4;

/// A cursor over a shared batch of rows.
#[derive(Debug)]
pub struct RowCursor<T> {
    key: usize,
    value: usize,
    times: PhantomData<T>,
}

impl<T: Timestamp + Lattice> Navigable for ArcBatch<OrdValBatch<RowLayout<T>>> {
    type Cursor = RowCursor<T>;

    fn cursor(&self) -> RowCursor<T> {
        RowCursor { key: 0, value: 0, times: PhantomData }
    }
}

impl<T: Timestamp + Lattice> Cursor for RowCursor<T> {
    type Storage = ArcBatch<OrdValBatch<RowLayout<T>>>;
    type Key<'a> = &'a [u8];
    type ValOwn = Vec<u8>;
    type Val<'a> = &'a [u8];
    type Time = T;
    type TimeGat<'a> = &'a T;
    type Diff = Diff;
    type DiffGat<'a> = &'a Diff;
    type KeyContainer = Rows;
    type ValContainer = Rows;
    type TimeContainer = Vec<T>;
    type DiffContainer = Vec<Diff>;

    fn key_valid(&self, storage: &Self::Storage) -> bool {
        self.key < storage.storage.keys.len()
    }

    fn val_valid(&self, storage: &Self::Storage) -> bool {
        self.key_valid(storage) && self.value < storage.storage.vals.bounds(self.key).1
    }

    fn key<'a>(&self, storage: &'a Self::Storage) -> &'a [u8] {
        storage.storage.keys.index(self.key)
    }

    fn val<'a>(&self, storage: &'a Self::Storage) -> &'a [u8] {
        storage.storage.vals.get_abs(self.value)
    }

    fn get_key<'a>(&self, storage: &'a Self::Storage) -> Option<&'a [u8]> {
        self.key_valid(storage).then(|| self.key(storage))
    }

    fn get_val<'a>(&self, storage: &'a Self::Storage) -> Option<&'a [u8]> {
        self.val_valid(storage).then(|| self.val(storage))
    }

    fn map_times<L: FnMut(&T, &Diff)>(&mut self, storage: &Self::Storage, mut logic: L) {
        let (lower, upper) = storage.storage.upds.bounds(self.value);
        for index in lower..upper {
            let (time, diff) = storage.storage.upds.get_abs(index);
            logic(time, diff);
        }
    }

    fn step_key(&mut self, storage: &Self::Storage) {
        self.key = (self.key + 1).min(storage.storage.keys.len());
        self.rewind_vals(storage);
    }

    fn seek_key(&mut self, storage: &Self::Storage, key: &[u8]) {
        let keys = &storage.storage.keys;
        let near = (self.key + NEAR).min(keys.len());
        let found = (self.key..near).find(|at| keys.index(*at) >= key);
        self.key = found.unwrap_or_else(|| keys.lower_bound(near, key));
        self.rewind_vals(storage);
    }

    fn step_val(&mut self, storage: &Self::Storage) {
        if self.val_valid(storage) {
            self.value += 1;
        }
    }

    fn seek_val(&mut self, storage: &Self::Storage, value: &[u8]) {
        // A list of cursors seeks with all of them, also with those that have come to the end of their keys.
        if self.val_valid(storage) {
            let end = storage.storage.vals.bounds(self.key).1;
            self.value += storage.storage.vals.vals.advance(self.value, end, |other| other < value);
        }
    }

    fn rewind_keys(&mut self, storage: &Self::Storage) {
        self.key = 0;
        self.rewind_vals(storage);
    }

    fn rewind_vals(&mut self, storage: &Self::Storage) {
        if self.key_valid(storage) {
            self.value = storage.storage.vals.bounds(self.key).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::allowance::Allowance;
    use crate::spine::{RowUpdate, batch};
    use differential_dataflow::trace::cursor::{Cursor, Navigable};
    use proptest::prelude::{any, prop, proptest};
    use std::ops::Deref;

    proptest! {
        #[test]
        fn it_stands_where_differentials_cursor_stands(
            updates in prop::collection::vec((0_u32..3_000, 0_u8..3, 0_u64..2, 1_i64..3), 0..400),
            is_fixed in any::<bool>(),
            steps in prop::collection::vec((0_u8..5, 0_u32..3_000, 0_u8..4), 0..40)) {
            let row = |key: u32| match is_fixed {
                true => key.to_be_bytes().to_vec(),
                false => key.to_be_bytes().into_iter().filter(|byte| *byte != 0).collect(),
            };
            let updates: Vec<RowUpdate> =
                updates.into_iter().map(|(key, value, time, diff)| ((row(key), vec![value]), time, diff)).collect();
            let Some(batch) = batch(updates, &Allowance::unlimited()) else { return Ok(()) };
            let (mut ours, mut theirs) = (batch.cursor(), batch.deref().cursor());
            let mut sought = 0;
            for (step, key, value) in steps {
                let other = batch.deref();
                match step {
                    0 if theirs.key_valid(other) => {
                        ours.step_key(&batch);
                        theirs.step_key(other);
                    }
                    1 => {
                        // Cursors go forwards.
                        sought = if is_fixed { sought.max(key) } else { key };
                        ours.seek_key(&batch, &row(sought));
                        theirs.seek_key(other, &row(sought));
                    }
                    2 if theirs.key_valid(other) => {
                        ours.step_val(&batch);
                        theirs.step_val(other);
                    }
                    3 if theirs.key_valid(other) => {
                        ours.seek_val(&batch, &[value]);
                        theirs.seek_val(other, &[value]);
                    }
                    4 => {
                        sought = 0;
                        ours.rewind_keys(&batch);
                        theirs.rewind_keys(other);
                    }
                    _ => {}
                }
                assert_eq!(ours.get_key(&batch), theirs.get_key(other));
                if theirs.key_valid(other) {
                    assert_eq!(ours.get_val(&batch), theirs.get_val(other));
                    if theirs.val_valid(other) {
                        let (mut found, mut expected) = (Vec::new(), Vec::new());
                        ours.map_times(&batch, |time, diff| found.push((*time, *diff)));
                        theirs.map_times(other, |time, diff| expected.push((*time, *diff)));
                        assert_eq!(found, expected);
                    }
                }
            }
        }
    }
}
