//! In how many partitions a query runs.
//!
//! In as many as there are threads for it, if it has rows enough for that to pay, and if nobody can see in which order they come. What
//! sees the order of its rows (a LIMIT without ORDER BY, `array_agg`, a sum of floats, row numbers, a sequence) runs over one ordered
//! stream: the same rows give the same answer then, as users of PostgreSQL expect.

use crate::collection::{CollectionReader, CollectionTable};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan};
use std::collections::HashSet;

/// With fewer rows than this, one thread is done before others have begun. Where tests run, every row is worth it.
const ROWS_MIN: usize = if cfg!(debug_assertions) { 1 } else { 50_000 };

/// Aggregates whose result does not depend on the order of their rows, unless these are floats.
const UNORDERED: [&str; 8] = ["count", "sum", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or"];

/// How many partitions a plan is to have, of `max`.
pub(super) fn partitions(plan: &LogicalPlan, reader: &dyn CollectionReader, max: usize) -> Result<usize> {
    let is_worth_it = max > 1 && rows(plan, reader)?.is_some_and(|rows| rows >= ROWS_MIN);
    if !is_worth_it || sees_order(plan)? || ore::sometimes(20) {
        return Ok(1);
    }
    // The answer must not depend on how many there are.
    Ok(if ore::sometimes(30) { 7 } else { max })
}

/// About how many rows the scans of a plan give; `None` if it reads nothing.
fn rows(plan: &LogicalPlan, reader: &dyn CollectionReader) -> Result<Option<usize>> {
    let mut rows: Option<usize> = None;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(of_scan) = CollectionTable::from_source(&scan.source).and_then(|of| reader.row_count(of.id))
        {
            rows = Some(rows.unwrap_or(0).saturating_add(of_scan));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows)
}

/// Whether the order in which rows come can be told from what a plan gives, but for the order of that.
fn sees_order(plan: &LogicalPlan) -> Result<bool> {
    let last = sort_below(plan);
    let mut sees = false;
    plan.apply_with_subqueries(|node| {
        sees |= match node {
            // The first rows, or what a user has sorted for whatever comes above.
            LogicalPlan::Limit(limit) => sort_below(&limit.input).is_none(),
            LogicalPlan::TableScan(scan) => scan.fetch.is_some(),
            LogicalPlan::Sort(sort) => sort.fetch.is_none() && !last.is_some_and(|last| std::ptr::eq(last, node)),
            LogicalPlan::Aggregate(aggregate) => aggregate_sees_order(aggregate)?,
            LogicalPlan::Distinct(Distinct::On(_)) | LogicalPlan::Window(_) | LogicalPlan::Extension(_) => true,
            _ => false,
        };
        sees |= node.expressions().iter().any(Expr::is_volatile);
        Ok(if sees { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(sees)
}

/// The sort that gives a plan's rows their order.
fn sort_below(mut plan: &LogicalPlan) -> Option<&LogicalPlan> {
    loop {
        plan = match plan {
            LogicalPlan::Sort(_) => return Some(plan),
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Limit(limit) => &limit.input,
            _ => return None,
        };
    }
}

fn aggregate_sees_order(aggregate: &Aggregate) -> Result<bool> {
    let mut sees = false;
    for expr in &aggregate.aggr_expr {
        let is_float = |expr: &Expr| {
            let data_type = expr.get_type(aggregate.input.schema());
            Ok::<_, DataFusionError>(matches!(data_type?, DataType::Float16 | DataType::Float32 | DataType::Float64))
        };
        expr.apply(|node| {
            if let Expr::AggregateFunction(call) = node {
                sees |= !UNORDERED.contains(&call.func.name()) || is_float(node)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(sees)
}

/// Whether two columns of some node's result have the same name. DataFusion then takes one for the other where it hands a filter that a
/// join has found out to what reads the rows (`ChildFilterDescription::from_child`, DataFusion 55.2).
pub(super) fn has_namesakes(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    plan.apply_with_subqueries(|node| {
        let mut names = HashSet::new();
        has |= node.schema().fields().iter().any(|field| !names.insert(field.name().as_str()));
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

#[cfg(test)]
mod tests {
    use super::{has_namesakes, sees_order};
    use crate::collection::CollectionTable;
    use datafusion::common::JoinType;
    use datafusion::functions_aggregate::expr_fn::{array_agg, avg, count, max, sum};
    use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col, lit};
    use repr::{GlobalId, PgType, RelationDesc};
    use std::sync::Arc;

    fn scan(name: &str) -> LogicalPlanBuilder {
        let columns = [("a", PgType::Int4), ("f", PgType::Float8)];
        let desc = RelationDesc::new(columns.map(|(name, ty)| (name.to_owned(), ty, true)));
        let source = CollectionTable::source(GlobalId::User(1), Arc::new(desc));
        LogicalPlanBuilder::scan(name, source, None).expect("it is a table")
    }

    fn built(plan: datafusion::common::Result<LogicalPlanBuilder>) -> LogicalPlan {
        plan.and_then(LogicalPlanBuilder::build).expect("the plan is sound")
    }

    #[test]
    fn who_sees_the_order_of_rows_is_known() {
        let none = Vec::<datafusion::logical_expr::Expr>::new;
        let sees = |plan| sees_order(&built(plan)).expect("it is a plan");
        assert!(!sees(Ok(scan("t"))));
        assert!(!sees(scan("t").aggregate(none(), [count(lit(1)), sum(col("a")), max(col("a"))])));
        assert!(sees(scan("t").aggregate(none(), [sum(col("f"))])), "a sum of floats");
        assert!(sees(scan("t").aggregate(none(), [avg(col("f"))])), "an average of floats");
        assert!(sees(scan("t").aggregate(none(), [array_agg(col("a"))])), "a list");
        assert!(sees(scan("t").limit(0, Some(3))), "the first of all");
        let sorted = || scan("t").sort([col("a").sort(true, false)]);
        assert!(!sees(sorted()), "the order of the result");
        assert!(!sees(sorted().and_then(|sorted| sorted.limit(0, Some(3)))), "the first in an order");
        let below = sorted().and_then(|sorted| sorted.filter(col("a").gt(lit(1))));
        assert!(sees(below), "an order for what is above");
    }

    #[test]
    fn columns_with_the_same_name_are_noticed() {
        let has = |plan| has_namesakes(&built(plan)).expect("it is a plan");
        assert!(!has(Ok(scan("t"))));
        let other = scan("u").build().expect("it is a table");
        assert!(has(scan("t").join(other, JoinType::Inner, (vec!["t.a"], vec!["u.a"]), None)));
    }
}
