//! What every catalog has without its being stored: the system's schemas ([`crate::builtin`] has the relations), and the numbers of those roles
//! and schemas that the rest of the code knows by number.
//!
//! # Invariants
//! - Ids and oids here are fixed for ever: clients and stored privileges refer to them.

use engine::names::{ClusterId, RoleId, SchemaId};
use repr::{GlobalId, RelationDesc};
use std::sync::Arc;

/// The role that owns what the system ships with. Logs in on the internal port.
pub const MZ_SYSTEM: RoleId = RoleId(1);
/// Its name.
pub const MZ_SYSTEM_NAME: &str = "mz_system";
/// Its oid: Postgres's first superuser has this one.
pub const MZ_SYSTEM_OID: u32 = 10;

/// The cluster of one worker that maintains the indexes of keys, and nothing else: what users maintain neither delays nor stops them.
pub const SYSTEM_CLUSTER: ClusterId = sql::plan::SYSTEM_CLUSTER;
/// Its name.
pub const SYSTEM_CLUSTER_NAME: &str = "mz_system";

/// The schema of Postgres's own catalog.
pub const PG_CATALOG: SchemaId = SchemaId(1);
/// The standard's catalog.
pub const INFORMATION_SCHEMA: SchemaId = SchemaId(2);
/// Our own catalog, for users.
pub const MZ_CATALOG: SchemaId = SchemaId(3);
/// Our own catalog, for ourselves: may change in any version.
pub const MZ_INTERNAL: SchemaId = SchemaId(4);
/// What maintenance costs.
pub const MZ_INTROSPECTION: SchemaId = SchemaId(5);

/// The oid of the first database's `public`, as in Postgres.
pub const PUBLIC_OID: u32 = 2200;

/// The system's schemas: id, oid, name.
pub const SYSTEM_SCHEMAS: [(SchemaId, u32, &str); 5] = [
    (PG_CATALOG, 11, "pg_catalog"),
    (INFORMATION_SCHEMA, 13_000, "information_schema"),
    (MZ_CATALOG, 13_001, "mz_catalog"),
    (MZ_INTERNAL, 13_002, "mz_internal"),
    (MZ_INTROSPECTION, 13_003, "mz_introspection"),
];

/// Whether a schema is one of these.
pub fn is_system_schema(id: SchemaId) -> bool {
    SYSTEM_SCHEMAS.iter().any(|(system, _, _)| *system == id)
}

/// A relation of the system.
#[derive(Clone, Debug)]
pub struct SystemTableDef {
    /// Its id, a [`GlobalId::System`].
    pub id: GlobalId,
    /// Its oid.
    pub oid: u32,
    /// Its schema, one of the above.
    pub schema: SchemaId,
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
}
