//! Ids and privileges of catalog objects, and where a statement looks names up.

use repr::GlobalId;
use std::fmt;

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
            ObjectKind::Table
            | ObjectKind::View
            | ObjectKind::MaterializedView
            | ObjectKind::Source
            | ObjectKind::Cube => &[
                Privilege::Insert,
                Privilege::Select,
                Privilege::Update,
                Privilege::Delete,
                Privilege::Truncate,
                Privilege::References,
                Privilege::Trigger,
            ],
            ObjectKind::Sequence => &[Privilege::Select, Privilege::Update, Privilege::Usage],
            ObjectKind::Secret => &[Privilege::Usage],
            ObjectKind::Database => &[Privilege::Create, Privilege::Temporary, Privilege::Connect],
            ObjectKind::Schema | ObjectKind::Cluster => &[Privilege::Usage, Privilege::Create],
            ObjectKind::System => &[Privilege::CreateRole, Privilege::CreateDb, Privilege::CreateCluster],
            ObjectKind::Index | ObjectKind::Role | ObjectKind::SemanticModel => &[],
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
    Source,
    Secret,
    SemanticModel,
    Cube,
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
                | ObjectKind::Source
                | ObjectKind::Cube
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
            ObjectKind::Source => "ALTER SOURCE",
            ObjectKind::Secret => "ALTER SECRET",
            ObjectKind::SemanticModel => "ALTER SEMANTIC MODEL",
            ObjectKind::Cube => "ALTER CUBE",
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
            ObjectKind::Source => "DROP SOURCE",
            ObjectKind::Secret => "DROP SECRET",
            ObjectKind::SemanticModel => "DROP SEMANTIC MODEL",
            ObjectKind::Cube => "DROP CUBE",
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
            ObjectKind::Source => "source",
            ObjectKind::Secret => "secret",
            ObjectKind::SemanticModel => "semantic model",
            ObjectKind::Cube => "cube",
            ObjectKind::Schema => "schema",
            ObjectKind::Database => "database",
            ObjectKind::Cluster => "cluster",
            ObjectKind::Role => "role",
            ObjectKind::System => "system",
        })
    }
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
