//! Who may do what. Checked while planning; a plan is made for one role.
//!
//! Superusers pass every check. A privilege on a relation is one on each of its columns; who lacks it may have it on those that a
//! statement is about. Relations of the system can be read by everybody and changed by nobody. What is below a
//! view is read with the rights of the view's owner, as in Postgres.

use super::{CatalogView, ItemRef, PlanContext, SchemaRef};
use crate::names::unknown_role;
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind, Privilege, RoleId};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use std::collections::BTreeSet;

/// `permission denied for …`.
pub fn denied(kind: ObjectKind, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
}

/// Whether the role bypasses checks.
pub fn is_superuser(catalog: &dyn CatalogView, role: RoleId) -> bool {
    catalog.role(role).is_some_and(|role| role.superuser)
}

/// Whether the role has the privilege, by grant, membership, ownership or as a superuser.
pub fn has_privilege(catalog: &dyn CatalogView, role: RoleId, object: ObjectId, privilege: Privilege) -> bool {
    is_superuser(catalog, role)
        || catalog.has_privilege(role, object, privilege)
        || catalog.owner(object).is_some_and(|owner| catalog.inherits(role, owner))
}

/// The role may name what is in the schema of `item`. Errors: 42501.
pub(super) fn check_schema(catalog: &dyn CatalogView, role: RoleId, item: &ItemRef) -> Result<(), SqlError> {
    let is_system = matches!(item.id, GlobalId::System(_));
    if is_system || has_privilege(catalog, role, ObjectId::Schema(item.schema), Privilege::Usage) {
        return Ok(());
    }
    Err(denied(ObjectKind::Schema, &item.name.schema))
}

/// The role may use `item` as a whole in this way. Errors: 42501.
pub(super) fn check_item(
    catalog: &dyn CatalogView,
    role: RoleId,
    item: &ItemRef,
    privilege: Privilege,
) -> Result<(), SqlError> {
    if matches!(item.id, GlobalId::System(_)) {
        return if privilege == Privilege::Select { Ok(()) } else { Err(system_item(item)) };
    }
    if has_privilege(catalog, role, ObjectId::Item(item.id), privilege) {
        return Ok(());
    }
    Err(denied(item.object_kind(), &item.name.item))
}

/// The role may use each of these columns of `item` in this way, or if there are none, any column of it. Errors: 42501.
pub(super) fn check_columns(
    catalog: &dyn CatalogView,
    role: RoleId,
    item: &ItemRef,
    privilege: Privilege,
    columns: &BTreeSet<usize>,
) -> Result<(), SqlError> {
    let Err(denied) = check_item(catalog, role, item, privilege) else { return Ok(()) };
    let has = |column: usize| catalog.has_column_privilege(role, item.id, column, privilege);
    let may = if columns.is_empty() { (0..item.desc.arity()).any(has) } else { columns.iter().copied().all(has) };
    if may { Ok(()) } else { Err(denied) }
}

/// What was read under whose rights: of a relation these columns, or any if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// Whose.
    pub role: RoleId,
    /// The relation.
    pub id: GlobalId,
    /// The positions of the columns.
    pub columns: BTreeSet<usize>,
}

/// What was read may still be read, as far as it is still there. Errors: 42501.
pub fn check_rights(catalog: &dyn CatalogView, rights: &[Right]) -> Result<(), SqlError> {
    for Right { role, id, columns } in rights {
        if let Some(item) = catalog.item(*id) {
            check_schema(catalog, *role, &item)?;
            check_columns(catalog, *role, &item, Privilege::Select, columns)?;
        }
    }
    Ok(())
}

/// The role may create things in the schema. Errors: 42501.
pub(super) fn check_create_in(ctx: &PlanContext<'_>, schema: &SchemaRef) -> Result<(), SqlError> {
    if schema.database.is_none() {
        return Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied for schema {}", schema.name),
        )
        .with_detail("System schemas cannot be modified."));
    }
    if has_privilege(ctx.catalog, ctx.role, ObjectId::Schema(schema.id), Privilege::Create) {
        return Ok(());
    }
    Err(denied(ObjectKind::Schema, &schema.name))
}

/// The role has the privilege on an object that is no item. Errors: 42501.
pub(super) fn check_object(
    ctx: &PlanContext<'_>,
    object: ObjectId,
    privilege: Privilege,
    kind: ObjectKind,
    name: &str,
) -> Result<(), SqlError> {
    if has_privilege(ctx.catalog, ctx.role, object, privilege) { Ok(()) } else { Err(denied(kind, name)) }
}

/// The role owns the object, or inherits from the role that does. Errors: 42501.
pub(super) fn check_owner(
    ctx: &PlanContext<'_>,
    object: ObjectId,
    kind: ObjectKind,
    name: &str,
) -> Result<(), SqlError> {
    if let ObjectId::Item(id @ GlobalId::System(_)) = object
        && let Some(item) = ctx.catalog.item(id)
    {
        return Err(system_item(&item));
    }
    if let ObjectId::Schema(id) = object
        && ctx.catalog.schema(id).is_some_and(|schema| schema.database.is_none())
    {
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for schema {name}"))
            .with_detail("System schemas cannot be modified."));
    }
    let owner = ctx.catalog.owner(object);
    if is_superuser(ctx.catalog, ctx.role) || owner.is_some_and(|owner| ctx.catalog.inherits(ctx.role, owner)) {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {kind} {name}")))
}

/// The role is a superuser. Errors: 42501 with `message`.
pub(super) fn check_superuser(ctx: &PlanContext<'_>, message: &str) -> Result<(), SqlError> {
    if is_superuser(ctx.catalog, ctx.role) {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
}

/// The role has a privilege on the system, by attribute or by grant. Errors: 42501 with `message`.
pub(super) fn check_system(ctx: &PlanContext<'_>, privilege: Privilege, message: &str) -> Result<(), SqlError> {
    let role = ctx.catalog.role(ctx.role).ok_or_else(|| unknown_role(&ctx.session.user))?;
    let by_attribute = match privilege {
        Privilege::CreateDb => role.create_db,
        Privilege::CreateRole => role.create_role,
        Privilege::CreateCluster => role.create_cluster,
        _ => false,
    };
    if role.superuser || by_attribute || ctx.catalog.has_privilege(ctx.role, ObjectId::System, privilege) {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
}

/// What the system ships with is changed by nobody.
pub(super) fn system_item(item: &ItemRef) -> SqlError {
    SqlError::new(
        SqlState::INSUFFICIENT_PRIVILEGE,
        format!("permission denied: \"{}\" is a system catalog", item.name.item),
    )
}
