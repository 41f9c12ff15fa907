//! Walks over sqlparser's syntax trees.
//!
//! sqlparser derives `Visit` for each of its types, generic over the visitor: every type of visitor compiles the whole
//! syntax tree once more. So all walks go through one type, which holds the visitor that it was given. `clippy.toml`
//! refuses sqlparser's own functions elsewhere.

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Walks over a syntax tree until the visitor breaks.
#[expect(clippy::disallowed_methods, reason = "the one place where trees are walked")]
pub fn walk(node: &impl Visit, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    node.visit(&mut Walk(visitor))
}

/// Walks over a syntax tree, which the visitor may change, until the visitor breaks.
#[expect(clippy::disallowed_methods, reason = "the one place where trees are walked and changed")]
pub fn walk_mut(node: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
    node.visit(&mut WalkMut(visitor))
}

/// Calls `f` on every relation that a syntax tree names, until it breaks.
pub fn visit_relations<B>(node: &impl Visit, mut f: impl FnMut(&ObjectName) -> ControlFlow<B>) -> ControlFlow<B> {
    broken_with(|found| walk(node, &mut Relations(&mut |name| keep(f(name), found))))
}

/// Calls `f` on every expression of a syntax tree, an outer one before those in it, until it breaks.
pub fn visit_expressions<B>(node: &impl Visit, mut f: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    broken_with(|found| walk(node, &mut Expressions(&mut |expr| keep(f(expr), found))))
}

/// Calls `f` on every expression of a syntax tree, an outer one after those in it, until it breaks.
pub fn visit_expressions_mut<B>(
    node: &mut impl VisitMut,
    mut f: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    broken_with(|found| walk_mut(node, &mut ExpressionsMut(&mut |expr| keep(f(expr), found))))
}

/// What a walk left behind when it broke.
fn broken_with<B>(walk: impl FnOnce(&mut Option<B>) -> ControlFlow<()>) -> ControlFlow<B> {
    let mut found = None;
    // A walk breaks only if something was found.
    let _walked = walk(&mut found);
    found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Lays what a call broke with aside.
fn keep<B>(flow: ControlFlow<B>, found: &mut Option<B>) -> ControlFlow<()> {
    flow.map_break(|broken| *found = Some(broken))
}

struct Relations<'a>(&'a mut dyn FnMut(&ObjectName) -> ControlFlow<()>);

impl Visitor for Relations<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        (self.0)(relation)
    }
}

struct Expressions<'a>(&'a mut dyn FnMut(&Expr) -> ControlFlow<()>);

impl Visitor for Expressions<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        (self.0)(expr)
    }
}

struct ExpressionsMut<'a>(&'a mut dyn FnMut(&mut Expr) -> ControlFlow<()>);

impl VisitorMut for ExpressionsMut<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr)
    }
}

struct Walk<'a>(&'a mut dyn Visitor<Break = ()>);

struct WalkMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// Each method hands its node on to the visitor that is held.
macro_rules! hand_on {
    ($($method:ident($node:ty)),* $(,)?) => {
        impl Visitor for Walk<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        impl VisitorMut for WalkMut<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }
    };
}

hand_on! {
    pre_visit_query(Query),
    post_visit_query(Query),
    pre_visit_select(Select),
    post_visit_select(Select),
    pre_visit_relation(ObjectName),
    post_visit_relation(ObjectName),
    pre_visit_table_factor(TableFactor),
    post_visit_table_factor(TableFactor),
    pre_visit_expr(Expr),
    post_visit_expr(Expr),
    pre_visit_statement(Statement),
    post_visit_statement(Statement),
    pre_visit_value(ValueWithSpan),
    post_visit_value(ValueWithSpan),
}
