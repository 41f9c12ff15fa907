//! What WITH RECURSIVE may say. The rules are Postgres's: queries may stand in any order, each reads itself in the second
//! of two terms only, once, and not where fewer rows of the result could follow from more rows of it.

use crate::bind::aggregate::is_aggregate;
use crate::bind::scope::fold;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sql_syntax::ast::visit::walk;
use sqlparser::ast::{
    Cte, Expr, Function, JoinOperator, ObjectName, Query, Select, SetExpr, SetOperator, SetQuantifier, TableFactor,
    TableWithJoins, Visit, Visitor, With,
};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// `42P19 invalid_recursion`.
const INVALID_RECURSION: SqlState = SqlState("42P19");

/// The parts of a query that reads itself.
pub(super) struct Terms<'a> {
    /// Queries that both terms may read.
    pub(super) with: Option<&'a With>,
    /// Whether UNION has ALL.
    pub(super) quantifier: SetQuantifier,
    /// The rows to begin with.
    pub(super) base: &'a SetExpr,
    /// The rows that follow from rows.
    pub(super) step: &'a SetExpr,
}

/// The names of the queries of a WITH clause, all different.
pub(super) fn names(ctes: &[Cte]) -> Result<Vec<String>, SqlError> {
    let mut seen = HashSet::new();
    let named = ctes.iter().map(|cte| {
        let name = fold(&cte.alias.name);
        if seen.insert(name.clone()) {
            return Ok(name);
        }
        let message = format!("WITH query name \"{name}\" specified more than once");
        Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message).at(cte.alias.name.span))
    });
    named.collect()
}

/// The queries of a WITH RECURSIVE in an order in which each comes behind those that it reads, and whether it reads itself.
pub(super) fn in_order<'a>(ctes: &'a [Cte], names: &[String]) -> Result<Vec<(usize, &'a Cte, bool)>, SqlError> {
    let reads: Vec<Vec<usize>> = ctes
        .iter()
        .map(|cte| {
            let read = references(cte.query.as_ref());
            (0..names.len()).filter(|at| read.contains(&names[*at])).collect()
        })
        .collect();
    let mut left: BTreeSet<usize> = (0..ctes.len()).collect();
    let mut ordered = Vec::with_capacity(ctes.len());
    while let Some(first) = left.first() {
        let is_free = |at: &usize| reads[*at].iter().all(|read| read == at || !left.contains(read));
        let Some(next) = left.iter().copied().find(is_free) else {
            return Err(SqlError::unsupported("mutual recursion between queries of WITH RECURSIVE")
                .with_hint("Use WITH MUTUALLY RECURSIVE.")
                .at(ctes[*first].alias.name.span));
        };
        left.remove(&next);
        ordered.push((next, &ctes[next], reads[next].contains(&next)));
    }
    Ok(ordered)
}

/// The parts of a query that reads itself, if it has the form and follows the rules.
pub(super) fn terms<'a>(cte: &'a Cte, name: &str) -> Result<Terms<'a>, SqlError> {
    let mut query = cte.query.as_ref();
    let mut with = query.with.as_ref();
    // Parentheses around all of it say nothing.
    while let SetExpr::Query(inner) = query.body.as_ref() {
        refuse_clauses(query)?;
        if with.is_some() && inner.with.is_some() {
            break;
        }
        with = with.or(inner.with.as_ref());
        query = inner;
    }
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = query.body.as_ref() else {
        let message =
            format!("recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term");
        return Err(SqlError::new(INVALID_RECURSION, message).at(cte.alias.name.span));
    };
    let mut walk = Walk { cte, name, count: 0 };
    for cte in with.iter().flat_map(|with| &with.cte_tables) {
        walk.query(&cte.query, Place::Subquery)?;
    }
    walk.body(left, Place::NonRecursiveTerm)?;
    walk.body(right, Place::Fine)?;
    refuse_clauses(query)?;
    Ok(Terms { with, quantifier: *set_quantifier, base: left, step: right })
}

fn refuse_clauses(query: &Query) -> Result<(), SqlError> {
    let clauses = [
        ("ORDER BY", query.order_by.is_some()),
        ("LIMIT", query.limit_clause.is_some() || query.fetch.is_some()),
        ("FOR UPDATE/SHARE", !query.locks.is_empty()),
    ];
    match clauses.iter().find(|(_, is_there)| *is_there) {
        Some((clause, _)) => Err(SqlError::unsupported(format!("{clause} in a recursive query"))),
        None => Ok(()),
    }
}

/// Where a query reads itself.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Where it may.
    Fine,
    NonRecursiveTerm,
    Subquery,
    OuterJoin,
    Intersect,
    Except,
}

/// Visits all places at which a query reads itself.
struct Walk<'a> {
    cte: &'a Cte,
    name: &'a str,
    count: usize,
}

impl Walk<'_> {
    fn query(&mut self, query: &Query, place: Place) -> Result<(), SqlError> {
        if let Some(with) = &query.with {
            let hides = |cte: &Cte| fold(&cte.alias.name) == self.name;
            if with.recursive && with.cte_tables.iter().any(hides) {
                return Ok(());
            }
            for cte in &with.cte_tables {
                self.query(&cte.query, place)?;
                if fold(&cte.alias.name) == self.name {
                    return Ok(());
                }
            }
        }
        self.body(&query.body, place)?;
        self.inside(&query.order_by)?;
        self.inside(&query.limit_clause)
    }

    fn body(&mut self, body: &SetExpr, place: Place) -> Result<(), SqlError> {
        match body {
            SetExpr::Select(select) => self.select(select, place),
            SetExpr::Query(query) => self.query(query, place),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let is_all = *set_quantifier == SetQuantifier::All;
                let (left_place, right_place) = match op {
                    SetOperator::Intersect if is_all => (Place::Intersect, Place::Intersect),
                    SetOperator::Except if is_all => (Place::Except, Place::Except),
                    SetOperator::Except => (place, Place::Except),
                    _ => (place, place),
                };
                self.body(left, left_place)?;
                self.body(right, right_place)
            }
            other => self.inside(other),
        }
    }

    fn select(&mut self, select: &Select, place: Place) -> Result<(), SqlError> {
        self.inside(&select.projection)?;
        for item in &select.from {
            self.joined(item, place)?;
        }
        self.inside(&select.selection)?;
        self.inside(&select.group_by)?;
        self.inside(&select.having)?;
        if select.from.iter().any(|item| self.is_input(item)) && has_aggregate(select) {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(SqlError::new(INVALID_RECURSION, message));
        }
        Ok(())
    }

    fn joined(&mut self, item: &TableWithJoins, place: Place) -> Result<(), SqlError> {
        // Joins are left-associative: an outer join makes all that is to its left optional, or what is to its right.
        let makes_left_optional = |join: &JoinOperator| {
            matches!(join, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
        };
        let makes_right_optional = |join: &JoinOperator| {
            matches!(join, JoinOperator::Left(_) | JoinOperator::LeftOuter(_) | JoinOperator::FullOuter(_))
        };
        let last_right = item.joins.iter().rposition(|join| makes_left_optional(&join.join_operator));
        let place_at = |at: usize, is_optional: bool| match is_optional || last_right.is_some_and(|last| at <= last) {
            true => Place::OuterJoin,
            false => place,
        };
        self.factor(&item.relation, place_at(0, false))?;
        for (at, join) in item.joins.iter().enumerate() {
            self.factor(&join.relation, place_at(at + 1, makes_right_optional(&join.join_operator)))?;
            self.inside(&join.join_operator)?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, place: Place) -> Result<(), SqlError> {
        match factor {
            TableFactor::Table { name, args: None, .. } if is_name(name, self.name) => self.found(place),
            TableFactor::Derived { subquery, .. } => self.query(subquery, place),
            TableFactor::NestedJoin { table_with_joins, .. } => self.joined(table_with_joins, place),
            other => self.inside(other),
        }
    }

    /// Whether the rows that a SELECT reads are, directly, those of its query.
    fn is_input(&self, item: &TableWithJoins) -> bool {
        let is_input = |factor: &TableFactor| match factor {
            TableFactor::Table { name, args: None, .. } => is_name(name, self.name),
            TableFactor::NestedJoin { table_with_joins, .. } => self.is_input(table_with_joins),
            _ => false,
        };
        is_input(&item.relation) || item.joins.iter().any(|join| is_input(&join.relation))
    }

    /// Everything in an expression that reads a table is a subquery.
    fn inside(&mut self, node: &impl Visit) -> Result<(), SqlError> {
        if references(node).contains(self.name) { self.found(Place::Subquery) } else { Ok(()) }
    }

    fn found(&mut self, place: Place) -> Result<(), SqlError> {
        self.count += 1;
        let what = match place {
            Place::Fine if self.count == 1 => return Ok(()),
            Place::Fine => "more than once",
            Place::NonRecursiveTerm => "within its non-recursive term",
            Place::Subquery => "within a subquery",
            Place::OuterJoin => "within an outer join",
            Place::Intersect => "within INTERSECT",
            Place::Except => "within EXCEPT",
        };
        let message = format!("recursive reference to query \"{}\" must not appear {what}", self.name);
        Err(SqlError::new(INVALID_RECURSION, message).at(self.cte.alias.name.span))
    }
}

fn is_name(relation: &ObjectName, name: &str) -> bool {
    matches!(relation.0.as_slice(), [part] if part.as_ident().is_some_and(|ident| fold(ident) == name))
}

/// The unqualified names of the tables that something reads, but for those that a WITH inside it defines.
fn references(node: &impl Visit) -> HashSet<String> {
    let mut references = References { names: HashSet::new(), hidden: Vec::new() };
    // Nothing breaks the walk, so there is no result to look at.
    let _walked = walk(node, &mut references);
    references.names
}

struct References {
    names: HashSet<String>,
    /// What the WITH clauses around the place that is visited define.
    hidden: Vec<HashSet<String>>,
}

impl References {
    fn add(&mut self, name: String) {
        if !self.hidden.iter().any(|names| names.contains(&name)) {
            self.names.insert(name);
        }
    }
}

impl Visitor for References {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hidden.push(ctes.map(|cte| fold(&cte.alias.name)).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let [part] = relation.0.as_slice()
            && let Some(name) = part.as_ident()
        {
            self.add(fold(name));
        }
        ControlFlow::Continue(())
    }
}

/// Whether the select list or HAVING aggregates the rows of the SELECT.
fn has_aggregate(select: &Select) -> bool {
    let mut aggregates = Aggregates { depth: 0 };
    walk(&select.projection, &mut aggregates).is_break() || walk(&select.having, &mut aggregates).is_break()
}

/// Stops at an aggregate that is in no subquery.
struct Aggregates {
    depth: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(Function { name, over: None, .. }) if self.depth == 0 => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(fold);
                if name.is_some_and(|name| is_aggregate(&name)) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
