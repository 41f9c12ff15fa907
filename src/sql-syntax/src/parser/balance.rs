//! Long chains of AND and of OR, made shallow.
//!
//! `a OR b OR c …` parses to a tree that is as deep as the chain is long. Programs write such chains with hundreds of
//! operands; binding them recurses once per operand. The operators are associative, so the chain may as well be a balanced
//! tree, whose depth is the logarithm.

use crate::ast::visit::walk_mut;
use crate::ast::{CopySource, ExplainOf, Statement, SubscribeTo};
use sqlparser::ast::{self as sp, VisitorMut};
use std::ops::ControlFlow;

/// Chains shorter than this stay as they are.
pub(super) const CHAIN_MIN: usize = 32;

/// Balances the chains of a statement.
pub(super) fn balance(statement: &mut Statement) {
    // Nothing breaks the walk, so there is no result to look at.
    let _walked = match statement {
        Statement::Query(query) => walk_mut(query, &mut Balancer),
        Statement::Insert(insert, _) => walk_mut(insert, &mut Balancer),
        Statement::Update(update) => walk_mut(update, &mut Balancer),
        Statement::Delete(delete) => walk_mut(delete, &mut Balancer),
        Statement::QueryAsOf { query, .. } => walk_mut(query, &mut Balancer),
        Statement::Subscribe(subscribe) => match &mut subscribe.to {
            SubscribeTo::Query(query) => walk_mut(query, &mut Balancer),
            SubscribeTo::Object(_) => ControlFlow::Continue(()),
        },
        Statement::Declare { query, .. } => {
            balance(query);
            ControlFlow::Continue(())
        }
        Statement::CreateView(create) => walk_mut(&mut create.query, &mut Balancer),
        Statement::Copy(copy) => match &mut copy.source {
            CopySource::Query(query) => {
                balance(query);
                ControlFlow::Continue(())
            }
            CopySource::Table { .. } => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => {
            if let ExplainOf::Statement(statement) = &mut explain.of {
                balance(statement);
            }
            ControlFlow::Continue(())
        }
        Statement::Prepare { statement, .. } => {
            balance(statement);
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    };
}

/// Balances the chains of a query.
pub(super) fn balance_query(query: &mut sp::Query) {
    let _walked = walk_mut(query, &mut Balancer);
}

struct Balancer;

impl VisitorMut for Balancer {
    type Break = ();

    /// Reached from above, so a chain is met at its top first, and then in pieces that are short.
    fn pre_visit_expr(&mut self, expr: &mut sp::Expr) -> ControlFlow<()> {
        let sp::Expr::BinaryOp { op: op @ (sp::BinaryOperator::And | sp::BinaryOperator::Or), .. } = expr else {
            return ControlFlow::Continue(());
        };
        let op = op.clone();
        if chain_length(expr, &op) >= CHAIN_MIN {
            let chain = std::mem::replace(expr, sp::Expr::Value(sp::Value::Null.with_empty_span()));
            let mut operands = operands(chain, &op);
            *expr = build(&mut operands, &op);
        }
        ControlFlow::Continue(())
    }
}

/// How many operands the chain that ends in `expr` has.
fn chain_length(mut expr: &sp::Expr, chain: &sp::BinaryOperator) -> usize {
    let mut length = 1;
    while let sp::Expr::BinaryOp { left, op, .. } = expr {
        if op != chain {
            break;
        }
        length += 1;
        expr = left;
    }
    length
}

/// The operands of a chain, the last one first.
fn operands(mut expr: sp::Expr, chain: &sp::BinaryOperator) -> Vec<sp::Expr> {
    let mut operands = Vec::new();
    loop {
        match expr {
            sp::Expr::BinaryOp { left, op, right } if op == *chain => {
                operands.push(*right);
                expr = *left;
            }
            first => {
                operands.push(first);
                return operands;
            }
        }
    }
}

/// A balanced tree over operands, of which the first is the last of the list.
fn build(operands: &mut Vec<sp::Expr>, op: &sp::BinaryOperator) -> sp::Expr {
    let count = operands.len();
    if count <= 1 {
        return operands.pop().expect("a chain has operands, and halves of two or more have some, too");
    }
    // The right half are the first elements of the list.
    let mut left = operands.split_off(count / 2);
    let left = build(&mut left, op);
    let right = build(operands, op);
    sp::Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
}

#[cfg(test)]
mod tests {
    use crate::parser::parse_query;

    #[test]
    fn order_and_operands_stay() {
        let operands: Vec<String> = (0..1000).map(|n| format!("a = {n}")).collect();
        let sql = format!("SELECT * FROM t WHERE {}", operands.join(" OR "));
        let query = parse_query(&sql).expect("a long chain");
        assert_eq!(query.to_string(), sql);
        let mixed: Vec<String> = (0..100).map(|n| format!("a = {n} AND b = {n}")).collect();
        let sql = format!("SELECT * FROM t WHERE {}", mixed.join(" OR "));
        assert_eq!(parse_query(&sql).expect("a long chain").to_string(), sql);
    }
}
