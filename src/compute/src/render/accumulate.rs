//! Groups whose aggregates are counts and sums: a change adds to totals and reads no other row of its group.
//!
//! The totals of a group are the *multiplicity* of its key: differential adds multiplicities up by itself, in the
//! arrangement and whenever batches are merged, so that a group of a million rows is one entry.

use crate::render::mfp::{decode, types};
use crate::render::reduce::Step;
use crate::render::{Builder, Keyed, Rows, outcome};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use differential_dataflow::AsCollection;
use differential_dataflow::difference::{Abelian, IsZero, Monoid, Semigroup};
use repr::row::{RowCodec, RowError, write_array_value};
use repr::sqlstate::SqlState;
use repr::{Diff, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;

/// Whether the group is there without rows, the number of its rows, and for each aggregate the number of values that are
/// not NULL and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Totals(Vec<i128>);

const MARKER: usize = 0;
const ROWS: usize = 1;
const FIRST: usize = 2;

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

/// Whether all of these can be computed from totals.
pub(super) fn are_accumulable(steps: &[Step], schema: &SchemaRef) -> bool {
    steps.iter().all(|step| {
        let summed = || schema.field(step.columns.start).data_type();
        !step.function.is_distinct()
            && match step.function.fun().name() {
                "count" => true,
                "sum" => match (summed(), &step.output) {
                    (DataType::Int64, DataType::Int64) => true,
                    (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from == to,
                    _ => false,
                },
                _ => false,
            }
    })
}

impl<'scope> Builder<'scope> {
    /// Rows under their group's key to one row per group.
    pub(super) fn accumulate(
        &mut self,
        keyed: Keyed<'scope>,
        schema: &SchemaRef,
        steps: Vec<Step>,
    ) -> Result<Rows<'scope>, RowError> {
        let (codec, schema) = (RowCodec::new(&types(schema))?, Arc::clone(schema));
        let width = FIRST + 2 * steps.len();
        let counted = steps.clone();
        type Update = ((Vec<u8>, Vec<u8>), Timestamp, Diff);
        type Total = ((Vec<u8>, ()), Timestamp, Totals);
        let totals =
            keyed.inner.unary::<CapacityContainerBuilder<Vec<Total>>, _, _, _>(Pipeline, "Totals", move |_, _| {
                move |input, output| {
                    input.for_each(|capability, updates: &mut Vec<Update>| {
                        let mut session = output.session(&capability);
                        // The marker of a group that is always there comes by itself and has no row.
                        updates.retain_mut(|((key, value), time, diff)| {
                            let is_row = !value.is_empty();
                            if !is_row {
                                let mut totals = vec![0; width];
                                totals[MARKER] = i128::from(*diff);
                                session.give(((std::mem::take(key), ()), *time, Totals(totals)));
                            }
                            is_row
                        });
                        let rows = updates.iter().map(|((_, value), _, _)| &value[1..]);
                        let batch = decode(&codec, &schema, rows).expect("rows decode as they were encoded");
                        for (at, ((key, _), time, diff)) in updates.drain(..).enumerate() {
                            session.give(((key, ()), time, totals_of(&counted, &batch, at, diff)));
                        }
                    });
                }
            });
        let groups = totals.as_collection().reduce(move |_, input, output| {
            let [(_, totals)] = input else { return };
            if totals.0[MARKER] > 0 || totals.0[ROWS] != 0 {
                output.push((outcome(row_of(&steps, totals)), 1));
            }
        });
        let rows = groups.map(|(key, value): (Vec<u8>, Vec<u8>)| match value.split_first() {
            // Its key comes before its aggregates.
            Some((&tag, aggregates)) if tag == super::SUCCEEDED => [&[tag], key.as_slice(), aggregates].concat(),
            _ => value,
        });
        Ok(self.outcomes(rows))
    }
}

/// What `diff` copies of a row add to its group's totals.
fn totals_of(steps: &[Step], batch: &RecordBatch, at: usize, diff: Diff) -> Totals {
    let mut totals = vec![0; FIRST + 2 * steps.len()];
    totals[ROWS] = i128::from(diff);
    for (number, step) in steps.iter().enumerate() {
        let passes = step.filter.is_none_or(|column| {
            let mask = batch.column(column).as_boolean();
            mask.is_valid(at) && mask.value(at)
        });
        let is_value = step.columns.clone().all(|column| batch.column(column).is_valid(at));
        if !passes || !is_value {
            continue;
        }
        totals[FIRST + 2 * number] = i128::from(diff);
        if step.function.fun().name() == "sum" {
            let column = batch.column(step.columns.start);
            let value = match column.data_type() {
                DataType::Int64 => i128::from(column.as_primitive::<Int64Type>().value(at)),
                _ => column.as_primitive::<Decimal128Type>().value(at),
            };
            totals[FIRST + 2 * number + 1] = value.wrapping_mul(i128::from(diff));
        }
    }
    Totals(totals)
}

/// The row of a group's aggregates.
fn row_of(steps: &[Step], totals: &Totals) -> Result<Vec<u8>, DataFusionError> {
    if totals.0[ROWS] < 0 {
        return Err(super::reduce::negative());
    }
    let mut out = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let (count, sum) = (totals.0[FIRST + 2 * number], totals.0[FIRST + 2 * number + 1]);
        let value = match (step.function.fun().name(), &step.output) {
            ("count", _) => ScalarValue::Int64(i64::try_from(count).ok()),
            (_, _) if count == 0 => ScalarValue::try_from(&step.output)?,
            (_, DataType::Decimal128(precision, scale)) => {
                if sum.unsigned_abs() >= 10_u128.pow(u32::from(*precision)) {
                    return Err(out_of_range("numeric"));
                }
                ScalarValue::Decimal128(Some(sum), *precision, *scale)
            }
            _ => ScalarValue::Int64(Some(i64::try_from(sum).map_err(|_| out_of_range("bigint"))?)),
        };
        write_array_value(&mut out, value.to_array()?.as_ref(), 0)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
    }
    Ok(out)
}

fn out_of_range(what: &str) -> DataFusionError {
    let error = sql::error::SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"));
    DataFusionError::External(Box::new(error))
}
