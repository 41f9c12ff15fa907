//! Unions whose inputs have different constants in one column.
//!
//! DataFusion knows that such a column is constant in each partition, which is an input of the union, and leaves the column out of
//! the sorts that it puts there. Their merge has it, but the bound that the sorts of a LIMIT share does not (`SortExec::filter`): rows of
//! one input are thrown away because of another's, or not, by which of them comes first. So the constants of such a union are not
//! told to what is above. (DataFusion 55.2; its pull request 23528 keeps such columns in the sorts.)

use super::through::{Through, through};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::equivalence::AcrossPartitions;
use datafusion::physical_expr::{ConstExpr, EquivalenceProperties};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use std::sync::Arc;

/// Puts [`Unlike`] above every such union. It goes before the rules that place sorts.
#[derive(Debug)]
pub(super) struct HideConstants;

impl PhysicalOptimizerRule for HideConstants {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let differs = |constant: &ConstExpr| constant.across_partitions == AcrossPartitions::Heterogeneous;
            Ok(match node.is::<UnionExec>() && node.equivalence_properties().constants().iter().any(differs) {
                true => Transformed::yes(through(node, Unlike)),
                false => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "hide_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of a union, of which nothing else is known.
#[derive(Debug)]
struct Unlike;

impl Through for Unlike {
    const NAME: &'static str = "UnlikeExec";
    const KEEPS_ORDER: bool = false;

    fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let nothing = EquivalenceProperties::new(input.schema());
        Arc::new(input.properties().as_ref().clone().with_eq_properties(nothing))
    }

    fn through(&self, input: SendableRecordBatchStream, _name: &str) -> SendableRecordBatchStream {
        input
    }
}
