//! `+ - *` on numerics of which every operand is stored in more bits than the 64 that it needs.
//!
//! Types are as wide as values might become: price * (1 - discount) * (1 + tax) has a type of 47 digits, and values of 12.
//! Whatever two integers of 64 bits give fits 128, so there is nothing to check but that the operands are such integers. Block
//! by block, one loop collects the bits that would say otherwise, and another calculates and checks nothing. At the first block
//! with a longer number everything is left to the checked way. Two loops, because one that does both keeps what it collects
//! in memory, and waits for it at each row.
//!
//! # Invariants
//! - An answer is the one of the checked way. Where that compares with the result's precision, any value of this one fits.
//! - What lies under a NULL is calculated with like any other value: it can cost the short way and never gives an error.

use super::ArithOp;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, i256};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use std::sync::Arc;

/// Rows that are looked at, and then calculated with while they are in the first cache.
const BLOCK: usize = 512;
/// The largest power of ten of 64 bits: by how many digits a value is moved at most.
const SHIFT_MAX: i32 = 18;
/// Digits that hold all results: a product is at most 2^126, scaled values are less than 2^63 * 10^18 each.
const DIGITS: u8 = 38;

/// What is calculated of `a` and `b`; no value leaves 128 bits.
#[derive(Clone, Copy)]
enum Formula {
    /// `a * b`
    Product,
    /// `a * left + b * right`, of powers of ten, the right one negative in a difference.
    Sum { left: i64, right: i64 },
}

impl Formula {
    /// The same for `b` and `a`.
    fn swapped(self) -> Formula {
        match self {
            Formula::Product => Formula::Product,
            Formula::Sum { left, right } => Formula::Sum { left: right, right: left },
        }
    }
}

/// An operand.
enum Operand<'a> {
    Narrow(&'a PrimitiveArray<Decimal128Type>),
    Wide(&'a PrimitiveArray<Decimal256Type>),
    Constant(i64),
}

/// An integer as a decimal is stored.
trait Stored: Copy {
    /// Its last 64 bits, and others of which none is set if these are the number.
    fn split(self) -> (i64, u64);
}

impl Stored for i128 {
    #[inline]
    fn split(self) -> (i64, u64) {
        let (low, high) = (self as u64, (self >> 64) as u64);
        // What is above repeats the sign: all ones, to which one is added, or nothing.
        (low as i64, high.wrapping_add(low >> 63))
    }
}

impl Stored for i256 {
    #[inline]
    fn split(self) -> (i64, u64) {
        let (low, high) = self.to_parts();
        let (short, rest) = (low as i128).split();
        let above = (low >> 64) as u64;
        (short, rest | (high as u64 ^ above) | ((high >> 64) as u64 ^ above))
    }
}

/// The result, if the types allow it and every value of the operands fits 64 bits.
pub(super) fn calculate(
    op: ArithOp,
    data_type: &DataType,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Option<ArrayRef> {
    let (precision, scale) = decimal(data_type)?;
    let (left_type, right_type) = (left.data_type(), right.data_type());
    let is_narrow = [data_type, &left_type, &right_type].iter().all(|ty| matches!(ty, DataType::Decimal128(..)));
    // Only the way through 256 bits counts digits.
    if !is_narrow && precision < DIGITS {
        return None;
    }
    let formula = formula(op, scale, decimal(&left_type)?.1, decimal(&right_type)?.1)?;
    let (left, right) = (operand(left)?, operand(right)?);
    if let (Formula::Sum { left: 1, right: 1 | -1 }, Operand::Narrow(_), Operand::Narrow(_)) = (formula, &left, &right)
        && is_narrow
    {
        // The check of such a sum is one jump, which costs less than to look at the values before.
        return None;
    }
    match data_type {
        DataType::Decimal128(..) => {
            let result = evaluate::<Decimal128Type>(formula, left, right)?;
            Some(Arc::new(result.with_data_type(data_type.clone())))
        }
        DataType::Decimal256(..) => {
            let result = evaluate::<Decimal256Type>(formula, left, right)?;
            Some(Arc::new(result.with_data_type(data_type.clone())))
        }
        _ => None,
    }
}

fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

/// What is to be calculated, if nothing has to be rounded.
fn formula(op: ArithOp, scale: i8, left: i8, right: i8) -> Option<Formula> {
    let factor = |from: i8| {
        let shift = i32::from(scale) - i32::from(from);
        (0..=SHIFT_MAX).contains(&shift).then(|| 10_i64.pow(shift.unsigned_abs()))
    };
    match op {
        ArithOp::Add => Some(Formula::Sum { left: factor(left)?, right: factor(right)? }),
        ArithOp::Sub => Some(Formula::Sum { left: factor(left)?, right: -factor(right)? }),
        ArithOp::Mul => (i32::from(left) + i32::from(right) == i32::from(scale)).then_some(Formula::Product),
        ArithOp::Div | ArithOp::Rem => None,
    }
}

fn operand(value: &ColumnarValue) -> Option<Operand<'_>> {
    let constant = |(short, rest): (i64, u64)| (rest == 0).then_some(Operand::Constant(short));
    match value {
        ColumnarValue::Array(array) => {
            array.as_primitive_opt().map(Operand::Narrow).or_else(|| array.as_primitive_opt().map(Operand::Wide))
        }
        ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), ..)) => constant(value.split()),
        ColumnarValue::Scalar(ScalarValue::Decimal256(Some(value), ..)) => constant(value.split()),
        ColumnarValue::Scalar(_) => None,
    }
}

fn evaluate<T: ArrowPrimitiveType<Native: From<i128>>>(
    formula: Formula,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Option<PrimitiveArray<T>> {
    let (formula, left, right) = match left {
        Operand::Constant(_) => (formula.swapped(), right, left),
        _ => (formula, left, right),
    };
    match (left, right) {
        (Operand::Narrow(left), Operand::Narrow(right)) => of_two(formula, left, right),
        (Operand::Narrow(left), Operand::Wide(right)) => of_two(formula, left, right),
        (Operand::Wide(left), Operand::Narrow(right)) => of_two(formula, left, right),
        (Operand::Wide(left), Operand::Wide(right)) => of_two(formula, left, right),
        (Operand::Narrow(left), Operand::Constant(right)) => of_one(formula, left, right),
        (Operand::Wide(left), Operand::Constant(right)) => of_one(formula, left, right),
        // The optimizer calculates what is constant, once.
        (Operand::Constant(_), _) => None,
    }
}

fn of_two<L, R, T>(formula: Formula, left: &PrimitiveArray<L>, right: &PrimitiveArray<R>) -> Option<PrimitiveArray<T>>
where
    L: ArrowPrimitiveType<Native: Stored>,
    R: ArrowPrimitiveType<Native: Stored>,
    T: ArrowPrimitiveType<Native: From<i128>>,
{
    if left.len() != right.len() {
        return None;
    }
    let (l, r) = (left.values(), right.values());
    let values = match formula {
        Formula::Product => each(l, r, |a, b| a * b),
        Formula::Sum { left, right } => each(l, r, |a, b| a * i128::from(left) + b * i128::from(right)),
    }?;
    Some(array(values, NullBuffer::union(left.nulls(), right.nulls())))
}

fn of_one<L, T>(formula: Formula, left: &PrimitiveArray<L>, right: i64) -> Option<PrimitiveArray<T>>
where
    L: ArrowPrimitiveType<Native: Stored>,
    T: ArrowPrimitiveType<Native: From<i128>>,
{
    let (factor, addend) = match formula {
        Formula::Product => (right, 0),
        Formula::Sum { left, right: factor } => (left, i128::from(right) * i128::from(factor)),
    };
    let mut values = Vec::with_capacity(left.len());
    for block in left.values().chunks(BLOCK) {
        if !are_short(block) {
            return None;
        }
        values.extend(block.iter().map(|a| T::Native::from(i128::from(a.split().0) * i128::from(factor) + addend)));
    }
    Some(array(values, left.nulls().cloned()))
}

/// What is calculated of the values of each row, unless one of them needs more than 64 bits.
#[inline]
fn each<L: Stored, R: Stored, O: From<i128>>(
    left: &[L],
    right: &[R],
    calculate: impl Fn(i128, i128) -> i128,
) -> Option<Vec<O>> {
    let mut values = Vec::with_capacity(left.len());
    for (left, right) in left.chunks(BLOCK).zip(right.chunks(BLOCK)) {
        if !are_short(left) || !are_short(right) {
            return None;
        }
        let rows = left.iter().zip(right);
        values.extend(rows.map(|(left, right)| O::from(calculate(left.split().0.into(), right.split().0.into()))));
    }
    Some(values)
}

fn are_short<T: Stored>(values: &[T]) -> bool {
    values.iter().fold(0, |rest, value| rest | value.split().1) == 0
}

/// With the null buffer that the checked way gives: none where nothing is NULL.
fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> PrimitiveArray<T> {
    PrimitiveArray::new(values.into(), nulls.filter(|nulls| nulls.null_count() > 0))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, DIGITS, SHIFT_MAX};
    use crate::arith::{ArithOp, calculate};
    use arrow::array::{ArrayRef, PrimitiveArray};
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, i256};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::ColumnarValue;
    use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
    use proptest::sample::Index;
    use repr::types::NUMERIC;
    use std::sync::Arc;

    /// What is made an operand of: its type, and values, of which every one stands in many rows.
    #[derive(Debug, Clone)]
    struct Made {
        is_wide: bool,
        scale: i8,
        is_constant: bool,
        values: Vec<i256>,
        /// A value that stands in one row alone.
        odd: Option<(Index, i256)>,
        /// Every how manieth row is NULL, whatever its value.
        null_every: Option<usize>,
    }

    impl Made {
        /// The operand, in which what its type does not hold is cut off.
        fn operand(&self, rows: usize) -> ColumnarValue {
            let mut values: Vec<i256> = self.values.iter().copied().cycle().take(rows).collect();
            if let Some((at, odd)) = self.odd.as_ref().filter(|_| rows > 0) {
                values[at.index(rows)] = *odd;
            }
            let nulls = self.null_every.map(|every| (0..rows).map(|row| row % every != 0).collect::<NullBuffer>());
            let array: ArrayRef = if self.is_wide {
                let array = PrimitiveArray::<Decimal256Type>::new(values.into(), nulls);
                Arc::new(array.with_data_type(DataType::Decimal256(76, self.scale)))
            } else {
                let values: Vec<i128> = values.into_iter().map(i256::as_i128).collect();
                let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
                Arc::new(array.with_data_type(DataType::Decimal128(38, self.scale)))
            };
            if self.is_constant && rows > 0 {
                return ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0).expect("a decimal"));
            }
            ColumnarValue::Array(array)
        }

        fn is_small(&self) -> bool {
            let small = i256::from(1_000_000_i64);
            self.odd.is_none()
                && self.values.iter().all(|value| value.checked_abs().is_some_and(|value| value <= small))
        }
    }

    /// Values that are small, of 64 bits or hardly more, and of any number of bits.
    fn value() -> impl Strategy<Value = i256> {
        let edge = (prop_oneof![Just(62), Just(63), Just(64), Just(65), Just(126)], -2_i128..3, any::<bool>());
        prop_oneof![
            any::<i64>().prop_map(i256::from),
            edge.prop_map(|(bits, by, is_negative)| {
                let value = i256::from((1_i128 << bits) + by);
                if is_negative { value.wrapping_neg() } else { value }
            }),
            any::<i128>().prop_map(i256::from),
            (any::<u128>(), any::<i128>()).prop_map(|(low, high)| i256::from_parts(low, high)),
            // One of the words that 64 bits leave.
            (any::<i64>(), 64_u8..255).prop_map(|(value, bit)| i256::from(value) ^ (i256::ONE << bit)),
        ]
    }

    /// Two operands; both have small values often enough.
    fn two() -> impl Strategy<Value = (Made, Made)> {
        let small = || (-1_000_000_i64..=1_000_000).prop_map(i256::from);
        let short = || {
            let edge = prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(i256::from);
            prop_oneof![small(), any::<i64>().prop_map(i256::from), edge]
        };
        let made = |values| {
            (any::<bool>(), 0_i8..20, prop::bool::weighted(0.2), values, prop::option::of(1_usize..5)).prop_map(
                |(is_wide, scale, is_constant, (values, odd), null_every)| Made {
                    is_wide,
                    scale,
                    is_constant,
                    values,
                    odd,
                    null_every,
                },
            )
        };
        let small = || made((prop::collection::vec(small(), 1..8), Just(None)).boxed());
        let other = || {
            let values =
                prop_oneof![3 => prop::collection::vec(short(), 1..8), 1 => prop::collection::vec(value(), 1..3)];
            made((values, prop::option::weighted(0.3, (any::<Index>(), value()))).boxed())
        };
        prop_oneof![(small(), small()), (other(), other())]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn short_numerics_are_calculated_as_checked_ones(
            op in prop_oneof![
                3 => Just(ArithOp::Add),
                3 => Just(ArithOp::Sub),
                3 => Just(ArithOp::Mul),
                1 => Just(ArithOp::Rem),
                1 => Just(ArithOp::Div)
            ],
            (left, right) in two(),
            (is_wide, precision) in (any::<bool>(), prop_oneof![1_u8..77, 36_u8..40]),
            other_scale in prop::option::weighted(0.2, 0_i8..38),
            rows in prop_oneof![0_usize..9, BLOCK - 1..BLOCK * 2 + 2]) {
            let exact = if op == ArithOp::Mul { left.scale + right.scale } else { left.scale.max(right.scale) };
            let scale = other_scale.unwrap_or(exact);
            let result = match is_wide {
                true => DataType::Decimal256(precision, scale),
                false => DataType::Decimal128(precision.min(38), scale),
            };
            let (l, r) = (left.operand(rows), right.operand(rows));
            let short = super::calculate(op, &result, &l, &r);
            let is_array = |operand: &ColumnarValue| matches!(operand, ColumnarValue::Array(_));
            let is_null = |operand: &ColumnarValue| matches!(operand, ColumnarValue::Scalar(value) if value.is_null());
            let shift = i32::from(scale) - i32::from(left.scale.min(right.scale));
            let is_narrow = !(is_wide || left.is_wide || right.is_wide);
            let is_expected = match op {
                ArithOp::Add | ArithOp::Sub if is_narrow && left.scale == right.scale => false,
                ArithOp::Add | ArithOp::Sub => shift <= SHIFT_MAX && scale == exact,
                ArithOp::Mul => scale == exact,
                ArithOp::Div | ArithOp::Rem => false,
            } && (precision >= DIGITS || is_narrow)
                && left.is_small()
                && right.is_small()
                && (is_array(&l) || is_array(&r))
                && !is_null(&l)
                && !is_null(&r);
            assert!(short.is_some() || !is_expected, "small numbers are calculated here");
            if let Some(short) = short {
                let array = |operand: &ColumnarValue| operand.to_array(rows).expect("a decimal");
                let checked = calculate(op, &NUMERIC, &result, &array(&l), &array(&r)).expect("nothing overflows");
                assert_eq!(short.data_type(), checked.data_type());
                assert_eq!(short.null_count(), checked.null_count());
                assert_eq!(&short, &checked);
            }
        }
    }

    /// The largest results there are have as many digits as any result may have.
    #[test]
    fn the_largest_results_fit() {
        let operand = |value: i64, scale: i8| {
            let array = PrimitiveArray::<Decimal256Type>::from_iter_values([i256::from(value)]);
            let array: ArrayRef = Arc::new(array.with_data_type(DataType::Decimal256(76, scale)));
            (ColumnarValue::Array(Arc::clone(&array)), array)
        };
        for (op, (left, l), (right, r), scale) in [
            (ArithOp::Mul, operand(i64::MIN, 0), operand(i64::MIN, 0), 0),
            (ArithOp::Mul, operand(i64::MIN, 0), operand(i64::MAX, 0), 0),
            (ArithOp::Sub, operand(i64::MIN, 0), operand(i64::MAX, 0), 18),
            (ArithOp::Add, operand(i64::MIN, 0), operand(i64::MIN, 0), 18),
        ] {
            for result in [DataType::Decimal128(DIGITS, scale), DataType::Decimal256(DIGITS, scale)] {
                let short = super::calculate(op, &result, &left, &right).expect("operands are short");
                assert_eq!(&short, &calculate(op, &NUMERIC, &result, &l, &r).expect("nothing overflows"));
            }
            let narrower = DataType::Decimal256(DIGITS - 1, scale);
            assert!(super::calculate(op, &narrower, &left, &right).is_none());
        }
    }
}
