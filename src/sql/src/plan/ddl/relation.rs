//! CREATE TABLE, CREATE VIEW and CREATE MATERIALIZED VIEW.

use super::constraint::{Subject, plan_constraints, with_primary_key};
use super::default::kept_default;
use super::sequence::column_sequence;
use super::{check_owner, resolve_cluster};
use crate::bind::{self, Params};
use crate::names::is_temporary;
use crate::plan::ddl::name::{already_exists, new_item, new_table};
use crate::plan::resolver::{Dependencies, is_same_type};
use crate::plan::{CreateTablePlan, CreateViewPlan, ItemRef, Plan, PlanContext, TableSchema, ViewDef, ViewRead};
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind};
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::ast::{CreateTable, CreateView};
use sql_syntax::names::quote_ident;
use std::collections::HashSet;
use std::sync::Arc;

/// Postgres's limit on columns.
const COLUMNS_MAX: usize = 1600;
/// `54011 too_many_columns`.
const TOO_MANY_COLUMNS: SqlState = SqlState("54011");

pub(in crate::plan) fn plan_create_table(ctx: &PlanContext<'_>, create: &CreateTable) -> Result<Plan, SqlError> {
    let (schema, name, existing) = new_table(ctx, &create.name, create.temporary)?;
    if existing.is_some() {
        return already_exists(&name.item, create.if_not_exists, "CREATE TABLE");
    }
    check_column_count(create.columns.len())?;
    check_distinct(create.columns.iter().map(|column| column.name.as_str()))?;
    let mut defaults = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        check_storable(&column.name, &column.ty)?;
        let default = column.default.as_ref();
        defaults.push(default.map(|default| kept_default(ctx, &column.name, &column.ty, default)).transpose()?);
    }
    let columns = create.columns.iter().map(|column| (column.name.clone(), column.ty.clone(), column.nullable));
    let desc = Arc::new(RelationDesc::new(columns));
    let there = match &schema {
        TableSchema::Existing(schema) => Some(*schema),
        TableSchema::Temporary { database, name } => {
            ctx.catalog.schema_by_name(Some(*database), name).map(|schema| schema.id)
        }
    };
    let mut subject = Subject::new(ctx, there, &name, Arc::clone(&desc), Vec::new());
    let mut sequences = Vec::new();
    for (at, column) in create.columns.iter().enumerate() {
        sequences.extend(column_sequence(&mut subject, column)?.map(|sequence| (at, sequence)));
    }
    plan_constraints(ctx, &mut subject, &create.constraints)?;
    let constraints = subject.constraints;
    Ok(Plan::CreateTable(CreateTablePlan {
        schema,
        desc: Arc::new(with_primary_key(&desc, &constraints)),
        name,
        defaults,
        constraints,
        key_index: create.key_index.unwrap_or(true),
        sequences,
        webhook: None,
        if_not_exists: create.if_not_exists,
    }))
}

/// Errors: 54011.
pub(super) fn check_column_count(columns: usize) -> Result<(), SqlError> {
    if columns > COLUMNS_MAX {
        return Err(SqlError::new(TOO_MANY_COLUMNS, format!("tables can have at most {COLUMNS_MAX} columns")));
    }
    Ok(())
}

/// Pseudo-types are for expressions only.
pub(super) fn check_storable(column: &str, ty: &PgType) -> Result<(), SqlError> {
    let item = match ty {
        PgType::Array(item) => item.as_ref(),
        ty => ty,
    };
    match item {
        PgType::Unknown | PgType::Void | PgType::Record => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{column}\" has pseudo-type {}", item.name()),
        )),
        _ => Ok(()),
    }
}

pub(in crate::plan) fn plan_create_view(ctx: &PlanContext<'_>, create: &CreateView) -> Result<Plan, SqlError> {
    let (schema, name, existing) = new_item(ctx, &create.name)?;
    let cluster = match &create.materialized {
        Some(materialized) => Some(resolve_cluster(ctx, materialized.cluster.as_deref())?),
        None => None,
    };
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let planned = bind::plan_query(&create.query, &resolver, &mut Params::none())?;
    let (query, desc) = match named_query(create, &name.item, &planned.desc)? {
        None => (create.sql.clone(), planned.desc),
        Some(sql) => {
            let query = sql_syntax::parser::parse_query(&sql)?;
            let desc = bind::plan_query(&query, &resolver, &mut Params::none())?.desc;
            (sql, desc)
        }
    };
    check_distinct(desc.columns.iter().map(|column| column.name.as_str()))?;
    let is_temporary = |id: &GlobalId| ctx.catalog.item(*id).is_some_and(|item| is_temporary(&item.name.schema));
    if dependencies.all().iter().any(is_temporary) {
        return Err(SqlError::unsupported("a view over a temporary table"));
    }
    if cluster.is_some() {
        dependencies.check_no_policies("a materialized view")?;
    }
    if dependencies.locks().is_some() {
        return Err(SqlError::unsupported("FOR UPDATE/SHARE in a view"));
    }
    let is_sequence =
        |read: &ViewRead| ctx.catalog.item(read.id).is_some_and(|item| item.object_kind() == ObjectKind::Sequence);
    if dependencies.named().iter().any(is_sequence) {
        return Err(SqlError::unsupported("a view over a sequence"));
    }
    // What is not stored may be of a pseudo-type, but not of one that has types of its own.
    let mut checked = desc.columns.iter().filter(|column| cluster.is_some() || column.ty == PgType::Record);
    checked.try_for_each(|column| check_storable(&column.name, &column.ty))?;
    let replace = match existing {
        None => None,
        Some(existing) if create.or_replace => {
            let kind = if cluster.is_some() { ObjectKind::MaterializedView } else { ObjectKind::View };
            check_replacement(ctx, kind, &existing, &desc, &dependencies)?;
            if !ctx.catalog.dependents(existing.id).is_empty() {
                dependencies.check_no_policies("a view that others are made of")?;
            }
            Some(existing.id)
        }
        Some(_) => return already_exists(&name.item, create.if_not_exists, create.tag()),
    };
    Ok(Plan::CreateView(CreateViewPlan {
        schema: schema.id,
        name,
        view: ViewDef { query, context: ctx.written_here(dependencies.named()) },
        cluster,
        desc: Arc::new(desc),
        replace,
        if_not_exists: create.if_not_exists,
    }))
}

/// The query under the names that the statement gives to its first columns; `None` if they have these already.
fn named_query(create: &CreateView, view: &str, desc: &RelationDesc) -> Result<Option<String>, SqlError> {
    let names = &create.columns;
    if names.len() > desc.arity() {
        let message = match create.materialized {
            Some(_) => "too many column names were specified",
            None => "CREATE VIEW specifies more column names than columns",
        };
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    if names.iter().zip(&desc.columns).all(|(name, column)| *name == column.name) {
        return Ok(None);
    }
    let names: Vec<String> = names.iter().map(|name| quote_ident(name)).collect();
    Ok(Some(format!("SELECT * FROM ({}) AS {} ({})", create.sql, quote_ident(view), names.join(", "))))
}

/// CREATE OR REPLACE may add columns at the end and nothing else.
fn check_replacement(
    ctx: &PlanContext<'_>,
    kind: ObjectKind,
    existing: &ItemRef,
    desc: &RelationDesc,
    dependencies: &Dependencies,
) -> Result<(), SqlError> {
    if existing.object_kind() != kind {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a {kind}", existing.name.item)));
    }
    check_owner(ctx, ObjectId::Item(existing.id), kind, &existing.name.item)?;
    if dependencies.all().contains(&existing.id) {
        return Err(SqlError::new(
            SqlState("42P19"),
            format!("{kind} \"{}\" cannot refer to itself", existing.name.item),
        ));
    }
    let refuse = |message: String| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if desc.arity() < existing.desc.arity() {
        return refuse(format!("cannot drop columns from {kind}"));
    }
    for (old, new) in existing.desc.columns.iter().zip(&desc.columns) {
        if old.name != new.name {
            return refuse(format!("cannot change name of {kind} column \"{}\" to \"{}\"", old.name, new.name));
        }
        if !is_same_type(&old.ty, &new.ty) {
            return refuse(format!(
                "cannot change data type of {kind} column \"{}\" from {} to {}",
                old.name, old.ty, new.ty
            ));
        }
    }
    Ok(())
}

pub(super) fn check_distinct<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), SqlError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
    }
    Ok(())
}
