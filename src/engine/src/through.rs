//! Operators that give their input's rows, and do something with its batches on the way.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// What is done with the batches. The rows, and their order, stay.
pub(super) trait Through: fmt::Debug + Send + Sync + 'static {
    /// The operator's name.
    const NAME: &'static str;

    /// Whether what is above may rely on the order of the input.
    const KEEPS_ORDER: bool = true;

    /// Whether the input begins when the first of its batches is asked for, and not before.
    const BEGINS_LATE: bool = false;

    /// The order in which the input's rows have to come.
    fn order(&self) -> Option<OrderingRequirements> {
        None
    }

    /// What is known of the rows: all that is of the input's.
    fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// The batches of `input`, an operator's of that name; as they are, if nothing is done with them.
    fn through(&self, input: SendableRecordBatchStream, _name: &str) -> SendableRecordBatchStream {
        input
    }
}

/// An operator whose batches go through `step`.
#[derive(Debug)]
pub(super) struct ThroughExec<S> {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    step: Arc<S>,
}

/// An operator with the rows of `input`.
pub(super) fn through<S: Through>(input: Arc<dyn ExecutionPlan>, step: S) -> Arc<dyn ExecutionPlan> {
    with_step(input, Arc::new(step))
}

fn with_step<S: Through>(input: Arc<dyn ExecutionPlan>, step: Arc<S>) -> Arc<dyn ExecutionPlan> {
    Arc::new(ThroughExec { properties: S::properties(&input), input, step })
}

/// The input's batches, of which nothing is made before the first is asked for.
fn late(input: Arc<dyn ExecutionPlan>, partition: usize, context: Arc<TaskContext>) -> SendableRecordBatchStream {
    let schema = input.schema();
    let batches = futures::stream::once(async move { input.execute(partition, context) }).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// An operator that reads before it is asked to, and is not to.
#[derive(Debug)]
pub(super) struct Late;

impl Through for Late {
    const NAME: &'static str = "LateExec";
    const BEGINS_LATE: bool = true;
}

impl<S: Through> DisplayAs for ThroughExec<S> {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", S::NAME, self.step)
    }
}

impl<S: Through> ExecutionPlan for ThroughExec<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.step.order()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![S::KEEPS_ORDER]
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
        Ok(with_step(input, Arc::clone(&self.step)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = match S::BEGINS_LATE {
            true => late(Arc::clone(&self.input), partition, context),
            false => self.input.execute(partition, context)?,
        };
        Ok(self.step.through(input, self.input.name()))
    }
}
