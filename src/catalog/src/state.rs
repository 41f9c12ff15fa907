//! The catalog at one revision: an immutable value.
//!
//! A state holds the same `Arc`s that planning gets, in maps by id, with look-ups by name beside them. The next state is
//! made by cloning this one, which shares all objects, and changing the clone through the methods of [`change`]; that
//! happens in [`crate::transact`] and while loading only.
//!
//! What the system ships with is in every state and never stored; see [`crate::system`].
//!
//! # Invariants
//! - The look-ups by name and by dependency say what the objects say: only `change` writes either.
//! - An object's full name agrees with the names of its schema and database.
//! - Everything that an object refers to by id exists: its schema, database, owner, cluster, relation.

pub(crate) mod change;
mod view;

use crate::objects::{AclItem, Counter, DefaultAcl, Membership};
use crate::system::{MZ_SYSTEM, SYSTEM_CLUSTER, SYSTEM_CLUSTER_NAME, SYSTEM_SCHEMAS, SystemTableDef};
use crate::verifier::{MockSecret, Verifier};
use engine::names::{ClusterId, DatabaseId, ObjectId, RoleId, SchemaId};
use repr::GlobalId;
use sql::plan::{ClusterRef, DatabaseRef, DefaultScope, ItemKind, ItemRef, RoleRef, SchemaRef};
use sql::vars::SystemVars;
use sql_syntax::names::FullName;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The catalog at one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) revision: u64,
    pub(crate) system: SystemVars,
    pub(crate) databases: BTreeMap<DatabaseId, Arc<DatabaseRef>>,
    pub(crate) schemas: BTreeMap<SchemaId, Arc<SchemaRef>>,
    pub(crate) items: BTreeMap<GlobalId, Arc<ItemRef>>,
    pub(crate) clusters: BTreeMap<ClusterId, Arc<ClusterRef>>,
    pub(crate) roles: BTreeMap<RoleId, Arc<RoleRef>>,
    /// ALTER ROLE … SET.
    pub(crate) role_settings: BTreeMap<RoleId, BTreeMap<String, String>>,
    /// What their passwords are checked against, of those who have one.
    pub(crate) verifiers: BTreeMap<RoleId, Verifier>,
    pub(crate) mock_secret: MockSecret,
    pub(crate) acls: BTreeMap<ObjectId, BTreeSet<AclItem>>,
    pub(crate) default_acls: BTreeMap<DefaultScope, DefaultAcl>,
    /// By member: the roles it is a member of, with who granted that.
    pub(crate) memberships: BTreeMap<RoleId, BTreeMap<RoleId, RoleId>>,
    /// By object, then by column, `None` being the object itself.
    pub(crate) comments: BTreeMap<ObjectId, BTreeMap<Option<usize>, String>>,
    /// The next number of each kind; numbers are never used twice.
    pub(crate) counters: BTreeMap<Counter, u64>,
    /// What refers to an item directly: the reverse of [`ItemRef::uses`].
    used_by: HashMap<GlobalId, BTreeSet<GlobalId>>,
    /// By table: the others that refer to it by a foreign key.
    children: HashMap<GlobalId, BTreeSet<GlobalId>>,
    database_names: HashMap<String, DatabaseId>,
    schema_names: HashMap<Option<DatabaseId>, HashMap<String, SchemaId>>,
    item_names: HashMap<SchemaId, HashMap<String, GlobalId>>,
    cluster_names: HashMap<String, ClusterId>,
    role_names: HashMap<String, RoleId>,
}

impl State {
    /// Only the system's schemas, these relations in them, and the system's cluster, at revision 0.
    pub fn new(system_tables: &[SystemTableDef]) -> State {
        let mut state = State {
            revision: 0,
            system: SystemVars::new(),
            databases: BTreeMap::new(),
            schemas: BTreeMap::new(),
            items: BTreeMap::new(),
            clusters: BTreeMap::new(),
            roles: BTreeMap::new(),
            role_settings: BTreeMap::new(),
            verifiers: BTreeMap::new(),
            mock_secret: MockSecret::default(),
            acls: BTreeMap::new(),
            default_acls: BTreeMap::new(),
            memberships: BTreeMap::new(),
            comments: BTreeMap::new(),
            counters: Counter::ALL.into_iter().map(|counter| (counter, counter.first())).collect(),
            used_by: HashMap::new(),
            children: HashMap::new(),
            database_names: HashMap::new(),
            schema_names: HashMap::new(),
            item_names: HashMap::new(),
            cluster_names: HashMap::new(),
            role_names: HashMap::new(),
        };
        for (id, oid, name) in SYSTEM_SCHEMAS {
            state.put_schema(SchemaRef { id, oid, database: None, name: name.to_owned(), owner: MZ_SYSTEM });
        }
        for table in system_tables {
            state.put_system_table(table);
        }
        state.put_cluster(ClusterRef {
            id: SYSTEM_CLUSTER,
            name: SYSTEM_CLUSTER_NAME.to_owned(),
            owner: MZ_SYSTEM,
            size: "1".to_owned(),
            workers: 1,
            replication_factor: 1,
        });
        state
    }

    fn put_system_table(&mut self, table: &SystemTableDef) {
        let schema = self.schemas.get(&table.schema).expect("system relations are in system schemas");
        let name = FullName { database: None, schema: schema.name.clone(), item: table.name.to_owned() };
        let item = ItemRef {
            id: table.id,
            oid: table.oid,
            name,
            schema: table.schema,
            owner: MZ_SYSTEM,
            desc: Arc::clone(&table.desc),
            kind: ItemKind::SystemTable,
        };
        self.put_item(item);
    }

    /// Counts changes since the process began. Equal revisions are equal catalogs.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The same catalog at the next revision: what was planned by this one holds on to something that is gone.
    #[must_use]
    pub fn revised(&self) -> State {
        State { revision: self.revision + 1, ..self.clone() }
    }

    /// The same catalog as only one transaction knows it, which has changed it and not committed: under the `number`th of the
    /// revisions that no published catalog has.
    #[must_use]
    pub fn staged(self, number: u64) -> State {
        State { revision: 1 << 63 | number, ..self }
    }

    /// The system's parameters.
    pub fn system(&self) -> &SystemVars {
        &self.system
    }

    /// The role's defaults of session parameters: canonical names and values.
    pub fn role_settings(&self, role: RoleId) -> Vec<(String, String)> {
        let settings = self.role_settings.get(&role).into_iter().flatten();
        settings.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// What the role's password is checked against, if it has one.
    pub fn verifier(&self, role: RoleId) -> Option<&Verifier> {
        self.verifiers.get(&role)
    }

    /// From what the verifiers of those are made who have none.
    pub fn mock_secret(&self) -> &MockSecret {
        &self.mock_secret
    }

    /// All comments, in order of object and column.
    pub fn comments(&self) -> impl Iterator<Item = (ObjectId, Option<usize>, &str)> {
        let of_object = |(object, comments): (&ObjectId, _)| (*object, comments);
        self.comments.iter().map(of_object).flat_map(|(object, comments): (_, &BTreeMap<_, String>)| {
            comments.iter().map(move |(column, text)| (object, *column, text.as_str()))
        })
    }

    /// The privileges granted on an object as a whole, in order. An owner's are implied and not in here.
    pub fn acl(&self, object: ObjectId) -> impl Iterator<Item = &AclItem> {
        self.acls.get(&object).into_iter().flatten().filter(|item| item.column.is_none())
    }

    /// The privileges granted on a column by itself, in order.
    pub fn column_acl(&self, relation: GlobalId, column: usize) -> impl Iterator<Item = &AclItem> {
        let all = self.acls.get(&ObjectId::Item(relation)).into_iter().flatten();
        all.filter(move |item| item.column == Some(column))
    }

    /// All granted privileges, on columns as well, in order of object.
    pub fn acls(&self) -> impl Iterator<Item = (ObjectId, &AclItem)> {
        self.acls.iter().flat_map(|(object, acl)| acl.iter().map(move |item| (*object, item)))
    }

    /// All default privileges.
    pub fn default_acls(&self) -> impl Iterator<Item = (&DefaultScope, &DefaultAcl)> {
        self.default_acls.iter()
    }

    /// All memberships, in order of member.
    pub fn memberships(&self) -> impl Iterator<Item = Membership> {
        self.memberships.iter().flat_map(|(member, roles)| {
            roles.iter().map(move |(role, grantor)| Membership { role: *role, member: *member, grantor: *grantor })
        })
    }

    /// All items, those of the system first, in order of id.
    pub fn all_items(&self) -> impl Iterator<Item = &Arc<ItemRef>> {
        self.items.values()
    }

    /// All schemas, those of the system first, in order of id.
    pub fn all_schemas(&self) -> impl Iterator<Item = &Arc<SchemaRef>> {
        self.schemas.values()
    }

    /// `roots` and all that depends on them, directly or not, each after what it refers to.
    pub fn with_dependents(&self, roots: impl IntoIterator<Item = GlobalId>) -> Vec<GlobalId> {
        // An explicit stack: views can be chained without bound.
        enum Step {
            Enter(GlobalId),
            Leave(GlobalId),
        }
        let mut steps: Vec<Step> = roots.into_iter().map(Step::Enter).collect();
        let (mut entered, mut order) = (BTreeSet::new(), Vec::new());
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(id) => order.push(id),
                Step::Enter(id) if entered.insert(id) => {
                    steps.push(Step::Leave(id));
                    steps.extend(self.used_by.get(&id).into_iter().flatten().copied().map(Step::Enter));
                }
                Step::Enter(_) => {}
            }
        }
        order.reverse();
        order
    }

    /// An object, or a column of it, as messages print them.
    pub(crate) fn describe_column(&self, object: ObjectId, column: Option<usize>) -> String {
        let (ObjectId::Item(id), Some(column)) = (object, column) else { return self.describe(object) };
        let name =
            self.items.get(&id).and_then(|item| item.desc.columns.get(column)).map(|column| column.name.as_str());
        format!("column {} of {}", name.unwrap_or("?column?"), self.describe(object))
    }

    /// Kind and name, as messages print them; the id where there is no name any more.
    pub(crate) fn describe(&self, object: ObjectId) -> String {
        let name = match object {
            ObjectId::System => return "system".to_owned(),
            ObjectId::Database(id) => self.databases.get(&id).map(|object| object.name.clone()),
            ObjectId::Schema(id) => self.schemas.get(&id).map(|object| object.name.clone()),
            ObjectId::Cluster(id) => self.clusters.get(&id).map(|object| object.name.clone()),
            ObjectId::Role(id) => self.roles.get(&id).map(|object| object.name.clone()),
            ObjectId::Item(id) => self.items.get(&id).map(|object| object.name.item.clone()),
        };
        let kind = match object {
            ObjectId::Item(id) => {
                self.items.get(&id).map_or(crate::objects::kind_of(object), |item| item.object_kind())
            }
            _ => crate::objects::kind_of(object),
        };
        format!("{kind} {}", name.unwrap_or_else(|| crate::objects::id_text(object)))
    }
}
