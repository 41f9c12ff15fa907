//! Sorts that nothing above asks for, and that are kept all the same.
//!
//! What reads the rows of `(SELECT … ORDER BY …)` may depend on their order without saying so: OFFSET, which skips the first,
//! `array_agg`, `row_number() OVER ()`. To DataFusion's rules a sort without LIMIT is only there for operators that require its
//! order, and goes where none does. So above every such sort there is an operator that requires its order, as one of PostgreSQL's
//! plans would have it; and above every OFFSET without LIMIT there is one below which no sort of what is above it is put.

use super::through::{Through, through};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// Puts [`InOrder`] above every sort, and [`Skipped`] above every OFFSET. It goes before the rules that place sorts.
#[derive(Debug)]
pub(super) struct KeepSorts;

impl PhysicalOptimizerRule for KeepSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if node.downcast_ref::<GlobalLimitExec>().is_some_and(|limit| limit.fetch().is_none()) {
                return Ok(Transformed::yes(through(node, Skipped)));
            }
            let sort = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none());
            let order = sort.map(|sort| OrderingRequirements::from(sort.expr().clone()));
            Ok(match order {
                Some(order) => Transformed::yes(through(node, InOrder(order))),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "keep_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of an operator, in an order.
#[derive(Debug)]
struct InOrder(OrderingRequirements);

impl Through for InOrder {
    const NAME: &'static str = "InOrderExec";
    // Otherwise the order that something above requires would be made below, in place of this one.
    const KEEPS_ORDER: bool = false;

    fn order(&self) -> Option<OrderingRequirements> {
        Some(self.0.clone())
    }
}

/// The rows that an OFFSET has left: which these are depends on the order before it.
#[derive(Debug)]
struct Skipped;

impl Through for Skipped {
    const NAME: &'static str = "SkippedExec";
    const KEEPS_ORDER: bool = false;
}
