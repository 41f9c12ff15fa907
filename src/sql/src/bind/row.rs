//! Row constructors: `ROW(a, b)` and `(a, b)` as values.
//!
//! Rows that are compared, searched for or grouped by are taken apart where that is done, and never become values.

use super::Binder;
use super::reads::Reads;
use super::scope::{Frame, RelationName, fold};
use crate::bind::cx::Cx;
use crate::bind::name::object_name;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use repr::PgType;
use sql_functions::TypedExpr;
use sql_functions::record::make_row;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr};

/// A field, or several.
enum Item<'a> {
    Value(&'a ast::Expr),
    /// `t.*`: all columns of a relation.
    All(&'a ast::ObjectName),
}

impl Binder<'_> {
    /// The value of a row constructor, if the expression is one.
    pub(super) fn row(&mut self, expr: &ast::Expr, cx: &Cx<'_>) -> Result<Option<TypedExpr>, SqlError> {
        let Some(items) = items(expr) else { return Ok(None) };
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Value(value) => {
                    let value = self.expr(value, cx)?;
                    values.push(self.field(value)?);
                }
                Item::All(relation) => values.extend(columns(cx.frame, relation, &mut self.reads)?),
            }
        }
        Ok(Some(make_row(values)))
    }

    /// A literal stays undecided, as clients see in the record's binary form; a parameter cannot.
    fn field(&mut self, value: TypedExpr) -> Result<TypedExpr, SqlError> {
        match (&value.ty, &value.expr) {
            (PgType::Unknown, Expr::Literal(..)) => Ok(value),
            (PgType::Void, _) => Err(SqlError::unsupported("a field without a value in a row")),
            _ => self.coercer.settle(value),
        }
    }
}

fn items(expr: &ast::Expr) -> Option<Vec<Item<'_>>> {
    match expr {
        ast::Expr::Tuple(items) => Some(items.iter().map(item).collect()),
        ast::Expr::Function(function) if function.over.is_none() => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            if object_name(&function.name).ok()? != ["row"] || !list.clauses.is_empty() {
                return None;
            }
            list.args
                .iter()
                .map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(item(value)),
                    FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(relation)) => Some(Item::All(relation)),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

fn item(expr: &ast::Expr) -> Item<'_> {
    match expr {
        ast::Expr::QualifiedWildcard(relation, _) => Item::All(relation),
        value => Item::Value(value),
    }
}

/// The columns of a relation in scope.
fn columns(frame: &Frame<'_>, relation: &ast::ObjectName, reads: &mut Reads) -> Result<Vec<TypedExpr>, SqlError> {
    let parts: Option<Vec<&ast::Ident>> = relation.0.iter().map(|part| part.as_ident()).collect();
    let parts = parts.ok_or_else(|| SqlError::unsupported("this form of a relation's name"))?;
    let names: Vec<String> = parts.iter().map(|part| fold(part)).collect();
    let first = parts.first().ok_or_else(|| SqlError::internal("a name has a part"))?;
    frame.columns(RelationName::new(&names)?, first, reads)
}
