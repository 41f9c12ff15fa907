//! CREATE, and the catalog that every server begins with.

use super::{Prepared, StateDiff, Transaction, missing};
use crate::builtin;
use crate::durable::keys::Key;
use crate::durable::types::normalize;
use crate::error::CatalogError;
use crate::objects::{AclItem, Counter};
use crate::state::State;
use crate::system::{MZ_SYSTEM, MZ_SYSTEM_NAME, MZ_SYSTEM_OID, PUBLIC_OID, SYSTEM_CLUSTER};
use crate::verifier::MockSecret;
use engine::error::SqlError;
use engine::names::{ClusterId, DatabaseId, ObjectId, ObjectKind, Privilege, RoleId, SchemaId};
use engine::{Engine, SessionInfo};
use repr::{GlobalId, RelationDesc};
use sql::plan::constraint::{Reference, index_of, index_over, key_index, references};
use sql::plan::{
    CatalogView, ClusterRef, ConstraintDef, ConstraintKind, CreateIndexPlan, CreateTablePlan, CreateViewPlan,
    DatabaseRef, Grantee, IndexDef, ItemKind, ItemRef, MaterializedViewDef, PlanContext, RoleRef, SchemaRef,
    TableSchema, ViewDef, describe_index, describe_view,
};
use sql_syntax::ast::{DefaultKind, RoleOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Transaction {
    /// Database, role and schema that a user gets who connects without asking for any, and a cluster of one worker.
    pub(crate) fn bootstrap() -> Result<Prepared, CatalogError> {
        let mut new = Transaction::new(&builtin::initial());
        new.dirty.insert(Key::Version);
        new.dirty.extend(Counter::ALL.map(Key::Next));
        new.dirty.insert(Key::MockSecret);
        new.state.mock_secret = MockSecret::random();
        new.put_role(RoleRef {
            id: MZ_SYSTEM,
            oid: MZ_SYSTEM_OID,
            name: MZ_SYSTEM_NAME.to_owned(),
            superuser: true,
            login: true,
            inherit: true,
            create_db: true,
            create_role: true,
            create_cluster: true,
        });
        let login = RoleOptions { login: Some(true), ..RoleOptions::default() };
        let role = new.create_role("materialize".to_owned(), &login)?;
        let (database, public) = new.create_database("materialize".to_owned(), MZ_SYSTEM)?;
        let schema = SchemaRef { oid: PUBLIC_OID, ..SchemaRef::clone(&new.state.schemas[&public]) };
        new.state.put_schema(schema);
        let cluster = new.create_cluster("quickstart".to_owned(), "1".to_owned(), 1, 1, MZ_SYSTEM)?;
        new.grant_whole(ObjectId::Cluster(cluster), Grantee::Public, Privilege::Usage, MZ_SYSTEM);
        // The default user may do what does not take a superuser.
        let role = Grantee::Role(role);
        for object in [ObjectId::System, ObjectId::Database(database), ObjectId::Cluster(cluster)] {
            for privilege in Privilege::all_of(crate::objects::kind_of(object)) {
                new.grant_whole(object, role, *privilege, MZ_SYSTEM);
            }
        }
        Ok(new.finish())
    }

    /// A database and its schema `public`, in which everybody may create.
    pub(super) fn create_database(
        &mut self,
        name: String,
        owner: RoleId,
    ) -> Result<(DatabaseId, SchemaId), CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        if self.state.database_by_name(&name).is_some() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Database, name });
        }
        let id = DatabaseId(self.allocate(Counter::Database));
        let oid = self.allocate_oid()?;
        self.state.put_database(DatabaseRef { id, oid, name, owner });
        self.touch(ObjectId::Database(id));
        for privilege in [Privilege::Connect, Privilege::Temporary] {
            self.grant_whole(ObjectId::Database(id), Grantee::Public, privilege, owner);
        }
        let public = self.create_schema(id, "public".to_owned(), owner)?;
        for privilege in [Privilege::Usage, Privilege::Create] {
            self.grant_whole(ObjectId::Schema(public), Grantee::Public, privilege, owner);
        }
        Ok((id, public))
    }

    pub(super) fn create_schema(
        &mut self,
        database: DatabaseId,
        name: String,
        owner: RoleId,
    ) -> Result<SchemaId, CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        check_schema_name(&name)?;
        self.put_new_schema(database, name, owner)
    }

    fn put_new_schema(&mut self, database: DatabaseId, name: String, owner: RoleId) -> Result<SchemaId, CatalogError> {
        self.check_exists(ObjectId::Database(database))?;
        let taken = [None, Some(database)].into_iter().any(|of| self.state.schema_by_name(of, &name).is_some());
        if taken {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Schema, name });
        }
        let id = SchemaId(self.allocate(Counter::Schema));
        let oid = self.allocate_oid()?;
        self.state.put_schema(SchemaRef { id, oid, database: Some(database), name, owner });
        self.touch(ObjectId::Schema(id));
        self.apply_defaults(ObjectId::Schema(id), owner, None, DefaultKind::Schemas);
        self.diff.push(StateDiff::Other);
        Ok(id)
    }

    pub(super) fn create_table(&mut self, plan: CreateTablePlan, owner: RoleId) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        let schema = self.schema_for(plan.schema, owner)?;
        if self.is_taken(schema, &plan.name.item, plan.if_not_exists)? {
            return Ok(());
        }
        let constraints = plan.constraints.into_iter().map(|new| self.with_oid(new)).collect::<Result<_, _>>()?;
        let (defaults, key_index, webhook) = (plan.defaults, plan.key_index, plan.webhook);
        let kind = ItemKind::Table { defaults, constraints, key_index, webhook };
        let id = self.create_item(schema, plan.name.item, owner, &plan.desc, kind)?;
        self.create_shard(id);
        self.diff.push(StateDiff::TableCreated(id));
        self.create_key_indexes(id)?;
        self.alter_parents(id);
        plan.sequences.into_iter().try_for_each(|(column, new)| self.create_column_sequence(id, column, new))
    }

    /// The schema of a new table or sequence, which may come with it.
    pub(super) fn schema_for(&mut self, schema: TableSchema, owner: RoleId) -> Result<SchemaId, CatalogError> {
        match schema {
            TableSchema::Existing(schema) => Ok(schema),
            TableSchema::Temporary { database, name } => match self.state.schema_by_name(Some(database), &name) {
                Some(schema) => Ok(schema.id),
                None => self.put_new_schema(database, name, owner),
            },
        }
    }

    pub(super) fn create_view(
        &mut self,
        plan: CreateViewPlan,
        owner: RoleId,
        engine: &Engine,
    ) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        for read in &plan.view.context.reads {
            self.check_exists(ObjectId::Item(read.id))?;
        }
        if let Some(cluster) = plan.cluster {
            self.check_exists(ObjectId::Cluster(cluster))?;
        }
        if let Some(id) = plan.replace {
            return self.replace_view(id, plan, engine);
        }
        if self.is_taken(plan.schema, &plan.name.item, plan.if_not_exists)? {
            return Ok(());
        }
        let kind = view_kind(plan.view, plan.cluster);
        let materialized = plan.cluster.is_some();
        let id = self.create_item(plan.schema, plan.name.item, owner, &plan.desc, kind)?;
        if materialized {
            self.create_shard(id);
            self.diff.push(StateDiff::MaterializedViewCreated(id));
        } else {
            self.diff.push(StateDiff::ViewCreated(id));
        }
        Ok(())
    }

    /// A view keeps its owner and privileges, and a plain one its id. What is maintained of it has to be built anew.
    fn replace_view(&mut self, id: GlobalId, plan: CreateViewPlan, engine: &Engine) -> Result<(), CatalogError> {
        let old = self.state.item(id).ok_or_else(|| missing(ObjectId::Item(id)))?;
        let affected = self.state.with_dependents([id]);
        if plan.view.context.reads.iter().any(|read| affected.contains(&read.id)) {
            return Err(CatalogError::DependencyCycle { name: plan.name.item });
        }
        let kind = view_kind(plan.view, plan.cluster);
        if std::mem::discriminant(&old.kind) != std::mem::discriminant(&kind) {
            return Err(missing(ObjectId::Item(id)));
        }
        let new = ItemRef { desc: Arc::new(normalize(&plan.desc)), kind, ..ItemRef::clone(&old) };
        self.state.put_item(new);
        self.touch(ObjectId::Item(id));
        if plan.cluster.is_none() {
            self.diff.push(StateDiff::ViewReplaced(id));
        }
        self.describe_dependents(id, &affected, engine)?;
        self.rebuild(&affected);
        Ok(())
    }

    /// Binds the views over a replaced one anew. They keep their columns, but how those are stored follows from what they are
    /// computed from.
    pub(super) fn describe_dependents(
        &mut self,
        replaced: GlobalId,
        affected: &[GlobalId],
        engine: &Engine,
    ) -> Result<(), CatalogError> {
        for id in affected.iter().filter(|id| **id != replaced) {
            let item = self.state.item(*id).expect("what is affected exists");
            // A cube is described with its model.
            if matches!(item.kind, ItemKind::Table { .. } | ItemKind::Sequence(_) | ItemKind::Cube(_)) {
                continue;
            }
            let fails = |state: &State, why: SqlError| CatalogError::DependentFails {
                replaced: state.describe(ObjectId::Item(replaced)),
                dependent: state.describe(ObjectId::Item(*id)),
                why: why.message,
            };
            if matches!(item.kind, ItemKind::SemanticModel(_)) {
                self.describe_cubes(&item, engine).map_err(|why| fails(&self.state, why))?;
                continue;
            }
            let desc = self.described(&item, engine).map_err(|why| fails(&self.state, why))?;
            let desc = Arc::new(normalize(&desc));
            if desc != item.desc {
                self.state.put_item(ItemRef { desc, ..ItemRef::clone(&item) });
                self.touch(ObjectId::Item(*id));
            }
        }
        Ok(())
    }

    /// The columns that a view or an index has in this catalog.
    pub(super) fn described(&self, item: &ItemRef, engine: &Engine) -> Result<RelationDesc, SqlError> {
        let (catalog, session) = (&self.state, SessionInfo::default());
        let ctx = PlanContext { engine, catalog, session: &session, role: item.owner, cluster: "", from_tables: true };
        let ItemKind::Index(index) = &item.kind else { return describe_view(&ctx, item) };
        let on = catalog.item(index.on).ok_or_else(|| SqlError::internal(format!("{} is on nothing", item.name)))?;
        describe_index(&ctx, &on, &index.keys)
    }

    /// Gives new ids to the indexes and materialized views among `affected`, which are in order of dependency and complete:
    /// so nobody takes the old for the new, and what was stored of the old goes. Views that refer to them follow. A table among
    /// them is one all of whose rows are others now.
    pub(super) fn rebuild(&mut self, affected: &[GlobalId]) {
        for id in affected.iter().rev() {
            match self.state.item(*id).expect("what is affected exists").kind {
                ItemKind::MaterializedView(_) => {
                    self.drop_shard(*id);
                    self.diff.push(StateDiff::MaterializedViewDropped(*id));
                }
                ItemKind::Index(_) => self.diff.push(StateDiff::IndexDropped(*id)),
                ItemKind::Table { .. } => {
                    self.drop_shard(*id);
                    self.diff.push(StateDiff::TableDropped(*id));
                }
                ItemKind::SystemTable
                | ItemKind::View(_)
                | ItemKind::Sequence(_)
                | ItemKind::Secret(_)
                | ItemKind::SemanticModel(_)
                | ItemKind::Cube(_) => {}
            }
        }
        let mut renumbered = BTreeMap::new();
        for id in affected {
            self.renumber(*id, &mut renumbered);
        }
    }

    /// `renumbered` has the new ids of what was renumbered before.
    fn renumber(&mut self, old: GlobalId, renumbered: &mut BTreeMap<GlobalId, GlobalId>) {
        let item = self.state.item(old).expect("what is affected exists");
        let is_table = matches!(item.kind, ItemKind::Table { .. });
        if is_table || item.cluster().is_some() {
            renumbered.insert(old, self.allocate_item());
        }
        let now = |id: GlobalId| renumbered.get(&id).copied().unwrap_or(id);
        let mut item = ItemRef { id: now(old), ..ItemRef::clone(&item) };
        let reads = match &mut item.kind {
            ItemKind::Index(index) => {
                index.on = now(index.on);
                None
            }
            ItemKind::View(view) | ItemKind::MaterializedView(MaterializedViewDef { view, .. }) => {
                Some(&mut view.context.reads)
            }
            ItemKind::SemanticModel(model) => Some(&mut model.context.reads),
            ItemKind::Cube(cube) => {
                cube.model = now(cube.model);
                None
            }
            ItemKind::Sequence(sequence) => {
                sequence.owner.iter_mut().for_each(|owner| owner.table = now(owner.table));
                None
            }
            ItemKind::Table { .. } | ItemKind::SystemTable | ItemKind::Secret(_) => None,
        };
        for read in reads.into_iter().flatten() {
            read.id = now(read.id);
        }
        let (new, maintained, stored) = (item.id, item.cluster().is_some(), item.is_stored());
        self.state.remove_item(old);
        self.state.put_item(item);
        self.touch(ObjectId::Item(old));
        self.touch(ObjectId::Item(new));
        if let Some(comments) = self.state.comments.remove(&ObjectId::Item(old)) {
            self.state.comments.insert(ObjectId::Item(new), comments);
            self.dirty.extend([old, new].map(|id| Key::Comment(ObjectId::Item(id))));
        }
        if let Some(acl) = self.state.acls.remove(&ObjectId::Item(old)) {
            self.state.acls.insert(ObjectId::Item(new), acl);
            self.dirty.extend([old, new].map(|id| Key::Acl(ObjectId::Item(id))));
        }
        if is_table {
            self.follow_parent(old, new);
            self.create_shard(new);
            self.diff.push(StateDiff::TableCreated(new));
            self.created.retain(|created| *created != old);
            self.created.push(new);
            self.rewritten.insert(old, new);
        } else if stored {
            self.create_shard(new);
            self.diff.push(StateDiff::MaterializedViewCreated(new));
        } else if maintained {
            self.diff.push(StateDiff::IndexCreated(new));
        }
    }

    /// The tables that refer to one by foreign keys follow it to its new id.
    fn follow_parent(&mut self, old: GlobalId, new: GlobalId) {
        for child in self.state.children(old) {
            let mut item = ItemRef::clone(&self.state.item(child).expect("a child is there"));
            if let ItemKind::Table { constraints, .. } = &mut item.kind {
                for constraint in constraints {
                    if let ConstraintKind::Foreign(foreign) = &mut constraint.kind
                        && foreign.parent == Some(old)
                    {
                        foreign.parent = Some(new);
                    }
                }
            }
            self.state.put_item(item);
            self.touch(ObjectId::Item(child));
            self.diff.push(StateDiff::TableAltered(child));
        }
    }

    pub(super) fn create_index(&mut self, plan: CreateIndexPlan, owner: RoleId) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        self.check_exists(ObjectId::Item(plan.on))?;
        self.check_exists(ObjectId::Cluster(plan.cluster))?;
        if self.is_taken(plan.schema, &plan.name.item, plan.if_not_exists)? {
            return Ok(());
        }
        let keys = plan.keys.into_iter().map(|key| key.def).collect();
        let (on, cluster, unique, constraint) = (plan.on, Some(plan.cluster), plan.unique, None);
        let kind = ItemKind::Index(IndexDef { on, cluster, unique, keys, constraint });
        let id = self.create_item(plan.schema, plan.name.item, owner, &plan.desc, kind)?;
        self.diff.push(StateDiff::IndexCreated(id));
        if plan.unique {
            self.diff.push(StateDiff::TableAltered(plan.on));
        }
        Ok(())
    }

    /// Creates the indexes that key constraints and foreign keys of a table do not have yet. A foreign key needs none whose columns are
    /// those of a key's index.
    pub(crate) fn create_key_indexes(&mut self, table: GlobalId) -> Result<(), CatalogError> {
        let table = self.state.item(table).ok_or_else(|| missing(ObjectId::Item(table)))?;
        let ItemKind::Table { constraints, key_index: is_maintained, .. } = &table.kind else { return Ok(()) };
        for constraint in constraints.iter().filter(|constraint| constraint.is_key()) {
            if index_of(&self.state, table.id, constraint.oid).is_none() {
                let cluster = is_maintained.then_some(SYSTEM_CLUSTER);
                self.create_constraint_index(&table, constraint, constraint.columns(), cluster)?;
            }
        }
        for Reference { oid, columns, .. } in references(&self.state, &table) {
            let constraint = constraints.iter().find(|constraint| constraint.oid == oid);
            if let Some(constraint) = constraint.filter(|_| index_over(&self.state, table.id, &columns).is_none()) {
                self.create_constraint_index(&table, constraint, &columns, Some(SYSTEM_CLUSTER))?;
            }
        }
        Ok(())
    }

    fn create_constraint_index(
        &mut self,
        table: &ItemRef,
        constraint: &ConstraintDef,
        columns: &[usize],
        cluster: Option<ClusterId>,
    ) -> Result<(), CatalogError> {
        let (index, desc) = key_index(table, constraint, columns, cluster);
        let name = match constraint.is_key() {
            true => constraint.name.clone(),
            false => self.free_name(table.schema, &format!("{}_idx", constraint.name)),
        };
        let id = self.create_item(table.schema, name, table.owner, &desc, ItemKind::Index(index))?;
        if cluster.is_some() {
            self.diff.push(StateDiff::IndexCreated(id));
        }
        Ok(())
    }

    /// The first of `name`, `name1`, … that no relation of a schema has.
    pub(super) fn free_name(&self, schema: SchemaId, name: &str) -> String {
        let mut all = std::iter::once(name.to_owned()).chain((1..).map(|pass| format!("{name}{pass}")));
        all.find(|name| self.state.item_by_name(schema, name).is_none()).expect("there is no end of names")
    }

    /// Whether there is nothing to do because the name is taken and that was allowed for. Errors: 42P07.
    pub(super) fn is_taken(&self, schema: SchemaId, name: &str, if_not_exists: bool) -> Result<bool, CatalogError> {
        self.check_user_schema(schema)?;
        match self.state.item_by_name(schema, name) {
            None => Ok(false),
            Some(_) if if_not_exists => Ok(true),
            Some(item) => Err(CatalogError::AlreadyExists { kind: item.object_kind(), name: name.to_owned() }),
        }
    }

    pub(super) fn create_item(
        &mut self,
        schema: SchemaId,
        item: String,
        owner: RoleId,
        desc: &RelationDesc,
        kind: ItemKind,
    ) -> Result<GlobalId, CatalogError> {
        let id = self.allocate_item();
        let oid = self.allocate_oid()?;
        let name = self.state.full_name(schema, item).ok_or_else(|| missing(ObjectId::Schema(schema)))?;
        let desc = Arc::new(normalize(desc));
        // What is granted on tables when they are created is granted on views as well, and on nothing else.
        let is_table = !matches!(
            kind,
            ItemKind::Index(_) | ItemKind::Sequence(_) | ItemKind::Secret(_) | ItemKind::SemanticModel(_)
        );
        self.state.put_item(ItemRef { id, oid, name, schema, owner, desc, kind });
        self.touch(ObjectId::Item(id));
        if is_table {
            self.apply_defaults(ObjectId::Item(id), owner, Some(schema), DefaultKind::Tables);
        }
        self.created.push(id);
        Ok(id)
    }

    pub(super) fn create_cluster(
        &mut self,
        name: String,
        size: String,
        workers: u64,
        replication_factor: u64,
        owner: RoleId,
    ) -> Result<ClusterId, CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        if self.state.cluster_by_name(&name).is_some() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Cluster, name });
        }
        let id = ClusterId(self.allocate(Counter::Cluster));
        self.state.put_cluster(ClusterRef { id, name, owner, size, workers, replication_factor });
        self.touch(ObjectId::Cluster(id));
        self.diff.push(StateDiff::ClusterCreated(id));
        Ok(id)
    }

    pub(super) fn create_role(&mut self, name: String, options: &RoleOptions) -> Result<RoleId, CatalogError> {
        check_role_name(&name)?;
        if self.state.role_by_name(&name).is_some() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Role, name });
        }
        let id = RoleId(self.allocate(Counter::Role));
        let oid = self.allocate_oid()?;
        self.put_role(RoleRef {
            id,
            oid,
            name,
            superuser: options.superuser.unwrap_or(false),
            login: options.login.unwrap_or(false),
            inherit: options.inherit.unwrap_or(true),
            create_db: options.create_db.unwrap_or(false),
            create_role: options.create_role.unwrap_or(false),
            create_cluster: options.create_cluster.unwrap_or(false),
        });
        Ok(id)
    }

    pub(super) fn put_role(&mut self, role: RoleRef) {
        self.touch(ObjectId::Role(role.id));
        self.state.put_role(role);
        self.diff.push(StateDiff::Other);
    }

    /// Grants a privilege on an object as a whole.
    fn grant_whole(&mut self, object: ObjectId, grantee: Grantee, privilege: Privilege, grantor: RoleId) {
        self.add_grant(object, AclItem { column: None, grantee, privilege, grantor });
    }

    pub(super) fn add_grant(&mut self, object: ObjectId, item: AclItem) {
        self.state.acls.entry(object).or_default().insert(item);
        self.dirty.insert(Key::Acl(object));
    }
}

/// What a view is: materialized if a cluster maintains it.
fn view_kind(view: ViewDef, cluster: Option<ClusterId>) -> ItemKind {
    match cluster {
        Some(cluster) => ItemKind::MaterializedView(MaterializedViewDef { view, cluster }),
        None => ItemKind::View(view),
    }
}

/// Errors: 42939 for names that are kept for the system.
pub(super) fn check_role_name(name: &str) -> Result<(), CatalogError> {
    if is_prefix_reserved(name) || name == "public" || name == "none" {
        return Err(CatalogError::ReservedName { kind: ObjectKind::Role, name: name.to_owned() });
    }
    Ok(())
}

/// Errors: 42939 for names that are kept for the system.
pub(super) fn check_schema_name(name: &str) -> Result<(), CatalogError> {
    if is_prefix_reserved(name) {
        return Err(CatalogError::ReservedName { kind: ObjectKind::Schema, name: name.to_owned() });
    }
    Ok(())
}

fn is_prefix_reserved(name: &str) -> bool {
    name.starts_with("pg_") || name.starts_with("mz_")
}
