//! In how many partitions a query runs.
//!
//! In as many as there are threads for it, if it has rows enough for that to pay, if no other query has them, and if nobody can see in
//! which order they come. What
//! sees the order of its rows (a LIMIT without ORDER BY, `array_agg`, a sum of floats, row numbers, a sequence) runs over one ordered
//! stream: the same rows give the same answer then, as users of PostgreSQL expect.

use crate::collection::{CollectionReader, CollectionTable};
use crate::dialect::{Dialects, has_long, plan_has};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, TableScan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// With fewer rows than this, one thread is done before others have begun. Where tests run, every row is worth it.
const ROWS_MIN: usize = if cfg!(debug_assertions) { 1 } else { 50_000 };

/// Aggregates whose result does not depend on the order of their rows, unless these are floats.
const UNORDERED: [&str; 8] = ["count", "sum", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or"];

/// Bytes that a partition of a query should have: what sorts in it holds some batches at once.
const PARTITION_BYTES: usize = 64 << 20;

/// The threads that one query at a time can have all of. What a query has tasks for computes without its statement's turn: so that these
/// bound what is computed at once, all other queries go on in one task.
#[derive(Debug)]
pub(super) struct Crew {
    size: usize,
    /// So many partitions there is memory for.
    partitions_max: usize,
    is_taken: AtomicBool,
}

/// A query has all threads, until this is dropped.
#[derive(Debug)]
pub(super) struct Together(Arc<Crew>);

impl Crew {
    /// So many threads, where there is so much memory for their partitions.
    pub(super) fn new(size: usize, memory: usize) -> Arc<Crew> {
        let partitions_max = (memory / PARTITION_BYTES).max(1);
        Arc::new(Crew { size: size.min(partitions_max), partitions_max, is_taken: AtomicBool::new(false) })
    }

    fn take(self: &Arc<Crew>) -> Option<Together> {
        (!self.is_taken.swap(true, Ordering::AcqRel)).then(|| Together(Arc::clone(self)))
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// How many partitions a large plan is to have, and by what right if these are several.
pub(super) fn partitions(
    plan: &LogicalPlan,
    dialects: Dialects,
    crew: &Arc<Crew>,
) -> Result<(usize, Option<Together>)> {
    let max = crew.size;
    if max == 1 || plan_has(plan, |expr| has_long(dialects, expr)) || ore::sometimes(20) {
        return Ok((1, None));
    }
    let together = crew.take();
    // The answer must not depend on how many there are.
    let count = if ore::sometimes(30) { crew.partitions_max.min(7) } else { max };
    Ok(if together.is_some() { (count, together) } else { (1, None) })
}

/// Whether a plan reads so many rows that more is done before it runs: how many there are is looked at first, then what of them the
/// filters leave to be read.
pub(super) fn is_large(plan: &LogicalPlan, reader: &dyn CollectionReader) -> Result<bool> {
    let is_much = |rows: usize| rows >= ROWS_MIN;
    Ok(is_much(rows(plan, |of, _| reader.row_count(of.id, &[]))?)
        && is_much(rows(plan, |of, scan| reader.row_count(of.id, &scan.filters))?))
}

/// How many rows the scans of a plan have together, of those of which that is known.
fn rows(plan: &LogicalPlan, of_scan: impl Fn(&CollectionTable, &TableScan) -> Option<usize>) -> Result<usize> {
    let mut rows: usize = 0;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(collection) = CollectionTable::from_source(&scan.source)
        {
            rows = rows.saturating_add(of_scan(&collection, scan).unwrap_or(0));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows)
}

/// Whether the order in which rows come can be told from what a plan gives, but for the order of that.
pub(super) fn sees_order(plan: &LogicalPlan) -> Result<bool> {
    let last = sort_below(plan);
    let is_last = |sort: Option<&LogicalPlan>| last.zip(sort).is_some_and(|(last, sort)| std::ptr::eq(last, sort));
    let mut sees = false;
    plan.apply_with_subqueries(|node| {
        sees |= match node {
            // The first rows, or what a user has sorted for whatever comes above: it may be read twice, and must be the same then.
            LogicalPlan::Limit(limit) => !is_last(sort_below(&limit.input)),
            LogicalPlan::TableScan(scan) => scan.fetch.is_some(),
            LogicalPlan::Sort(_) => !is_last(Some(node)),
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

#[cfg(test)]
mod tests {
    use super::sees_order;
    use crate::collection::CollectionTable;
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
        let first = || sorted().and_then(|sorted| sorted.limit(0, Some(3)));
        let twice = first().and_then(|first| first.union(built(scan("t").filter(col("a").gt(lit(1))))));
        assert!(sees(twice), "the first of equals, for what is above");
    }
}
