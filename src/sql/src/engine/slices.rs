//! Batches in slices: the input of an operator that may make much of little.
//!
//! What `repeat` or `replace` makes of a batch of 8192 rows may be more than there is memory for, where a few rows at a time
//! are no trouble: the operator above takes in what it needs of them.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// Gives its input's rows in batches of at most so many.
#[derive(Debug)]
pub(super) struct SlicesExec {
    input: Arc<dyn ExecutionPlan>,
    rows_max: usize,
}

impl SlicesExec {
    /// The rows of `input`, at most `rows_max` at a time.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, rows_max: usize) -> SlicesExec {
        SlicesExec { input, rows_max }
    }
}

impl DisplayAs for SlicesExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlicesExec: rows={}", self.rows_max)
    }
}

impl ExecutionPlan for SlicesExec {
    fn name(&self) -> &'static str {
        "SlicesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(SlicesExec { input, rows_max: self.rows_max }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows_max = self.rows_max;
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let slices = input.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(rows_max);
            futures::stream::iter(starts.map(move |from| {
                let rows = rows_max.min(batch.num_rows() - from);
                Ok(batch.slice(from, rows))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, slices.try_flatten().boxed())))
    }
}
