//! DataFusion's rule that pushes filters down, kept from pushing one below an aggregate that has a row for no rows: one
//! without groups, or with several sets of them, of which one may be empty.
//!
//! A condition on nothing but constants refers to none of the aggregates, so the rule takes it for one on the groups. But an
//! aggregate of no rows is a row: `SELECT count(*) FROM t HAVING NULL` has none, and would have one.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub struct PushDownFilterToGroups(PushDownFilter);

impl OptimizerRule for PushDownFilterToGroups {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Filter(filter) = &plan
            && gives_row_of_none(&filter.input)
        {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// Whether a plan is an aggregate that has a row for no rows, below other filters or not: of two filters the rule makes one and goes on
/// with it at once.
fn gives_row_of_none(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => gives_row_of_none(&filter.input),
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => {
            group_expr.is_empty() || matches!(group_expr[..], [Expr::GroupingSet(_)])
        }
        _ => false,
    }
}
