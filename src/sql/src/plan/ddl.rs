//! CREATE, ALTER and COMMENT.

mod alter_table;
mod column_type;
mod constraint;
mod create_table_as;
mod default;
mod foreign;
mod index;
mod model;
mod name;
mod operator_class;
mod relation;
mod sequence;
mod webhook;

use super::privileges::{check_create_in, check_object, check_owner, check_system, is_superuser};
use super::{CubeDef, IndexDef, ItemKind, ItemRef, Plan, PlanContext};
use crate::names::{resolve_item, resolve_schema, unknown_cluster, unknown_database, unknown_relation, unknown_role};
use engine::error::{PlanNotice, SqlError};
use engine::names::{ClusterId, ObjectId, ObjectKind, Privilege, RoleId};
use repr::sqlstate::SqlState;
use sql_syntax::ast::{ClusterOptions, RoleSpec};
use sql_syntax::names::Name;

impl Plan {
    /// What a change of the catalog has to say beside its tag, once it is known to be possible.
    pub fn notices(&self) -> &[PlanNotice] {
        match self {
            Plan::Drop(drop) => &drop.notices,
            Plan::AlterTable(alter) => &alter.notices,
            Plan::CreateModel(create) => &create.notices,
            Plan::AlterModel(alter) => &alter.notices,
            _ => &[],
        }
    }

    /// Whether it changes the catalog.
    pub fn changes_catalog(&self) -> bool {
        matches!(
            self,
            Plan::CreateDatabase { .. }
                | Plan::CreateSchema { .. }
                | Plan::CreateTable(_)
                | Plan::CreateTableAs(_)
                | Plan::CreateSequence(_)
                | Plan::AlterSequence(_)
                | Plan::CreateSecret(_)
                | Plan::AlterSecret(_)
                | Plan::CreateModel(_)
                | Plan::AlterModel(_)
                | Plan::AlterTable(_)
                | Plan::CreateView(_)
                | Plan::CreateIndex(_)
                | Plan::CreateCluster { .. }
                | Plan::AlterCluster { .. }
                | Plan::CreateRole { .. }
                | Plan::AlterRole { .. }
                | Plan::AlterRoleSet { .. }
                | Plan::AlterOwner { .. }
                | Plan::AlterRename { .. }
                | Plan::AlterSetCluster { .. }
                | Plan::Drop(_)
                | Plan::GrantPrivileges(_)
                | Plan::DefaultPrivileges(_)
                | Plan::GrantRole { .. }
                | Plan::Comment { .. }
                | Plan::AlterSystemSet { .. }
                | Plan::AlterSystemReset(_)
        )
    }
}

pub(super) use alter_table::plan_alter_table;
pub(super) use create_table_as::plan_create_table_as;
pub(super) use index::plan_create_index;
pub use index::{CreateIndexPlan, IndexKey, describe_index, plan_index_keys};
pub use model::{AlterModelPlan, CreateModelPlan, describe_cubes};
pub(super) use model::{model_sql, plan_alter_model, plan_create_model};
pub(super) use relation::{plan_create_table, plan_create_view};
pub(super) use sequence::{plan_alter_sequence, plan_create_sequence};
pub(super) use webhook::{plan_alter_secret, plan_create_secret, plan_create_webhook};

/// The most workers that a cluster of this process may have.
const WORKERS_MAX: u64 = 64;

/// `… already exists, skipping`.
pub(super) fn exists_notice(sqlstate: SqlState, what: &str) -> PlanNotice {
    PlanNotice { sqlstate, message: format!("{what} already exists, skipping"), detail: None }
}

pub(super) fn plan_create_database(ctx: &PlanContext<'_>, name: &str, if_not_exists: bool) -> Result<Plan, SqlError> {
    check_system(ctx, Privilege::CreateDb, "permission denied to create database")?;
    if ctx.catalog.database_by_name(name).is_some() {
        let what = format!("database \"{name}\"");
        if if_not_exists {
            let notices = vec![exists_notice(SqlState::DUPLICATE_DATABASE, &what)];
            return Ok(Plan::NoOp { tag: "CREATE DATABASE", notices });
        }
        return Err(SqlError::new(SqlState::DUPLICATE_DATABASE, format!("{what} already exists")));
    }
    Ok(Plan::CreateDatabase { name: name.to_owned() })
}

pub(super) fn plan_create_schema(
    ctx: &PlanContext<'_>,
    name: &Name,
    if_not_exists: bool,
    authorization: Option<&str>,
) -> Result<Plan, SqlError> {
    let (database, schema) = match name.parts.as_slice() {
        [schema] => (ctx.session.database.as_str(), schema),
        [database, schema] => (database.as_str(), schema),
        _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("improper qualified name: {name}"))),
    };
    let database = ctx.catalog.database_by_name(database).ok_or_else(|| unknown_database(database))?;
    check_object(ctx, ObjectId::Database(database.id), Privilege::Create, ObjectKind::Database, &database.name)?;
    if schema.starts_with("pg_") || schema.starts_with("mz_") {
        return Err(SqlError::new(SqlState::RESERVED_NAME, format!("unacceptable schema name \"{schema}\""))
            .with_detail("The prefixes \"pg_\" and \"mz_\" are reserved for system schemas."));
    }
    let taken = ctx.catalog.schema_by_name(Some(database.id), schema).is_some()
        || ctx.catalog.schema_by_name(None, schema).is_some();
    if taken {
        let what = format!("schema \"{schema}\"");
        if if_not_exists {
            let notices = vec![exists_notice(SqlState::DUPLICATE_SCHEMA, &what)];
            return Ok(Plan::NoOp { tag: "CREATE SCHEMA", notices });
        }
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("{what} already exists")));
    }
    let owner = match authorization {
        Some(role) => {
            let owner = resolve_role(ctx, &RoleSpec::Name(role.to_owned()))?;
            check_member(ctx, owner)?;
            owner
        }
        None => ctx.role,
    };
    Ok(Plan::CreateSchema { database: database.id, name: schema.clone(), owner })
}

pub(super) fn plan_create_cluster(
    ctx: &PlanContext<'_>,
    name: &str,
    if_not_exists: bool,
    options: &ClusterOptions,
) -> Result<Plan, SqlError> {
    check_system(ctx, Privilege::CreateCluster, "permission denied to create cluster")?;
    check_reserved(name, "cluster")?;
    if ctx.catalog.cluster_by_name(name).is_some() {
        let what = format!("cluster \"{name}\"");
        if if_not_exists {
            let notices = vec![exists_notice(SqlState::DUPLICATE_OBJECT, &what)];
            return Ok(Plan::NoOp { tag: "CREATE CLUSTER", notices });
        }
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("{what} already exists")));
    }
    let workers = cluster_workers(options)?.unwrap_or(1);
    check_replication(options)?;
    Ok(Plan::CreateCluster {
        name: name.to_owned(),
        size: options.size.clone().unwrap_or_else(|| workers.to_string()),
        workers,
        replication_factor: options.replication_factor.unwrap_or(1),
    })
}

pub(super) fn plan_alter_cluster(
    ctx: &PlanContext<'_>,
    name: &str,
    if_exists: bool,
    options: &ClusterOptions,
) -> Result<Plan, SqlError> {
    let Some(cluster) = ctx.catalog.cluster_by_name(name) else {
        return missing(ObjectKind::Cluster, &Name::bare(name), if_exists, "ALTER CLUSTER", unknown_cluster(name));
    };
    check_owner(ctx, ObjectId::Cluster(cluster.id), ObjectKind::Cluster, name)?;
    let workers = cluster_workers(options)?;
    check_replication(options)?;
    Ok(Plan::AlterCluster { id: cluster.id, options: options.clone(), workers })
}

/// How many workers SIZE or WORKERS asks for.
fn cluster_workers(options: &ClusterOptions) -> Result<Option<u64>, SqlError> {
    let sized = match &options.size {
        Some(size) => Some(size.trim().parse::<u64>().map_err(|_| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unknown cluster size {size}"))
                .with_hint("A size is the number of workers, such as '1' or '4'.")
        })?),
        None => None,
    };
    let workers = match (sized, options.workers) {
        (Some(_), Some(_)) => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "SIZE and WORKERS exclude each other"));
        }
        (sized, workers) => sized.or(workers),
    };
    match workers {
        Some(n) if !(1..=WORKERS_MAX).contains(&n) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("a cluster has between 1 and {WORKERS_MAX} workers"),
        )),
        workers => Ok(workers),
    }
}

fn check_replication(options: &ClusterOptions) -> Result<(), SqlError> {
    match options.replication_factor {
        None | Some(1) => Ok(()),
        Some(n) => Err(SqlError::unsupported(format!("REPLICATION FACTOR {n}"))),
    }
}

pub(super) fn plan_alter_owner(
    ctx: &PlanContext<'_>,
    kind: ObjectKind,
    name: &Name,
    if_exists: bool,
    owner: &RoleSpec,
) -> Result<Plan, SqlError> {
    let (actual, object) = match resolve_altered(ctx, kind, name) {
        Ok(altered) => altered,
        Err(error) => return missing(kind, name, if_exists, kind.alter_tag(), error),
    };
    match actual {
        ObjectKind::Role => return Err(SqlError::unsupported("ALTER ROLE … OWNER TO")),
        ObjectKind::Index => {
            let message = format!("cannot change owner of index \"{}\"", name.item());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_hint("Change the ownership of the index's table instead."));
        }
        _ => {}
    }
    check_owner(ctx, object, actual, name.item())?;
    let owner = resolve_role(ctx, owner)?;
    check_member(ctx, owner)?;
    Ok(Plan::AlterOwner { kind, object, owner })
}

pub(super) fn plan_alter_rename(
    ctx: &PlanContext<'_>,
    kind: ObjectKind,
    name: &Name,
    if_exists: bool,
    to: &str,
) -> Result<Plan, SqlError> {
    let (actual, object) = match resolve_altered(ctx, kind, name) {
        Ok(altered) => altered,
        Err(error) => return missing(kind, name, if_exists, kind.alter_tag(), error),
    };
    match object {
        ObjectId::Role(_) => check_system(ctx, Privilege::CreateRole, "permission denied to rename role")?,
        _ => check_owner(ctx, object, actual, name.item())?,
    }
    let current = match object {
        ObjectId::Database(_) if name.item() == ctx.session.database => Some("current database"),
        ObjectId::Role(id) if id == ctx.role => Some("current user"),
        ObjectId::Role(_) if name.item() == ctx.session.session_user => Some("session user"),
        _ => None,
    };
    if let Some(what) = current {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} cannot be renamed")));
    }
    if let ObjectId::Cluster(_) | ObjectId::Role(_) | ObjectId::Schema(_) = object {
        check_reserved(to, &actual.to_string())?;
    }
    if let ObjectId::Item(id) = object
        && let Some(item) = ctx.catalog.item(id)
        && ctx.catalog.item_by_name(item.schema, to).is_some()
    {
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{to}\" already exists")));
    }
    Ok(Plan::AlterRename { kind, object, to: to.to_owned() })
}

pub(super) fn plan_alter_set_cluster(
    ctx: &PlanContext<'_>,
    kind: ObjectKind,
    name: &Name,
    if_exists: bool,
    cluster: &str,
) -> Result<Plan, SqlError> {
    let object = match resolve_object(ctx, kind, name) {
        Ok(object) => object,
        Err(error) => return missing(kind, name, if_exists, kind.alter_tag(), error),
    };
    check_owner(ctx, object, kind, name.item())?;
    let cluster = resolve_cluster(ctx, Some(cluster))?;
    if let ObjectId::Item(id) = object
        && let Some(ItemKind::Index(IndexDef { constraint: Some(_), .. })) =
            ctx.catalog.item(id).map(|item| item.kind.clone())
    {
        return Err(SqlError::unsupported("SET CLUSTER of the index of a constraint"));
    }
    match object {
        ObjectId::Item(id) => Ok(Plan::AlterSetCluster { id, cluster }),
        _ => Err(SqlError::internal(format!("{kind} {name} is not in a cluster"))),
    }
}

/// What an index or a materialized view holds is what its query gives, always: there is something to do only if it was stopped.
pub(super) fn plan_rebuild(
    ctx: &PlanContext<'_>,
    kind: ObjectKind,
    name: &Name,
    tag: &'static str,
) -> Result<Plan, SqlError> {
    let object = resolve_object(ctx, kind, name)?;
    check_owner(ctx, object, kind, name.item())?;
    let ObjectId::Item(id) = object else { return Err(SqlError::internal(format!("{kind} {name} is no item"))) };
    let message = format!("{kind} \"{name}\" is always up to date");
    let otherwise = PlanNotice { sqlstate: SqlState::SUCCESSFUL_COMPLETION, message, detail: None };
    Ok(Plan::Rebuild { id, tag, otherwise })
}

pub(super) fn plan_comment(
    ctx: &PlanContext<'_>,
    kind: Option<ObjectKind>,
    name: &Name,
    text: Option<&str>,
) -> Result<Plan, SqlError> {
    let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
    let Some(kind) = kind else {
        let [relation @ .., column] = name.parts.as_slice() else {
            return Err(SqlError::internal("COMMENT ON COLUMN without a name was parsed"));
        };
        if relation.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
        }
        let relation = Name { parts: relation.to_vec() };
        let item = resolve_item(ctx.catalog, ctx.scope(), &relation)?.ok_or_else(|| unknown_relation(&relation))?;
        check_owner(ctx, ObjectId::Item(item.id), item.object_kind(), &item.name.item)?;
        let position = item.desc.position(column).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{}\" does not exist", item.name.item),
            )
        })?;
        return Ok(Plan::Comment { object: ObjectId::Item(item.id), column: Some(position), text });
    };
    let object = resolve_object(ctx, kind, name)?;
    if kind == ObjectKind::Role {
        check_system(ctx, Privilege::CreateRole, &format!("must be owner of role {name}"))?;
    } else {
        check_owner(ctx, object, kind, name.item())?;
    }
    Ok(Plan::Comment { object, column: None, text })
}

/// Finds an object of a given kind. Errors as Postgres words them for that kind.
pub(super) fn resolve_object(ctx: &PlanContext<'_>, kind: ObjectKind, name: &Name) -> Result<ObjectId, SqlError> {
    match kind {
        ObjectKind::Table
        | ObjectKind::View
        | ObjectKind::MaterializedView
        | ObjectKind::Index
        | ObjectKind::Sequence
        | ObjectKind::Source
        | ObjectKind::Secret
        | ObjectKind::SemanticModel
        | ObjectKind::Cube => {
            let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
            if item.object_kind() != kind {
                let message = format!("\"{}\" is not {} {kind}", item.name.item, article(kind));
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Ok(ObjectId::Item(item.id))
        }
        ObjectKind::Schema => Ok(ObjectId::Schema(resolve_schema(ctx.catalog, ctx.scope(), name)?.id)),
        ObjectKind::Database => {
            let database = ctx.catalog.database_by_name(name.item()).ok_or_else(|| unknown_database(name.item()))?;
            Ok(ObjectId::Database(database.id))
        }
        ObjectKind::Cluster => {
            let cluster = ctx.catalog.cluster_by_name(name.item()).ok_or_else(|| unknown_cluster(name.item()))?;
            Ok(ObjectId::Cluster(cluster.id))
        }
        ObjectKind::Role => {
            let role = ctx.catalog.role_by_name(name.item()).ok_or_else(|| unknown_role(name.item()))?;
            Ok(ObjectId::Role(role.id))
        }
        ObjectKind::System => Ok(ObjectId::System),
    }
}

/// Errors: 42501 unless the role owns an item.
pub(super) fn check_owner_of(ctx: &PlanContext<'_>, item: &ItemRef) -> Result<(), SqlError> {
    check_owner(ctx, ObjectId::Item(item.id), item.object_kind(), &item.name.item)
}

/// The object of an ALTER: as in Postgres, ALTER TABLE changes what every relation has.
fn resolve_altered(ctx: &PlanContext<'_>, kind: ObjectKind, name: &Name) -> Result<(ObjectKind, ObjectId), SqlError> {
    if kind == ObjectKind::Table {
        let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
        if let ItemKind::Cube(CubeDef { model }) = item.kind {
            let model = ctx.catalog.item(model).map(|model| model.name.item.clone()).unwrap_or_default();
            let message = format!("\"{}\" is a cube of semantic model \"{model}\"", item.name.item);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint("Use ALTER SEMANTIC MODEL."));
        }
        return Ok((item.object_kind(), ObjectId::Item(item.id)));
    }
    Ok((kind, resolve_object(ctx, kind, name)?))
}

pub(super) fn article(kind: ObjectKind) -> &'static str {
    if kind == ObjectKind::Index { "an" } else { "a" }
}

/// A role that a statement names. Errors: 42704.
pub(super) fn resolve_role(ctx: &PlanContext<'_>, spec: &RoleSpec) -> Result<RoleId, SqlError> {
    let by_name = |name: &str| ctx.catalog.role_by_name(name).map(|role| role.id).ok_or_else(|| unknown_role(name));
    match spec {
        RoleSpec::Name(name) => by_name(name),
        RoleSpec::Current => Ok(ctx.role),
        RoleSpec::Session => by_name(&ctx.session.session_user),
        RoleSpec::Public => Err(unknown_role("public")),
    }
}

/// The cluster called `name`, or the session's, which the role may use. Errors: 42704, 42501.
fn resolve_cluster(ctx: &PlanContext<'_>, name: Option<&str>) -> Result<ClusterId, SqlError> {
    let name = name.unwrap_or(ctx.cluster);
    let cluster = ctx.catalog.cluster_by_name(name).ok_or_else(|| unknown_cluster(name))?;
    check_object(ctx, ObjectId::Cluster(cluster.id), Privilege::Usage, ObjectKind::Cluster, &cluster.name)?;
    cluster.check_for_users()?;
    Ok(cluster.id)
}

/// Names of the system's own objects cannot be taken. Errors: 42939.
pub(super) fn check_reserved(name: &str, kind: &str) -> Result<(), SqlError> {
    if name.starts_with("mz_") || name.starts_with("pg_") {
        return Err(SqlError::new(SqlState::RESERVED_NAME, format!("{kind} name \"{name}\" is reserved"))
            .with_detail("The prefixes \"mz_\" and \"pg_\" are reserved."));
    }
    Ok(())
}

/// An error, or the notice that IF EXISTS makes of it.
fn missing(
    kind: ObjectKind,
    name: &Name,
    if_exists: bool,
    tag: &'static str,
    error: SqlError,
) -> Result<Plan, SqlError> {
    if !if_exists || error.sqlstate == SqlState::WRONG_OBJECT_TYPE {
        return Err(error);
    }
    let kind = if kind.is_relation() { "relation".to_owned() } else { kind.to_string() };
    let message = format!("{kind} \"{name}\" does not exist, skipping");
    Ok(Plan::NoOp { tag, notices: vec![PlanNotice { sqlstate: error.sqlstate, message, detail: None }] })
}

/// Giving an object away takes membership in the role that gets it. Errors: 42501.
fn check_member(ctx: &PlanContext<'_>, role: RoleId) -> Result<(), SqlError> {
    if is_superuser(ctx.catalog, ctx.role) || ctx.catalog.is_member(ctx.role, role) {
        return Ok(());
    }
    let name = ctx.catalog.role(role).map(|role| role.name.clone()).unwrap_or_default();
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be member of role \"{name}\"")))
}

fn plural(kind: ObjectKind) -> String {
    match kind {
        ObjectKind::Index => "indexes".to_owned(),
        kind => format!("{kind}s"),
    }
}
