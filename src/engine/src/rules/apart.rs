//! DataFusion's rule that takes inner joins apart and puts them together anew, kept from forgetting what it cannot place.
//!
//! The rule looks for keys between what is joined already and one relation more, and drops those that it never finds (DataFusion 55): one
//! side of them is about several relations, as in `a JOIN b ON a.x < b.x JOIN c ON c.y = a.y + b.y`, or about none. Here such keys are
//! conditions when the rule comes, which stay; [`super::equijoin`] makes keys of them again when everything else is done.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub struct JoinsApart(EliminateCrossJoin);

impl OptimizerRule for JoinsApart {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let kept = plan.transform_down_with_subqueries(with_conditions)?;
        let mut rewritten = self.0.rewrite(kept.data, config)?;
        rewritten.transformed |= kept.transformed;
        Ok(rewritten)
    }
}

/// Makes conditions of an inner join's keys that the rule may not place.
fn with_conditions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut join = match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && !join.on.is_empty() => join,
        other => return Ok(Transformed::no(other)),
    };
    let mut relations = Vec::new();
    of_region(&join.left, &mut relations);
    of_region(&join.right, &mut relations);
    let is_of_one = |side: &Expr| {
        let columns = side.column_refs();
        let has_all = |of: &&LogicalPlan| columns.iter().all(|column| of.schema().has_column(column));
        !columns.is_empty() && relations.iter().any(has_all)
    };
    let keys = std::mem::take(&mut join.on);
    let (keys, others): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|(left, right)| is_of_one(left) && is_of_one(right));
    join.on = keys;
    if others.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let op = match join.null_equality {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    let others = others
        .into_iter()
        .map(|(left, right)| Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) }));
    join.filter = conjunction(join.filter.into_iter().chain(others));
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// The relations that the rule puts together anew.
fn of_region<'p>(plan: &'p LogicalPlan, relations: &mut Vec<&'p LogicalPlan>) {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            of_region(&join.left, relations);
            of_region(&join.right, relations);
        }
        other => relations.push(other),
    }
}
