//! Updates on their way into an arrangement, until their times are complete.
//!
//! They wait as they came. When a batch is to be made of them they are sorted, once, by their first bytes as
//! numbers that lie side by side: rows are looked at only where those are equal. The batch is then built from where they lie.
//!
//! What waits, and what is made of it, is memory of the dataflow: where that is refused the updates are thrown away.

use crate::allowance::{Allowance, Held};
use crate::layers::{Batch, Layers};
use crate::packed::Packed;
use crate::spine::RowUpdate;
use differential_dataflow::batcher::{Batcher, Extract};
use differential_dataflow::lattice::Lattice;
use differential_dataflow::trace::implementations::BatchContainer;
use repr::Diff;
use std::sync::Arc;
use timely::container::SizableContainer;
use timely::progress::frontier::AntichainRef;
use timely::progress::{Antichain, Timestamp};

/// The bytes of a key that become a number.
const PREFIX_BYTES: usize = 16;
/// Updates that are sorted already, on average, where runs of such are merged. Tests have fewer.
const LONG_RUN: usize = if cfg!(test) { 4 } else { 1 << 15 };

/// Updates that become a batch: as they came, and in which order they stand in it.
struct Parcel<T> {
    parts: Vec<Packed<T>>,
    order: Vec<Place>,
}

/// Where an update is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// A number that compares as its row does, as far as it goes; known once they are sorted.
    prefix: u128,
    part: u32,
    row: u32,
}

impl<T> Default for Parcel<T> {
    fn default() -> Parcel<T> {
        Parcel { parts: Vec::new(), order: Vec::new() }
    }
}

impl<T: Ord> Parcel<T> {
    fn row(&self, place: Place) -> (&[u8], &[u8]) {
        self.parts[place.part as usize].row(place.row as usize)
    }

    fn update(&self, place: Place) -> (&T, Diff) {
        let (part, row) = (&self.parts[place.part as usize], place.row as usize);
        (part.time(row), part.diff(row))
    }

    fn sort(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        // Where all keys are of one length the bytes of a value follow those of its key.
        let mut widths = order.iter().map(|place| self.row(*place).0.len());
        let width = widths.next().filter(|width| widths.all(|other| other == *width));
        for place in &mut order {
            let (key, value) = self.row(*place);
            place.prefix = prefix(key, if width.is_some() { value } else { &[] });
        }
        let compare = |left: &Place, right: &Place| {
            left.prefix.cmp(&right.prefix).then_with(|| self.row(*left).cmp(&self.row(*right)))
        };
        // What was read from few sorted files is merged; of anything else sorting takes less.
        let few = order.len() / LONG_RUN;
        let run_ends = order.windows(2).filter(|pair| pair[0].prefix > pair[1].prefix);
        match run_ends.take(few + 1).count() <= few {
            true => order.sort_by(compare),
            false => order.sort_unstable_by(compare),
        }
        self.order = order;
    }

    /// The bytes of all keys and of all values.
    fn row_bytes(&self) -> (usize, usize) {
        let rows = self.order.iter().map(|place| self.row(*place));
        rows.fold((0, 0), |(keys, values), (key, value)| (keys + key.len(), values + value.len()))
    }

    /// The bytes that sorting them and making a batch of them takes, at most.
    fn effort(&self) -> usize {
        let rows: usize = self.parts.iter().map(Packed::byte_count).sum();
        let merging = self.order.len().div_ceil(2) * size_of::<Place>();
        rows + merging + self.order.len() * (size_of::<Place>() + size_of::<T>() + size_of::<Diff>())
    }

    /// The batch of these updates, sorted; absent if they add up to nothing.
    fn batch(&self, held: Held) -> Option<Batch<T>>
    where
        T: Timestamp + Lattice,
    {
        let mut layers = Layers::with_capacity(self.order.len(), self.order.len(), self.order.len());
        let (keys, values) = self.row_bytes();
        layers.storage.keys.reserve_bytes(keys);
        layers.storage.vals.vals.reserve_bytes(values);
        let mut rest = self.order.as_slice();
        let mut value_count = layers.value_count();
        while let Some(first) = rest.first() {
            let (key, value) = self.row(*first);
            let is_of_key = |place: &Place| self.row(*place).0 == key;
            let is_same = |place: &&Place| place.prefix == first.prefix && self.row(**place) == (key, value);
            let count = 1 + rest[1..].iter().take_while(is_same).count();
            let (equal, behind) = rest.split_at(count);
            rest = behind;
            let is_there = match equal {
                [only] => {
                    let (time, diff) = self.update(*only);
                    if diff != 0 {
                        layers.push_single(time.clone(), diff);
                    }
                    diff != 0
                }
                several => {
                    for place in several {
                        let (time, diff) = self.update(*place);
                        layers.stage(time.clone(), diff);
                    }
                    layers.push_staged()
                }
            };
            if is_there {
                layers.storage.vals.vals.push_ref(value);
            }
            if !rest.first().is_some_and(is_of_key) {
                if layers.value_count() > value_count {
                    layers.push_key(key);
                }
                value_count = layers.value_count();
            }
        }
        layers.done(held)
    }
}

/// A number that compares as these bytes do, as far as it goes.
fn prefix(key: &[u8], value: &[u8]) -> u128 {
    if let Some(chunk) = key.first_chunk::<PREFIX_BYTES>() {
        return u128::from_be_bytes(*chunk);
    }
    let mut bytes = [0; PREFIX_BYTES];
    let (of_key, rest) = bytes.split_at_mut(key.len());
    of_key.copy_from_slice(key);
    let count = value.len().min(rest.len());
    rest[..count].copy_from_slice(&value[..count]);
    u128::from_be_bytes(bytes)
}

/// Keeps updates until their times are complete.
pub struct RowBatcher<T> {
    waiting: Vec<Packed<T>>,
    /// Updates that came one by one, until they fill a container.
    loose: Packed<T>,
    /// The least times of what waits.
    frontier: Antichain<T>,
    /// The bytes of what waits.
    byte_count: usize,
    held: Held,
}

impl<T> RowBatcher<T> {
    /// No updates yet, of this dataflow.
    pub fn new(allowance: &Arc<Allowance>) -> RowBatcher<T> {
        let (waiting, loose, frontier) = (Vec::new(), Packed::default(), Antichain::new());
        RowBatcher { waiting, loose, frontier, byte_count: 0, held: allowance.nothing() }
    }

    fn keep(&mut self, updates: Packed<T>) {
        self.byte_count += updates.byte_count();
        if self.held.cover(self.byte_count) {
            self.waiting.push(updates);
        } else {
            self.waiting = Vec::new();
        }
    }
}

impl<T: Timestamp + Lattice> Batcher<Packed<T>> for RowBatcher<T> {
    fn insert(&mut self, updates: &mut Packed<T>) {
        self.keep(std::mem::take(updates));
    }
}

impl<T: Timestamp + Lattice> Batcher<Vec<RowUpdate<T>>> for RowBatcher<T> {
    fn insert(&mut self, updates: &mut Vec<RowUpdate<T>>) {
        for ((key, value), time, diff) in updates.drain(..) {
            self.loose.push(&key, &value, time, diff);
            if self.loose.at_capacity() {
                let full = std::mem::take(&mut self.loose);
                self.keep(full);
            }
        }
    }
}

impl<T: Timestamp + Lattice> Extract for RowBatcher<T> {
    type Time = T;
    type Output = Batch<T>;

    fn extract(&mut self, upper: AntichainRef<'_, T>) -> (Option<Batch<T>>, AntichainRef<'_, T>) {
        let mut parcel = Parcel::default();
        self.frontier.clear();
        let loose = std::mem::take(&mut self.loose);
        let waiting = std::mem::take(&mut self.waiting);
        parcel.order.reserve_exact(waiting.iter().map(Packed::len).sum::<usize>() + loose.len());
        for part in waiting.into_iter().chain([loose]) {
            self.divide(part, upper, &mut parcel);
        }
        let batch = self.held.allowance().hold(parcel.effort()).and_then(|held| {
            parcel.sort();
            parcel.batch(held)
        });
        drop(parcel);
        self.byte_count = self.waiting.iter().map(Packed::byte_count).sum();
        self.held.settle(self.byte_count);
        (batch, self.frontier.borrow())
    }
}

impl<T: Timestamp> RowBatcher<T> {
    /// Puts updates whose times are complete into a parcel and keeps the others.
    fn divide(&mut self, part: Packed<T>, upper: AntichainRef<'_, T>, parcel: &mut Parcel<T>) {
        let before = parcel.order.len();
        let mut kept = Packed::default();
        let mut last: Option<(&T, bool)> = None;
        for at in 0..part.len() {
            let ((key, value), time) = (part.row(at), part.time(at));
            let is_complete = match last {
                Some((met, is_complete)) if met == time => is_complete,
                _ => !upper.less_equal(time),
            };
            last = Some((time, is_complete));
            if is_complete {
                parcel.order.push(Place { prefix: 0, part: index(parcel.parts.len()), row: index(at) });
            } else {
                kept.push(key, value, time.clone(), part.diff(at));
                self.frontier.insert_ref(time);
            }
        }
        if parcel.order.len() > before {
            parcel.parts.push(part);
        }
        if !kept.is_empty() {
            self.waiting.push(kept);
        }
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("containers are small, and memory is for fewer of them")
}

#[cfg(test)]
mod tests {
    use super::RowBatcher;
    use crate::allowance::Allowance;
    use crate::packed::Packed;
    use crate::spine::{RowUpdate, batch};
    use differential_dataflow::batcher::{Batcher, Extract};
    use differential_dataflow::consolidation::consolidate_updates;
    use proptest::prelude::{any, prop, proptest};
    use timely::progress::Antichain;

    proptest! {
        #[test]
        fn batches_are_what_was_inserted_up_to_their_time(
            containers in prop::collection::vec((any::<bool>(), prop::collection::vec(
                (prop::collection::vec(0_u8..2, 0..20), 0_u8..2, 0_u64..9, -1_i64..2), 0..12)), 0..6),
            uppers in prop::collection::vec(0_u64..9, 0..4)) {
            let allowance = Allowance::unlimited();
            let mut batcher = RowBatcher::new(&allowance);
            let mut all: Vec<RowUpdate> = Vec::new();
            for (is_packed, container) in containers {
                let mut updates: Vec<RowUpdate> =
                    container.into_iter().map(|(key, value, time, diff)| ((key, vec![value]), time, diff)).collect();
                all.extend(updates.iter().cloned());
                if is_packed {
                    let mut packed = Packed::default();
                    updates.iter().for_each(|((key, value), time, diff)| packed.push(key, value, *time, *diff));
                    batcher.insert(&mut packed);
                } else {
                    batcher.insert(&mut updates);
                }
            }
            let mut uppers = uppers;
            uppers.sort_unstable();
            let mut lower = 0;
            for upper in uppers.into_iter().chain([9]) {
                let mut expected: Vec<RowUpdate> =
                    all.iter().filter(|(_, time, _)| (lower..upper).contains(time)).cloned().collect();
                lower = upper;
                consolidate_updates(&mut expected);
                let (extracted, retained) = batcher.extract(Antichain::from_elem(upper).borrow());
                let least = all.iter().map(|(_, time, _)| *time).filter(|time| *time >= upper).min();
                assert_eq!(retained.iter().next().copied(), least);
                let other = batch(expected.clone(), &allowance);
                assert_eq!(extracted.is_some(), other.is_some());
                if let (Some(extracted), Some(other)) = (extracted, other) {
                    let read = |batch| crate::snapshot::cursor::updates(batch).map(|(row, time, diff)| (row.to_vec(), time, diff)).collect::<Vec<_>>();
                    assert_eq!(extracted.updates, expected.len());
                    assert_eq!(crate::merger::tests::read(&extracted), expected);
                    assert_eq!(read(&extracted), read(&other));
                }
            }
        }
    }
}
