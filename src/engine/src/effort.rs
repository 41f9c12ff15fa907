//! How much planning a statement takes, and whether that is little.
//!
//! What is planned where others wait for the thread must be little, and that is known only as it goes on: a short text may name a view
//! over two hundred relations, or expressions that multiply. So whoever plans there hands an [`Effort`] to the planner, which refuses
//! to go beyond what is little; the statement is then planned again where nobody waits. There the same thing sees to it that what
//! multiplies comes to an end.
//!
//! A plan is looked at again when it is there ([`is_small`]): to bind parameters to a large one, or to look for all of its keys,
//! takes as long as to plan it.

use crate::error::SqlError;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use repr::sqlstate::SqlState;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The relations that a small statement reads at the most, those in views counted as often as they are named.
pub const SMALL_RELATIONS: usize = 8;
/// The nodes of plan and expressions that it has at the most.
pub const SMALL_NODES: usize = 1_000;
/// The relations that any statement reads at the most. Views upon views multiply them.
const RELATIONS_MAX: usize = 20_000;
/// The nodes that it has at the most. Common table expressions upon each other multiply them.
const NODES_MAX: usize = 20_000_000;

/// What the planning of one statement has taken so far, and may take.
#[derive(Debug)]
pub struct Effort {
    only_small: bool,
    relations: AtomicUsize,
    /// Nodes of queries that were read once more, under other names.
    copied: AtomicUsize,
    refused: AtomicBool,
}

impl Effort {
    /// Of a planner on a thread that others wait for: what is not small is refused.
    pub fn small() -> Effort {
        Effort {
            only_small: true,
            relations: AtomicUsize::new(0),
            copied: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
        }
    }

    /// Of a planner for which nobody waits.
    pub fn any() -> Effort {
        Effort { only_small: false, ..Effort::small() }
    }

    /// Whether the statement was refused for what it would have taken.
    pub fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a relation that is read. Error 54001 if they are too many.
    pub fn relation(&self) -> Result<(), SqlError> {
        let relations = self.relations.fetch_add(1, Ordering::Relaxed) + 1;
        self.check(relations <= if self.only_small { SMALL_RELATIONS } else { RELATIONS_MAX })
    }

    /// Counts a query that is read by its name, and is there as often. Error 54001 if such queries have too many nodes together.
    pub fn copied(&self, plan: &LogicalPlan) -> Result<(), SqlError> {
        let most = if self.only_small { SMALL_NODES } else { NODES_MAX };
        let copied = self.copied.fetch_add(nodes(plan, most)?, Ordering::Relaxed);
        self.check(copied <= most)
    }

    /// Looks at a bound plan. Error 54001 if it is too large.
    pub fn plan(&self, plan: &LogicalPlan) -> Result<(), SqlError> {
        let most = if self.only_small { SMALL_NODES } else { NODES_MAX };
        self.check(nodes(plan, most)? <= most)
    }

    fn check(&self, is_within: bool) -> Result<(), SqlError> {
        if is_within {
            return Ok(());
        }
        self.refused.store(true, Ordering::Relaxed);
        Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is too complex"))
    }
}

/// Whether a plan has so few nodes that whatever looks at all of them is soon done.
pub fn is_small(plan: &LogicalPlan) -> bool {
    nodes(plan, SMALL_NODES).is_ok_and(|nodes| nodes <= SMALL_NODES)
}

/// How many nodes a plan and its expressions have together; more than `most` are not counted further.
fn nodes(plan: &LogicalPlan, most: usize) -> DfResult<usize> {
    let mut count = 0;
    let next = |count: usize| if count > most { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue };
    plan.apply_with_subqueries(|node| {
        count += 1;
        node.apply_expressions(|expr| {
            expr.apply(|_| {
                count += 1;
                Ok(next(count))
            })
        })?;
        Ok(next(count))
    })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::{Effort, RELATIONS_MAX, SMALL_NODES, SMALL_RELATIONS, is_small, nodes};
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};

    #[test]
    fn a_small_statement_reads_few_relations() {
        let (small, any) = (Effort::small(), Effort::any());
        for _ in 0..SMALL_RELATIONS {
            small.relation().expect("few");
            any.relation().expect("few");
        }
        assert!(!small.has_refused());
        assert!(small.relation().is_err() && small.has_refused());
        for _ in SMALL_RELATIONS..RELATIONS_MAX {
            any.relation().expect("many");
        }
        assert!(!any.has_refused());
        assert!(any.relation().is_err() && any.has_refused());
    }

    #[test]
    fn a_small_statement_has_few_nodes() {
        let plan = |values: i32| {
            let row = (0..values).map(lit).collect();
            LogicalPlanBuilder::values(vec![row]).and_then(LogicalPlanBuilder::build).expect("it is a plan")
        };
        assert_eq!(nodes(&plan(3), 100).expect("they are counted"), 4);
        assert_eq!(nodes(&plan(300), 100).expect("they are counted"), 101);
        let small = Effort::small();
        assert!(small.plan(&plan(10)).is_ok() && is_small(&plan(10)));
        let large = plan(i32::try_from(SMALL_NODES).expect("few") + 1);
        assert!(small.plan(&large).is_err() && !is_small(&large));
        assert!(Effort::any().plan(&large).is_ok());
    }
}
