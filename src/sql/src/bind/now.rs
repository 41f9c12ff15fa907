//! `mz_now()` beside other expressions.

use super::Binder;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::temporal::NAMES_OF_NOW;
use repr::PgType;
use sql_functions::TypedExpr;
use sql_functions::cast::parse_numeric;
use sqlparser::tokenizer::Span;

/// `mz_now()` as it stands in SQL.
fn is_bare(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == NAMES_OF_NOW[0])
}

impl Binder<'_> {
    /// `mz_now()` in the type in which it compares with another expression; anything else as it is.
    pub fn now_beside(&mut self, expr: TypedExpr, other: &TypedExpr) -> Result<TypedExpr, SqlError> {
        if !is_bare(&expr.expr) {
            return Ok(expr);
        }
        match other.as_unknown_text() {
            // A literal that is no number is a timestamp.
            Some(text) if parse_numeric(text).is_err() => self.now_as(expr, &PgType::Timestamptz),
            _ => self.now_as(expr, &other.ty),
        }
    }

    /// `mz_now()` as a timestamp, if that is what is asked for or a date; anything else as it is.
    pub fn now_as(&mut self, expr: TypedExpr, ty: &PgType) -> Result<TypedExpr, SqlError> {
        let is_bare = is_bare(&expr.expr);
        match ty {
            PgType::Date | PgType::Timestamp if is_bare => self.call(NAMES_OF_NOW[1], Vec::new(), Span::empty()),
            PgType::Timestamptz if is_bare => self.call(NAMES_OF_NOW[2], Vec::new(), Span::empty()),
            _ => Ok(expr),
        }
    }
}
