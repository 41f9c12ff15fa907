//! The stages of a map/filter/project that make several rows of one.

use crate::render::mfp::evaluate_all;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array, UInt64Builder};
use arrow::compute::{concat, take};
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// Every row as the first list of expressions makes it, then every row as the second does, and so on.
pub fn expand(
    rows: &[Vec<Arc<dyn PhysicalExpr>>],
    schema: &SchemaRef,
    batch: &RecordBatch,
) -> Result<RecordBatch, DataFusionError> {
    let parts = rows.iter().map(|exprs| evaluate_all(exprs, batch)).collect::<Result<Vec<_>, _>>()?;
    let columns = (0..schema.fields().len())
        .map(|column| Ok(concat(&parts.iter().map(|part| part[column].as_ref()).collect::<Vec<_>>())?))
        .collect::<Result<Vec<ArrayRef>, DataFusionError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows() * rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// One row per item of the longest of each row's lists, and for each which row it was.
pub fn unnest(
    lists: &[usize],
    schema: &SchemaRef,
    batch: &RecordBatch,
) -> Result<(RecordBatch, UInt64Array), DataFusionError> {
    let longest: Vec<usize> = (0..batch.num_rows())
        .map(|at| lists.iter().map(|list| items(batch.column(*list), at).len()).max().unwrap_or(0))
        .collect();
    let total = longest.iter().sum();
    let mut sources = UInt64Builder::with_capacity(total);
    for (at, count) in longest.iter().enumerate() {
        sources.append_value_n(at as u64, *count);
    }
    let sources = sources.finish();
    let columns = batch
        .columns()
        .iter()
        .enumerate()
        .map(|(number, column)| {
            if !lists.contains(&number) {
                return Ok(take(column.as_ref(), &sources, None)?);
            }
            let mut chosen = UInt64Builder::with_capacity(total);
            for (at, count) in longest.iter().enumerate() {
                let items = items(column, at);
                let missing = count - items.len();
                items.for_each(|item| chosen.append_value(item as u64));
                chosen.append_nulls(missing);
            }
            Ok(take(column.as_list::<i32>().values().as_ref(), &chosen.finish(), None)?)
        })
        .collect::<Result<Vec<ArrayRef>, DataFusionError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(total));
    Ok((RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?, sources))
}

/// Where the items of a row's list are among the items of all lists.
fn items(lists: &ArrayRef, at: usize) -> std::ops::Range<usize> {
    let lists = lists.as_list::<i32>();
    if lists.is_null(at) {
        return 0..0;
    }
    let offset = |at: usize| usize::try_from(lists.value_offsets()[at]).expect("offsets are not negative");
    offset(at)..offset(at + 1)
}

#[cfg(test)]
mod tests {
    use super::unnest;
    use arrow::array::{Array, AsArray, Int32Array, ListArray, RecordBatch};
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};
    use std::sync::Arc;

    #[test]
    fn lists_advance_together_and_empty_ones_give_nothing() {
        let list = |rows: Vec<Option<Vec<Option<i32>>>>| ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let left = list(vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(4)])]);
        let right = list(vec![Some(vec![Some(7)]), None, Some(vec![Some(8)]), Some(vec![Some(9), Some(10)])]);
        let ids = Int32Array::from(vec![10, 20, 30, 40]);
        let field = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), true);
        let (int, lists) = (DataType::Int32, left.data_type().clone());
        let schema = Arc::new(Schema::new(vec![field("id", &int), field("l", &lists), field("r", &lists)]));
        let given = Arc::new(Schema::new(vec![field("id", &int), field("l", &int), field("r", &int)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(ids), Arc::new(left), Arc::new(right)]).expect("fits");
        let (rows, sources) = unnest(&[1, 2], &given, &batch).expect("lists");
        assert_eq!(sources.values().to_vec(), [0, 0, 2, 3, 3]);
        let column = |at: usize| rows.column(at).as_primitive::<Int32Type>().iter().collect::<Vec<_>>();
        assert_eq!(column(0), [Some(10), Some(10), Some(30), Some(40), Some(40)]);
        assert_eq!(column(1), [Some(1), None, None, Some(4), None]);
        assert_eq!(column(2), [Some(7), None, Some(8), Some(9), Some(10)]);
    }
}
