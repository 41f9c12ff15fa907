//! What the catalogs show of constraints: `pg_constraint`, and the relations of `information_schema` that are about them.

use super::{Context, Producer, SystemRelation, position, text};
use crate::builtin::standard::{database, visible, yes_or_no};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use repr::GlobalId;
use repr::datum::Datum;
use sql::plan::constraint::index_of;
use sql::plan::{ConstraintKind, ItemRef};
use sql_syntax::names::quote_ident;
use std::sync::Arc;

pub(super) fn producer(schema: &str, name: &str) -> Option<Producer> {
    Some(match (schema, name) {
        ("pg_catalog", "pg_constraint") => pg_constraint,
        ("information_schema", "table_constraints") => table_constraints,
        ("information_schema", "key_column_usage") => key_column_usage,
        ("information_schema", "constraint_column_usage") => constraint_column_usage,
        ("information_schema", "check_constraints") => check_constraints,
        _ => return None,
    })
}

fn positions(columns: &[usize]) -> Datum<'static> {
    Datum::List(columns.iter().map(|column| Datum::Int2(position(*column))).collect())
}

fn pg_constraint(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for table in context.items() {
        for constraint in table.constraints() {
            let condition = match &constraint.kind {
                ConstraintKind::Key { .. } => Datum::Null,
                ConstraintKind::Check { sql, .. } => text(sql),
            };
            let index = index_of(context.catalog, table.id, constraint.oid).map_or(0, |index| index.oid);
            rows.push([
                Datum::Oid(constraint.oid),
                text(&constraint.name),
                Datum::Oid(context.schema_oid(table.schema)),
                text(match constraint.kind {
                    ConstraintKind::Key { primary: true, .. } => "p",
                    ConstraintKind::Key { .. } => "u",
                    ConstraintKind::Check { .. } => "c",
                }),
                Datum::Bool(true),
                Datum::Oid(table.oid),
                Datum::Oid(index),
                Datum::Bool(true),
                Datum::Bool(constraint.is_key()),
                text(" "),
                text(" "),
                text(" "),
                positions(constraint.columns()),
                condition,
            ]);
        }
    }
    relation.batch(
        [
            "oid",
            "conname",
            "connamespace",
            "contype",
            "convalidated",
            "conrelid",
            "conindid",
            "conislocal",
            "connoinherit",
            "confupdtype",
            "confdeltype",
            "confmatchtype",
            "conkey",
            "conbin",
        ],
        rows,
    )
}

/// Tables that the role may see, which are its own.
fn tables(context: &Context<'_>) -> impl Iterator<Item = Arc<ItemRef>> {
    visible(context).into_iter().filter(|item| matches!(item.id, GlobalId::User(_)))
}

/// The CHECK constraint that the SQL standard has for a column that is NOT NULL, named as Postgres names it, and its condition.
fn not_null(context: &Context<'_>, table: &ItemRef) -> Vec<(String, String)> {
    let schema = context.schema_oid(table.schema);
    let columns = table.desc.columns.iter().enumerate().filter(|(_, column)| !column.nullable);
    columns
        .filter(|_| matches!(table.kind, sql::plan::ItemKind::Table { .. }))
        .map(|(at, column)| {
            let name = format!("{schema}_{}_{}_not_null", table.oid, position(at));
            (name, format!("{} IS NOT NULL", quote_ident(&column.name)))
        })
        .collect()
}

fn table_constraints(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for table in tables(context) {
        let kinds = table.constraints().iter().map(|constraint| {
            let kind = match constraint.kind {
                ConstraintKind::Key { primary: true, .. } => "PRIMARY KEY",
                ConstraintKind::Key { .. } => "UNIQUE",
                ConstraintKind::Check { .. } => "CHECK",
            };
            (constraint.name.clone(), kind)
        });
        let not_null = not_null(context, &table).into_iter().map(|(name, _)| (name, "CHECK"));
        for (name, kind) in kinds.chain(not_null) {
            let nulls_distinct = if kind == "UNIQUE" { yes_or_no(true) } else { Datum::Null };
            rows.push([
                database(context),
                text(&table.name.schema),
                text(name),
                database(context),
                text(&table.name.schema),
                text(&table.name.item),
                text(kind),
                yes_or_no(false),
                yes_or_no(false),
                yes_or_no(true),
                nulls_distinct,
            ]);
        }
    }
    relation.batch(
        [
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_type",
            "is_deferrable",
            "initially_deferred",
            "enforced",
            "nulls_distinct",
        ],
        rows,
    )
}

fn key_column_usage(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for table in tables(context) {
        for constraint in table.constraints().iter().filter(|constraint| constraint.is_key()) {
            for (at, column) in constraint.columns().iter().enumerate() {
                rows.push([
                    database(context),
                    text(&table.name.schema),
                    text(&constraint.name),
                    database(context),
                    text(&table.name.schema),
                    text(&table.name.item),
                    text(&table.desc.columns[*column].name),
                    Datum::Int4(position(at).into()),
                ]);
            }
        }
    }
    relation.batch(
        [
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
        ],
        rows,
    )
}

fn constraint_column_usage(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for table in tables(context) {
        for constraint in table.constraints() {
            for column in constraint.columns() {
                rows.push([
                    database(context),
                    text(&table.name.schema),
                    text(&table.name.item),
                    text(&table.desc.columns[*column].name),
                    database(context),
                    text(&table.name.schema),
                    text(&constraint.name),
                ]);
            }
        }
    }
    relation.batch(
        [
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
        ],
        rows,
    )
}

fn check_constraints(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for table in tables(context) {
        let checks = table.constraints().iter().filter_map(|constraint| match &constraint.kind {
            ConstraintKind::Check { sql, .. } => Some((constraint.name.clone(), format!("(({sql}))"))),
            ConstraintKind::Key { .. } => None,
        });
        for (name, condition) in checks.chain(not_null(context, &table)) {
            rows.push([database(context), text(&table.name.schema), text(name), text(condition)]);
        }
    }
    relation.batch(["constraint_catalog", "constraint_schema", "constraint_name", "check_clause"], rows)
}
