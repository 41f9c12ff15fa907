//! Join conditions that are equalities of the two sides become the join's keys.
//!
//! DataFusion's own rule makes keys of `IS NOT DISTINCT FROM` only where there is no plain equality, and it adds an equality
//! that comes later to keys that match NULL with NULL. Here both go together: if one key has to match NULLs, all do, and those
//! that must not are said to be there by the remaining condition.
//!
//! DataFusion takes inner joins apart and puts them together anew, and forgets then which keys match NULLs. So inner joins
//! get such keys when everything else is done ([`null_matching_keys`]).

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::{can_hash, conjunction, find_valid_equijoin_key_pair, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug, Default)]
pub struct JoinKeys;

/// A key of a join.
struct Key {
    left: Expr,
    right: Expr,
    /// Whether NULL matches NULL.
    nulls_match: bool,
}

impl OptimizerRule for JoinKeys {
    fn name(&self) -> &str {
        "join_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        with_keys(plan, |join, key| join.join_type != JoinType::Inner || !key.nulls_match)
    }
}

/// Gives the joins of an optimized plan, its subqueries included, the keys that match NULLs.
pub fn null_matching_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(|plan| with_keys(plan, |_, _| true))?.data)
}

/// Makes keys of a join's conditions where it may.
fn with_keys(plan: LogicalPlan, may: impl Fn(&Join, &Key) -> bool) -> Result<Transformed<LogicalPlan>> {
    let mut join = match plan {
        LogicalPlan::Join(join) if join.filter.is_some() => join,
        other => return Ok(Transformed::no(other)),
    };
    let (mut keys, mut rest) = (Vec::new(), Vec::new());
    for condition in join.filter.iter().flat_map(|filter| split_conjunction(filter)) {
        match key_of(condition, join.left.schema(), join.right.schema())? {
            Some(key) if may(&join, &key) => keys.push(key),
            _ => rest.push(condition.clone()),
        }
    }
    if keys.is_empty() {
        if join.null_aware && join.on.is_empty() {
            // NOT IN is an operator of keys; without one, it is a condition that no row may leave open.
            join.filter = conjunction(rest.into_iter().map(Expr::is_not_false));
            join.null_aware = false;
            return Ok(Transformed::yes(LogicalPlan::Join(join)));
        }
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let matched = join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty();
    let earlier = std::mem::take(&mut join.on);
    let earlier = earlier.into_iter().map(|(left, right)| Key { left, right, nulls_match: matched });
    let keys: Vec<Key> = earlier.chain(keys).collect();
    let nulls_match = keys.iter().any(|key| key.nulls_match);
    for key in keys {
        let must_be_there = nulls_match && !key.nulls_match;
        if must_be_there && key.left.nullable(join.left.schema())? && key.right.nullable(join.right.schema())? {
            rest.push(key.left.clone().is_not_null());
        }
        join.on.push((key.left, key.right));
    }
    join.filter = conjunction(rest);
    join.null_equality = if nulls_match { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing };
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// The key that a condition is, if it is one.
fn key_of(condition: &Expr, left: &DFSchema, right: &DFSchema) -> Result<Option<Key>> {
    let Expr::BinaryExpr(BinaryExpr { left: l, op: op @ (Operator::Eq | Operator::IsNotDistinctFrom), right: r }) =
        condition
    else {
        return Ok(None);
    };
    let Some((l, r)) = find_valid_equijoin_key_pair(l, r, left, right)? else { return Ok(None) };
    if !can_hash(&l.get_type(left)?) || !can_hash(&r.get_type(right)?) {
        return Ok(None);
    }
    // Where one side is never NULL there is nothing to match.
    let nulls_match = *op == Operator::IsNotDistinctFrom && l.nullable(left)? && r.nullable(right)?;
    Ok(Some(Key { left: l, right: r, nulls_match }))
}
