//! The pairs of rows with equal keys of two arrangements, made at the rate at which they are taken.
//!
//! Differential's own way of joining makes all pairs of a key before it gives others a turn: a key that many rows have on both sides,
//! as all rows have where there is no condition, would fill the memory before anybody could see it. Here such a key is left off
//! and gone on with: the values of the side with fewer updates are looked at together, those of the other side one after the other.
//!
//! Where a key has many updates at many times on both sides, what cancels out before it meets the other side is left out
//! (differential's [`ValueHistory`]).

use crate::render::flow::{PackedBuilder, PackedRows};
use crate::render::{ArrangedRows, ScopeTime};
use arrangement::allowance::Allowance;
use arrangement::packed::Packed;
use arrangement::spine::RowBatch;
use differential_dataflow::consolidation::consolidate;
use differential_dataflow::operators::ValueHistory;
use differential_dataflow::operators::join::{Fresh, JoinTactic, join_with_tactic};
use differential_dataflow::trace::Navigable;
use differential_dataflow::trace::cursor::{Cursor, CursorList, cursor_list};
use repr::Diff;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use timely::container::ContainerBuilder;

/// Pairs that are made without a look at whether they are wanted.
const AT_ONCE: usize = if cfg!(test) { 50 } else { 1 << 16 };
/// Bytes of the values of pairs that are made without a look.
const BYTES_AT_ONCE: usize = if cfg!(test) { 70 } else { 32 << 20 };
/// Sides with fewer updates than this are not put in order of time.
const FEW: usize = 10;

/// Makes something of a key, a value of either side, a time and the multiplicities of both.
pub(super) trait Make<T>: FnMut(&[u8], &[u8], &[u8], T, Diff, &mut PackedBuilder<T>) + 'static {}

impl<T, F: FnMut(&[u8], &[u8], &[u8], T, Diff, &mut PackedBuilder<T>) + 'static> Make<T> for F {}

/// What is made of each key and pair of its values.
pub(super) fn pairs<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    left: ArrangedRows<'scope, T>,
    right: ArrangedRows<'scope, T>,
    make: impl Make<T>,
) -> PackedRows<'scope, T> {
    let (make, memory) = (Rc::new(RefCell::new(make)), Arc::clone(memory));
    join_with_tactic(left, right, "Join", Tactic { make, memory })
}

struct Tactic<L> {
    make: Rc<RefCell<L>>,
    memory: Arc<Allowance>,
}

impl<T: ScopeTime, L: Make<T>> JoinTactic<T, RowBatch<T>, RowBatch<T>, Packed<T>> for Tactic<L> {
    fn prep(
        &mut self,
        left: Vec<RowBatch<T>>,
        right: Vec<RowBatch<T>>,
        fresh: Fresh,
        meet: T,
    ) -> Box<dyn Iterator<Item = Packed<T>>> {
        // The times of what is new are beyond `meet` anyway.
        let (left_meet, right_meet) = match fresh {
            Fresh::Input0 => (None, Some(meet)),
            Fresh::Input1 => (Some(meet), None),
        };
        Box::new(Pairs {
            left: Side::new(left, left_meet),
            right: Side::new(right, right_meet),
            half_done: None,
            make: Rc::clone(&self.make),
            memory: Arc::clone(&self.memory),
            builder: PackedBuilder::default(),
            made: VecDeque::new(),
            is_done: false,
        })
    }
}

/// An update of a value.
type Edit<'a, T> = (&'a [u8], T, Diff);

/// Batches of one side, and where one is in them.
struct Side<T: ScopeTime> {
    cursor: CursorList<<RowBatch<T> as Navigable>::Cursor>,
    batches: Vec<RowBatch<T>>,
    /// What times are advanced to.
    meet: Option<T>,
}

impl<T: ScopeTime> Side<T> {
    fn new(batches: Vec<RowBatch<T>>, meet: Option<T>) -> Side<T> {
        let (cursor, batches) = cursor_list(batches);
        Side { cursor, batches, meet }
    }

    /// Appends the updates of the value that the cursor is at.
    fn load_value<'a>(
        cursor: &mut CursorList<<RowBatch<T> as Navigable>::Cursor>,
        batches: &'a Vec<RowBatch<T>>,
        meet: Option<&T>,
        value: &'a [u8],
        edits: &mut Vec<Edit<'a, T>>,
    ) {
        let start = edits.len();
        cursor.map_times(batches, |time, diff| {
            let mut time = time.clone();
            if let Some(meet) = meet {
                time.join_assign(meet);
            }
            edits.push((value, time, *diff));
        });
        if edits.len() - start > 1 {
            let mut times: Vec<(T, Diff)> = edits.drain(start..).map(|(_, time, diff)| (time, diff)).collect();
            consolidate(&mut times);
            edits.extend(times.into_iter().map(|(time, diff)| (value, time, diff)));
        }
    }

    /// The updates of the cursor's key, from the value that it is at.
    fn load<'a>(
        cursor: &mut CursorList<<RowBatch<T> as Navigable>::Cursor>,
        batches: &'a Vec<RowBatch<T>>,
        meet: Option<&T>,
        edits: &mut Vec<Edit<'a, T>>,
    ) {
        edits.clear();
        while let Some(value) = cursor.get_val(batches) {
            Side::load_value(cursor, batches, meet, value, edits);
            cursor.step_val(batches);
        }
    }
}

/// Which side's values are gone through one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    Left,
    Right,
}

/// Pairs, as containers.
struct Pairs<T: ScopeTime, L> {
    left: Side<T>,
    right: Side<T>,
    /// The cursors' key has pairs that were not made yet: of whose values, and how many of the value that its cursor is at were.
    half_done: Option<(Outer, usize)>,
    make: Rc<RefCell<L>>,
    memory: Arc<Allowance>,
    builder: PackedBuilder<T>,
    /// Containers that are full.
    made: VecDeque<Packed<T>>,
    is_done: bool,
}

impl<T: ScopeTime, L: Make<T>> Iterator for Pairs<T, L> {
    type Item = Packed<T>;

    fn next(&mut self) -> Option<Packed<T>> {
        while self.made.is_empty() && !self.is_done {
            // What is to be stopped need not go on.
            self.is_done = self.memory.refused().is_some()
                || match self.half_done {
                    Some((outer, made)) => self.go_on(outer, made),
                    None => self.keys(),
                };
            while let Some(container) = self.builder.extract() {
                self.made.push_back(std::mem::take(container));
            }
        }
        if self.is_done {
            while let Some(container) = self.builder.finish() {
                self.made.push_back(std::mem::take(container));
            }
        }
        self.made.pop_front()
    }
}

impl<T: ScopeTime, L: Make<T>> Pairs<T, L> {
    /// Makes the pairs of some keys. Whether those were all.
    fn keys(&mut self) -> bool {
        let Pairs { left, right, make, builder, .. } = self;
        let make = &mut *make.borrow_mut();
        let (mut left_edits, mut right_edits) = (Vec::new(), Vec::new());
        let (mut left_history, mut right_history) = (ValueHistory::new(), ValueHistory::new());
        let mut count = 0;
        while count < AT_ONCE {
            let (Some(key), Some(other)) = (left.cursor.get_key(&left.batches), right.cursor.get_key(&right.batches))
            else {
                return true;
            };
            match key.cmp(other) {
                Ordering::Less => left.cursor.seek_key(&left.batches, other),
                Ordering::Greater => right.cursor.seek_key(&right.batches, key),
                Ordering::Equal => {
                    Side::load(&mut left.cursor, &left.batches, left.meet.as_ref(), &mut left_edits);
                    Side::load(&mut right.cursor, &right.batches, right.meet.as_ref(), &mut right_edits);
                    let pair_count = left_edits.len().saturating_mul(right_edits.len());
                    // As many updates of few values at many times cancel out in order of time.
                    let in_order_count = left_edits.len().saturating_mul(values(&right_edits))
                        + right_edits.len().saturating_mul(values(&left_edits));
                    if pair_count > AT_ONCE && in_order_count > AT_ONCE {
                        let outer = if left_edits.len() < right_edits.len() { Outer::Right } else { Outer::Left };
                        self.half_done = Some((outer, 0));
                        left.cursor.rewind_vals(&left.batches);
                        right.cursor.rewind_vals(&right.batches);
                        return false;
                    }
                    let mut give = |left: &[u8], left_time: &T, left_diff, right: &[u8], right_time: &T, right_diff| {
                        make(key, left, right, left_time.join(right_time), left_diff * right_diff, builder);
                    };
                    if left_edits.len() < FEW || right_edits.len() < FEW {
                        for (left, left_time, left_diff) in &left_edits {
                            for (right, right_time, right_diff) in &right_edits {
                                give(left, left_time, *left_diff, right, right_time, *right_diff);
                            }
                        }
                    } else {
                        left_history.load_iter(left_edits.drain(..), None);
                        right_history.load_iter(right_edits.drain(..), None);
                        in_order(&mut left_history, &mut right_history, give);
                    }
                    count += pair_count.min(in_order_count);
                    left.cursor.step_key(&left.batches);
                    right.cursor.step_key(&right.batches);
                }
            }
        }
        false
    }

    /// Goes on with a key of many pairs, of which so many of the outer cursor's value were made. Never the end: other keys may follow.
    fn go_on(&mut self, outer: Outer, made: usize) -> bool {
        let Pairs { left, right, make, builder, .. } = self;
        let make = &mut *make.borrow_mut();
        let (outside, inside) = match outer {
            Outer::Left => (left, right),
            Outer::Right => (right, left),
        };
        let key = outside.cursor.get_key(&outside.batches).expect("there is more of it");
        inside.cursor.rewind_vals(&inside.batches);
        let (mut inner, mut edits, mut count, mut bytes, mut made) = (Vec::new(), Vec::new(), 0, 0, made);
        Side::load(&mut inside.cursor, &inside.batches, inside.meet.as_ref(), &mut inner);
        while count < AT_ONCE {
            let Some(value) = outside.cursor.get_val(&outside.batches) else {
                self.half_done = None;
                outside.cursor.step_key(&outside.batches);
                inside.cursor.step_key(&inside.batches);
                return false;
            };
            edits.clear();
            Side::load_value(&mut outside.cursor, &outside.batches, outside.meet.as_ref(), value, &mut edits);
            let all = edits.len() * inner.len();
            while made < all && (count < AT_ONCE || bytes < BYTES_AT_ONCE) {
                let (outer_value, outer_time, outer_diff) = &edits[made / inner.len()];
                let (inner_value, inner_time, inner_diff) = &inner[made % inner.len()];
                let (left, right) = match outer {
                    Outer::Left => (outer_value, inner_value),
                    Outer::Right => (inner_value, outer_value),
                };
                make(key, left, right, outer_time.join(inner_time), outer_diff * inner_diff, builder);
                bytes += left.len() + right.len();
                (made, count) = (made + 1, count + 1);
            }
            if made < all {
                // Its cursor has not moved: its updates are looked at again.
                break;
            }
            made = 0;
            outside.cursor.step_val(&outside.batches);
        }
        self.half_done = Some((outer, made));
        false
    }
}

/// The number of values in updates that are in their order.
fn values<T>(edits: &[Edit<'_, T>]) -> usize {
    edits.chunk_by(|(left, ..), (right, ..)| left == right).count()
}

/// Gives the pairs of two histories in order of time, each update with what is left then of those of the other side.
fn in_order<'a, T: ScopeTime>(
    left: &mut ValueHistory<&'a [u8], T, Diff>,
    right: &mut ValueHistory<&'a [u8], T, Diff>,
    mut give: impl FnMut(&[u8], &T, Diff, &[u8], &T, Diff),
) {
    loop {
        let is_left_next = match (left.time(), right.time()) {
            (Some(left), Some(right)) => left < right,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return,
        };
        let (next, others) = if is_left_next { (&mut *left, &mut *right) } else { (&mut *right, &mut *left) };
        others.advance_buffer_by(next.meet().expect("it has a next time"));
        let (value, time, diff) = next.edit().expect("it has a next time");
        for ((other, other_time), other_diff) in others.buffer() {
            match is_left_next {
                true => give(value, time, *diff, other, other_time, *other_diff),
                false => give(other, other_time, *other_diff, value, time, *diff),
            }
        }
        next.step();
    }
}

#[cfg(test)]
mod tests {
    use super::pairs;
    use crate::render::arrange;
    use crate::render::flow::each;
    use arrangement::allowance::Allowance;
    use differential_dataflow::input::Input;
    use ore::memory::Share;
    use proptest::prelude::{any, prop, proptest};
    use repr::{Diff, Timestamp};
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use timely::container::PushInto;

    /// Key, value, whether it is of the left side, multiplicity.
    type Update = (u8, u8, bool, Diff);
    type Counts = BTreeMap<(u8, u8, u8), Diff>;

    /// What pairs there are at each time, by the operator and by multiplying.
    fn run(steps: Vec<(Vec<Update>, bool)>, memory: Arc<Allowance>) -> (Vec<Counts>, Vec<Counts>) {
        let given: Arc<Mutex<Vec<((u8, u8, u8), Timestamp, Diff)>>> = Arc::default();
        let (inputs, seen) = (steps.clone(), Arc::clone(&given));
        timely::execute_directly(move |worker| {
            let (mut left, mut right) = worker.dataflow::<Timestamp, _, _>(|scope| {
                let (left, left_rows) = scope.new_collection::<(Vec<u8>, Vec<u8>), Diff>();
                let (right, right_rows) = scope.new_collection::<(Vec<u8>, Vec<u8>), Diff>();
                let (left_rows, right_rows) = (arrange(&memory, left_rows, "l"), arrange(&memory, right_rows, "r"));
                let made = pairs(&memory, left_rows, right_rows, |key, left, right, time, diff, output| {
                    output.push_into((&[key, left][..].concat()[..], right, time, diff));
                });
                let made = each(made, |left, right| (left[0], left[1], right[0]));
                made.inspect(move |made| seen.lock().expect("not poisoned").push(*made));
                (left, right)
            });
            for (time, (updates, is_awaited)) in (0_u64..).zip(inputs) {
                for (key, value, is_left, diff) in updates {
                    let side = if is_left { &mut left } else { &mut right };
                    side.update_at((vec![key], vec![value]), time, diff);
                }
                for side in [&mut left, &mut right] {
                    side.advance_to(time + 1);
                    side.flush();
                }
                for _ in 0..if is_awaited { 50 } else { 0 } {
                    worker.step();
                }
            }
        });
        let given = given.lock().expect("not poisoned");
        let (mut made, mut multiplied, mut rows) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (time, (updates, _)) in (0_u64..).zip(steps) {
            for (key, value, is_left, diff) in updates {
                *rows.entry((is_left, key, value)).or_insert(0) += diff;
            }
            let mut counts = Counts::new();
            for ((_, key, left), left_count) in rows.iter().filter(|((is_left, ..), _)| *is_left) {
                for ((_, other, right), right_count) in rows.iter().filter(|((is_left, ..), _)| !is_left) {
                    if key == other && left_count * right_count != 0 {
                        counts.insert((*key, *left, *right), left_count * right_count);
                    }
                }
            }
            multiplied.push(counts);
            let mut counts = Counts::new();
            for (pair, _, diff) in given.iter().filter(|(_, at, _)| *at <= time) {
                *counts.entry(*pair).or_default() += diff;
            }
            counts.retain(|_, count| *count != 0);
            made.push(counts);
        }
        (made, multiplied)
    }

    proptest! {
        #[test]
        fn pairs_are_products_at_every_time(steps in prop::collection::vec(
            (prop::collection::vec((0_u8..3, 0_u8..30, any::<bool>(), -1_i64..3), 0..80), any::<bool>()), 1..8)) {
            let (made, multiplied) = run(steps, Allowance::unlimited());
            assert_eq!(made, multiplied);
        }
    }

    #[test]
    fn what_is_to_be_stopped_makes_no_more_pairs() {
        let side = |is_left| (0..200).map(move |value| (0, value, is_left, 1));
        let steps = vec![(side(true).chain(side(false)).collect(), true)];
        let memory = Allowance::of(Share::root(1, None));
        assert!(memory.hold(1 << 20).is_none());
        let (made, multiplied) = run(steps, memory);
        assert_eq!((made[0].len(), multiplied[0].len()), (0, 40_000));
    }
}
