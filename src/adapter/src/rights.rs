//! In whose name a session acts: whoever logged in, or whom SET ROLE has said.

use crate::error::AdapterError;
use catalog::state::State;
use repr::sqlstate::SqlState;
use sql::plan::{CatalogView, RoleRef};
use std::sync::Arc;

/// What `role` is called while it is the session's own.
const NO_ROLE: &str = "none";

/// Whose privileges a session has.
pub(crate) struct Rights {
    /// Who logged in.
    own: Arc<RoleRef>,
    /// Whose privileges count: the same, or what SET ROLE said.
    pub(crate) role: Arc<RoleRef>,
    /// What its token says of it, a JSON object.
    pub(crate) claims: Option<Arc<str>>,
}

impl Rights {
    /// Of a session of this role.
    pub(crate) fn new(own: Arc<RoleRef>, claims: Option<Arc<str>>) -> Rights {
        Rights { role: Arc::clone(&own), own, claims }
    }

    /// Who logged in.
    pub(crate) fn own(&self) -> &RoleRef {
        &self.own
    }

    /// Acts in the name of the role that the parameter `role` names. What it was when it was allowed, it stays; where it is not allowed,
    /// or the role has gone, the session has its own role.
    pub(crate) fn follow(&mut self, state: &State, named: Option<&str>) {
        self.role = match named {
            Some(name) if name == self.role.name => return,
            Some(name) => self.allowed(state, name).unwrap_or_else(|_| Arc::clone(&self.own)),
            None => Arc::clone(&self.own),
        };
    }

    /// The role to which SET ROLE may change. Errors: 22023 unknown, 42501 the session's user is not a member of it.
    pub(crate) fn allowed(&self, state: &State, name: &str) -> Result<Arc<RoleRef>, AdapterError> {
        allowed_role(state, &self.own, name)
    }
}

/// The role that a session of this role means by `name`.
pub(crate) fn allowed_role(state: &State, own: &Arc<RoleRef>, name: &str) -> Result<Arc<RoleRef>, AdapterError> {
    if name == NO_ROLE {
        return Ok(Arc::clone(own));
    }
    let role = state.role_by_name(name).ok_or_else(|| {
        AdapterError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{name}\" does not exist"))
    })?;
    if own.superuser || state.is_member(own.id, role.id) {
        return Ok(role);
    }
    Err(AdapterError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to set role \"{name}\"")))
}

#[cfg(test)]
mod tests {
    use super::Rights;
    use catalog::builtin::initial;
    use engine::names::RoleId;
    use repr::sqlstate::SqlState;
    use sql::plan::RoleRef;
    use std::sync::Arc;

    #[test]
    fn a_role_that_is_not_there_is_refused_and_leaves_a_session_its_own() {
        let own = Arc::new(RoleRef {
            id: RoleId(7),
            oid: 7,
            name: "joe".to_owned(),
            superuser: false,
            login: true,
            inherit: true,
            create_db: false,
            create_role: false,
            create_cluster: false,
        });
        let (state, mut rights) = (initial(), Rights::new(Arc::clone(&own), None));
        assert_eq!(rights.allowed(&state, "none").expect("its own").name, "joe");
        let error = rights.allowed(&state, "gone").map(drop).expect_err("it is not there");
        assert_eq!(error.sqlstate(), SqlState::INVALID_PARAMETER_VALUE);
        // It was allowed once, and has gone since.
        rights.role = Arc::new(RoleRef { name: "gone".to_owned(), ..RoleRef::clone(&own) });
        rights.follow(&state, Some("gone"));
        assert_eq!(rights.role.name, "gone", "what it was, it stays");
        rights.follow(&state, Some("other"));
        assert_eq!(rights.role.name, "joe");
    }
}
