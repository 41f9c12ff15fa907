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
    match ty {
        DataType::Boolean
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt32
        | DataType::Decimal128(..)
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Time64(_)
        | DataType::Timestamp(..) => true,
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use crate::file::tests::{random, write};
    use crate::file::{File, Wanted};
    use crate::shape::Shape;
    use arrow::array::{Array, AsArray, Scalar};
    use arrow::compute::kernels::cmp::{gt, lt};
    use arrow::datatypes::UInt64Type;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn no_value_is_out_of_its_bounds(
            choices in prop::collection::vec(any::<u32>(), 1..400), chosen in prop::collection::btree_set(0_usize..19, 1..19),
            group in 1_usize..300) {
            let (types, rows) = random(&choices, &chosen);
            let (mut bytes, tail) = write(&Arc::new(Shape::new(&types).expect("supported")), &rows, group);
            let file = Arc::new(File::open(tail, bytes.0.len() as u64).expect("it was just written"));
            for column in 0..types.len() {
                prop_assert!(file.distinct(column).is_none_or(|of| of.estimate() <= 2 * choices.len() as u64));
                let Some(bounds) = file.bounds(column) else { continue };
                for at in 0..file.groups().len() {
                    let of = BTreeSet::from([column]);
                    let chunks = file.read(&mut bytes, at, &of).expect("intact");
                    let values = file.decode(&chunks, &of, Wanted::All).expect("intact").remove(0);
                    prop_assert_eq!(bounds.nulls.as_primitive::<UInt64Type>().value(at), values.null_count() as u64);
                    let (least, greatest) = (bounds.least.slice(at, 1), bounds.greatest.slice(at, 1));
                    prop_assert!(least.is_valid(0) || values.null_count() == values.len(), "{:?}", types[column]);
                    prop_assert_eq!(lt(&values, &Scalar::new(least)).expect("of one type").true_count(), 0);
                    prop_assert_eq!(gt(&values, &Scalar::new(greatest)).expect("of one type").true_count(), 0);
                }
            }
        }
    }
}
