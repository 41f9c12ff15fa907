//! What a group adds up to, and the groups that there are.
//!
//! Totals are the *multiplicity* of a group's key: differential adds multiplicities up by itself, so that a group of a million
//! rows is one entry. Where times are ordered not even an arrangement is needed: the totals of each group as of the
//! last time are kept in a map, and a change to them gives what the group was before and what it is then.

use crate::render::{Keyed, ScopeTime};
use arrangement::allowance::Allowance;
use compute_client::index::key_hash;
use differential_dataflow::difference::{Abelian, IsZero, Monoid, Semigroup};
use differential_dataflow::{AsCollection, VecCollection};
use foldhash::fast::FixedState;
use repr::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Capability, Operator};

/// Whether the group is there without rows, the number of its rows, and what its aggregates need.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Totals(pub Vec<i128>);

/// Where [`Totals`] have how often the group is there without rows.
pub const MARKER: usize = 0;
/// Where they have how many rows it has.
pub const ROWS: usize = 1;
/// Where they have the first of the others.
pub const FIRST: usize = 2;

/// What an entry of a map takes beside the bytes of its key and its numbers: two lists and their allocations, and the place.
const ENTRY_BYTES: usize = 96;

/// A group's key with what is added to its totals.
pub type KeyTotal<T> = ((Vec<u8>, ()), T, Totals);
/// Groups with their totals.
pub type KeyTotals<'scope, T> = VecCollection<'scope, T, (Vec<u8>, ()), Totals>;

/// What is given of a key and its totals.
pub trait Give: Fn(&[u8], &Totals) -> Option<(Vec<u8>, Vec<u8>)> + 'static {}

impl<F: Fn(&[u8], &Totals) -> Option<(Vec<u8>, Vec<u8>)> + 'static> Give for F {}

impl IsZero for Totals {
    fn is_zero(&self) -> bool {
        self.0.iter().all(|total| *total == 0)
    }
}

impl Semigroup for Totals {
    fn plus_equals(&mut self, other: &Totals) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (total, other) in self.0.iter_mut().zip(&other.0) {
            // Adding and taking away in any order must end at the same total, also where it overflows in between.
            *total = total.wrapping_add(*other);
        }
    }
}

impl Monoid for Totals {
    fn zero() -> Totals {
        Totals::default()
    }
}

impl Abelian for Totals {
    fn negate(&mut self) {
        for total in &mut self.0 {
            *total = total.wrapping_neg();
        }
    }
}

/// The hash of a map of groups. Nothing depends on the order that it gives.
pub fn hasher() -> FixedState {
    FixedState::with_seed(1)
}

/// What is given of each group, by way of an arrangement.
pub fn arranged<'scope, T: ScopeTime>(totals: KeyTotals<'scope, T>, give: impl Give) -> Keyed<'scope, T> {
    let groups = totals.reduce(move |key, input, output| {
        let [(_, totals)] = input else { return };
        output.extend(give(key, totals).map(|row| (row, 1)));
    });
    groups.map(|(_, row)| row)
}

/// What is given of each group, by way of a map of all groups.
pub fn mapped<'scope>(
    memory: &Arc<Allowance>,
    totals: KeyTotals<'scope, Timestamp>,
    give: impl Give,
) -> Keyed<'scope, Timestamp> {
    type Updates<D> = CapacityContainerBuilder<Vec<(D, Timestamp, repr::Diff)>>;
    let by_key = Exchange::new(|((key, ()), _, _): &KeyTotal<Timestamp>| key_hash(key));
    let given = totals.inner.unary_frontier::<Updates<(Vec<u8>, Vec<u8>)>, _, _, _>(by_key, "Groups", move |_, _| {
        let mut groups: HashMap<Vec<u8>, Totals, FixedState> = HashMap::with_hasher(hasher());
        // The bytes of the groups and of what waits, and what is held for them.
        let (mut byte_count, mut held) = (0, memory.nothing());
        let mut waiting: BTreeMap<Timestamp, (Capability<Timestamp>, HashMap<Vec<u8>, Totals, FixedState>)> =
            BTreeMap::new();
        move |(input, frontier), output| {
            input.for_each(|capability, updates| {
                for ((key, ()), time, totals) in updates.drain(..) {
                    let (_, changes) = waiting
                        .entry(time)
                        .or_insert_with(|| (capability.delayed(&time, 0), HashMap::with_hasher(hasher())));
                    match changes.entry(key) {
                        Entry::Occupied(mut change) => change.get_mut().plus_equals(&totals),
                        Entry::Vacant(change) => {
                            byte_count += bytes_of(change.key(), &totals);
                            if held.cover(byte_count) {
                                change.insert(totals);
                            }
                        }
                    }
                }
            });
            while let Some(next) = waiting.first_entry().filter(|next| !frontier.less_equal(next.key())) {
                let (time, (capability, changes)) = next.remove_entry();
                let mut session = output.session(&capability);
                for (key, change) in changes {
                    let (before, after) = match groups.entry(key) {
                        Entry::Occupied(mut group) => {
                            let before = give(group.key(), group.get());
                            group.get_mut().plus_equals(&change);
                            let after = give(group.key(), group.get());
                            byte_count = byte_count.saturating_sub(bytes_of(group.key(), &change));
                            if group.get().is_zero() {
                                byte_count = byte_count.saturating_sub(bytes_of(group.key(), &change));
                                group.remove();
                            }
                            (before, after)
                        }
                        Entry::Vacant(group) if change.is_zero() => {
                            byte_count = byte_count.saturating_sub(bytes_of(group.key(), &change));
                            continue;
                        }
                        Entry::Vacant(group) => {
                            let after = give(group.key(), &change);
                            group.insert(change);
                            (None, after)
                        }
                    };
                    if before != after {
                        for (row, diff) in [(before, -1), (after, 1)] {
                            row.into_iter().for_each(|row| session.give((row, time, diff)));
                        }
                    }
                }
                held.fall_to(byte_count);
            }
        }
    });
    given.as_collection()
}

/// The bytes that a group's key and totals take in a map.
fn bytes_of(key: &[u8], totals: &Totals) -> usize {
    ENTRY_BYTES + key.len() + totals.0.len() * size_of::<i128>()
}

#[cfg(test)]
mod tests {
    use super::{KeyTotals, Totals, arranged, mapped};
    use arrangement::allowance::Allowance;
    use differential_dataflow::AsCollection;
    use differential_dataflow::input::Input;
    use proptest::prelude::{any, prop, proptest};
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use timely::dataflow::operators::vec::Map;

    type Shown = BTreeMap<(Vec<u8>, Vec<u8>, u64), i64>;

    fn give(key: &[u8], totals: &Totals) -> Option<(Vec<u8>, Vec<u8>)> {
        // Some changes change nothing that is shown.
        (totals.0[0] != 0).then(|| (key.to_vec(), (totals.0[0] / 3).to_be_bytes().to_vec()))
    }

    proptest! {
        #[test]
        fn a_map_gives_what_an_arrangement_gives(steps in prop::collection::vec(
            (prop::collection::vec((0_u8..4, -2_i64..3), 0..6), any::<bool>()), 1..20)) {
            let shown: [Arc<Mutex<Shown>>; 2] = Default::default();
            let seen = shown.clone();
            timely::execute_directly(move |worker| {
                let mut input = worker.dataflow::<u64, _, _>(|scope| {
                    let (input, rows) = scope.new_collection::<u8, i64>();
                    let totals = |(key, time, diff): (u8, u64, i64)| ((vec![key], ()), time, Totals(vec![diff.into()]));
                    let totals: KeyTotals<'_, u64> = rows.inner.map(totals).as_collection();
                    for (given, seen) in [arranged(totals.clone(), give), mapped(&Allowance::unlimited(), totals, give)].into_iter().zip(seen) {
                        given.inspect(move |((key, value), time, diff)| {
                            let mut seen = seen.lock().expect("not poisoned");
                            let count = seen.entry((key.clone(), value.clone(), *time)).or_default();
                            *count += diff;
                        });
                    }
                    input
                });
                for (time, (updates, steps)) in (0_u64..).zip(steps) {
                    for (key, diff) in updates {
                        input.update_at(key, time, diff);
                    }
                    input.advance_to(time + 1);
                    input.flush();
                    for _ in 0..if steps { 20 } else { 0 } {
                        worker.step();
                    }
                }
            });
            let [mut arranged, mut mapped] = shown.map(|shown| shown.lock().expect("not poisoned").clone());
            arranged.retain(|_, count| *count != 0);
            mapped.retain(|_, count| *count != 0);
            assert_eq!(arranged, mapped);
        }
    }
}
