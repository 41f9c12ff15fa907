//! A catalog collection as DataFusion sees it: a name for planning, and at run time whatever the reader gives.
//!
//! A plan must not hold data, because it is cached and run at many timestamps. So the table provider in a plan knows
//! only the collection's id and shape; when the plan runs, the reader of that one run, which knows the timestamp, is
//! taken from the session's configuration. It opens the collection, and [`CollectionExec`] asks that for rows, a *morsel* of
//! them at a time, and of each morsel for no column that nothing needs.

use crate::error::SqlError;
use crate::scan::CollectionExec;
use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::{DefaultTableSource, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableSource};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use repr::{GlobalId, RelationDesc};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Reads collections at the one timestamp of one execution.
#[async_trait]
pub trait CollectionReader: Send + Sync {
    /// About how many rows `id` has, where that is known without reading.
    fn row_count(&self, id: GlobalId) -> Option<usize>;

    /// Opens `id`. The filters are hints that say which rows are wanted: others may come as well.
    async fn open(&self, id: GlobalId, filters: &[Expr]) -> Result<Arc<dyn Collection>>;
}

/// A collection at one time.
pub trait Collection: fmt::Debug + Send + Sync {
    /// Its columns.
    fn schema(&self) -> &SchemaRef;

    /// How many rows it has. What is exact answers `count(*)`.
    fn row_count(&self) -> Precision<usize>;

    /// Begins to read, from the first row on. The columns of each morsel will be asked for in *stages*: those of the first stage, which
    /// tell for which rows those of the second are asked for, and so on.
    fn read(&self, stages: &[BTreeSet<usize>]) -> Result<Box<dyn Morsels>>;
}

/// One reading of a collection. Rows come in its order, which is the same each time.
pub trait Morsels: Send {
    /// The next rows; `None` at the end. Finding them is all the work that those who share a reading do one after the other: decoding
    /// them is the morsel's.
    fn next(&mut self) -> Result<Option<Box<dyn Morsel>>>;
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

    fn read(&self, stages: &[BTreeSet<usize>]) -> Result<Box<dyn Morsels>> {
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

/// The reader of this execution, as an extension of the session configuration.
#[derive(Clone)]
pub struct ReaderExtension(pub Arc<dyn CollectionReader>);

/// A collection in a logical plan.
#[derive(Clone, PartialEq, Eq)]
pub struct CollectionTable {
    /// The collection.
    pub id: GlobalId,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
}

impl CollectionTable {
    /// The table as the planner wants it.
    pub fn source(id: GlobalId, desc: Arc<RelationDesc>) -> Arc<dyn TableSource> {
        Arc::new(DefaultTableSource::new(Arc::new(CollectionTable { id, desc })))
    }

    /// The collection behind a table source of a plan, if it is one.
    pub fn from_source(source: &Arc<dyn TableSource>) -> Option<CollectionTable> {
        let source = (source.as_ref() as &dyn std::any::Any).downcast_ref::<DefaultTableSource>()?;
        (source.table_provider.as_ref() as &dyn std::any::Any).downcast_ref::<CollectionTable>().cloned()
    }
}

impl fmt::Debug for CollectionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectionTable({})", self.id)
    }
}

#[async_trait]
impl TableProvider for CollectionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.desc.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let reader = state
            .config()
            .get_extension::<ReaderExtension>()
            .ok_or_else(|| SqlError::internal(format!("no reader for collection {}", self.id)))?;
        let collection = reader.0.open(self.id, filters).await?;
        let schema = DFSchema::try_from(Arc::clone(collection.schema()))?;
        let physical =
            |filter| create_physical_expr(filter, &schema, state.execution_props(), &Default::default());
        let absorbed = filters.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let projection = projection.cloned().unwrap_or_else(|| (0..collection.schema().fields().len()).collect());
        // Rows that a filter above throws away are none of those that are enough.
        let fetch = limit.filter(|_| filters.is_empty());
        Ok(Arc::new(CollectionExec::new(self.id, collection, projection, absorbed, fetch)?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}
