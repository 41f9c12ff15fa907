//! [`LetRec`] run by the ad hoc engine: each query is run again in every round, over what the others gave, until a round
//! changes nothing. DataFusion knows nothing of it: a plan that it sees has no such node any more, and scans of named
//! queries read their rows from the session's configuration.
//!
//! All rows of every query are computed in each round. A view does better: it works in what a round changed.

use super::faults::with_faults;
use super::physical::physical_plan;
use super::recursion::{LetRec, limit_reached};
use crate::dialect::Dialects;
use crate::error::SqlError;
use crate::recursion::{AtLimit, Bindings};
use arrow::array::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Runs all recursion in a plan; what remains reads its results.
///
/// # Cancellation
/// Safe to drop: nothing outlives the future.
pub(super) async fn solve(
    mut plan: LogicalPlan,
    dialects: Dialects,
    state: &SessionState,
) -> Result<(LogicalPlan, Bindings), SqlError> {
    let mut bindings = Bindings::new();
    while let Some(recursion) = outermost(&plan)? {
        rounds(&recursion, dialects, state, &mut bindings).await?;
        plan = without(plan, &recursion)?;
    }
    Ok((plan, bindings))
}

async fn rounds(
    recursion: &LetRec,
    dialects: Dialects,
    state: &SessionState,
    bindings: &mut Bindings,
) -> Result<(), SqlError> {
    for name in &recursion.names {
        bindings.insert(name.clone(), Vec::new());
    }
    for _ in 0..recursion.limit.rounds {
        // Rows in memory are never waited for, but a statement that is cancelled must get to know.
        pause().await;
        let mut has_changed = false;
        for (name, value) in recursion.names.iter().zip(&recursion.values) {
            let mut value = value.clone();
            while let Some(inner) = outermost(&value)? {
                Box::pin(rounds(&inner, dialects, state, bindings)).await?;
                value = without(value, &inner)?;
            }
            let rows = run(value, dialects, state, bindings).await?;
            let before = bindings.insert(name.clone(), rows).unwrap_or_default();
            has_changed |= counts(&before)? != counts(&bindings[name])?;
        }
        if !has_changed {
            return Ok(());
        }
    }
    match recursion.limit.then {
        AtLimit::Return => Ok(()),
        AtLimit::Error => Err(limit_reached(recursion.limit)),
    }
}

/// Gives way once, to whoever may want to drop the future.
async fn pause() {
    let mut has_paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn run(
    plan: LogicalPlan,
    dialects: Dialects,
    state: &SessionState,
    bindings: &Bindings,
) -> Result<Vec<RecordBatch>, SqlError> {
    let mut state = state.clone();
    state.config_mut().set_extension(Arc::new(bindings.clone()));
    let physical = physical_plan(plan, dialects, &state).await?;
    Ok(collect(with_faults(physical)?, Arc::new(TaskContext::from(&state))).await?)
}

/// Whether there is any recursion in a plan.
pub(super) fn is_recursive(plan: &LogicalPlan) -> Result<bool, SqlError> {
    Ok(outermost(plan)?.is_some())
}

/// A recursion that is in no other one.
fn outermost(plan: &LogicalPlan) -> Result<Option<LetRec>, SqlError> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        Ok(match LetRec::of(node) {
            Some(recursion) => {
                found = Some(recursion.clone());
                TreeNodeRecursion::Stop
            }
            None => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// The plan with the body of a recursion in its place.
fn without(plan: LogicalPlan, recursion: &LetRec) -> Result<LogicalPlan, SqlError> {
    let replaced = plan.transform_down_with_subqueries(|node| {
        Ok(match LetRec::of(&node) {
            Some(found) if found.names == recursion.names => {
                Transformed::new(recursion.body.clone(), true, TreeNodeRecursion::Jump)
            }
            _ => Transformed::no(node),
        })
    })?;
    Ok(replaced.data)
}

/// How often each row is there.
fn counts(batches: &[RecordBatch]) -> Result<HashMap<Vec<u8>, usize>, SqlError> {
    let mut counts = HashMap::new();
    for batch in batches {
        if batch.num_columns() == 0 {
            *counts.entry(Vec::new()).or_default() += batch.num_rows();
            continue;
        }
        let fields = batch.columns().iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let internal = |error: arrow::error::ArrowError| SqlError::internal(error.to_string());
        let rows = RowConverter::new(fields).map_err(internal)?.convert_columns(batch.columns()).map_err(internal)?;
        for row in &rows {
            *counts.entry(row.as_ref().to_vec()).or_default() += 1;
        }
    }
    Ok(counts)
}
