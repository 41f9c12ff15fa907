//! Between decoded values and Arrow: a column from datums, and a scalar from one.

use crate::error::SqlError;
use arrow::array::{
    Array, ArrayRef, BinaryViewBuilder, BooleanBuilder, Decimal128Builder, Decimal256Builder, FixedSizeBinaryBuilder,
    ListArray, NullArray, PrimitiveArray, StringViewBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, UInt32Type,
};
use datafusion::common::ScalarValue;
use pgrepr::numeric::{fits, rescale};
use repr::Datum;
use repr::sqlstate::SqlState;
use std::sync::Arc;

/// A column of `data_type` from values of the matching kind.
#[expect(clippy::too_many_lines, reason = "a line for each type")]
pub fn to_array(values: &[Datum<'_>], data_type: &DataType) -> Result<ArrayRef, SqlError> {
    Ok(match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(values.len());
            for value in values {
                match value {
                    Datum::Bool(v) => builder.append_value(*v),
                    other => null_only(other, data_type).map(|()| builder.append_null())?,
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Int16 => primitive::<Int16Type>(values, data_type, |v| match v {
            Datum::Int2(v) => Some(*v),
            _ => None,
        })?,
        DataType::Int32 => primitive::<Int32Type>(values, data_type, |v| match v {
            Datum::Int4(v) => Some(*v),
            Datum::Int2(v) => Some((*v).into()),
            _ => None,
        })?,
        DataType::Int64 => primitive::<Int64Type>(values, data_type, |v| match v {
            Datum::Int8(v) => Some(*v),
            Datum::Int4(v) => Some((*v).into()),
            Datum::Int2(v) => Some((*v).into()),
            _ => None,
        })?,
        DataType::UInt32 => primitive::<UInt32Type>(values, data_type, |v| match v {
            Datum::Oid(v) => Some(*v),
            _ => None,
        })?,
        DataType::Float32 => primitive::<Float32Type>(values, data_type, |v| match v {
            Datum::Float4(v) => Some(*v),
            _ => None,
        })?,
        DataType::Float64 => primitive::<Float64Type>(values, data_type, |v| match v {
            Datum::Float8(v) => Some(*v),
            Datum::Float4(v) => Some((*v).into()),
            _ => None,
        })?,
        DataType::Date32 => primitive::<Date32Type>(values, data_type, |v| match v {
            Datum::Date(v) => Some(*v),
            _ => None,
        })?,
        DataType::Time64(_) => primitive::<Time64MicrosecondType>(values, data_type, |v| match v {
            Datum::Time(v) => Some(*v),
            _ => None,
        })?,
        DataType::Timestamp(_, _) => primitive::<TimestampMicrosecondType>(values, data_type, |v| match v {
            Datum::Timestamp(v) => Some(*v),
            _ => None,
        })?,
        DataType::Interval(_) => intervals(values, data_type)?,
        DataType::Decimal128(precision, scale) => {
            let mut builder = Decimal128Builder::with_capacity(values.len()).with_data_type(data_type.clone());
            for value in values {
                match value {
                    Datum::Numeric(v, from) => {
                        let v = rescale(*v, *from, *scale).filter(|v| fits(*v, *precision)).ok_or_else(overflow)?;
                        builder.append_value(v.to_i128().ok_or_else(overflow)?);
                    }
                    other => null_only(other, data_type).map(|()| builder.append_null())?,
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Decimal256(precision, scale) => {
            let mut builder = Decimal256Builder::with_capacity(values.len()).with_data_type(data_type.clone());
            for value in values {
                match value {
                    Datum::Numeric(v, from) => {
                        let v = rescale(*v, *from, *scale).filter(|v| fits(*v, *precision)).ok_or_else(overflow)?;
                        builder.append_value(v);
                    }
                    other => null_only(other, data_type).map(|()| builder.append_null())?,
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(values.len());
            for value in values {
                match value {
                    Datum::Text(v) => builder.append_value(v),
                    other => null_only(other, data_type).map(|()| builder.append_null())?,
                }
            }
            Arc::new(builder.finish())
        }
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::new();
            for value in values {
                match value {
                    Datum::Bytes(v) => builder.append_value(v),
                    other => null_only(other, data_type).map(|()| builder.append_null())?,
                }
            }
            Arc::new(builder.finish())
        }
        DataType::FixedSizeBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), *width);
            for value in values {
                match value {
                    Datum::Bytes(v) => builder.append_value(v)?,
                    other => null_only(other, data_type).map(|()| builder.append_null())?,
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Struct(fields) => {
            let nulls = NullBuffer::from_iter(values.iter().map(|value| !value.is_null()));
            let field = |at: usize| {
                let of = |value: &Datum<'_>| match value {
                    Datum::Record(fields) => {
                        fields.get(at).map_or(Datum::Null, |(_, value)| value.clone().into_owned())
                    }
                    _ => Datum::Null,
                };
                to_array(&values.iter().map(of).collect::<Vec<_>>(), fields[at].data_type())
            };
            let columns = (0..fields.len()).map(field).collect::<Result<Vec<_>, _>>()?;
            let made = StructArray::try_new_with_length(fields.clone(), columns, Some(nulls), values.len());
            Arc::new(made.map_err(|error| SqlError::internal(error.to_string()))?)
        }
        DataType::List(item) => {
            let mut items = Vec::new();
            let mut lengths = Vec::with_capacity(values.len());
            let mut valid = Vec::with_capacity(values.len());
            for value in values {
                match value {
                    Datum::List(list) => {
                        lengths.push(list.len());
                        valid.push(true);
                        items.extend(list.iter().cloned());
                    }
                    other => {
                        null_only(other, data_type)?;
                        lengths.push(0);
                        valid.push(false);
                    }
                }
            }
            let items = to_array(&items, item.data_type())?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, Some(NullBuffer::from(valid)))?)
        }
        other => return Err(SqlError::internal(format!("no column of Arrow type {other}"))),
    })
}

fn primitive<T: ArrowPrimitiveType>(
    values: &[Datum<'_>],
    data_type: &DataType,
    get: impl Fn(&Datum<'_>) -> Option<T::Native>,
) -> Result<ArrayRef, SqlError> {
    let mut native = Vec::with_capacity(values.len());
    for value in values {
        match get(value) {
            Some(v) => native.push(Some(v)),
            None => null_only(value, data_type).map(|()| native.push(None))?,
        }
    }
    Ok(Arc::new(native.into_iter().collect::<PrimitiveArray<T>>().with_data_type(data_type.clone())))
}

fn intervals(values: &[Datum<'_>], data_type: &DataType) -> Result<ArrayRef, SqlError> {
    let mut native = Vec::with_capacity(values.len());
    for value in values {
        match value {
            Datum::Interval(months, days, us) => {
                let nanos = us
                    .checked_mul(1_000)
                    .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"))?;
                native.push(Some(IntervalMonthDayNano::new(*months, *days, nanos)));
            }
            other => null_only(other, data_type).map(|()| native.push(None))?,
        }
    }
    Ok(Arc::new(native.into_iter().collect::<PrimitiveArray<IntervalMonthDayNanoType>>()))
}

fn null_only(value: &Datum<'_>, data_type: &DataType) -> Result<(), SqlError> {
    match value {
        Datum::Null => Ok(()),
        other => Err(SqlError::internal(format!("{other:?} is not a value of Arrow type {data_type}"))),
    }
}

/// 22003 for a numeric beyond 76 digits.
pub fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

/// The first value of a column as a scalar, with the exact type of the column.
pub fn first_scalar(array: &ArrayRef) -> Result<ScalarValue, SqlError> {
    match array.as_any().downcast_ref::<ListArray>() {
        // DataFusion's own conversion drops the metadata of the item.
        Some(list) => Ok(ScalarValue::List(Arc::new(list.slice(0, 1)))),
        None => Ok(ScalarValue::try_from_array(array, 0)?),
    }
}

/// One value as a scalar of `data_type`.
pub fn to_scalar(value: &Datum<'_>, data_type: &DataType) -> Result<ScalarValue, SqlError> {
    let array = to_array(std::slice::from_ref(value), data_type)?;
    first_scalar(&array)
}

/// The value of a scalar.
pub fn from_scalar(scalar: &ScalarValue) -> Result<Datum<'static>, SqlError> {
    let array = scalar.to_array()?;
    match repr::datum::from_array(array.as_ref(), 0) {
        Some(datum) => Ok(datum.into_owned()),
        None => Err(SqlError::internal(format!("no value for Arrow type {}", scalar.data_type()))),
    }
}
