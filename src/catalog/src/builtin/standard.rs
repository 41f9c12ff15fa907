//! What the relations of the SQL standard have in common: whose they show, and in which words.

use crate::builtin::{Context, is_table, is_view, relation, text};
use engine::names::{ObjectId, ObjectKind, Privilege, RoleId};
use repr::datum::Datum;
use repr::types::{NumericDisplay, PgType};
use sql::plan::privileges::has_privilege;
use sql::plan::{CatalogView, ItemRef, RoleRef};
use std::ops::Range;
use std::sync::Arc;

pub(super) fn yes_or_no(value: bool) -> Datum<'static> {
    text(if value { "YES" } else { "NO" })
}

pub(super) fn database(context: &Context<'_>) -> Datum<'static> {
    text(&context.session.database)
}

pub(super) fn role(context: &Context<'_>) -> Option<Arc<RoleRef>> {
    context.catalog.role_by_name(&context.session.user)
}

/// Tables and views that the role may do anything with.
pub(super) fn visible(context: &Context<'_>) -> Vec<Arc<ItemRef>> {
    let role = role(context);
    let any = Privilege::all_of(ObjectKind::Table);
    let may = |item: &ItemRef| {
        let has = |role: RoleId, privilege| has_privilege(context.catalog, role, ObjectId::Item(item.id), privilege);
        is_system(item)
            || role.as_ref().is_some_and(|role| {
                any.iter().any(|privilege| has(role.id, *privilege))
                    || may_use(context, role.id, item, 0..item.desc.arity())
            })
    };
    context.items().into_iter().filter(|item| is_standard(item) && may(item)).collect()
}

/// Precision, its radix, and scale.
pub(super) fn numeric(ty: &PgType) -> (Option<i32>, Option<i32>, Option<i32>) {
    match ty {
        PgType::Int2 => (Some(16), Some(2), Some(0)),
        PgType::Int4 => (Some(32), Some(2), Some(0)),
        PgType::Int8 => (Some(64), Some(2), Some(0)),
        PgType::Float4 => (Some(24), Some(2), None),
        PgType::Float8 => (Some(53), Some(2), None),
        PgType::Numeric(NumericDisplay::Declared(p, s)) => (Some((*p).into()), Some(10), Some((*s).into())),
        PgType::Numeric(_) => (None, Some(10), None),
        _ => (None, None, None),
    }
}

/// Whether the id belongs to a relation that the system ships with.
pub(super) fn is_system(item: &ItemRef) -> bool {
    relation(item.id).is_some()
}

/// Whether the session that asks may see what one of the role does.
pub(super) fn may_see(context: &Context<'_>, role: RoleId) -> bool {
    let asking = context.catalog.role_by_name(&context.session.user);
    asking.is_some_and(|asking| asking.superuser || asking.id == role || context.catalog.is_member(asking.id, role))
}

/// Whether the SQL standard, whose schema this is, knows such a thing: materialized views are none of its.
pub(super) fn is_standard(item: &ItemRef) -> bool {
    is_table(item) || is_view(item) || item.webhook().is_some()
}

/// Whether the role may do anything with these columns.
pub(super) fn may_use(context: &Context<'_>, role: RoleId, item: &ItemRef, mut columns: Range<usize>) -> bool {
    let has = |privilege: &Privilege| has_privilege(context.catalog, role, ObjectId::Item(item.id), *privilege);
    let on_column = |column: usize| {
        let has = |privilege: &Privilege| context.catalog.has_column_privilege(role, item.id, column, *privilege);
        Privilege::OF_COLUMN.iter().any(has)
    };
    Privilege::OF_COLUMN.iter().any(has) || columns.any(on_column)
}
