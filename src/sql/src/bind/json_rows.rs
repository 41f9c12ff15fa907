//! `jsonb_to_recordset(…) AS t(a int, b text)` and its kin: rows whose columns the query names, out of JSON objects.
//!
//! The objects are unnested, and each column is what its object has under the column's name.

use super::Binder;
use super::scope::{Clause, Frame, Scope, ScopeColumn, fold};
use crate::bind::cx::Cx;
use crate::bind::relation::{Relation, TableCall};
use datafusion::logical_expr::when;
use engine::error::SqlError;
use pgrepr::length::LengthRule;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sql_functions::TypedExpr;
use sql_functions::internal::{at_least_one, json_object_of};
use sql_syntax::types::from_ast;
use sqlparser::ast::TableAlias;
use sqlparser::tokenizer::Span;
use std::collections::HashSet;

/// Where the objects come from.
#[derive(Clone, Copy)]
pub(super) struct Source {
    json: &'static str,
    is_set: bool,
}

/// The source of the objects, if this function makes rows of them.
pub(super) fn source(function: &str) -> Option<Source> {
    let (json, is_set) = match function {
        "json_to_record" => ("json", false),
        "json_to_recordset" => ("json", true),
        "jsonb_to_record" => ("jsonb", false),
        "jsonb_to_recordset" => ("jsonb", true),
        _ => return None,
    };
    Some(Source { json, is_set })
}

impl Binder<'_> {
    /// The rows of such a function, over the rows of what stands to its left, which are kept if it gives none and is optional.
    pub(super) fn json_rows(
        &mut self,
        left: Relation,
        (source, call): (Source, &TableCall<'_>),
        (alias, ordinality, optional): (Option<&TableAlias>, bool, bool),
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation, SqlError> {
        let alias =
            alias.filter(|alias| alias.columns.iter().any(|column| column.data_type.is_some())).ok_or_else(|| {
                let message = "a column definition list is required for functions returning \"record\"";
                SqlError::new(SqlState::SYNTAX_ERROR, message)
            })?;
        if ordinality {
            let message = "WITH ORDINALITY cannot be used with a column definition list";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let [document] = call.args.as_slice() else {
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {} does not exist", call.name)));
        };
        let frame = Frame { scope: &left.scope, outer };
        let document = self.expr(document, &Cx::new(&frame, Clause::From))?;
        let json = if source.json == "json" { PgType::Json } else { PgType::Jsonb };
        let document = self.coercer.implicit(document, &json, "argument")?;
        let objects = match source.is_set {
            true => self.set(&format!("{}_array_elements", source.json), document)?,
            false => self.make_array(vec![document], &json)?,
        };
        let objects = if optional { at_least_one(&[objects])? } else { objects };
        let (plan, unnested) = self.unnest_over(left.plan, vec![objects])?;
        let mut columns = left.scope.columns;
        let visible = fold(&alias.name);
        let names: HashSet<String> = alias.columns.iter().map(|column| fold(&column.name)).collect();
        if names.len() < alias.columns.len() {
            let message = "a column name appears more than once in a column definition list";
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        for (expr, ty, data_type) in unnested {
            let object = json_object_of(TypedExpr::new(expr, ty, data_type))?;
            for column in &alias.columns {
                let Some(declared) = &column.data_type else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a column definition list names types"));
                };
                let (name, ty) = (fold(&column.name), from_ast(declared)?);
                let value = self.member(object.clone(), &name, &ty).map_err(|error| error.at(column.name.span))?;
                columns.push(ScopeColumn { optional, ..ScopeColumn::new(Some(visible.clone()), name, value) });
            }
        }
        Ok(Relation { plan, scope: Scope { columns } })
    }

    /// What an object has under a name, as a value of a type. JSON's null is NULL.
    fn member(&mut self, object: TypedExpr, name: &str, ty: &PgType) -> Result<TypedExpr, SqlError> {
        let key = TypedExpr::constant(&Datum::Text(name.into()), PgType::Text)?;
        let text = self.call("->>", vec![object.clone(), key.clone()], Span::empty())?;
        match ty {
            PgType::Json | PgType::Jsonb => {
                let is_there = text.expr.is_not_null();
                let value = self.call("->", vec![object, key], Span::empty())?;
                let value = TypedExpr { expr: when(is_there, value.expr.clone()).end()?, nullable: true, ..value };
                self.coercer.explicit(value, ty)
            }
            PgType::Array(_) => Err(SqlError::unsupported("an array out of JSON")),
            // As text is read into a column: what is too long is no value.
            ty => self.coercer.cast(text, ty, LengthRule::Assign),
        }
    }
}
