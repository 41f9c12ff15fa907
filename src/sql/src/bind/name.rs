//! The names that Postgres gives to output columns without an alias.

use super::scope::fold;
use engine::error::SqlError;
use sql_functions::types;
use sql_syntax::types::from_ast;
use sqlparser::ast::{AccessExpr, Expr, Function, ObjectName, Query, SelectItem, SetExpr, Subscript};

/// The name of a column that cannot be named.
pub const NAMELESS: &str = "?column?";

/// How much a name says; a cast's type is used only where nothing better is found inside it.
enum Strength {
    None,
    Weak(String),
    Strong(String),
}

/// The output name of an expression.
pub fn output_name(expr: &Expr) -> String {
    match strength(expr) {
        Strength::None => NAMELESS.to_owned(),
        Strength::Weak(name) | Strength::Strong(name) => name,
    }
}

fn strong(name: &str) -> Strength {
    Strength::Strong(name.to_owned())
}

fn strength(expr: &Expr) -> Strength {
    match expr {
        Expr::Identifier(ident) if ident.quote_style.is_none() => Strength::Strong(special(&fold(ident))),
        Expr::Identifier(ident) => Strength::Strong(fold(ident)),
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(last) => Strength::Strong(fold(last)),
            None => Strength::None,
        },
        Expr::Function(function) => Strength::Strong(function_name(function)),
        Expr::Nested(inner) => strength(inner),
        Expr::Collate { expr, .. } => strength(expr),
        Expr::Cast { expr, data_type, .. } => match strength(expr) {
            Strength::Strong(name) => Strength::Strong(name),
            other => match from_ast(data_type) {
                Ok(ty) => Strength::Weak(types::internal_name(&ty)),
                Err(_) => other,
            },
        },
        Expr::TypedString(typed) => match from_ast(&typed.data_type) {
            Ok(ty) => Strength::Weak(types::internal_name(&ty)),
            Err(_) => Strength::None,
        },
        Expr::Interval(_) => Strength::Weak("interval".to_owned()),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(strength) {
            Some(Strength::Strong(name)) => Strength::Strong(name),
            _ => Strength::Weak("case".to_owned()),
        },
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Subquery(query) => subquery(query),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(AccessExpr::Dot(Expr::Identifier(field))) => Strength::Strong(fold(field)),
            Some(AccessExpr::Subscript(Subscript::Index { .. } | Subscript::Slice { .. })) => strength(root),
            _ => Strength::None,
        },
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Trim { trim_where, .. } => {
            use sqlparser::ast::TrimWhereField;
            strong(match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            })
        }
        Expr::AtTimeZone { .. } => strong("timezone"),
        _ => Strength::None,
    }
}

/// Functions that are written without parentheses.
fn special(name: &str) -> String {
    match name {
        "user" => "user".to_owned(),
        other => other.to_owned(),
    }
}

fn function_name(function: &Function) -> String {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.map(fold).unwrap_or_else(|| NAMELESS.to_owned())
}

fn subquery(query: &Query) -> Strength {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => {
                return match select.projection.first() {
                    Some(SelectItem::ExprWithAlias { alias, .. }) => Strength::Strong(fold(alias)),
                    Some(SelectItem::UnnamedExpr(expr)) => match strength(expr) {
                        Strength::None => Strength::None,
                        Strength::Weak(name) | Strength::Strong(name) => Strength::Strong(name),
                    },
                    _ => Strength::None,
                };
            }
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(inner) => body = inner.body.as_ref(),
            SetExpr::Values(_) => return strong("column1"),
            _ => return Strength::None,
        }
    }
}

/// The folded parts of a name.
pub fn object_name(name: &ObjectName) -> Result<Vec<String>, SqlError> {
    name.0
        .iter()
        .map(|part| part.as_ident().map(fold).ok_or_else(|| SqlError::unsupported("a computed name")))
        .collect()
}
