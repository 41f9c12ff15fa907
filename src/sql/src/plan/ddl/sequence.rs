//! CREATE and ALTER SEQUENCE, and the sequences that come with columns.

use super::check_owner;
use super::constraint::Subject;
use crate::names::{resolve_item, unknown_relation};
use crate::plan::ddl::name::{already_exists, new_table};
use crate::plan::dml::unknown_column;
use crate::plan::sequence::{NewSequence, owned_by};
use crate::plan::{AlterSequencePlan, CreateSequencePlan, ItemKind, ItemRef, Plan, PlanContext, TableSchema};
use crate::sequence::{SequenceDef, SequenceOwner, SequenceParams};
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind};
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType};
use sql_syntax::ast::{AlterSequence, ColumnDef, ColumnSequence, CreateSequence, SequenceOptions};
use sql_syntax::names::Name;

pub(in crate::plan) fn plan_create_sequence(ctx: &PlanContext<'_>, create: &CreateSequence) -> Result<Plan, SqlError> {
    let (schema, name, existing) = new_table(ctx, &create.name, create.temporary)?;
    if existing.is_some() {
        return already_exists(&name.item, create.if_not_exists, "CREATE SEQUENCE");
    }
    let params = SequenceParams::new(&create.options, PgType::Int8)?;
    let owner = match &create.options.owned_by {
        Some(Some(column)) => Some(resolve_column(ctx, column)?),
        _ => None,
    };
    if let Some((table, _)) = &owner {
        let is_same = match &schema {
            TableSchema::Existing(schema) => table.schema == *schema,
            TableSchema::Temporary { name, .. } => table.name.schema == *name,
        };
        check_linkable(table, is_same, table.owner == ctx.role)?;
    }
    let owner = owner.map(|(table, column)| SequenceOwner { table: table.id, column, identity: None });
    let sequence = SequenceDef { params, owner };
    Ok(Plan::CreateSequence(CreateSequencePlan { schema, name, sequence, if_not_exists: create.if_not_exists }))
}

pub(in crate::plan) fn plan_alter_sequence(ctx: &PlanContext<'_>, alter: &AlterSequence) -> Result<Plan, SqlError> {
    let (kind, tag) = (ObjectKind::Sequence, "ALTER SEQUENCE");
    let Some(item) = resolve_item(ctx.catalog, ctx.scope(), &alter.name)? else {
        return super::missing(kind, &alter.name, alter.if_exists, tag, unknown_relation(&alter.name));
    };
    let ItemKind::Sequence(before) = &item.kind else { return Err(not_a_sequence(&item)) };
    check_owner(ctx, ObjectId::Item(item.id), kind, &item.name.item)?;
    let (params, restart) = altered(ctx, item.id, before, &alter.options)?;
    let owner = match &alter.options.owned_by {
        None => before.owner,
        Some(_) if before.owner.is_some_and(|owner| owner.identity.is_some()) => {
            let table = before.owner.and_then(|owner| ctx.catalog.item(owner.table));
            let table = table.map(|table| table.name.item.clone()).unwrap_or_default();
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot change ownership of identity sequence")
                .with_detail(format!("Sequence \"{}\" is linked to table \"{table}\".", item.name.item)));
        }
        Some(None) => None,
        Some(Some(column)) => {
            let (table, column) = resolve_column(ctx, column)?;
            check_linkable(&table, table.schema == item.schema, table.owner == item.owner)?;
            Some(SequenceOwner { table: table.id, column, identity: None })
        }
    };
    Ok(Plan::AlterSequence(AlterSequencePlan { id: item.id, sequence: SequenceDef { params, owner }, restart }))
}

/// What these options make of a sequence, and the value with which it begins again, if it does. Errors: 22023.
fn altered(
    ctx: &PlanContext<'_>,
    id: GlobalId,
    before: &SequenceDef,
    options: &SequenceOptions,
) -> Result<(SequenceParams, Option<i64>), SqlError> {
    let params = before.params.altered(options)?;
    let restart = options.restart.map(|with| with.unwrap_or(params.start));
    let stands = || Some(ctx.session.sequences.as_ref()?.position(id)?.last);
    if let Some(value) = restart.or_else(stands) {
        params.check_restart(value)?;
    }
    Ok((params, restart))
}

/// The sequence of an identity column that gets another type, if that makes it another one. Errors: 22023.
pub(super) fn retyped(
    ctx: &PlanContext<'_>,
    table: GlobalId,
    column: usize,
    ty: &PgType,
) -> Result<Option<AlterSequencePlan>, SqlError> {
    check_identity_type(ty)?;
    let mut owned = owned_by(ctx.catalog, table, column).into_iter();
    let Some((item, _)) = owned.find(|(_, owner)| owner.identity.is_some()) else { return Ok(None) };
    let ItemKind::Sequence(before) = &item.kind else { return Err(not_a_sequence(&item)) };
    let options = SequenceOptions { ty: Some(ty.clone()), ..SequenceOptions::default() };
    let (params, restart) = altered(ctx, item.id, before, &options)?;
    let sequence = SequenceDef { params, owner: before.owner };
    Ok((sequence != *before).then_some(AlterSequencePlan { id: item.id, sequence, restart }))
}

fn check_identity_type(ty: &PgType) -> Result<(), SqlError> {
    match ty {
        PgType::Int2 | PgType::Int4 | PgType::Int8 => Ok(()),
        _ => {
            let message = "identity column type must be smallint, integer, or bigint";
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// `"x" is not a sequence`.
fn not_a_sequence(item: &ItemRef) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a sequence", item.name.item))
}

/// The table and the position of a column that OWNED BY names. Errors: 42P01, 42809, 42703.
fn resolve_column(ctx: &PlanContext<'_>, name: &Name) -> Result<(std::sync::Arc<ItemRef>, usize), SqlError> {
    let [table @ .., column] = name.parts.as_slice() else {
        return Err(SqlError::internal("OWNED BY without a name was parsed"));
    };
    let table = Name { parts: table.to_vec() };
    let item = resolve_item(ctx.catalog, ctx.scope(), &table)?.ok_or_else(|| unknown_relation(&table))?;
    if item.object_kind() != ObjectKind::Table || matches!(item.id, GlobalId::System(_)) {
        let message = format!("sequence cannot be owned by relation \"{}\"", item.name.item);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .with_detail(format!("This operation is not supported for {}s.", item.object_kind())));
    }
    let position = item.desc.position(column).ok_or_else(|| unknown_column(&item, column))?;
    Ok((item, position))
}

/// A sequence and the table with which it goes are of one owner and in one schema. Errors: 55000.
fn check_linkable(table: &ItemRef, same_schema: bool, same_owner: bool) -> Result<(), SqlError> {
    let refuse = |message: &str| Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    debug_assert!(matches!(table.kind, ItemKind::Table { .. }), "only tables own sequences");
    if !same_owner {
        return refuse("sequence must have same owner as table it is linked to");
    }
    if !same_schema {
        return refuse("sequence must be in same schema as table it is linked to");
    }
    Ok(())
}

/// The sequence that comes with a column, named as Postgres names it. Errors: 22023, 42601.
pub(super) fn column_sequence(subject: &mut Subject<'_>, column: &ColumnDef) -> Result<Option<NewSequence>, SqlError> {
    let Some(ColumnSequence { identity, options }) = &column.sequence else { return Ok(None) };
    let of = format!("column \"{}\" of table \"{}\"", column.name, subject.table);
    if column.default.is_some() {
        let message = match identity {
            Some(_) => format!("both default and identity specified for {of}"),
            None => format!("multiple default values specified for {of}"),
        };
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    if identity.is_some() {
        check_identity_type(&column.ty)?;
    }
    let SequenceOptions { ty, owned_by, restart, .. } = options;
    for (what, is_given) in [("AS", ty.is_some()), ("OWNED BY", owned_by.is_some()), ("RESTART", restart.is_some())] {
        if is_given {
            return Err(SqlError::unsupported(format!("{what} in the options of an identity column")));
        }
    }
    let params = SequenceParams::new(options, column.ty.clone())?;
    Ok(Some(NewSequence { name: subject.sequence_name(&column.name), params, identity: *identity }))
}
