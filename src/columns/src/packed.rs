//! A decoded chunk as it is kept: numerics of at most 38 digits as the narrowest integers that hold all of them, texts that are few as
//! numbers of their values.
//!
//! What is computed with is wide: 16 bytes a numeric and 16 a text. To keep that would take most of the memory, and the first query after a
//! start most of its time, for pages that the system has to provide; and to widen what is kept takes less than to read what is wide.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, GenericByteViewArray, PrimitiveArray, UInt8Array, UInt32Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{FilterPredicate, take};
use arrow::datatypes::{
    BinaryViewType, ByteViewType, DataType, Decimal64Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    StringViewType,
};
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::Arc;

/// A chunk.
#[derive(Clone, Debug)]
pub(crate) enum Packed {
    /// As it was decoded.
    Plain(ArrayRef),
    /// Decimals of this type, in units of their last digit, of 8 to 64 bits.
    Narrow(ArrayRef, DataType),
    /// By row: which of these values it has.
    Coded(UInt8Array, ArrayRef),
}

impl Packed {
    /// Of values of a type; decimals may be of 64 bits.
    pub(crate) fn of(array: &ArrayRef, ty: &DataType) -> Packed {
        let packed = match array.data_type() {
            DataType::Decimal64(..) => {
                let decimals = array.as_primitive::<Decimal64Type>();
                Some(narrow(decimals.values().iter().copied(), decimals.nulls(), ty))
            }
            DataType::Decimal128(..) => {
                let decimals = array.as_primitive::<Decimal128Type>();
                let values = decimals.values().iter();
                // What is in the place of a NULL counts as well: as a rule that is zero, or another value.
                let outside = values.clone().fold(0, |outside, value| outside | (high(*value) ^ (low(*value) >> 63)));
                (outside == 0).then(|| narrow(values.map(|value| low(*value)), decimals.nulls(), ty))
            }
            DataType::Utf8View => coded::<StringViewType>(array.as_byte_view()),
            DataType::BinaryView => coded::<BinaryViewType>(array.as_byte_view()),
            _ => None,
        };
        packed.unwrap_or_else(|| Packed::Plain(Arc::clone(array)))
    }

    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Packed::Plain(array) | Packed::Narrow(array, _) => array.get_array_memory_size(),
            Packed::Coded(codes, values) => codes.get_array_memory_size() + values.get_array_memory_size(),
        }
    }

    /// The rows that are picked of these, or all of these, as they were.
    pub(crate) fn array(&self, rows: Range<usize>, picked: Option<&FilterPredicate>) -> Result<ArrayRef, ArrowError> {
        let pick = |array: &ArrayRef| match picked {
            Some(picked) => picked.filter(&array.slice(rows.start, rows.len())),
            None => Ok(array.slice(rows.start, rows.len())),
        };
        match self {
            Packed::Plain(array) => pick(array),
            Packed::Narrow(array, ty) => {
                let array = pick(array)?;
                Ok(match array.data_type() {
                    DataType::Int8 => wide(array.as_primitive::<Int8Type>(), ty),
                    DataType::Int16 => wide(array.as_primitive::<Int16Type>(), ty),
                    DataType::Int32 => wide(array.as_primitive::<Int32Type>(), ty),
                    _ => wide(array.as_primitive::<Int64Type>(), ty),
                })
            }
            Packed::Coded(codes, values) => {
                let codes = codes.slice(rows.start, rows.len());
                match picked {
                    Some(picked) => take(values, &picked.filter(&codes)?, None),
                    None => take(values, &codes, None),
                }
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the other half is looked at as well")]
fn low(value: i128) -> i64 {
    value as i64
}

#[allow(clippy::cast_possible_truncation, reason = "half of the bits are left")]
fn high(value: i128) -> i64 {
    (value >> 64) as i64
}

/// In as few bytes each as hold them all.
#[allow(clippy::cast_possible_truncation, reason = "there are no more bits")]
fn narrow(values: impl Iterator<Item = i64> + Clone, nulls: Option<&NullBuffer>, ty: &DataType) -> Packed {
    fn array<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>, nulls: Option<&NullBuffer>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(values.collect::<Vec<_>>().into(), nulls.cloned()))
    }
    let bits = i64::BITS - values.clone().fold(0, |bits, value| bits | (value ^ (value >> 63))).leading_zeros();
    let array = match bits {
        0..i8::BITS => array::<Int8Type>(values.map(|value| value as i8), nulls),
        i8::BITS..i16::BITS => array::<Int16Type>(values.map(|value| value as i16), nulls),
        i16::BITS..i32::BITS => array::<Int32Type>(values.map(|value| value as i32), nulls),
        _ => array::<Int64Type>(values, nulls),
    };
    Packed::Narrow(array, ty.clone())
}

/// Decimals of a type of 128 bits, of integers in units of their last digit.
pub(crate) fn wide<T: ArrowPrimitiveType<Native: Into<i128>>>(narrow: &PrimitiveArray<T>, ty: &DataType) -> ArrayRef {
    let values: Vec<i128> = narrow.values().iter().map(|value| (*value).into()).collect();
    Arc::new(PrimitiveArray::<Decimal128Type>::new(values.into(), narrow.nulls().cloned()).with_data_type(ty.clone()))
}

/// Slots of the table of values: a power of two, much more than there are codes.
const SLOTS: usize = 1 << 10;
/// No view: it would be of a text longer than any.
const NONE: u128 = u128::MAX;

/// `None` if there are more views than codes: a text that is not short and stands in several places counts several times.
fn coded<T: ByteViewType>(texts: &GenericByteViewArray<T>) -> Option<Packed> {
    // A view says where a text is, or is the text if that is short: the same views are the same text.
    let (mut seen, mut code_of) = ([NONE; SLOTS], [0; SLOTS]);
    let (mut firsts, mut codes) = (Vec::new(), vec![0; texts.len()]);
    for ((row, view), code) in texts.views().iter().enumerate().zip(&mut codes) {
        let mut slot = slot_of(*view);
        while seen[slot] != *view {
            if seen[slot] == NONE {
                (seen[slot], code_of[slot]) = (*view, u8::try_from(firsts.len()).ok()?);
                firsts.push(u32::try_from(row).ok()?);
            } else {
                slot = (slot + 1) % SLOTS;
            }
        }
        *code = code_of[slot];
    }
    if firsts.is_empty() {
        return None;
    }
    // Of NULL the codes tell: what is in its place may be another text.
    let values = take(texts, &UInt32Array::from(firsts), None).ok()?;
    let (views, buffers, _) = values.as_byte_view::<T>().clone().into_parts();
    let values = GenericByteViewArray::<T>::try_new(views, buffers, None).ok()?;
    Some(Packed::Coded(UInt8Array::new(codes.into(), texts.nulls().cloned()), Arc::new(values)))
}

fn slot_of(view: u128) -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "both halves are looked at")]
    let mixed = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::Packed;
    use arrow::array::{
        Array, ArrayRef, BinaryViewArray, BooleanArray, Decimal64Array, Decimal128Array, StringViewArray,
    };
    use arrow::compute::{FilterBuilder, filter};
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
    use std::fmt::Debug;
    use std::sync::Arc;

    /// Whether it is kept smaller than it was.
    fn check(array: &ArrayRef, mask: &[bool]) -> bool {
        let packed = Packed::of(array, array.data_type());
        assert_eq!(&packed.array(0..array.len(), None).expect("fits"), array);
        let mask = BooleanArray::from(mask.to_vec());
        let picked = FilterBuilder::new(&mask).optimize().build();
        let found = packed.array(0..array.len(), Some(&picked)).expect("fits");
        assert_eq!(found.to_data(), filter(array, &mask).expect("fits").to_data());
        let (start, some) = (array.len() / 3, array.len() / 2);
        let found = packed.array(start..start + some, None).expect("fits");
        assert_eq!(&found, &array.slice(start, some));
        assert_eq!(found.data_type(), array.data_type());
        !matches!(packed, Packed::Plain(_))
    }

    fn rows<T: Clone + Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<(Option<T>, bool)>> {
        prop::collection::vec((prop_oneof![1 => Just(None), 5 => value.prop_map(Some)], any::<bool>()), 1..600)
    }

    proptest! {
        #[test]
        fn decimals_come_back_as_they_were(rows in (0_u32..126).prop_flat_map(|bits| {
            rows(-(1_i128 << bits).saturating_sub(1)..(1_i128 << bits))
        })) {
            let (values, mask): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
            let short: Result<Vec<Option<i64>>, _> = values.iter().map(|value| value.map(i64::try_from).transpose()).collect();
            let array = Decimal128Array::from(values).with_precision_and_scale(38, 4).expect("a type");
            let array: ArrayRef = Arc::new(array);
            prop_assert_eq!(check(&array, &mask), short.is_ok());
            // As they are decoded.
            if let Ok(short) = short.map(Decimal64Array::from) {
                let packed = Packed::of(&(Arc::new(short) as ArrayRef), array.data_type());
                prop_assert_eq!(&packed.array(0..array.len(), None).expect("fits"), &array);
            }
        }

        #[test]
        fn texts_come_back_as_they_were(rows in (1_u32..400, 0_usize..20).prop_flat_map(|(count, length)| {
            rows((0..count).prop_map(move |at| format!("{at}{}", "x".repeat(length))))
        })) {
            let (texts, mask): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
            let array: ArrayRef = Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>());
            check(&array, &mask);
            let bytes = texts.iter().map(|text| text.as_ref().map(String::as_bytes));
            check(&(Arc::new(bytes.collect::<BinaryViewArray>()) as ArrayRef), &mask);
        }
    }

    #[test]
    fn few_texts_are_coded_and_many_are_not() {
        let array = |count: usize| {
            let texts = (0..1_000).map(|at| (at % 9 != 0).then(|| format!("text {}", at % count)));
            Arc::new(texts.collect::<StringViewArray>()) as ArrayRef
        };
        // NULL has a view as well.
        assert!(check(&array(255), &[true; 1_000]));
        assert!(!check(&array(257), &[true; 1_000]));
        // Long ones are the same where they are kept once.
        let one: ArrayRef = Arc::new(StringViewArray::from(vec!["a text that is not short"; 2]));
        let once = arrow::compute::take(&one, &arrow::array::UInt32Array::from(vec![0; 10_000]), None).expect("fits");
        assert!(check(&once, &[false; 10_000]));
        assert!(Packed::of(&once, once.data_type()).bytes() < once.get_array_memory_size() / 4);
        assert!(!check(&(Arc::new(StringViewArray::from(Vec::<&str>::new())) as ArrayRef), &[]));
    }
}
