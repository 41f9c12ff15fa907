//! Merging batches of rows.
//!
//! Runs of keys that only one of both batches has are copied as they lie in memory: their bytes at once, and of the offsets
//! and updates only what changes. Only what both batches know is taken apart.

use crate::allowance::Held;
use crate::layers::{Batch as RowBatch, Layers, Storage};
use differential_dataflow::lattice::Lattice;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::spine_fueled::{Merger, SpineBatch};
use std::cmp::Ordering;
use std::ops::Range;
use timely::progress::frontier::AntichainRef;
use timely::progress::{Antichain, Timestamp};

impl<T: Timestamp + Lattice> SpineBatch for RowBatch<T> {
    type Time = T;
    type Merger = RowMerger<T>;

    fn len(&self) -> usize {
        self.updates
    }
}

/// A merge in progress.
pub struct RowMerger<T: Timestamp + Lattice> {
    /// The next key of each batch.
    first: usize,
    second: usize,
    result: Layers<T>,
    /// What times are advanced to.
    since: Antichain<T>,
    /// The last time that was met, and what compaction makes of it.
    compacted: Option<(T, T)>,
    /// The memory of the result; where it was refused nothing is merged.
    held: Option<Held>,
}

impl<T: Timestamp + Lattice> Merger<RowBatch<T>> for RowMerger<T> {
    fn new(first: &RowBatch<T>, second: &RowBatch<T>, compaction: AntichainRef<'_, T>) -> Self {
        let most = first.byte_count() + second.byte_count();
        let held = first.held().allowance().hold(most);
        let result = match held {
            Some(_) => Layers::for_both(&first.storage, &second.storage),
            None => Layers::with_capacity(0, 0, 0),
        };
        RowMerger { first: 0, second: 0, result, since: compaction.to_owned(), compacted: None, held }
    }

    fn work(&mut self, first: &RowBatch<T>, second: &RowBatch<T>, fuel: &mut isize) {
        let (one, other) = (&first.storage, &second.storage);
        while *fuel > 0 && self.held.is_some() {
            let most = fuel.unsigned_abs();
            let (first_end, second_end) = (one.keys.len(), other.keys.len());
            let (first_limit, second_limit) =
                ((self.first + most).min(first_end), (self.second + most).min(second_end));
            let effort = match (self.first < first_end, self.second < second_end) {
                (true, true) => match one.keys.compare(self.first, &other.keys, self.second) {
                    Ordering::Less => {
                        let end = one.keys.run_below(self.first + 1..first_limit, other.keys.index(self.second));
                        self.copy_first(one, end)
                    }
                    Ordering::Greater => {
                        let end = other.keys.run_below(self.second + 1..second_limit, one.keys.index(self.first));
                        self.copy_second(other, end)
                    }
                    Ordering::Equal => self.merge_key(one, other),
                },
                (true, false) => self.copy_first(one, first_limit),
                (false, true) => self.copy_second(other, second_limit),
                (false, false) => return,
            };
            *fuel -= isize::try_from(effort).unwrap_or(isize::MAX);
        }
    }

    fn done(self) -> Option<RowBatch<T>> {
        self.result.done(self.held?)
    }
}

impl<T: Timestamp + Lattice> RowMerger<T> {
    fn copy_first(&mut self, source: &Storage<T>, end: usize) -> usize {
        let keys = std::mem::replace(&mut self.first, end)..end;
        self.copy(source, keys)
    }

    fn copy_second(&mut self, source: &Storage<T>, end: usize) -> usize {
        let keys = std::mem::replace(&mut self.second, end)..end;
        self.copy(source, keys)
    }

    /// Copies keys that the other batch does not have; returns the number of values that were looked at.
    fn copy(&mut self, source: &Storage<T>, keys: Range<usize>) -> usize {
        // What is kept and not yet copied begins here.
        let mut key_from = keys.start;
        let first_value = source.vals.bounds(keys.start).0;
        let (mut value_from, mut value) = (first_value, first_value);
        let mut count = self.result.value_count();
        let mut lower = source.upds.offs.get(first_value);
        for key in keys.clone() {
            let (before, end) = (count, source.vals.offs.get(key + 1));
            while value < end {
                let upper = source.upds.offs.get(value + 1);
                // No updates of its own: the one before them.
                let updates = if lower == upper { lower - 1..upper } else { lower..upper };
                lower = upper;
                if self.push_updates(source, updates) {
                    count += 1;
                } else {
                    self.result.storage.vals.vals.extend_from(&source.vals.vals, value_from..value);
                    value_from = value + 1;
                }
                value += 1;
            }
            if count > before {
                self.result.end_key(count);
            } else {
                self.result.storage.keys.extend_from(&source.keys, key_from..key);
                key_from = key + 1;
            }
        }
        self.result.storage.vals.vals.extend_from(&source.vals.vals, value_from..value);
        self.result.storage.keys.extend_from(&source.keys, key_from..keys.end);
        value - first_value
    }

    /// Merges the values of a key that both batches have; returns the number of values that were looked at.
    fn merge_key(&mut self, one: &Storage<T>, other: &Storage<T>) -> usize {
        let before = self.result.value_count();
        let (mut first, mut second) = (one.vals.bounds(self.first), other.vals.bounds(self.second));
        let effort = (first.1 - first.0) + (second.1 - second.0);
        while first.0 < first.1 || second.0 < second.1 {
            let order = match (first.0 < first.1, second.0 < second.1) {
                (true, true) => one.vals.vals.compare(first.0, &other.vals.vals, second.0),
                (true, false) => Ordering::Less,
                _ => Ordering::Greater,
            };
            match order {
                Ordering::Less => {
                    self.push_value(one, first.0);
                    first.0 += 1;
                }
                Ordering::Greater => {
                    self.push_value(other, second.0);
                    second.0 += 1;
                }
                Ordering::Equal => {
                    self.stage(one, bounds(one, first.0));
                    self.stage(other, bounds(other, second.0));
                    if self.result.push_staged() {
                        self.result.storage.vals.vals.push_ref(one.vals.get_abs(first.0));
                    }
                    first.0 += 1;
                    second.0 += 1;
                }
            }
        }
        if self.result.value_count() > before {
            self.result.push_key(one.keys.index(self.first));
        }
        self.first += 1;
        self.second += 1;
        effort
    }

    fn push_value(&mut self, source: &Storage<T>, value: usize) {
        if self.push_updates(source, bounds(source, value)) {
            self.result.storage.vals.vals.push_ref(source.vals.get_abs(value));
        }
    }

    /// Appends the updates of a value; false if they add up to nothing.
    #[inline]
    fn push_updates(&mut self, source: &Storage<T>, updates: Range<usize>) -> bool {
        if updates.len() == 1 {
            let time = self.compacted(&source.upds.times[updates.start]);
            self.result.push_single(time, source.upds.diffs[updates.start]);
            return true;
        }
        self.stage(source, updates);
        self.result.push_staged()
    }

    fn stage(&mut self, source: &Storage<T>, updates: Range<usize>) {
        for at in updates {
            let time = self.compacted(&source.upds.times[at]);
            self.result.stage(time, source.upds.diffs[at]);
        }
    }

    #[inline]
    fn compacted(&mut self, time: &T) -> T {
        if let Some((met, compacted)) = &self.compacted
            && met == time
        {
            return compacted.clone();
        }
        let mut compacted = time.clone();
        compacted.advance_by(self.since.borrow());
        self.compacted = Some((time.clone(), compacted.clone()));
        compacted
    }
}

/// Where the updates of a value are.
fn bounds<T: Timestamp + Lattice>(source: &Storage<T>, value: usize) -> Range<usize> {
    let (lower, upper) = source.upds.bounds(value);
    lower..upper
}

#[cfg(test)]
pub(crate) mod tests {
    use super::RowMerger;
    use crate::allowance::Allowance;
    use crate::spine::{RowBatch, RowUpdate, batch};
    use differential_dataflow::consolidation::consolidate_updates;
    use differential_dataflow::trace::implementations::spine_fueled::Merger;
    use proptest::prelude::{any, prop, proptest};
    use repr::Timestamp;
    use timely::progress::Antichain;

    type Drawn = Vec<(u16, u8, u64, i64)>;

    fn updates(drawn: Drawn, from: Timestamp, is_fixed: bool) -> Vec<RowUpdate> {
        let row = |key: u16| match is_fixed {
            true => key.to_be_bytes().to_vec(),
            false => vec![1; usize::from(key % 40)],
        };
        let value = |value: u8| vec![value; if is_fixed { 2 } else { usize::from(value) }];
        let update = |(key, val, time, diff)| ((row(key), value(val)), from + time, diff);
        let mut updates: Vec<RowUpdate> = drawn.into_iter().map(update).collect();
        consolidate_updates(&mut updates);
        updates
    }

    pub(crate) fn read(batch: &RowBatch) -> Vec<RowUpdate> {
        let storage = &batch.storage;
        let mut all = Vec::new();
        for key in 0..storage.vals.len() {
            let (lower, upper) = storage.vals.bounds(key);
            assert!(lower < upper, "a key has values");
            for value in lower..upper {
                let (from, to) = storage.upds.bounds(value);
                all.extend((from..to).map(|at| {
                    let (time, diff) = storage.upds.get_abs(at);
                    let (key, value) = (storage.keys.index(key).to_vec(), storage.vals.get_abs(value).to_vec());
                    ((key, value), *time, *diff)
                }));
            }
        }
        all
    }

    use differential_dataflow::trace::implementations::BatchContainer;

    proptest! {
        #[test]
        fn a_merge_is_the_compacted_sum(
            first in prop::collection::vec((0_u16..300, 0_u8..3, 0_u64..5, -1_i64..3), 0..300),
            second in prop::collection::vec((0_u16..300, 0_u8..3, 0_u64..5, -2_i64..2), 0..300),
            since in 0_u64..12,
            is_fixed in any::<bool>(),
            fuel in 1_isize..50) {
            let (first, second) = (updates(first, 0, is_fixed), updates(second, 5, is_fixed));
            let mut expected: Vec<RowUpdate> = first.iter().chain(&second).cloned().collect();
            expected.iter_mut().for_each(|(_, time, _)| *time = (*time).max(since));
            consolidate_updates(&mut expected);
            let allowance = Allowance::unlimited();
            let (Some(first), Some(second)) = (batch(first, &allowance), batch(second, &allowance)) else { return Ok(()) };
            let since = Antichain::from_elem(since);
            let mut merger: RowMerger<Timestamp> = Merger::new(&first, &second, since.borrow());
            loop {
                let mut left = fuel;
                merger.work(&first, &second, &mut left);
                if left > 0 {
                    break;
                }
            }
            let merged = merger.done();
            assert_eq!(merged.as_ref().map_or(0, |merged| merged.updates), expected.len());
            assert_eq!(merged.as_ref().map(read).unwrap_or_default(), expected);
        }
    }
}
