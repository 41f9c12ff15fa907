//! Rules that know of no functional dependencies.
//!
//! DataFusion keeps with a schema which columns determine which, and drops DISTINCTs, group keys and joins because of them. What it says
//! of an aggregate is wrong where a column that was unique once goes through a join and is grouped by beside another:
//! `SELECT DISTINCT k FROM (SELECT d.k FROM (SELECT DISTINCT k FROM t) d CROSS JOIN u GROUP BY d.k, u.b)` keeps its duplicates (55.2,
//! `aggregate_functional_dependencies`). Every rule that makes an aggregate says so anew, so no rule is shown what was said before.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{FunctionalDependencies, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The same rule, of a plan without functional dependencies.
pub fn unaware(rule: Rule) -> Rule {
    Arc::new(Unaware(rule))
}

#[derive(Debug)]
struct Unaware(Rule);

impl OptimizerRule for Unaware {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = match self.apply_order() {
            // It walks through the plan by itself.
            None => plan.transform_down_with_subqueries(forget)?.data,
            Some(_) if plan.inputs().into_iter().any(has_dependencies) => {
                plan.map_children(|input| input.transform_down(forget_at_top))?.data
            }
            Some(_) => plan,
        };
        self.0.rewrite(plan, config)
    }
}

fn has_dependencies(plan: &LogicalPlan) -> bool {
    !plan.schema().functional_dependencies().is_empty()
}

/// The first nodes of a plan that have a schema of their own, without dependencies.
fn forget_at_top(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut node = forget(node)?;
    if !has_dependencies(&node.data) {
        node.tnr = TreeNodeRecursion::Jump;
    }
    Ok(node)
}

/// A node without dependencies, if it has a schema of its own.
fn forget(mut node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_dependencies(&node) {
        return Ok(Transformed::no(node));
    }
    let schema = match &mut node {
        LogicalPlan::Aggregate(aggregate) => &mut aggregate.schema,
        LogicalPlan::Join(join) => &mut join.schema,
        LogicalPlan::Projection(projection) => &mut projection.schema,
        LogicalPlan::SubqueryAlias(alias) => &mut alias.schema,
        LogicalPlan::Unnest(unnest) => &mut unnest.schema,
        LogicalPlan::Window(window) => &mut window.schema,
        _ => return Ok(Transformed::no(node)),
    };
    let unaware = schema.as_ref().clone().with_functional_dependencies(FunctionalDependencies::empty())?;
    *schema = Arc::new(unaware);
    Ok(Transformed::yes(node))
}
