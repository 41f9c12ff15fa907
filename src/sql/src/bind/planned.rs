//! A bound query.

use super::Origin;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use engine::error::SqlError;
use repr::RelationDesc;
use std::sync::Arc;

/// A bound query: what to run, and what the client sees of it.
#[derive(Clone, Debug)]
pub struct PlannedQuery {
    /// The plan. Its columns are those of `desc`, in order, under names that DataFusion needs to be unique.
    pub plan: LogicalPlan,
    /// The client's view: Postgres's output names (duplicates are legal) and types. Its schema has the same names and
    /// the plan's Arrow types.
    pub desc: RelationDesc,
    /// For each column, the column of a relation of the catalog that it is, if it is nothing else.
    pub origins: Vec<Option<Origin>>,
}

impl PlannedQuery {
    /// The first `columns` of its columns.
    pub fn truncated(self, columns: usize) -> Result<PlannedQuery, SqlError> {
        if columns >= self.desc.arity() {
            return Ok(self);
        }
        let indices: Vec<usize> = (0..columns).collect();
        let mut desc = RelationDesc::from_schema(Arc::new(self.desc.schema.project(&indices)?));
        desc.columns = self.desc.columns[..columns].to_vec();
        let plan = LogicalPlanBuilder::from(self.plan).select(indices)?.build()?;
        let mut origins = self.origins;
        origins.truncate(columns);
        Ok(PlannedQuery { plan, desc, origins })
    }
}
