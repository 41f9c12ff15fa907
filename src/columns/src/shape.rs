//! What rows are made of, and how each column is kept.

use crate::Error;
use crate::packed::{Packed, wide};
use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::datatypes::{
    DECIMAL64_MAX_PRECISION, DataType, Decimal64Type, Field, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use repr::row::RowCodec;
use std::sync::Arc;

/// Bytes of an interval, which Parquet has no type for.
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const INTERVAL_BYTES: DataType = DataType::FixedSizeBinary(16);
/// What the name of a column begins with that holds intervals.
const INTERVAL_MARK: &str = "interval";

/// The types of the columns of rows.
#[derive(Debug)]
pub struct Shape {
    types: Vec<DataType>,
    pub(crate) codec: RowCodec,
    /// The columns of a file: those of the rows, and then the time of each.
    pub(crate) stored: SchemaRef,
}

impl Shape {
    /// The shape of rows with these types; `None` if there are no columns, or one of a type that files do not hold.
    pub fn new(types: &[DataType]) -> Option<Shape> {
        if types.is_empty() || !types.iter().all(|ty| *ty == INTERVAL || is_stored(ty)) {
            return None;
        }
        let codec = RowCodec::new(types).ok()?;
        let field = |(at, ty): (usize, &DataType)| match *ty == INTERVAL {
            true => Field::new(format!("{INTERVAL_MARK}{at}"), INTERVAL_BYTES, true),
            false => Field::new(format!("column{at}"), ty.clone(), true),
        };
        let time = Field::new("time", DataType::UInt64, false);
        let fields: Vec<Field> = types.iter().enumerate().map(field).chain([time]).collect();
        Some(Shape { types: types.to_vec(), codec, stored: Arc::new(Schema::new(fields)) })
    }

    /// The shape of the rows of a file with these columns.
    pub(crate) fn of_file(stored: &Schema) -> Result<Shape, Error> {
        let (_, columns) =
            stored.fields().split_last().ok_or_else(|| Error::Damaged("it has no columns".to_owned()))?;
        let ty = |field: &Arc<Field>| match field.name().starts_with(INTERVAL_MARK) {
            true => INTERVAL,
            false => field.data_type().clone(),
        };
        let shape = Shape::new(&columns.iter().map(ty).collect::<Vec<_>>());
        let is_same = |shape: &Shape| {
            shape.stored.fields().iter().zip(stored.fields()).all(|(one, other)| one.data_type() == other.data_type())
        };
        shape.filter(is_same).ok_or_else(|| Error::Damaged("its columns are none of rows".to_owned()))
    }

    /// The types.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// The place of the times among the columns of a file.
    pub(crate) fn time(&self) -> usize {
        self.types.len()
    }

    /// A column as it is kept.
    pub(crate) fn to_stored(&self, column: usize, array: ArrayRef) -> Result<ArrayRef, Error> {
        match self.types[column] == INTERVAL {
            true => same_bytes(&array, INTERVAL_BYTES),
            false => Ok(array),
        }
    }

    /// A column that was kept.
    pub(crate) fn to_value(&self, column: usize, array: &ArrayRef) -> Result<ArrayRef, Error> {
        match (&self.types[column], array.data_type()) {
            (ty, _) if *ty == INTERVAL => same_bytes(array, INTERVAL),
            (ty, DataType::Decimal64(..)) => Ok(wide(array.as_primitive::<Decimal64Type>(), ty)),
            _ => Ok(Arc::clone(array)),
        }
    }

    /// A column that was kept, to be packed: decimals that were read as such of 64 bits stay it.
    pub(crate) fn to_packed(&self, column: usize, array: &ArrayRef) -> Result<Packed, Error> {
        let ty = &self.types[column];
        Ok(match array.data_type() {
            DataType::Decimal64(..) => Packed::of(array, ty),
            _ => Packed::of(&self.to_value(column, array)?, ty),
        })
    }

    /// The columns of a file as they are decoded: decimals that Parquet keeps in 64 bits or fewer in 64.
    pub(crate) fn decoded(&self) -> SchemaRef {
        let field = |field: &Arc<Field>| match field.data_type() {
            DataType::Decimal128(precision, scale) if *precision <= DECIMAL64_MAX_PRECISION => {
                Arc::new(field.as_ref().clone().with_data_type(DataType::Decimal64(*precision, *scale)))
            }
            _ => Arc::clone(field),
        };
        Arc::new(Schema::new(self.stored.fields().iter().map(field).collect::<Vec<_>>()))
    }
}

/// An array of another type over the same bytes.
fn same_bytes(array: &ArrayRef, ty: DataType) -> Result<ArrayRef, Error> {
    Ok(make_array(array.to_data().into_builder().data_type(ty).align_buffers(true).build()?))
}

/// Whether Parquet keeps values of a type, and gives them back as they were.
fn is_stored(ty: &DataType) -> bool {
    match ty {
        DataType::Boolean
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt32
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Date32
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(TimeUnit::Microsecond, _) => true,
        DataType::List(item) => is_stored(item.data_type()),
        _ => false,
    }
}
