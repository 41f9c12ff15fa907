//! Roles and privileges: CREATE and ALTER ROLE, GRANT, REVOKE.

use super::ddl::{check_reserved, exists_notice, resolve_object, resolve_role};
use super::dml::unknown_column;
use super::privileges::{check_superuser, check_system, denied, is_superuser};
use super::{Grant, GrantPlan, Grantee, Plan, PlanContext};
use crate::names::{resolve_item, resolve_schema, unknown_relation, unknown_role};
use crate::vars::SystemVars;
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind, Privilege};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql_syntax::ast::{GrantPrivileges, GrantRole, GrantTarget, RoleOptions, RoleSpec, SetValue};
use sql_syntax::names::Name;

pub(super) fn plan_create_role(
    ctx: &PlanContext<'_>,
    name: &str,
    if_not_exists: bool,
    options: &RoleOptions,
) -> Result<Plan, SqlError> {
    check_system(ctx, Privilege::CreateRole, "permission denied to create role")?;
    check_superuser_option(ctx, options)?;
    check_reserved(name, "role")?;
    if name == "public" || name == "none" {
        return Err(SqlError::new(SqlState::RESERVED_NAME, format!("role name \"{name}\" is reserved")));
    }
    if ctx.catalog.role_by_name(name).is_some() {
        let what = format!("role \"{name}\"");
        if if_not_exists {
            let notices = vec![exists_notice(SqlState::DUPLICATE_OBJECT, &what)];
            return Ok(Plan::NoOp { tag: "CREATE ROLE", notices });
        }
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("{what} already exists")));
    }
    Ok(Plan::CreateRole { name: name.to_owned(), options: options.clone() })
}

pub(super) fn plan_alter_role(ctx: &PlanContext<'_>, name: &str, options: &RoleOptions) -> Result<Plan, SqlError> {
    let role = ctx.catalog.role_by_name(name).ok_or_else(|| unknown_role(name))?;
    // Everybody may change their own password.
    let is_own_password =
        role.id == ctx.role && *options == RoleOptions { password: options.password.clone(), ..RoleOptions::default() };
    if !is_own_password {
        check_system(ctx, Privilege::CreateRole, "permission denied to alter role")?;
    }
    check_superuser_option(ctx, options)?;
    if role.superuser && !is_own_password {
        check_superuser(ctx, "must be superuser to alter superuser roles or change superuser attribute")?;
    }
    Ok(Plan::AlterRole { id: role.id, options: options.clone() })
}

pub(super) fn plan_alter_role_set(
    ctx: &PlanContext<'_>,
    name: &str,
    variable: &str,
    value: &SetValue,
) -> Result<Plan, SqlError> {
    let role = ctx.catalog.role_by_name(name).ok_or_else(|| unknown_role(name))?;
    // Everybody may set defaults for themselves.
    if role.id != ctx.role {
        check_system(ctx, Privilege::CreateRole, "permission denied to alter role")?;
    }
    let (variable, value) = SystemVars::check(variable, value)?;
    if variable == "role" {
        return Err(SqlError::unsupported("ALTER ROLE … SET role"));
    }
    if crate::vars::definitions::find_session(variable).is_none() {
        return Err(SqlError::new(
            SqlState::CANT_CHANGE_RUNTIME_PARAM,
            format!("parameter \"{variable}\" cannot be changed now"),
        ));
    }
    Ok(Plan::AlterRoleSet { id: role.id, variable: variable.to_owned(), value })
}

fn check_superuser_option(ctx: &PlanContext<'_>, options: &RoleOptions) -> Result<(), SqlError> {
    match options.superuser {
        Some(true) => check_superuser(ctx, "must be superuser to create superusers"),
        _ => Ok(()),
    }
}

pub(super) fn plan_grant(ctx: &PlanContext<'_>, grant: &GrantPrivileges) -> Result<Plan, SqlError> {
    let mut grants = Vec::new();
    for (object, kind, name) in targets(ctx, &grant.target)? {
        let may = may_grant(ctx, object);
        let whole: Vec<Option<Privilege>> =
            grant.privileges.iter().filter(|spec| spec.columns.is_empty()).map(|spec| spec.privilege).collect();
        if !whole.is_empty() {
            if !may {
                return Err(denied(kind, &name));
            }
            let given: Option<Vec<Privilege>> = whole.into_iter().collect();
            grants.push(Grant { object, column: None, privileges: privileges_for(kind, given.as_deref())? });
        }
        for spec in grant.privileges.iter().filter(|spec| !spec.columns.is_empty()) {
            let privileges = privileges_for_columns(kind, spec.privilege)?;
            for column in &spec.columns {
                let position = column_of(ctx, object, column)?;
                if !may {
                    let message = format!("permission denied for column \"{column}\" of relation \"{name}\"");
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                let column = Some(position);
                grants.push(Grant { object, column, privileges: privileges.clone() });
            }
        }
    }
    let grantees = plan_grantees(ctx, &grant.grantees)?;
    Ok(Plan::GrantPrivileges(GrantPlan { revoke: grant.revoke, grants, grantees }))
}

/// The position of a column of a relation. Errors: 42703.
fn column_of(ctx: &PlanContext<'_>, object: ObjectId, name: &str) -> Result<usize, SqlError> {
    let ObjectId::Item(id) = object else { return Err(SqlError::internal("only relations have columns")) };
    let item = ctx.catalog.item(id).ok_or_else(|| SqlError::internal("it was resolved in this catalog"))?;
    item.desc.position(name).ok_or_else(|| unknown_column(&item, name))
}

pub(super) fn plan_grantees(ctx: &PlanContext<'_>, specs: &[RoleSpec]) -> Result<Vec<Grantee>, SqlError> {
    let grantee = |spec: &RoleSpec| match spec {
        RoleSpec::Public => Ok(Grantee::Public),
        spec => resolve_role(ctx, spec).map(Grantee::Role),
    };
    specs.iter().map(grantee).collect()
}

/// The objects that a GRANT names.
fn targets(ctx: &PlanContext<'_>, target: &GrantTarget) -> Result<Vec<(ObjectId, ObjectKind, String)>, SqlError> {
    match target {
        GrantTarget::System => Ok(vec![(ObjectId::System, ObjectKind::System, "system".to_owned())]),
        GrantTarget::Objects(ObjectKind::Table, names) => names.iter().map(|name| relation(ctx, name)).collect(),
        GrantTarget::Objects(kind, names) => {
            names.iter().map(|name| Ok((resolve_object(ctx, *kind, name)?, *kind, name.item().to_owned()))).collect()
        }
        GrantTarget::AllTablesInSchema(schemas) => {
            all_in(ctx, schemas, |kind| kind.is_relation() && !matches!(kind, ObjectKind::Index | ObjectKind::Sequence))
        }
        GrantTarget::AllSequencesInSchema(schemas) => all_in(ctx, schemas, |kind| kind == ObjectKind::Sequence),
    }
}

/// What is of some kinds in schemas.
fn all_in(
    ctx: &PlanContext<'_>,
    schemas: &[Name],
    is_meant: impl Fn(ObjectKind) -> bool,
) -> Result<Vec<(ObjectId, ObjectKind, String)>, SqlError> {
    let mut all = Vec::new();
    for name in schemas {
        let schema = resolve_schema(ctx.catalog, ctx.scope(), name)?;
        let mut items = ctx.catalog.items(schema.id);
        items.retain(|item| is_meant(item.object_kind()));
        items.sort_by_key(|item| item.id);
        all.extend(items.iter().map(|item| (ObjectId::Item(item.id), item.object_kind(), item.name.item.clone())));
    }
    Ok(all)
}

/// GRANT ON TABLE covers views, materialized or not.
fn relation(ctx: &PlanContext<'_>, name: &Name) -> Result<(ObjectId, ObjectKind, String), SqlError> {
    let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
    if item.object_kind() == ObjectKind::Index {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is an index", item.name.item)));
    }
    if let kind @ (ObjectKind::Secret | ObjectKind::SemanticModel) = item.object_kind() {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is a {kind}", item.name.item)));
    }
    Ok((ObjectId::Item(item.id), item.object_kind(), item.name.item.clone()))
}

/// Whether the role may grant privileges on an object: as its owner, or as a superuser.
fn may_grant(ctx: &PlanContext<'_>, object: ObjectId) -> bool {
    let owned = || ctx.catalog.owner(object).is_some_and(|owner| ctx.catalog.inherits(ctx.role, owner));
    let is_system = matches!(object, ObjectId::Item(GlobalId::System(_)));
    !is_system && (is_superuser(ctx.catalog, ctx.role) || owned())
}

pub(super) fn privileges_for(kind: ObjectKind, given: Option<&[Privilege]>) -> Result<Vec<Privilege>, SqlError> {
    let all = Privilege::all_of(kind);
    let Some(given) = given else { return Ok(all.to_vec()) };
    let mut privileges = Vec::with_capacity(given.len());
    for privilege in given {
        if !all.contains(privilege) {
            let kind = match kind {
                kind if kind.is_relation() => "relation".to_owned(),
                kind => kind.to_string(),
            };
            return Err(SqlError::new(
                SqlState::INVALID_GRANT_OPERATION,
                format!("invalid privilege type {} for {kind}", privilege.name()),
            ));
        }
        if !privileges.contains(privilege) {
            privileges.push(*privilege);
        }
    }
    Ok(privileges)
}

/// What a privilege on columns is, or ALL of them. Errors: 0LP01.
fn privileges_for_columns(kind: ObjectKind, given: Option<Privilege>) -> Result<Vec<Privilege>, SqlError> {
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
    match given {
        _ if !kind.is_relation() => invalid("column privileges are only valid for relations".to_owned()),
        None => Ok(Privilege::OF_COLUMN.to_vec()),
        Some(privilege) if Privilege::OF_COLUMN.contains(&privilege) => Ok(vec![privilege]),
        Some(privilege) => invalid(format!("invalid privilege type {} for column", privilege.name())),
    }
}

pub(super) fn plan_grant_role(ctx: &PlanContext<'_>, grant: &GrantRole) -> Result<Plan, SqlError> {
    check_system(ctx, Privilege::CreateRole, "permission denied to grant roles")?;
    let mut roles = Vec::new();
    for name in &grant.roles {
        let role = ctx.catalog.role_by_name(name).ok_or_else(|| unknown_role(name))?;
        if role.superuser {
            check_superuser(ctx, &format!("must be superuser to grant role \"{name}\""))?;
        }
        roles.push(role.id);
    }
    let members = grant.members.iter().map(|spec| resolve_role(ctx, spec)).collect::<Result<Vec<_>, _>>()?;
    if !grant.revoke {
        for role in &roles {
            for member in &members {
                // Membership in each other, or in oneself, would be a cycle.
                if ctx.catalog.is_member(*role, *member) {
                    let name = |id| ctx.catalog.role(id).map(|role| role.name.clone()).unwrap_or_default();
                    return Err(SqlError::new(
                        SqlState::INVALID_GRANT_OPERATION,
                        format!("role \"{}\" is a member of role \"{}\"", name(*role), name(*member)),
                    ));
                }
            }
        }
    }
    Ok(Plan::GrantRole { revoke: grant.revoke, roles, members })
}
