//! Default privileges: kept by whose objects they are for, and granted when such an object is created.

use super::{StateDiff, Transaction};
use crate::durable::keys::Key;
use crate::error::CatalogError;
use crate::objects::{AclItem, DefaultAcl};
use engine::names::{ObjectId, RoleId, SchemaId};
use sql::plan::{DefaultPrivilegesPlan, DefaultScope, Grantee};
use sql_syntax::ast::DefaultKind;
use std::collections::BTreeSet;

impl Transaction {
    pub(super) fn default_privileges(&mut self, plan: &DefaultPrivilegesPlan) -> Result<(), CatalogError> {
        let grantees = plan.grantees.iter().filter_map(|grantee| match grantee {
            Grantee::Public => None,
            Grantee::Role(role) => Some(ObjectId::Role(*role)),
        });
        for object in grantees {
            self.check_exists(object)?;
        }
        for scope in &plan.scopes {
            self.check_exists(ObjectId::Role(scope.role))?;
            if let Some(schema) = scope.schema {
                self.check_exists(ObjectId::Schema(schema))?;
            }
            self.change_defaults(*scope, plan)?;
        }
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    fn change_defaults(&mut self, scope: DefaultScope, plan: &DefaultPrivilegesPlan) -> Result<(), CatalogError> {
        let mut acl = match self.state.default_acls.remove(&scope) {
            Some(acl) => acl,
            None => DefaultAcl { oid: self.allocate_oid()?, items: BTreeSet::new() },
        };
        for grantee in &plan.grantees {
            for privilege in &plan.privileges {
                let item = AclItem { column: None, grantee: *grantee, privilege: *privilege, grantor: scope.role };
                if plan.revoke {
                    acl.items.remove(&item)
                } else {
                    acl.items.insert(item)
                };
            }
        }
        if !acl.items.is_empty() {
            self.state.default_acls.insert(scope, acl);
        }
        self.dirty.insert(Key::DefaultAcl(scope));
        Ok(())
    }

    /// Grants on a new object what its owner's defaults say.
    pub(super) fn apply_defaults(
        &mut self,
        object: ObjectId,
        owner: RoleId,
        schema: Option<SchemaId>,
        kind: DefaultKind,
    ) {
        let scopes =
            BTreeSet::from([None, schema]).into_iter().map(|schema| DefaultScope { role: owner, schema, kind });
        let acls = scopes.filter_map(|scope| self.state.default_acls.get(&scope));
        let granted: Vec<AclItem> = acls.flat_map(|acl| acl.items.iter().copied()).collect();
        for item in granted {
            self.add_grant(object, AclItem { grantor: owner, ..item });
        }
    }

    /// Forgets the defaults of a schema that goes.
    pub(super) fn drop_defaults(&mut self, schema: SchemaId) {
        let scopes = self.state.default_acls.keys().filter(|scope| scope.schema == Some(schema));
        let scopes: Vec<DefaultScope> = scopes.copied().collect();
        for scope in scopes {
            self.state.default_acls.remove(&scope);
            self.dirty.insert(Key::DefaultAcl(scope));
        }
    }

    /// Why a role cannot go, as far as it is for default privileges.
    pub(super) fn defaults_with(&self, role: RoleId) -> Vec<String> {
        let name = |role: RoleId| self.state.describe(ObjectId::Role(role));
        let defaults = self.state.default_acls.iter().filter_map(|(scope, acl)| {
            let what = format!("default privileges on new {} belonging to {}", scope.kind.noun(), name(scope.role));
            match acl.items.iter().any(|item| item.grantee == Grantee::Role(role)) {
                _ if scope.role == role => Some(format!("owner of {what}")),
                true => Some(format!("privileges for {what}")),
                false => None,
            }
        });
        defaults.collect()
    }
}
