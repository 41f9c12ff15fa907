//! The catalog as planning sees it: objects by id and by name, at one revision.

use crate::secret::SecretBytes;
use crate::sequence::SequenceDef;
use crate::webhook::{WebhookCheckDef, WebhookDef};
use engine::error::SqlError;
use engine::names::{ClusterId, DatabaseId, ObjectId, ObjectKind, Privilege, RoleId, SchemaId};
use pgrepr::options::Locale;
use repr::sqlstate::SqlState;
use repr::{GlobalId, RelationDesc};
use semantic::model::Model;
use sql_syntax::ast::{Action, Deferral, KeyOptions};
use sql_syntax::names::{FullName, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The catalog at one revision, as planning sees it. Implemented by `catalog::State`, which is immutable.
///
/// Look-ups are by exact name; search paths are handled in [`crate::names`]. Lists come in no particular order.
pub trait CatalogView: Send + Sync {
    /// The database called `name`.
    fn database_by_name(&self, name: &str) -> Option<Arc<DatabaseRef>>;
    /// The schema called `name` of a database; `None` asks for the system schemas, which belong to no database.
    fn schema_by_name(&self, database: Option<DatabaseId>, name: &str) -> Option<Arc<SchemaRef>>;
    /// The table, view, materialized view or index called `name` of a schema.
    fn item_by_name(&self, schema: SchemaId, name: &str) -> Option<Arc<ItemRef>>;
    /// The cluster called `name`.
    fn cluster_by_name(&self, name: &str) -> Option<Arc<ClusterRef>>;
    /// The role called `name`.
    fn role_by_name(&self, name: &str) -> Option<Arc<RoleRef>>;

    /// The database with this id.
    fn database(&self, id: DatabaseId) -> Option<Arc<DatabaseRef>>;
    /// The schema with this id.
    fn schema(&self, id: SchemaId) -> Option<Arc<SchemaRef>>;
    /// The item with this id.
    fn item(&self, id: GlobalId) -> Option<Arc<ItemRef>>;
    /// The cluster with this id.
    fn cluster(&self, id: ClusterId) -> Option<Arc<ClusterRef>>;
    /// The role with this id.
    fn role(&self, id: RoleId) -> Option<Arc<RoleRef>>;

    /// All databases.
    fn databases(&self) -> Vec<Arc<DatabaseRef>>;
    /// All schemas of a database, or the system schemas.
    fn schemas(&self, database: Option<DatabaseId>) -> Vec<Arc<SchemaRef>>;
    /// All items of a schema.
    fn items(&self, schema: SchemaId) -> Vec<Arc<ItemRef>>;
    /// All clusters.
    fn clusters(&self) -> Vec<Arc<ClusterRef>>;
    /// All roles.
    fn roles(&self) -> Vec<Arc<RoleRef>>;
    /// The indexes on a table, view or materialized view.
    fn indexes_on(&self, id: GlobalId) -> Vec<Arc<ItemRef>>;
    /// The items that refer directly to an item: views over it, materialized or not, and indexes on it.
    fn dependents(&self, id: GlobalId) -> Vec<GlobalId>;
    /// The tables, other than itself, that refer to a table by a FOREIGN KEY.
    fn children(&self, table: GlobalId) -> Vec<GlobalId>;
    /// The comment on an object, or on a column of it (from 0).
    fn comment(&self, object: ObjectId, column: Option<usize>) -> Option<String>;
    /// The objects that belong to a role: their owner is the role.
    fn owned_by(&self, role: RoleId) -> Vec<ObjectId>;

    /// Whether the role, PUBLIC, or a role of which it is a member was granted the privilege, or owns the object.
    /// Superusers are handled by the caller.
    fn has_privilege(&self, role: RoleId, object: ObjectId, privilege: Privilege) -> bool;
    /// Whether the role, PUBLIC, or a role of which it is a member was granted the privilege on this column by itself.
    fn has_column_privilege(&self, role: RoleId, item: GlobalId, column: usize, privilege: Privilege) -> bool;
    /// Whether a relation of the system describes something that cannot exist here, and so never has rows.
    fn is_always_empty(&self, _id: GlobalId) -> bool {
        false
    }
    /// Whether `role` is `of` or a member of it, directly or not.
    fn is_member(&self, role: RoleId, of: RoleId) -> bool;
    /// Whether `role` has what `of` has: it is `of`, or a member of it by way of members that inherit.
    fn inherits(&self, role: RoleId, of: RoleId) -> bool;
    /// The owner of an object.
    fn owner(&self, object: ObjectId) -> Option<RoleId>;
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseRef {
    /// Its id.
    pub id: DatabaseId,
    /// Its oid, as `pg_database` shows it.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: RoleId,
}

/// A schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaRef {
    /// Its id.
    pub id: SchemaId,
    /// Its oid, as `pg_namespace` shows it.
    pub oid: u32,
    /// The database it belongs to; `None` for a system schema.
    pub database: Option<DatabaseId>,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: RoleId,
}

/// The cluster that is there before any user's, and maintains nothing of theirs.
pub const SYSTEM_CLUSTER: ClusterId = ClusterId(0);

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRef {
    /// Its id.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: RoleId,
    /// SIZE as given; empty if it never was.
    pub size: String,
    /// How many timely workers it has.
    pub workers: u64,
    /// How many replicas.
    pub replication_factor: u64,
}

impl ClusterRef {
    /// Whether it maintains what users ask for. Error 42501.
    pub fn check_for_users(&self) -> Result<(), SqlError> {
        if self.id != SYSTEM_CLUSTER {
            return Ok(());
        }
        let message = format!("system cluster \"{}\" maintains nothing of users", self.name);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    /// Its id.
    pub id: RoleId,
    /// Its oid, as `pg_roles` shows it.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// Bypasses every check.
    pub superuser: bool,
    /// May log in.
    pub login: bool,
    /// Has the privileges of the roles it is a member of.
    pub inherit: bool,
    /// May create databases.
    pub create_db: bool,
    /// May create roles.
    pub create_role: bool,
    /// May create clusters.
    pub create_cluster: bool,
}

/// A table, view, materialized view, index or sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemRef {
    /// Its id, never reused.
    pub id: GlobalId,
    /// Its oid, as `pg_class` shows it.
    pub oid: u32,
    /// Its full name.
    pub name: FullName,
    /// The schema it is in.
    pub schema: SchemaId,
    /// Its owner.
    pub owner: RoleId,
    /// The columns; for an index, the key's.
    pub desc: Arc<RelationDesc>,
    /// What it is.
    pub kind: ItemKind,
}

impl ItemRef {
    /// Table, view, materialized view, index, sequence, source or secret.
    pub fn object_kind(&self) -> ObjectKind {
        match self.kind {
            ItemKind::Table { webhook: Some(_), .. } => ObjectKind::Source,
            ItemKind::Secret(_) => ObjectKind::Secret,
            ItemKind::Table { .. } | ItemKind::SystemTable => ObjectKind::Table,
            ItemKind::View(_) => ObjectKind::View,
            ItemKind::MaterializedView(_) => ObjectKind::MaterializedView,
            ItemKind::Index(_) => ObjectKind::Index,
            ItemKind::Sequence(_) => ObjectKind::Sequence,
            ItemKind::SemanticModel(_) => ObjectKind::SemanticModel,
            ItemKind::Cube(_) => ObjectKind::Cube,
        }
    }

    /// The query of a view, materialized or not.
    pub fn view(&self) -> Option<&ViewDef> {
        match &self.kind {
            ItemKind::View(view) => Some(view),
            ItemKind::MaterializedView(materialized) => Some(&materialized.view),
            ItemKind::Table { .. }
            | ItemKind::SystemTable
            | ItemKind::Index(_)
            | ItemKind::Sequence(_)
            | ItemKind::Secret(_)
            | ItemKind::SemanticModel(_)
            | ItemKind::Cube(_) => None,
        }
    }

    /// Where the definition of a view, materialized or not, or of a semantic model was written.
    pub fn context(&self) -> Option<&DefContext> {
        match &self.kind {
            ItemKind::SemanticModel(model) => Some(&model.context),
            _ => self.view().map(|view| &view.context),
        }
    }

    /// The same, to be changed.
    pub(super) fn context_mut(&mut self) -> Option<&mut DefContext> {
        match &mut self.kind {
            ItemKind::View(view) => Some(&mut view.context),
            ItemKind::MaterializedView(materialized) => Some(&mut materialized.view.context),
            ItemKind::SemanticModel(model) => Some(&mut model.context),
            ItemKind::Table { .. }
            | ItemKind::SystemTable
            | ItemKind::Index(_)
            | ItemKind::Sequence(_)
            | ItemKind::Secret(_)
            | ItemKind::Cube(_) => None,
        }
    }

    /// The cluster that maintains the item, if one does.
    pub fn cluster(&self) -> Option<ClusterId> {
        match &self.kind {
            ItemKind::MaterializedView(materialized) => Some(materialized.cluster),
            ItemKind::Index(index) => index.cluster,
            ItemKind::Table { .. }
            | ItemKind::SystemTable
            | ItemKind::View(_)
            | ItemKind::Sequence(_)
            | ItemKind::Secret(_)
            | ItemKind::SemanticModel(_)
            | ItemKind::Cube(_) => None,
        }
    }

    /// What it refers to directly, each once: the relations that a view's query names, the relation of an index, the table that
    /// owns a sequence, the secrets of a webhook.
    pub fn uses(&self) -> Vec<GlobalId> {
        let uses: BTreeSet<GlobalId> = match &self.kind {
            ItemKind::Index(index) => BTreeSet::from([index.on]),
            ItemKind::Sequence(sequence) => sequence.owner.iter().map(|owner| owner.table).collect(),
            ItemKind::Table { webhook: Some(webhook), .. } => {
                webhook.check.iter().flat_map(WebhookCheckDef::secrets).collect()
            }
            ItemKind::Cube(cube) => BTreeSet::from([cube.model]),
            _ => self.context().into_iter().flat_map(|context| &context.reads).map(|read| read.id).collect(),
        };
        uses.into_iter().collect()
    }

    /// What it takes by HTTP, if it does.
    pub fn webhook(&self) -> Option<&WebhookDef> {
        match &self.kind {
            ItemKind::Table { webhook, .. } => webhook.as_deref(),
            _ => None,
        }
    }

    /// The constraints of a table, NOT NULL apart.
    pub fn constraints(&self) -> &[ConstraintDef] {
        match &self.kind {
            ItemKind::Table { constraints, .. } => constraints,
            _ => &[],
        }
    }

    /// Whether it is the index of a foreign key, which PostgreSQL has none for: tools that compare schemas would miss it there.
    pub fn serves_foreign_key(&self) -> bool {
        matches!(self.kind, ItemKind::Index(IndexDef { unique: false, constraint: Some(_), .. }))
    }

    /// Its foreign keys.
    pub fn foreign_keys(&self) -> impl Iterator<Item = (&ConstraintDef, &ForeignKey)> {
        self.constraints().iter().filter_map(|constraint| match &constraint.kind {
            ConstraintKind::Foreign(foreign) => Some((constraint, foreign)),
            _ => None,
        })
    }

    /// The other tables that it refers to by foreign keys.
    pub fn parents(&self) -> impl Iterator<Item = GlobalId> {
        self.foreign_keys().filter_map(|(_, foreign)| foreign.parent)
    }

    /// Whether its rows are stored durably, in a shard of its own.
    pub fn is_stored(&self) -> bool {
        matches!(self.kind, ItemKind::Table { .. } | ItemKind::MaterializedView(_))
    }
}

/// What an item is.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    /// A stored table.
    Table {
        /// For each column, its DEFAULT as SQL text that [`sql_syntax::parser::parse_expr`] reads.
        defaults: Vec<Option<String>>,
        /// PRIMARY KEY, UNIQUE, CHECK and FOREIGN KEY; NOT NULL is in the columns.
        constraints: Vec<ConstraintDef>,
        /// Whether the indexes of its keys, those to come included, answer reads.
        key_index: bool,
        /// What it takes by HTTP, of a source that nothing else writes to.
        webhook: Option<Box<WebhookDef>>,
    },
    /// A relation of the system, whose rows are made from the catalog or the process's state.
    SystemTable,
    /// A view.
    View(ViewDef),
    /// A view whose rows are stored and kept up to date.
    MaterializedView(MaterializedViewDef),
    /// An index.
    Index(IndexDef),
    /// A sequence.
    Sequence(SequenceDef),
    /// A secret, which nothing shows.
    Secret(SecretBytes),
    /// A semantic model, to which cubes belong.
    SemanticModel(ModelDef),
    /// A cube or a view of a semantic model, which queries read.
    Cube(CubeDef),
}

/// A constraint of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintDef {
    /// Its oid, as `pg_constraint` shows it; 0 in a plan, until the catalog gives it one.
    pub oid: u32,
    /// Its name, unlike that of any other constraint of the table.
    pub name: String,
    /// What it demands.
    pub kind: ConstraintKind,
}

/// What a constraint demands of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// PRIMARY KEY or UNIQUE: no two rows have the same values in these columns, unless one of the values is NULL.
    Key {
        /// PRIMARY KEY, which is also NOT NULL of each column.
        primary: bool,
        /// The columns' positions, in the key's order.
        columns: Vec<usize>,
    },
    /// CHECK: the condition is not false.
    Check {
        /// The condition as SQL text that [`sql_syntax::parser::parse_expr`] reads, over the bare names of the columns.
        sql: String,
        /// The positions of the columns that it reads.
        columns: Vec<usize>,
        /// That of who made it, by which its literals are read.
        locale: Locale,
    },
    /// FOREIGN KEY: a row of another table has these values as its key, unless one of them is NULL.
    Foreign(ForeignKey),
}

/// FOREIGN KEY … REFERENCES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The positions of the columns.
    pub columns: Vec<usize>,
    /// The table that they refer to; `None` for their own.
    pub parent: Option<GlobalId>,
    /// For each of the columns, the position of the column that it refers to. Together these are a key of that table.
    pub referred: Vec<usize>,
    /// MATCH FULL: all columns are NULL, or none is.
    pub is_full: bool,
    /// ON DELETE.
    pub on_delete: Action,
    /// ON UPDATE.
    pub on_update: Action,
    /// When it is checked.
    pub deferral: Deferral,
    /// False if rows that were there before it need not satisfy it.
    pub is_valid: bool,
}

/// A view's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDef {
    /// The query as SQL text that [`sql_syntax::parser::parse_query`] reads.
    pub query: String,
    /// Where it was written.
    pub context: DefContext,
}

/// All that binding a definition depends on besides its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefContext {
    /// The current database when it was created.
    pub database: String,
    /// The search path when it was created.
    pub search_path: Vec<String>,
    /// That of who created it, by which its literals are read.
    pub locale: Locale,
    /// What its names stood for when it was created, and stand for since.
    pub reads: Vec<ViewRead>,
}

/// A relation that a definition names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRead {
    /// The name, as the query has it.
    pub name: Name,
    /// What it stands for.
    pub id: GlobalId,
    /// How many columns that had when the view was created. The view does not see what was added behind them: its `*`
    /// becomes no longer, and none of its names becomes ambiguous or means another column.
    pub columns: usize,
    /// What those columns were called then, if any of them is called otherwise now; else empty. The view sees them under these
    /// names.
    pub names: Vec<String>,
}

/// A materialized view's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaterializedViewDef {
    /// Its query.
    pub view: ViewDef,
    /// The cluster that maintains it.
    pub cluster: ClusterId,
}

/// A semantic model's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelDef {
    /// Its files: texts by their names.
    pub files: BTreeMap<Arc<str>, String>,
    /// What they say.
    pub model: Arc<Model>,
    /// Where the SQL in them was written.
    pub context: DefContext,
}

/// What a cube or a view of a semantic model belongs to. The model knows it by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubeDef {
    /// The model.
    pub model: GlobalId,
}

/// An index's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// The table, view or materialized view.
    pub on: GlobalId,
    /// The cluster that maintains it, unless only the committer knows its keys.
    pub cluster: Option<ClusterId>,
    /// Whether no two rows may have the same key, unless one of its values is NULL.
    pub unique: bool,
    /// The key.
    pub keys: Vec<IndexKeyDef>,
    /// The oid of the PRIMARY KEY or UNIQUE constraint that it came with, has its name from, and goes with.
    pub constraint: Option<u32>,
}

/// One expression of an index's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKeyDef {
    /// The column's position, if the expression is just a column.
    pub column: Option<usize>,
    /// The expression as SQL text that [`sql_syntax::parser::parse_expr`] reads.
    pub sql: String,
    /// What was said beside it.
    pub options: KeyOptions,
}
