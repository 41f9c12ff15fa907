//! About how many different values a column has: a HyperLogLog sketch.
//!
//! Sketches of parts of a column are put together without the column. They are kept in files for good, so both the hash and the form
//! are part of the format.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use twox_hash::XxHash3_64;

/// Bits of a hash that say which register it counts in.
const INDEX_BITS: u32 = 9;
/// Registers, of a byte each: the estimate is off by a twentieth, as a rule.
const REGISTERS: usize = 1 << INDEX_BITS;

/// A sketch of some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distinct {
    /// By register: the most zeros that a hash began with, and one more.
    registers: Box<[u8]>,
}

impl Distinct {
    /// A sketch of values of a type; `None` if values of that type are not counted.
    pub fn of(ty: &DataType) -> Option<Distinct> {
        let is_counted = ty.primitive_width().is_some()
            || matches!(ty, DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_));
        is_counted.then(|| Distinct { registers: vec![0; REGISTERS].into() })
    }

    /// The sketch that was kept as these bytes, if it is one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Distinct> {
        (bytes.len() == REGISTERS).then(|| Distinct { registers: bytes.into() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.registers
    }

    /// Adds the values of an array of the type that the sketch is for; NULL is none.
    pub fn add(&mut self, array: &ArrayRef) {
        let valid = (0..array.len()).filter(|at| array.is_valid(*at));
        match array.data_type() {
            DataType::Utf8View => {
                let texts = array.as_string_view();
                valid.for_each(|at| self.add_bytes(texts.value(at).as_bytes()));
            }
            DataType::BinaryView => {
                let bytes = array.as_binary_view();
                valid.for_each(|at| self.add_bytes(bytes.value(at)));
            }
            DataType::FixedSizeBinary(_) => {
                let bytes = array.as_fixed_size_binary();
                valid.for_each(|at| self.add_bytes(bytes.value(at)));
            }
            ty => {
                let width = ty.primitive_width().expect("a type whose values are counted");
                let data = array.to_data();
                let values = &data.buffers()[0].as_slice()[data.offset() * width..];
                valid.for_each(|at| self.add_bytes(&values[at * width..(at + 1) * width]));
            }
        }
    }

    fn add_bytes(&mut self, value: &[u8]) {
        let hash = XxHash3_64::oneshot(value);
        let register = &mut self.registers[(hash >> (u64::BITS - INDEX_BITS)) as usize];
        // A bit below those that count ends the zeros of every hash.
        let zeros = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros();
        *register = (*register).max(u8::try_from(zeros + 1).expect("few bits"));
    }

    /// Takes the values of another sketch as well.
    pub fn merge(&mut self, other: &Distinct) {
        self.registers.iter_mut().zip(&other.registers).for_each(|(one, other)| *one = (*one).max(*other));
    }

    /// About how many different values there were.
    pub fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let alpha = 0.7213 / (1.0 + 1.079 / registers);
        let sum: f64 = self.registers.iter().map(|zeros| (-f64::from(*zeros)).exp2()).sum();
        let raw = alpha * registers * registers / sum;
        let empty = self.registers.iter().filter(|zeros| **zeros == 0).count();
        // Few values are counted by how many registers have none.
        let estimate = match empty > 0 && raw <= 2.5 * registers {
            true => registers * (registers / empty as f64).ln(),
            false => raw,
        };
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Distinct;
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::sync::Arc;

    proptest! {
        #[test]
        fn an_estimate_is_near(count in 0_i64..60_000, copies in 1_usize..4, step in 1_i64..1_000_000, texts in any::<bool>()) {
            let values = || (0..count).map(|value| value.wrapping_mul(step));
            let array: ArrayRef = match texts {
                true => Arc::new(StringViewArray::from_iter_values(values().map(|value| value.to_string()))),
                false => Arc::new(values().map(Some).chain([None]).collect::<Int64Array>()),
            };
            let mut all = Distinct::of(array.data_type()).expect("it is counted");
            let mut parts = all.clone();
            for _ in 0..copies {
                all.add(&array);
            }
            for start in (0..array.len()).step_by(7_000) {
                let mut part = Distinct::of(array.data_type()).expect("it is counted");
                part.add(&array.slice(start, (array.len() - start).min(7_000)));
                parts.merge(&Distinct::from_bytes(part.bytes()).expect("it was kept"));
            }
            prop_assert_eq!(&parts, &all);
            let (estimate, count) = (all.estimate() as f64, count as f64);
            prop_assert!((estimate - count).abs() <= 0.25 * count + 1.0, "{} of {}", estimate, count);
        }
    }
}
