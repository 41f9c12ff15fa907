//! Constants and parameters.

use super::Binder;
use crate::bind::coerce;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sql_functions::TypedExpr;
use sql_functions::cast::parse_numeric;
use sql_syntax::types::from_ast;
use sqlparser::ast::{self, Spanned, Value, ValueWithSpan};

impl Binder<'_> {
    /// A constant, or a parameter.
    pub fn literal(&mut self, value: &ValueWithSpan) -> Result<TypedExpr, SqlError> {
        match &value.value {
            Value::Number(text, _) => number(text).map_err(|error| error.at(value.span)),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => Ok(unknown(text)),
            Value::DollarQuotedString(text) => Ok(unknown(&text.value)),
            Value::Boolean(v) => TypedExpr::constant(&Datum::Bool(*v), PgType::Bool),
            Value::Null => Ok(null()),
            Value::Placeholder(id) => self.placeholder(id).map_err(|error| error.at(value.span)),
            _ => Err(SqlError::unsupported(format!("the literal {}", value.value)).at(value.span)),
        }
    }

    fn placeholder(&mut self, id: &str) -> Result<TypedExpr, SqlError> {
        let index = id.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok()).unwrap_or(0);
        let params = &mut self.coercer.params;
        if index == 0 || index > 65_535 || !params.allowed {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {id}")));
        }
        if params.types.len() < index {
            params.types.resize(index, None);
        }
        Ok(match &params.types[index - 1] {
            Some(ty) => coerce::parameter(id, ty),
            None => {
                let expr = Expr::Placeholder(Placeholder::new_with_field(id.to_owned(), None));
                TypedExpr::new(expr, PgType::Unknown, DataType::Utf8View)
            }
        })
    }

    /// `date '2020-01-01'`
    pub fn typed_string(&mut self, typed: &ast::TypedString) -> Result<TypedExpr, SqlError> {
        let ty = from_ast(&typed.data_type)?;
        let literal = self.literal(&typed.value)?;
        self.coercer.explicit(literal, &ty).map_err(|error| error.at(typed.value.span))
    }

    /// `interval '1 day'`, `interval '1' day`
    pub fn interval(&mut self, interval: &ast::Interval) -> Result<TypedExpr, SqlError> {
        if interval.leading_precision.is_some()
            || interval.last_field.is_some()
            || interval.fractional_seconds_precision.is_some()
        {
            return Err(SqlError::unsupported("interval with a precision or a range of fields"));
        }
        let ast::Expr::Value(value) = interval.value.as_ref() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "an interval is made from a string"));
        };
        let literal = self.literal(value)?;
        let Some(text) = literal.as_unknown_text() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "an interval is made from a string"));
        };
        let text = match &interval.leading_field {
            None => text.to_owned(),
            Some(field) if text.trim().parse::<i64>().is_ok() => format!("{text} {field}"),
            Some(_) => return Err(SqlError::unsupported("interval with fields")),
        };
        self.coercer.explicit(unknown(&text), &PgType::Interval).map_err(|error| error.at(interval.value.span()))
    }
}

/// A string whose type the context decides.
pub fn unknown(text: &str) -> TypedExpr {
    TypedExpr {
        expr: Expr::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None),
        ty: PgType::Unknown,
        data_type: DataType::Utf8View,
        nullable: false,
    }
}

/// NULL.
pub fn null() -> TypedExpr {
    TypedExpr::new(Expr::Literal(ScalarValue::Utf8View(None), None), PgType::Unknown, DataType::Utf8View)
}

/// The smallest of int4, int8 and numeric that holds the number.
pub fn number(text: &str) -> Result<TypedExpr, SqlError> {
    if let Ok(v) = text.parse::<i32>() {
        return TypedExpr::constant(&Datum::Int4(v), PgType::Int4);
    }
    if let Ok(v) = text.parse::<i64>() {
        return TypedExpr::constant(&Datum::Int8(v), PgType::Int8);
    }
    let (value, scale) = parse_numeric(text).map_err(|error| match error.sqlstate {
        SqlState::INVALID_TEXT_REPRESENTATION => {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("trailing junk after numeric literal at or near \"{text}\""))
        }
        _ => error,
    })?;
    TypedExpr::numeric(value, scale)
}

/// The text of a number, possibly in parentheses and with a sign.
pub fn number_text(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Nested(inner) => number_text(inner),
        ast::Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => Some(text.clone()),
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => negative_number(expr),
        _ => None,
    }
}

/// A minus sign belongs to the number after it, so that the least integer can be written.
pub fn negative_number(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => Some(format!("-{text}")),
        _ => None,
    }
}
