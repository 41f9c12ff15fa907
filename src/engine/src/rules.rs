//! The optimizer's rules, and what is done to a plan before them.
//!
//! The rules are DataFusion's, but for those about subqueries, which know fewer forms and less of NULL than SQL has:
//! subqueries become joins before ([`unnest`]). Also before them, a filter's conjuncts that can fail are guarded by those
//! written before them ([`guard`]), because Postgres tests a row's conditions from left to right and users rely on it
//! (`WHERE b <> 0 AND a / b > 1`), while DataFusion evaluates them over whole batches. Between the two, each dialect does what it has to.

pub mod apart;
pub mod dependencies;
pub mod equijoin;
pub mod guard;
pub mod having;
pub mod interruptible;
mod or_null;
pub mod semi;
pub mod sort;
pub mod unnest;
pub mod window;
pub mod zeros;

use crate::dialect::Dialects;
use crate::error::SqlError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rules that are not used: what they rewrite is gone, or rewritten by a rule of ours.
const LEFT_OUT: [&str; 4] =
    ["rewrite_set_comparison", "decorrelate_predicate_subquery", "scalar_subquery_to_join", "decorrelate_lateral_join"];

/// The optimizer: DataFusion's rules, some of them replaced by ours, none of which trusts what DataFusion says is unique.
pub fn optimizer() -> Optimizer {
    let rules = Optimizer::new().rules.into_iter().filter(|rule| !LEFT_OUT.contains(&rule.name()));
    let rules = rules.map(|rule| -> Arc<dyn OptimizerRule + Send + Sync> {
        match rule.name() {
            "extract_equijoin_predicate" => Arc::new(equijoin::JoinKeys),
            "eliminate_cross_join" => Arc::new(apart::JoinsApart::default()),
            "push_down_filter" => Arc::new(having::PushDownFilterToGroups::default()),
            _ => rule,
        }
    });
    Optimizer::with_rules(rules.map(|rule| interruptible::interruptible(dependencies::unaware(rule))).collect())
}

/// What is done once more to an optimised plan when constants have taken the place of its parameters: conditions are computed as far as
/// they can be, what alternatives have in common is taken out, and conditions go down to what they are about.
pub fn for_constants() -> Optimizer {
    let wanted = ["simplify_expressions", "push_down_filter"];
    Optimizer::with_rules(optimizer().rules.into_iter().filter(|rule| wanted.contains(&rule.name())).collect())
}

/// Rewrites a bound plan before the optimizer sees it.
pub fn prepare(plan: LogicalPlan, dialects: Dialects) -> Result<LogicalPlan, SqlError> {
    let plan = window::drop_partition_keys(sort::drop_inner_sorts(unnest::unnest(plan)?)?)?;
    guard::guard_filters(dialects.iter().try_fold(plan, |plan, dialect| dialect.prepare(plan))?)
}

/// Rewrites an optimized plan for what runs it.
pub fn finish(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let plan = or_null::subqueries_or_null(semi::push_down_semi_joins(plan)?)?;
    Ok(window::widen_empty_rows(zeros::one_zero(equijoin::null_matching_keys(plan)?)?)?)
}
