//! How a name in a statement becomes an object of the catalog.
//!
//! A name has one to three parts (`item`, `schema.item`, `database.schema.item`). System schemas (`pg_catalog`,
//! `mz_catalog`, `information_schema` …) belong to no database: they are found under every database's name. An
//! unqualified name is looked up along the search path, with `pg_catalog`, `mz_catalog`, `mz_internal` and `mz_introspection` first
//! unless the path names them elsewhere: `mz_tables` needs no prefix, and nobody's table of that name is read by another in its place.

use crate::catalog::{CatalogView, ItemKind, ItemRef, SchemaRef};
use engine::error::SqlError;
use engine::names::Scope;
use repr::sqlstate::SqlState;
use sql_syntax::names::Name;
use std::sync::Arc;

/// What the schema of a session's temporary tables is called in statements.
pub const TEMPORARY: &str = "pg_temp";

/// Schemas searched before the search path for unqualified names, each unless the path names it.
pub const IMPLICIT_FIRST: [&str; 4] = ["pg_catalog", "mz_catalog", "mz_internal", "mz_introspection"];

/// What a session's schema for temporary tables is called in the catalog.
pub fn temporary_schema(backend_pid: u32) -> String {
    format!("{TEMPORARY}_{backend_pid}")
}

/// Whether a schema is one of a session's temporary tables.
pub fn is_temporary(schema: &str) -> bool {
    schema.strip_prefix(TEMPORARY).is_some_and(|rest| rest.starts_with('_'))
}

/// The schemas of the search path that exist, in the order in which unqualified names are looked up: [`IMPLICIT_FIRST`] unless the
/// path names them, and the session's temporary tables before.
pub fn effective_search_path(catalog: &dyn CatalogView, scope: Scope<'_>) -> Vec<Arc<SchemaRef>> {
    let database = catalog.database_by_name(scope.database);
    let mut path = Vec::with_capacity(scope.search_path.len() + 2);
    let own = |name: &str| catalog.schema_by_name(Some(database.as_ref()?.id), name);
    if !scope.search_path.iter().any(|name| name == TEMPORARY) {
        path.extend(scope.temporary.and_then(own));
    }
    let first = IMPLICIT_FIRST.iter().filter(|first| !scope.search_path.iter().any(|name| name == *first));
    path.extend(first.filter_map(|name| catalog.schema_by_name(None, name)));
    for name in scope.search_path {
        let name = match name.as_str() {
            "$user" => scope.user,
            TEMPORARY => scope.temporary.unwrap_or(TEMPORARY),
            name => name,
        };
        path.extend(catalog.schema_by_name(None, name).or_else(|| own(name)));
    }
    path
}

/// Finds the item called `name`; `Ok(None)` when every qualification exists but the item does not.
///
/// Errors: a database other than an existing one (3D000). A missing schema is `Ok(None)`: Postgres reports the
/// relation as missing then.
pub fn resolve_item(
    catalog: &dyn CatalogView,
    scope: Scope<'_>,
    name: &Name,
) -> Result<Option<Arc<ItemRef>>, SqlError> {
    match name.parts.as_slice() {
        [item] => {
            let path = effective_search_path(catalog, scope);
            Ok(path.iter().find_map(|schema| catalog.item_by_name(schema.id, item)))
        }
        [schema, item] => {
            let schema = find_schema(catalog, scope, scope.database, schema);
            Ok(schema.and_then(|schema| catalog.item_by_name(schema.id, item)))
        }
        [database, schema, item] => {
            if catalog.database_by_name(database).is_none() {
                return Err(unknown_database(database));
            }
            let schema = find_schema(catalog, scope, database, schema);
            Ok(schema.and_then(|schema| catalog.item_by_name(schema.id, item)))
        }
        _ => Err(too_many_parts(name)),
    }
}

/// The first cube of this name on the search path: who asks for cubes means no table beside them.
pub fn resolve_cube(catalog: &dyn CatalogView, scope: Scope<'_>, name: &str) -> Option<Arc<ItemRef>> {
    let path = effective_search_path(catalog, scope);
    let mut items = path.iter().filter_map(|schema| catalog.item_by_name(schema.id, name));
    items.find(|item| matches!(item.kind, ItemKind::Cube(_)))
}

/// Finds the schema called `name` (`schema` or `database.schema`). Errors: 3F000, 3D000.
pub fn resolve_schema(catalog: &dyn CatalogView, scope: Scope<'_>, name: &Name) -> Result<Arc<SchemaRef>, SqlError> {
    let (database, schema) = match name.parts.as_slice() {
        [schema] => (scope.database, schema),
        [database, schema] => (database.as_str(), schema),
        _ => return Err(too_many_parts(name)),
    };
    if name.parts.len() == 2 && catalog.database_by_name(database).is_none() {
        return Err(unknown_database(database));
    }
    find_schema(catalog, scope, database, schema).ok_or_else(|| unknown_schema(schema))
}

/// The schema in which an object called `name` would be created, and the object's own name.
///
/// Unqualified names go to the first schema of the search path that exists and is neither a system schema nor temporary.
pub fn resolve_new_item(
    catalog: &dyn CatalogView,
    scope: Scope<'_>,
    name: &Name,
) -> Result<(Arc<SchemaRef>, String), SqlError> {
    match name.parts.as_slice() {
        [item] => effective_search_path(catalog, scope)
            .into_iter()
            .find(|schema| schema.database.is_some() && !is_temporary(&schema.name))
            .map(|schema| (schema, item.clone()))
            .ok_or_else(|| SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")),
        [qualification @ .., item] => {
            let schema = Name { parts: qualification.to_vec() };
            Ok((resolve_schema(catalog, scope, &schema)?, item.clone()))
        }
        [] => Err(too_many_parts(name)),
    }
}

fn find_schema(catalog: &dyn CatalogView, scope: Scope<'_>, database: &str, schema: &str) -> Option<Arc<SchemaRef>> {
    let schema = if schema == TEMPORARY { scope.temporary? } else { schema };
    catalog.schema_by_name(None, schema).or_else(|| {
        let database = catalog.database_by_name(database)?;
        catalog.schema_by_name(Some(database.id), schema)
    })
}

/// `relation "x" does not exist`.
pub fn unknown_relation(name: &Name) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// `database "x" does not exist`.
pub fn unknown_database(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}

/// `schema "x" does not exist`.
pub fn unknown_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// `role "x" does not exist`.
pub fn unknown_role(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// `unknown cluster 'x'`.
pub fn unknown_cluster(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unknown cluster '{name}'"))
}

fn too_many_parts(name: &Name) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("improper qualified name (too many dotted names): {name}"))
}
