//! SHOW of objects: a query over rows that are written out from the catalog.
//!
//! The plan is as constant as the catalog at one revision, and is valid as long as any plan is. Going through a query
//! gives LIKE and WHERE, and the result's types, for nothing.

use super::definition::create_sql;
use super::{ItemKind, ItemRef, Plan, PlanContext, query};
use crate::bind::Params;
use crate::names::{resolve_item, resolve_schema, unknown_cluster, unknown_database, unknown_relation};
use engine::error::SqlError;
use engine::names::{ClusterId, ObjectId, ObjectKind};
use repr::sqlstate::SqlState;
use sql_syntax::ast::{ShowFilter, ShowKind, ShowObjects};
use sql_syntax::names::{Name, quote_literal};
use std::sync::Arc;

/// The rows of a SHOW: text columns, some nullable, and how to order them.
struct Listing {
    columns: &'static [&'static str],
    rows: Vec<Vec<Option<String>>>,
    order_by: &'static str,
}

pub(super) fn plan_show_objects(
    ctx: &PlanContext<'_>,
    show: &ShowObjects,
    params: &mut Params,
) -> Result<Plan, SqlError> {
    let listing = match show.kind {
        ShowKind::Tables => items(ctx, show, &[ObjectKind::Table])?,
        ShowKind::Views => items(ctx, show, &[ObjectKind::View])?,
        ShowKind::MaterializedViews => materialized_views(ctx, show)?,
        ShowKind::Sources => items(ctx, show, &[ObjectKind::Source])?,
        ShowKind::Secrets => items(ctx, show, &[ObjectKind::Secret])?,
        ShowKind::SemanticModels => items(ctx, show, &[ObjectKind::SemanticModel])?,
        ShowKind::Objects => {
            use ObjectKind::{Cube, Index, MaterializedView, Secret, SemanticModel, Source, Table, View};
            items(ctx, show, &[Table, View, MaterializedView, Index, Source, Secret, SemanticModel, Cube])?
        }
        ShowKind::Indexes => indexes(ctx, show)?,
        ShowKind::Columns => columns(ctx, show)?,
        ShowKind::Schemas => schemas(ctx, show)?,
        ShowKind::Databases => Listing {
            columns: &["name", "comment"],
            rows: ctx.catalog.databases().iter().map(|d| named(ctx, &d.name, ObjectId::Database(d.id))).collect(),
            order_by: "name",
        },
        ShowKind::Roles => Listing {
            columns: &["name", "comment"],
            rows: ctx.catalog.roles().iter().map(|role| named(ctx, &role.name, ObjectId::Role(role.id))).collect(),
            order_by: "name",
        },
        ShowKind::Clusters => Listing {
            columns: &["name", "size", "workers", "comment"],
            rows: ctx
                .catalog
                .clusters()
                .iter()
                .map(|cluster| {
                    let workers = Some(cluster.workers.to_string());
                    let comment = comment(ctx, ObjectId::Cluster(cluster.id), None);
                    vec![Some(cluster.name.clone()), Some(cluster.size.clone()), workers, comment]
                })
                .collect(),
            order_by: "name",
        },
    };
    let filter = show.filter.as_ref().map(|filter| match filter {
        ShowFilter::Like(pattern) => format!("name LIKE {}", quote_literal(pattern)),
        ShowFilter::Where(expr) => expr.to_string(),
    });
    let query = sql_syntax::parser::parse_query(&listing.sql(filter.as_deref()))?;
    Ok(Plan::Select(query::plan_select(ctx, &query, params)?))
}

pub(super) fn plan_show_create(
    ctx: &PlanContext<'_>,
    kind: ObjectKind,
    name: &Name,
    params: &mut Params,
) -> Result<Plan, SqlError> {
    let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
    if item.object_kind() != kind {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not a {kind}", item.name)));
    }
    if kind == ObjectKind::SemanticModel {
        // It says who sees what, and what of.
        super::ddl::check_owner_of(ctx, &item)?;
    }
    let sql = create_sql(ctx.catalog, &item).ok_or_else(|| {
        SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("{} is a system relation", item.name))
    })?;
    let listing = Listing {
        columns: &["name", "create_sql"],
        rows: vec![vec![Some(item.name.to_string()), Some(sql)]],
        order_by: "name",
    };
    let query = sql_syntax::parser::parse_query(&listing.sql(None))?;
    Ok(Plan::Select(query::plan_select(ctx, &query, params)?))
}

fn named(ctx: &PlanContext<'_>, name: &str, object: ObjectId) -> Vec<Option<String>> {
    vec![Some(name.to_owned()), comment(ctx, object, None)]
}

/// The comment on an object or a column of it, empty if there is none.
fn comment(ctx: &PlanContext<'_>, object: ObjectId, column: Option<usize>) -> Option<String> {
    Some(ctx.catalog.comment(object, column).unwrap_or_default())
}

/// The items of a schema, or of the first schema of the search path that belongs to a database.
fn items(ctx: &PlanContext<'_>, show: &ShowObjects, kinds: &[ObjectKind]) -> Result<Listing, SqlError> {
    let mut rows = Vec::new();
    for item in scope_items(ctx, show.from.as_ref())? {
        let kind = item.object_kind();
        if !kinds.contains(&kind) {
            continue;
        }
        let (name, comment) = (Some(item.name.item.clone()), comment(ctx, ObjectId::Item(item.id), None));
        rows.push(match kinds {
            [_] => vec![name, comment],
            _ => vec![name, Some(kind.to_string().replace(' ', "-")), comment],
        });
    }
    let columns: &[&str] = if kinds.len() == 1 { &["name", "comment"] } else { &["name", "type", "comment"] };
    Ok(Listing { columns, rows, order_by: "name" })
}

fn scope_items(ctx: &PlanContext<'_>, from: Option<&Name>) -> Result<Vec<Arc<ItemRef>>, SqlError> {
    let schema = match from {
        Some(name) => resolve_schema(ctx.catalog, ctx.scope(), name)?,
        None => crate::names::effective_search_path(ctx.catalog, ctx.scope())
            .into_iter()
            .find(|schema| schema.database.is_some())
            .ok_or_else(|| SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected"))?,
    };
    Ok(ctx.catalog.items(schema.id))
}

/// IN CLUSTER. Errors: 42704.
fn wanted_cluster(ctx: &PlanContext<'_>, show: &ShowObjects) -> Result<Option<ClusterId>, SqlError> {
    match &show.cluster {
        Some(name) => Ok(Some(ctx.catalog.cluster_by_name(name).ok_or_else(|| unknown_cluster(name))?.id)),
        None => Ok(None),
    }
}

fn materialized_views(ctx: &PlanContext<'_>, show: &ShowObjects) -> Result<Listing, SqlError> {
    let wanted = wanted_cluster(ctx, show)?;
    let rows = scope_items(ctx, show.from.as_ref())?
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::MaterializedView(view) if wanted.is_none_or(|wanted| wanted == view.cluster) => {
                let cluster = ctx.catalog.cluster(view.cluster).map(|cluster| cluster.name.clone());
                Some(vec![Some(item.name.item.clone()), cluster, comment(ctx, ObjectId::Item(item.id), None)])
            }
            _ => None,
        })
        .collect();
    Ok(Listing { columns: &["name", "cluster", "comment"], rows, order_by: "name" })
}

fn indexes(ctx: &PlanContext<'_>, show: &ShowObjects) -> Result<Listing, SqlError> {
    let wanted = wanted_cluster(ctx, show)?;
    let candidates = match &show.on {
        Some(name) => {
            let on = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
            ctx.catalog.indexes_on(on.id)
        }
        None => scope_items(ctx, show.from.as_ref())?,
    };
    let mut rows = Vec::new();
    for item in candidates {
        let ItemKind::Index(index) = &item.kind else { continue };
        if wanted.is_some() && wanted != index.cluster {
            continue;
        }
        let keys: Vec<&str> = index.keys.iter().map(|key| key.sql.as_str()).collect();
        rows.push(vec![
            Some(item.name.item.clone()),
            ctx.catalog.item(index.on).map(|on| on.name.item.clone()),
            index.cluster.and_then(|id| ctx.catalog.cluster(id)).map(|cluster| cluster.name.clone()),
            Some(format!("{{{}}}", keys.join(","))),
            comment(ctx, ObjectId::Item(item.id), None),
        ]);
    }
    Ok(Listing { columns: &["name", "on", "cluster", "key", "comment"], rows, order_by: "name" })
}

fn columns(ctx: &PlanContext<'_>, show: &ShowObjects) -> Result<Listing, SqlError> {
    let Some(name) = &show.on else { return Err(SqlError::internal("SHOW COLUMNS without a relation was parsed")) };
    let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
    let rows = item
        .desc
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            vec![
                Some(column.name.clone()),
                Some(if column.nullable { "t" } else { "f" }.to_owned()),
                Some(column.ty.to_string()),
                comment(ctx, ObjectId::Item(item.id), Some(index)),
                // Keeps the table's order; cut off by the outer query.
                Some(format!("{index:05}")),
            ]
        })
        .collect();
    Ok(Listing { columns: &["name", "nullable", "type", "comment", "?position"], rows, order_by: "?position" })
}

fn schemas(ctx: &PlanContext<'_>, show: &ShowObjects) -> Result<Listing, SqlError> {
    let database = match &show.from {
        Some(name) => name.item(),
        None => &ctx.session.database,
    };
    let found = ctx.catalog.database_by_name(database).ok_or_else(|| unknown_database(database))?;
    let mut schemas = ctx.catalog.schemas(Some(found.id));
    schemas.extend(ctx.catalog.schemas(None));
    Ok(Listing {
        columns: &["name", "comment"],
        rows: schemas.iter().map(|schema| named(ctx, &schema.name, ObjectId::Schema(schema.id))).collect(),
        order_by: "name",
    })
}

impl Listing {
    /// `SELECT … FROM (VALUES …) AS o(…) WHERE … ORDER BY …`; columns whose name starts with `?` are only for ordering.
    fn sql(&self, filter: Option<&str>) -> String {
        let literal = |value: &Option<String>| match value {
            Some(text) => format!("{}::text", quote_literal(text)),
            None => "NULL::text".to_owned(),
        };
        // VALUES needs a row; one of NULLs that the filter drops keeps the types.
        let empty = vec![None; self.columns.len()];
        let rows = if self.rows.is_empty() { std::slice::from_ref(&empty) } else { self.rows.as_slice() };
        let rows: Vec<String> =
            rows.iter().map(|row| format!("({})", row.iter().map(literal).collect::<Vec<_>>().join(", "))).collect();
        let quoted = |name: &&str| format!("\"{name}\"");
        let all: Vec<String> = self.columns.iter().map(quoted).collect();
        let shown: Vec<String> = self.columns.iter().filter(|name| !name.starts_with('?')).map(quoted).collect();
        let mut sql = format!(
            "SELECT {} FROM (VALUES {}) AS objects({}) WHERE \"{}\" IS NOT NULL",
            shown.join(", "),
            rows.join(", "),
            all.join(", "),
            self.columns[0],
        );
        if let Some(filter) = filter {
            sql.push_str(&format!(" AND ({filter})"));
        }
        sql.push_str(&format!(" ORDER BY \"{}\"", self.order_by));
        sql
    }
}
