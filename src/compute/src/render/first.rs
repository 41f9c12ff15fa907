//! The first values of each key, and what is computed of them.
//!
//! An arrangement holds the values of a key in order, so the first of them can be read without reading the rest: a group of a
//! million rows whose least value changes is looked at, not read again. What `min`, LIMIT and EXISTS want of a group is
//! among its first values.
//!
//! For each key of a new batch and each time at which it changes, the operator walks the key's values from the first one
//! and adds up, for each, the updates before that time and those until it, until it has enough values of either. The
//! logic gives the output of both; their difference is what changes.
//!
//! A value that was taken away stays in the arrangement until batches are merged. Where a walk passes many such, as it does
//! when a queue is worked off from its front, the values that it found are remembered, and the next walk goes from one to
//! the next of them and of those that changed.
//!
//! # Invariants
//! - Remembered are all values of a key up to some value, so that a walk may skip what is between them.
//! - The trace is compacted to the last time before its upper and no further: what is new can be told from what was there. Of
//!   another dataflow's trace, times before its since are that.
//! - What a trace holds when the operator is made is read from the trace, and skipped in the stream: on its way, its batches
//!   may be merged with empty ones after them, and where they end can then not be asked for any more.

use crate::render::{ArrangedRows, Keyed};
use arrangement::spine::RowBatch;
use differential_dataflow::AsCollection;
use differential_dataflow::consolidation::consolidate;
use differential_dataflow::trace::cursor::{Cursor, CursorList, cursor_list};
use differential_dataflow::trace::{Navigable, TraceReader};
use repr::{Diff, Timestamp};
use std::collections::HashMap;
use timely::PartialOrder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;
use timely::progress::Antichain;

/// A walk that passes more values than this which are no longer there remembers what it found.
const DEAD_MAX: usize = if cfg!(test) { 2 } else { 32 };

/// A value and how often it is there.
pub type Counted<'a> = (&'a [u8], Diff);

/// The first of a key's values, of which there are at least `wanted` copies or which are all.
pub fn prefix<'a, 'v>(values: &'a [Counted<'v>], wanted: Diff) -> &'a [Counted<'v>] {
    let mut missing = wanted;
    let length = values.iter().position(|(_, count)| {
        missing -= (*count).max(0);
        missing <= 0
    });
    &values[..length.map_or(values.len(), |last| last + 1)]
}

/// What is computed of a key and values of it.
pub trait Logic: FnMut(&[u8], &[Counted<'_>], &mut Vec<(Vec<u8>, Diff)>) + 'static {}

impl<F: FnMut(&[u8], &[Counted<'_>], &mut Vec<(Vec<u8>, Diff)>) + 'static> Logic for F {}

type Values = CursorList<<RowBatch as Navigable>::Cursor>;

/// Applies `logic` to the first values of each key, of which there are at least `wanted` copies or which are all.
pub fn first<'scope>(arranged: ArrangedRows<'scope>, name: &str, wanted: Diff, mut logic: impl Logic) -> Keyed<'scope> {
    let mut trace = arranged.trace;
    let changes = arranged.stream.unary_frontier(Pipeline, name, move |earliest, _| {
        let (mut upper, mut held) = (Antichain::from_elem(Timestamp::MIN), Vec::new());
        trace.map_spans(|span| {
            upper.clone_from(span.upper());
            held.extend(span.inner.clone());
        });
        let held_upper = upper.clone();
        let mut at_first = Some((held, earliest));
        let mut known = Known::new();
        move |(input, _), output| {
            let (mut batches, mut capability) = at_first
                .take()
                .filter(|(held, _)| !held.is_empty())
                .map_or_else(Default::default, |(held, earliest)| (held, Some(earliest)));
            input.for_each(|earliest, arrived| {
                for span in arrived.drain(..).filter(|span| PartialOrder::less_equal(&held_upper, span.lower())) {
                    upper.clone_from(span.upper());
                    if let Some(batch) = span.inner {
                        capability.get_or_insert_with(|| {
                            earliest.retain_least(0).expect("updates travel under a capability")
                        });
                        batches.push(batch);
                    }
                }
            });
            if let Some(capability) = capability {
                let since = trace.get_logical_compaction().as_option().copied().unwrap_or(Timestamp::MIN);
                let mut session = output.session(&capability);
                let (mut changed, changed_storage) = cursor_list(batches);
                let read = trace.batches_through(upper.borrow());
                let (mut values, storage) =
                    cursor_list(read.expect("the trace is not compacted beyond what was read of it"));
                while let Some(key) = changed.get_key(&changed_storage) {
                    values.seek_key(&storage, key);
                    if values.get_key(&storage) != Some(key) {
                        // It came and went before the since.
                        changed.step_key(&changed_storage);
                        continue;
                    }
                    let (times, touched) = changes_of_key(&mut changed, &changed_storage, since);
                    for time in times {
                        values.rewind_vals(&storage);
                        let (before, after) =
                            walk(&mut values, &storage, key, &touched, &mut known, (since, time), wanted);
                        let mut output = Vec::new();
                        for (prefix, sign) in [(before, -1), (after, 1)] {
                            let mut given = Vec::new();
                            if !prefix.values.is_empty() {
                                logic(key, &prefix.values, &mut given);
                            }
                            output.extend(given.into_iter().map(|(value, diff)| (value, sign * diff)));
                        }
                        consolidate(&mut output);
                        for (value, diff) in output {
                            session.give(((key.to_vec(), value), time, diff));
                        }
                    }
                    changed.step_key(&changed_storage);
                }
            }
            trace.advance_upper(&mut upper);
            let since: Antichain<Timestamp> = upper.iter().map(|time| time.saturating_sub(1)).collect();
            trace.set_logical_compaction(since.borrow());
            trace.set_physical_compaction(upper.borrow());
        }
    });
    changes.as_collection()
}

/// For some keys, the first values that were there when the key was last walked.
type Known = HashMap<Vec<u8>, Vec<Vec<u8>>>;

/// The times at which the cursor's key changes, none before `since`, and its values that do, both in order.
fn changes_of_key<'a>(
    changed: &mut Values,
    storage: &'a Vec<RowBatch>,
    since: Timestamp,
) -> (Vec<Timestamp>, Vec<&'a [u8]>) {
    let (mut times, mut touched) = (Vec::new(), Vec::new());
    while let Some(value) = changed.get_val(storage) {
        changed.map_times(storage, |time, _| {
            let time = (*time).max(since);
            if times.last() != Some(&time) {
                times.push(time);
            }
        });
        touched.push(value);
        changed.step_val(storage);
    }
    times.sort_unstable();
    times.dedup();
    (times, touched)
}

/// The first values of a key at some time.
struct Prefix<'a> {
    values: Vec<Counted<'a>>,
    missing: Diff,
}

impl<'a> Prefix<'a> {
    fn new(wanted: Diff) -> Prefix<'a> {
        Prefix { values: Vec::new(), missing: wanted }
    }

    fn add(&mut self, value: &'a [u8], count: Diff) {
        if count != 0 && self.missing > 0 {
            self.values.push((value, count));
            self.missing -= count.max(0);
        }
    }
}

/// Walks the values of the cursor's key; what it finds there before `time`, and at it. What is older than `since` is as old.
#[expect(clippy::too_many_arguments, reason = "what is walked, what is looked for, and what is known of it")]
fn walk<'a>(
    values: &mut Values,
    storage: &'a Vec<RowBatch>,
    key: &[u8],
    touched: &[&[u8]],
    known: &mut Known,
    (since, time): (Timestamp, Timestamp),
    wanted: Diff,
) -> (Prefix<'a>, Prefix<'a>) {
    let (mut before, mut after) = (Prefix::new(wanted), Prefix::new(wanted));
    let mut dead_count = 0;
    let mut visit = |values: &mut Values, value: &'a [u8]| {
        let (mut old, mut new) = (0, 0);
        values.map_times(storage, |at, diff| {
            let at = (*at).max(since);
            old += if at < time { *diff } else { 0 };
            new += if at <= time { *diff } else { 0 };
        });
        dead_count += usize::from(old == 0 && new == 0);
        before.add(value, old);
        after.add(value, new);
        before.missing > 0 || after.missing > 0
    };
    let remembered = known.get(key);
    let mut goes_on = true;
    if let Some(last) = remembered.and_then(|remembered| remembered.last()) {
        let touched = touched.iter().copied().take_while(|value| *value <= last.as_slice());
        let remembered = remembered.into_iter().flatten().map(Vec::as_slice);
        for candidate in merged(remembered, touched) {
            values.seek_val(storage, candidate);
            if let Some(value) = values.get_val(storage).filter(|value| *value == candidate) {
                goes_on = visit(values, value);
                values.step_val(storage);
            }
            if !goes_on {
                break;
            }
        }
    }
    while let Some(value) = values.get_val(storage).filter(|_| goes_on) {
        goes_on = visit(values, value);
        values.step_val(storage);
    }
    if remembered.is_some() || dead_count > DEAD_MAX {
        let found: Vec<Vec<u8>> = after.values.iter().map(|(value, _)| value.to_vec()).collect();
        if found.is_empty() {
            known.remove(key);
        } else {
            known.insert(key.to_vec(), found);
        }
    }
    (before, after)
}

/// Two ordered lists as one, values that are in both once.
fn merged<'a>(
    left: impl Iterator<Item = &'a [u8]>,
    right: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = &'a [u8]> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(l), Some(r)) if l == r => {
            right.next();
            left.next()
        }
        (Some(l), Some(r)) if r < l => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::Counted;
    use crate::render::{ScopeTime, arrange};
    use arrangement::allowance::Allowance;
    use differential_dataflow::input::Input;
    use differential_dataflow::trace::TraceReader;
    use proptest::prelude::{prop, proptest};
    use repr::{Diff, Timestamp};
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use timely::progress::Antichain;

    /// Updates of one time, and how often the worker steps after it.
    type Step = (Vec<(u8, u8, Diff)>, usize);
    /// Rows of keys and values, counted.
    type Rows = BTreeMap<(Vec<u8>, Vec<u8>), Diff>;

    const WANTED: Diff = 3;

    fn prefix(_: &[u8], values: &[Counted<'_>], output: &mut Vec<(Vec<u8>, Diff)>) {
        output.extend(values.iter().map(|(value, count)| (value.to_vec(), *count)));
    }

    fn add(rows: &mut Rows, row: (Vec<u8>, Vec<u8>), diff: Diff) {
        let count = rows.entry(row.clone()).or_default();
        *count += diff;
        if *count == 0 {
            rows.remove(&row);
        }
    }

    fn expected(rows: &Rows) -> Rows {
        let (mut first, mut missing) = (Rows::new(), BTreeMap::new());
        for ((key, value), count) in rows {
            let missing = missing.entry(key).or_insert(WANTED);
            if *missing > 0 {
                first.insert((key.clone(), value.clone()), *count);
                *missing -= (*count).max(0);
            }
        }
        first
    }

    /// Checks the operator behind an arrangement, or, from a step on, behind that of another dataflow.
    fn check(steps: Vec<Step>, imported_at: Option<u64>) {
        let given: Arc<Mutex<Vec<((Vec<u8>, Vec<u8>), Timestamp, Diff)>>> = Arc::default();
        let inputs = steps.clone();
        let seen = Arc::clone(&given);
        timely::execute_directly(move |worker| {
            let note = move |update: &_| seen.lock().expect("not poisoned").push(Clone::clone(update));
            let (mut input, mut trace) = worker.dataflow::<Timestamp, _, _>(|scope| {
                let (input, rows) = scope.new_collection::<(Vec<u8>, Vec<u8>), Diff>();
                let rows = arrange(&Allowance::unlimited(), rows, "rows");
                let trace = rows.trace.clone();
                if imported_at.is_none() {
                    Timestamp::first(&Allowance::unlimited(), rows, "first", WANTED, prefix).inspect(note.clone());
                }
                (input, trace)
            });
            let mut late = trace.clone();
            for (time, (updates, steps)) in (0_u64..).zip(inputs) {
                if imported_at == Some(time) {
                    worker.dataflow::<Timestamp, _, _>(|scope| {
                        Timestamp::first(&Allowance::unlimited(), trace.import(scope), "first", WANTED, prefix)
                            .inspect(note.clone());
                    });
                }
                // Another reader is a step behind, and batches are merged when it goes on.
                late.set_logical_compaction(trace.get_logical_compaction());
                late.set_physical_compaction(trace.get_physical_compaction());
                for (key, value, diff) in updates {
                    input.update_at((vec![key], vec![value]), time, diff);
                }
                input.advance_to(time + 1);
                input.flush();
                for _ in 0..steps {
                    worker.step();
                }
                // As the worker does that publishes it.
                let mut upper = Antichain::new();
                trace.read_upper(&mut upper);
                let since: Antichain<Timestamp> = upper.iter().map(|time| time.saturating_sub(1)).collect();
                trace.set_logical_compaction(since.borrow());
                trace.set_physical_compaction(upper.borrow());
            }
        });
        let (mut rows, mut first) = (Rows::new(), Rows::new());
        for (time, (updates, _)) in (0_u64..).zip(steps) {
            updates.into_iter().for_each(|(key, value, diff)| add(&mut rows, (vec![key], vec![value]), diff));
            for (row, _, diff) in given.lock().expect("not poisoned").iter().filter(|(_, at, _)| *at == time) {
                add(&mut first, row.clone(), *diff);
            }
            if imported_at.is_none_or(|imported_at| imported_at <= time) {
                assert_eq!(first, expected(&rows), "at {time}");
            }
        }
    }

    #[test]
    fn a_queue_is_worked_off_from_its_front() {
        let fill = (0..200).map(|value| (0, value, 1)).collect();
        let pop = (1..200).map(|value| (vec![(0, value, -1)], if value % 3 == 0 { 20 } else { 0 }));
        let push_below = [(vec![(0, 0, 2)], 20), (vec![(0, 0, -3), (0, 7, 1)], 20), (vec![(0, 7, -1)], 20)];
        check([(fill, 20)].into_iter().chain(pop).chain(push_below).collect(), None);
    }

    #[test]
    fn batches_are_merged_before_their_import_is_read() {
        for at in 1..9 {
            let steps = (0..10).map(|time| (if time % 6 == 0 { vec![(0, time, 1)] } else { Vec::new() }, 5)).collect();
            check(steps, Some(at));
        }
    }

    proptest! {
        #[test]
        fn it_gives_what_a_scan_gives(steps in prop::collection::vec(
            (prop::collection::vec((0_u8..3, 0_u8..12, -2_i64..3), 0..6), 0_usize..5), 1..30)) {
            check(steps, None);
        }

        #[test]
        fn it_gives_the_same_of_what_another_dataflow_has_arranged(steps in prop::collection::vec(
            (prop::collection::vec((0_u8..3, 0_u8..12, -2_i64..3), 0..6), 0_usize..5), 2..30), at in 0_usize..30) {
            let at = u64::try_from(at % steps.len()).expect("small");
            check(steps, Some(at));
        }
    }
}
