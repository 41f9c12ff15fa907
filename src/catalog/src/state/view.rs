//! The catalog as planning sees it.

use super::State;
use crate::objects::{AclItem, is_system_item};
use engine::names::{ClusterId, DatabaseId, ObjectId, Privilege, RoleId, SchemaId};
use repr::GlobalId;
use sql::plan::{CatalogView, ClusterRef, DatabaseRef, Grantee, ItemKind, ItemRef, RoleRef, SchemaRef};
use std::collections::BTreeSet;
use std::sync::Arc;

impl CatalogView for State {
    fn database_by_name(&self, name: &str) -> Option<Arc<DatabaseRef>> {
        self.database(*self.database_names.get(name)?)
    }

    fn schema_by_name(&self, database: Option<DatabaseId>, name: &str) -> Option<Arc<SchemaRef>> {
        self.schema(*self.schema_names.get(&database)?.get(name)?)
    }

    fn item_by_name(&self, schema: SchemaId, name: &str) -> Option<Arc<ItemRef>> {
        self.item(*self.item_names.get(&schema)?.get(name)?)
    }

    fn cluster_by_name(&self, name: &str) -> Option<Arc<ClusterRef>> {
        self.cluster(*self.cluster_names.get(name)?)
    }

    fn role_by_name(&self, name: &str) -> Option<Arc<RoleRef>> {
        self.role(*self.role_names.get(name)?)
    }

    fn database(&self, id: DatabaseId) -> Option<Arc<DatabaseRef>> {
        self.databases.get(&id).map(Arc::clone)
    }

    fn schema(&self, id: SchemaId) -> Option<Arc<SchemaRef>> {
        self.schemas.get(&id).map(Arc::clone)
    }

    fn item(&self, id: GlobalId) -> Option<Arc<ItemRef>> {
        self.items.get(&id).map(Arc::clone)
    }

    fn cluster(&self, id: ClusterId) -> Option<Arc<ClusterRef>> {
        self.clusters.get(&id).map(Arc::clone)
    }

    fn role(&self, id: RoleId) -> Option<Arc<RoleRef>> {
        self.roles.get(&id).map(Arc::clone)
    }

    fn databases(&self) -> Vec<Arc<DatabaseRef>> {
        self.databases.values().map(Arc::clone).collect()
    }

    fn schemas(&self, database: Option<DatabaseId>) -> Vec<Arc<SchemaRef>> {
        self.schemas.values().filter(|schema| schema.database == database).map(Arc::clone).collect()
    }

    fn items(&self, schema: SchemaId) -> Vec<Arc<ItemRef>> {
        let ids = self.item_names.get(&schema).into_iter().flat_map(|names| names.values());
        ids.filter_map(|id| self.item(*id)).collect()
    }

    fn clusters(&self) -> Vec<Arc<ClusterRef>> {
        self.clusters.values().map(Arc::clone).collect()
    }

    fn roles(&self) -> Vec<Arc<RoleRef>> {
        self.roles.values().map(Arc::clone).collect()
    }

    fn indexes_on(&self, id: GlobalId) -> Vec<Arc<ItemRef>> {
        let dependents = self.used_by.get(&id).into_iter().flatten();
        dependents.filter_map(|id| self.item(*id)).filter(|item| matches!(item.kind, ItemKind::Index(_))).collect()
    }

    fn children(&self, table: GlobalId) -> Vec<GlobalId> {
        self.children.get(&table).into_iter().flatten().copied().collect()
    }

    fn dependents(&self, id: GlobalId) -> Vec<GlobalId> {
        self.used_by.get(&id).into_iter().flatten().copied().collect()
    }

    fn owned_by(&self, role: RoleId) -> Vec<ObjectId> {
        let databases = self.databases.values().filter(|object| object.owner == role);
        let schemas = self.schemas.values().filter(|object| object.owner == role);
        let clusters = self.clusters.values().filter(|object| object.owner == role);
        let items = self.items.values().filter(|object| object.owner == role);
        databases
            .map(|object| ObjectId::Database(object.id))
            .chain(schemas.map(|object| ObjectId::Schema(object.id)))
            .chain(clusters.map(|object| ObjectId::Cluster(object.id)))
            .chain(items.map(|object| ObjectId::Item(object.id)))
            .collect()
    }

    fn has_privilege(&self, role: RoleId, object: ObjectId, privilege: Privilege) -> bool {
        if self.is_public(object, privilege) {
            return true;
        }
        let has = self.inherited_roles(role);
        self.owner(object).is_some_and(|owner| has.contains(&owner)) || grants(self.acl(object), &has, privilege)
    }

    fn has_column_privilege(&self, role: RoleId, item: GlobalId, column: usize, privilege: Privilege) -> bool {
        grants(self.column_acl(item, column), &self.inherited_roles(role), privilege)
    }

    fn comment(&self, object: ObjectId, column: Option<usize>) -> Option<String> {
        self.comments.get(&object)?.get(&column).cloned()
    }

    fn is_always_empty(&self, id: GlobalId) -> bool {
        crate::builtin::relation(id).is_some_and(|relation| relation.is_always_empty())
    }

    fn is_member(&self, role: RoleId, of: RoleId) -> bool {
        self.reachable_roles(role, |_| true).contains(&of)
    }

    fn inherits(&self, role: RoleId, of: RoleId) -> bool {
        self.inherited_roles(role).contains(&of)
    }

    fn owner(&self, object: ObjectId) -> Option<RoleId> {
        match object {
            ObjectId::System | ObjectId::Role(_) => None,
            ObjectId::Database(id) => self.databases.get(&id).map(|object| object.owner),
            ObjectId::Schema(id) => self.schemas.get(&id).map(|object| object.owner),
            ObjectId::Cluster(id) => self.clusters.get(&id).map(|object| object.owner),
            ObjectId::Item(id) => self.items.get(&id).map(|object| object.owner),
        }
    }
}

/// Whether a privilege is granted to any of these roles, or to everybody.
fn grants<'a>(acl: impl Iterator<Item = &'a AclItem>, roles: &BTreeSet<RoleId>, privilege: Privilege) -> bool {
    let mut granted = acl.filter(|item| item.privilege == privilege);
    granted.any(|item| match item.grantee {
        Grantee::Public => true,
        Grantee::Role(grantee) => roles.contains(&grantee),
    })
}

impl State {
    /// What everybody may do with the system's own objects: look.
    fn is_public(&self, object: ObjectId, privilege: Privilege) -> bool {
        match object {
            ObjectId::Item(id) => is_system_item(id) && privilege == Privilege::Select,
            ObjectId::Schema(id) => {
                privilege == Privilege::Usage && self.schemas.get(&id).is_some_and(|schema| schema.database.is_none())
            }
            _ => false,
        }
    }

    /// The role and those whose privileges it has: NOINHERIT ends the way.
    fn inherited_roles(&self, role: RoleId) -> BTreeSet<RoleId> {
        self.reachable_roles(role, |role| self.roles.get(&role).is_some_and(|role| role.inherit))
    }

    /// The role and all it is a member of, by way of members that `passes` lets through.
    fn reachable_roles(&self, role: RoleId, passes: impl Fn(RoleId) -> bool) -> BTreeSet<RoleId> {
        let mut reached = BTreeSet::from([role]);
        let mut open = vec![role];
        while let Some(member) = open.pop() {
            if !passes(member) {
                continue;
            }
            for role in self.memberships.get(&member).into_iter().flat_map(|roles| roles.keys()) {
                if reached.insert(*role) {
                    open.push(*role);
                }
            }
        }
        reached
    }
}
