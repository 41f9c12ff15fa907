//! The rows of a collection as a scan takes them: a *morsel* at a time, and of each morsel no column that nothing needs.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A collection at one time.
pub trait Collection: fmt::Debug + Send + Sync {
    /// Its columns.
    fn schema(&self) -> &SchemaRef;

    /// How many rows it has. What is exact answers `count(*)`.
    fn row_count(&self) -> Precision<usize>;

    /// Begins to read, from the first row on. The columns of each morsel will be asked for in *stages*: those of the first stage, which
    /// tell for which rows those of the second are asked for, and so on. Rows that are not `wanted` may be left out.
    fn read(&self, stages: &[BTreeSet<usize>], wanted: &Wanted) -> Result<Box<dyn Morsels>>;
}

/// What is known beforehand of the rows that a scan wants: conditions that they pass.
#[derive(Debug, Default)]
pub struct Wanted(Option<Arc<PruningPredicate>>);

impl Wanted {
    /// The rows that pass all of these conditions on rows with this schema.
    pub(crate) fn of(conditions: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Wanted {
        let all = (!conditions.is_empty()).then(|| conjunction(conditions.iter().cloned()));
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema));
        Wanted(all.and_then(|all| builder.build(all)))
    }

    /// By group of rows: whether some of them may be wanted. `None` if all are.
    pub fn among(&self, groups: &dyn PruningStatistics) -> Option<Vec<bool>> {
        self.0.as_ref()?.prune(groups).ok()
    }
}

/// One reading of a collection. Rows come in its order, which is the same each time.
pub trait Morsels: Send {
    /// The next rows; `None` at the end. Finding them is all the work that those who share a reading do one after the other: decoding
    /// them is the morsel's.
    fn next(&mut self) -> Result<Option<Box<dyn Morsel>>>;

    /// Of how many groups of rows it knows that they are not wanted, and among how many.
    fn left_out(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// Some rows, of bounded bytes, not decoded yet.
pub trait Morsel: Send {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The columns of a stage, in their order: of all rows, or of those at these positions, which ascend.
    fn columns(&self, stage: usize, rows: Option<&[usize]>) -> Result<Vec<ArrayRef>>;

    /// The columns of a stage as they are kept, if they are kept so, and which rows of them are its own, unless all are: where some have
    /// gone, to leave them out takes as long as to look at them.
    fn kept(&self, _stage: usize) -> Result<Option<(Vec<ArrayRef>, Option<BooleanArray>)>> {
        Ok(None)
    }

    /// Some rows of the columns of a stage, by where they stand in what is kept so.
    fn kept_some(&self, _stage: usize, _places: Places<'_>) -> Result<Vec<ArrayRef>> {
        internal_err!("no rows are kept as columns")
    }
}

/// Where some rows are among others.
#[derive(Clone, Copy, Debug)]
pub enum Places<'a> {
    /// Where this is true of those from this one on.
    Where(usize, &'a BooleanArray),
    /// At these positions, which ascend.
    At(&'a [usize]),
}

/// A collection whose rows are in memory, as columns.
#[derive(Debug)]
pub struct InMemory(pub RecordBatch);

struct OfBatch {
    batch: RecordBatch,
    stages: Vec<BTreeSet<usize>>,
}

impl Collection for InMemory {
    fn schema(&self) -> &SchemaRef {
        self.0.schema_ref()
    }

    fn row_count(&self) -> Precision<usize> {
        Precision::Exact(self.0.num_rows())
    }

    fn read(&self, stages: &[BTreeSet<usize>], _wanted: &Wanted) -> Result<Box<dyn Morsels>> {
        Ok(Box::new(Some(OfBatch { batch: self.0.clone(), stages: stages.to_vec() })))
    }
}

impl Morsels for Option<OfBatch> {
    fn next(&mut self) -> Result<Option<Box<dyn Morsel>>> {
        Ok(self.take().map(|batch| Box::new(batch) as Box<dyn Morsel>))
    }
}

impl Morsel for OfBatch {
    fn len(&self) -> usize {
        self.batch.num_rows()
    }

    fn columns(&self, stage: usize, rows: Option<&[usize]>) -> Result<Vec<ArrayRef>> {
        let columns = self.stages[stage].iter().map(|column| self.batch.column(*column));
        let Some(rows) = rows else { return Ok(columns.cloned().collect()) };
        let rows = UInt64Array::from_iter_values(rows.iter().map(|row| *row as u64));
        Ok(columns.map(|column| take(column, &rows, None)).collect::<std::result::Result<_, _>>()?)
    }
}
