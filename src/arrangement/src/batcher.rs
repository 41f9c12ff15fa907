//! Updates on their way into an arrangement, until their times are complete.
//!
//! They wait as they came. When a batch is to be made of them they are sorted, once, by their first bytes as
//! numbers that lie side by side: rows are looked at only where those are equal. The batch is then built from where they lie.

use crate::layers::{Batch, Layers};
use crate::packed::Packed;
use crate::spine::RowUpdate;
use differential_dataflow::lattice::Lattice;
use differential_dataflow::logging::Logger;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::{Batcher, Builder, Description};
use repr::Diff;
use std::collections::VecDeque;
use timely::container::{ContainerBuilder, PushInto, SizableContainer};
use timely::progress::frontier::AntichainRef;
use timely::progress::{Antichain, Timestamp};

/// The bytes of a key that become a number.
const PREFIX_BYTES: usize = 16;

/// Updates as they came and, if they are to become a batch, in which order they stand in it.
#[derive(Debug)]
pub struct Parcel<T> {
    parts: Vec<Packed<T>>,
    order: Vec<Place>,
}

/// Where an update is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// A number that compares as its row does, as far as it goes; known when it is to be sorted.
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
        order.sort_unstable_by(|left, right| {
            left.prefix.cmp(&right.prefix).then_with(|| self.row(*left).cmp(&self.row(*right)))
        });
        self.order = order;
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

/// Makes parcels of containers.
#[derive(Debug)]
pub struct Parcels<T> {
    /// Rows that came one by one.
    pending: Packed<T>,
    ready: VecDeque<Packed<T>>,
    given: Parcel<T>,
}

impl<T> Default for Parcels<T> {
    fn default() -> Parcels<T> {
        Parcels { pending: Packed::default(), ready: VecDeque::new(), given: Parcel::default() }
    }
}

impl<T> PushInto<&mut Packed<T>> for Parcels<T> {
    fn push_into(&mut self, updates: &mut Packed<T>) {
        self.ready.push_back(std::mem::take(updates));
    }
}

impl<T> PushInto<&mut Vec<RowUpdate<T>>> for Parcels<T> {
    fn push_into(&mut self, updates: &mut Vec<RowUpdate<T>>) {
        for ((key, value), time, diff) in updates.drain(..) {
            self.pending.push(&key, &value, time, diff);
            if self.pending.at_capacity() {
                self.ready.push_back(std::mem::take(&mut self.pending));
            }
        }
    }
}

impl<T: 'static> ContainerBuilder for Parcels<T> {
    type Container = Parcel<T>;

    fn extract(&mut self) -> Option<&mut Parcel<T>> {
        if self.ready.is_empty() {
            return None;
        }
        self.given = Parcel { parts: self.ready.drain(..).collect(), order: Vec::new() };
        Some(&mut self.given)
    }

    fn finish(&mut self) -> Option<&mut Parcel<T>> {
        if !self.pending.is_empty() {
            self.ready.push_back(std::mem::take(&mut self.pending));
        }
        self.extract()
    }
}

/// Keeps updates until their times are complete.
pub struct RowBatcher<T> {
    waiting: Vec<Packed<T>>,
    lower: Antichain<T>,
    /// The least times of what waits.
    frontier: Antichain<T>,
}

impl<T> PushInto<Parcel<T>> for RowBatcher<T> {
    fn push_into(&mut self, parcel: Parcel<T>) {
        self.waiting.extend(parcel.parts);
    }
}

impl<T: Timestamp> Batcher for RowBatcher<T> {
    type Output = Parcel<T>;
    type Time = T;

    fn new(_: Option<Logger>, _: usize) -> Self {
        RowBatcher { waiting: Vec::new(), lower: Antichain::from_elem(T::minimum()), frontier: Antichain::new() }
    }

    fn seal(&mut self, upper: Antichain<T>) -> (Vec<Parcel<T>>, Description<T>) {
        let mut parcel = Parcel::default();
        self.frontier.clear();
        for part in std::mem::take(&mut self.waiting) {
            self.divide(part, &upper, &mut parcel);
        }
        parcel.sort();
        let since = Antichain::from_elem(T::minimum());
        let description = Description::new(std::mem::replace(&mut self.lower, upper.clone()), upper, since);
        (if parcel.order.is_empty() { Vec::new() } else { vec![parcel] }, description)
    }

    fn frontier(&mut self) -> AntichainRef<'_, T> {
        self.frontier.borrow()
    }
}

impl<T: Timestamp> RowBatcher<T> {
    /// Puts updates whose times are complete into a parcel and keeps the others.
    fn divide(&mut self, part: Packed<T>, upper: &Antichain<T>, parcel: &mut Parcel<T>) {
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

/// Builds batches from parcels.
pub struct ParcelBuilder<T: Timestamp + Lattice>(Layers<T>);

impl<T: Timestamp + Lattice> Builder for ParcelBuilder<T> {
    type Input = Parcel<T>;
    type Time = T;
    type Output = Batch<T>;

    fn with_capacity(keys: usize, values: usize, updates: usize) -> Self {
        ParcelBuilder(Layers::with_capacity(keys, values, updates))
    }

    fn push(&mut self, parcel: &mut Parcel<T>) {
        let layers = &mut self.0;
        let mut rest = parcel.order.as_slice();
        let mut value_count = layers.value_count();
        while let Some(first) = rest.first() {
            let (key, value) = parcel.row(*first);
            let is_of_key = |place: &Place| parcel.row(*place).0 == key;
            let is_same = |place: &&Place| place.prefix == first.prefix && parcel.row(**place) == (key, value);
            let count = 1 + rest[1..].iter().take_while(is_same).count();
            let (equal, behind) = rest.split_at(count);
            rest = behind;
            let is_there = match equal {
                [only] => {
                    let (time, diff) = parcel.update(*only);
                    if diff != 0 {
                        layers.push_single(time.clone(), diff);
                    }
                    diff != 0
                }
                several => {
                    for place in several {
                        let (time, diff) = parcel.update(*place);
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
        *parcel = Parcel::default();
    }

    fn done(self, description: Description<T>) -> Batch<T> {
        self.0.done(description)
    }

    fn seal(chain: &mut Vec<Parcel<T>>, description: Description<T>) -> Batch<T> {
        let count = chain.iter().map(|parcel| parcel.order.len()).sum();
        let mut builder = Self::with_capacity(count, count, count);
        chain.drain(..).for_each(|mut parcel| builder.push(&mut parcel));
        builder.done(description)
    }
}

#[cfg(test)]
mod tests {
    use super::{ParcelBuilder, Parcels, RowBatcher};
    use crate::packed::Packed;
    use crate::spine::{RowBuilder, RowUpdate};
    use differential_dataflow::consolidation::consolidate_updates;
    use differential_dataflow::trace::{BatchReader, Batcher, Builder};
    use proptest::prelude::{any, prop, proptest};
    use timely::container::{ContainerBuilder, PushInto};
    use timely::progress::Antichain;

    proptest! {
        #[test]
        fn batches_are_what_was_pushed_up_to_their_time(
            containers in prop::collection::vec((any::<bool>(), prop::collection::vec(
                (prop::collection::vec(0_u8..2, 0..20), 0_u8..2, 0_u64..9, -1_i64..2), 0..12)), 0..6),
            uppers in prop::collection::vec(0_u64..9, 0..4)) {
            let (mut parcels, mut batcher) = (Parcels::default(), RowBatcher::new(None, 0));
            let mut all: Vec<RowUpdate> = Vec::new();
            for (is_packed, container) in containers {
                let mut updates: Vec<RowUpdate> =
                    container.into_iter().map(|(key, value, time, diff)| ((key, vec![value]), time, diff)).collect();
                all.extend(updates.iter().cloned());
                if is_packed {
                    let mut packed = Packed::default();
                    updates.iter().for_each(|((key, value), time, diff)| packed.push(key, value, *time, *diff));
                    parcels.push_into(&mut packed);
                } else {
                    parcels.push_into(&mut updates);
                }
                while let Some(parcel) = parcels.extract() {
                    batcher.push_into(std::mem::take(parcel));
                }
            }
            while let Some(parcel) = parcels.finish() {
                batcher.push_into(std::mem::take(parcel));
            }
            let mut uppers = uppers;
            uppers.sort_unstable();
            let mut lower = 0;
            for upper in uppers.into_iter().chain([9]) {
                let mut expected: Vec<RowUpdate> =
                    all.iter().filter(|(_, time, _)| (lower..upper).contains(time)).cloned().collect();
                lower = upper;
                consolidate_updates(&mut expected);
                let (mut chain, description) = batcher.seal(Antichain::from_elem(upper));
                let least = all.iter().map(|(_, time, _)| *time).filter(|time| *time >= upper).min();
                assert_eq!(batcher.frontier().iter().next().copied(), least);
                let batch = ParcelBuilder::seal(&mut chain, description.clone());
                let other = RowBuilder::seal(&mut vec![expected.clone()], description);
                assert_eq!(batch.len(), expected.len());
                let read = |batch| crate::cursor::updates(batch).map(|(row, time, diff)| (row.to_vec(), time, diff)).collect::<Vec<_>>();
                assert_eq!(crate::merger::tests::read(&batch), expected);
                if !expected.is_empty() {
                    assert_eq!(read(&batch), read(&other));
                }
            }
        }
    }
}
