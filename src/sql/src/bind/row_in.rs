//! `(a, b) IN (SELECT …)`: a row compared with those of a subquery, as EXISTS over the comparison of its fields.
//!
//! Of a condition that keeps or drops a row it matters only whether it is true. Elsewhere it is NULL if no row is equal and for some
//! row that cannot be said, which a second EXISTS asks.

use super::expr::row_items;
use super::{Binder, Settle};
use crate::bind::cx::Cx;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sql_functions::TypedExpr;
use sql_syntax::parser::parse_query;
use sqlparser::ast::{self, BinaryOperator, Query, SetExpr, TableFactor};

/// The subquery's name where its columns are compared. No query can mean this one.
const ROWS: &str = "__in";

impl Binder<'_> {
    /// A conjunct of a filter, if it is `(a, b) IN (SELECT …)`.
    pub(super) fn row_in_filter(&mut self, conjunct: &ast::Expr, cx: &Cx<'_>) -> Result<Option<Expr>, SqlError> {
        let ast::Expr::InSubquery { expr, subquery, negated: false } = conjunct else { return Ok(None) };
        let Some(fields) = row_items(expr) else { return Ok(None) };
        self.check_width(&fields, subquery, cx)?;
        let found = exists(subquery, fields.len(), equal(&fields)?)?;
        Ok(Some(self.expr(&found, cx)?.expr))
    }

    /// The same as a value.
    pub(super) fn row_in(
        &mut self,
        fields: &[ast::Expr],
        subquery: &Query,
        negated: bool,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        self.check_width(fields, subquery, cx)?;
        let equal = equal(fields)?;
        let undecided = ast::Expr::IsNull(Box::new(ast::Expr::Nested(Box::new(equal.clone()))));
        let when =
            |condition: ast::Expr, value: ast::Value| ast::CaseWhen { condition, result: ast::Expr::value(value) };
        let found = ast::Expr::Case {
            case_token: ast::helpers::attached_token::AttachedToken::empty(),
            end_token: ast::helpers::attached_token::AttachedToken::empty(),
            operand: None,
            conditions: vec![
                when(exists(subquery, fields.len(), equal)?, ast::Value::Boolean(!negated)),
                when(exists(subquery, fields.len(), undecided)?, ast::Value::Null),
            ],
            else_result: Some(Box::new(ast::Expr::value(ast::Value::Boolean(negated)))),
        };
        self.expr(&found, cx)
    }

    fn check_width(&mut self, fields: &[ast::Expr], subquery: &Query, cx: &Cx<'_>) -> Result<(), SqlError> {
        let width = self.query(subquery, Some(cx.frame), Settle::Text)?.columns.len();
        let problem = match width.cmp(&fields.len()) {
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Less => "few",
            std::cmp::Ordering::Greater => "many",
        };
        Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {problem} columns")))
    }
}

/// `a = __in.c0 AND b = __in.c1`
fn equal(fields: &[ast::Expr]) -> Result<ast::Expr, SqlError> {
    let each = fields.iter().enumerate().map(|(at, field)| ast::Expr::BinaryOp {
        left: Box::new(ast::Expr::Nested(Box::new(field.clone()))),
        op: BinaryOperator::Eq,
        right: Box::new(ast::Expr::CompoundIdentifier(vec![ast::Ident::new(ROWS), ast::Ident::new(format!("c{at}"))])),
    });
    let and =
        |left, right| ast::Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    each.reduce(and).ok_or_else(|| SqlError::unsupported("IN of a row without columns"))
}

/// `EXISTS (SELECT 1 FROM (subquery) AS __in (c0, c1) WHERE condition)`
fn exists(subquery: &Query, width: usize, condition: ast::Expr) -> Result<ast::Expr, SqlError> {
    let columns: Vec<String> = (0..width).map(|at| format!("c{at}")).collect();
    let mut query = parse_query(&format!("SELECT 1 FROM (SELECT 1) AS {ROWS} ({}) WHERE true", columns.join(", ")))?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = Some(condition);
        if let Some(TableFactor::Derived { subquery: derived, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            **derived = subquery.clone();
        }
    }
    Ok(ast::Expr::Exists { subquery: query, negated: false })
}
