//! Pacing: no step of a running query makes very much at once, and none goes on for long without giving others a turn.
//!
//! What multiplies rows would do both if left alone. A function in FROM is a list computed beside each row, which is unnested
//! then: over a batch of 8192 rows, lists of a million elements are more than there is memory for. So the lists are computed
//! for few rows at a time ([`ListsExec`]). And a join, or such a list, can make millions of batches of one batch of its input,
//! while DataFusion lets only what reads the input give way, so that a query could not be cancelled and the others that share
//! its thread would wait: so each batch that they make counts as well. Functions that may make much of little are given few
//! rows at a time as well ([`Slices`]).

use super::compact::Compact;
use super::slices::Slices;
use super::through::through;
use crate::dialect::{Dialects, is_long};
use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt, ready};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The most rows whose lists, or values of which the same is true, are computed at once: they may all be much longer than those
/// before.
const ROWS_MAX: usize = 64;

/// The most groups that are kept apart from the others because they come first.
const FIRST_GROUPS_MAX: usize = 100_000;

/// Paces a physical plan. It has to be the last rule: others know the nodes by their types.
#[derive(Debug)]
pub(super) struct Pace {
    /// Whose functions they are.
    pub(super) dialects: Dialects,
}

impl PhysicalOptimizerRule for Pace {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let paced = paced(&plan, self.dialects)?;
            // Only of what is said to have changed, DataFusion takes notice.
            let has_changed = !Arc::ptr_eq(&paced, &plan);
            Ok(Transformed::new_transformed(paced, has_changed))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "pace"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A node over paced children, paced.
fn paced(plan: &Arc<dyn ExecutionPlan>, dialects: Dialects) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(unnest) = plan.downcast_ref::<UnnestExec>() {
        let lists = few_at_a_time(unnest.input())?;
        return Ok(Arc::new(CooperativeExec::new(replace_children_if_necessary(Arc::clone(plan), vec![lists])?)));
    }
    let mut plan = with_own_input(without_room_for_all(Arc::clone(plan)))?;
    if makes_much(plan.as_ref(), dialects)? {
        let slices = |child: &Arc<dyn ExecutionPlan>| through(Arc::clone(child), Slices { rows_max: ROWS_MAX });
        let children = plan.children().into_iter().map(slices).collect();
        plan = replace_children_if_necessary(plan, children)?;
    }
    if multiplies(plan.as_ref()) {
        plan = Arc::new(CooperativeExec::new(plan));
    }
    Ok(plan)
}

/// What keeps sorted rows, or rows to be sorted, has them as its own.
fn with_own_input(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let keeps = plan.is::<SortPreservingMergeExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none());
    let is_for = |input: &&Arc<dyn ExecutionPlan>| {
        input.schema().fields().iter().any(|field| Compact::is_for(field.data_type()))
    };
    if !keeps || !plan.children().iter().any(is_for) {
        return Ok(plan);
    }
    let inputs = plan.children().into_iter().map(|input| match is_for(&input) {
        true => through(Arc::clone(input), Compact),
        false => Arc::clone(input),
    });
    let inputs = inputs.collect();
    replace_children_if_necessary(plan, inputs)
}

/// The plan, of which no node takes memory by the number in a LIMIT: groups of which only the first are wanted are kept in a heap that
/// is as large as all that are wanted could be.
fn without_room_for_all(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<AggregateExec>() {
        Some(groups) if groups.limit_options().is_some_and(|options| options.limit() > FIRST_GROUPS_MAX) => {
            Arc::new(groups.with_new_limit_options(None))
        }
        _ => plan,
    }
}

/// Whether a node can give many rows for each of its input.
fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>()
}

/// Whether a node computes what may make much of little.
fn makes_much(plan: &dyn ExecutionPlan, dialects: Dialects) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(&mut |expr| {
        expr.apply(|part| {
            let call = part.downcast_ref::<ScalarFunctionExpr>();
            found |= call.is_some_and(|call| is_long(dialects, call.fun()));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// The projections that a node begins with, computed for few rows at a time.
fn few_at_a_time(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(Arc::clone(plan)) };
    let input = few_at_a_time(projection.input())?;
    let projection = replace_children_if_necessary(Arc::clone(plan), vec![input])?;
    Ok(Arc::new(ListsExec { projection }))
}

/// A projection with lists among its columns, of as many rows at a time as make about one batch when they are unnested.
#[derive(Debug)]
struct ListsExec {
    /// A [`ProjectionExec`].
    projection: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for ListsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListsExec: ")?;
        self.projection.fmt_as(format, f)
    }
}

impl ExecutionPlan for ListsExec {
    fn name(&self) -> &'static str {
        "ListsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.projection.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ListsExec { projection: Arc::clone(&self.projection).replace_children(children, options)? }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(projection) = self.projection.downcast_ref::<ProjectionExec>() else {
            return internal_err!("lists are made by a projection");
        };
        let input = projection.input().execute(partition, Arc::clone(&context))?;
        Ok(Box::pin(Lists {
            batch: RecordBatch::new_empty(input.schema()),
            input,
            exprs: projection.expr().iter().map(|column| Arc::clone(&column.expr)).collect(),
            schema: self.schema(),
            elements: context.session_config().batch_size(),
            done: 0,
            rows: 1,
        }))
    }
}

/// What [`ListsExec`] gives.
struct Lists {
    input: SendableRecordBatchStream,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    /// How many elements the lists of one column are to have together.
    elements: usize,
    /// The input's latest batch.
    batch: RecordBatch,
    /// How many of its rows are done.
    done: usize,
    /// How many are next.
    rows: usize,
}

impl Lists {
    /// The next rows of the batch.
    fn project(&mut self) -> Result<RecordBatch> {
        let rows = self.rows.min(self.batch.num_rows() - self.done);
        let batch = self.batch.slice(self.done, rows);
        self.done += rows;
        let columns =
            self.exprs.iter().map(|expr| expr.evaluate(&batch)?.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let elements = columns.iter().map(|column| elements(column.as_ref())).max().unwrap_or(0);
        let each = elements.div_ceil(rows).max(1);
        self.rows = (self.elements / each).clamp(1, ROWS_MAX.min(rows * 2));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// How many elements the lists of a column have; of any other column, none.
fn elements(column: &dyn Array) -> usize {
    match column.data_type() {
        DataType::List(_) => {
            let offsets = column.as_list::<i32>().value_offsets();
            let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
            usize::try_from(last - first).unwrap_or(0)
        }
        _ => 0,
    }
}

impl Stream for Lists {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while self.done == self.batch.num_rows() {
            match ready!(self.input.poll_next_unpin(cx)) {
                Some(Ok(batch)) => (self.batch, self.done) = (batch, 0),
                end => return Poll::Ready(end),
            }
        }
        Poll::Ready(Some(self.project()))
    }
}

impl RecordBatchStream for Lists {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
