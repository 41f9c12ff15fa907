//! ALTER DEFAULT PRIVILEGES.

use super::RoleSpec;
use crate::names::Name;
use engine::names::Privilege;

/// ALTER DEFAULT PRIVILEGES: what is granted on objects when they are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPrivileges {
    /// FOR ROLE: whose objects; the current role's if empty.
    pub roles: Vec<RoleSpec>,
    /// IN SCHEMA: those in these; in any if empty.
    pub schemas: Vec<Name>,
    /// REVOKE.
    pub revoke: bool,
    /// Which privileges; `None` is ALL.
    pub privileges: Option<Vec<Privilege>>,
    /// On what.
    pub kind: DefaultKind,
    /// To or from whom.
    pub grantees: Vec<RoleSpec>,
}

/// Of what objects the privileges are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefaultKind {
    /// TABLES: views, materialized or not, as well.
    Tables,
    /// SCHEMAS.
    Schemas,
}

impl DefaultKind {
    /// As messages name them.
    pub fn noun(self) -> &'static str {
        match self {
            DefaultKind::Tables => "relations",
            DefaultKind::Schemas => "schemas",
        }
    }
}
