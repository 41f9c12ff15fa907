//! What the files of columns of a shard say of its values, all of them together, or its rows if these are few.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{SortOptions, concat, sort_to_indices, take};
use arrow::datatypes::{DataType, UInt64Type};
use columns::{Bounds, Distinct, File};
use repr::columns::ColumnDecoder;
use std::iter;
use std::sync::Arc;

/// What is known of a column.
#[derive(Clone, Debug)]
pub struct ColumnFacts {
    /// How many values are NULL; in files of columns that is known of types whose bounds are.
    pub nulls: Option<u64>,
    /// No value is less than this one, which stands alone.
    pub least: Option<ArrayRef>,
    /// None is greater.
    pub greatest: Option<ArrayRef>,
    /// About how many different values there are.
    pub distinct: Option<u64>,
}

/// By column: what these files, which are all of a shard's, say together.
pub(crate) fn of_files(files: &[Arc<File>]) -> Arc<[ColumnFacts]> {
    let columns = files.first().map_or(0, |file| file.shape().types().len());
    (0..columns).map(|column| of_column(files, column)).collect()
}

fn of_column(files: &[Arc<File>], column: usize) -> ColumnFacts {
    let bounds: Option<Vec<Bounds>> = files.iter().map(|file| file.bounds(column)).collect();
    let bounds = bounds.unwrap_or_default();
    let nulls = bounds.iter().flat_map(|bounds| bounds.nulls.as_primitive::<UInt64Type>()).flatten().sum();
    let sketches: Option<Vec<&Distinct>> = files.iter().map(|file| file.distinct(column)).collect();
    let together = |all: Vec<&Distinct>| {
        let (first, others) = all.split_first()?;
        let mut all = (*first).clone();
        others.iter().for_each(|other| all.merge(other));
        Some(all.estimate())
    };
    ColumnFacts {
        nulls: (!bounds.is_empty()).then_some(nulls),
        least: first(bounds.iter().map(|bounds| &bounds.least), false),
        greatest: first(bounds.iter().map(|bounds| &bounds.greatest), true),
        distinct: sketches.and_then(together),
    }
}

/// By column: what rows of these types say; `None` if they cannot be read.
pub(crate) fn of_rows(types: &[DataType], rows: &[&[u8]]) -> Option<Arc<[ColumnFacts]>> {
    let decoder = ColumnDecoder::new(types, (0..types.len()).collect()).ok()?;
    Some(decoder.decode(rows.iter().copied()).ok()?.iter().map(of_values).collect())
}

fn of_values(values: &ArrayRef) -> ColumnFacts {
    ColumnFacts {
        nulls: u64::try_from(values.null_count()).ok(),
        least: first(iter::once(values), false),
        greatest: first(iter::once(values), true),
        distinct: Distinct::of(values.data_type()).map(|mut distinct| {
            distinct.add(values);
            distinct.estimate()
        }),
    }
}

/// The first in order among these values, from below or from above; `None` if all are NULL.
fn first<'a>(arrays: impl Iterator<Item = &'a ArrayRef>, descending: bool) -> Option<ArrayRef> {
    let arrays: Vec<_> = arrays.map(AsRef::as_ref).collect();
    let all = concat(&arrays).ok()?;
    let options = SortOptions { descending, nulls_first: false };
    let first = take(&all, &sort_to_indices(&all, Some(options), Some(1)).ok()?, None).ok()?;
    (first.len() == 1 && first.is_valid(0)).then_some(first)
}
