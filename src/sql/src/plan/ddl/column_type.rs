//! ALTER COLUMN … TYPE: what becomes of a column's values, of its DEFAULT, and of what refers to it.
//!
//! The new values are those of an expression over the columns that the table had before the statement, as in Postgres: USING, or
//! the column itself. Indexes follow; views do not, whose columns have types of their own, and keep the column as it is.

use super::default::check_default;
use super::index::without_qualifiers;
use super::operator_class::operator_class;
use crate::bind::subquery::has_subquery;
use crate::bind::{self, Params, coerce};
use crate::plan::column::view_reads;
use crate::plan::constraint::{check_key_type, plan_checks};
use crate::plan::resolver::Dependencies;
use crate::plan::{IndexDef, ItemKind, ItemRef, PlanContext};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::temporal::reads_now;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_functions::TypedExpr;
use sql_syntax::names::quote_ident;
use sql_syntax::parser::parse_expr;
use sqlparser::ast as sp;
use std::sync::Arc;

/// The new values of a column, over the columns of `table` without a qualifier. Errors: 42804 if they are not of the type.
pub(super) fn conversion(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    column: usize,
    ty: &PgType,
    using: Option<&sp::Expr>,
) -> Result<Expr, SqlError> {
    let name = &table.desc.columns[column].name;
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let values = match using {
        Some(using) => bind_using(ctx, table, using)?,
        None => {
            let own = sp::Expr::Identifier(sp::Ident::with_quote('"', name));
            let schema = DFSchema::try_from(Arc::clone(&table.desc.schema))?;
            bind::plan_expr(&own, &schema, &mut Params::none(), &resolver)?
        }
    };
    let assigned = coerce::assign(values, ty, name, &mut Params::none(), &resolver);
    assigned.map_err(|error| match (error.sqlstate, using) {
        (SqlState::DATATYPE_MISMATCH, None) => mismatch(format!("column \"{name}\""), ty).with_hint(format!(
            "You might need to specify \"USING {}::{}\".",
            quote_ident(name),
            ty.name()
        )),
        (SqlState::DATATYPE_MISMATCH, Some(_)) => mismatch(format!("result of USING clause for column \"{name}\""), ty)
            .with_hint("You might need to add an explicit cast."),
        _ => error,
    })
}

fn bind_using(ctx: &PlanContext<'_>, table: &ItemRef, using: &sp::Expr) -> Result<TypedExpr, SqlError> {
    if has_subquery(using) {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in transform expression"));
    }
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    // Bound twice: what its qualifiers say has to be true, and what it is then has none.
    let qualifier = TableReference::bare(table.name.item.clone());
    let qualified = DFSchema::try_from_qualified_schema(qualifier, &table.desc.schema)?;
    bind::plan_expr(using, &qualified, &mut Params::none(), &resolver)?;
    let schema = DFSchema::try_from(Arc::clone(&table.desc.schema))?;
    let bound = bind::plan_expr(&without_qualifiers(using), &schema, &mut Params::none(), &resolver)?;
    if reads_now(&bound.expr) {
        return Err(SqlError::unsupported("mz_now() in a transform expression"));
    }
    Ok(bound)
}

/// The DEFAULT of a column as one of another type: the same, which is assigned. What a mere literal means was decided by the
/// column's type before. Error 42804.
pub(super) fn converted_default(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    column: usize,
    ty: &PgType,
) -> Result<Option<String>, SqlError> {
    let ItemKind::Table { defaults, .. } = &table.kind else { return Ok(None) };
    let described = &table.desc.columns[column];
    let Some(sql) = &defaults[column] else { return Ok(None) };
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let mut converted = parse_expr(sql)?;
    let bound = bind::plan_expr(&converted, &DFSchema::empty(), &mut Params::none(), &resolver)?;
    if bound.ty == PgType::Unknown {
        converted = parse_expr(&format!("CAST({sql} AS {})", described.ty.name()))?;
    }
    check_default(ctx, &described.name, ty, &converted).map_err(|error| match error.sqlstate {
        SqlState::DATATYPE_MISMATCH => mismatch(format!("default for column \"{}\"", described.name), ty),
        _ => error,
    })?;
    Ok(Some(converted.to_string()))
}

/// Errors: 0A000 if a view reads the column.
pub(super) fn check_no_view_reads(ctx: &PlanContext<'_>, table: &ItemRef, column: usize) -> Result<(), SqlError> {
    let name = &table.desc.columns[column].name;
    let dependents = ctx.catalog.dependents(table.id);
    for view in dependents.into_iter().filter_map(|id| ctx.catalog.item(id)) {
        if view.context().is_some() && view_reads(ctx, &view, table, column)? {
            let (kind, view) = (view.object_kind(), &view.name.item);
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used by a view or rule",
            )
            .with_detail(format!("rule _RETURN on {kind} {view} depends on column \"{name}\"")));
        }
    }
    Ok(())
}

/// Whether the constraints that the table has still have a meaning. Errors: 42883 and others of a CHECK, 42704 of a key.
pub(super) fn check_constraints(ctx: &PlanContext<'_>, table: &ItemRef) -> Result<(), SqlError> {
    let keys = table.constraints().iter().filter(|constraint| constraint.is_key());
    for column in keys.flat_map(|key| key.columns()) {
        check_key_type(&table.desc.columns[*column].ty)?;
    }
    plan_checks(ctx, table).map(drop)
}

/// Whether an index whose key has the column can have it as one of another type. Errors: 42704, 42804.
pub(super) fn check_index(index: &IndexDef, column: usize, ty: &PgType) -> Result<(), SqlError> {
    for key in index.keys.iter().filter(|key| key.column == Some(column)) {
        key.options.class.as_deref().map_or(Ok(None), |class| operator_class(class, ty))?;
        if index.unique {
            check_key_type(ty)?;
        }
    }
    Ok(())
}

fn mismatch(what: String, ty: &PgType) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, format!("{what} cannot be cast automatically to type {}", ty.name()))
}
