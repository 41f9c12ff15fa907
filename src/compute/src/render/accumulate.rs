//! Groups whose aggregates are counts and sums: a change adds to totals and reads no other row of its group.
//!
//! What a batch of rows adds to the same group is added up before it goes on. An aggregate with DISTINCT adds up what a set
//! of its group's values gains and loses.

use crate::render::flow::{Flow, InputUpdate};
use crate::render::join::distinct;
use crate::render::mfp::{contained, decode, types};
use crate::render::part::{Part, Step};
use crate::render::reduce::{ROW, cut, normal, passes};
use crate::render::sums::{Slot, row_of, slots};
use crate::render::tally::Tally;
use crate::render::totals::{KeyTotal, KeyTotals, MARKER, ROWS, Totals};
use crate::render::{Builder, Keyed, Rows, SUCCEEDED, ScopeTime, outcome};
use arrangement::allowance::Allowance;
use arrow::datatypes::{DataType, SchemaRef};
use compute_client::error::encode_error;
use differential_dataflow::{AsCollection, VecCollection};
use repr::Diff;
use repr::row::{RowCodec, RowError};
use std::sync::Arc;
use timely::container::{CapacityContainerBuilder, PushInto};
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Rows to one outcome per group, of which the key is part; `markers` are the keys of groups that are always there.
    pub(super) fn accumulate_rows(
        &mut self,
        rows: Flow<'scope, T>,
        mut tally: Tally,
        markers: Option<Rows<'scope, T>>,
    ) -> Rows<'scope, T> {
        let (slots, width) = (tally.slots.clone(), tally.width);
        type Output<T> = CapacityContainerBuilder<Vec<KeyTotal<T>>>;
        let (totals, errs) =
            rows.evaluated("Totals", move |updates, output: &mut Output<T>, fail| match tally.of(updates) {
                Ok(totals) => totals.for_each(|total| output.push_into(total)),
                Err(_) => {
                    for update in updates {
                        match tally.of(std::slice::from_ref(update)) {
                            Ok(totals) => totals.for_each(|total| output.push_into(total)),
                            Err(error) => fail((encode_error(error), update.time.clone(), update.diff)),
                        }
                    }
                }
            });
        self.errs.push(errs);
        let mut totals: KeyTotals<'scope, T> = totals.as_collection();
        if let Some(markers) = markers {
            totals = totals.concat(marked(markers, width));
        }
        T::totals(&self.memory, totals, move |key, totals| Some((Vec::new(), group(&slots, key, totals)?)))
            .map(|(_, row)| row)
    }

    /// Rows under their group's key to one outcome per group.
    pub(super) fn accumulate(
        &mut self,
        keyed: Keyed<'scope, T>,
        key_types: &[DataType],
        part: &Part,
    ) -> Result<Keyed<'scope, T>, RowError> {
        let (slots, width) = slots(part);
        let (sets, plain): (Vec<Slot>, Vec<Slot>) =
            slots.iter().cloned().partition(|slot| slot.step.function.is_distinct());
        let mut all = totals(keyed.clone(), &part.schema, plain, width, Counted::Rows)?;
        for mut slot in sets {
            let values = distinct_values(&self.memory, keyed.clone(), key_types, part, &slot.step);
            let schema = Arc::new(part.schema.project(&slot.step.columns.clone().collect::<Vec<_>>())?);
            slot.step.columns = 0..slot.step.columns.len();
            slot.step.filter = None;
            all = all.concat(totals(values, &schema, vec![slot], width, Counted::Values)?);
        }
        Ok(T::totals(&self.memory, all, move |key, totals| Some((key.to_vec(), group(&slots, &[], totals)?))))
    }
}

/// The outcome of a group if it is there: what it begins with, then its aggregates.
fn group(slots: &[Slot], front: &[u8], totals: &Totals) -> Option<Vec<u8>> {
    let is_there = totals.0[MARKER] > 0 || totals.0[ROWS] != 0;
    let row = || contained(|| row_of(slots, [&[SUCCEEDED], front].concat(), totals));
    is_there.then(|| row().unwrap_or_else(|error| outcome(Err(error))))
}

/// Keys as totals that say that their groups are always there.
fn marked<'scope, T: ScopeTime>(markers: Rows<'scope, T>, width: usize) -> KeyTotals<'scope, T> {
    let marked =
        markers.inner.unary::<CapacityContainerBuilder<Vec<KeyTotal<T>>>, _, _, _>(Pipeline, "Markers", move |_, _| {
            move |input, output| {
                input.for_each(|capability, updates: &mut Vec<InputUpdate<T>>| {
                    let marker = |(key, time, diff)| ((key, ()), time, marker(width, diff));
                    output.session(&capability).give_iterator(updates.drain(..).map(marker));
                });
            }
        });
    marked.as_collection()
}

fn marker(width: usize, diff: Diff) -> Totals {
    let mut totals = vec![0; width];
    totals[MARKER] = i128::from(diff);
    Totals(totals)
}

/// The values of each group that an aggregate with DISTINCT sees, once each.
fn distinct_values<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    keyed: Keyed<'scope, T>,
    key_types: &[DataType],
    part: &Part,
    step: &Step,
) -> Keyed<'scope, T> {
    let (types, step) = (types(&part.schema), step.clone());
    let values = keyed.flat_map(move |(key, value)| {
        let (_, row) = value.split_first()?;
        let column = |at: usize| cut(row, &types, at..at + 1);
        let is_in = step.filter.is_none_or(|filter| passes(column(filter)));
        let values = step.columns.clone().map(|at| (!is_null(column(at))).then(|| normal(column(at), &types[at])));
        let values = values.collect::<Option<Vec<_>>>().filter(|_| is_in)?;
        Some([key, values.concat()].concat())
    });
    let key_types = key_types.to_vec();
    distinct(memory, values, "Distinct values").as_collection(move |row, _| {
        let key = cut(row, &key_types, 0..key_types.len());
        (key.to_vec(), [&[ROW], &row[key.len()..]].concat())
    })
}

/// Whether the bytes of a column's value are those of NULL.
fn is_null(value: &[u8]) -> bool {
    value.first() == Some(&0)
}

/// What rows of a stream are, besides values to add up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// The rows of their group.
    Rows,
    /// Nothing: the rows are counted elsewhere.
    Values,
}

/// Turns rows under keys into what they add to their group's totals.
fn totals<'scope, T: ScopeTime>(
    keyed: Keyed<'scope, T>,
    schema: &SchemaRef,
    slots: Vec<Slot>,
    width: usize,
    counted: Counted,
) -> Result<KeyTotals<'scope, T>, RowError> {
    let (codec, schema) = (RowCodec::new(&types(schema))?, Arc::clone(schema));
    type Update<T> = ((Vec<u8>, Vec<u8>), T, Diff);
    let totals =
        keyed.inner.unary::<CapacityContainerBuilder<Vec<KeyTotal<T>>>, _, _, _>(Pipeline, "Totals", move |_, _| {
            move |input, output| {
                input.for_each(|capability, updates: &mut Vec<Update<T>>| {
                    let mut session = output.session(&capability);
                    // The marker of a group that is always there comes by itself and has no row.
                    updates.retain_mut(|((key, value), time, diff)| {
                        let is_row = !value.is_empty();
                        if !is_row {
                            session.give(((std::mem::take(key), ()), time.clone(), marker(width, *diff)));
                        }
                        is_row
                    });
                    let rows = updates.iter().map(|((_, value), _, _)| &value[1..]);
                    let batch = decode(&codec, &schema, rows).expect("rows decode as they were encoded");
                    let diffs: Vec<Diff> = updates.iter().map(|(_, _, diff)| *diff).collect();
                    let groups: Vec<usize> = (0..updates.len()).map(|row| row * width).collect();
                    let mut totals = vec![0; updates.len() * width];
                    slots.iter().for_each(|slot| slot.add(&batch, &diffs, &groups, &mut totals));
                    for (((key, _), time, diff), totals) in updates.drain(..).zip(totals.chunks_mut(width)) {
                        if counted == Counted::Rows {
                            totals[ROWS] = i128::from(diff);
                        }
                        session.give(((key, ()), time, Totals(totals.to_vec())));
                    }
                });
            }
        });
    let totals: VecCollection<'scope, T, (Vec<u8>, ()), Totals> = totals.as_collection();
    Ok(totals)
}
