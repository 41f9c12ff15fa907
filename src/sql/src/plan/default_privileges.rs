//! ALTER DEFAULT PRIVILEGES: whose objects, where, and who may do what with them.

use super::ddl::resolve_role;
use super::privileges::is_superuser;
use super::roles::{plan_grantees, privileges_for};
use super::{Grantee, Plan, PlanContext};
use crate::names::resolve_schema;
use engine::error::SqlError;
use engine::names::{ObjectKind, Privilege, RoleId, SchemaId};
use repr::sqlstate::SqlState;
use sql_syntax::ast::{DefaultKind, DefaultPrivileges};

/// To which new objects default privileges apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefaultScope {
    /// Whose.
    pub role: RoleId,
    /// In which schema; in any, if none.
    pub schema: Option<SchemaId>,
    /// Of which kind.
    pub kind: DefaultKind,
}

/// A change of default privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPrivilegesPlan {
    /// REVOKE.
    pub revoke: bool,
    /// For what objects.
    pub scopes: Vec<DefaultScope>,
    /// Which.
    pub privileges: Vec<Privilege>,
    /// To or from whom.
    pub grantees: Vec<Grantee>,
}

pub(super) fn plan_default_privileges(ctx: &PlanContext<'_>, defaults: &DefaultPrivileges) -> Result<Plan, SqlError> {
    let object_kind = match defaults.kind {
        DefaultKind::Tables => ObjectKind::Table,
        DefaultKind::Schemas => ObjectKind::Schema,
    };
    if defaults.kind == DefaultKind::Schemas && !defaults.schemas.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_GRANT_OPERATION,
            "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS",
        ));
    }
    let roles = match defaults.roles.as_slice() {
        [] => vec![ctx.role],
        roles => roles.iter().map(|spec| resolve_role(ctx, spec)).collect::<Result<_, _>>()?,
    };
    for role in &roles {
        check_member(ctx, *role)?;
    }
    let schemas = match defaults.schemas.as_slice() {
        [] => vec![None],
        names => names
            .iter()
            .map(|name| resolve_schema(ctx.catalog, ctx.scope(), name).map(|schema| Some(schema.id)))
            .collect::<Result<_, _>>()?,
    };
    let scope =
        |role: RoleId| schemas.iter().map(move |schema| DefaultScope { role, schema: *schema, kind: defaults.kind });
    Ok(Plan::DefaultPrivileges(DefaultPrivilegesPlan {
        revoke: defaults.revoke,
        scopes: roles.iter().copied().flat_map(scope).collect(),
        privileges: privileges_for(object_kind, defaults.privileges.as_deref())?,
        grantees: plan_grantees(ctx, &defaults.grantees)?,
    }))
}

/// What a role creates is the affair of its members. Errors: 42501.
fn check_member(ctx: &PlanContext<'_>, role: RoleId) -> Result<(), SqlError> {
    if is_superuser(ctx.catalog, ctx.role) || ctx.catalog.is_member(ctx.role, role) {
        return Ok(());
    }
    let name = ctx.catalog.role(role).map(|role| role.name.clone()).unwrap_or_default();
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be member of role \"{name}\"")))
}
