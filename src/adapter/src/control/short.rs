//! What a session does where others wait, because it is known to be short, and what it refuses to do there.
//!
//! The connection's thread serves others too. What is short is decided by sizes that are known before it begins: bytes of a text and
//! of parameters, nodes of a plan, values of an INSERT, rows that were found; and by functions, those that may make much of little
//! being long whatever they are given. The rest is [`AdapterError::Elsewhere`]: see `seat.rs`.

use crate::error::AdapterError;
use crate::plan_cache::Exec;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::Expr;
use engine::dialect::plan_has;
use engine::effort;
use repr::GlobalId;
use sql::plan::{InsertPlan, InsertSource, Plan, SelectPlan};
use sql_functions::row::{gives_new_values, has_long};

/// Bytes of a text that is read, and of parameters that are, where others wait.
pub(crate) const SMALL_TEXT: usize = 16 << 10;
pub(crate) const SMALL_PARAMS: usize = 64 << 10;
/// Values of an INSERT or COPY that take about a millisecond, and values that are expressions.
pub(crate) const VALUES_MAX: usize = 10_000;
const COMPUTED_MAX: usize = 200;
/// Rows that FETCH decodes where others wait.
const SMALL_FETCH: u64 = 1_000;

/// Whether nothing has happened yet, because it is to happen elsewhere.
pub(crate) fn is_elsewhere<T>(result: &Result<T, AdapterError>) -> bool {
    matches!(result, Err(AdapterError::Elsewhere))
}

/// Whether a session's part of a plan is short, but for rows of which nothing is known yet: what it binds and evaluates itself.
pub(crate) fn is_short(
    exec: &Exec,
    has_index: impl Fn(&SelectPlan) -> bool,
    has_long_checks: impl Fn(GlobalId) -> bool,
) -> bool {
    match exec {
        Exec::Empty | Exec::Unplanned(_) => true,
        Exec::Select(exec) => effort::is_small(&exec.select.logical),
        // Rows that are not found by a look-up are made of whatever the ad hoc engine gives.
        Exec::ReadThenWrite(exec) => {
            let returning = exec.plan.returning.iter().flat_map(|returning| &returning.exprs);
            let gives_new = |expr: &Expr| expr.exists(|expr| Ok(gives_new_values(expr))).unwrap_or(true);
            // What takes values of a sequence cannot begin here and then find that it is long.
            exec.select.peek.is_some()
                && effort::is_small(&exec.plan.selection)
                && !plan_has(&exec.plan.selection, gives_new)
                && !returning.into_iter().any(has_long)
                && !has_long_checks(exec.plan.table)
        }
        Exec::Other(Plan::Insert(plan)) => {
            let update = plan.on_conflict.as_ref().and_then(|on| on.update.as_ref());
            is_short_insert(plan)
                && update.is_none_or(|update| has_index(&update.lookup))
                && !has_long_checks(plan.table)
        }
        Exec::Other(Plan::Read(read)) => effort::is_small(&read.select.logical),
        Exec::Other(Plan::Declare { read, .. }) => effort::is_small(&read.select.logical),
        Exec::Other(Plan::CopyTo(copy)) => effort::is_small(&copy.read.select.logical),
        Exec::Other(Plan::CopyFrom(plan)) => !plan.defaults.iter().any(|(_, default)| has_long(default)),
        Exec::Other(Plan::Fetch { count, .. }) => count.is_some_and(|count| count <= SMALL_FETCH),
        Exec::Other(Plan::Execute { arguments, .. }) => arguments.iter().all(is_value),
        Exec::Other(
            Plan::Begin(_)
            | Plan::Commit { .. }
            | Plan::Rollback { .. }
            | Plan::Savepoint(_)
            | Plan::ReleaseSavepoint(_)
            | Plan::RollbackToSavepoint(_)
            | Plan::Set { .. }
            | Plan::SetTransaction(_)
            | Plan::SetConstraints { .. }
            | Plan::SetSessionCharacteristics(_)
            | Plan::Reset(_)
            | Plan::ShowVariable { .. }
            | Plan::ShowIsolationLevel { .. }
            | Plan::ShowAll { .. }
            | Plan::Prepare { .. }
            | Plan::Deallocate(_)
            | Plan::Close(_)
            | Plan::Discard(_)
            | Plan::Rebuild { .. }
            | Plan::NoOp { .. },
        ) => true,
        Exec::Other(_) => false,
    }
}

/// Whether an INSERT's rows, and what becomes of them, are few constants and parameters and fewer expressions, none of which may make
/// much of little.
fn is_short_insert(plan: &InsertPlan) -> bool {
    let InsertSource::Values { rows } = &plan.source else { return false };
    let is_computed = |expr: &&Expr| !matches!(expr, Expr::Placeholder(_) | Expr::Literal(..));
    let computed: Vec<&Expr> = rows.iter().flatten().filter(is_computed).take(COMPUTED_MAX + 1).collect();
    let update = plan.on_conflict.as_ref().and_then(|on| on.update.as_ref());
    let updates = update.into_iter().flat_map(|update| update.values.iter().chain(&update.filter));
    let returned = plan.returning.iter().flat_map(|returning| &returning.exprs);
    rows.len() * plan.desc.arity() <= VALUES_MAX
        && computed.len() <= COMPUTED_MAX
        && !computed.into_iter().chain(updates).chain(returned).any(has_long)
}

/// Whether an argument is what it says.
fn is_value(argument: &sqlparser::ast::Expr) -> bool {
    use sqlparser::ast::Expr;
    match argument {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) | Expr::Cast { expr, .. } => is_value(expr),
        _ => false,
    }
}
