//! What other programs' Arrow becomes in a table: rows of batches, as a COPY takes them.
//!
//! A value is taken as it is where its type is the column's, or as near to it as an integer of another width is. Any other is read as its
//! text would be: so a float becomes a numeric with the digits that it shows, a timestamp without zone is one of the session's zone, and a
//! text may be of any type. What does not fit is refused with its row; nothing is cut, but for parts of a microsecond.

use crate::apart::elsewhere;
use adapter::error::AdapterError;
use adapter::session::Session;
use adapter::writing::copy_in::{CopyIn, Taken, of_text};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use pgrepr::calendar::{
    DATE_INFINITY, DATE_MAX, DATE_MIN, DATE_NEGATIVE_INFINITY, DAY_US, TIMESTAMP_MIN, TIMESTAMP_NEGATIVE_INFINITY,
};
use pgrepr::error::PgReprError;
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use pgrepr::utf8;
use repr::datum::from_array;
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, Datum, PgType, RelationDesc};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows of a batch that are taken at once.
pub const ROWS_AT_ONCE: usize = 8_192;

/// The columns of the table that batches of a shape have, by their names.
pub fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// Adds the rows of a batch, whose columns are those of the COPY in their order; the first is the row of that number. Errors: 0A000 of
/// columns that nothing here can be made of, those of values.
pub fn push(copy: &mut CopyIn, batch: &RecordBatch, first: u64) -> Result<(), AdapterError> {
    if batch.columns().iter().any(|column| is_packed(column.data_type())) && batch.num_rows() > 1 {
        // Whole, it could unpack to any size.
        return (0..batch.num_rows()).try_for_each(|row| push(copy, &batch.slice(row, 1), first + row as u64));
    }
    let columns = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
    let types: Vec<PgType> = columns.iter().map(|column| PgType::from_data_type(column.data_type())).collect();
    let mut fields = Vec::with_capacity(columns.len());
    for row in 0..batch.num_rows() {
        fields.clear();
        for (column, ty) in columns.iter().zip(&types) {
            let datum = from_array(column.as_ref(), row).ok_or_else(|| refused(column.data_type()))?;
            fields.push((!datum.is_null()).then_some((datum, ty)));
        }
        copy.push(first + row as u64, &fields, |column, (datum, ty), encode| of_datum(column, datum, ty, encode))?;
    }
    Ok(())
}

/// Takes the rows of a batch, of which the first has this number, on a thread that nobody waits for; returns that of the one behind them as
/// well. Errors: those of [`push`], of the sequences' values that rows take, 57P01 if the server stops.
pub async fn load(
    session: &mut Session,
    mut copy: Box<CopyIn>,
    batch: RecordBatch,
    mut first: u64,
) -> Result<(Box<CopyIn>, u64), AdapterError> {
    let mut start = 0;
    while start < batch.num_rows() {
        let part = batch.slice(start, ROWS_AT_ONCE.min(batch.num_rows() - start));
        let count = part.num_rows();
        session.copy_in_rows(&mut copy, count as u64).await?;
        copy = elsewhere(move || push(&mut copy, &part, first).map(|()| copy)).await?;
        (start, first) = (start + count, first + count as u64);
    }
    Ok((copy, first))
}

/// The values of a row of a batch, as those of parameters of these types; as many as there are of both. Errors: 0A000 of columns that nothing
/// here can be made of, those of values.
pub fn values(
    encode: &EncodeOptions,
    batch: &RecordBatch,
    row: usize,
    types: &[PgType],
) -> Result<Vec<Datum<'static>>, AdapterError> {
    let value = |(column, ty): (&ArrayRef, &PgType)| {
        let column = plain(&column.slice(row, 1))?;
        let datum = from_array(column.as_ref(), 0).ok_or_else(|| refused(column.data_type()))?;
        if datum.is_null() {
            return Ok(Datum::Null);
        }
        let (of, wanted) = (PgType::from_data_type(column.data_type()), nameless(ty));
        let value = of_datum(&wanted, &datum, &of, encode);
        value.map(Datum::into_owned).map_err(|(error, _)| error)
    };
    batch.columns().iter().zip(types).map(value).collect()
}

/// A column of this type.
fn nameless(ty: &PgType) -> ColumnDesc {
    let desc = RelationDesc::new([(String::new(), ty.clone(), true)]);
    desc.columns.into_iter().next().expect("there is one")
}

/// The value of a column that this one of another type is.
fn of_datum<'a>(column: &ColumnDesc, datum: &'a Datum<'_>, ty: &PgType, encode: &EncodeOptions) -> Taken<'a> {
    let as_it_is = match (datum, &column.ty) {
        (Datum::Text(text), _) => {
            let checked = utf8::text(text.as_bytes()).map_err(|error| (PgReprError::from(error).into(), None));
            return checked.and_then(|text| of_text(column, text, encode));
        }
        (Datum::Bool(value), PgType::Bool) => Datum::Bool(*value),
        (Datum::Int2(value), PgType::Int2) => Datum::Int2(*value),
        (Datum::Int2(value), PgType::Int4) => Datum::Int4((*value).into()),
        (Datum::Int2(value), PgType::Int8) => Datum::Int8((*value).into()),
        (Datum::Int4(value), PgType::Int4) => Datum::Int4(*value),
        (Datum::Int4(value), PgType::Int8) => Datum::Int8((*value).into()),
        (Datum::Int8(value), PgType::Int8) => Datum::Int8(*value),
        (Datum::Float4(value), PgType::Float4) => Datum::Float4(*value),
        (Datum::Float4(value), PgType::Float8) => Datum::Float8((*value).into()),
        (Datum::Float8(value), PgType::Float8) => Datum::Float8(*value),
        (Datum::Bytes(bytes), PgType::Bytea) => Datum::Bytes(Cow::Borrowed(bytes)),
        (Datum::Bytes(bytes), PgType::Uuid) if bytes.len() == 16 => Datum::Bytes(Cow::Borrowed(bytes)),
        (Datum::Date(days), _) if !matches!(*days, DATE_INFINITY | DATE_NEGATIVE_INFINITY | DATE_MIN..=DATE_MAX) => {
            return Err((out_of_range("date"), None));
        }
        (Datum::Time(us), _) if !(0..=DAY_US).contains(us) => return Err((out_of_range("time"), None)),
        (Datum::Timestamp(us), _) if *us != TIMESTAMP_NEGATIVE_INFINITY && *us < TIMESTAMP_MIN => {
            return Err((out_of_range("timestamp"), None));
        }
        (Datum::Date(value), PgType::Date) => Datum::Date(*value),
        (Datum::Time(value), PgType::Time) => Datum::Time(*value),
        (Datum::Timestamp(value), to @ (PgType::Timestamp | PgType::Timestamptz)) if to == ty => {
            Datum::Timestamp(*value)
        }
        (Datum::Interval(months, days, us), PgType::Interval) => Datum::Interval(*months, *days, *us),
        _ => {
            let mut text = Vec::new();
            encode_text(ty, datum, encode, &mut text);
            let text = String::from_utf8_lossy(&text);
            return of_text(column, &text, encode).map(Datum::into_owned);
        }
    };
    Ok(as_it_is)
}

/// Whether several values may be one in memory.
fn is_packed(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) | DataType::ListView(_) | DataType::LargeListView(_) => {
            true
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_packed(item.data_type())
        }
        _ => false,
    }
}

/// Whether one row may unpack to any size: its items may all be one in memory.
fn is_bottomless(ty: &DataType) -> bool {
    match ty {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => is_packed(item.data_type()),
        DataType::Dictionary(_, values) => is_bottomless(values),
        DataType::RunEndEncoded(_, values) => is_bottomless(values.data_type()),
        _ => false,
    }
}

/// The same values in a type that there are values of here.
fn plain(column: &ArrayRef) -> Result<ArrayRef, AdapterError> {
    if is_bottomless(column.data_type()) {
        return Err(refused(column.data_type()));
    }
    let ty = plain_type(column.data_type());
    if ty == *column.data_type() {
        return Ok(Arc::clone(column));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, &ty, &options).map_err(|_| refused(column.data_type()))
}

/// The type that there are values of here in which those of this one are taken.
pub fn plain_type(ty: &DataType) -> DataType {
    let item = |item: &Field| Arc::new(item.clone().with_data_type(plain_type(item.data_type())));
    match ty {
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        // Their overflow is told.
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::List(of) | DataType::ListView(of) | DataType::FixedSizeList(of, _) => DataType::List(item(of)),
        DataType::LargeList(of) | DataType::LargeListView(of) => DataType::LargeList(item(of)),
        other => other.clone(),
    }
}

fn out_of_range(what: &str) -> AdapterError {
    AdapterError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn refused(ty: &DataType) -> AdapterError {
    AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("values of the Arrow type {ty} are not taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_never_unpacks_to_any_size() {
        let packed = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8));
        let list = |ty: &DataType| DataType::List(Arc::new(Field::new_list_field(ty.clone(), true)));
        let within = DataType::Dictionary(Box::new(DataType::Int8), Box::new(list(&packed)));
        for (ty, bottomless) in [
            (&packed, false),
            (&list(&packed), true),
            (&list(&list(&packed)), true),
            (&within, true),
            (&list(&DataType::Utf8), false),
        ] {
            assert_eq!(is_bottomless(ty), bottomless, "{ty}");
            let taken = plain(&arrow::array::new_empty_array(ty));
            assert_eq!(taken.is_err(), bottomless, "{ty}");
        }
        assert!(is_packed(&packed) && is_packed(&list(&packed)) && !is_packed(&list(&DataType::Utf8)));
    }
}
