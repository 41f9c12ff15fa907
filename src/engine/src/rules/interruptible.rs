//! Lets the optimizer be interrupted: before each rule looks at a plan, the statement's session is asked whether it is to end.

use crate::SessionInfo;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The same rule, which ends with 57014 if its statement is to end.
pub fn interruptible(rule: Rule) -> Rule {
    Arc::new(Interruptible(rule))
}

#[derive(Debug)]
struct Interruptible(Rule);

impl OptimizerRule for Interruptible {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let Some(session) = SessionInfo::from_config(&config.options()) {
            session.check_interrupts()?;
        }
        self.0.rewrite(plan, config)
    }
}
