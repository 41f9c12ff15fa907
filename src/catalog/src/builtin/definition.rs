//! The definitions of views and indexes as SQL text.

use sql::names::{ClusterId, FullName, quote_ident};
use sql::plan::{CatalogView, IndexDef, ItemKind, ItemRef, ViewDef};

/// `CREATE INDEX i ON s.t USING btree (k)`, as `pg_get_indexdef` prints it. Tools look for `USING`; that indexes are
/// ordered by their key is all that the access method's name promises.
pub fn index(catalog: &dyn CatalogView, item: &ItemRef, index: &IndexDef) -> String {
    let on = catalog.item(index.on);
    let on = on.as_ref().map(|on| within_database(&on.name)).unwrap_or_default();
    format!("CREATE INDEX {} ON {on} USING btree ({})", quote_ident(&item.name.item), keys(catalog, index).join(", "))
}

/// The statement that creates the index here, cluster included.
pub fn create_index(catalog: &dyn CatalogView, item: &ItemRef, index: &IndexDef) -> String {
    let on = catalog.item(index.on).map(|on| on.name.to_string()).unwrap_or_default();
    let cluster = cluster_name(catalog, index.cluster);
    format!(
        "CREATE INDEX {} IN CLUSTER {cluster} ON {on} ({})",
        quote_ident(&item.name.item),
        keys(catalog, index).join(", ")
    )
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

/// A view's query as `pg_get_viewdef` prints it.
pub fn view(view: &ViewDef) -> String {
    format!(" {};", query(view))
}

fn query(view: &ViewDef) -> &str {
    view.query.trim().trim_end_matches(';')
}

fn cluster_name(catalog: &dyn CatalogView, cluster: ClusterId) -> String {
    catalog.cluster(cluster).map(|cluster| quote_ident(&cluster.name)).unwrap_or_default()
}

/// The statement that creates the item; `None` for what the system ships with.
pub fn create_sql(catalog: &dyn CatalogView, item: &ItemRef) -> Option<String> {
    match &item.kind {
        ItemKind::SystemTable => None,
        ItemKind::View(view) => Some(format!("CREATE VIEW {} AS {}", item.name, query(view))),
        ItemKind::MaterializedView(materialized) => {
            let cluster = cluster_name(catalog, materialized.cluster);
            let query = query(&materialized.view);
            Some(format!("CREATE MATERIALIZED VIEW {} IN CLUSTER {cluster} AS {query}", item.name))
        }
        ItemKind::Index(index) => Some(create_index(catalog, item, index)),
        ItemKind::Table { defaults } => {
            let columns: Vec<String> = item
                .desc
                .columns
                .iter()
                .enumerate()
                .map(|(i, column)| {
                    let mut sql = format!("{} {}", quote_ident(&column.name), column.ty);
                    if !column.nullable {
                        sql.push_str(" NOT NULL");
                    }
                    if let Some(Some(default)) = defaults.get(i) {
                        sql.push_str(" DEFAULT ");
                        sql.push_str(default);
                    }
                    sql
                })
                .collect();
            Some(format!("CREATE TABLE {} ({})", item.name, columns.join(", ")))
        }
    }
}

/// `schema.item`, quoted.
pub fn within_database(name: &FullName) -> String {
    format!("{}.{}", quote_ident(&name.schema), quote_ident(&name.item))
}
