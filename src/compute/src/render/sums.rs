//! The aggregates that follow from totals: what a row adds to them, and what they are of them.
//!
//! Decimals are added in parts of [`LIMB_BITS`], as many as the digits of their type need, so that no sum overflows before it
//! is asked whether it fits its type.

use crate::render::part::{Part, Step, negative};
use crate::render::totals::{FIRST, ROWS, Totals};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Int64Type, i256};
use datafusion::error::DataFusionError;
use repr::row::write_datum;
use repr::sqlstate::SqlState;
use repr::{Datum, Diff};
use std::ops::Range;

/// Bits of a decimal in all parts of a sum but the highest; what remains of 127 bits is for 2³⁷ values.
const LIMB_BITS: u8 = 90;
const LIMB_MASK: i128 = (1 << LIMB_BITS) - 1;
/// Decimals of so many digits fit one part.
const LIMB_DIGITS: u8 = 27;

/// What is added up of the values that are not NULL.
#[derive(Clone, Copy)]
enum Sum {
    /// Nothing: their number is all.
    Nothing,
    /// Integers.
    Int64,
    /// How many are true.
    Bool,
    /// Decimals, in so many parts.
    Decimal(usize),
}

/// An aggregate and where its totals are: the number of its values, then their sum.
#[derive(Clone)]
pub(super) struct Slot {
    /// What it reads.
    pub(super) step: Step,
    sum: Sum,
    at: usize,
}

/// What an aggregate reads, if that is numbers: where the argument is among the columns of its part.
pub(super) enum Summed {
    /// Whether these are there.
    Counted(Range<usize>),
    /// A number, whose sum has its parts at these totals.
    Number { column: usize, at: usize, part_count: usize },
}

/// Where the totals of each aggregate of a part are, and how many there are in all.
pub(super) fn slots(part: &Part) -> (Vec<Slot>, usize) {
    let mut at = FIRST;
    let mut slots = Vec::new();
    for step in &part.steps {
        let sum = match (step.function.fun().name(), &step.output) {
            ("count", _) => Sum::Nothing,
            ("bool_and" | "bool_or", _) => Sum::Bool,
            (_, DataType::Decimal128(..) | DataType::Decimal256(..)) => {
                match part.schema.field(step.columns.start).data_type() {
                    DataType::Decimal128(digits, _) | DataType::Decimal256(digits, _) => {
                        Sum::Decimal(digits.div_ceil(LIMB_DIGITS).max(1).into())
                    }
                    // The strategy is for decimals of decimals.
                    _ => Sum::Decimal(3),
                }
            }
            _ => Sum::Int64,
        };
        slots.push(Slot { step: step.clone(), sum, at });
        at += 1 + sum.part_count();
    }
    (slots, at)
}

/// The row of a group's aggregates, behind what it begins with.
pub(super) fn row_of(slots: &[Slot], mut row: Vec<u8>, totals: &Totals) -> Result<Vec<u8>, DataFusionError> {
    if totals.0[ROWS] < 0 {
        return Err(negative());
    }
    for slot in slots {
        write_datum(&mut row, &slot.step.output, &slot.value(totals)?)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
    }
    Ok(row)
}

impl Sum {
    /// In how many parts it is kept.
    fn part_count(self) -> usize {
        match self {
            Sum::Nothing => 0,
            Sum::Int64 | Sum::Bool => 1,
            Sum::Decimal(parts) => parts,
        }
    }
}

/// Adds copies of a decimal, in parts, lowest first.
fn add_decimal(value: i256, diff: i128, sum: &mut [i128]) {
    match value.to_i128() {
        Some(value) => add_narrow(value, diff, sum),
        None => {
            let mask = i256::from_i128(LIMB_MASK);
            let last = sum.len() - 1;
            let mut rest = value;
            for (part, total) in sum.iter_mut().enumerate() {
                let limb = if part == last { rest } else { rest & mask };
                rest = rest >> LIMB_BITS;
                add(total, limb.to_i128().expect("a part of a decimal has fewer than 128 bits"), diff);
            }
        }
    }
}

/// As [`add_decimal`], of 128 bits.
pub(super) fn add_narrow(value: i128, diff: i128, sum: &mut [i128]) {
    match sum {
        [all] => add(all, value, diff),
        [low, rest @ ..] => {
            add(low, value & LIMB_MASK, diff);
            add_narrow(value >> LIMB_BITS, diff, rest);
        }
        [] => {}
    }
}

fn add(total: &mut i128, value: i128, diff: i128) {
    *total = total.wrapping_add(value.wrapping_mul(diff));
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

impl Slot {
    /// What it reads of every row and where the totals have the number of its values, if it is a count or a sum of numbers.
    pub(super) fn reads(&self) -> Option<(Summed, usize)> {
        let columns = self.step.columns.clone();
        let summed = match self.sum {
            _ if self.step.filter.is_some() => return None,
            Sum::Nothing => Summed::Counted(columns),
            Sum::Bool => return None,
            Sum::Int64 | Sum::Decimal(_) => {
                Summed::Number { column: columns.start, at: self.at + 1, part_count: self.sum.part_count() }
            }
        };
        Some((summed, self.at))
    }

    /// Adds what rows count for, each as often as its `diffs` say and to the totals of its own group: the `width` ones from
    /// `groups` on.
    pub(super) fn add(&self, batch: &RecordBatch, diffs: &[Diff], groups: &[usize], totals: &mut [i128]) {
        let arguments = &batch.columns()[self.step.columns.clone()];
        let filter = self.step.filter.map(|column| batch.column(column).as_boolean());
        let is_simple = filter.is_none() && arguments.iter().all(|column| column.null_count() == 0);
        let counts = |at: usize| {
            is_simple
                || (filter.is_none_or(|mask| mask.is_valid(at) && mask.value(at))
                    && arguments.iter().all(|column| column.is_valid(at)))
        };
        let parts = self.at + 1..self.at + 1 + self.sum.part_count();
        let each = |totals: &mut [i128], mut add_value: Box<dyn FnMut(usize, i128, &mut [i128]) + '_>| {
            for (at, (diff, group)) in diffs.iter().zip(groups).enumerate() {
                if counts(at) {
                    let (totals, diff) = (&mut totals[*group..], i128::from(*diff));
                    totals[self.at] = totals[self.at].wrapping_add(diff);
                    add_value(at, diff, &mut totals[parts.clone()]);
                }
            }
        };
        match self.sum {
            Sum::Nothing => each(totals, Box::new(|_, _, _| {})),
            Sum::Bool => {
                let values = arguments[0].as_boolean();
                each(totals, Box::new(|at, diff, sum| add(&mut sum[0], values.value(at).into(), diff)));
            }
            Sum::Int64 => {
                let values = arguments[0].as_primitive::<Int64Type>();
                each(totals, Box::new(|at, diff, sum| add(&mut sum[0], values.value(at).into(), diff)));
            }
            Sum::Decimal(_) => match arguments[0].as_primitive_opt::<Decimal128Type>() {
                Some(values) => each(totals, Box::new(|at, diff, sum| add_narrow(values.value(at), diff, sum))),
                None => {
                    let values = arguments[0].as_primitive::<Decimal256Type>();
                    each(totals, Box::new(|at, diff, sum| add_decimal(values.value(at), diff, sum)));
                }
            },
        }
    }

    /// The aggregate's value.
    fn value(&self, totals: &Totals) -> Result<Datum<'static>, DataFusionError> {
        let (count, sum) = (totals.0[self.at], &totals.0[self.at + 1..][..self.sum.part_count()]);
        let integer = |value: i128| i64::try_from(value).map(Datum::Int8).map_err(|_| out_of_range("bigint"));
        Ok(match (self.sum, &self.step.output) {
            (Sum::Nothing, _) => integer(count)?,
            _ if count == 0 => Datum::Null,
            (Sum::Bool, _) if self.step.function.fun().name() == "bool_and" => Datum::Bool(sum[0] == count),
            (Sum::Bool, _) => Datum::Bool(sum[0] > 0),
            (Sum::Decimal(_), DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) => {
                let limit = i256::from_i128(10).wrapping_pow(u32::from(*precision));
                let fits = |sum: &i256| *sum < limit && *sum > limit.wrapping_neg();
                Datum::Numeric(whole(sum).filter(fits).ok_or_else(|| out_of_range("numeric"))?, *scale)
            }
            _ => integer(sum[0])?,
        })
    }
}

fn out_of_range(what: &str) -> DataFusionError {
    let error = engine::error::SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"));
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::{LIMB_BITS, add_decimal, whole};
    use arrow::datatypes::i256;
    use proptest::prelude::{any, prop, proptest};

    proptest! {
        #[test]
        fn sums_of_parts_are_parts_of_sums(
            values in prop::collection::vec((any::<u128>(), any::<i128>(), any::<bool>()), 1..50),
            diffs in prop::collection::vec(-3_i128..4, 50),
            parts in 2_usize..4) {
            // Two parts are for 54 digits, three for all.
            let values: Vec<i256> = values.iter().map(|(low, high, is_narrow)| match is_narrow {
                true => i256::from_i128(*high >> 20),
                false => i256::from_parts(*low, high >> (20 + if parts == 2 { 60 } else { 0 })),
            }).collect();
            let mut totals = vec![0; parts];
            let mut expected = i256::ZERO;
            for (value, diff) in values.iter().zip(&diffs) {
                add_decimal(*value, *diff, &mut totals);
                expected = expected.wrapping_add(value.wrapping_mul(i256::from_i128(*diff)));
            }
            assert_eq!(whole(&totals), Some(expected));
        }
    }

    #[test]
    fn what_needs_too_many_bits_is_no_sum() {
        let mut parts = [0; 3];
        add_decimal(i256::MAX, 4, &mut parts);
        assert_eq!(whole(&parts), None);
        assert_eq!(whole(&[-1, 0, 0]), Some(i256::MINUS_ONE));
        assert_eq!(whole(&[0, -1]), Some((i256::ONE << LIMB_BITS).wrapping_neg()));
    }
}
