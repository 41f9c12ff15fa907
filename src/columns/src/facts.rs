//! What a file says of the values of its columns: the least and the greatest of each row group, how many are NULL, and about how many
//! different ones there are. None of it is read from the rows.

use crate::distinct::Distinct;
use crate::file::File;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use std::sync::Arc;

/// What is known of a column, by row group. Where something is not known of a group there is NULL.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// No value of the group is less.
    pub least: ArrayRef,
    /// None is greater.
    pub greatest: ArrayRef,
    /// How many values are NULL, as unsigned numbers.
    pub nulls: ArrayRef,
}

/// Whether Parquet's order of values of a type is Arrow's, for all of them: of floats NaN is left out.
fn is_ordered(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::Decimal128(..)
            | DataType::Utf8View
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(..)
    )
}

impl File {
    /// The bounds of a column; `None` of a type whose order is not kept.
    pub fn bounds(&self, column: usize) -> Option<Bounds> {
        let ty = self.shape().types().get(column).filter(|ty| is_ordered(ty))?;
        let metadata = self.metadata();
        let (schema, of) = (metadata.schema(), metadata.metadata());
        let field = schema.field(column);
        let converter = StatisticsConverter::try_new(field.name(), schema, metadata.parquet_schema()).ok()?;
        let (least, greatest) = (converter.row_group_mins(of.row_groups()), converter.row_group_maxes(of.row_groups()));
        let nulls = converter.row_group_null_counts(of.row_groups()).ok()?;
        let bounds = Bounds { least: least.ok()?, greatest: greatest.ok()?, nulls: Arc::new(nulls) };
        (bounds.least.data_type() == ty && bounds.greatest.data_type() == ty).then_some(bounds)
    }

    /// A sketch of the values of a column, if there is one: files of older versions have none.
    pub fn distinct(&self, column: usize) -> Option<&Distinct> {
        self.distinct.get(column)?.as_ref()
    }
}
