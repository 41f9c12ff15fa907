//! GRANT and REVOKE.
//!
//! An owner's privileges are implied by owning and cannot be revoked. Everybody else's are in the object's list, granted in
//! the name of its owner, since only owners and superusers grant.

use super::{StateDiff, Transaction};
use crate::durable::keys::Key;
use crate::error::CatalogError;
use sql::names::{ObjectId, Privilege, RoleId};
use sql::plan::{CatalogView, GrantPlan, Grantee};

impl Transaction {
    pub(super) fn grant(&mut self, plan: &GrantPlan, grantor: RoleId) -> Result<(), CatalogError> {
        for grantee in &plan.grantees {
            if let Grantee::Role(role) = grantee {
                self.check_exists(ObjectId::Role(*role))?;
            }
        }
        for (object, privileges) in &plan.grants {
            self.check_exists(*object)?;
            let grantor = self.state.owner(*object).unwrap_or(grantor);
            for grantee in &plan.grantees {
                for privilege in privileges {
                    if plan.revoke {
                        self.remove_grant(*object, *grantee, *privilege);
                    } else {
                        self.add_grant(*object, *grantee, *privilege, grantor);
                    }
                }
            }
        }
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    fn remove_grant(&mut self, object: ObjectId, grantee: Grantee, privilege: Privilege) {
        let Some(acl) = self.state.acls.get_mut(&object) else { return };
        acl.retain(|item| item.grantee != grantee || item.privilege != privilege);
        if acl.is_empty() {
            self.state.acls.remove(&object);
        }
        self.dirty.insert(Key::Acl(object));
    }

    pub(super) fn grant_role(
        &mut self,
        revoke: bool,
        roles: &[RoleId],
        members: &[RoleId],
        grantor: RoleId,
    ) -> Result<(), CatalogError> {
        for role in roles.iter().chain(members) {
            self.check_exists(ObjectId::Role(*role))?;
        }
        for role in roles {
            for member in members {
                if revoke {
                    self.state.remove_membership(*member, *role);
                } else if self.state.is_member(*role, *member) {
                    return Err(self.membership_cycle(*role, *member));
                } else if self.state.memberships.get(member).is_none_or(|roles| !roles.contains_key(role)) {
                    self.state.put_membership(*member, *role, grantor);
                }
                self.dirty.insert(Key::Member { member: *member, role: *role });
            }
        }
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    fn membership_cycle(&self, role: RoleId, member: RoleId) -> CatalogError {
        let name = |id: RoleId| self.state.role(id).map_or_else(|| id.to_string(), |role| role.name.clone());
        CatalogError::MembershipCycle { role: name(role), member: name(member) }
    }
}
