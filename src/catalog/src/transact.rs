//! Changes to the catalog: from one state to the next.
//!
//! 1. Planning turned a statement into an [`Op`], against the state from which the change starts.
//! 2. A [`Transaction`] clones that state and runs each op on the clone. An op checks again whatever its change needs to
//!    leave a sound catalog: names are free, what is referred to exists, nothing is left that refers to what goes.
//! 3. Each change notes the durable keys that it touched; at the end they are encoded from the new state, so what is
//!    stored cannot differ from what is published.
//!
//! # Invariants
//! - A failed op leaves nothing behind: the clone is dropped.
//! - The diff is in dependency order: what is created comes after what it refers to, what is dropped before.

mod alter;
mod constraint;
mod create;
mod defaults;
mod drop;
mod grant;
mod model;
mod secret;
mod sequence;
#[cfg(test)]
mod tests;

use crate::durable;
use crate::durable::keys::Key;
use crate::error::CatalogError;
use crate::objects::{Counter, id_text, kind_of};
use crate::state::State;
use crate::verifier::Verifier;
use engine::Engine;
use engine::error::SqlError;
use engine::names::{ClusterId, DatabaseId, ObjectId, RoleId, SchemaId};
use persist::{MetaWrite, ShardId};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::plan::{
    AlterModelPlan, AlterSecretPlan, AlterSequencePlan, CreateIndexPlan, CreateModelPlan, CreateSecretPlan,
    CreateSequencePlan, CreateTablePlan, CreateViewPlan, DefaultPrivilegesPlan, GrantPlan, Plan, TableChange,
};
use sql_syntax::ast::{ClusterOptions, RoleOptions, SetValue};
use std::collections::{BTreeMap, BTreeSet};

/// One change of the catalog.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the variants and fields are those of the plans they come from")]
pub enum Op {
    /// With a schema called `public`.
    CreateDatabase {
        name: String,
        owner: RoleId,
    },
    CreateSchema {
        database: DatabaseId,
        name: String,
        owner: RoleId,
    },
    CreateTable {
        plan: CreateTablePlan,
        owner: RoleId,
    },
    CreateSequence {
        plan: CreateSequencePlan,
        owner: RoleId,
    },
    AlterSequence(AlterSequencePlan),
    CreateSecret {
        plan: CreateSecretPlan,
        owner: RoleId,
    },
    AlterSecret(AlterSecretPlan),
    CreateModel {
        plan: CreateModelPlan,
        owner: RoleId,
    },
    AlterModel(AlterModelPlan),
    /// Of columns and constraints, after what depends on columns that go has gone.
    AlterTable {
        id: GlobalId,
        drops: Vec<ObjectId>,
        changes: Vec<TableChange>,
    },
    /// Or a materialized view; or replace one.
    CreateView {
        plan: CreateViewPlan,
        owner: RoleId,
    },
    CreateIndex {
        plan: CreateIndexPlan,
        owner: RoleId,
    },
    CreateCluster {
        name: String,
        size: String,
        workers: u64,
        replication_factor: u64,
        owner: RoleId,
    },
    AlterCluster {
        id: ClusterId,
        options: ClusterOptions,
        workers: Option<u64>,
    },
    /// The password is what `password` says, never what is in the options.
    CreateRole {
        name: String,
        options: RoleOptions,
        password: PasswordChange,
    },
    AlterRole {
        id: RoleId,
        options: RoleOptions,
        password: PasswordChange,
    },
    /// Without a value, resets.
    AlterRoleSet {
        id: RoleId,
        variable: String,
        value: Option<String>,
    },
    /// The indexes of a relation go along.
    AlterOwner {
        object: ObjectId,
        owner: RoleId,
    },
    AlterRename {
        object: ObjectId,
        to: String,
    },
    /// Of a materialized view or an index.
    AlterSetCluster {
        id: GlobalId,
        cluster: ClusterId,
    },
    /// All of them, in an order in which nothing goes before what depends on it.
    Drop {
        objects: Vec<ObjectId>,
    },
    /// A session's schema for temporary tables, with all that is in it.
    DropTemporary(SchemaId),
    /// GRANT or REVOKE, as the plan says.
    Grant {
        plan: GrantPlan,
        grantor: RoleId,
    },
    DefaultPrivileges(DefaultPrivilegesPlan),
    GrantRole {
        revoke: bool,
        roles: Vec<RoleId>,
        members: Vec<RoleId>,
        grantor: RoleId,
    },
    /// Without a text, removes.
    Comment {
        object: ObjectId,
        column: Option<usize>,
        text: Option<String>,
    },
    SetSystem {
        name: String,
        value: SetValue,
    },
    /// Without a name, all.
    ResetSystem {
        name: Option<String>,
    },
}

/// What becomes of a role's password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordChange {
    /// What was.
    Keep,
    /// There is none.
    Clear,
    /// The one that this verifier is of.
    Set(Verifier),
}

impl Op {
    /// The change that a plan asks for on behalf of `role`, passwords left as they are; `None` if the plan changes no catalog.
    pub fn from_plan(plan: &Plan, role: RoleId) -> Option<Op> {
        Some(match plan {
            Plan::CreateDatabase { name } => Op::CreateDatabase { name: name.clone(), owner: role },
            Plan::CreateSchema { database, name, owner } => {
                Op::CreateSchema { database: *database, name: name.clone(), owner: *owner }
            }
            Plan::CreateTable(plan) => Op::CreateTable { plan: plan.clone(), owner: role },
            Plan::CreateSequence(plan) => Op::CreateSequence { plan: plan.clone(), owner: role },
            Plan::AlterSequence(plan) => Op::AlterSequence(plan.clone()),
            Plan::CreateSecret(plan) => Op::CreateSecret { plan: plan.clone(), owner: role },
            Plan::AlterSecret(plan) => Op::AlterSecret(plan.clone()),
            Plan::CreateModel(plan) => Op::CreateModel { plan: plan.clone(), owner: role },
            Plan::AlterModel(plan) => Op::AlterModel(plan.clone()),
            Plan::CreateTableAs(plan) => Op::CreateTable { plan: plan.table.clone(), owner: role },
            Plan::AlterTable(plan) => {
                Op::AlterTable { id: plan.id, drops: plan.drops.clone(), changes: plan.changes.clone() }
            }
            Plan::CreateView(plan) => Op::CreateView { plan: plan.clone(), owner: role },
            Plan::CreateIndex(plan) => Op::CreateIndex { plan: plan.clone(), owner: role },
            Plan::CreateCluster { name, size, workers, replication_factor } => Op::CreateCluster {
                name: name.clone(),
                size: size.clone(),
                workers: *workers,
                replication_factor: *replication_factor,
                owner: role,
            },
            Plan::AlterCluster { id, options, workers } => {
                Op::AlterCluster { id: *id, options: options.clone(), workers: *workers }
            }
            Plan::CreateRole { name, options } => {
                Op::CreateRole { name: name.clone(), options: options.clone(), password: PasswordChange::Keep }
            }
            Plan::AlterRole { id, options } => {
                Op::AlterRole { id: *id, options: options.clone(), password: PasswordChange::Keep }
            }
            Plan::AlterRoleSet { id, variable, value } => {
                Op::AlterRoleSet { id: *id, variable: variable.clone(), value: value.clone() }
            }
            Plan::AlterOwner { object, owner, .. } => Op::AlterOwner { object: *object, owner: *owner },
            Plan::AlterRename { object, to, .. } => Op::AlterRename { object: *object, to: to.clone() },
            Plan::AlterSetCluster { id, cluster } => Op::AlterSetCluster { id: *id, cluster: *cluster },
            Plan::Drop(plan) => Op::Drop { objects: plan.objects.clone() },
            Plan::GrantPrivileges(plan) => Op::Grant { plan: plan.clone(), grantor: role },
            Plan::DefaultPrivileges(plan) => Op::DefaultPrivileges(plan.clone()),
            Plan::GrantRole { revoke, roles, members } => {
                Op::GrantRole { revoke: *revoke, roles: roles.clone(), members: members.clone(), grantor: role }
            }
            Plan::Comment { object, column, text } => {
                Op::Comment { object: *object, column: *column, text: text.clone() }
            }
            Plan::AlterSystemSet { variable, value } => Op::SetSystem { name: variable.clone(), value: value.clone() },
            Plan::AlterSystemReset(name) => Op::ResetSystem { name: name.clone() },
            _ => return None,
        })
    }
}

/// What a change means for storage and compute. What was dropped is found in the state before, the rest in the one after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateDiff {
    /// A cluster is new.
    ClusterCreated(ClusterId),
    /// A cluster has other options, or another name.
    ClusterAltered(ClusterId),
    /// A cluster is gone; what it maintained went before.
    ClusterDropped(ClusterId),
    /// A table is new and empty.
    TableCreated(GlobalId),
    /// A table has other constraints or unique indexes, which its rows have yet to be checked against, or other names or
    /// defaults of columns.
    TableAltered(GlobalId),
    /// A table is gone; or its rows are others under another id ([`Prepared::rewritten`]).
    TableDropped(GlobalId),
    /// A view is new.
    ViewCreated(GlobalId),
    /// A view has another query. Every index and every materialized view over it, directly or not, is dropped, and created
    /// with a new id.
    ViewReplaced(GlobalId),
    /// A view is gone.
    ViewDropped(GlobalId),
    /// A materialized view is new; its shard is empty.
    MaterializedViewCreated(GlobalId),
    /// A materialized view is gone.
    MaterializedViewDropped(GlobalId),
    /// A materialized view is maintained by another cluster.
    MaterializedViewMoved(GlobalId),
    /// An index is new.
    IndexCreated(GlobalId),
    /// An index is gone.
    IndexDropped(GlobalId),
    /// A sequence is new, and has given no value.
    SequenceCreated(GlobalId),
    /// A sequence gives other values than before; if it says which, it begins again with this one.
    SequenceAltered(GlobalId, Option<i64>),
    /// A sequence is gone.
    SequenceDropped(GlobalId),
    /// An object has another name.
    Renamed(ObjectId),
    /// A parameter of the system has another value.
    SystemVarsChanged,
    /// Something that only planning reads: roles, privileges, comments, databases, schemas.
    Other,
}

/// A change that was checked and is not durable yet.
#[derive(Debug)]
pub struct Prepared {
    /// The next state.
    pub state: State,
    /// How it differs, in dependency order.
    pub diff: Vec<StateDiff>,
    /// What makes it durable: all of this in one commit.
    pub meta: Vec<MetaWrite>,
    /// The items that were created.
    pub created: Vec<GlobalId>,
    /// By the id that it had, the new id of a table all of whose rows are others now. They have to be written in the same
    /// commit. Whatever is computed from the table is dropped, and created with a new id.
    pub rewritten: BTreeMap<GlobalId, GlobalId>,
}

/// What `base` becomes by `ops`, all of them or none. Changes nothing: the committer makes `meta` durable and then publishes
/// `state`. Errors: whatever makes an op impossible, worded for the user.
pub fn prepare(engine: &Engine, base: &State, ops: Vec<Op>) -> Result<Prepared, CatalogError> {
    let mut transaction = Transaction::new(base);
    for op in ops {
        transaction.run(op, engine)?;
    }
    Ok(transaction.finish())
}

/// A difference without what came and went within it: there is nothing to be started, or stopped, for that.
fn lasting(state: &State, diff: Vec<StateDiff>) -> Vec<StateDiff> {
    let id_of = |change: &StateDiff| match change {
        StateDiff::TableCreated(id)
        | StateDiff::TableAltered(id)
        | StateDiff::TableDropped(id)
        | StateDiff::ViewCreated(id)
        | StateDiff::ViewReplaced(id)
        | StateDiff::ViewDropped(id)
        | StateDiff::MaterializedViewCreated(id)
        | StateDiff::MaterializedViewDropped(id)
        | StateDiff::MaterializedViewMoved(id)
        | StateDiff::IndexCreated(id)
        | StateDiff::IndexDropped(id)
        | StateDiff::SequenceCreated(id)
        | StateDiff::SequenceAltered(id, _)
        | StateDiff::SequenceDropped(id) => Some(*id),
        _ => None,
    };
    let is_created = |change: &&StateDiff| {
        matches!(
            change,
            StateDiff::TableCreated(_)
                | StateDiff::ViewCreated(_)
                | StateDiff::MaterializedViewCreated(_)
                | StateDiff::IndexCreated(_)
                | StateDiff::SequenceCreated(_)
        )
    };
    let is_there = |id: &GlobalId| state.items.contains_key(id);
    let created: BTreeSet<GlobalId> = diff.iter().filter(is_created).filter_map(id_of).collect();
    let lasts = |change: &StateDiff| match (id_of(change), change) {
        (
            Some(id),
            StateDiff::MaterializedViewMoved(_) | StateDiff::TableAltered(_) | StateDiff::SequenceAltered(..),
        ) => is_there(&id),
        (Some(id), _) => is_there(&id) || !created.contains(&id),
        (None, _) => true,
    };
    diff.into_iter().filter(lasts).collect()
}

/// Runs ops on a state of its own.
pub(crate) struct Transaction {
    state: State,
    /// What has to be written.
    dirty: BTreeSet<Key>,
    created_shards: BTreeSet<GlobalId>,
    dropped_shards: BTreeSet<GlobalId>,
    diff: Vec<StateDiff>,
    created: Vec<GlobalId>,
    rewritten: BTreeMap<GlobalId, GlobalId>,
}

impl Transaction {
    pub(crate) fn new(base: &State) -> Transaction {
        Transaction {
            state: base.clone(),
            // What is written is of this version's format from here on.
            dirty: BTreeSet::from([Key::Version]),
            created_shards: BTreeSet::new(),
            dropped_shards: BTreeSet::new(),
            diff: Vec::new(),
            created: Vec::new(),
            rewritten: BTreeMap::new(),
        }
    }

    /// Step 2.
    fn run(&mut self, op: Op, engine: &Engine) -> Result<(), CatalogError> {
        match op {
            Op::CreateDatabase { name, owner } => self.create_database(name, owner).map(drop),
            Op::CreateSchema { database, name, owner } => self.create_schema(database, name, owner).map(drop),
            Op::CreateTable { plan, owner } => self.create_table(plan, owner),
            Op::CreateSequence { plan, owner } => self.create_sequence(plan, owner),
            Op::AlterSequence(plan) => self.alter_sequence(plan),
            Op::CreateSecret { plan, owner } => self.create_secret(plan, owner),
            Op::AlterSecret(plan) => self.alter_secret(plan),
            Op::CreateModel { plan, owner } => self.create_model(plan, owner),
            Op::AlterModel(plan) => self.alter_model(plan),
            Op::AlterTable { id, drops, changes } => self.alter_table(id, &drops, changes, engine),
            Op::CreateView { plan, owner } => self.create_view(plan, owner, engine),
            Op::CreateIndex { plan, owner } => self.create_index(plan, owner),
            Op::CreateCluster { name, size, workers, replication_factor, owner } => {
                self.create_cluster(name, size, workers, replication_factor, owner).map(drop)
            }
            Op::AlterCluster { id, options, workers } => self.alter_cluster(id, options, workers),
            Op::CreateRole { name, options, password } => {
                let id = self.create_role(name, &options)?;
                self.set_password(id, password);
                Ok(())
            }
            Op::AlterRole { id, options, password } => {
                self.alter_role(id, &options)?;
                self.set_password(id, password);
                Ok(())
            }
            Op::AlterRoleSet { id, variable, value } => self.alter_role_set(id, variable, value),
            Op::AlterOwner { object, owner } => self.alter_owner(object, owner),
            Op::AlterRename { object, to } => self.alter_rename(object, to),
            Op::AlterSetCluster { id, cluster } => self.alter_set_cluster(id, cluster),
            Op::Drop { objects } => self.drop_objects(&objects),
            Op::DropTemporary(schema) => self.drop_temporary(schema),
            Op::Grant { plan, grantor } => self.grant(&plan, grantor),
            Op::DefaultPrivileges(plan) => self.default_privileges(&plan),
            Op::GrantRole { revoke, roles, members, grantor } => self.grant_role(revoke, &roles, &members, grantor),
            Op::Comment { object, column, text } => self.comment(object, column, text),
            Op::SetSystem { name, value } => self.set_system(&name, &value),
            Op::ResetSystem { name } => self.reset_system(name.as_deref()),
        }
    }

    /// Step 3.
    pub(crate) fn finish(self) -> Prepared {
        let mut state = self.state;
        state.revision += 1;
        let create_shard = |id: GlobalId| match self.rewritten.values().any(|new| *new == id) {
            true => MetaWrite::CreateShardFromHere(ShardId::from(id)),
            false => MetaWrite::CreateShard(ShardId::from(id)),
        };
        let mut meta: Vec<MetaWrite> = self.created_shards.into_iter().map(create_shard).collect();
        meta.extend(self.dropped_shards.into_iter().map(|id| MetaWrite::DropShard(ShardId::from(id))));
        meta.extend(self.dirty.into_iter().map(|key| match durable::encode(&state, &key) {
            Some(value) => MetaWrite::Put { key: key.to_string(), value },
            None => MetaWrite::Delete { key: key.to_string() },
        }));
        let diff = lasting(&state, self.diff);
        Prepared { state, diff, meta, created: self.created, rewritten: self.rewritten }
    }

    fn create_shard(&mut self, id: GlobalId) {
        self.created_shards.insert(id);
    }

    /// What this transaction created itself was never there for storage.
    fn drop_shard(&mut self, id: GlobalId) {
        if !self.created_shards.remove(&id) {
            self.dropped_shards.insert(id);
        }
    }

    /// Notes that what is stored of an object has changed.
    fn touch(&mut self, object: ObjectId) {
        self.dirty.extend(durable::key_of(object));
    }

    fn allocate(&mut self, counter: Counter) -> u64 {
        self.dirty.insert(Key::Next(counter));
        self.state.allocate(counter)
    }

    fn allocate_oid(&mut self) -> Result<u32, CatalogError> {
        u32::try_from(self.allocate(Counter::Oid)).map_err(|_| {
            CatalogError::from(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "no object identifiers are left"))
        })
    }

    fn allocate_item(&mut self) -> GlobalId {
        GlobalId::User(self.allocate(Counter::Item))
    }

    fn check_exists(&self, object: ObjectId) -> Result<(), CatalogError> {
        let state = &self.state;
        let exists = match object {
            ObjectId::System => true,
            ObjectId::Database(id) => state.databases.contains_key(&id),
            ObjectId::Schema(id) => state.schemas.contains_key(&id),
            ObjectId::Cluster(id) => state.clusters.contains_key(&id),
            ObjectId::Role(id) => state.roles.contains_key(&id),
            ObjectId::Item(id) => state.items.contains_key(&id),
        };
        if exists { Ok(()) } else { Err(missing(object)) }
    }

    /// What the system ships with stays as it is.
    fn check_not_required(&self, object: ObjectId, action: &'static str) -> Result<(), CatalogError> {
        let required = match object {
            ObjectId::System => true,
            ObjectId::Schema(id) => self.state.schemas.get(&id).is_some_and(|schema| schema.database.is_none()),
            ObjectId::Role(id) => id == crate::system::MZ_SYSTEM,
            ObjectId::Item(id) => crate::objects::is_system_item(id),
            ObjectId::Cluster(id) => id == crate::system::SYSTEM_CLUSTER,
            ObjectId::Database(_) => false,
        };
        if required {
            return Err(CatalogError::Required { action, object: self.state.describe(object) });
        }
        Ok(())
    }

    fn check_user_schema(&self, id: SchemaId) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Schema(id))?;
        self.check_not_required(ObjectId::Schema(id), "change")
    }
}

/// The column went away, or never was.
fn no_such_column(relation: &str, column: usize) -> CatalogError {
    let message = format!("column {} of {relation} does not exist", column + 1);
    SqlError::new(SqlState::UNDEFINED_COLUMN, message).into()
}

/// The object went away, or never was.
fn missing(object: ObjectId) -> CatalogError {
    CatalogError::Missing { kind: kind_of(object), name: id_text(object) }
}
