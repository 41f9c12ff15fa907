//! A catalog collection as DataFusion sees it: a name for planning, and at run time whatever the reader gives.
//!
//! A plan must not hold data, because it is cached and run at many timestamps. So the table provider in a plan knows
//! only the collection's id and shape; when the plan runs, the reader of that one run, which knows the timestamp, is
//! taken from the session's configuration. It opens the collection, which a [`CollectionExec`] then scans.

use crate::error::SqlError;
use crate::estimate::Estimate;
use crate::morsels::{Collection, Wanted};
use crate::rules::guard::can_fail;
use crate::scan::{CollectionExec, Hints};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result, Statistics};
use datafusion::datasource::{DefaultTableSource, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableSource};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use repr::{GlobalId, RelationDesc};
use std::fmt;
use std::sync::Arc;

/// Reads collections at the one timestamp of one execution.
#[async_trait]
pub trait CollectionReader: Send + Sync {
    /// About how many rows of `id` have to be read for those that these filters leave, where that is known without reading.
    fn row_count(&self, id: GlobalId, filters: &[Expr]) -> Option<usize>;

    /// About how many rows it has, and what is known of the values of its columns. Nothing of it is exact.
    fn statistics(&self, id: GlobalId) -> Option<Arc<Statistics>>;

    /// Opens `id`. The filters are hints that say which rows are wanted: others may come as well.
    async fn open(&self, id: GlobalId, filters: &[Expr]) -> Result<Arc<dyn Collection>>;
}

/// The reader of this execution, as an extension of the session configuration.
pub(crate) struct ReaderExtension {
    pub(crate) reader: Arc<dyn CollectionReader>,
    /// Whether so much is read that it pays to look at what is known of it.
    pub(crate) is_large: bool,
}

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
        let extension = state
            .config()
            .get_extension::<ReaderExtension>()
            .ok_or_else(|| SqlError::internal(format!("no reader for collection {}", self.id)))?;
        let collection = extension.reader.open(self.id, filters).await?;
        let schema = DFSchema::try_from(Arc::clone(collection.schema()))?;
        let physical = |filter| create_physical_expr(filter, &schema, state.execution_props(), &Default::default());
        let absorbed = filters.iter().map(physical).collect::<Result<Vec<_>>>()?;
        // A condition that can fail is not to be spared rows by one that stands after it.
        let certain = filters.iter().take_while(|filter| !can_fail(filter)).count();
        let known = match extension.is_large {
            true => {
                let wanted = Wanted::of(&absorbed[..certain], collection.schema());
                let columns = extension.reader.statistics(self.id);
                let all = columns.as_deref().and_then(Estimate::of_rows);
                let selectivity = all.map(|all| all.passing(&schema, filters));
                Hints { certain, wanted: Arc::new(wanted), selectivity, columns }
            }
            false => Hints { certain, ..Hints::default() },
        };
        let projection = projection.cloned().unwrap_or_else(|| (0..collection.schema().fields().len()).collect());
        // Rows that a filter above throws away are none of those that are enough.
        let fetch = limit.filter(|_| filters.is_empty());
        Ok(Arc::new(CollectionExec::new(self.id, collection, projection, absorbed, fetch, known)?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}
