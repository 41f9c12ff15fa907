//! What the catalog keeps beyond the objects themselves: who may do what, who belongs to whom, and how things are called
//! in messages.

use engine::names::{ObjectId, ObjectKind, Privilege, RoleId};
use repr::GlobalId;
use sql::plan::Grantee;
use std::collections::BTreeSet;

/// One privilege on one object, or on a column of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclItem {
    /// The column's position, if it is on one.
    pub column: Option<usize>,
    /// Who has it.
    pub grantee: Grantee,
    /// What they may do.
    pub privilege: Privilege,
    /// In whose name it was granted: the object's owner, or the system where there is none.
    pub grantor: RoleId,
}

/// What is granted on objects of one scope when they are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultAcl {
    /// Its oid, as `pg_default_acl` shows it.
    pub oid: u32,
    /// The grants, in the name of whose objects they are for; never empty.
    pub items: BTreeSet<AclItem>,
}

/// A role is a member of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// The role that others are members of.
    pub role: RoleId,
    /// The member.
    pub member: RoleId,
    /// Who granted it.
    pub grantor: RoleId,
}

/// Everything that is numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Counter {
    Oid,
    Item,
    Database,
    Schema,
    Cluster,
    Role,
}

impl Counter {
    pub(crate) const ALL: [Counter; 6] =
        [Counter::Oid, Counter::Item, Counter::Database, Counter::Schema, Counter::Cluster, Counter::Role];

    /// As it is called in durable storage.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Counter::Oid => "oid",
            Counter::Item => "item",
            Counter::Database => "database",
            Counter::Schema => "schema",
            Counter::Cluster => "cluster",
            Counter::Role => "role",
        }
    }

    /// What is numbered first; below are the numbers of what the system ships with.
    pub(crate) fn first(self) -> u64 {
        match self {
            Counter::Oid => 20_000,
            Counter::Item | Counter::Database | Counter::Cluster => 1,
            Counter::Schema | Counter::Role => 100,
        }
    }
}

/// The kind of an object that is not an item; items know theirs.
pub(crate) fn kind_of(object: ObjectId) -> ObjectKind {
    match object {
        ObjectId::System => ObjectKind::System,
        ObjectId::Database(_) => ObjectKind::Database,
        ObjectId::Schema(_) => ObjectKind::Schema,
        ObjectId::Cluster(_) => ObjectKind::Cluster,
        ObjectId::Role(_) => ObjectKind::Role,
        ObjectId::Item(_) => ObjectKind::Table,
    }
}

/// The id as text, for messages about what has no name any more.
pub(crate) fn id_text(object: ObjectId) -> String {
    match object {
        ObjectId::System => "system".to_owned(),
        ObjectId::Database(id) => id.to_string(),
        ObjectId::Schema(id) => id.to_string(),
        ObjectId::Cluster(id) => id.to_string(),
        ObjectId::Role(id) => id.to_string(),
        ObjectId::Item(id) => id.to_string(),
    }
}

/// Whether the item ships with the system.
pub(crate) fn is_system_item(id: GlobalId) -> bool {
    matches!(id, GlobalId::System(_))
}
