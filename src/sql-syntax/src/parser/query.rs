//! Refuses what sqlparser takes for a query and Postgres does not.

use crate::ast::visit::visit_relations;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast as sp;
use std::ops::ControlFlow;

/// Words that no relation can be called without quotes, although sqlparser takes them; the ones that follow FROM in
/// mistaken statements.
const NO_RELATION: [&str; 24] = [
    "and",
    "as",
    "case",
    "create",
    "except",
    "fetch",
    "for",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "intersect",
    "into",
    "limit",
    "not",
    "offset",
    "on",
    "or",
    "order",
    "select",
    "union",
    "where",
    "window",
];

pub(super) fn is_data_change(body: &sp::SetExpr) -> bool {
    matches!(body, sp::SetExpr::Insert(_) | sp::SetExpr::Update(_) | sp::SetExpr::Delete(_) | sp::SetExpr::Merge(_))
}

/// Refuses what sqlparser reads as a query but Postgres does not, or we do not run.
pub(super) fn check_query(query: &sp::Query) -> Result<(), SqlError> {
    let reserved = visit_relations(query, |name| match name.0.first() {
        Some(sp::ObjectNamePart::Identifier(ident))
            if ident.quote_style.is_none() && NO_RELATION.contains(&ident.value.to_ascii_lowercase().as_str()) =>
        {
            ControlFlow::Break(ident.clone())
        }
        _ => ControlFlow::Continue(()),
    });
    if let ControlFlow::Break(ident) = reserved {
        let message = format!("syntax error at or near \"{}\"", ident.value);
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(ident.span));
    }
    if let Some(with) = &query.with
        && with.cte_tables.iter().any(|cte| is_data_change(&cte.query.body))
    {
        return Err(SqlError::unsupported("a data-modifying statement in WITH"));
    }
    if let sp::SetExpr::Select(select) = query.body.as_ref()
        && select.into.is_some()
    {
        return Err(SqlError::unsupported("SELECT INTO").with_hint("Use CREATE TABLE and INSERT INTO … SELECT."));
    }
    Ok(())
}
