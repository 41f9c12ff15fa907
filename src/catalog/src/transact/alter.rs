//! ALTER, COMMENT and ALTER SYSTEM.

use super::create::{check_role_name, check_schema_name};
use super::{PasswordChange, StateDiff, Transaction, missing, no_such_column};
use crate::durable::keys::Key;
use crate::error::CatalogError;
use crate::objects::AclItem;
use engine::names::{ClusterId, DatabaseId, ObjectId, ObjectKind, RoleId, SchemaId};
use repr::GlobalId;
use sql::plan::sequence::owned_sequences;
use sql::plan::{CatalogView, ClusterRef, DatabaseRef, Grantee, IndexDef, ItemKind, ItemRef, RoleRef, SchemaRef};
use sql::vars::SystemVars;
use sql_syntax::ast::{ClusterOptions, RoleOptions, SetValue};
use sql_syntax::names::FullName;
use std::sync::Arc;

impl Transaction {
    pub(super) fn alter_cluster(
        &mut self,
        id: ClusterId,
        options: ClusterOptions,
        workers: Option<u64>,
    ) -> Result<(), CatalogError> {
        self.check_not_required(ObjectId::Cluster(id), "alter")?;
        let mut cluster = self.cluster(id)?;
        if let Some(workers) = workers {
            cluster.workers = workers;
            cluster.size = options.size.unwrap_or_else(|| workers.to_string());
        }
        if let Some(replication_factor) = options.replication_factor {
            cluster.replication_factor = replication_factor;
        }
        self.put_cluster(cluster);
        Ok(())
    }

    pub(super) fn alter_role(&mut self, id: RoleId, options: &RoleOptions) -> Result<(), CatalogError> {
        self.check_not_required(ObjectId::Role(id), "alter")?;
        let mut role = self.role(id)?;
        for (attribute, value) in [
            (&mut role.superuser, options.superuser),
            (&mut role.login, options.login),
            (&mut role.inherit, options.inherit),
            (&mut role.create_db, options.create_db),
            (&mut role.create_role, options.create_role),
            (&mut role.create_cluster, options.create_cluster),
        ] {
            *attribute = value.unwrap_or(*attribute);
        }
        self.put_role(role);
        Ok(())
    }

    /// Step 2 of whatever has put the role.
    pub(super) fn set_password(&mut self, id: RoleId, password: PasswordChange) {
        match password {
            PasswordChange::Keep => {}
            PasswordChange::Clear => drop(self.state.verifiers.remove(&id)),
            PasswordChange::Set(verifier) => drop(self.state.verifiers.insert(id, verifier)),
        }
    }

    pub(super) fn alter_role_set(
        &mut self,
        id: RoleId,
        variable: String,
        value: Option<String>,
    ) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Role(id))?;
        self.state.set_role_setting(id, variable, value);
        self.touch(ObjectId::Role(id));
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    /// The new owner takes the place of the old one in the privileges, too, as in Postgres. The indexes of a table and the
    /// sequences of its columns go along.
    pub(super) fn alter_owner(&mut self, object: ObjectId, owner: RoleId) -> Result<(), CatalogError> {
        self.check_exists(object)?;
        self.check_exists(ObjectId::Role(owner))?;
        self.check_not_required(object, "change the owner of")?;
        let Some(old) = self.state.owner(object) else {
            // Roles have no owner, and planning does not ask for one.
            return Err(missing(object));
        };
        match object {
            ObjectId::System | ObjectId::Role(_) => return Err(missing(object)),
            ObjectId::Database(id) => self.state.put_database(DatabaseRef { owner, ..self.database(id)? }),
            ObjectId::Schema(id) => self.state.put_schema(SchemaRef { owner, ..self.schema(id)? }),
            ObjectId::Cluster(id) => self.state.put_cluster(ClusterRef { owner, ..self.cluster(id)? }),
            ObjectId::Item(id) => {
                let indexes = self.state.indexes_on(id);
                let sequences = owned_sequences(&self.state, id).into_iter().map(|(sequence, _)| sequence);
                let cubes = self.state.cubes_of(id);
                for item in self.state.item(id).into_iter().chain(indexes).chain(sequences).chain(cubes) {
                    self.state.put_item(ItemRef { owner, ..ItemRef::clone(&item) });
                    self.touch(ObjectId::Item(item.id));
                }
            }
        }
        self.touch(object);
        self.change_acl_owner(object, old, owner);
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    fn change_acl_owner(&mut self, object: ObjectId, old: RoleId, new: RoleId) {
        let change = |role| if role == old { new } else { role };
        self.change_acl(object, |item| {
            let grantee = match item.grantee {
                Grantee::Public => Grantee::Public,
                Grantee::Role(role) => Grantee::Role(change(role)),
            };
            Some(AclItem { grantee, grantor: change(item.grantor), ..item })
        });
    }

    pub(super) fn alter_rename(&mut self, object: ObjectId, to: String) -> Result<(), CatalogError> {
        self.check_exists(object)?;
        self.check_not_required(object, "rename")?;
        let taken = |kind| Err(CatalogError::AlreadyExists { kind, name: to.clone() });
        match object {
            ObjectId::System => return Err(missing(object)),
            ObjectId::Database(id) => {
                if self.state.database_by_name(&to).is_some() {
                    return taken(ObjectKind::Database);
                }
                self.state.put_database(DatabaseRef { name: to, ..self.database(id)? });
            }
            ObjectId::Schema(id) => {
                check_schema_name(&to)?;
                let schema = self.schema(id)?;
                if [None, schema.database].into_iter().any(|of| self.state.schema_by_name(of, &to).is_some()) {
                    return taken(ObjectKind::Schema);
                }
                self.state.put_schema(SchemaRef { name: to, ..schema });
            }
            ObjectId::Cluster(id) => {
                if self.state.cluster_by_name(&to).is_some() {
                    return taken(ObjectKind::Cluster);
                }
                self.put_cluster(ClusterRef { name: to, ..self.cluster(id)? });
            }
            ObjectId::Role(id) => {
                check_role_name(&to)?;
                if self.state.role_by_name(&to).is_some() {
                    return taken(ObjectKind::Role);
                }
                self.put_role(RoleRef { name: to, ..self.role(id)? });
            }
            ObjectId::Item(id) => {
                let item = self.state.item(id).ok_or_else(|| missing(object))?;
                if let Some(other) = self.state.item_by_name(item.schema, &to) {
                    return taken(other.object_kind());
                }
                if let ItemKind::Index(IndexDef { on, constraint: Some(constraint), .. }) = item.kind {
                    self.rename_constraint(on, constraint, &to)?;
                }
                self.rename_item(&item, &to);
                return Ok(());
            }
        }
        self.touch(object);
        self.diff.push(StateDiff::Renamed(object));
        Ok(())
    }

    pub(super) fn rename_item(&mut self, item: &ItemRef, to: &str) {
        let name = FullName { item: to.to_owned(), ..item.name.clone() };
        self.state.put_item(ItemRef { name, ..item.clone() });
        // Whoever violates its key is told its name.
        if let ItemKind::Index(IndexDef { unique: true, on, .. }) = item.kind {
            self.diff.push(StateDiff::TableAltered(on));
        }
        self.touch(ObjectId::Item(item.id));
        self.diff.push(StateDiff::Renamed(ObjectId::Item(item.id)));
    }

    /// The constraint whose index gets another name gets it as well. Errors: 42710.
    fn rename_constraint(&mut self, table: GlobalId, constraint: u32, to: &str) -> Result<(), CatalogError> {
        let item = self.state.item(table).ok_or_else(|| missing(ObjectId::Item(table)))?;
        self.check_constraint_name(&item, to)?;
        let mut renamed = ItemRef::clone(&item);
        if let ItemKind::Table { constraints, .. } = &mut renamed.kind {
            let of_index = constraints.iter_mut().filter(|known| known.oid == constraint);
            of_index.for_each(|known| to.clone_into(&mut known.name));
        }
        self.state.put_item(renamed);
        self.touch(ObjectId::Item(table));
        Ok(())
    }

    /// A materialized view moves with its rows; an index is built anew, and so gets a new id.
    pub(super) fn alter_set_cluster(&mut self, id: GlobalId, cluster: ClusterId) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Cluster(cluster))?;
        let item = self.state.item(id).ok_or_else(|| missing(ObjectId::Item(id)))?;
        let mut moved = ItemRef::clone(&item);
        match &mut moved.kind {
            ItemKind::MaterializedView(materialized) => materialized.cluster = cluster,
            ItemKind::Index(index) if index.constraint.is_none() => index.cluster = Some(cluster),
            ItemKind::Table { .. }
            | ItemKind::SystemTable
            | ItemKind::View(_)
            | ItemKind::Sequence(_)
            | ItemKind::Secret(_)
            | ItemKind::SemanticModel(_)
            | ItemKind::Cube(_)
            | ItemKind::Index(_) => {
                return Err(missing(ObjectId::Item(id)));
            }
        }
        if moved == *item {
            return Ok(());
        }
        self.state.put_item(moved);
        self.touch(ObjectId::Item(id));
        match item.kind {
            ItemKind::MaterializedView(_) => self.diff.push(StateDiff::MaterializedViewMoved(id)),
            _ => self.rebuild(&[id]),
        }
        Ok(())
    }

    pub(super) fn comment(
        &mut self,
        object: ObjectId,
        column: Option<usize>,
        text: Option<String>,
    ) -> Result<(), CatalogError> {
        self.check_exists(object)?;
        if let (Some(column), ObjectId::Item(id)) = (column, object)
            && self.state.item(id).is_none_or(|item| column >= item.desc.arity())
        {
            return Err(no_such_column(&self.state.describe(object), column));
        }
        self.state.set_comment(object, column, text);
        self.dirty.insert(Key::Comment(object));
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    pub(super) fn set_system(&mut self, name: &str, value: &SetValue) -> Result<(), CatalogError> {
        let (name, value) = SystemVars::check(name, value)?;
        self.state.system.apply(name, value);
        self.dirty.insert(Key::System(name.to_owned()));
        self.diff.push(StateDiff::SystemVarsChanged);
        Ok(())
    }

    pub(super) fn reset_system(&mut self, name: Option<&str>) -> Result<(), CatalogError> {
        match name {
            Some(name) => self.set_system(name, &SetValue::Default),
            None => {
                let stored = self.state.system.stored().map(|(name, _)| Key::System(name.to_owned()));
                self.dirty.extend(stored);
                self.state.system.reset_all();
                self.diff.push(StateDiff::SystemVarsChanged);
                Ok(())
            }
        }
    }

    fn put_cluster(&mut self, cluster: ClusterRef) {
        let id = cluster.id;
        self.state.put_cluster(cluster);
        self.touch(ObjectId::Cluster(id));
        self.diff.push(StateDiff::ClusterAltered(id));
    }

    fn database(&self, id: DatabaseId) -> Result<DatabaseRef, CatalogError> {
        self.state.database(id).map(Arc::unwrap_or_clone).ok_or_else(|| missing(ObjectId::Database(id)))
    }

    fn schema(&self, id: SchemaId) -> Result<SchemaRef, CatalogError> {
        self.state.schema(id).map(Arc::unwrap_or_clone).ok_or_else(|| missing(ObjectId::Schema(id)))
    }

    fn cluster(&self, id: ClusterId) -> Result<ClusterRef, CatalogError> {
        self.state.cluster(id).map(Arc::unwrap_or_clone).ok_or_else(|| missing(ObjectId::Cluster(id)))
    }

    fn role(&self, id: RoleId) -> Result<RoleRef, CatalogError> {
        self.state.role(id).map(Arc::unwrap_or_clone).ok_or_else(|| missing(ObjectId::Role(id)))
    }
}
