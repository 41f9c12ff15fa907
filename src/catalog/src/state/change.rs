//! Changes to a state that nobody else has yet. Each keeps the look-ups in step with the objects; none checks whether the
//! change makes sense, which [`crate::transact`] does before.

use super::State;
use crate::durable::{self, keys::Key};
use crate::objects::Counter;
use crate::verifier::MockSecret;
use engine::names::{ClusterId, DatabaseId, ObjectId, RoleId, SchemaId};
use persist::MetaWrite;
use repr::GlobalId;
use sql::plan::{ClusterRef, DatabaseRef, ItemRef, RoleRef, SchemaRef};
use sql_syntax::names::FullName;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

impl State {
    /// Takes the next number of a kind.
    pub(crate) fn allocate(&mut self, counter: Counter) -> u64 {
        let next = self.counters.entry(counter).or_insert_with(|| counter.first());
        let number = *next;
        *next += 1;
        number
    }

    /// Adds or replaces a database; a new name goes into the full names of what is in it.
    pub(crate) fn put_database(&mut self, database: DatabaseRef) {
        let id = database.id;
        if let Some(old) = self.databases.get(&id) {
            self.database_names.remove(&old.name);
        }
        self.database_names.insert(database.name.clone(), id);
        self.databases.insert(id, Arc::new(database));
        let schemas: Vec<SchemaId> =
            self.schemas.values().filter(|schema| schema.database == Some(id)).map(|schema| schema.id).collect();
        schemas.into_iter().for_each(|schema| self.rename_items(schema));
    }

    pub(crate) fn remove_database(&mut self, id: DatabaseId) {
        if let Some(old) = self.databases.remove(&id) {
            self.database_names.remove(&old.name);
        }
        self.schema_names.remove(&Some(id));
    }

    /// Adds or replaces a schema; a new name goes into the full names of what is in it.
    pub(crate) fn put_schema(&mut self, schema: SchemaRef) {
        let id = schema.id;
        let names = self.schema_names.entry(schema.database).or_default();
        if let Some(old) = self.schemas.get(&id) {
            names.remove(&old.name);
        }
        names.insert(schema.name.clone(), id);
        self.schemas.insert(id, Arc::new(schema));
        self.rename_items(id);
    }

    pub(crate) fn remove_schema(&mut self, id: SchemaId) {
        if let Some(old) = self.schemas.remove(&id)
            && let Some(names) = self.schema_names.get_mut(&old.database)
        {
            names.remove(&old.name);
            if names.is_empty() {
                self.schema_names.remove(&old.database);
            }
        }
        self.item_names.remove(&id);
    }

    /// Adds or replaces an item.
    pub(crate) fn put_item(&mut self, item: ItemRef) {
        let id = item.id;
        self.remove_item(id);
        self.item_names.entry(item.schema).or_default().insert(item.name.item.clone(), id);
        for used in item.uses() {
            self.used_by.entry(used).or_default().insert(id);
        }
        for parent in item.parents() {
            self.children.entry(parent).or_default().insert(id);
        }
        self.items.insert(id, Arc::new(item));
    }

    pub(crate) fn remove_item(&mut self, id: GlobalId) {
        let Some(old) = self.items.remove(&id) else { return };
        if let Some(names) = self.item_names.get_mut(&old.schema) {
            names.remove(&old.name.item);
            if names.is_empty() {
                self.item_names.remove(&old.schema);
            }
        }
        old.uses().into_iter().for_each(|used| forget(&mut self.used_by, used, id));
        old.parents().for_each(|parent| forget(&mut self.children, parent, id));
    }

    pub(crate) fn put_cluster(&mut self, cluster: ClusterRef) {
        let id = cluster.id;
        if let Some(old) = self.clusters.get(&id) {
            self.cluster_names.remove(&old.name);
        }
        self.cluster_names.insert(cluster.name.clone(), id);
        self.clusters.insert(id, Arc::new(cluster));
    }

    pub(crate) fn remove_cluster(&mut self, id: ClusterId) {
        if let Some(old) = self.clusters.remove(&id) {
            self.cluster_names.remove(&old.name);
        }
    }

    pub(crate) fn put_role(&mut self, role: RoleRef) {
        let id = role.id;
        if let Some(old) = self.roles.get(&id) {
            self.role_names.remove(&old.name);
        }
        self.role_names.insert(role.name.clone(), id);
        self.roles.insert(id, Arc::new(role));
    }

    /// Removes a role with its settings and its password.
    pub(crate) fn remove_role(&mut self, id: RoleId) {
        if let Some(old) = self.roles.remove(&id) {
            self.role_names.remove(&old.name);
        }
        self.role_settings.remove(&id);
        self.verifiers.remove(&id);
    }

    /// Makes a secret for the verifiers of those who have none; returns what has to be stored.
    pub(crate) fn choose_mock_secret(&mut self) -> MetaWrite {
        self.mock_secret = MockSecret::random();
        let value = durable::encode(self, &Key::MockSecret).expect("it was just made");
        MetaWrite::Put { key: Key::MockSecret.to_string(), value }
    }

    /// Sets or removes a role's default of a session parameter.
    pub(crate) fn set_role_setting(&mut self, role: RoleId, variable: String, value: Option<String>) {
        let settings = self.role_settings.entry(role).or_default();
        match value {
            Some(value) => settings.insert(variable, value),
            None => settings.remove(&variable),
        };
        if settings.is_empty() {
            self.role_settings.remove(&role);
        }
    }

    pub(crate) fn put_membership(&mut self, member: RoleId, role: RoleId, grantor: RoleId) {
        self.memberships.entry(member).or_default().insert(role, grantor);
    }

    pub(crate) fn remove_membership(&mut self, member: RoleId, role: RoleId) {
        if let Some(roles) = self.memberships.get_mut(&member) {
            roles.remove(&role);
            if roles.is_empty() {
                self.memberships.remove(&member);
            }
        }
    }

    /// Sets or removes a comment.
    pub(crate) fn set_comment(&mut self, object: ObjectId, column: Option<usize>, text: Option<String>) {
        let comments: &mut BTreeMap<_, _> = self.comments.entry(object).or_default();
        match text {
            Some(text) => comments.insert(column, text),
            None => comments.remove(&column),
        };
        if comments.is_empty() {
            self.comments.remove(&object);
        }
    }

    /// The full name of something called `item` in a schema.
    pub(crate) fn full_name(&self, schema: SchemaId, item: String) -> Option<FullName> {
        let schema = self.schemas.get(&schema)?;
        let database = match schema.database {
            Some(database) => Some(self.databases.get(&database)?.name.clone()),
            None => None,
        };
        Some(FullName { database, schema: schema.name.clone(), item })
    }

    /// Makes the full names of a schema's items agree with its name and its database's.
    fn rename_items(&mut self, schema: SchemaId) {
        let ids: Vec<GlobalId> =
            self.item_names.get(&schema).into_iter().flat_map(|names| names.values()).copied().collect();
        for id in ids {
            let item = self.items.get(&id).expect("names are of items that exist");
            let Some(name) = self.full_name(schema, item.name.item.clone()) else { continue };
            if item.name != name {
                let renamed = ItemRef { name, ..ItemRef::clone(item) };
                self.items.insert(id, Arc::new(renamed));
            }
        }
    }
}

/// Takes one of those that are noted under an item away.
fn forget(noted: &mut HashMap<GlobalId, BTreeSet<GlobalId>>, under: GlobalId, id: GlobalId) {
    if let Some(all) = noted.get_mut(&under) {
        all.remove(&id);
        if all.is_empty() {
            noted.remove(&under);
        }
    }
}
