//! GRANT and REVOKE.
//!
//! An owner's privileges are implied by owning and cannot be revoked. Everybody else's are in the object's list, those on its
//! columns as well, granted in the name of its owner, since only owners and superusers grant.

use super::{StateDiff, Transaction, no_such_column};
use crate::durable::keys::Key;
use crate::error::CatalogError;
use crate::objects::AclItem;
use engine::names::{ObjectId, RoleId};
use sql::plan::{CatalogView, Grant, GrantPlan, Grantee};
use std::collections::BTreeSet;

impl Transaction {
    pub(super) fn grant(&mut self, plan: &GrantPlan, grantor: RoleId) -> Result<(), CatalogError> {
        for grantee in &plan.grantees {
            if let Grantee::Role(role) = grantee {
                self.check_exists(ObjectId::Role(*role))?;
            }
        }
        for grant in &plan.grants {
            self.check_grantable(grant)?;
            let grantor = self.state.owner(grant.object).unwrap_or(grantor);
            for grantee in &plan.grantees {
                for privilege in &grant.privileges {
                    let item = AclItem { column: grant.column, grantee: *grantee, privilege: *privilege, grantor };
                    match plan.revoke {
                        true => self.remove_grant(grant.object, item),
                        false => self.add_grant(grant.object, item),
                    }
                }
            }
        }
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    fn check_grantable(&self, grant: &Grant) -> Result<(), CatalogError> {
        self.check_exists(grant.object)?;
        let arity = match grant.object {
            ObjectId::Item(id) => self.state.item(id).map_or(0, |item| item.desc.arity()),
            _ => 0,
        };
        match grant.column {
            Some(column) if column >= arity => Err(no_such_column(&self.state.describe(grant.object), column)),
            _ => Ok(()),
        }
    }

    /// What goes from the whole goes from its columns.
    fn remove_grant(&mut self, object: ObjectId, revoked: AclItem) {
        let is_meant = |item: &AclItem| {
            let within = revoked.column.is_none() || item.column == revoked.column;
            within && item.grantee == revoked.grantee && item.privilege == revoked.privilege
        };
        self.change_acl(object, |item| if is_meant(&item) { None } else { Some(item) });
    }

    /// Makes each privilege on an object, and on its columns, another one or none.
    pub(super) fn change_acl(&mut self, object: ObjectId, change: impl FnMut(AclItem) -> Option<AclItem>) {
        let Some(acl) = self.state.acls.remove(&object) else { return };
        let changed: BTreeSet<AclItem> = acl.into_iter().filter_map(change).collect();
        if !changed.is_empty() {
            self.state.acls.insert(object, changed);
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
