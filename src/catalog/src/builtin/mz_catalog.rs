//! The relations of `mz_catalog` and `mz_internal`: all databases, by id.
//!
//! Ids are text: `s` and `u` before a number tell what the system ships with from what users made.

use super::acl::privileges;
use super::{Context, Producer, SystemRelation, is_relation, is_table, is_view, maybe, position, text};
use crate::system::{MZ_SYSTEM, SYSTEM_CLUSTER, is_system_schema};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use engine::names::{ClusterId, DatabaseId, ObjectId, Privilege, RoleId, SchemaId};
use pgrepr::json::canonical_jsonb;
use pgrepr::types::{self, TYPES};
use repr::GlobalId;
use repr::datum::Datum;
use sql::plan::{CatalogView, CubeDef, IndexDef, ItemKind, ItemRef, definition, security_of};
use sql_syntax::names::FullName;

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "mz_databases" => databases,
        "mz_schemas" => schemas,
        "mz_columns" => columns,
        "mz_tables" => tables,
        "mz_views" => views,
        "mz_materialized_views" => materialized_views,
        "mz_sources" => sources,
        "mz_secrets" => secrets,
        "mz_webhook_sources" => webhook_sources,
        "mz_cubes" => cubes,
        "mz_indexes" => indexes,
        "mz_index_columns" => index_columns,
        "mz_clusters" => clusters,
        "mz_cluster_replicas" => cluster_replicas,
        "mz_roles" => roles,
        "mz_role_members" => role_members,
        "mz_objects" => objects,
        "mz_relations" => relations,
        "mz_types" => mz_types,
        "mz_system_privileges" => system_privileges,
        "mz_comments" => comments,
        "mz_object_dependencies" => object_dependencies,
        _ => return None,
    })
}

fn schema_id(id: SchemaId) -> Datum<'static> {
    text(if is_system_schema(id) { format!("s{id}") } else { format!("u{id}") })
}

pub(super) fn role_id(id: RoleId) -> Datum<'static> {
    text(if id == MZ_SYSTEM { format!("s{id}") } else { format!("u{id}") })
}

fn database_id(id: DatabaseId) -> Datum<'static> {
    text(format!("u{id}"))
}

pub(super) fn cluster_id(id: ClusterId) -> Datum<'static> {
    text(cluster_text(id))
}

fn cluster_text(id: ClusterId) -> String {
    if id == SYSTEM_CLUSTER { format!("s{id}") } else { format!("u{id}") }
}

pub(super) fn replica_id(cluster: ClusterId, replica: u64) -> Datum<'static> {
    text(format!("{}-r{replica}", cluster_text(cluster)))
}

fn item_id(id: GlobalId) -> Datum<'static> {
    text(id.to_string())
}

fn item_privileges(context: &Context<'_>, item: &ItemRef) -> Datum<'static> {
    privileges(context, ObjectId::Item(item.id))
}

fn databases(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let databases = context.catalog.databases();
    let rows = databases
        .iter()
        .map(|database| {
            let acl = privileges(context, ObjectId::Database(database.id));
            let (id, owner) = (database_id(database.id), role_id(database.owner));
            [id, Datum::Oid(database.oid), text(&database.name), owner, acl]
        })
        .collect();
    relation.batch(["id", "oid", "name", "owner_id", "privileges"], rows)
}

fn schemas(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context
        .catalog
        .all_schemas()
        .map(|schema| {
            [
                schema_id(schema.id),
                Datum::Oid(schema.oid),
                maybe(schema.database, database_id),
                text(&schema.name),
                role_id(schema.owner),
                privileges(context, ObjectId::Schema(schema.id)),
            ]
        })
        .collect();
    relation.batch(["id", "oid", "database_id", "name", "owner_id", "privileges"], rows)
}

fn columns(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for item in context.catalog.all_items().filter(|item| is_relation(item)) {
        for (i, column) in item.desc.columns.iter().enumerate() {
            let default = super::sequences::shown_default(context, item, i);
            rows.push([
                item_id(item.id),
                text(&column.name),
                Datum::Int8(position(i).into()),
                Datum::Bool(column.nullable),
                text(column.ty.name()),
                maybe(default, text),
                Datum::Oid(types::oid(&column.ty)),
                Datum::Int4(types::typmod(&column.ty)),
            ]);
        }
    }
    relation.batch(["id", "name", "position", "nullable", "type", "default", "type_oid", "type_mod"], rows)
}

fn tables(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context
        .catalog
        .all_items()
        .filter(|item| is_table(item))
        .map(|item| {
            let sql = maybe(definition::create_sql(context.catalog, item), text);
            [
                item_id(item.id),
                Datum::Oid(item.oid),
                schema_id(item.schema),
                text(&item.name.item),
                role_id(item.owner),
                item_privileges(context, item),
                sql.clone(),
                sql,
            ]
        })
        .collect();
    relation
        .batch(["id", "oid", "schema_id", "name", "owner_id", "privileges", "create_sql", "redacted_create_sql"], rows)
}

/// Cubes and views of semantic models that the session may read, as Cube's clients are told of them.
fn cubes(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let Some(role) = context.catalog.role_by_name(&context.session.user) else {
        return relation.batch(["id"], Vec::new());
    };
    let security = security_of(context.catalog, role.id, context.session);
    let may_read = |item: &ItemRef| {
        role.superuser || context.catalog.has_privilege(role.id, ObjectId::Item(item.id), Privilege::Select)
    };
    let row = |item: &ItemRef| {
        let ItemKind::Cube(CubeDef { model }) = item.kind else { return None };
        let owner = context.catalog.item(model)?;
        let ItemKind::SemanticModel(def) = &owner.kind else { return None };
        let meta = def.model.meta(&item.name.item, &security).filter(|_| may_read(item))?;
        Some([
            item_id(item.id),
            Datum::Oid(item.oid),
            schema_id(item.schema),
            text(&item.name.item),
            item_id(model),
            text(canonical_jsonb(&meta.to_string()).ok()?),
        ])
    };
    let rows = context.catalog.all_items().filter_map(|item| row(item)).collect();
    relation.batch(["id", "oid", "schema_id", "name", "model_id", "meta"], rows)
}

/// Users' views. Those that the system ships with have no query.
fn views(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |item: &ItemRef| {
        let ItemKind::View(_) = &item.kind else { return None };
        let sql = maybe(definition::create_sql(context.catalog, item), text);
        Some([
            item_id(item.id),
            Datum::Oid(item.oid),
            schema_id(item.schema),
            text(&item.name.item),
            maybe(definition::view(context.catalog, item), text),
            role_id(item.owner),
            item_privileges(context, item),
            sql.clone(),
            sql,
        ])
    };
    let rows = context.catalog.all_items().filter_map(|item| row(item)).collect();
    relation.batch(
        ["id", "oid", "schema_id", "name", "definition", "owner_id", "privileges", "create_sql", "redacted_create_sql"],
        rows,
    )
}

fn materialized_views(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |item: &ItemRef| {
        let ItemKind::MaterializedView(materialized) = &item.kind else { return None };
        let sql = maybe(definition::create_sql(context.catalog, item), text);
        Some([
            item_id(item.id),
            Datum::Oid(item.oid),
            schema_id(item.schema),
            text(&item.name.item),
            cluster_id(materialized.cluster),
            maybe(definition::view(context.catalog, item), text),
            role_id(item.owner),
            item_privileges(context, item),
            sql.clone(),
            sql,
        ])
    };
    let rows = context.catalog.all_items().filter_map(|item| row(item)).collect();
    relation.batch(
        [
            "id",
            "oid",
            "schema_id",
            "name",
            "cluster_id",
            "definition",
            "owner_id",
            "privileges",
            "create_sql",
            "redacted_create_sql",
        ],
        rows,
    )
}

/// The indexes that are maintained.
fn all_indexes<'a>(context: &Context<'a>) -> impl Iterator<Item = (&'a ItemRef, &'a IndexDef, ClusterId)> {
    context.catalog.all_items().filter_map(|item| match &item.kind {
        ItemKind::Index(index) => Some((item.as_ref(), index, index.cluster?)),
        _ => None,
    })
}

fn indexes(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = all_indexes(context)
        .map(|(item, index, cluster)| {
            let sql = maybe(definition::create_sql(context.catalog, item), text);
            [
                item_id(item.id),
                Datum::Oid(item.oid),
                text(&item.name.item),
                item_id(index.on),
                cluster_id(cluster),
                role_id(item.owner),
                sql.clone(),
                sql,
            ]
        })
        .collect();
    relation.batch(["id", "oid", "name", "on_id", "cluster_id", "owner_id", "create_sql", "redacted_create_sql"], rows)
}

fn index_columns(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for (item, index, _) in all_indexes(context) {
        for (i, key) in index.keys.iter().enumerate() {
            let column = key.column.map(|column| Datum::Int8(position(column).into()));
            rows.push([
                item_id(item.id),
                Datum::Int8(position(i).into()),
                if column.is_some() { Datum::Null } else { text(&key.sql) },
                column.unwrap_or(Datum::Null),
                Datum::Bool(item.desc.columns.get(i).is_none_or(|column| column.nullable)),
            ]);
        }
    }
    relation.batch(["index_id", "index_position", "on_expression", "on_position", "nullable"], rows)
}

fn clusters(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let clusters = context.catalog.clusters();
    let rows = clusters
        .iter()
        .map(|cluster| {
            [
                cluster_id(cluster.id),
                text(&cluster.name),
                role_id(cluster.owner),
                privileges(context, ObjectId::Cluster(cluster.id)),
                Datum::Bool(true),
                text(&cluster.size),
                Datum::Oid(u32::try_from(cluster.replication_factor).unwrap_or(u32::MAX)),
            ]
        })
        .collect();
    relation.batch(["id", "name", "owner_id", "privileges", "managed", "size", "replication_factor"], rows)
}

/// The replicas of a managed cluster are called `r1`, `r2` and so on.
fn cluster_replicas(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for cluster in context.catalog.clusters() {
        for replica in 1..=cluster.replication_factor {
            rows.push([
                replica_id(cluster.id, replica),
                text(format!("r{replica}")),
                cluster_id(cluster.id),
                text(&cluster.size),
                role_id(cluster.owner),
            ]);
        }
    }
    relation.batch(["id", "name", "cluster_id", "size", "owner_id"], rows)
}

fn roles(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let roles = context.catalog.roles();
    let rows = roles
        .iter()
        .map(|role| {
            [
                role_id(role.id),
                Datum::Oid(role.oid),
                text(&role.name),
                Datum::Bool(role.inherit),
                Datum::Bool(role.login),
                Datum::Bool(role.superuser),
            ]
        })
        .collect();
    relation.batch(["id", "oid", "name", "inherit", "rolcanlogin", "rolsuper"], rows)
}

fn role_members(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows =
        context.catalog.memberships().map(|m| [role_id(m.role), role_id(m.member), role_id(m.grantor)]).collect();
    relation.batch(["role_id", "member", "grantor"], rows)
}

/// What kind of object an item is, as `mz_objects` says it.
fn object_type(item: &ItemRef) -> &'static str {
    match &item.kind {
        ItemKind::Index(_) => "index",
        ItemKind::MaterializedView(_) => "materialized-view",
        ItemKind::Sequence(_) => "sequence",
        ItemKind::Secret(_) => "secret",
        ItemKind::SemanticModel(_) => "semantic-model",
        ItemKind::Cube(_) => "cube",
        ItemKind::Table { webhook: Some(_), .. } => "source",
        _ if is_view(item) => "view",
        _ => "table",
    }
}

fn object_row(context: &Context<'_>, item: &ItemRef) -> [Datum<'static>; 8] {
    [
        item_id(item.id),
        Datum::Oid(item.oid),
        schema_id(item.schema),
        text(&item.name.item),
        text(object_type(item)),
        role_id(item.owner),
        maybe(item.cluster(), cluster_id),
        item_privileges(context, item),
    ]
}

const OBJECT_COLUMNS: [&str; 8] = ["id", "oid", "schema_id", "name", "type", "owner_id", "cluster_id", "privileges"];

fn objects(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    relation.batch(OBJECT_COLUMNS, context.catalog.all_items().map(|item| object_row(context, item)).collect())
}

fn relations(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows =
        context.catalog.all_items().filter(|item| is_relation(item)).map(|item| object_row(context, item)).collect();
    relation.batch(OBJECT_COLUMNS, rows)
}

fn sources(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context.catalog.all_items().filter(|item| item.webhook().is_some()).map(|item| {
        let sql = maybe(definition::create_sql(context.catalog, item), text);
        [
            item_id(item.id),
            Datum::Oid(item.oid),
            schema_id(item.schema),
            text(&item.name.item),
            text("webhook"),
            role_id(item.owner),
            item_privileges(context, item),
            sql.clone(),
            sql,
        ]
    });
    let columns =
        ["id", "oid", "schema_id", "name", "type", "owner_id", "privileges", "create_sql", "redacted_create_sql"];
    relation.batch(columns, rows.collect())
}

/// Where webhooks are, behind the address of a HTTP port.
fn webhook_sources(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context.catalog.all_items().filter(|item| item.webhook().is_some()).map(|item| {
        let FullName { database, schema, item: name } = &item.name;
        let parts = [database.as_deref().unwrap_or_default(), schema, name].map(percent_encoded);
        [item_id(item.id), text(name), text(format!("/api/webhook/{}", parts.join("/")))]
    });
    relation.batch(["id", "name", "url"], rows.collect())
}

/// A part of an address.
fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn secrets(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context.catalog.all_items().filter(|item| matches!(item.kind, ItemKind::Secret(_))).map(|item| {
        [
            item_id(item.id),
            Datum::Oid(item.oid),
            schema_id(item.schema),
            text(&item.name.item),
            role_id(item.owner),
            item_privileges(context, item),
        ]
    });
    relation.batch(["id", "oid", "schema_id", "name", "owner_id", "privileges"], rows.collect())
}

fn mz_types(_: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = TYPES
        .iter()
        .map(|info| {
            [
                text(format!("s{}", info.oid)),
                Datum::Oid(info.oid),
                schema_id(crate::system::PG_CATALOG),
                text(info.name),
                text(if info.kind == 'p' { "pseudo" } else { category(info.category) }),
                role_id(MZ_SYSTEM),
            ]
        })
        .collect();
    relation.batch(["id", "oid", "schema_id", "name", "category", "owner_id"], rows)
}

fn category(letter: char) -> &'static str {
    match letter {
        'B' => "boolean",
        'D' => "date-time",
        'N' => "numeric",
        'S' => "string",
        'T' => "timespan",
        _ => "user-defined",
    }
}

fn system_privileges(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = super::acl::items(context, ObjectId::System);
    relation.batch(["privileges"], items.into_iter().map(|item| [text(item)]).collect())
}

fn comments(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for (object, column, comment) in context.catalog.comments() {
        let (id, kind) = match object {
            ObjectId::Database(id) => (database_id(id), "database"),
            ObjectId::Schema(id) => (schema_id(id), "schema"),
            ObjectId::Cluster(id) => (cluster_id(id), "cluster"),
            ObjectId::Role(id) => (role_id(id), "role"),
            ObjectId::Item(id) => {
                let Some(item) = context.catalog.item(id) else { continue };
                (item_id(id), object_type(&item))
            }
            ObjectId::System => continue,
        };
        let column = maybe(column, |column| Datum::Int4(position(column).into()));
        rows.push([id, text(kind), column, text(comment)]);
    }
    relation.batch(["id", "object_type", "object_sub_id", "comment"], rows)
}

fn object_dependencies(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    let is_referred_to =
        |item: &&std::sync::Arc<ItemRef>| is_relation(item) || matches!(item.kind, ItemKind::Secret(_));
    for item in context.catalog.all_items().filter(is_referred_to) {
        rows.extend(context.catalog.dependents(item.id).into_iter().map(|id| [item_id(id), item_id(item.id)]));
    }
    relation.batch(["object_id", "referenced_object_id"], rows)
}
