//! The relations of `information_schema`: the current database, as far as the session's role may see it.
//!
//! Arrays are called `ARRAY`, types by their names without a modifier; what a modifier says is in columns of its own.

use super::{Context, Producer, SystemRelation, is_view, maybe, position, sequences, text};
use crate::builtin::standard::{database, is_standard, is_system, may_use, numeric, role, visible, yes_or_no};
use crate::objects::AclItem;
use arrow::array::RecordBatch;
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind, Privilege, RoleId};
use pgrepr::types;
use repr::ColumnDesc;
use repr::datum::Datum;
use repr::types::PgType;
use sql::names::is_temporary;
use sql::plan::{CatalogView, Grantee, ItemKind, ItemRef, definition};
use std::sync::Arc;

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "tables" => tables,
        "columns" => columns,
        "schemata" => schemata,
        "views" => views,
        "table_privileges" | "role_table_grants" => table_privileges,
        "column_privileges" | "role_column_grants" => column_privileges,
        "enabled_roles" => enabled_roles,
        "applicable_roles" => applicable_roles,
        "character_sets" => character_sets,
        "information_schema_catalog_name" => catalog_name,
        _ => return None,
    })
}

fn tables(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = visible(context)
        .iter()
        .map(|item| {
            let view = is_view(item);
            [
                database(context),
                text(&item.name.schema),
                text(&item.name.item),
                text(match view {
                    true => "VIEW",
                    false if is_temporary(&item.name.schema) => "LOCAL TEMPORARY",
                    false => "BASE TABLE",
                }),
                yes_or_no(!view && !is_system(item)),
                yes_or_no(false),
            ]
        })
        .collect();
    relation
        .batch(["table_catalog", "table_schema", "table_name", "table_type", "is_insertable_into", "is_typed"], rows)
}

fn columns(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    let role = role(context);
    for item in visible(context) {
        let may = |i| is_system(&item) || role.as_ref().is_some_and(|role| may_use(context, role.id, &item, i..i + 1));
        for (i, column) in item.desc.columns.iter().enumerate().filter(|(i, _)| may(*i)) {
            rows.push(column_row(context, &item, i, column));
        }
    }
    relation.batch(
        [
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "column_default",
            "is_nullable",
            "data_type",
            "character_maximum_length",
            "character_octet_length",
            "numeric_precision",
            "numeric_precision_radix",
            "numeric_scale",
            "datetime_precision",
            "udt_catalog",
            "udt_schema",
            "udt_name",
            "dtd_identifier",
            "is_self_referencing",
            "is_identity",
            "identity_generation",
            "identity_start",
            "identity_increment",
            "identity_maximum",
            "identity_minimum",
            "identity_cycle",
            "is_generated",
            "is_updatable",
        ],
        rows,
    )
}

fn column_row(context: &Context<'_>, item: &ItemRef, i: usize, column: &ColumnDesc) -> [Datum<'static>; 28] {
    let default = sequences::shown_default(context, item, i);
    let [is_identity, generation, start, increment, maximum, minimum, cycle] =
        sequences::identity_columns(context, item, i);
    let length = match &column.ty {
        PgType::Varchar(Some(n)) | PgType::Bpchar(Some(n)) => i32::try_from(*n).ok(),
        _ => None,
    };
    // A character takes up to four bytes; text without a limit takes up to a gibibyte.
    let octets = match &column.ty {
        PgType::Text | PgType::Varchar(None) | PgType::Bpchar(None) => Some(1 << 30),
        _ => length.map(|length| length.saturating_mul(4)),
    };
    let (precision, radix, scale) = numeric(&column.ty);
    let int = |value: Option<i32>| maybe(value, Datum::Int4);
    [
        database(context),
        text(&item.name.schema),
        text(&item.name.item),
        text(&column.name),
        Datum::Int4(position(i).into()),
        maybe(default, text),
        yes_or_no(column.nullable),
        text(match &column.ty {
            PgType::Array(_) | PgType::Int2Vector | PgType::OidVector => "ARRAY".to_owned(),
            ty => ty.name(),
        }),
        int(length),
        int(octets),
        int(precision),
        int(radix),
        int(scale),
        int(match &column.ty {
            PgType::Date => Some(0),
            PgType::Time | PgType::Timestamp | PgType::Timestamptz | PgType::Interval => Some(6),
            _ => None,
        }),
        database(context),
        text("pg_catalog"),
        text(types::typname(&column.ty)),
        text((i + 1).to_string()),
        yes_or_no(false),
        is_identity,
        generation,
        start,
        increment,
        maximum,
        minimum,
        cycle,
        text("NEVER"),
        yes_or_no(matches!(item.kind, ItemKind::Table { .. })),
    ]
}

fn schemata(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context
        .schemas()
        .iter()
        .map(|schema| [database(context), text(&schema.name), text(context.role_name(schema.owner))])
        .collect();
    relation.batch(["catalog_name", "schema_name", "schema_owner"], rows)
}

fn views(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let role = role(context);
    let rows = visible(context)
        .iter()
        .filter(|item| is_view(item))
        .map(|item| {
            // Only an owner sees the text.
            let owned = role.as_ref().is_some_and(|role| context.catalog.inherits(role.id, item.owner));
            let query = definition::view(context.catalog, item).filter(|_| owned);
            let no = || yes_or_no(false);
            let (schema, name) = (text(&item.name.schema), text(&item.name.item));
            [database(context), schema, name, maybe(query, text), text("NONE"), no(), no(), no(), no(), no()]
        })
        .collect();
    relation.batch(
        [
            "table_catalog",
            "table_schema",
            "table_name",
            "view_definition",
            "check_option",
            "is_updatable",
            "is_insertable_into",
            "is_trigger_updatable",
            "is_trigger_deletable",
            "is_trigger_insertable_into",
        ],
        rows,
    )
}

/// Who granted a privilege to whom, and whether they may grant it.
struct Granted {
    grantor: RoleId,
    grantee: Grantee,
    privilege: Privilege,
    grantable: bool,
}

impl Granted {
    fn names(&self, context: &Context<'_>) -> [Datum<'static>; 2] {
        let grantee = match self.grantee {
            Grantee::Public => "PUBLIC".to_owned(),
            Grantee::Role(role) => context.role_name(role),
        };
        [text(context.role_name(self.grantor)), text(grantee)]
    }
}

/// The privileges on a relation that are among these and concern the session's role: what the owner has by owning it, and what was
/// granted, each once.
fn granted<'a>(
    context: &Context<'_>,
    item: &ItemRef,
    among: &'a [Privilege],
    acl: impl Iterator<Item = &'a AclItem>,
) -> Vec<Granted> {
    let owner = |privilege: &Privilege| Granted {
        grantor: item.owner,
        grantee: Grantee::Role(item.owner),
        privilege: *privilege,
        grantable: true,
    };
    let mut all: Vec<Granted> = among.iter().map(owner).collect();
    for AclItem { grantee, privilege, grantor, .. } in acl.filter(|grant| among.contains(&grant.privilege)) {
        if !all.iter().any(|other| other.grantee == *grantee && other.privilege == *privilege) {
            all.push(Granted { grantor: *grantor, grantee: *grantee, privilege: *privilege, grantable: false });
        }
    }
    let role = role(context);
    let has = |of: RoleId| role.as_ref().is_some_and(|own| own.superuser || context.catalog.inherits(own.id, of));
    all.retain(|grant| match grant.grantee {
        Grantee::Public => true,
        Grantee::Role(grantee) => has(grantee) || has(grant.grantor),
    });
    all
}

/// Tables and views whose privileges are listed.
fn grantable(context: &Context<'_>) -> impl Iterator<Item = Arc<ItemRef>> {
    context.items().into_iter().filter(|item| is_standard(item) && !is_system(item))
}

fn table_privileges(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for item in grantable(context) {
        let acl = context.catalog.acl(ObjectId::Item(item.id));
        for grant in granted(context, &item, Privilege::all_of(ObjectKind::Table), acl) {
            let [grantor, grantee] = grant.names(context);
            rows.push([
                grantor,
                grantee,
                database(context),
                text(&item.name.schema),
                text(&item.name.item),
                text(grant.privilege.name()),
                yes_or_no(grant.grantable),
                yes_or_no(grant.privilege == Privilege::Select),
            ]);
        }
    }
    relation.batch(
        [
            "grantor",
            "grantee",
            "table_catalog",
            "table_schema",
            "table_name",
            "privilege_type",
            "is_grantable",
            "with_hierarchy",
        ],
        rows,
    )
}

/// A privilege on a relation is one on each of its columns.
fn column_privileges(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let mut rows = Vec::new();
    for item in grantable(context) {
        for (i, column) in item.desc.columns.iter().enumerate() {
            let acl = context.catalog.acl(ObjectId::Item(item.id)).chain(context.catalog.column_acl(item.id, i));
            for grant in granted(context, &item, &Privilege::OF_COLUMN, acl) {
                let [grantor, grantee] = grant.names(context);
                rows.push([
                    grantor,
                    grantee,
                    database(context),
                    text(&item.name.schema),
                    text(&item.name.item),
                    text(&column.name),
                    text(grant.privilege.name()),
                    yes_or_no(grant.grantable),
                ]);
            }
        }
    }
    relation.batch(
        [
            "grantor",
            "grantee",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "privilege_type",
            "is_grantable",
        ],
        rows,
    )
}

fn enabled_roles(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let Some(own) = role(context) else { return relation.batch([], Vec::new()) };
    let roles = context.catalog.roles();
    let enabled = roles.iter().filter(|role| context.catalog.is_member(own.id, role.id));
    relation.batch(["role_name"], enabled.map(|role| [text(&role.name)]).collect())
}

fn applicable_roles(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = context
        .catalog
        .memberships()
        .map(|m| [text(context.role_name(m.member)), text(context.role_name(m.role)), yes_or_no(false)])
        .collect();
    relation.batch(["grantee", "role_name", "is_grantable"], rows)
}

fn character_sets(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    relation.batch(
        ["character_set_name", "character_repertoire", "form_of_use", "default_collate_catalog"],
        vec![[text("UTF8"), text("UCS"), text("UTF8"), database(context)]],
    )
}

fn catalog_name(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    relation.batch(["catalog_name"], vec![[database(context)]])
}
