//! The definitions of tables, views and indexes as SQL text.

mod present;

use super::ddl::model_sql;
use super::webhook::webhook_sql;
use super::{CatalogView, ConstraintDef, IndexDef, IndexKeyDef, ItemKind, ItemRef, sequence};
use crate::sequence::SequenceDef;
use engine::names::ClusterId;
use sql_syntax::names::{FullName, quote_ident};
use std::sync::Arc;

/// `CREATE INDEX i ON s.t USING btree (k)`, as `pg_get_indexdef` prints it. Tools look for `USING`; that indexes are
/// ordered by their key is all that the access method's name promises.
pub fn index(catalog: &dyn CatalogView, item: &ItemRef, index: &IndexDef) -> String {
    let on = catalog.item(index.on);
    let on = on.as_ref().map(|on| within_database(&on.name)).unwrap_or_default();
    let (create, name) = (create_index(index), quote_ident(&item.name.item));
    format!("{create} {name} ON {on} USING btree ({})", declared_keys(catalog, index))
}

fn create_index(index: &IndexDef) -> &'static str {
    if index.unique { "CREATE UNIQUE INDEX" } else { "CREATE INDEX" }
}

/// The key's expressions: column names, and other expressions in parentheses.
pub fn keys(catalog: &dyn CatalogView, index: &IndexDef) -> Vec<String> {
    let on = catalog.item(index.on);
    index
        .keys
        .iter()
        .map(|key| {
            let column = key.column.and_then(|column| on.as_ref()?.desc.columns.get(column).map(|c| c.name.clone()));
            column.map_or_else(|| format!("({})", key.sql), |name| quote_ident(&name))
        })
        .collect()
}

/// The same with what was said beside each expression.
fn declared_keys(catalog: &dyn CatalogView, index: &IndexDef) -> String {
    let declared = keys(catalog, index).into_iter().zip(&index.keys).map(|(mut sql, IndexKeyDef { options, .. })| {
        if let Some(class) = &options.class {
            sql.push(' ');
            sql.push_str(class);
        }
        sql.push_str(match (options.descending, options.nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        });
        sql
    });
    declared.collect::<Vec<_>>().join(", ")
}

/// The query of a view, materialized or not, as `pg_get_viewdef` prints it; `None` for what is no view.
pub fn view(catalog: &dyn CatalogView, item: &ItemRef) -> Option<String> {
    item.view().map(|view| format!(" {};", present::query(catalog, &item.name, view)))
}

/// The statement that creates the item, cluster included; `None` for what the system ships with.
pub fn create_sql(catalog: &dyn CatalogView, item: &ItemRef) -> Option<String> {
    Some(match &item.kind {
        ItemKind::SystemTable => return None,
        // Its value is not shown.
        ItemKind::Secret(_) => return None,
        // It comes with its model.
        ItemKind::Cube(_) => return None,
        ItemKind::SemanticModel(model) => format!("CREATE SEMANTIC MODEL {} {}", item.name, model_sql(model)),
        ItemKind::Table { webhook: Some(webhook), .. } => {
            format!("CREATE SOURCE {} {}", item.name, webhook_sql(catalog, webhook))
        }
        ItemKind::View(view) => {
            format!("CREATE VIEW {} AS {}", item.name, present::query(catalog, &item.name, view))
        }
        ItemKind::MaterializedView(materialized) => {
            let cluster = cluster_name(catalog, materialized.cluster);
            let query = present::query(catalog, &item.name, &materialized.view);
            format!("CREATE MATERIALIZED VIEW {} IN CLUSTER {cluster} AS {query}", item.name)
        }
        ItemKind::Index(index) => {
            let on = catalog.item(index.on)?;
            let name = quote_ident(&item.name.item);
            if let Some(key) = on.constraints().iter().find(|constraint| Some(constraint.oid) == index.constraint) {
                return Some(format!(
                    "ALTER TABLE {} ADD CONSTRAINT {name} {}",
                    on.name,
                    key.definition(catalog, &on, |table| table.name.to_string())
                ));
            }
            let cluster = index.cluster.map(|cluster| cluster_name(catalog, cluster)).unwrap_or_default();
            let (create, keys) = (create_index(index), declared_keys(catalog, index));
            format!("{create} {name} IN CLUSTER {cluster} ON {} ({keys})", on.name)
        }
        ItemKind::Sequence(SequenceDef { params, .. }) => format!("CREATE SEQUENCE {} {}", item.name, params.sql()),
        ItemKind::Table { defaults, constraints, key_index, webhook: None } => {
            let name_of = |oid| item_with_oid(catalog, oid).map(|sequence| sequence.name.to_string());
            let column = |(i, column): (usize, &repr::ColumnDesc)| {
                let mut sql = format!("{} {}", quote_ident(&column.name), column.ty);
                if !column.nullable {
                    sql.push_str(" NOT NULL");
                }
                match (sequence::identity(catalog, item.id, i), defaults.get(i)) {
                    (Some(identity), _) => {
                        sql.push(' ');
                        sql.push_str(identity.sql());
                    }
                    (None, Some(Some(default))) => {
                        sql.push_str(" DEFAULT ");
                        sql.push_str(&sequence::shown(default, name_of));
                    }
                    _ => {}
                }
                sql
            };
            let constraint = |constraint: &ConstraintDef| {
                format!(
                    "CONSTRAINT {} {}",
                    quote_ident(&constraint.name),
                    constraint.definition(catalog, item, |table| table.name.to_string())
                )
            };
            let columns = item.desc.columns.iter().enumerate().map(column);
            let elements: Vec<String> = columns.chain(constraints.iter().map(constraint)).collect();
            let storage = if *key_index { "" } else { " WITH (KEY INDEX = off)" };
            format!("CREATE TABLE {} ({}){storage}", item.name, elements.join(", "))
        }
    })
}

/// `schema.item`, quoted.
pub fn within_database(name: &FullName) -> String {
    format!("{}.{}", quote_ident(&name.schema), quote_ident(&name.item))
}

/// The item of a user with this oid.
fn item_with_oid(catalog: &dyn CatalogView, oid: u32) -> Option<Arc<ItemRef>> {
    let schemas = catalog.databases().into_iter().flat_map(|database| catalog.schemas(Some(database.id)));
    schemas.flat_map(|schema| catalog.items(schema.id)).find(|item| item.oid == oid)
}

fn cluster_name(catalog: &dyn CatalogView, cluster: ClusterId) -> String {
    catalog.cluster(cluster).map(|cluster| quote_ident(&cluster.name)).unwrap_or_default()
}
