//! The optimizer's rules, and what is done to a plan before them.
//!
//! The rules are DataFusion's. Before them, a filter's conjuncts that can fail are guarded by those written before
//! them, because Postgres tests a row's conditions from left to right and users rely on it
//! (`WHERE b <> 0 AND a / b > 1`), while DataFusion evaluates them over whole batches.

pub mod correlation;
pub mod guard;

use crate::error::SqlError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;

/// DataFusion's optimizer.
pub fn optimizer() -> Optimizer {
    Optimizer::new()
}

/// Rewrites a bound plan before the optimizer sees it.
pub fn prepare(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    guard::guard_filters(correlation::simplify(plan)?)
}
