//! From an optimised plan to the operators that run it.
//!
//! Conditions on the rows of a collection become its scan's. Not by DataFusion's own rule: that goes by the names of columns, and the
//! two sides of a join may have the same. Inner joins are put in order by what is known of the rows ([`crate::order`]).

use crate::collection::{CollectionTable, ReaderExtension};
use crate::dialect::{Dialects, has_long};
use crate::error::SqlError;
use crate::order::order_joins;
use crate::partitions::sees_order;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, TableScan};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The operators of a plan.
pub(super) async fn physical_plan(
    plan: LogicalPlan,
    dialects: Dialects,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let plan = absorb_filters(plan, dialects)?;
    let plan = match state.config().get_extension::<ReaderExtension>() {
        // Who sees the order of rows must see the same one each time, whatever is known of the rows.
        Some(of) if of.is_large && !sees_order(&plan)? => {
            order_joins(plan, &|scan| of.reader.statistics(CollectionTable::from_source(&scan.source)?.id))?
        }
        _ => plan,
    };
    Ok(state.query_planner().create_physical_plan(&plan, state).await?)
}

/// The same plan, in which conditions on the rows of a collection are its scan's. Until a plan runs they are also a filter above the scan,
/// which is what everything else knows that reads plans.
fn absorb_filters(plan: LogicalPlan, dialects: Dialects) -> DfResult<LogicalPlan> {
    let absorbed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(mut scan) => {
            scan.filters.retain(|filter| can_be_absorbed(filter, dialects));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        }
        LogicalPlan::Filter(filter) => {
            let of_scan = match filter.input.as_ref() {
                LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
                    CollectionTable::from_source(&scan.source).map(|_| scan)
                }
                _ => None,
            };
            let Some(scan) = of_scan else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
            let (absorbed, left): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(filter.predicate)
                .into_iter()
                .partition(|condition| can_be_absorbed(condition, dialects));
            let scan = LogicalPlan::TableScan(TableScan { filters: absorbed, ..scan.clone() });
            Ok(Transformed::yes(match conjunction(left) {
                Some(left) => LogicalPlan::Filter(Filter::try_new(left, Arc::new(scan))?),
                None => scan,
            }))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(absorbed?.data)
}

/// Whether a scan can evaluate a condition: whatever it says of a row it says whenever it is asked, of the row alone, and without making
/// much of it, which the pace of a plan's operators is for.
fn can_be_absorbed(filter: &Expr, dialects: Dialects) -> bool {
    let is_query = |expr: &Expr| {
        matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
    };
    let is_foreign = |expr: &Expr| {
        is_query(expr)
            || matches!(expr, Expr::OuterReferenceColumn(..) | Expr::Placeholder(_))
            || expr.is_volatile_node()
    };
    !has_long(dialects, filter) && !filter.exists(|expr| Ok(is_foreign(expr))).unwrap_or(true)
}
