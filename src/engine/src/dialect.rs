//! What the engine has to be told of a dialect of SQL.

use crate::error::SqlError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use std::fmt;

/// A dialect whose plans an engine runs.
///
/// An engine serves several dialects: each is asked about every function and is given every plan, and leaves alone what is not its
/// own.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// Whether a call of the function may make much of little, or take long: few rows at a time are given to it.
    fn is_long(&self, function: &ScalarUDF) -> bool;

    /// Rewrites a plan whose subqueries have become joins, before the optimizer sees it.
    fn prepare(&self, plan: LogicalPlan) -> Result<LogicalPlan, SqlError>;
}

/// The dialects of an engine.
pub type Dialects = &'static [&'static dyn Dialect];

/// Whether the function is long in the dialect that has it.
pub(crate) fn is_long(dialects: Dialects, function: &ScalarUDF) -> bool {
    dialects.iter().any(|dialect| dialect.is_long(function))
}

/// Whether an expression calls such a function.
pub(crate) fn has_long(dialects: Dialects, expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::ScalarFunction(call) if is_long(dialects, &call.func)))).unwrap_or(true)
}

/// Whether any expression of a plan is of this kind.
pub fn plan_has(plan: &LogicalPlan, is: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= is(expr);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found || walked.is_err()
}
