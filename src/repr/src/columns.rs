//! Some of a row's columns: where their bytes are, and their values as arrays.
//!
//! A row is a concatenation, so what stands before a column is passed by its length and not read. Taking few columns of a wide
//! row costs a fraction of decoding it, and arrays are filled column by column, without a decision per value.

use crate::row::{NULL, RowCodec, RowError, exact, fixed_width_of, read_bytes, skip_blocks, skip_list, unflip};
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewArray, BinaryViewBuilder, BooleanArray, NullBufferBuilder, PrimitiveArray,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt32Type, i256,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// What is to be passed in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// So many bytes.
    Bytes(usize),
    /// A string of blocks.
    Blocks,
    /// Several, until an empty one.
    List,
}

impl Extent {
    fn of(ty: &DataType) -> Option<Extent> {
        match ty {
            DataType::Utf8View | DataType::BinaryView => Some(Extent::Blocks),
            DataType::List(_) => Some(Extent::List),
            fixed => fixed_width_of(fixed).map(|width| Extent::Bytes(1 + width)),
        }
    }

    #[inline]
    fn length(self, row: &[u8]) -> usize {
        match self {
            Extent::Bytes(count) => count,
            Extent::Blocks => skip_blocks(row),
            Extent::List => skip_list(row),
        }
    }
}

/// Cuts columns out of rows.
#[derive(Debug, Default)]
pub struct Cutter {
    /// Where the first columns are, as long as nothing before them differs in length from row to row.
    fixed: Vec<Range<usize>>,
    /// Where the others begin.
    start: usize,
    /// What comes one after the other from there on, and whether it is cut out.
    moves: Vec<(Extent, bool)>,
    columns: BTreeSet<usize>,
}

impl Cutter {
    /// Cuts `columns` out of rows with these types.
    ///
    /// # Errors
    /// When it cannot be told where a value ends that stands before one of the columns.
    pub fn new(types: &[DataType], columns: BTreeSet<usize>) -> Result<Cutter, RowError> {
        let (mut fixed, mut start) = (Vec::new(), 0);
        let mut moves: Vec<(Extent, bool)> = Vec::new();
        let reach = columns.last().map_or(0, |last| last + 1);
        for (at, ty) in types[..reach].iter().enumerate() {
            let extent = Extent::of(ty).ok_or_else(|| RowError::UnsupportedType(ty.clone()))?;
            let is_cut = columns.contains(&at);
            if let (Extent::Bytes(count), true) = (extent, moves.is_empty()) {
                fixed.extend(is_cut.then_some(start..start + count));
                start += count;
                continue;
            }
            match (moves.last_mut(), extent) {
                (Some((Extent::Bytes(before), false)), Extent::Bytes(count)) if !is_cut => *before += count,
                _ => moves.push((extent, is_cut)),
            }
        }
        Ok(Cutter { fixed, start, moves, columns })
    }

    /// The number of columns that are cut out.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Which cut holds a column.
    pub fn place(&self, column: usize) -> usize {
        self.columns.range(..column).count()
    }

    /// Appends a row's cuts, in the order of the columns.
    ///
    /// # Panics
    /// When the bytes are no row of these types.
    #[inline]
    pub fn cut<'a>(&self, row: &'a [u8], cuts: &mut Vec<&'a [u8]>) {
        cuts.extend(self.fixed.iter().map(|range| &row[range.clone()]));
        let mut rest = &row[self.start..];
        for (extent, is_cut) in &self.moves {
            let (passed, behind) = rest.split_at(extent.length(rest));
            if *is_cut {
                cuts.push(passed);
            }
            rest = behind;
        }
    }
}

/// Decodes some columns of rows.
#[derive(Debug)]
pub struct ColumnDecoder {
    types: Vec<DataType>,
    how: How,
}

#[derive(Debug)]
enum How {
    /// Column by column; those that are not simple have a codec of their own.
    Columns(Cutter, Vec<Option<RowCodec>>),
    /// Whole rows, of which these columns are taken.
    Rows(RowCodec, Vec<usize>),
}

impl ColumnDecoder {
    /// Decodes `columns`, in their order, of rows with these types.
    ///
    /// # Errors
    /// When no row has such types.
    pub fn new(types: &[DataType], columns: BTreeSet<usize>) -> Result<ColumnDecoder, RowError> {
        let wanted: Vec<DataType> = columns.iter().map(|column| types[*column].clone()).collect();
        let how = match Cutter::new(types, columns.clone()) {
            Ok(cutter) => {
                let codec = |ty: &DataType| (!is_simple(ty)).then(|| RowCodec::new(std::slice::from_ref(ty)));
                let codecs = wanted.iter().map(|ty| codec(ty).transpose()).collect::<Result<_, _>>()?;
                How::Columns(cutter, codecs)
            }
            Err(_) => How::Rows(RowCodec::new(types)?, columns.into_iter().collect()),
        };
        Ok(ColumnDecoder { types: wanted, how })
    }

    /// Decodes rows.
    ///
    /// # Panics
    /// When the bytes are no rows of these types.
    pub fn decode<'a>(&self, rows: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, RowError> {
        match &self.how {
            How::Rows(codec, columns) => {
                let all = codec.decode(rows)?;
                Ok(columns.iter().map(|column| Arc::clone(&all[*column])).collect())
            }
            How::Columns(cutter, codecs) => {
                let width = cutter.len();
                let mut cuts = Vec::with_capacity(rows.len() * width);
                rows.for_each(|row| cutter.cut(row, &mut cuts));
                let arrays = self.types.iter().zip(codecs).enumerate().map(|(column, (ty, codec))| {
                    let column = cuts.iter().skip(column).step_by(width).copied();
                    match codec {
                        None => array(ty, column),
                        Some(codec) => Ok(codec.decode(column)?.swap_remove(0)),
                    }
                });
                arrays.collect()
            }
        }
    }
}

/// The integers that the cuts of one column hold: the value of an integer, a decimal's in units of its last digit; false if one is
/// NULL, or does not fit.
///
/// # Panics
/// When the cuts are none of integers of at most 128 bits.
#[inline]
pub fn integers<'a, N: TryFrom<i128> + Default>(cuts: impl Iterator<Item = &'a [u8]>, integers: &mut [N]) -> bool {
    let mut cuts = cuts.zip(integers).peekable();
    let Some((first, _)) = cuts.peek() else { return true };
    match first.len() {
        17 => each_integer(cuts, |bytes| i128::from_be_bytes(unflip(bytes))),
        9 => each_integer(cuts, |bytes| i64::from_be_bytes(unflip(bytes)).into()),
        5 => each_integer(cuts, |bytes| i32::from_be_bytes(unflip(bytes)).into()),
        _ => each_integer(cuts, |bytes| i16::from_be_bytes(unflip(bytes)).into()),
    }
}

#[inline]
fn each_integer<'a, 'o, N: TryFrom<i128> + Default + 'o>(
    cuts: impl Iterator<Item = (&'a [u8], &'o mut N)>,
    value: impl Fn(&[u8]) -> i128,
) -> bool {
    cuts.fold(true, |all, (cut, integer)| {
        let value = N::try_from(value(&cut[1..]));
        let fits = value.is_ok() && cut[0] != NULL;
        *integer = value.unwrap_or_default();
        all & fits
    })
}

/// Whether [`array`] knows the type.
fn is_simple(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::Float64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, _)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Utf8View
            | DataType::BinaryView
    )
}

/// The values of one column.
fn array<'a>(ty: &DataType, cuts: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<ArrayRef, RowError> {
    Ok(match ty {
        DataType::Boolean => {
            let values: BooleanArray = cuts.map(|cut| (cut[0] != NULL).then(|| cut[1] != 0)).collect();
            Arc::new(values)
        }
        DataType::Int16 => fixed::<Int16Type>(ty, cuts, |bytes| i16::from_be_bytes(unflip(bytes))),
        DataType::Int32 => fixed::<Int32Type>(ty, cuts, |bytes| i32::from_be_bytes(unflip(bytes))),
        DataType::Int64 => fixed::<Int64Type>(ty, cuts, |bytes| i64::from_be_bytes(unflip(bytes))),
        DataType::UInt32 => fixed::<UInt32Type>(ty, cuts, |bytes| u32::from_be_bytes(exact(bytes))),
        DataType::Float64 => fixed::<Float64Type>(ty, cuts, |bytes| {
            let bits = i64::from_be_bytes(unflip(bytes));
            f64::from_bits((bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()).cast_unsigned())
        }),
        DataType::Date32 => fixed::<Date32Type>(ty, cuts, |bytes| i32::from_be_bytes(unflip(bytes))),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            fixed::<TimestampMicrosecondType>(ty, cuts, |bytes| i64::from_be_bytes(unflip(bytes)))
        }
        DataType::Decimal128(..) => fixed::<Decimal128Type>(ty, cuts, |bytes| i128::from_be_bytes(unflip(bytes))),
        DataType::Decimal256(..) => fixed::<Decimal256Type>(ty, cuts, |bytes| i256::from_be_bytes(unflip(bytes))),
        DataType::Utf8View => Arc::new(strings(cuts).to_string_view()?),
        DataType::BinaryView => Arc::new(strings(cuts)),
        other => return Err(RowError::UnsupportedType(other.clone())),
    })
}

fn fixed<'a, T: ArrowPrimitiveType>(
    ty: &DataType,
    cuts: impl ExactSizeIterator<Item = &'a [u8]>,
    read: impl Fn(&[u8]) -> T::Native,
) -> ArrayRef {
    let mut values = Vec::with_capacity(cuts.len());
    let mut nulls = NullBufferBuilder::new(cuts.len());
    for cut in cuts {
        if cut[0] == NULL {
            nulls.append_null();
            values.push(T::Native::default());
        } else {
            nulls.append_non_null();
            values.push(read(&cut[1..]));
        }
    }
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls.finish()).with_data_type(ty.clone()))
}

fn strings<'a>(cuts: impl ExactSizeIterator<Item = &'a [u8]>) -> BinaryViewArray {
    let mut builder = BinaryViewBuilder::with_capacity(cuts.len());
    let mut scratch = Vec::new();
    for mut cut in cuts {
        builder.append_option(read_bytes(&mut cut, &mut scratch));
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::{ColumnDecoder, Cutter};
    use crate::row::RowCodec;
    use arrow::array::{
        ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float64Array,
        Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringViewArray,
        TimestampMicrosecondArray, UInt32Array,
    };
    use arrow::datatypes::{DataType, Int32Type, IntervalMonthDayNano, i256};
    use proptest::prelude::{any, prop, proptest};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn columns() -> Vec<ArrayRef> {
        let long = "x".repeat(70);
        let interval = IntervalMonthDayNano::new(-1, 2, -3_000);
        let wide = Decimal256Array::from(vec![Some(i256::MINUS_ONE), None, Some(i256::from_i128(7))]);
        let narrow = Decimal128Array::from(vec![Some(-12_345), Some(0), None]).with_precision_and_scale(15, 2);
        vec![
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(3)])),
            Arc::new(StringViewArray::from(vec![Some(""), None, Some(long.as_str())])),
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(-1)])),
            Arc::new(Int64Array::from(vec![None, Some(i64::MAX), Some(-1)])),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
                Some(vec![Some(1), None]),
                None,
                Some(vec![]),
            ])),
            Arc::new(UInt32Array::from(vec![Some(u32::MAX), None, Some(0)])),
            Arc::new(Float64Array::from(vec![Some(-1.5), None, Some(f64::INFINITY)])),
            Arc::new(Date32Array::from(vec![Some(-3), None, Some(9)])),
            Arc::new(IntervalMonthDayNanoArray::from(vec![Some(interval), None, Some(interval)])),
            Arc::new(TimestampMicrosecondArray::from(vec![Some(-3), None, Some(9)]).with_timezone("+00:00")),
            Arc::new(narrow.expect("fits")),
            Arc::new(wide.with_precision_and_scale(76, 20).expect("fits")),
            Arc::new(BinaryViewArray::from_iter([Some(b"\xFF\0".as_slice()), None, Some(&[9; 40])])),
        ]
    }

    proptest! {
        #[test]
        fn columns_are_what_whole_rows_have(chosen in prop::collection::vec(any::<bool>(), 14)) {
            let all = columns();
            let types: Vec<DataType> = all.iter().map(|column| column.data_type().clone()).collect();
            let rows = RowCodec::new(&types).expect("supported").encode(&all).expect("encodes");
            let wanted: BTreeSet<usize> = (0..all.len()).filter(|at| chosen[*at]).collect();
            let decoder = ColumnDecoder::new(&types, wanted.clone()).expect("supported");
            let decoded = decoder.decode((0..3).map(|row| rows.row(row).data())).expect("decodes");
            let expected: Vec<ArrayRef> = wanted.iter().map(|at| Arc::clone(&all[*at])).collect();
            assert_eq!(decoded, expected);
            let cutter = Cutter::new(&types, wanted.clone()).expect("supported");
            for row in 0..3 {
                let mut cuts = Vec::new();
                let parts: Vec<Vec<u8>> = wanted.iter().map(|at| {
                    let alone = RowCodec::new(&types[*at..=*at]).expect("supported").encode(&all[*at..=*at]).expect("encodes");
                    alone.row(row).data().to_vec()
                }).collect();
                let bytes = rows.row(row);
                cutter.cut(bytes.data(), &mut cuts);
                assert_eq!(cuts, parts);
            }
        }
    }
}
