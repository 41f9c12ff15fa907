//! What the catalogs show of constraints: `pg_constraint`, and the relations of `information_schema` that are about them.

use super::{Context, Producer, SystemRelation, position, text};
use crate::builtin::standard::{database, visible, yes_or_no};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use repr::GlobalId;
use repr::datum::Datum;
use sql::plan::constraint::{Reference, index_of, references};
use sql::plan::{CatalogView, ConstraintDef, ConstraintKind, ForeignKey, ItemRef};
use sql_syntax::ast::{Action, Deferral};
use sql_syntax::names::quote_ident;
use std::sync::Arc;

pub(super) fn producer(schema: &str, name: &str) -> Option<Producer> {
    Some(match (schema, name) {
        ("pg_catalog", "pg_constraint") => pg_constraint,
        ("information_schema", "table_constraints") => table_constraints,
        ("information_schema", "key_column_usage") => key_column_usage,
        ("information_schema", "constraint_column_usage") => constraint_column_usage,
        ("information_schema", "referential_constraints") => referential_constraints,
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
        let all_references = references(context.catalog, &table);
        for constraint in table.constraints() {
            let condition = match &constraint.kind {
                ConstraintKind::Check { sql, .. } => text(sql),
                ConstraintKind::Key { .. } | ConstraintKind::Foreign(_) => Datum::Null,
            };
            let reference = all_references.iter().find(|reference| reference.oid == constraint.oid);
            let (of, key) = match reference {
                Some(reference) => (reference.parent.id, reference.key.oid),
                None => (table.id, constraint.oid),
            };
            let index = index_of(context.catalog, of, key).map(|index| index.oid);
            let foreign = reference.map(|reference| &reference.foreign);
            let of_foreign = |what: &dyn Fn(&ForeignKey) -> &'static str| text(foreign.map_or(" ", what));
            rows.push([
                Datum::Oid(constraint.oid),
                text(&constraint.name),
                Datum::Oid(context.schema_oid(table.schema)),
                text(match constraint.kind {
                    ConstraintKind::Key { primary: true, .. } => "p",
                    ConstraintKind::Key { .. } => "u",
                    ConstraintKind::Check { .. } => "c",
                    ConstraintKind::Foreign(_) => "f",
                }),
                Datum::Bool(foreign.is_some_and(|foreign| foreign.deferral != Deferral::Never)),
                Datum::Bool(foreign.is_some_and(|foreign| foreign.deferral == Deferral::Deferred)),
                Datum::Bool(foreign.is_none_or(|foreign| foreign.is_valid)),
                Datum::Oid(table.oid),
                // Of a unique index that is no constraint, the key's oid is its own.
                Datum::Oid(index.unwrap_or(if reference.is_some() { key } else { 0 })),
                Datum::Oid(reference.map_or(0, |reference| reference.parent.oid)),
                Datum::Bool(true),
                Datum::Bool(!matches!(constraint.kind, ConstraintKind::Check { .. })),
                of_foreign(&|foreign| code(foreign.on_update)),
                of_foreign(&|foreign| code(foreign.on_delete)),
                of_foreign(&|foreign| if foreign.is_full { "f" } else { "s" }),
                positions(constraint.columns()),
                foreign.map_or(Datum::Null, |foreign| positions(&foreign.referred)),
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
            "condeferrable",
            "condeferred",
            "convalidated",
            "conrelid",
            "conindid",
            "confrelid",
            "conislocal",
            "connoinherit",
            "confupdtype",
            "confdeltype",
            "confmatchtype",
            "conkey",
            "confkey",
            "conbin",
        ],
        rows,
    )
}

/// As `confupdtype` has it.
fn code(action: Action) -> &'static str {
    match action {
        Action::NoAction => "a",
        Action::Restrict => "r",
        Action::Cascade => "c",
        Action::SetNull => "n",
        Action::SetDefault => "d",
    }
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
                ConstraintKind::Foreign(_) => "FOREIGN KEY",
            };
            let deferral = match &constraint.kind {
                ConstraintKind::Foreign(foreign) => foreign.deferral,
                _ => Deferral::Never,
            };
            (constraint.name.clone(), kind, deferral)
        });
        let not_null = not_null(context, &table).into_iter().map(|(name, _)| (name, "CHECK", Deferral::Never));
        for (name, kind, deferral) in kinds.chain(not_null) {
            let nulls_distinct = if kind == "UNIQUE" { yes_or_no(true) } else { Datum::Null };
            rows.push([
                database(context),
                text(&table.name.schema),
                text(name),
                database(context),
                text(&table.name.schema),
                text(&table.name.item),
                text(kind),
                yes_or_no(deferral != Deferral::Never),
                yes_or_no(deferral == Deferral::Deferred),
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
        let all_references = references(context.catalog, &table);
        let is_check = |constraint: &ConstraintDef| matches!(constraint.kind, ConstraintKind::Check { .. });
        for constraint in table.constraints().iter().filter(|constraint| !is_check(constraint)) {
            let reference = all_references.iter().find(|reference| reference.oid == constraint.oid);
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
                    reference.and_then(|reference| place(reference, at)).map_or(Datum::Null, Datum::Int4),
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
            "position_in_unique_constraint",
        ],
        rows,
    )
}

/// The place, from 1, of the column that a column of a foreign key refers to among those of the constraint that is its key.
fn place(reference: &Reference, at: usize) -> Option<i32> {
    let referred = reference.foreign.referred.get(at)?;
    let place = reference.key.columns.iter().position(|column| column == referred)?;
    Some(position(place).into())
}

fn referential_constraints(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for table in tables(context) {
        for Reference { name, parent, key, foreign, .. } in references(context.catalog, &table) {
            // A unique index is no constraint.
            let is_constraint = parent.constraints().iter().any(|constraint| constraint.oid == key.oid);
            let of_key = |what: Datum<'static>| if is_constraint { what } else { Datum::Null };
            rows.push([
                database(context),
                text(&table.name.schema),
                text(name),
                of_key(database(context)),
                of_key(text(&parent.name.schema)),
                of_key(text(key.name)),
                text(if foreign.is_full { "FULL" } else { "NONE" }),
                text(foreign.on_update.sql()),
                text(foreign.on_delete.sql()),
            ]);
        }
    }
    relation.batch(
        [
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "unique_constraint_catalog",
            "unique_constraint_schema",
            "unique_constraint_name",
            "match_option",
            "update_rule",
            "delete_rule",
        ],
        rows,
    )
}

fn constraint_column_usage(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for table in tables(context) {
        for constraint in table.constraints() {
            // Of a foreign key, what it refers to.
            let other = match &constraint.kind {
                ConstraintKind::Foreign(ForeignKey { parent: Some(parent), .. }) => context.catalog.item(*parent),
                _ => None,
            };
            let of = other.as_ref().unwrap_or(&table);
            let columns = match &constraint.kind {
                ConstraintKind::Foreign(foreign) => foreign.referred.as_slice(),
                _ => constraint.columns(),
            };
            for column in columns {
                rows.push([
                    database(context),
                    text(&of.name.schema),
                    text(&of.name.item),
                    text(&of.desc.columns[*column].name),
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
            ConstraintKind::Key { .. } | ConstraintKind::Foreign(_) => None,
        });
        for (name, condition) in checks.chain(not_null(context, &table)) {
            rows.push([database(context), text(&table.name.schema), text(name), text(condition)]);
        }
    }
    relation.batch(["constraint_catalog", "constraint_schema", "constraint_name", "check_clause"], rows)
}
