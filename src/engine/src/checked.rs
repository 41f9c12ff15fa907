//! The last check of a physical plan, and what is done if it fails.
//!
//! Sorts are left out where an order is plain: of a column that equals a constant, say. A later rule may move what made it plain
//! out of sight (it puts projections into joins and filters). Then the orders are seen to once more, and the plan is checked again.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's rules; before those that place sorts, one that hides from them what they take for more than it is and one that keeps
/// sorts; the last mends what it would refuse.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules = PhysicalOptimizer::new().rules;
    let last = rules.pop();
    debug_assert!(last.is_some_and(|last| last.name() == SanityCheckPlan::new().name()), "the check is the last rule");
    rules.push(Arc::new(Checked));
    before_placing(&mut rules, Arc::new(super::constants::HideConstants));
    before_placing(&mut rules, Arc::new(super::sorts::KeepSorts));
    rules
}

/// Puts a rule before the one that places sorts.
pub(super) fn before_placing(rules: &mut Vec<Rule>, rule: Rule) {
    let placing = rules.iter().position(|rule| rule.name() == EnsureRequirements::new().name());
    rules.insert(placing.expect("some rule places sorts"), rule);
}

#[derive(Debug)]
struct Checked;

impl PhysicalOptimizerRule for Checked {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let check = SanityCheckPlan::new();
        check
            .optimize(Arc::clone(&plan), config)
            .or_else(|_| check.optimize(EnsureRequirements::new().optimize(plan, config)?, config))
    }

    fn name(&self) -> &'static str {
        "checked"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
