//! Columns that DataFusion takes for constant and that are not: sorts leave them out.
//!
//! - A union whose inputs have different constants in one column. Each partition, which is an input, has one, so the sorts of the
//!   partitions do without the column; but the bound that the sorts of a LIMIT share (`SortExec::filter`) then does too: rows of one
//!   input are thrown away because of another's, or not, by which of them comes first. (DataFusion 55.2; its pull request 23528
//!   keeps such columns in the sorts.)
//! - An outer join with a column that is constant in an input. Rows without partner have NULL there, but the join tells of the
//!   constants of both inputs (`EquivalenceGroup::join`).
//! - A union of which one input has a constant there, and the others have not: a sort is taken apart into sorts of its inputs, and
//!   that one's leaves out the column, so that the union is not in the order that was asked for.
//!
//! Which inputs have constants may change with every rule. So of unions and outer joins nothing is told to what is above.

use super::through::{Through, through};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use std::sync::Arc;

/// Puts [`Untold`] above every such operator. It goes after the rule that says which joins are outer ones, left or right, and before those
/// that place sorts.
#[derive(Debug)]
pub(super) struct HideConstants;

impl PhysicalOptimizerRule for HideConstants {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(if may_have_false_constants(node.as_ref()) {
                Transformed::yes(through(node, Untold))
            } else {
                Transformed::no(node)
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

fn may_have_false_constants(node: &dyn ExecutionPlan) -> bool {
    let hashed = node.downcast_ref::<HashJoinExec>().map(HashJoinExec::join_type);
    let looped = || node.downcast_ref::<NestedLoopJoinExec>().map(NestedLoopJoinExec::join_type);
    let is_outer = |join: &JoinType| matches!(join, JoinType::Left | JoinType::Right | JoinType::Full);
    node.is::<UnionExec>() || hashed.or_else(looped).is_some_and(is_outer)
}

/// The rows of an operator, of which nothing else is known.
#[derive(Debug)]
struct Untold;

impl Through for Untold {
    const NAME: &'static str = "UntoldExec";
    const KEEPS_ORDER: bool = false;

    fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let nothing = EquivalenceProperties::new(input.schema());
        Arc::new(input.properties().as_ref().clone().with_eq_properties(nothing))
    }
}
