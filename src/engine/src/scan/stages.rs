//! What is decoded of a morsel, and when: the columns of a filter before it is evaluated, those that are wanted after the last one.
//!
//! Filters are evaluated in the order in which they stand, each over the rows that the ones before have left. So a condition that
//! fails for some rows does not see those that an earlier one keeps from it.

use crate::morsels::Morsel;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, prep_null_mask_filter};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The stages of a scan: one per filter, and the last for what is wanted.
pub(super) struct Stages {
    /// What each of them decodes.
    columns: Vec<BTreeSet<usize>>,
    /// The filters, and which columns are needed after each.
    filters: Vec<(Condition, BTreeSet<usize>)>,
    /// What is wanted.
    projection: Vec<usize>,
}

/// A filter over the columns that it reads, and nothing else.
struct Condition {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl Stages {
    /// Of filters over a collection with this schema, of which the columns of `projection` are wanted.
    pub(super) fn new(schema: &SchemaRef, filters: &[Arc<dyn PhysicalExpr>], projection: &[usize]) -> Result<Stages> {
        let read =
            |filter: &Arc<dyn PhysicalExpr>| collect_columns(filter).iter().map(|column| column.index()).collect();
        let mut reads: Vec<BTreeSet<usize>> = filters.iter().map(read).collect();
        reads.push(projection.iter().copied().collect());
        let needed_after = |at: usize| reads[at + 1..].iter().flatten().copied().collect();
        let mut conditions = Vec::with_capacity(filters.len());
        for (at, filter) in filters.iter().enumerate() {
            let columns: Vec<usize> = reads[at].iter().copied().collect();
            let expr = over(filter, |column| columns.binary_search(&column).ok())?;
            let schema: SchemaRef = Arc::new(Schema::new(schema.project(&columns)?.fields));
            conditions.push((Condition { expr, columns, schema }, needed_after(at)));
        }
        let mut seen = BTreeSet::new();
        let columns = reads.iter().map(|read| {
            let first: BTreeSet<usize> = read.difference(&seen).copied().collect();
            seen.extend(read);
            first
        });
        Ok(Stages { columns: columns.collect(), filters: conditions, projection: projection.to_vec() })
    }

    /// The columns that are decoded in each stage.
    pub(super) fn columns(&self) -> &[BTreeSet<usize>] {
        &self.columns
    }

    /// The rows of a morsel that pass, in their order, with the columns that are wanted.
    pub(super) fn run(&self, morsel: &dyn Morsel, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut rows = Passing { morsel, rows: None, columns: Vec::new() };
        for (stage, (condition, needed)) in self.filters.iter().enumerate() {
            if rows.len() == 0 {
                return Ok(RecordBatch::new_empty(Arc::clone(schema)));
            }
            rows.decode(stage, &self.columns[stage])?;
            let mask = condition.evaluate(&rows)?;
            rows.keep(mask.as_ref(), needed)?;
        }
        if rows.len() == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(schema)));
        }
        let last = self.filters.len();
        rows.decode(last, &self.columns[last])?;
        rows.batch(schema, &self.projection)
    }
}

impl Condition {
    /// Which rows pass; `None` if all do.
    fn evaluate(&self, rows: &Passing<'_>) -> Result<Option<BooleanArray>> {
        let batch = rows.batch(&self.schema, &self.columns)?;
        let mask = match self.expr.evaluate(&batch)? {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => return Ok(None),
            mask => mask.into_array(batch.num_rows())?,
        };
        let mask = mask.as_boolean();
        let mask = if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() };
        Ok((mask.true_count() < mask.len()).then_some(mask))
    }
}

/// An expression over columns that have other places.
fn over(expr: &Arc<dyn PhysicalExpr>, place: impl Fn(usize) -> Option<usize>) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(expr).transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        match place(column.index()) {
            Some(place) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>)),
            None => internal_err!("a filter is over a column that is not there: {column}"),
        }
    });
    Ok(moved?.data)
}

/// The rows of a morsel that have passed so far.
struct Passing<'a> {
    morsel: &'a dyn Morsel,
    /// Their places, unless all have.
    rows: Option<Vec<usize>>,
    /// What was decoded of them, and is still needed.
    columns: Vec<(usize, ArrayRef)>,
}

impl Passing<'_> {
    fn len(&self) -> usize {
        self.rows.as_ref().map_or_else(|| self.morsel.len(), Vec::len)
    }

    fn decode(&mut self, stage: usize, columns: &BTreeSet<usize>) -> Result<()> {
        if !columns.is_empty() {
            let arrays = self.morsel.columns(stage, self.rows.as_deref())?;
            self.columns.extend(columns.iter().copied().zip(arrays));
        }
        Ok(())
    }

    /// Goes on with the rows that have passed, and the columns that are needed.
    fn keep(&mut self, mask: Option<&BooleanArray>, needed: &BTreeSet<usize>) -> Result<()> {
        self.columns.retain(|(column, _)| needed.contains(column));
        let Some(mask) = mask else { return Ok(()) };
        let passed = mask.values().set_indices();
        self.rows = Some(match &self.rows {
            Some(rows) => passed.map(|at| rows[at]).collect(),
            None => passed.collect(),
        });
        if !self.columns.is_empty() {
            let filter = FilterBuilder::new(mask).optimize().build();
            for (_, array) in &mut self.columns {
                *array = filter.filter(array)?;
            }
        }
        Ok(())
    }

    /// Some of the columns.
    fn batch(&self, schema: &SchemaRef, columns: &[usize]) -> Result<RecordBatch> {
        let array = |column: &usize| {
            let found = self.columns.iter().find(|(of, _)| of == column).map(|(_, array)| Arc::clone(array));
            found.ok_or_else(|| internal_datafusion_err!("column {column} of a scan was not decoded"))
        };
        let arrays = columns.iter().map(array).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }
}
