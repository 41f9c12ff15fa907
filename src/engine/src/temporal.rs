//! Temporal conditions: `mz_now()` compared with something, which is true of a row for a while.
//!
//! `mz_now()` is the time at which a statement reads, in microseconds since the epoch. Beside a timestamp or a date it is a
//! timestamp, in UTC. A conjunct that compares it, on its own, with anything that does not refer to it bounds the times at
//! which a row is there: so a maintained view can have it, although it depends on the clock.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

/// `mz_now()` as it stands in SQL, and as a timestamp without and with time zone.
pub const NAMES_OF_NOW: [&str; 3] = ["mz_now", "mz_now_timestamp", "mz_now_timestamptz"];

/// A temporal condition.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// `mz_now()`.
    pub now: Expr,
    /// How it compares: one of `=`, `<`, `<=`, `>`, `>=`.
    pub op: Operator,
    /// With what.
    pub with: Expr,
}

impl Comparison {
    /// The condition that an expression is, if it is one.
    pub fn of(expr: &Expr) -> Option<Comparison> {
        let Expr::BinaryExpr(binary) = expr else { return None };
        let is_bound =
            matches!(binary.op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
        let (now, op, with) = match is_now(&binary.left) {
            true => (&binary.left, binary.op, &binary.right),
            false => (&binary.right, binary.op.swap()?, &binary.left),
        };
        let stands_alone = is_bound && is_now(now) && !reads_now(with);
        stands_alone.then(|| Comparison { now: now.as_ref().clone(), op, with: with.as_ref().clone() })
    }
}

/// The temporal conditions among a predicate's conjuncts, and the other conjuncts.
pub fn split(predicate: Expr) -> (Vec<Comparison>, Vec<Expr>) {
    let (mut temporal, mut rest) = (Vec::new(), Vec::new());
    for conjunct in split_conjunction_owned(predicate) {
        match Comparison::of(&conjunct) {
            Some(comparison) => temporal.push(comparison),
            None => rest.push(conjunct),
        }
    }
    (temporal, rest)
}

/// Whether a function is `mz_now()`.
pub fn is_name_of_now(name: &str) -> bool {
    NAMES_OF_NOW.contains(&name)
}

/// Whether an expression refers to `mz_now()`.
pub fn reads_now(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::ScalarFunction(call) if is_name_of_now(call.name())))).unwrap_or(true)
}

/// Whether a query refers to `mz_now()`, by itself or through the views in it.
pub fn query_reads_now(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let visited = plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            found |= reads_now(expr);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found || visited.is_err()
}

/// `mz_now()`, perhaps as another type that has all of its values.
fn is_now(expr: &Expr) -> bool {
    let keeps = |data_type: &DataType| {
        matches!(data_type, DataType::Int64 | DataType::Float64 | DataType::Decimal128(..) | DataType::Decimal256(..))
    };
    match expr {
        Expr::ScalarFunction(call) if is_name_of_now(call.name()) => true,
        Expr::ScalarFunction(call) if call.name() == "cast" => {
            call.func.return_type(&[]).is_ok_and(|to| keeps(&to)) && call.args.iter().all(is_now)
        }
        Expr::Cast(cast) => keeps(cast.field.data_type()) && is_now(&cast.expr),
        _ => false,
    }
}
