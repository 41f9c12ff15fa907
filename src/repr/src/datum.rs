//! One decoded value, borrowed where its bytes allow it.
//!
//! A `Datum` is what the text and binary codecs read and write. It carries Arrow's representation (days, microseconds,
//! unscaled decimals), not Postgres's; `pgrepr` translates.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};
use std::borrow::Cow;
use std::sync::Arc;

/// One value. Numbers of days and microseconds count from the Unix epoch.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum<'a> {
    /// SQL NULL.
    Null,
    /// boolean
    Bool(bool),
    /// int2
    Int2(i16),
    /// int4
    Int4(i32),
    /// int8
    Int8(i64),
    /// oid and its aliases
    Oid(u32),
    /// An unsigned 64-bit integer, as some functions of the ad hoc engine return; printed as numeric.
    UInt8(u64),
    /// float4
    Float4(f32),
    /// float8
    Float8(f64),
    /// numeric: an unscaled integer and the number of digits after the point.
    Numeric(i256, i8),
    /// text and everything stored as text (varchar, bpchar, name, json, jsonb)
    Text(Cow<'a, str>),
    /// bytea, and the 16 bytes of a uuid
    Bytes(Cow<'a, [u8]>),
    /// date: days since 1970-01-01
    Date(i32),
    /// time: microseconds since midnight
    Time(i64),
    /// timestamp and timestamptz: microseconds since 1970-01-01 00:00 (UTC)
    Timestamp(i64),
    /// interval: months, days, microseconds
    Interval(i32, i32, i64),
    /// A one-dimensional array of values of one type.
    List(Vec<Datum<'a>>),
    /// The fields of a record, with their names and types.
    Record(Vec<(FieldRef, Datum<'a>)>),
}

impl Datum<'_> {
    /// About how many bytes the value has besides its own size.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Datum::Text(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            Datum::List(items) => items.iter().map(|item| size_of::<Datum<'_>>() + item.heap_bytes()).sum(),
            _ => 0,
        }
    }

    /// Detaches the value from the bytes it borrows.
    pub fn into_owned(self) -> Datum<'static> {
        match self {
            Datum::Null => Datum::Null,
            Datum::Bool(v) => Datum::Bool(v),
            Datum::Int2(v) => Datum::Int2(v),
            Datum::Int4(v) => Datum::Int4(v),
            Datum::Int8(v) => Datum::Int8(v),
            Datum::Oid(v) => Datum::Oid(v),
            Datum::UInt8(v) => Datum::UInt8(v),
            Datum::Float4(v) => Datum::Float4(v),
            Datum::Float8(v) => Datum::Float8(v),
            Datum::Numeric(v, s) => Datum::Numeric(v, s),
            Datum::Text(v) => Datum::Text(Cow::Owned(v.into_owned())),
            Datum::Bytes(v) => Datum::Bytes(Cow::Owned(v.into_owned())),
            Datum::Date(v) => Datum::Date(v),
            Datum::Time(v) => Datum::Time(v),
            Datum::Timestamp(v) => Datum::Timestamp(v),
            Datum::Interval(m, d, u) => Datum::Interval(m, d, u),
            Datum::List(v) => Datum::List(v.into_iter().map(Datum::into_owned).collect()),
            Datum::Record(v) => {
                Datum::Record(v.into_iter().map(|(field, value)| (field, value.into_owned())).collect())
            }
        }
    }

    /// True for SQL NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}

/// The value at `row` of an Arrow array.
///
/// Covers every Arrow type that planning can produce, including those that no table column has (views, unsigned
/// integers, nanosecond times); an unknown type is [`Datum::Null`] only for the Arrow null type and otherwise `None`.
pub fn from_array(array: &dyn Array, row: usize) -> Option<Datum<'_>> {
    if array.is_null(row) {
        return Some(Datum::Null);
    }
    Some(match array.data_type() {
        DataType::Null => Datum::Null,
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Datum::Int2(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Datum::Int2(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => Datum::Int4(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Datum::Int8(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Datum::Int2(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Datum::Int4(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Datum::Oid(array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => Datum::UInt8(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => Datum::Float4(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Datum::Float8(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            Datum::Numeric(i256::from_i128(array.as_primitive::<Decimal128Type>().value(row)), *scale)
        }
        DataType::Decimal256(_, scale) => Datum::Numeric(array.as_primitive::<Decimal256Type>().value(row), *scale),
        DataType::Utf8 => Datum::Text(Cow::Borrowed(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => Datum::Text(Cow::Borrowed(array.as_string::<i64>().value(row))),
        DataType::Utf8View => Datum::Text(Cow::Borrowed(array.as_string_view().value(row))),
        DataType::Binary => Datum::Bytes(Cow::Borrowed(array.as_binary::<i32>().value(row))),
        DataType::LargeBinary => Datum::Bytes(Cow::Borrowed(array.as_binary::<i64>().value(row))),
        DataType::BinaryView => Datum::Bytes(Cow::Borrowed(array.as_binary_view().value(row))),
        DataType::FixedSizeBinary(_) => Datum::Bytes(Cow::Borrowed(array.as_fixed_size_binary().value(row))),
        DataType::Date32 => Datum::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(TimeUnit::Nanosecond) => {
            Datum::Time(array.as_primitive::<Time64NanosecondType>().value(row) / 1_000)
        }
        DataType::Time64(_) => Datum::Time(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(unit, _) => Datum::Timestamp(timestamp_us(array, row, *unit)),
        DataType::Interval(_) => {
            let v = array.as_primitive_opt::<IntervalMonthDayNanoType>()?.value(row);
            Datum::Interval(v.months, v.days, v.nanoseconds / 1_000)
        }
        DataType::List(_) => list(array.as_list::<i32>().value(row).as_ref())?,
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row).as_ref())?,
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let typed = columns.map(|(field, column)| {
                let value = from_array(column.as_ref(), row)?;
                Some((Arc::clone(field), value))
            });
            Datum::Record(typed.collect::<Option<Vec<_>>>()?)
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            from_array(dictionary.values().as_ref(), key)?.into_owned()
        }
        _ => return None,
    })
}

fn list(items: &dyn Array) -> Option<Datum<'static>> {
    (0..items.len()).map(|i| from_array(items, i).map(Datum::into_owned)).collect::<Option<Vec<_>>>().map(Datum::List)
}

fn timestamp_us(array: &dyn Array, row: usize, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row).saturating_mul(1_000_000),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row).saturating_mul(1_000),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1_000),
    }
}
