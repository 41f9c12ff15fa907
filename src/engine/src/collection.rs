//! A catalog collection as DataFusion sees it: a name for planning, and at run time whatever the reader gives.
//!
//! A plan must not hold data, because it is cached and run at many timestamps. So the table provider in a plan knows
//! only the collection's id and shape; when the plan runs, the reader of that one run, which knows the timestamp, is
//! taken from the session's configuration.

use crate::error::SqlError;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{DefaultTableSource, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use repr::{GlobalId, RelationDesc};
use std::fmt;
use std::sync::Arc;

/// Reads collections at the one timestamp of one execution.
#[async_trait]
pub trait CollectionReader: Send + Sync {
    /// The rows of `id`, restricted to the columns of `projection`.
    ///
    /// Filters and the limit are hints: every filter is applied again above the scan.
    async fn scan(
        &self,
        id: GlobalId,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>>;
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
        reader.0.scan(self.id, projection, filters, limit, state).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}
