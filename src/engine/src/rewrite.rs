//! Finding and replacing expressions inside expressions.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

/// Replaces whole subexpressions, outermost first.
pub fn replace(expr: Expr, map: &[(Expr, Expr)]) -> Result<Expr> {
    let replaced = expr.transform_down(|expr| {
        Ok(match map.iter().find(|(key, _)| *key == expr) {
            Some((_, with)) => Transformed::new(with.clone(), true, TreeNodeRecursion::Jump),
            None => Transformed::no(expr),
        })
    })?;
    Ok(replaced.data)
}

/// Collects the outermost subexpressions of a kind, each once.
pub fn collect(expr: &Expr, found: &mut Vec<Expr>, wanted: impl Fn(&Expr) -> bool) -> Result<()> {
    expr.apply(|expr| {
        if !wanted(expr) {
            return Ok(TreeNodeRecursion::Continue);
        }
        if !found.contains(expr) {
            found.push(expr.clone());
        }
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(())
}
