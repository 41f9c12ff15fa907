//! DROP. Planning has listed everything that goes; here it is checked that nothing stays behind that refers to it.

use super::{StateDiff, Transaction};
use crate::durable::keys::Key;
use crate::error::CatalogError;
use crate::objects::Membership;
use crate::system::MZ_SYSTEM;
use engine::names::{ObjectId, RoleId, SchemaId};
use repr::GlobalId;
use sql::plan::{CatalogView, Grantee, ItemKind, ItemRef};
use std::collections::BTreeSet;

impl Transaction {
    pub(super) fn drop_objects(&mut self, objects: &[ObjectId]) -> Result<(), CatalogError> {
        let doomed: BTreeSet<ObjectId> = objects.iter().copied().collect();
        for object in objects {
            self.check_exists(*object)?;
            self.check_not_required(*object, "drop")?;
            self.check_unused(*object, &doomed)?;
        }
        for object in objects {
            if let ObjectId::Item(id) = *object {
                // What goes with something else has gone with that.
                let Some(item) = self.state.item(id) else { continue };
                self.lose_keys(&item);
            }
            self.drop_object(*object);
        }
        Ok(())
    }

    /// Before an item goes: foreign keys that refer to it, and its own.
    fn lose_keys(&mut self, item: &ItemRef) {
        match &item.kind {
            ItemKind::Table { .. } => self.lose_references(item, |_| true),
            ItemKind::Index(index) if index.unique => {
                if let Some(table) = self.state.item(index.on) {
                    self.lose_references(&table, |reference| reference.key.oid == item.oid);
                }
            }
            _ => {}
        }
        self.alter_parents(item.id);
    }

    /// Drops a session's schema for temporary tables; one that is gone already is no error.
    pub(crate) fn drop_temporary(&mut self, schema: SchemaId) -> Result<(), CatalogError> {
        if !self.state.schemas.contains_key(&schema) {
            return Ok(());
        }
        let items: Vec<GlobalId> = self.state.items(schema).iter().map(|item| item.id).collect();
        let mut objects: Vec<ObjectId> = self.state.with_dependents(items).into_iter().map(ObjectId::Item).collect();
        objects.reverse();
        objects.push(ObjectId::Schema(schema));
        self.drop_objects(&objects)
    }

    fn check_unused(&self, object: ObjectId, doomed: &BTreeSet<ObjectId>) -> Result<(), CatalogError> {
        if let ObjectId::Role(role) = object {
            return self.check_role_unused(role, doomed);
        }
        let described = self.state.describe(object);
        let dependents: Vec<String> = self
            .direct_dependents(object)
            .into_iter()
            .filter(|dependent| !doomed.contains(dependent))
            .map(|dependent| format!("{} depends on {described}", self.state.describe(dependent)))
            .collect();
        if dependents.is_empty() {
            return Ok(());
        }
        Err(CatalogError::DependentsExist { object: described, dependents })
    }

    fn direct_dependents(&self, object: ObjectId) -> Vec<ObjectId> {
        let state = &self.state;
        match object {
            ObjectId::System | ObjectId::Role(_) => Vec::new(),
            ObjectId::Database(id) => {
                state.schemas(Some(id)).iter().map(|schema| ObjectId::Schema(schema.id)).collect()
            }
            ObjectId::Schema(id) => {
                let mut ids: Vec<GlobalId> = state.items(id).iter().map(|item| item.id).collect();
                ids.sort_unstable();
                ids.into_iter().map(ObjectId::Item).collect()
            }
            ObjectId::Cluster(id) => state
                .all_items()
                .filter(|item| item.cluster() == Some(id))
                .map(|item| ObjectId::Item(item.id))
                .collect(),
            ObjectId::Item(id) => state.dependents(id).into_iter().map(ObjectId::Item).collect(),
        }
    }

    fn check_role_unused(&self, role: RoleId, doomed: &BTreeSet<ObjectId>) -> Result<(), CatalogError> {
        let owned = self.state.owned_by(role).into_iter();
        let mut dependents: Vec<String> = owned
            .filter(|object| !doomed.contains(object))
            .map(|object| format!("owner of {}", self.state.describe(object)))
            .collect();
        let granted: BTreeSet<(ObjectId, Option<usize>)> = self
            .state
            .acls()
            .filter(|(object, item)| {
                !doomed.contains(object) && (item.grantee == Grantee::Role(role) || item.grantor == role)
            })
            .map(|(object, item)| (object, item.column))
            .collect();
        let described = granted.into_iter().map(|(object, column)| self.state.describe_column(object, column));
        dependents.extend(described.map(|what| format!("privileges for {what}")));
        dependents.extend(self.defaults_with(role));
        if dependents.is_empty() {
            return Ok(());
        }
        let role = self.state.role(role).map_or_else(|| role.to_string(), |role| role.name.clone());
        Err(CatalogError::RoleInUse { role, dependents })
    }

    pub(super) fn drop_object(&mut self, object: ObjectId) {
        if self.state.acls.remove(&object).is_some() {
            self.dirty.insert(Key::Acl(object));
        }
        if self.state.comments.remove(&object).is_some() {
            self.dirty.insert(Key::Comment(object));
        }
        self.touch(object);
        let diff = match object {
            ObjectId::System => StateDiff::Other,
            ObjectId::Database(id) => {
                self.state.remove_database(id);
                StateDiff::Other
            }
            ObjectId::Schema(id) => {
                self.drop_defaults(id);
                self.state.remove_schema(id);
                StateDiff::Other
            }
            ObjectId::Cluster(id) => {
                self.state.remove_cluster(id);
                StateDiff::ClusterDropped(id)
            }
            ObjectId::Role(id) => {
                self.drop_memberships(id);
                self.state.remove_role(id);
                StateDiff::Other
            }
            ObjectId::Item(id) => self.drop_item(id),
        };
        self.diff.push(diff);
    }

    fn drop_item(&mut self, id: GlobalId) -> StateDiff {
        let item = self.state.item(id).expect("it was checked before");
        self.state.remove_item(id);
        self.created.retain(|created| *created != id);
        match item.kind {
            ItemKind::Table { .. } => {
                self.drop_shard(id);
                StateDiff::TableDropped(id)
            }
            ItemKind::MaterializedView(_) => {
                self.drop_shard(id);
                StateDiff::MaterializedViewDropped(id)
            }
            ItemKind::View(_) => StateDiff::ViewDropped(id),
            ItemKind::Index(ref index) => {
                if index.unique {
                    self.diff.push(StateDiff::TableAltered(index.on));
                }
                StateDiff::IndexDropped(id)
            }
            ItemKind::Sequence(_) => {
                self.drop_defaults_naming(item.oid);
                StateDiff::SequenceDropped(id)
            }
            ItemKind::SystemTable | ItemKind::Secret(_) | ItemKind::SemanticModel(_) | ItemKind::Cube(_) => {
                StateDiff::Other
            }
        }
    }

    /// Memberships end with either role. Those that the role granted to others stay, now in the system's name.
    fn drop_memberships(&mut self, id: RoleId) {
        let touched = |m: &Membership| m.role == id || m.member == id || m.grantor == id;
        let memberships: Vec<Membership> = self.state.memberships().filter(touched).collect();
        for Membership { role, member, .. } in memberships {
            if role == id || member == id {
                self.state.remove_membership(member, role);
            } else {
                self.state.put_membership(member, role, MZ_SYSTEM);
            }
            self.dirty.insert(Key::Member { member, role });
        }
    }
}
