//! Reads of a snapshot: one key, a key prefix, or everything, as of a time.
//!
//! A read produces [`Hit`]s: positions of value rows in the snapshot's batches with the number of copies that are there at
//! the time asked for. Positions and not slices, so that whoever holds the snapshot can hold the hits beside it.
//!
//! How: each batch is sorted by key and value, so a walk keeps one position per batch and takes the least (key, value)
//! over all of them, adds up the multiplicities of the updates not beyond `as_of`, and reports what does not cancel.
//! Most keys live in one batch, and most snapshots have few batches, so the least is found by comparing them all; up to the
//! least key of the others nothing has to be compared any more.
//!
//! # Invariants
//! - Hits come in order of key and value, each (key, value) at most once, with a multiplicity other than 0.

use crate::snapshot::Snapshot;
use crate::spine::RowBatch;
use differential_dataflow::trace::implementations::BatchContainer;
use repr::{Diff, Timestamp};
use smallvec::SmallVec;

/// Keys that are looked at one by one before they are searched.
const NEAR: usize = 8;

/// A value row and how many copies of it there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    batch: u32,
    value: usize,
    /// The number of copies; negative only if the collection is broken.
    pub count: Diff,
}

/// Hits of a read. Most reads have one, which needs no memory of its own.
pub type Hits = SmallVec<[Hit; 1]>;

/// The value row at which a hit points.
pub fn value<'a>(batches: &'a [RowBatch], hit: &Hit) -> &'a [u8] {
    batches[hit.batch as usize].storage.vals.vals.index(hit.value)
}

/// All updates of a batch: value row, time, multiplicity; ordered by key and value, not by time.
pub fn updates(batch: &RowBatch) -> impl Iterator<Item = (&[u8], Timestamp, Diff)> {
    let (values, upds) = (&batch.storage.vals.vals, &batch.storage.upds);
    (0..values.len()).flat_map(move |value| {
        let (lower, upper) = upds.bounds(value);
        (lower..upper).map(move |at| {
            let (time, diff) = upds.get_abs(at);
            (values.index(value), *time, *diff)
        })
    })
}

/// Appends the hits under exactly `key`.
///
/// Of a row that changes often its batches know many values, nearly all of which came and went again: what cancels within a batch is
/// left out before the rest is compared.
pub fn seek(batches: &[RowBatch], key: &[u8], as_of: Timestamp, hits: &mut Hits) {
    let (before, mut knowing) = (hits.len(), 0);
    for (index, batch) in batches.iter().enumerate() {
        let (keys, vals) = (&batch.storage.keys, &batch.storage.vals);
        let at = keys.lower_bound(0, key);
        if at == keys.len() || keys.index(at) != key {
            continue;
        }
        knowing += 1;
        let (lower, upper) = vals.bounds(at);
        for value in lower..upper {
            let count = multiplicity(batch, value, as_of);
            if count != 0 {
                hits.push(Hit { batch: batch_number(index), value, count });
            }
        }
    }
    if knowing < 2 || hits.len() - before < 2 {
        return;
    }
    // Those of one batch are in order already, and the first batch comes first.
    hits[before..].sort_by(|one, other| value(batches, one).cmp(value(batches, other)));
    let mut kept = before;
    for at in before + 1..hits.len() {
        match value(batches, &hits[at]) == value(batches, &hits[kept]) {
            true => hits[kept].count += hits[at].count,
            false => {
                kept += usize::from(hits[kept].count != 0);
                hits[kept] = hits[at];
            }
        }
    }
    hits.truncate(kept + usize::from(hits[kept].count != 0));
}

/// Whether the collection's errors are empty as of a time; if not, the first of them.
pub fn first_error(snapshot: &Snapshot, as_of: Timestamp) -> Option<&[u8]> {
    if snapshot.errs.iter().all(|batch| batch.storage.keys.is_empty()) {
        return None;
    }
    let mut walk = Walk::new(&snapshot.errs, Bounds::All);
    let mut hits = Hits::new();
    walk.take(&snapshot.errs, as_of, 1, &mut hits);
    hits.first().map(|hit| value(&snapshot.errs, hit))
}

/// Which keys a walk visits.
#[derive(Clone, Debug)]
pub enum Bounds {
    /// All of them.
    All,
    /// One key.
    Key(Vec<u8>),
    /// The keys that start with these bytes.
    Prefix(Vec<u8>),
}

impl Bounds {
    fn start(&self) -> &[u8] {
        match self {
            Bounds::All => &[],
            Bounds::Key(key) | Bounds::Prefix(key) => key,
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        match self {
            Bounds::All => true,
            Bounds::Key(bound) => key == bound,
            Bounds::Prefix(prefix) => key.starts_with(prefix),
        }
    }
}

/// A walk in progress; it can stop after any hit and go on later over the same batches.
#[derive(Clone, Debug)]
pub struct Walk {
    bounds: Bounds,
    /// Per batch: the current key and the current value, both as absolute positions.
    positions: Vec<(usize, usize)>,
}

impl Walk {
    /// A walk that stands before the first key within `bounds`.
    pub fn new(batches: &[RowBatch], bounds: Bounds) -> Walk {
        let positions = batches
            .iter()
            .map(|batch| {
                let keys = &batch.storage.keys;
                let key = keys.lower_bound(0, bounds.start());
                let value = if key < keys.len() { batch.storage.vals.bounds(key).0 } else { 0 };
                (key, value)
            })
            .collect();
        Walk { bounds, positions }
    }

    /// Appends up to `hits_max` hits. Fewer mean that the walk is over.
    pub fn take(&mut self, batches: &[RowBatch], as_of: Timestamp, hits_max: usize, hits: &mut Hits) {
        let stop = hits.len().saturating_add(hits_max);
        while hits.len() < stop {
            let Some((first, bound)) = self.least(batches) else { return };
            let end = self.alone(&batches[first], first, bound, stop - hits.len());
            if end > self.positions[first].0 {
                self.take_alone(&batches[first], (first, end), as_of, stop, hits);
                continue;
            }
            let (key, val) = self.current(batches, first).expect("the least position is valid");
            let mut hit = Hit { batch: batch_number(first), value: self.positions[first].1, count: 0 };
            for index in first..batches.len() {
                if self.current(batches, index) == Some((key, val)) {
                    hit.count += multiplicity(&batches[index], self.positions[index].1, as_of);
                    self.step(&batches[index], index);
                }
            }
            if hit.count != 0 {
                hits.push(hit);
            }
        }
    }

    /// The batch whose current (key, value) is the least, the first of them if several are equal; and the least key of the others.
    fn least<'a>(&self, batches: &'a [RowBatch]) -> Option<(usize, Option<&'a [u8]>)> {
        let mut least: Option<(usize, (&[u8], &[u8]))> = None;
        let mut bound: Option<&[u8]> = None;
        for index in 0..batches.len() {
            let Some(current) = self.current(batches, index) else { continue };
            let other = match least {
                Some((_, before)) if current < before => least.replace((index, current)).map(|(_, before)| before.0),
                Some(_) => Some(current.0),
                None => least.replace((index, current)).map(|(_, before)| before.0),
            };
            bound = match (bound, other) {
                (Some(bound), Some(other)) => Some(bound.min(other)),
                (bound, other) => bound.or(other),
            };
        }
        least.map(|(index, _)| (index, bound))
    }

    /// Where the keys of a batch end that the walk visits and that are below `bound`, from its current key on; or some way before, but
    /// not before `count` keys.
    fn alone(&self, batch: &RowBatch, index: usize, bound: Option<&[u8]>, count: usize) -> usize {
        let (keys, start) = (&batch.storage.keys, self.positions[index].0);
        match (&self.bounds, bound) {
            (Bounds::All, None) => keys.len(),
            (Bounds::All, Some(bound)) => {
                let near = keys.len().min(start + NEAR);
                match keys.run_below(start..near, bound) {
                    end if end == near => keys.lower_bound(near, bound),
                    end => end,
                }
            }
            (bounds, bound) => {
                let is_inside = |at: usize| {
                    let key = keys.index(at);
                    bounds.contains(key) && bound.is_none_or(|bound| key < bound)
                };
                let end = keys.len().min(start.saturating_add(count));
                (start..end).find(|at| !is_inside(*at)).unwrap_or(end)
            }
        }
    }

    /// Appends hits of one batch, which has this place among all, up to the key at `end`, until there are `stop`.
    fn take_alone(
        &mut self,
        batch: &RowBatch,
        (index, end): (usize, usize),
        as_of: Timestamp,
        stop: usize,
        hits: &mut Hits,
    ) {
        let vals = &batch.storage.vals;
        let (key, value) = &mut self.positions[index];
        while *key < end {
            let (_, last) = vals.bounds(*key);
            while *value < last {
                if hits.len() == stop {
                    return;
                }
                let count = multiplicity(batch, *value, as_of);
                if count != 0 {
                    hits.push(Hit { batch: batch_number(index), value: *value, count });
                }
                *value += 1;
            }
            *key += 1;
        }
    }

    fn current<'a>(&self, batches: &'a [RowBatch], index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let storage = &batches[index].storage;
        let (key, value) = self.positions[index];
        if key >= storage.keys.len() {
            return None;
        }
        let bytes = storage.keys.index(key);
        self.bounds.contains(bytes).then(|| (bytes, storage.vals.get_abs(value)))
    }

    fn step(&mut self, batch: &RowBatch, index: usize) {
        let (key, value) = &mut self.positions[index];
        *value += 1;
        if *value >= batch.storage.vals.bounds(*key).1 {
            *key += 1;
        }
    }
}

fn multiplicity(batch: &RowBatch, value: usize, as_of: Timestamp) -> Diff {
    let upds = &batch.storage.upds;
    let (lower, upper) = upds.bounds(value);
    (lower..upper).map(|at| upds.get_abs(at)).filter(|(time, _)| **time <= as_of).map(|(_, diff)| *diff).sum()
}

fn batch_number(index: usize) -> u32 {
    u32::try_from(index).expect("a trace has a logarithmic number of batches")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::Allowance;
    use crate::spine::{RowUpdate, batch};
    use differential_dataflow::consolidation::consolidate_updates;
    use proptest::prelude::{prop, proptest};
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn what_is_sought_is_what_is_there(
            drawn in prop::collection::vec(prop::collection::vec((0_u8..4, 0_u8..6, 0_u64..8, -2_i64..3), 1..30), 1..5),
            as_of in 0_u64..8) {
            let mut there: BTreeMap<(u8, u8), Diff> = BTreeMap::new();
            let mut batches = Vec::new();
            for updates in drawn {
                for (key, val, time, diff) in &updates {
                    *there.entry((*key, *val)).or_default() += if *time <= as_of { *diff } else { 0 };
                }
                let row = |(key, val, time, diff)| ((vec![key], vec![val]), time, diff);
                let mut updates: Vec<RowUpdate> = updates.into_iter().map(row).collect();
                consolidate_updates(&mut updates);
                batches.extend(batch(updates, &Allowance::unlimited()));
            }
            for walk_max in [1, 3, 100] {
                for bounds in [Bounds::All, Bounds::Prefix(vec![2]), Bounds::Key(vec![1])] {
                    let (mut walk, mut hits) = (Walk::new(&batches, bounds.clone()), Hits::new());
                    while { let before = hits.len(); walk.take(&batches, as_of, walk_max, &mut hits); hits.len() == before + walk_max } {}
                    let found: Vec<(u8, Diff)> = hits.iter().map(|hit| (value(&batches, hit)[0], hit.count)).collect();
                    let inside = there.iter().filter(|((key, _), count)| bounds.contains(&[*key]) && **count != 0);
                    assert_eq!(found, inside.map(|((_, val), count)| (*val, *count)).collect::<Vec<_>>(), "{bounds:?}");
                }
            }
            // What was there before stays there.
            let mut hits = Hits::from_elem(Hit { batch: 0, value: 0, count: 7 }, 1);
            for key in 0..4_u8 {
                let from = hits.len();
                seek(&batches, &[key], as_of, &mut hits);
                let found: Vec<(u8, Diff)> = hits[from..].iter().map(|hit| (value(&batches, hit)[0], hit.count)).collect();
                let of_key = there.iter().filter(|((of, _), count)| *of == key && **count != 0);
                assert_eq!(found, of_key.map(|((_, val), count)| (*val, *count)).collect::<Vec<_>>());
            }
            assert_eq!(hits[0].count, 7);
        }
    }
}
