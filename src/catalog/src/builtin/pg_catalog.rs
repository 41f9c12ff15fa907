//! The tables of `pg_catalog`.

use super::acl::{acl, aclitems, column_acl};
use super::{Context, Producer, SystemRelation, is_view, maybe, position, sequences, text, texts};
use crate::builtin::attribute::Attribute;
use crate::builtin::indexes::{BTREE_OID, index_columns};
use crate::builtin::shipped::shipped;
use crate::objects::DefaultAcl;
use arrow::array::RecordBatch;
use engine::error::SqlError;
use engine::names::{ObjectId, RoleId};
use repr::GlobalId;
use repr::datum::Datum;
use sql::names::is_temporary;
use sql::plan::{CatalogView, ConstraintDef, ConstraintKind, DefaultScope, IndexDef, ItemKind, ItemRef, RoleRef};
use sql_syntax::ast::{DefaultKind, KeyOptions};

/// The oid of `pg_class` itself, which comments on relations name.
pub(super) const PG_CLASS_OID: u32 = 1259;
pub(super) const PG_NAMESPACE_OID: u32 = 2615;
pub(super) const PG_DATABASE_OID: u32 = 1262;
pub(super) const PG_AUTHID_OID: u32 = 1260;
/// The access methods of `data/pg_am.tsv`.
const HEAP_OID: u32 = 2;

/// The tablespace `pg_default`.
const DEFAULT_TABLESPACE_OID: u32 = 1663;

/// PostgreSQL's number for UTF8.
pub(super) const ENCODING_UTF8: i32 = 6;

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "pg_class" => pg_class,
        "pg_attribute" => pg_attribute,
        "pg_attrdef" => pg_attrdef,
        "pg_index" => pg_index,
        "pg_namespace" => pg_namespace,
        "pg_database" => pg_database,
        "pg_authid" => pg_authid,
        "pg_auth_members" => pg_auth_members,
        "pg_default_acl" => pg_default_acl,
        "pg_description" => pg_description,
        "pg_shdescription" => pg_shdescription,
        "pg_type" | "pg_proc" | "pg_am" | "pg_collation" | "pg_tablespace" | "pg_language" | "pg_opclass"
        | "pg_opfamily" => shipped,
        _ => return None,
    })
}

fn pg_class(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let rows = items.iter().map(|item| class_row(context, item)).collect();
    relation.batch(
        [
            "oid",
            "relname",
            "relnamespace",
            "relowner",
            "relam",
            "relkind",
            "relnatts",
            "relhasindex",
            "relpersistence",
            "relreplident",
            "relispopulated",
            "reltuples",
            "relacl",
            "relhasrules",
            "relchecks",
            "relhastriggers",
        ],
        rows,
    )
}

fn class_row(context: &Context<'_>, item: &ItemRef) -> [Datum<'static>; 16] {
    let view = is_view(item);
    let is_check = |constraint: &&ConstraintDef| matches!(constraint.kind, ConstraintKind::Check { .. });
    let (kind, access_method) = match &item.kind {
        ItemKind::Index(_) => ("i", BTREE_OID),
        ItemKind::MaterializedView(_) => ("m", HEAP_OID),
        ItemKind::Sequence(_) => ("S", 0),
        _ if view => ("v", 0),
        _ => ("r", HEAP_OID),
    };
    [
        Datum::Oid(item.oid),
        text(&item.name.item),
        Datum::Oid(context.schema_oid(item.schema)),
        Datum::Oid(context.role_oid(item.owner)),
        Datum::Oid(access_method),
        text(kind),
        Datum::Int2(i16::try_from(item.desc.arity()).unwrap_or(i16::MAX)),
        Datum::Bool(context.has_index(item)),
        text(if is_temporary(&item.name.schema) { "t" } else { "p" }),
        text(if matches!(item.id, GlobalId::System(_)) || !matches!(kind, "r" | "m") { "n" } else { "d" }),
        Datum::Bool(true),
        // PostgreSQL's mark for a relation that was never analysed.
        Datum::Float4(-1.0),
        match item.id {
            GlobalId::System(_) => Datum::Null,
            id => acl(context, ObjectId::Item(id)),
        },
        Datum::Bool(item.view().is_some() || view),
        Datum::Int2(i16::try_from(item.constraints().iter().filter(is_check).count()).unwrap_or(i16::MAX)),
        // Foreign keys are triggers in PostgreSQL, and clients look for them where there are some.
        Datum::Bool(item.foreign_keys().next().is_some() || !context.catalog.children(item.id).is_empty()),
    ]
}

fn pg_attribute(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for item in context.items() {
        for (i, column) in item.desc.columns.iter().enumerate() {
            let identity = sequences::identity(context, &item, i);
            let has_default = sequences::shown_default(context, &item, i).is_some();
            let of_kind = matches!(item.kind, ItemKind::Table { .. } | ItemKind::SystemTable | ItemKind::Sequence(_));
            let (not_null, acl) = (!column.nullable && of_kind, column_acl(context, item.id, i));
            rows.push(Attribute { not_null, has_default, identity, acl }.row(item.oid, i, column));
        }
    }
    relation.batch(
        [
            "attrelid",
            "attname",
            "atttypid",
            "attlen",
            "attnum",
            "attndims",
            "attcacheoff",
            "atttypmod",
            "attbyval",
            "attalign",
            "attstorage",
            "attnotnull",
            "atthasdef",
            "attislocal",
            "attcollation",
            "attstattarget",
            "attacl",
            "attidentity",
        ],
        rows,
    )
}

/// The oid of a column's default: stable, and out of the way of all others.
pub(super) fn default_oid(table: u32, column: usize) -> u32 {
    0x8000_0000 | table.wrapping_mul(1_600).wrapping_add(u32::try_from(column).unwrap_or(0)) & 0x7fff_ffff
}

fn pg_attrdef(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for item in context.items() {
        for i in 0..item.desc.arity() {
            if let Some(default) = sequences::shown_default(context, &item, i) {
                let oid = Datum::Oid(default_oid(item.oid, i));
                rows.push([oid, Datum::Oid(item.oid), Datum::Int2(position(i)), text(default)]);
            }
        }
    }
    relation.batch(["oid", "adrelid", "adnum", "adbin"], rows)
}

fn pg_index(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let rows = items
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::Index(index) => Some(index_row(context, item, index)),
            _ => None,
        })
        .collect();
    relation.batch(
        [
            "indexrelid",
            "indrelid",
            "indnatts",
            "indnkeyatts",
            "indimmediate",
            "indisvalid",
            "indisready",
            "indislive",
            "indkey",
            "indcollation",
            "indclass",
            "indoption",
            "indexprs",
            "indisunique",
            "indisprimary",
        ],
        rows,
    )
}

fn index_row(context: &Context<'_>, item: &ItemRef, index: &IndexDef) -> [Datum<'static>; 15] {
    let count = Datum::Int2(i16::try_from(index.keys.len()).unwrap_or(i16::MAX));
    let expressions: Vec<&str> =
        index.keys.iter().filter(|key| key.column.is_none()).map(|key| key.sql.as_str()).collect();
    let declared: Vec<KeyOptions> = index.keys.iter().map(|key| key.options.clone()).collect();
    let (collations, classes, options) = index_columns(&item.desc.columns, &declared);
    [
        Datum::Oid(item.oid),
        Datum::Oid(context.catalog.item(index.on).map_or(0, |on| on.oid)),
        count.clone(),
        count,
        Datum::Bool(true),
        Datum::Bool(true),
        Datum::Bool(true),
        Datum::Bool(true),
        // Zero stands for an expression.
        Datum::List(index.keys.iter().map(|key| Datum::Int2(key.column.map_or(0, position))).collect()),
        collations,
        classes,
        options,
        if expressions.is_empty() { Datum::Null } else { text(expressions.join(", ")) },
        Datum::Bool(index.unique),
        Datum::Bool(is_primary(context, index)),
    ]
}

/// Whether it is the index of a PRIMARY KEY.
fn is_primary(context: &Context<'_>, index: &IndexDef) -> bool {
    let on = index.constraint.and_then(|_| context.catalog.item(index.on));
    let mut constraints = on.iter().flat_map(|on| on.constraints());
    constraints.any(|constraint| Some(constraint.oid) == index.constraint && constraint.is_primary())
}

fn pg_namespace(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context
        .schemas()
        .iter()
        .map(|schema| {
            [
                Datum::Oid(schema.oid),
                text(&schema.name),
                Datum::Oid(context.role_oid(schema.owner)),
                acl(context, ObjectId::Schema(schema.id)),
            ]
        })
        .collect();
    relation.batch(["oid", "nspname", "nspowner", "nspacl"], rows)
}

fn pg_database(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context
        .catalog
        .databases()
        .iter()
        .map(|database| {
            [
                Datum::Oid(database.oid),
                text(&database.name),
                Datum::Oid(context.role_oid(database.owner)),
                Datum::Int4(ENCODING_UTF8),
                text("c"),
                Datum::Bool(true),
                Datum::Int4(-1),
                Datum::Oid(DEFAULT_TABLESPACE_OID),
                text("C"),
                text("C"),
                acl(context, ObjectId::Database(database.id)),
            ]
        })
        .collect();
    relation.batch(
        [
            "oid",
            "datname",
            "datdba",
            "encoding",
            "datlocprovider",
            "datallowconn",
            "datconnlimit",
            "dattablespace",
            "datcollate",
            "datctype",
            "datacl",
        ],
        rows,
    )
}

/// The columns that `pg_authid` and `pg_roles` share, in the order of [`role_row`].
pub(super) const ROLE_COLUMNS: [&str; 11] = [
    "oid",
    "rolname",
    "rolsuper",
    "rolinherit",
    "rolcreaterole",
    "rolcreatedb",
    "rolcanlogin",
    "rolreplication",
    "rolconnlimit",
    "rolbypassrls",
    "rolpassword",
];

pub(super) fn role_row(role: &RoleRef, password: Datum<'static>) -> [Datum<'static>; 11] {
    [
        Datum::Oid(role.oid),
        text(&role.name),
        Datum::Bool(role.superuser),
        Datum::Bool(role.inherit),
        Datum::Bool(role.create_role || role.superuser),
        Datum::Bool(role.create_db || role.superuser),
        Datum::Bool(role.login),
        Datum::Bool(false),
        Datum::Int4(-1),
        Datum::Bool(role.superuser),
        password,
    ]
}

fn pg_authid(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let roles = context.catalog.roles();
    let rows = roles.iter().map(|role| role_row(role, hidden_password(context, role.id))).collect();
    relation.batch(ROLE_COLUMNS, rows)
}

/// Whether there is a password is shown, but nothing of it, to superusers either.
pub(super) fn hidden_password(context: &Context<'_>, role: RoleId) -> Datum<'static> {
    maybe(context.catalog.verifier(role), |_| text("********"))
}

fn pg_auth_members(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let oid = |role: RoleId| Datum::Oid(context.role_oid(role));
    let rows = context.catalog.memberships().map(|m| [oid(m.role), oid(m.member), oid(m.grantor)]).collect();
    relation.batch(["roleid", "member", "grantor"], rows)
}

fn pg_default_acl(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |(scope, acl): (&DefaultScope, &DefaultAcl)| {
        [
            Datum::Oid(acl.oid),
            Datum::Oid(context.role_oid(scope.role)),
            Datum::Oid(scope.schema.map_or(0, |schema| context.schema_oid(schema))),
            text(match scope.kind {
                DefaultKind::Tables => "r",
                DefaultKind::Schemas => "n",
            }),
            texts(aclitems(context, acl.items.iter())),
        ]
    };
    let rows = context.catalog.default_acls().map(row).collect();
    relation.batch(["oid", "defaclrole", "defaclnamespace", "defaclobjtype", "defaclacl"], rows)
}

fn pg_description(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for (object, column, comment) in context.catalog.comments() {
        let (oid, class) = match object {
            ObjectId::Item(id) => {
                let item = context
                    .catalog
                    .item(id)
                    .filter(|item| !matches!(item.kind, ItemKind::Secret(_) | ItemKind::SemanticModel(_)));
                (item.map(|item| item.oid), PG_CLASS_OID)
            }
            ObjectId::Schema(id) => (context.catalog.schema(id).map(|schema| schema.oid), PG_NAMESPACE_OID),
            _ => continue,
        };
        let Some(oid) = oid else { continue };
        let column = column.map_or(0, |column| i32::from(position(column)));
        rows.push([Datum::Oid(oid), Datum::Oid(class), Datum::Int4(column), text(comment)]);
    }
    relation.batch(["objoid", "classoid", "objsubid", "description"], rows)
}

fn pg_shdescription(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for (object, _, comment) in context.catalog.comments() {
        let (oid, class) = match object {
            ObjectId::Database(id) => (context.catalog.database(id).map(|database| database.oid), PG_DATABASE_OID),
            ObjectId::Role(id) => (context.catalog.role(id).map(|role| role.oid), PG_AUTHID_OID),
            _ => continue,
        };
        if let Some(oid) = oid {
            rows.push([Datum::Oid(oid), Datum::Oid(class), text(comment)]);
        }
    }
    relation.batch(["objoid", "classoid", "description"], rows)
}

/// The comment on a column or, with 0, on the object.
pub(super) fn comment(context: &Context<'_>, matches: impl Fn(ObjectId) -> bool, column: i32) -> Datum<'static> {
    let number = |column: Option<usize>| column.map_or(0, |column| i32::from(position(column)));
    let mut comments = context.catalog.comments();
    let found = comments.find(|(object, on, _)| number(*on) == column && matches(*object));
    maybe(found, |(_, _, comment)| text(comment))
}
