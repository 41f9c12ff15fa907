//! Ids, names and privileges of catalog objects, and how a name in a statement becomes an object.
//!
//! A name has one to three parts (`item`, `schema.item`, `database.schema.item`). System schemas (`pg_catalog`,
//! `mz_catalog`, `information_schema` …) belong to no database: they are found under every database's name. An
//! unqualified name is looked up along the search path, with `pg_catalog`, `mz_catalog`, `mz_internal` and `mz_introspection` first
//! unless the path names them elsewhere: `mz_tables` needs no prefix, and nobody's table of that name is read by another in its place.
//!
//! # Invariants
//! - Names here are folded already: unquoted identifiers in lower case, quoted ones as written, 63 bytes at most.

use crate::error::SqlError;
use crate::plan::{CatalogView, ItemRef, SchemaRef};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use std::fmt;
use std::sync::Arc;

/// The longest identifier; a longer one is cut, as Postgres cuts it.
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// What the schema of a session's temporary tables is called in statements.
pub const TEMPORARY: &str = "pg_temp";

/// Schemas searched before the search path for unqualified names, each unless the path names it.
pub const IMPLICIT_FIRST: [&str; 4] = ["pg_catalog", "mz_catalog", "mz_internal", "mz_introspection"];

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id_type!(
    /// A database.
    DatabaseId
);
id_type!(
    /// A schema.
    SchemaId
);
id_type!(
    /// A cluster.
    ClusterId
);
id_type!(
    /// A role.
    RoleId
);

/// Anything that has an owner and privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// The system as a whole: CREATEROLE, CREATEDB and the like.
    System,
    /// A database.
    Database(DatabaseId),
    /// A schema.
    Schema(SchemaId),
    /// A cluster.
    Cluster(ClusterId),
    /// A role.
    Role(RoleId),
    /// A table, view, materialized view, index or sequence.
    Item(GlobalId),
}

/// What a role may do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants are the privileges' own names")]
pub enum Privilege {
    Select,
    Insert,
    Update,
    Delete,
    Truncate,
    References,
    Trigger,
    Usage,
    Create,
    Connect,
    Temporary,
    CreateRole,
    CreateDb,
    CreateCluster,
}

impl Privilege {
    /// The letter in an `aclitem`, as `pg_class.relacl` shows it.
    pub fn acl_char(self) -> char {
        match self {
            Privilege::Select => 'r',
            Privilege::Insert => 'a',
            Privilege::Update => 'w',
            Privilege::Delete => 'd',
            Privilege::Truncate => 'D',
            Privilege::References => 'x',
            Privilege::Trigger => 't',
            Privilege::Usage => 'U',
            Privilege::Create => 'C',
            Privilege::Connect => 'c',
            Privilege::Temporary => 'T',
            Privilege::CreateRole => 'R',
            Privilege::CreateDb => 'B',
            Privilege::CreateCluster => 'N',
        }
    }

    /// The name in GRANT.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::Select => "SELECT",
            Privilege::Insert => "INSERT",
            Privilege::Update => "UPDATE",
            Privilege::Delete => "DELETE",
            Privilege::Truncate => "TRUNCATE",
            Privilege::References => "REFERENCES",
            Privilege::Trigger => "TRIGGER",
            Privilege::Usage => "USAGE",
            Privilege::Create => "CREATE",
            Privilege::Connect => "CONNECT",
            Privilege::Temporary => "TEMPORARY",
            Privilege::CreateRole => "CREATEROLE",
            Privilege::CreateDb => "CREATEDB",
            Privilege::CreateCluster => "CREATECLUSTER",
        }
    }

    /// The privilege called `name` in GRANT, in any case.
    pub fn from_name(name: &str) -> Option<Privilege> {
        Some(match name.to_ascii_uppercase().as_str() {
            "SELECT" => Privilege::Select,
            "INSERT" => Privilege::Insert,
            "UPDATE" => Privilege::Update,
            "DELETE" => Privilege::Delete,
            "TRUNCATE" => Privilege::Truncate,
            "REFERENCES" => Privilege::References,
            "TRIGGER" => Privilege::Trigger,
            "USAGE" => Privilege::Usage,
            "CREATE" => Privilege::Create,
            "CONNECT" => Privilege::Connect,
            "TEMPORARY" | "TEMP" => Privilege::Temporary,
            "CREATEROLE" => Privilege::CreateRole,
            "CREATEDB" => Privilege::CreateDb,
            "CREATECLUSTER" => Privilege::CreateCluster,
            _ => return None,
        })
    }

    /// What ALL PRIVILEGES means for a column.
    pub const OF_COLUMN: [Privilege; 4] =
        [Privilege::Insert, Privilege::Select, Privilege::Update, Privilege::References];

    /// What ALL PRIVILEGES means for an object of this kind, in the order Postgres lists them.
    pub fn all_of(kind: ObjectKind) -> &'static [Privilege] {
        match kind {
            ObjectKind::Table | ObjectKind::View | ObjectKind::MaterializedView => &[
                Privilege::Insert,
                Privilege::Select,
                Privilege::Update,
                Privilege::Delete,
                Privilege::Truncate,
                Privilege::References,
                Privilege::Trigger,
            ],
            ObjectKind::Sequence => &[Privilege::Select, Privilege::Update, Privilege::Usage],
            ObjectKind::Database => &[Privilege::Create, Privilege::Temporary, Privilege::Connect],
            ObjectKind::Schema | ObjectKind::Cluster => &[Privilege::Usage, Privilege::Create],
            ObjectKind::System => &[Privilege::CreateRole, Privilege::CreateDb, Privilege::CreateCluster],
            ObjectKind::Index | ObjectKind::Role => &[],
        }
    }
}

/// The kinds of objects a statement can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the kinds' own names")]
pub enum ObjectKind {
    Table,
    View,
    MaterializedView,
    Index,
    Sequence,
    Schema,
    Database,
    Cluster,
    Role,
    System,
}

impl ObjectKind {
    /// Whether Postgres calls it a relation: it shares the names of its schema with tables.
    pub fn is_relation(self) -> bool {
        matches!(
            self,
            ObjectKind::Table
                | ObjectKind::View
                | ObjectKind::MaterializedView
                | ObjectKind::Index
                | ObjectKind::Sequence
        )
    }

    /// The command tag of ALTER.
    pub fn alter_tag(self) -> &'static str {
        match self {
            ObjectKind::Table => "ALTER TABLE",
            ObjectKind::View => "ALTER VIEW",
            ObjectKind::MaterializedView => "ALTER MATERIALIZED VIEW",
            ObjectKind::Index => "ALTER INDEX",
            ObjectKind::Sequence => "ALTER SEQUENCE",
            ObjectKind::Schema => "ALTER SCHEMA",
            ObjectKind::Database => "ALTER DATABASE",
            ObjectKind::Cluster => "ALTER CLUSTER",
            ObjectKind::Role | ObjectKind::System => "ALTER ROLE",
        }
    }

    /// The command tag of DROP.
    pub fn drop_tag(self) -> &'static str {
        match self {
            ObjectKind::Table => "DROP TABLE",
            ObjectKind::View => "DROP VIEW",
            ObjectKind::MaterializedView => "DROP MATERIALIZED VIEW",
            ObjectKind::Index => "DROP INDEX",
            ObjectKind::Sequence => "DROP SEQUENCE",
            ObjectKind::Schema => "DROP SCHEMA",
            ObjectKind::Database => "DROP DATABASE",
            ObjectKind::Cluster => "DROP CLUSTER",
            ObjectKind::Role | ObjectKind::System => "DROP ROLE",
        }
    }
}

impl fmt::Display for ObjectKind {
    /// The word Postgres uses in messages and command tags in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::MaterializedView => "materialized view",
            ObjectKind::Index => "index",
            ObjectKind::Sequence => "sequence",
            ObjectKind::Schema => "schema",
            ObjectKind::Database => "database",
            ObjectKind::Cluster => "cluster",
            ObjectKind::Role => "role",
            ObjectKind::System => "system",
        })
    }
}

/// A name as a statement writes it: one to three folded parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The parts, from the outermost to the item.
    pub parts: Vec<String>,
}

impl Name {
    /// A name without qualification.
    pub fn bare(name: impl Into<String>) -> Name {
        Name { parts: vec![name.into()] }
    }

    /// The last part.
    pub fn item(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }
}

impl fmt::Display for Name {
    /// The parts joined by dots and not quoted, as Postgres prints names in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("."))
    }
}

/// Where an object is: the full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FullName {
    /// The database; `None` for what is in a system schema.
    pub database: Option<String>,
    /// The schema.
    pub schema: String,
    /// The object itself.
    pub item: String,
}

impl fmt::Display for FullName {
    /// Quoted where needed, so that it can be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = &self.database {
            write!(f, "{}.", quote_ident(database))?;
        }
        write!(f, "{}.{}", quote_ident(&self.schema), quote_ident(&self.item))
    }
}

/// Quotes an identifier unless it reads back as itself without quotes.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !crate::parser::needs_quotes(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Quotes a string as an SQL literal.
pub fn quote_literal(text: &str) -> String {
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// Cuts an identifier at Postgres's limit, on a character boundary.
pub fn truncate_identifier(mut name: String) -> String {
    if name.len() > IDENTIFIER_BYTES_MAX {
        let mut end = IDENTIFIER_BYTES_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
    name
}

/// In which database and schemas names are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The current database.
    pub database: &'a str,
    /// The search path as set; `$user` stands for the role's name.
    pub search_path: &'a [String],
    /// The role's name, for `$user`.
    pub user: &'a str,
    /// The schema of the session's temporary tables, if it has made any: `pg_temp`.
    pub temporary: Option<&'a str>,
}

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
