//! The relations of `pg_catalog` that Postgres has as views: the same facts, easier to read.

use super::pg_catalog::{ROLE_COLUMNS, hidden_password, role_row};
use super::{Context, Producer, SystemRelation, is_table, is_view, maybe, text};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use pgrepr::calendar::SECOND_US;
use pgrepr::timezone::TimeZone;
use pgrepr::timezone::abbreviations::Abbreviation;
use repr::datum::Datum;
use sql::plan::{CatalogView, ItemKind, ItemRef, definition};
use sql::vars::definitions::{Definition, Kind, Level, SESSION_VARS, SYSTEM_VARS};

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "pg_roles" => pg_roles,
        "pg_user" | "pg_shadow" => pg_user,
        "pg_group" => pg_group,
        "pg_tables" => pg_tables,
        "pg_views" => pg_views,
        "pg_matviews" => pg_matviews,
        "pg_indexes" => pg_indexes,
        "pg_settings" => pg_settings,
        "pg_timezone_names" => timezone_names,
        "pg_timezone_abbrevs" => timezone_abbreviations,
        "pg_stat_user_tables" | "pg_statio_user_tables" => user_tables,
        "pg_stat_all_tables" | "pg_statio_all_tables" => all_tables,
        _ => return None,
    })
}

fn pg_roles(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    // Whether there is a password or not.
    let rows = context.catalog.roles().iter().map(|role| role_row(role, text("********"))).collect();
    relation.batch(ROLE_COLUMNS, rows)
}

/// Roles that may log in.
fn pg_user(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let roles = context.catalog.roles();
    let rows = roles
        .iter()
        .filter(|role| role.login)
        .map(|role| {
            [
                text(&role.name),
                Datum::Oid(role.oid),
                Datum::Bool(role.create_db || role.superuser),
                Datum::Bool(role.superuser),
                Datum::Bool(false),
                Datum::Bool(role.superuser),
                // PostgreSQL shows superusers what is stored; here nobody sees it.
                if relation.name == "pg_user" { text("********") } else { hidden_password(context, role.id) },
            ]
        })
        .collect();
    relation.batch(["usename", "usesysid", "usecreatedb", "usesuper", "userepl", "usebypassrls", "passwd"], rows)
}

/// Roles that may not log in, with their members.
fn pg_group(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let memberships: Vec<_> = context.catalog.memberships().collect();
    let roles = context.catalog.roles();
    let rows = roles
        .iter()
        .filter(|role| !role.login)
        .map(|role| {
            let members = memberships.iter().filter(|membership| membership.role == role.id);
            let members = members.map(|membership| Datum::Oid(context.role_oid(membership.member))).collect();
            [text(&role.name), Datum::Oid(role.oid), Datum::List(members)]
        })
        .collect();
    relation.batch(["groname", "grosysid", "grolist"], rows)
}

fn pg_tables(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let rows = items
        .iter()
        .filter(|item| is_table(item) || item.webhook().is_some())
        .map(|item| {
            [
                text(&item.name.schema),
                text(&item.name.item),
                text(context.role_name(item.owner)),
                Datum::Bool(context.has_index(item)),
                Datum::Bool(false),
                Datum::Bool(false),
                Datum::Bool(false),
            ]
        })
        .collect();
    relation
        .batch(["schemaname", "tablename", "tableowner", "hasindexes", "hasrules", "hastriggers", "rowsecurity"], rows)
}

fn pg_views(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let rows = items
        .iter()
        .filter(|item| is_view(item))
        .map(|item| {
            let definition = maybe(definition::view(context.catalog, item), text);
            [text(&item.name.schema), text(&item.name.item), text(context.role_name(item.owner)), definition]
        })
        .collect();
    relation.batch(["schemaname", "viewname", "viewowner", "definition"], rows)
}

fn pg_matviews(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let row = |item: &ItemRef| {
        let ItemKind::MaterializedView(_) = &item.kind else { return None };
        Some([
            text(&item.name.schema),
            text(&item.name.item),
            text(context.role_name(item.owner)),
            Datum::Bool(!context.catalog.indexes_on(item.id).is_empty()),
            // There is no WITH NO DATA: reads wait for the first rows.
            Datum::Bool(true),
            maybe(definition::view(context.catalog, item), text),
        ])
    };
    let rows = items.iter().filter_map(|item| row(item)).collect();
    relation.batch(["schemaname", "matviewname", "matviewowner", "hasindexes", "ispopulated", "definition"], rows)
}

fn pg_indexes(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let row = |item: &ItemRef| {
        let ItemKind::Index(index) = &item.kind else { return None };
        Some([
            text(&item.name.schema),
            maybe(context.catalog.item(index.on), |on| text(&on.name.item)),
            text(&item.name.item),
            text(definition::index(context.catalog, item, index)),
        ])
    };
    let rows = items.iter().filter_map(|item| row(item)).collect();
    relation.batch(["schemaname", "tablename", "indexname", "indexdef"], rows)
}

fn timezone_names(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let now = context.session.statement_now_us;
    let row = |zone: TimeZone| {
        let abbreviation = zone.abbreviation_at(now);
        [text(zone.name()), text(abbreviation), offset(zone, now), Datum::Bool(zone.is_summer_at(now))]
    };
    relation.batch(["name", "abbrev", "utc_offset", "is_dst"], TimeZone::all().map(row).collect())
}

fn timezone_abbreviations(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let now = context.session.statement_now_us;
    let row = |known: Abbreviation| {
        [text(known.name.to_ascii_uppercase()), offset(known.zone, now), Datum::Bool(known.is_summer_at(now))]
    };
    relation.batch(["abbrev", "utc_offset", "is_dst"], Abbreviation::all().map(row).collect())
}

/// How far the clocks of a zone are ahead of UTC.
fn offset(zone: TimeZone, now_us: i64) -> Datum<'static> {
    Datum::Interval(0, 0, i64::from(zone.offset_at(now_us)) * SECOND_US)
}

fn pg_settings(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let rows = SESSION_VARS
        .iter()
        .chain(SYSTEM_VARS)
        .filter(|definition| !definition.hidden)
        .map(|definition| setting_row(context, definition))
        .collect();
    relation.batch(
        [
            "name",
            "setting",
            "unit",
            "category",
            "short_desc",
            "context",
            "vartype",
            "source",
            "min_val",
            "max_val",
            "enumvals",
            "boot_val",
            "reset_val",
            "pending_restart",
        ],
        rows,
    )
}

fn setting_row(context: &Context<'_>, definition: &Definition) -> [Datum<'static>; 14] {
    let current = context.session.settings.get(definition.name);
    let changed = current.as_deref().is_some_and(|current| current != definition.default);
    let mut bounds = (Datum::Null, Datum::Null);
    let mut words = Datum::Null;
    let (vartype, unit) = match &definition.kind {
        Kind::Bool => ("bool", None),
        Kind::Int(min, max) => {
            bounds = (text(min.to_string()), text(max.to_string()));
            ("integer", None)
        }
        Kind::Real(min, max) => {
            bounds = (text(min.to_string()), text(max.to_string()));
            ("real", None)
        }
        Kind::Milliseconds => ("integer", Some("ms")),
        Kind::Bytes => ("integer", Some("B")),
        Kind::Enum(values) | Kind::Only(values) => {
            words = super::texts(values.iter().map(|value| (*value).to_owned()));
            ("enum", None)
        }
        _ => ("string", None),
    };
    [
        text(definition.name),
        text(current.unwrap_or_else(|| definition.default.to_owned())),
        maybe(unit, text),
        text(if definition.level == Level::System { "System parameters" } else { "Session parameters" }),
        text(definition.description),
        text(match definition.level {
            _ if definition.read_only() => "internal",
            Level::System => "sighup",
            _ => "user",
        }),
        text(vartype),
        text(if changed { "session" } else { "default" }),
        bounds.0,
        bounds.1,
        words,
        text(definition.default),
        text(definition.default),
        Datum::Bool(false),
    ]
}

/// Users' tables and materialized views.
fn user_tables(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    counted(context, relation, ItemRef::is_stored)
}

/// The same and the tables of the system.
fn all_tables(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    counted(context, relation, |item| item.is_stored() || is_table(item))
}

/// Nothing is counted here, so the counters are NULL and not zero.
fn counted(
    context: &Context<'_>,
    relation: &SystemRelation,
    is_counted: impl Fn(&ItemRef) -> bool,
) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let rows = items
        .iter()
        .filter(|item| is_counted(item))
        .map(|item| [Datum::Oid(item.oid), text(&item.name.schema), text(&item.name.item)])
        .collect();
    relation.batch(["relid", "schemaname", "relname"], rows)
}
