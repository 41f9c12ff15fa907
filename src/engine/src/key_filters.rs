//! Scans that leave out rows which no join above will want.
//!
//! A hash join reads its left side first, and of the right side it wants rows with one of the left's keys only. Where a column of the
//! right side comes as it is from a scan below, that scan is told the keys when all of them are known ([`keys`]): they are its last
//! condition, before it decodes what is wanted of a row. What is told late, or never, leaves nothing out, and what is left out is
//! nothing that a join would have given. So no row depends on it; and as it can be told late, nothing that could fail is spared rows by
//! it.
//!
//! DataFusion has such filters of its own, which are off (see [`crate::runtime`]): they are found out by operators that do not know how
//! rows with NULL, of outer joins or below a LIMIT are meant.

mod keys;
#[cfg(test)]
mod tests;

use crate::rules::guard::is_total;
use crate::scan::CollectionExec;
use crate::through::{Late, through};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use keys::{Gather, KeyFilter, Keys};
use ore::memory::Share;
use std::sync::Arc;

/// A scan of fewer rows is over before it pays to know which are wanted.
pub(super) const ROWS_MIN: usize = 10_000;

/// Operators with one input whose rows they give as they are, in an order or in partitions of their own.
const SAME_ROWS: [&str; 9] = [
    "CompactExec",
    "CooperativeExec",
    "InOrderExec",
    "KeysExec",
    "LateExec",
    "RepartitionExec",
    "SortExec",
    "SortPreservingMergeExec",
    "UntoldExec",
];

/// Aggregates that have a result whatever their values are.
const AGGREGATES: [&str; 9] = ["count", "sum", "avg", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or"];

/// The same plan, in which scans of at least `rows_min` rows leave out those that no hash join above wants. What its keys take is `memory`'s.
///
/// The plan is to be run once: its keys are those of the first run.
pub(super) fn with_key_filters(
    plan: Arc<dyn ExecutionPlan>,
    memory: &Arc<Share>,
    rows_min: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Its steps are one plan, run again and again.
    if plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
        return Ok(plan);
    }
    // From above, so that what a join wants is known when what is below it is planned: a side that is kept may be smaller for it.
    plan.transform_down(|node| {
        let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
        Ok(match with_keys(join, memory, rows_min)? {
            Some(join) => Transformed::yes(join),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// A join that tells its keys to the scans below its right side, if there are any.
fn with_keys(join: &HashJoinExec, memory: &Arc<Share>, rows_min: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let gives_what_matches = matches!(
        join.join_type(),
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi
    );
    let keys_fail = join.on().iter().any(|(_, of_right)| !cannot_fail(of_right, &join.right().schema()));
    let matches_null = join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing;
    if !gives_what_matches || matches_null || keys_fail {
        return Ok(None);
    }
    let (mut right, mut told) = (Arc::clone(join.right()), Vec::new());
    for (of_left, of_right) in join.on() {
        let types = (of_left.data_type(&join.left().schema())?, of_right.data_type(&right.schema())?);
        let Some(column) =
            as_it_is(of_right, &right.schema()).filter(|_| keys::are_kept(&types.0) && keys::are_kept(&types.1))
        else {
            continue;
        };
        let keys = Keys::of_partitions(join.left().properties().partitioning.partition_count(), memory);
        if let Some(filtered) = filtered(&right, column, &Wanted { keys: &keys, rows_min })? {
            right = filtered;
            told.push((Arc::clone(of_left), keys));
        }
    }
    if told.is_empty() {
        return Ok(None);
    }
    let left = through(Arc::clone(join.left()), Gather(told));
    join.builder().with_new_children(vec![left, right])?.build_exec().map(Some)
}

/// The column that an expression is, under casts that leave whole numbers what they are.
fn as_it_is(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) if is_wider(&cast.expr().data_type(schema).ok()?, cast.cast_type()) => as_it_is(cast.expr(), schema),
        Some(_) => None,
        None => expr.downcast_ref::<Column>().map(Column::index),
    }
}

/// Which rows of a column are wanted, of which scans.
struct Wanted<'a> {
    keys: &'a Arc<Keys>,
    rows_min: usize,
}

/// The same rows but for some whose value in a column is not wanted, if there is a scan that can leave them out. Nothing that could fail is
/// between.
fn filtered(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    wanted: &Wanted<'_>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Which rows are the first depends on all of them.
    if plan.fetch().is_some() {
        return Ok(None);
    }
    if let Some(scan) = plan.downcast_ref::<CollectionExec>() {
        let Some((column, field)) = scan.stored(column).filter(|_| scan.has_rows(wanted.rows_min)) else {
            return Ok(None);
        };
        if !keys::are_kept(field.data_type()) {
            return Ok(None);
        }
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), column));
        let filter = KeyFilter::new(column, Arc::clone(wanted.keys));
        return Ok(Some(Arc::new(scan.with_last_filter(Arc::new(filter)))));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return below_join(plan, join, column, wanted);
    }
    let below = match plan {
        _ if SAME_ROWS.contains(&plan.name()) || plan.is::<CoalescePartitionsExec>() => Some(column),
        _ => through_one(plan.as_ref(), column),
    };
    let inputs = plan.children();
    let (Some(column), [input]) = (below, inputs.as_slice()) else { return Ok(None) };
    let Some(input) = filtered(input, column, wanted)? else { return Ok(None) };
    let plan = replace_children_if_necessary(Arc::clone(plan), vec![input])?;
    // These read before they are asked to, and so before anything is known.
    let reads_ahead = plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>();
    Ok(Some(if reads_ahead { through(plan, Late) } else { plan }))
}

/// The column of its input that a column of an operator is, where rows with other values make no difference to those with this one.
fn through_one(plan: &dyn ExecutionPlan, column: usize) -> Option<usize> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let column = filter.projection().as_ref().map_or(Some(column), |columns| columns.get(column).copied());
        return column.filter(|_| cannot_fail(filter.predicate(), &filter.input().schema()));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let schema = projection.input().schema();
        let fails = projection.expr().iter().any(|computed| !cannot_fail(&computed.expr, &schema));
        let computed = projection.expr().get(column).filter(|_| !fails)?;
        return computed.expr.downcast_ref::<Column>().map(Column::index);
    }
    let groups = plan.downcast_ref::<AggregateExec>()?;
    let schema = groups.input().schema();
    let arguments = groups.aggr_expr().iter().flat_map(|of| of.expressions());
    let is_known = groups.aggr_expr().iter().all(|of| AGGREGATES.contains(&of.fun().name()));
    let conditions = groups.filter_expr().iter().flatten().cloned();
    let by = groups.group_expr().expr().iter().map(|(by, _)| Arc::clone(by));
    // What has partial results for its input names columns that are not there.
    let is_first = groups.mode().input_mode() == AggregateInputMode::Raw;
    let fails = by.chain(arguments.chain(conditions).filter(|_| is_first)).any(|expr| !cannot_fail(&expr, &schema));
    if fails || !is_known || !groups.group_expr().is_single() || groups.limit_options().is_some() {
        return None;
    }
    let (by, _) = groups.group_expr().expr().get(column)?;
    by.downcast_ref::<Column>().map(Column::index)
}

/// The same for a join: of the side that the column is of, if none of its rows is there because of one that is not.
fn below_join(
    plan: &Arc<dyn ExecutionPlan>,
    join: &HashJoinExec,
    column: usize,
    wanted: &Wanted<'_>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let keys_fail = join.on().iter().any(|(one, other)| !cannot_fail(one, &left) || !cannot_fail(other, &right));
    let filter_fails = join.filter().is_some_and(|filter| !cannot_fail(filter.expression(), filter.schema()));
    if keys_fail || filter_fails || join.null_aware {
        return Ok(None);
    }
    let column = join.projection.as_ref().map_or(Some(column), |columns| columns.get(column).copied());
    let Some(column) = column else { return Ok(None) };
    let width = left.fields().len();
    let (side, column) = match join.join_type() {
        JoinType::RightSemi | JoinType::RightAnti => (1, column),
        JoinType::Inner | JoinType::Right if column >= width => (1, column - width),
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti if column < width => (0, column),
        _ => return Ok(None),
    };
    let mut children = [join.left(), join.right()].map(Arc::clone);
    let Some(filtered) = filtered(&children[side], column, wanted)? else { return Ok(None) };
    children[side] = filtered;
    replace_children_if_necessary(Arc::clone(plan), children.to_vec()).map(Some)
}

/// Whether an expression over columns of this schema has a value for every row, and the same whenever it is asked.
fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let mut is_certain = true;
    let walked = expr.apply(|node| {
        is_certain &= is_certain_itself(node, schema)?;
        Ok(if is_certain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    is_certain && walked.is_ok()
}

/// The same of an expression whose parts cannot fail.
fn is_certain_itself(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return Ok(is_wider(&cast.expr().data_type(schema)?, cast.cast_type()));
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
        let op = binary.op();
        return Ok(matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom | And | Or));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let types = call.args().iter().map(|arg| arg.data_type(schema)).collect::<Result<Vec<_>>>()?;
        return Ok(is_total(call.fun().name()) || has_room(call.fun().name(), &types, call.return_type()));
    }
    Ok(expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<CaseExpr>())
}

/// Digits of a numeric before and after its point.
fn digits(ty: &DataType) -> Option<(i16, i16)> {
    match ty {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision) - i16::from(*scale), i16::from(*scale)))
        }
        _ => None,
    }
}

/// Whether all values of a type are values of another one.
fn is_wider(from: &DataType, to: &DataType) -> bool {
    let bytes = |ty: &DataType| ty.primitive_width().filter(|_| ty.is_signed_integer());
    match (digits(from), digits(to)) {
        (Some(from), Some(to)) => from.0 <= to.0 && from.1 <= to.1,
        _ => from == to || bytes(from).zip(bytes(to)).is_some_and(|(from, to)| from <= to),
    }
}

/// Whether a sum, a difference or a product of numerics has room for whatever the operands are.
fn has_room(operator: &str, operands: &[DataType], result: &DataType) -> bool {
    let (Some(result), [Some(one), Some(other)]) =
        (digits(result), [operands.first(), operands.get(1)].map(|of| of.and_then(digits)))
    else {
        return false;
    };
    let (before, after) = match operator {
        "+" | "-" => (one.0.max(other.0) + 1, one.1.max(other.1)),
        "*" => (one.0 + other.0, one.1 + other.1),
        _ => return false,
    };
    before <= result.0 && after <= result.1
}
