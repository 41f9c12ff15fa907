//! What is decoded of a morsel, and when: the columns of a filter before it is evaluated, those that are wanted after the last one.
//!
//! Filters are evaluated in the order in which they stand, each over the rows that the ones before have left. So a condition that
//! fails for some rows does not see those that an earlier one keeps from it. The first, if it cannot fail, may see rows that have gone: they are
//! left out together with those that do not pass.

use crate::morsels::{Morsel, Places};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, and, prep_null_mask_filter};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Of fewer than one row in so many it is said where they are, one by one.
const FEW: usize = 4;

/// Rows of a batch, about, where a filter leaves many: what is computed of more does not stay in the cache of a core.
const ROWS_MAX: usize = match (cfg!(test), cfg!(debug_assertions)) {
    (true, _) => 8,
    (false, true) => 1_000,
    (false, false) => 32 << 10,
};

/// The stages of a scan: one per filter, and the last for what is wanted.
pub(super) struct Stages {
    /// What each of them decodes.
    columns: Vec<BTreeSet<usize>>,
    /// The filters, and which columns are needed after each.
    filters: Vec<(Condition, BTreeSet<usize>)>,
    /// Whether the first of them cannot fail.
    is_first_certain: bool,
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
    /// Of filters over a collection with this schema, so many of which cannot fail, the first ones; the columns of `projection` are wanted.
    pub(super) fn new(
        schema: &SchemaRef,
        filters: &[Arc<dyn PhysicalExpr>],
        certain: usize,
        projection: &[usize],
    ) -> Result<Stages> {
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
        let is_first_certain = certain > 0;
        Ok(Stages {
            columns: columns.collect(),
            filters: conditions,
            is_first_certain,
            projection: projection.to_vec(),
        })
    }

    /// The columns that are decoded in each stage.
    pub(super) fn columns(&self) -> &[BTreeSet<usize>] {
        &self.columns
    }

    /// The rows of a morsel that pass, in their order, with the columns that are wanted; in several batches where there are many.
    pub(super) fn run(&self, morsel: &dyn Morsel, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
        let all = Passing { morsel, rows: Rows::All, is_of_kept: false, columns: Vec::new() };
        let first = self.filters.first().filter(|(first, _)| self.is_first_certain && !first.columns.is_empty());
        let kept = first.map_or(Ok(None), |_| morsel.kept(0))?;
        let (Some((condition, needed)), Some((columns, there))) = (first, kept) else {
            return Ok(vec![self.run_from(0, all, schema)?]);
        };
        let columns = self.columns[0].iter().copied().zip(columns).collect();
        // Rows without columns are only counted.
        let most = if self.projection.is_empty() { usize::MAX } else { ROWS_MAX };
        let parts = all.parts(columns, there, (condition, needed), most)?;
        parts.into_iter().map(|part| self.run_from(1, part, schema)).collect()
    }

    /// The same of rows that have passed the filters before a stage.
    fn run_from(&self, stage: usize, mut rows: Passing<'_>, schema: &SchemaRef) -> Result<RecordBatch> {
        for (stage, (condition, needed)) in self.filters.iter().enumerate().skip(stage) {
            if rows.len() == 0 {
                return Ok(RecordBatch::new_empty(Arc::clone(schema)));
            }
            rows.decode(stage, &self.columns[stage])?;
            let mask = condition.evaluate(&rows.batch(&condition.schema, &condition.columns)?)?;
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
    fn evaluate(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let mask = match self.expr.evaluate(batch)? {
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
    rows: Rows,
    /// Whether these are places among the rows as they are kept, and not among the morsel's own.
    is_of_kept: bool,
    /// What was decoded of them, and is still needed.
    columns: Vec<(usize, ArrayRef)>,
}

/// Which rows of a morsel.
enum Rows {
    All,
    /// From this one on, where the mask is true, which is so often.
    Where(usize, BooleanArray, usize),
    /// At these places.
    At(Vec<usize>),
}

impl Rows {
    fn passing(start: usize, mask: BooleanArray) -> Rows {
        let count = mask.true_count();
        Rows::Where(start, mask, count)
    }

    /// Their places, unless these are all.
    fn places(&mut self) -> Option<&[usize]> {
        if let Rows::Where(start, mask, _) = self {
            *self = Rows::At(mask.values().set_indices().map(|row| *start + row).collect());
        }
        match self {
            Rows::At(places) => Some(places),
            _ => None,
        }
    }
}

impl Passing<'_> {
    fn len(&self) -> usize {
        match &self.rows {
            Rows::All => self.morsel.len(),
            Rows::Where(_, _, count) => *count,
            Rows::At(places) => places.len(),
        }
    }

    fn decode(&mut self, stage: usize, columns: &BTreeSet<usize>) -> Result<()> {
        if !columns.is_empty() {
            let arrays = match &self.rows {
                Rows::Where(start, mask, count) if self.is_of_kept && *count > mask.len() / FEW => {
                    self.morsel.kept_some(stage, Places::Where(*start, mask))?
                }
                _ => match self.rows.places() {
                    Some(places) if self.is_of_kept => self.morsel.kept_some(stage, Places::At(places))?,
                    places => self.morsel.columns(stage, places)?,
                },
            };
            self.columns.extend(columns.iter().copied().zip(arrays));
        }
        Ok(())
    }

    /// Goes on with the rows that have passed, and the columns that are needed.
    fn keep(&mut self, mask: Option<&BooleanArray>, needed: &BTreeSet<usize>) -> Result<()> {
        self.columns.retain(|(column, _)| needed.contains(column));
        let Some(mask) = mask else { return Ok(()) };
        self.rows = match self.rows.places() {
            Some(places) => Rows::At(mask.values().set_indices().map(|at| places[at]).collect()),
            None => Rows::passing(0, mask.clone()),
        };
        self.leave(mask)
    }

    /// Those that pass a condition among columns as they are kept, in parts of about so many at the most; and the columns that are needed
    /// after it.
    fn parts(
        mut self,
        columns: Vec<(usize, ArrayRef)>,
        there: Option<BooleanArray>,
        (condition, needed): (&Condition, &BTreeSet<usize>),
        most: usize,
    ) -> Result<Vec<Self>> {
        let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
        let mask = condition.evaluate(&RecordBatch::try_new(Arc::clone(&condition.schema), arrays)?)?;
        self.columns = columns.into_iter().filter(|(column, _)| needed.contains(column)).collect();
        let mask = match (mask, there) {
            (Some(mask), Some(there)) => and(&mask, &there)?,
            (Some(mask), None) | (None, Some(mask)) => mask,
            (None, None) => return Ok(vec![self]),
        };
        // Stretches of one length, of about so many rows that pass at the most.
        let (len, count) = (mask.len(), mask.true_count().div_ceil(most).max(1));
        let part = |at: usize| {
            let (start, end) = (len * at / count, len * (at + 1) / count);
            let mask = mask.slice(start, end - start);
            let columns = self.columns.iter().map(|(column, array)| (*column, array.slice(start, end - start)));
            let mut part =
                Passing { morsel: self.morsel, rows: Rows::All, is_of_kept: true, columns: columns.collect() };
            part.leave(&mask)?;
            part.rows = Rows::passing(start, mask);
            Ok(part)
        };
        (0..count).map(part).collect()
    }

    /// Leaves out of the columns what does not pass.
    fn leave(&mut self, mask: &BooleanArray) -> Result<()> {
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
