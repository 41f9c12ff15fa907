//! Names of what is created: where it goes, and what has its name already.

use crate::names::{TEMPORARY, resolve_new_item, temporary_schema, unknown_database};
use crate::plan::ddl::{check_create_in, exists_notice};
use crate::plan::privileges::has_privilege;
use crate::plan::{ItemRef, Plan, PlanContext, SchemaRef, TableSchema};
use engine::error::SqlError;
use engine::names::{ObjectId, Privilege};
use repr::sqlstate::SqlState;
use sql_syntax::names::{FullName, Name};
use std::sync::Arc;

/// Where a new table goes, its full name, and what has that name already.
pub(super) fn new_table(
    ctx: &PlanContext<'_>,
    name: &Name,
    temporary: bool,
) -> Result<(TableSchema, FullName, Option<Arc<ItemRef>>), SqlError> {
    if let Some(item) = temporary_name(name, temporary)? {
        return new_temporary(ctx, item);
    }
    let (schema, name, existing) = new_item(ctx, name)?;
    Ok((TableSchema::Existing(schema.id), name, existing))
}

/// The name of a temporary table, which may say no other schema than `pg_temp`; `None` for a table that stays.
fn temporary_name(name: &Name, temporary: bool) -> Result<Option<&str>, SqlError> {
    match name.parts.as_slice() {
        [schema, item] if schema == TEMPORARY => Ok(Some(item)),
        [item] if temporary => Ok(Some(item)),
        _ if temporary => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            "cannot create temporary relation in non-temporary schema",
        )),
        _ => Ok(None),
    }
}

/// Where a temporary table goes: see [`new_item`].
fn new_temporary(ctx: &PlanContext<'_>, item: &str) -> Result<(TableSchema, FullName, Option<Arc<ItemRef>>), SqlError> {
    let database = &ctx.session.database;
    let found = ctx.catalog.database_by_name(database).ok_or_else(|| unknown_database(database))?;
    if !has_privilege(ctx.catalog, ctx.role, ObjectId::Database(found.id), Privilege::Temporary) {
        let message = format!("permission denied to create temporary tables in database \"{database}\"");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let schema = temporary_schema(ctx.session.backend_pid);
    let name = FullName { database: Some(database.clone()), schema: schema.clone(), item: item.to_owned() };
    let there = ctx.catalog.schema_by_name(Some(found.id), &schema);
    let existing = there.and_then(|there| ctx.catalog.item_by_name(there.id, item));
    Ok((TableSchema::Temporary { database: found.id, name: schema }, name, existing))
}

/// The full name of an item of a schema.
pub(super) fn full_name(ctx: &PlanContext<'_>, schema: &SchemaRef, item: String) -> FullName {
    let database = schema.database.and_then(|id| ctx.catalog.database(id)).map(|database| database.name.clone());
    FullName { database, schema: schema.name.clone(), item }
}

/// 42P07, or the notice that IF NOT EXISTS makes of it.
pub(super) fn already_exists(name: &str, if_not_exists: bool, tag: &'static str) -> Result<Plan, SqlError> {
    let what = format!("relation \"{name}\"");
    if if_not_exists {
        return Ok(Plan::NoOp { tag, notices: vec![exists_notice(SqlState::DUPLICATE_TABLE, &what)] });
    }
    Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("{what} already exists")))
}

/// Where a new relation goes, its full name, and what has that name already.
pub(super) fn new_item(
    ctx: &PlanContext<'_>,
    name: &Name,
) -> Result<(Arc<SchemaRef>, FullName, Option<Arc<ItemRef>>), SqlError> {
    let (schema, item) = resolve_new_item(ctx.catalog, ctx.scope(), name)?;
    check_create_in(ctx, &schema)?;
    let existing = ctx.catalog.item_by_name(schema.id, &item);
    Ok((Arc::clone(&schema), full_name(ctx, &schema, item), existing))
}
