//! GRANT and REVOKE.

use super::RoleSpec;
use crate::names::Name;
use engine::names::{ObjectKind, Privilege};

/// GRANT or REVOKE on objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantPrivileges {
    /// REVOKE.
    pub revoke: bool,
    /// Which privileges.
    pub privileges: Vec<PrivilegeSpec>,
    /// On what.
    pub target: GrantTarget,
    /// To or from whom.
    pub grantees: Vec<RoleSpec>,
}

/// A privilege as GRANT lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivilegeSpec {
    /// Which; `None` is ALL.
    pub privilege: Option<Privilege>,
    /// On which columns; none for the whole.
    pub columns: Vec<String>,
}

/// On what privileges are granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantTarget {
    /// Objects of one kind; [`ObjectKind::Table`] covers views and materialized views.
    Objects(ObjectKind, Vec<Name>),
    /// ALL TABLES IN SCHEMA.
    AllTablesInSchema(Vec<Name>),
    /// ALL SEQUENCES IN SCHEMA.
    AllSequencesInSchema(Vec<Name>),
    /// SYSTEM.
    System,
}

/// GRANT or REVOKE of membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRole {
    /// REVOKE.
    pub revoke: bool,
    /// The roles of which others become members.
    pub roles: Vec<String>,
    /// The members.
    pub members: Vec<RoleSpec>,
}
