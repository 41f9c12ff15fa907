//! Parentheses around a query. What follows them belongs to the query inside, as in PostgreSQL's grammar: ORDER BY behind
//! `(SELECT … LIMIT 1)` sorts before the limit, and a clause that stands on both sides is refused.

use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast::{LimitClause, Query, SetExpr};

/// The query inside of parentheses with what stands around them; `None` if there are none, or nothing is around them.
pub(super) fn merged(query: &Query) -> Result<Option<Query>, SqlError> {
    let SetExpr::Query(inner) = query.body.as_ref() else { return Ok(None) };
    if is_bare(query) {
        return Ok(None);
    }
    let mut inner = match merged(inner)? {
        Some(merged) => merged,
        None => unwrapped(inner).clone(),
    };
    put(&mut inner.with, query.with.clone(), "WITH")?;
    put(&mut inner.order_by, query.order_by.clone(), "ORDER BY")?;
    let (limit, offset) = parts(query.limit_clause.as_ref());
    let (mut inner_limit, mut inner_offset) = parts(inner.limit_clause.as_ref());
    if (limit.is_some() || query.fetch.is_some()) && (inner_limit.is_some() || inner.fetch.is_some()) {
        return Err(several("LIMIT"));
    }
    put(&mut inner_limit, limit, "LIMIT")?;
    put(&mut inner_offset, offset, "OFFSET")?;
    // LIMIT #,# and LIMIT BY are refused where limits are bound.
    if inner_limit.is_some() || inner_offset.is_some() {
        let limit_by = Vec::new();
        inner.limit_clause = Some(LimitClause::LimitOffset { limit: inner_limit, offset: inner_offset, limit_by });
    } else if inner.limit_clause.is_none() {
        inner.limit_clause.clone_from(&query.limit_clause);
    }
    put(&mut inner.fetch, query.fetch.clone(), "LIMIT")?;
    inner.locks.extend(query.locks.iter().cloned());
    Ok(Some(inner))
}

/// Whether nothing is around the body.
fn is_bare(query: &Query) -> bool {
    let Query { with, order_by, limit_clause, fetch, locks, .. } = query;
    with.is_none() && order_by.is_none() && limit_clause.is_none() && fetch.is_none() && locks.is_empty()
}

/// The query in the innermost of parentheses that have nothing around them.
fn unwrapped(query: &Query) -> &Query {
    match query.body.as_ref() {
        SetExpr::Query(inner) if is_bare(query) => unwrapped(inner),
        _ => query,
    }
}

type Parts = (Option<sqlparser::ast::Expr>, Option<sqlparser::ast::Offset>);

fn parts(clause: Option<&LimitClause>) -> Parts {
    match clause {
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.clone(), offset.clone())
        }
        _ => (None, None),
    }
}

fn put<T>(inner: &mut Option<T>, outer: Option<T>, what: &str) -> Result<(), SqlError> {
    match (inner.is_some(), outer) {
        (true, Some(_)) => Err(several(what)),
        (false, Some(outer)) => {
            *inner = Some(outer);
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

fn several(what: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("multiple {what} clauses not allowed"))
}
