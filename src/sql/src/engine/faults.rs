//! Panics on purpose inside a running query: between any two of its operators, at any batch, where `misc/bugs` asks for them.
//!
//! What a test wants to see is that such a query fails, and that nothing of it is answered or committed.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// The plan that runs: every operator of it may panic, if that is wanted.
pub(super) fn with_faults(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if !bugs::are_wanted() {
        return Ok(plan);
    }
    plan.transform_up(|inner| Ok(Transformed::yes(Arc::new(FaultyExec { inner }) as Arc<dyn ExecutionPlan>))).data()
}

/// An operator that sometimes panics instead of giving a batch.
#[derive(Debug)]
struct FaultyExec {
    inner: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for FaultyExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyExec: ")?;
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for FaultyExec {
    fn name(&self) -> &'static str {
        "FaultyExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
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
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(FaultyExec { inner }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (name, stream) = (self.inner.name().to_owned(), self.inner.execute(partition, context)?);
        let (schema, batches) = (stream.schema(), stream.inspect(move |_| bugs::panic_sometimes(&name)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
