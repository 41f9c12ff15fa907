//! Joins by sorted keys in place of those that would keep too much.
//!
//! A hash join keeps one of its sides and cannot put it aside. Where that side is by what is known too large, both are sorted by their
//! keys instead, which can.

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, Result, Statistics};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use ore::memory::Share;
use std::sync::Arc;

/// Bytes that tests have sorted for no reason, at the most.
const SMALL: usize = 16 << 20;

/// Joins by sorted keys what is too large to be kept.
#[derive(Debug)]
pub(super) struct SortedJoins {
    /// Whose memory what is kept would take.
    pub(super) memory: Arc<Share>,
}

impl PhysicalOptimizerRule for SortedJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let left = self.memory.limit().saturating_sub(self.memory.used());
        plan.transform_up(|plan| {
            let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(plan)) };
            let bytes = |side: &Arc<dyn ExecutionPlan>| {
                let known = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new())?;
                Ok::<_, DataFusionError>(kept(&known))
            };
            let keeps = bytes(join.left())?;
            let is_small = |bytes: Option<usize>| bytes.is_some_and(|bytes| bytes < SMALL);
            // What is kept stands there as it is, and once more by its keys.
            let is_too_large = keeps.is_some_and(|bytes| bytes > left / 2)
                || ore::sometimes(10) && is_small(keeps) && is_small(bytes(join.right())?);
            Ok(match is_too_large.then(|| sorted(join)).transpose()?.flatten() {
                Some(sorted) => Transformed::yes(sorted),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "sorted_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// About how many bytes rows take.
fn kept(rows: &Statistics) -> Option<usize> {
    match (rows.total_byte_size, rows.num_rows) {
        (Precision::Exact(bytes) | Precision::Inexact(bytes), _) => Some(bytes),
        (Precision::Absent, count) => count.get_value().map(|count| count.saturating_mul(64)),
    }
}

/// The same join by sorted keys, if these can be compared so.
fn sorted(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = join.left().schema();
    let is_sortable = |key: &Arc<dyn PhysicalExpr>| {
        let ty = key.data_type(&schema)?;
        let is_text = matches!(ty, DataType::Utf8View | DataType::Decimal128(..));
        Ok::<_, DataFusionError>(is_text || ty.is_integer() || ty.is_temporal())
    };
    let keys = join.on().iter().map(|(key, _)| is_sortable(key)).collect::<Result<Vec<_>>>()?;
    let is_filtered = join.filter().is_some() && *join.join_type() != JoinType::Inner;
    // A rule of DataFusion's (55.2) takes the columns of what gives the right side alone for the left one's.
    let gives_right = matches!(
        join.join_type(),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark | JoinType::LeftMark
    );
    if join.null_aware || is_filtered || gives_right || keys.is_empty() || keys.contains(&false) {
        return Ok(None);
    }
    let joined = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        None,
        *join.join_type(),
        vec![SortOptions::default(); keys.len()],
        join.null_equality(),
    );
    // Of a kind of join that there is not.
    let Ok(joined) = joined else { return Ok(None) };
    let mut joined: Arc<dyn ExecutionPlan> = Arc::new(joined);
    if let Some(filter) = join.filter() {
        // Not the join's: a rule of DataFusion's (55.2) moves columns below such a join and forgets those of its filter.
        joined = Arc::new(FilterExec::try_new(over_both(filter, schema.fields().len())?, joined)?);
    }
    let Some(projection) = &join.projection else { return Ok(Some(joined)) };
    let schema = joined.schema();
    let column = |at: &usize| {
        let name = schema.field(*at).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, *at)), alias: name.clone() }
    };
    let columns: Vec<ProjectionExpr> = projection.iter().map(column).collect();
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, joined)?)))
}

/// A condition of an inner join over the columns of both sides, of which the left one has so many.
fn over_both(filter: &JoinFilter, left: usize) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(filter.expression()).transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let of = &filter.column_indices()[column.index()];
        let at = if of.side == JoinSide::Left { of.index } else { left + of.index };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
    });
    Ok(moved?.data)
}
