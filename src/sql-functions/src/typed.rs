//! Expressions with the types that Postgres gives them.

use crate::decimals::decimal;
use arrow::datatypes::{DataType, i256};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::value::to_scalar;
use repr::types::NumericDisplay;
use repr::{Datum, PgType};

/// An expression with the type Postgres gives it.
#[derive(Clone, Debug)]
pub struct TypedExpr {
    /// The expression.
    pub expr: Expr,
    /// Its Postgres type; `Unknown` for an undecorated string literal, NULL or undecided parameter.
    pub ty: PgType,
    /// The Arrow type of its values.
    pub data_type: DataType,
    /// Whether it can be NULL.
    pub nullable: bool,
}

impl TypedExpr {
    /// A typed expression that may be NULL.
    pub fn new(expr: Expr, ty: PgType, data_type: DataType) -> TypedExpr {
        TypedExpr { expr, ty, data_type, nullable: true }
    }

    /// The value itself, which may be NULL whatever it was before.
    pub fn nullable(self) -> TypedExpr {
        TypedExpr { expr: engine::nullable::nullable(self.expr), nullable: true, ..self }
    }

    /// A constant of a type whose Arrow type follows from it.
    pub fn constant(value: &Datum<'_>, ty: PgType) -> Result<TypedExpr, SqlError> {
        let data_type = ty.data_type();
        let scalar = to_scalar(value, &data_type)?;
        let nullable = value.is_null();
        Ok(TypedExpr { expr: Expr::Literal(scalar, None), ty, data_type, nullable })
    }

    /// A list of the catalogs as an array, which is how all functions but the subscripts take it; anything else as it is.
    pub fn vector_as_array(self) -> TypedExpr {
        match self.ty.vector_item() {
            Some(item) => TypedExpr { ty: PgType::Array(Box::new(item)), ..self },
            None => self,
        }
    }

    /// A numeric constant with its own scale.
    pub fn numeric(value: i256, scale: i8) -> Result<TypedExpr, SqlError> {
        let digits = value.to_string().trim_start_matches('-').len() as u8;
        let data_type = decimal(digits.max(scale as u8).max(1), scale);
        let scalar = to_scalar(&Datum::Numeric(value, scale), &data_type)?;
        let ty = PgType::Numeric(NumericDisplay::Scale);
        Ok(TypedExpr { expr: Expr::Literal(scalar, None), ty, data_type, nullable: false })
    }

    /// The value of a constant.
    pub fn as_literal(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(scalar, _) => Some(scalar),
            _ => None,
        }
    }

    /// The text of an undecorated string literal.
    pub fn as_unknown_text(&self) -> Option<&str> {
        match (&self.ty, &self.expr) {
            (PgType::Unknown, Expr::Literal(ScalarValue::Utf8View(Some(text)), _)) => Some(text),
            _ => None,
        }
    }
}
