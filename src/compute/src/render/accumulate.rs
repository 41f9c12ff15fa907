//! Groups whose aggregates are counts and sums: a change adds to totals and reads no other row of its group.
//!
//! The totals of a group are the *multiplicity* of its key: differential adds multiplicities up by itself, in the
//! arrangement and whenever batches are merged, so that a group of a million rows is one entry.
//!
//! Decimals are added in parts of [`LIMB_BITS`], so that no sum overflows before it is asked whether it fits its type. An
//! aggregate with DISTINCT adds up what a set of its group's values gains and loses.

use crate::render::join::distinct;
use crate::render::mfp::{decode, types};
use crate::render::reduce::{Part, ROW, Step, cut, negative, normal, outcome_of, passes};
use crate::render::{Builder, Keyed, ScopeTime};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Int64Type, Schema, SchemaRef, i256};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use differential_dataflow::difference::{Abelian, IsZero, Monoid, Semigroup};
use differential_dataflow::{AsCollection, VecCollection};
use repr::Diff;
use repr::row::{RowCodec, RowError, write_array_value};
use repr::sqlstate::SqlState;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;

/// Whether the group is there without rows, the number of its rows, and for each aggregate the number of values that are
/// not NULL and their sum, in as many parts as its [`Sum`] has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Totals(Vec<i128>);

const MARKER: usize = 0;
const ROWS: usize = 1;
const FIRST: usize = 2;
/// Bits of a decimal in all parts of a sum but the highest; what remains of 127 bits is for 2³⁷ values.
const LIMB_BITS: u8 = 90;

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

/// What is added up of the values that are not NULL.
#[derive(Clone, Copy)]
enum Sum {
    /// Nothing: their number is all.
    Nothing,
    /// Integers.
    Int64,
    /// How many are true.
    Bool,
    /// Decimals of 128 bits.
    Decimal128,
    /// Decimals of 256 bits.
    Decimal256,
}

/// An aggregate and where its totals are: the number of its values, then their sum.
#[derive(Clone)]
struct Slot {
    step: Step,
    sum: Sum,
    at: usize,
}

type KeyTotals<'scope, T> = VecCollection<'scope, T, (Vec<u8>, ()), Totals>;

impl<'scope, T: ScopeTime> Builder<'scope, T> {
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
            let values = distinct_values(keyed.clone(), key_types, part, &slot.step);
            let schema = Arc::new(part.schema.project(&slot.step.columns.clone().collect::<Vec<_>>())?);
            slot.step.columns = 0..slot.step.columns.len();
            slot.step.filter = None;
            all = all.concat(totals(values, &schema, vec![slot], width, Counted::Values)?);
        }
        let groups = all.reduce(move |_, input, output| {
            let [(_, totals)] = input else { return };
            if totals.0[MARKER] > 0 || totals.0[ROWS] != 0 {
                output.push((outcome_of(|| row_of(&slots, totals)), 1));
            }
        });
        Ok(groups)
    }
}

/// Where the totals of each aggregate of a part are, and how many there are in all.
fn slots(part: &Part) -> (Vec<Slot>, usize) {
    let mut at = FIRST;
    let mut slots = Vec::new();
    for step in &part.steps {
        let sum = match (step.function.fun().name(), &step.output) {
            ("count", _) => Sum::Nothing,
            ("bool_and" | "bool_or", _) => Sum::Bool,
            (_, DataType::Decimal128(..)) => Sum::Decimal128,
            (_, DataType::Decimal256(..)) => Sum::Decimal256,
            _ => Sum::Int64,
        };
        slots.push(Slot { step: step.clone(), sum, at });
        at += 1 + sum.part_count();
    }
    (slots, at)
}

/// The values of each group that an aggregate with DISTINCT sees, once each.
fn distinct_values<'scope, T: ScopeTime>(
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
    distinct(values, "Distinct values").as_collection(move |row, _| {
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

/// Turns rows into what they add to their group's totals.
fn totals<'scope, T: ScopeTime>(
    keyed: Keyed<'scope, T>,
    schema: &SchemaRef,
    slots: Vec<Slot>,
    width: usize,
    counted: Counted,
) -> Result<KeyTotals<'scope, T>, RowError> {
    let (codec, schema): (RowCodec, Arc<Schema>) = (RowCodec::new(&types(schema))?, Arc::clone(schema));
    type Update<T> = ((Vec<u8>, Vec<u8>), T, Diff);
    type Total<T> = ((Vec<u8>, ()), T, Totals);
    let totals =
        keyed.inner.unary::<CapacityContainerBuilder<Vec<Total<T>>>, _, _, _>(Pipeline, "Totals", move |_, _| {
            move |input, output| {
                input.for_each(|capability, updates: &mut Vec<Update<T>>| {
                    let mut session = output.session(&capability);
                    // The marker of a group that is always there comes by itself and has no row.
                    updates.retain_mut(|((key, value), time, diff)| {
                        let is_row = !value.is_empty();
                        if !is_row {
                            let mut totals = vec![0; width];
                            totals[MARKER] = i128::from(*diff);
                            session.give(((std::mem::take(key), ()), time.clone(), Totals(totals)));
                        }
                        is_row
                    });
                    let rows = updates.iter().map(|((_, value), _, _)| &value[1..]);
                    let batch = decode(&codec, &schema, rows).expect("rows decode as they were encoded");
                    for (at, ((key, _), time, diff)) in updates.drain(..).enumerate() {
                        let mut totals = vec![0; width];
                        if counted == Counted::Rows {
                            totals[ROWS] = i128::from(diff);
                        }
                        slots.iter().for_each(|slot| slot.add(&batch, at, diff, &mut totals));
                        session.give(((key, ()), time, Totals(totals)));
                    }
                });
            }
        });
    Ok(totals.as_collection())
}

impl Sum {
    /// In how many parts it is kept.
    fn part_count(self) -> usize {
        match self {
            Sum::Nothing => 0,
            Sum::Int64 | Sum::Bool => 1,
            Sum::Decimal128 => 2,
            Sum::Decimal256 => 3,
        }
    }

    /// The parts of a decimal, lowest first.
    fn parts(self, value: i256) -> impl Iterator<Item = i128> {
        let last = self.part_count() - 1;
        let mask = i256::from_i128((1 << LIMB_BITS) - 1);
        (0..=last).map(move |part| {
            let rest = value >> (LIMB_BITS * u8::try_from(part).expect("few parts"));
            let limb = if part == last { rest } else { rest & mask };
            limb.to_i128().expect("a part of a decimal has fewer than 128 bits")
        })
    }

    /// The decimal with these parts, unless it needs more than 254 bits.
    fn whole(parts: &[i128]) -> Option<i256> {
        // From the highest part on, so that what is shifted is known to fit.
        parts.iter().rev().try_fold(i256::ZERO, |sum, part| {
            let limit = i256::ONE << (254 - LIMB_BITS);
            let fits = sum < limit && sum > limit.wrapping_neg();
            fits.then(|| (sum << LIMB_BITS).wrapping_add(i256::from_i128(*part)))
        })
    }
}

impl Slot {
    /// Adds what `diff` copies of a row count for.
    fn add(&self, batch: &RecordBatch, at: usize, diff: Diff, totals: &mut [i128]) {
        let passes = self.step.filter.is_none_or(|column| {
            let mask = batch.column(column).as_boolean();
            mask.is_valid(at) && mask.value(at)
        });
        if !passes || !self.step.columns.clone().all(|column| batch.column(column).is_valid(at)) {
            return;
        }
        let diff = i128::from(diff);
        totals[self.at] = diff;
        let sum = &mut totals[self.at + 1..];
        let column = || batch.column(self.step.columns.start);
        match self.sum {
            Sum::Nothing => {}
            Sum::Bool => sum[0] = diff * i128::from(column().as_boolean().value(at)),
            Sum::Int64 => sum[0] = diff * i128::from(column().as_primitive::<Int64Type>().value(at)),
            Sum::Decimal128 | Sum::Decimal256 => {
                let value = match self.sum {
                    Sum::Decimal128 => i256::from_i128(column().as_primitive::<Decimal128Type>().value(at)),
                    _ => column().as_primitive::<Decimal256Type>().value(at),
                };
                for (total, part) in sum.iter_mut().zip(self.sum.parts(value)) {
                    *total = part.wrapping_mul(diff);
                }
            }
        }
    }

    /// The aggregate's value.
    fn value(&self, totals: &Totals) -> Result<ScalarValue, DataFusionError> {
        let (count, sum) = (totals.0[self.at], &totals.0[self.at + 1..][..self.sum.part_count()]);
        Ok(match (self.sum, &self.step.output) {
            (Sum::Nothing, _) => ScalarValue::Int64(i64::try_from(count).ok()),
            (_, output) if count == 0 => ScalarValue::try_from(output)?,
            (Sum::Bool, _) if self.step.function.fun().name() == "bool_and" => {
                ScalarValue::Boolean(Some(sum[0] == count))
            }
            (Sum::Bool, _) => ScalarValue::Boolean(Some(sum[0] > 0)),
            (_, DataType::Decimal128(precision, scale)) => {
                let sum = Sum::whole(sum).and_then(i256::to_i128);
                let fits = |sum: &i128| sum.unsigned_abs() < 10_u128.pow(u32::from(*precision));
                let sum = sum.filter(fits).ok_or_else(|| out_of_range("numeric"))?;
                ScalarValue::Decimal128(Some(sum), *precision, *scale)
            }
            (_, DataType::Decimal256(precision, scale)) => {
                let limit = i256::from_i128(10).wrapping_pow(u32::from(*precision));
                let fits = |sum: &i256| *sum < limit && *sum > limit.wrapping_neg();
                let sum = Sum::whole(sum).filter(fits).ok_or_else(|| out_of_range("numeric"))?;
                ScalarValue::Decimal256(Some(sum), *precision, *scale)
            }
            _ => ScalarValue::Int64(Some(i64::try_from(sum[0]).map_err(|_| out_of_range("bigint"))?)),
        })
    }
}

/// The row of a group's aggregates.
fn row_of(slots: &[Slot], totals: &Totals) -> Result<Vec<u8>, DataFusionError> {
    if totals.0[ROWS] < 0 {
        return Err(negative());
    }
    let mut out = Vec::new();
    for slot in slots {
        write_array_value(&mut out, slot.value(totals)?.to_array()?.as_ref(), 0)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
    }
    Ok(out)
}

fn out_of_range(what: &str) -> DataFusionError {
    let error = sql::error::SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"));
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::{LIMB_BITS, Sum};
    use arrow::datatypes::i256;
    use proptest::prelude::{any, prop, proptest};

    proptest! {
        #[test]
        fn sums_of_parts_are_parts_of_sums(values in prop::collection::vec((any::<u128>(), any::<i128>()), 1..50)) {
            let values: Vec<i256> = values.iter().map(|(low, high)| i256::from_parts(*low, high >> 20)).collect();
            let mut totals = [0; 3];
            for value in &values {
                for (total, part) in totals.iter_mut().zip(Sum::Decimal256.parts(*value)) {
                    *total += part;
                }
            }
            let expected = values.iter().fold(i256::ZERO, |sum, value| sum.wrapping_add(*value));
            assert_eq!(Sum::whole(&totals), Some(expected));
        }
    }

    #[test]
    fn what_needs_too_many_bits_is_no_sum() {
        let largest = i256::MAX;
        let parts: Vec<i128> = Sum::Decimal256.parts(largest).map(|part| part * 4).collect();
        assert_eq!(Sum::whole(&parts), None);
        assert_eq!(Sum::whole(&[-1, 0, 0]), Some(i256::MINUS_ONE));
        assert_eq!(Sum::whole(&[0, -1]), Some((i256::ONE << LIMB_BITS).wrapping_neg()));
    }
}
