//! Rows as bytes: the format in which tables are stored and arrangements hold keys and values.
//!
//! The format is arrow-row's, ascending with NULLs first: each column's encoding is self-delimiting and compares with
//! `memcmp` in the order of its values, so a row is the concatenation of its columns, a key is a concatenation of slices
//! of a row, and a prefix of the columns is a prefix of the bytes. Whole batches go through arrow's converter; single
//! rows are read and written here, value by value, because the converter costs most of a microsecond per call.
//!
//! Layout per column: fixed-width types are a validity byte (0 null, 1 valid) and the value, big-endian, with the sign bit
//! flipped (and negative floats inverted); strings and bytes are 0 (null), 1 (empty) or 2 followed by four 8-byte and
//! then 32-byte blocks, each followed by 0xFF if more follow and otherwise by its length; a list is each item's row as
//! such a byte string, ended by 1.
//!
//! # Invariants
//! - The bytes equal arrow-row's for the same values: tables on disk depend on it, and a test compares the two.

use crate::Datum;
use crate::datum::from_array;
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit, i256};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use std::borrow::Cow;

const BLOCK: usize = 32;
const MINI_BLOCK: usize = 8;
const MINI_BLOCKS: usize = 4;
const CONTINUES: u8 = 0xFF;
pub(crate) const NULL: u8 = 0;
const EMPTY: u8 = 1;
const NON_EMPTY: u8 = 2;
/// Bytes of rows that are decoded at a time.
const PART_BYTES: usize = 256 << 20;

/// A column type that no table can have, or a value that does not fit the column it was written to.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The Arrow type has no row encoding of ours.
    #[error("type {0} cannot be stored in a row")]
    UnsupportedType(DataType),
    /// The value is not of the column's type.
    #[error("a value does not match its column's type {0}")]
    TypeMismatch(DataType),
    /// Arrow's converter failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// Converts whole batches of rows of one relation.
#[derive(Debug)]
pub struct RowCodec {
    types: Vec<DataType>,
    converter: RowConverter,
}

impl RowCodec {
    /// A codec for rows with these column types.
    pub fn new(types: &[DataType]) -> Result<RowCodec, RowError> {
        let fields = types.iter().map(|ty| SortField::new(ty.clone())).collect();
        Ok(RowCodec { types: types.to_vec(), converter: RowConverter::new(fields)? })
    }

    /// The column types.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Encodes columns of equal length into rows.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Rows, RowError> {
        Ok(self.converter.convert_columns(columns)?)
    }

    /// Decodes rows into columns.
    ///
    /// # Panics
    /// When the bytes are not rows of these types: they come from our own storage, which checks them.
    pub fn decode<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, RowError> {
        self.decode_in_parts(rows, PART_BYTES)
    }

    /// Decodes rows into columns, about `part_bytes` of them at a time: the converter puts the strings of all rows into one
    /// buffer, in which it counts with 32 bits.
    fn decode_in_parts<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a [u8]>,
        part_bytes: usize,
    ) -> Result<Vec<ArrayRef>, RowError> {
        let parser = self.converter.parser();
        let mut rows = rows.into_iter().peekable();
        let mut part = || {
            let mut bytes = 0;
            let taken = std::iter::from_fn(|| {
                let row = rows.next_if(|_| bytes < part_bytes)?;
                bytes += row.len();
                Some(parser.parse(row))
            });
            let columns = self.converter.convert_rows(taken)?;
            Ok::<_, RowError>((columns, rows.peek().is_none()))
        };
        let (columns, mut is_last) = part()?;
        if is_last {
            return Ok(columns);
        }
        let mut parts = vec![columns];
        while !is_last {
            let columns;
            (columns, is_last) = part()?;
            parts.push(columns);
        }
        // Strings are not copied: an array of views has as many buffers as it wants.
        let whole = |at: usize| concat(&parts.iter().map(|part| part[at].as_ref()).collect::<Vec<_>>());
        Ok((0..self.types.len()).map(whole).collect::<Result<_, _>>()?)
    }
}

/// Reads one value of type `ty` from the front of `row` and moves `row` past it. `scratch` holds the bytes of a string
/// that is stored in several blocks; what is returned may borrow from it.
///
/// # Panics
/// When the bytes are not a row that starts with such a column.
pub fn read_datum<'a>(row: &mut &'a [u8], ty: &DataType, scratch: &'a mut Vec<u8>) -> Datum<'a> {
    match ty {
        DataType::Utf8View => match read_bytes(row, scratch) {
            // Stored strings were valid UTF-8 when they were written; a damaged one must not take the reader down.
            Some(bytes) => Datum::Text(String::from_utf8_lossy(bytes)),
            None => Datum::Null,
        },
        DataType::BinaryView => match read_bytes(row, scratch) {
            Some(bytes) => Datum::Bytes(Cow::Borrowed(bytes)),
            None => Datum::Null,
        },
        DataType::List(item) => read_list(row, item.data_type(), scratch),
        fixed => read_fixed(row, fixed),
    }
}

/// Where the columns of a result are in a stored row.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The types of the stored columns.
    pub types: &'a [DataType],
    /// For each column of the result, the stored column.
    pub projection: &'a [usize],
}

/// Reads the columns of a result, in any order, and hands each on with its place among them. A row is read once, as long as the columns are in the
/// order in which they are stored.
///
/// # Panics
/// As [`read_datum`].
#[inline]
pub fn read_projected<E>(
    row: &[u8],
    Stored { types, projection }: Stored<'_>,
    scratch: &mut Vec<u8>,
    mut take: impl FnMut(usize, &Datum<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut rest, mut at) = (row, 0);
    for (index, &column) in projection.iter().enumerate() {
        if column < at {
            (rest, at) = (row, 0);
        }
        for ty in &types[at..column] {
            skip_datum(&mut rest, ty);
        }
        let mut cursor = rest;
        let datum = read_datum(&mut cursor, &types[column], scratch);
        let left = cursor.len();
        take(index, &datum)?;
        (rest, at) = (&rest[rest.len() - left..], column + 1);
    }
    Ok(())
}

/// Moves `row` past one value of type `ty` and returns the bytes it occupied.
pub fn skip_datum<'a>(row: &mut &'a [u8], ty: &DataType) -> &'a [u8] {
    let start = *row;
    let length = match ty {
        DataType::Utf8View | DataType::BinaryView => skip_blocks(start),
        DataType::List(_) => skip_list(start),
        fixed => 1 + fixed_width(fixed),
    };
    *row = &start[length..];
    &start[..length]
}

/// The bytes of each value of a row of these types.
pub fn split<'a>(row: &'a [u8], types: &[DataType]) -> Vec<&'a [u8]> {
    let mut rest = row;
    types.iter().map(|ty| skip_datum(&mut rest, ty)).collect()
}

/// Appends the encoding of one value of type `ty`.
pub fn write_datum(out: &mut Vec<u8>, ty: &DataType, datum: &Datum<'_>) -> Result<(), RowError> {
    let mismatch = || RowError::TypeMismatch(ty.clone());
    match (ty, datum) {
        (DataType::Utf8View | DataType::BinaryView | DataType::List(_), Datum::Null) => out.push(NULL),
        (DataType::Utf8View, Datum::Text(text)) => write_bytes(out, text.as_bytes()),
        (DataType::BinaryView, Datum::Bytes(bytes)) => write_bytes(out, bytes),
        (DataType::List(item), Datum::List(items)) => {
            let mut row = Vec::new();
            for value in items {
                row.clear();
                write_datum(&mut row, item.data_type(), value)?;
                write_bytes(out, &row);
            }
            out.push(EMPTY);
        }
        (fixed, Datum::Null) => {
            let width = fixed_width_of(fixed).ok_or_else(|| RowError::UnsupportedType(fixed.clone()))?;
            out.resize(out.len() + 1 + width, NULL);
        }
        (DataType::Boolean, Datum::Bool(v)) => out.extend([1, u8::from(*v)]),
        (DataType::Int16, Datum::Int2(v)) => write_fixed(out, flip(v.to_be_bytes())),
        (DataType::Int32, Datum::Int4(v)) => write_fixed(out, flip(v.to_be_bytes())),
        (DataType::Int64, Datum::Int8(v)) => write_fixed(out, flip(v.to_be_bytes())),
        (DataType::UInt32, Datum::Oid(v)) => write_fixed(out, v.to_be_bytes()),
        (DataType::Float32, Datum::Float4(v)) => {
            let bits = v.to_bits().cast_signed();
            write_fixed(out, flip((bits ^ (((bits >> 31).cast_unsigned()) >> 1).cast_signed()).to_be_bytes()));
        }
        (DataType::Float64, Datum::Float8(v)) => {
            let bits = v.to_bits().cast_signed();
            write_fixed(out, flip((bits ^ (((bits >> 63).cast_unsigned()) >> 1).cast_signed()).to_be_bytes()));
        }
        (DataType::Decimal128(_, scale), Datum::Numeric(v, s)) if scale == s => {
            write_fixed(out, flip(v.to_i128().ok_or_else(mismatch)?.to_be_bytes()));
        }
        (DataType::Decimal256(_, scale), Datum::Numeric(v, s)) if scale == s => {
            write_fixed(out, flip(v.to_be_bytes()));
        }
        (DataType::FixedSizeBinary(n), Datum::Bytes(v)) if usize::try_from(*n).is_ok_and(|n| n == v.len()) => {
            out.push(1);
            out.extend_from_slice(v);
        }
        (DataType::Date32, Datum::Date(v)) => write_fixed(out, flip(v.to_be_bytes())),
        (DataType::Time64(TimeUnit::Microsecond), Datum::Time(v))
        | (DataType::Timestamp(TimeUnit::Microsecond, _), Datum::Timestamp(v)) => {
            write_fixed(out, flip(v.to_be_bytes()));
        }
        (DataType::Interval(IntervalUnit::MonthDayNano), Datum::Interval(months, days, us)) => {
            write_fixed(out, flip(months.to_be_bytes()));
            out.extend(flip(days.to_be_bytes()));
            out.extend(flip(us.checked_mul(1_000).ok_or_else(mismatch)?.to_be_bytes()));
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}

/// Appends the encoding of the value at `index` of an array whose type is the column's.
pub fn write_array_value(out: &mut Vec<u8>, array: &dyn Array, index: usize) -> Result<(), RowError> {
    let datum = from_array(array, index).ok_or_else(|| RowError::UnsupportedType(array.data_type().clone()))?;
    write_datum(out, array.data_type(), &datum)
}

/// Appends the encoding of a value that is to become part of a key: floats are normalised first, so that `-0.0` finds
/// `0.0` and every NaN finds every other.
pub fn write_key_datum(out: &mut Vec<u8>, ty: &DataType, datum: &Datum<'_>) -> Result<(), RowError> {
    match datum {
        Datum::Float4(v) => write_datum(out, ty, &Datum::Float4(if v.is_nan() { f32::NAN } else { v + 0.0 })),
        Datum::Float8(v) => write_datum(out, ty, &Datum::Float8(if v.is_nan() { f64::NAN } else { v + 0.0 })),
        other => write_datum(out, ty, other),
    }
}

/// Whether [`skip_datum`] knows where a value of this type ends.
pub fn is_delimited(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8View | DataType::BinaryView | DataType::List(_)) || fixed_width_of(ty).is_some()
}

/// Whether the bytes of a stored value of this type are at once its bytes in a key.
pub fn is_key_exact(ty: &DataType) -> bool {
    !matches!(ty, DataType::Float32 | DataType::Float64 | DataType::List(_))
}

fn read_fixed<'a>(row: &mut &'a [u8], ty: &DataType) -> Datum<'a> {
    let bytes: &'a [u8] = skip_datum(row, ty);
    if bytes[0] == NULL {
        return Datum::Null;
    }
    let value = &bytes[1..];
    match ty {
        DataType::Boolean => Datum::Bool(value[0] != 0),
        DataType::Int16 => Datum::Int2(i16::from_be_bytes(unflip(value))),
        DataType::Int32 => Datum::Int4(i32::from_be_bytes(unflip(value))),
        DataType::Int64 => Datum::Int8(i64::from_be_bytes(unflip(value))),
        DataType::UInt32 => Datum::Oid(u32::from_be_bytes(exact(value))),
        DataType::Float32 => {
            let bits = i32::from_be_bytes(unflip(value));
            Datum::Float4(f32::from_bits((bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()).cast_unsigned()))
        }
        DataType::Float64 => {
            let bits = i64::from_be_bytes(unflip(value));
            Datum::Float8(f64::from_bits((bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()).cast_unsigned()))
        }
        DataType::Decimal128(_, scale) => Datum::Numeric(i256::from_i128(i128::from_be_bytes(unflip(value))), *scale),
        DataType::Decimal256(_, scale) => Datum::Numeric(i256::from_be_bytes(unflip(value)), *scale),
        DataType::Date32 => Datum::Date(i32::from_be_bytes(unflip(value))),
        DataType::Time64(_) => Datum::Time(i64::from_be_bytes(unflip(value))),
        DataType::Timestamp(_, _) => Datum::Timestamp(i64::from_be_bytes(unflip(value))),
        DataType::Interval(_) => Datum::Interval(
            i32::from_be_bytes(unflip(&value[..4])),
            i32::from_be_bytes(unflip(&value[4..8])),
            i64::from_be_bytes(unflip(&value[8..])) / 1_000,
        ),
        _ => Datum::Bytes(Cow::Borrowed(value)),
    }
}

fn read_list<'a>(row: &mut &'a [u8], item: &DataType, scratch: &'a mut Vec<u8>) -> Datum<'a> {
    if row[0] == NULL {
        *row = &row[1..];
        return Datum::Null;
    }
    let mut items = Vec::new();
    loop {
        scratch.clear();
        let step = visit_blocks(row, |block| scratch.extend_from_slice(block));
        *row = &row[step..];
        if step == 1 {
            return Datum::List(items);
        }
        let (mut value, mut nested) = (scratch.as_slice(), Vec::new());
        items.push(read_datum(&mut value, item, &mut nested).into_owned());
    }
}

/// Reads a byte string; short ones borrow from the row itself.
pub(crate) fn read_bytes<'a>(row: &mut &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let bytes: &'a [u8] = row;
    match bytes[0] {
        NON_EMPTY => {
            let first = bytes[1 + MINI_BLOCK];
            if first != CONTINUES {
                *row = &bytes[2 + MINI_BLOCK..];
                return Some(&bytes[1..1 + usize::from(first)]);
            }
            scratch.clear();
            let length = visit_blocks(bytes, |block| scratch.extend_from_slice(block));
            *row = &bytes[length..];
            Some(scratch)
        }
        sentinel => {
            *row = &bytes[1..];
            (sentinel == EMPTY).then_some(&[])
        }
    }
}

/// The bytes that the byte string at the front of `row` occupies.
#[inline]
pub(crate) fn skip_blocks(row: &[u8]) -> usize {
    match row[0] == NON_EMPTY && row[1 + MINI_BLOCK] != CONTINUES {
        true => 2 + MINI_BLOCK,
        false => visit_blocks(row, |_| {}),
    }
}

/// The bytes that the list at the front of `row` occupies.
pub(crate) fn skip_list(row: &[u8]) -> usize {
    let mut length = 0;
    loop {
        let step = skip_blocks(&row[length..]);
        length += step;
        if step == 1 {
            return length;
        }
    }
}

/// Calls `visit` with each block of the byte string at the front of `row`; returns the bytes that it occupies.
fn visit_blocks(row: &[u8], mut visit: impl FnMut(&[u8])) -> usize {
    if row[0] != NON_EMPTY {
        return 1;
    }
    let mut at = 1;
    for block_count in 0.. {
        let size = if block_count < MINI_BLOCKS { MINI_BLOCK } else { BLOCK };
        let sentinel = row[at + size];
        if sentinel != CONTINUES {
            visit(&row[at..at + usize::from(sentinel)]);
            return at + size + 1;
        }
        visit(&row[at..at + size]);
        at += size + 1;
    }
    unreachable!("a byte string has a last block")
}

fn write_bytes(out: &mut Vec<u8>, value: &[u8]) {
    if value.is_empty() {
        out.push(EMPTY);
        return;
    }
    out.push(NON_EMPTY);
    let (mut rest, mut block_count) = (value, 0);
    loop {
        let size = if block_count < MINI_BLOCKS { MINI_BLOCK } else { BLOCK };
        let (block, tail) = rest.split_at(rest.len().min(size));
        out.extend_from_slice(block);
        out.resize(out.len() + size - block.len(), 0);
        if tail.is_empty() {
            out.push(u8::try_from(block.len()).expect("a block is at most 32 bytes"));
            return;
        }
        out.push(CONTINUES);
        (rest, block_count) = (tail, block_count + 1);
    }
}

fn write_fixed<const N: usize>(out: &mut Vec<u8>, value: [u8; N]) {
    out.push(1);
    out.extend(value);
}

fn flip<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes[0] ^= 0x80;
    bytes
}

pub(crate) fn unflip<const N: usize>(bytes: &[u8]) -> [u8; N] {
    flip(exact(bytes))
}

pub(crate) fn exact<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the width follows from the type")
}

fn fixed_width(ty: &DataType) -> usize {
    fixed_width_of(ty).expect("rows hold only types that `RowCodec` accepts")
}

pub(crate) fn fixed_width_of(ty: &DataType) -> Option<usize> {
    Some(match ty {
        DataType::Boolean | DataType::UInt8 => 1,
        DataType::Int16 | DataType::UInt16 => 2,
        DataType::Int32 | DataType::UInt32 | DataType::Float32 | DataType::Date32 => 4,
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Time64(_) | DataType::Timestamp(_, _) => 8,
        DataType::Decimal128(..) | DataType::Interval(IntervalUnit::MonthDayNano) => 16,
        DataType::Decimal256(..) => 32,
        DataType::FixedSizeBinary(n) => usize::try_from(*n).ok()?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{PART_BYTES, RowCodec, from_array, is_key_exact, read_datum, skip_datum, write_array_value};
    use crate::types::{NumericDisplay, PgType};
    use arrow::array::{
        ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array,
        Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringViewArray, UInt32Array,
    };
    use arrow::datatypes::{Int32Type, IntervalMonthDayNano};
    use proptest::prelude::{Strategy, any, proptest};
    use std::sync::Arc;

    fn check(column: ArrayRef) {
        let codec = RowCodec::new(&[column.data_type().clone()]).expect("supported type");
        let rows = codec.encode(&[Arc::clone(&column)]).expect("encodes");
        for index in 0..column.len() {
            let mut ours = Vec::new();
            write_array_value(&mut ours, column.as_ref(), index).expect("writes");
            assert_eq!(ours.as_slice(), rows.row(index).as_ref(), "{:?} at {index}", column.data_type());
            let (mut row, mut scratch) = (ours.as_slice(), Vec::new());
            let read = read_datum(&mut row, column.data_type(), &mut scratch).into_owned();
            assert!(row.is_empty());
            assert_eq!(Some(read), from_array(column.as_ref(), index));
            let mut row = ours.as_slice();
            assert_eq!(skip_datum(&mut row, column.data_type()), ours.as_slice());
        }
        // One row at a time, some, and all.
        for part_bytes in [1, 30, PART_BYTES] {
            let bytes = (0..column.len()).map(|i| rows.row(i).data());
            let decoded = codec.decode_in_parts(bytes, part_bytes).expect("decodes");
            assert_eq!(&decoded[0], &column, "{part_bytes} at a time");
        }
    }

    #[test]
    fn bytes_equal_the_converters() {
        check(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])));
        check(Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(-1), Some(7)])));
        check(Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(-1), Some(7)])));
        check(Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(-1)])));
        check(Arc::new(UInt32Array::from(vec![Some(u32::MAX), None, Some(0)])));
        check(Arc::new(Float64Array::from(vec![Some(-1.5), None, Some(f64::INFINITY), Some(0.0)])));
        check(Arc::new(Date32Array::from(vec![Some(-3), None])));
        let decimals = Decimal128Array::from(vec![Some(-12345), None]).with_precision_and_scale(20, 3).expect("fits");
        check(Arc::new(decimals));
        let uuids = vec![Some([7_u8; 16]), None];
        check(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids.into_iter(), 16).expect("sized")));
        check(Arc::new(BinaryViewArray::from_iter([Some(b"".as_slice()), None, Some(&[0xFF; 40])])));
        let interval = IntervalMonthDayNano::new(-1, 2, -3_000);
        check(Arc::new(IntervalMonthDayNanoArray::from(vec![Some(interval), None])));
        check(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), None, Some(-3)]),
            None,
            Some(vec![]),
        ])));
    }

    #[test]
    fn floats_and_lists_need_normalising() {
        assert!(is_key_exact(&PgType::Numeric(NumericDisplay::Trimmed).data_type()));
        assert!(!is_key_exact(&PgType::Float8.data_type()));
    }

    proptest! {
        #[test]
        fn strings_of_any_length(values in proptest::collection::vec(proptest::option::of(
            any::<String>().prop_map(|s| s.chars().take(80).collect::<String>())), 1..20)) {
            check(Arc::new(StringViewArray::from(values)));
        }
    }
}
