//! From a parsed statement to a plan: names resolved, types decided, privileges checked.
//!
//! [`plan`] is the one entry point. It reads the catalog through [`CatalogView`], an immutable state at one revision, so
//! a plan is valid for as long as the revision is the same; nothing else that can change goes into it (`now()`,
//! `current_user` and the like stay function calls). What a statement needs but only a session knows (its variables,
//! prepared statements, cursors, transaction) is left to the adapter: those plans just carry the checked request.
//!
//! # Invariants
//! - Every relation that a plan reads or writes is in its `depends_on`, views included, each once.
//! - Privileges were checked for the role of the context; a plan must not run for another role.

pub mod column;
pub mod constraint;
mod copy;
mod ddl;
mod default_privileges;
pub mod definition;
mod dml;
mod drop;
mod explain;
pub mod lift;
pub mod privileges;
mod query;
mod read;
mod resolver;
mod roles;
pub mod sequence;
mod session;
mod show;
mod webhook;

use crate::bind::Params;
use crate::row_locks::RowLocks;
use crate::sequence::SequenceParams;
use crate::webhook::WebhookDef;
use arrow::datatypes::DataType;
use column::ColumnChange;
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::{Expr, LogicalPlan};
use engine::error::{PlanNotice, SqlError};
use engine::names::{ClusterId, DatabaseId, ObjectId, ObjectKind, Privilege, RoleId, SchemaId, Scope};
use engine::{Engine, SessionInfo};
use pgrepr::copy::CopyOptions;
use privileges::Right;
use repr::relation::ColumnOrigin;
use repr::{GlobalId, PgType, RelationDesc};
use sequence::NewSequence;
use sql_syntax::ast::{
    ClusterOptions, Deferral, DiscardTarget, ExplainFormat, ExplainStage, RoleOptions, SetValue, Statement,
    TransactionModes,
};
use sql_syntax::names::FullName;
use sqlparser::ast as sp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use crate::catalog::{
    CatalogView, ClusterRef, ConstraintDef, ConstraintKind, CubeDef, DatabaseRef, DefContext, ForeignKey, IndexDef,
    IndexKeyDef, ItemKind, ItemRef, MaterializedViewDef, ModelDef, RoleRef, SYSTEM_CLUSTER, SchemaRef, ViewDef,
    ViewRead,
};
pub use ddl::{
    AlterModelPlan, CreateIndexPlan, CreateModelPlan, IndexKey, describe_cubes, describe_index, plan_index_keys,
};
pub use default_privileges::{DefaultPrivilegesPlan, DefaultScope};
pub use dml::unknown_column;
pub use drop::DropPlan;
pub use query::{describe_view, plan_view};
pub use read::{EnvelopePlan, How, Keyed, ReadPlan, SortColumn, SubscribePlan, TimePlan};
pub use resolver::security_of;
pub use sequence::{AlterSequencePlan, CreateSequencePlan};
pub use webhook::{AlterSecretPlan, CreateSecretPlan, plan_webhook_check};

/// What planning reads. Borrowed for one call.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    /// Binds and optimises queries.
    pub engine: &'a Engine,
    /// The catalog.
    pub catalog: &'a dyn CatalogView,
    /// Database, search path and names of the session.
    pub session: &'a SessionInfo,
    /// The current role.
    pub role: RoleId,
    /// The session's cluster.
    pub cluster: &'a str,
    /// Whether views are planned from tables even where an index holds their rows: a maintained view is.
    pub from_tables: bool,
}

impl<'a> PlanContext<'a> {
    /// A column of a relation as clients are told of it.
    fn column_origin(&self, id: GlobalId, column: usize) -> Option<ColumnOrigin> {
        let number = i16::try_from(column + 1).ok()?;
        self.catalog.item(id).map(|item| ColumnOrigin { relation: item.oid, number })
    }

    /// Where names are looked up.
    pub fn scope(&self) -> Scope<'a> {
        self.session.scope()
    }
}

/// A statement, ready to run.
#[derive(Clone, Debug)]
pub enum Plan {
    /// A query; also SHOW of objects.
    Select(SelectPlan),
    /// A query as of a given time, or SUBSCRIBE.
    Read(ReadPlan),
    /// INSERT.
    Insert(InsertPlan),
    /// UPDATE, DELETE, TRUNCATE.
    ReadThenWrite(ReadThenWritePlan),
    /// TRUNCATE of several tables, or with RESTART IDENTITY: all or none.
    TruncateSeveral(TruncatePlan),
    /// COPY FROM STDIN.
    CopyFrom(CopyFromPlan),
    /// COPY TO STDOUT.
    CopyTo(CopyToPlan),
    /// EXPLAIN.
    Explain(ExplainPlan),
    /// CREATE DATABASE.
    CreateDatabase {
        /// Its name.
        name: String,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// Of which database.
        database: DatabaseId,
        /// Its name.
        name: String,
        /// Its owner.
        owner: RoleId,
    },
    /// CREATE TABLE.
    CreateTable(CreateTablePlan),
    /// CREATE TABLE AS.
    CreateTableAs(CreateTableAsPlan),
    /// ALTER TABLE.
    AlterTable(AlterTablePlan),
    /// CREATE VIEW or MATERIALIZED VIEW.
    CreateView(CreateViewPlan),
    /// CREATE INDEX.
    CreateIndex(CreateIndexPlan),
    /// CREATE SEQUENCE.
    CreateSequence(CreateSequencePlan),
    /// ALTER SEQUENCE.
    AlterSequence(AlterSequencePlan),
    /// CREATE SECRET.
    CreateSecret(CreateSecretPlan),
    /// ALTER SECRET … AS.
    AlterSecret(AlterSecretPlan),
    /// CREATE SEMANTIC MODEL.
    CreateModel(CreateModelPlan),
    /// ALTER SEMANTIC MODEL … AS.
    AlterModel(AlterModelPlan),
    /// CREATE CLUSTER.
    CreateCluster {
        /// Its name.
        name: String,
        /// SIZE as given, else the number of workers.
        size: String,
        /// How many workers.
        workers: u64,
        /// How many replicas.
        replication_factor: u64,
    },
    /// ALTER CLUSTER.
    AlterCluster {
        /// Which one.
        id: ClusterId,
        /// What changes; already validated.
        options: ClusterOptions,
        /// The workers that a changed size means.
        workers: Option<u64>,
    },
    /// CREATE ROLE.
    CreateRole {
        /// Its name.
        name: String,
        /// Its attributes.
        options: RoleOptions,
    },
    /// ALTER ROLE with attributes.
    AlterRole {
        /// Which one.
        id: RoleId,
        /// What changes.
        options: RoleOptions,
    },
    /// ALTER ROLE … SET: a default for later sessions of the role.
    AlterRoleSet {
        /// Which one.
        id: RoleId,
        /// The variable's canonical name.
        variable: String,
        /// The canonical value; `None` resets it.
        value: Option<String>,
    },
    /// ALTER … OWNER TO.
    AlterOwner {
        /// For the command tag.
        kind: ObjectKind,
        /// Which object.
        object: ObjectId,
        /// Its new owner.
        owner: RoleId,
    },
    /// ALTER … RENAME TO.
    AlterRename {
        /// For the command tag.
        kind: ObjectKind,
        /// Which object.
        object: ObjectId,
        /// The new last part of its name.
        to: String,
    },
    /// ALTER … SET CLUSTER.
    AlterSetCluster {
        /// A materialized view or an index.
        id: GlobalId,
        /// The cluster that is to maintain it.
        cluster: ClusterId,
    },
    /// DROP.
    Drop(DropPlan),
    /// GRANT or REVOKE of privileges.
    GrantPrivileges(GrantPlan),
    /// ALTER DEFAULT PRIVILEGES.
    DefaultPrivileges(DefaultPrivilegesPlan),
    /// GRANT or REVOKE of membership.
    GrantRole {
        /// REVOKE.
        revoke: bool,
        /// Of which roles.
        roles: Vec<RoleId>,
        /// Who becomes, or ceases to be, a member.
        members: Vec<RoleId>,
    },
    /// COMMENT ON.
    Comment {
        /// Which object.
        object: ObjectId,
        /// Which column of it, from 0.
        column: Option<usize>,
        /// The text; `None` removes it.
        text: Option<String>,
    },
    /// SHOW of a variable: one row, one text column.
    ShowVariable {
        /// The canonical name.
        variable: String,
        /// The result's shape.
        desc: Arc<RelationDesc>,
    },
    /// SHOW TRANSACTION ISOLATION LEVEL: one row, one text column.
    ShowIsolationLevel {
        /// The result's shape.
        desc: Arc<RelationDesc>,
    },
    /// SHOW ALL: name, setting, description.
    ShowAll {
        /// The result's shape.
        desc: Arc<RelationDesc>,
    },
    /// SET: hand to [`crate::vars::SessionVars::set`], which has not been asked yet.
    Set {
        /// The variable, in lower case.
        variable: String,
        /// Its value.
        value: SetValue,
        /// Until the transaction ends.
        local: bool,
    },
    /// SET TRANSACTION.
    SetTransaction(TransactionModes),
    /// SET CONSTRAINTS.
    SetConstraints {
        /// The oids of the constraints; `None` for ALL.
        constraints: Option<Vec<u32>>,
        /// DEFERRED or IMMEDIATE.
        to: Deferral,
    },
    /// SET SESSION CHARACTERISTICS.
    SetSessionCharacteristics(TransactionModes),
    /// RESET; `None` is ALL.
    Reset(Option<String>),
    /// ALTER SYSTEM SET; superusers only, which was checked. The value was not.
    AlterSystemSet {
        /// The variable, in lower case.
        variable: String,
        /// Its value.
        value: SetValue,
    },
    /// ALTER SYSTEM RESET; `None` is ALL.
    AlterSystemReset(Option<String>),
    /// BEGIN.
    Begin(TransactionModes),
    /// COMMIT.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE.
    ReleaseSavepoint(String),
    /// ROLLBACK TO.
    RollbackToSavepoint(String),
    /// PREPARE: the adapter plans the statement as it does for Parse.
    Prepare {
        /// Its name.
        name: String,
        /// Declared parameter types.
        types: Vec<Option<PgType>>,
        /// What to prepare.
        statement: Box<Statement>,
        /// Its text.
        sql: String,
    },
    /// EXECUTE: bind each argument with [`plan_argument`] once the statement's parameter types are known.
    Execute {
        /// Its name.
        name: String,
        /// The arguments.
        arguments: Vec<sp::Expr>,
    },
    /// DEALLOCATE; `None` is ALL.
    Deallocate(Option<String>),
    /// DECLARE CURSOR.
    Declare {
        /// Its name.
        name: String,
        /// BINARY: rows that a simple query fetches come in the binary format.
        binary: bool,
        /// WITH HOLD.
        hold: bool,
        /// What it reads.
        read: Box<ReadPlan>,
    },
    /// FETCH or MOVE.
    Fetch {
        /// The cursor.
        name: String,
        /// How many rows; `None` is ALL.
        count: Option<u64>,
        /// MOVE.
        skip: bool,
        /// How long to wait for them, where they are those of a SUBSCRIBE; at least for one, if not given.
        timeout: Option<Duration>,
    },
    /// CLOSE; `None` is ALL.
    Close(Option<String>),
    /// DISCARD.
    Discard(DiscardTarget),
    /// Build anew what is maintained under this id, or on this table, and was stopped.
    Rebuild {
        /// A materialized view, an index or a table.
        id: GlobalId,
        /// The command tag.
        tag: &'static str,
        /// What the client is told if nothing was stopped.
        otherwise: PlanNotice,
    },
    /// Nothing is left to do: IF [NOT] EXISTS was met, or UNLISTEN ends what LISTEN, being refused, never began.
    NoOp {
        /// The command tag.
        tag: &'static str,
        /// What the client is told.
        notices: Vec<PlanNotice>,
    },
}

/// A query.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// Optimised; contains a placeholder per parameter.
    pub logical: LogicalPlan,
    /// What the client sees.
    pub desc: Arc<RelationDesc>,
    /// For each column that is one of a relation, which it is.
    pub origins: Vec<Option<ColumnOrigin>>,
    /// The types of `$1`, `$2`, ….
    pub params: Vec<PgType>,
    /// Every relation it reads, and the views through which it does.
    pub depends_on: Vec<GlobalId>,
    /// What it asks for of rows that others see, by FOR UPDATE and its kin; a read-only transaction may not.
    pub locks: Option<RowLocks>,
    /// What it reads under whose rights.
    pub rights: Vec<Right>,
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    /// Into which table.
    pub table: GlobalId,
    /// Its name, for messages.
    pub name: FullName,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
    /// The rows.
    pub source: InsertSource,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflictPlan>,
    /// RETURNING, over the table's columns.
    pub returning: Option<Returning>,
    /// By the oids of sequences: how many values of them the rows take, if they are expressions.
    pub takes: BTreeMap<u32, u64>,
    /// The same for what becomes of each row: ON CONFLICT DO UPDATE and RETURNING.
    pub row_takes: BTreeMap<u32, u64>,
    /// The types of `$1`, `$2`, ….
    pub params: Vec<PgType>,
    /// Every relation it reads or writes.
    pub depends_on: Vec<GlobalId>,
}

/// Where INSERT's rows come from. NOT NULL is for the executor to check, on the rows.
#[derive(Clone, Debug)]
pub enum InsertSource {
    /// Expressions over constants, parameters and functions only: one expression per column of the table, in order,
    /// with defaults filled in and cast to the column's type. They refer to no columns: evaluate them over an empty row.
    Values {
        /// The rows.
        rows: Vec<Vec<Expr>>,
    },
    /// A query whose output is the table's columns, in order and in their types. Optimised.
    Query(LogicalPlan),
}

/// ON CONFLICT: what becomes of a row whose key is taken.
#[derive(Clone, Debug)]
pub struct OnConflictPlan {
    /// The oids of the constraints whose keys count; what violates another is an error.
    pub arbiters: Vec<u32>,
    /// DO UPDATE; without it, DO NOTHING.
    pub update: Option<Box<ConflictUpdate>>,
}

/// ON CONFLICT … DO UPDATE.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// One per column of the table: its new value, in its type.
    pub values: Vec<Expr>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// What they read: the table's columns as they are, then those of the row that was to be inserted.
    pub schema: DFSchemaRef,
    /// The table's row whose key is `$1`, `$2`, …. Optimised.
    pub lookup: SelectPlan,
    /// All rows of the table. Optimised.
    pub scan: SelectPlan,
}

/// RETURNING: expressions over one row of a table, and what an UPDATE or DELETE has found beside it.
#[derive(Clone, Debug)]
pub struct Returning {
    /// One per output column.
    pub exprs: Vec<Expr>,
    /// The row that they read: the table's columns, then the others, which are the last that the statement's query gives.
    pub schema: DFSchemaRef,
    /// What the client sees.
    pub desc: Arc<RelationDesc>,
    /// For each column that is one of the table, which it is.
    pub origins: Vec<Option<ColumnOrigin>>,
}

/// UPDATE, DELETE or TRUNCATE.
#[derive(Clone, Debug)]
pub struct ReadThenWritePlan {
    /// Of which table.
    pub table: GlobalId,
    /// Its name, for messages.
    pub name: FullName,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
    /// Which of the three.
    pub kind: ReadThenWriteKind,
    /// Delete: each row to delete, as often as it is there. Update: the old row's columns, then the new row's, which are
    /// in the table's types. Optimised.
    pub selection: LogicalPlan,
    /// RETURNING, over the old row (DELETE) or the new one (UPDATE).
    pub returning: Option<Returning>,
    /// The types of `$1`, `$2`, ….
    pub params: Vec<PgType>,
    /// Every relation it reads or writes.
    pub depends_on: Vec<GlobalId>,
}

/// TRUNCATE of several tables, or with RESTART IDENTITY.
#[derive(Clone, Debug)]
pub struct TruncatePlan {
    /// The tables, each once.
    pub tables: Vec<ReadThenWritePlan>,
    /// The sequences of their columns, if they begin again.
    pub restarts: Vec<AlterSequencePlan>,
}

/// What a [`ReadThenWritePlan`] does with the rows it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadThenWriteKind {
    /// Replaces them.
    Update,
    /// Removes them.
    Delete,
    /// Removes them; the tag says TRUNCATE TABLE.
    Truncate,
}

/// COPY FROM STDIN.
#[derive(Clone, Debug)]
pub struct CopyFromPlan {
    /// Into which table.
    pub table: GlobalId,
    /// Its name, for messages.
    pub name: FullName,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
    /// For each field of a line, the column it goes to.
    pub columns: Vec<usize>,
    /// For each column of the table that no field goes to, its default, cast to the column's type (NULL without one).
    pub defaults: Vec<(usize, Expr)>,
    /// The format.
    pub options: CopyOptions,
    /// The table.
    pub depends_on: Vec<GlobalId>,
}

/// COPY TO STDOUT.
#[derive(Clone, Debug)]
pub struct CopyToPlan {
    /// What is written.
    pub read: ReadPlan,
    /// The format.
    pub options: CopyOptions,
}

/// EXPLAIN.
#[derive(Clone, Debug)]
pub struct ExplainPlan {
    /// What is shown.
    pub stage: ExplainStage,
    /// In more detail.
    pub verbose: bool,
    /// Text or JSON.
    pub format: ExplainFormat,
    /// Of what.
    pub of: Explained,
    /// The result's shape: one text column.
    pub desc: Arc<RelationDesc>,
}

/// What is explained.
#[derive(Clone, Debug)]
pub enum Explained {
    /// A query or a data change.
    Plan(Box<Plan>),
    /// A view, a materialized view or an index.
    Object(GlobalId),
}

/// Where a table is made.
#[derive(Clone, Debug)]
pub enum TableSchema {
    /// In a schema that is there.
    Existing(SchemaId),
    /// In the session's schema for temporary tables, which its first one brings with it.
    Temporary {
        /// In which database.
        database: DatabaseId,
        /// What it is called.
        name: String,
    },
}

/// CREATE TABLE.
#[derive(Clone, Debug)]
pub struct CreateTablePlan {
    /// In which schema.
    pub schema: TableSchema,
    /// Its full name.
    pub name: FullName,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
    /// For each column, its DEFAULT as SQL text.
    pub defaults: Vec<Option<String>>,
    /// Its constraints, without oids.
    pub constraints: Vec<ConstraintDef>,
    /// Whether the indexes of its keys answer reads.
    pub key_index: bool,
    /// The sequences that come with columns, by the position of the column, which has no other DEFAULT.
    pub sequences: Vec<(usize, NewSequence)>,
    /// What it takes by HTTP, of a source.
    pub webhook: Option<Box<WebhookDef>>,
    /// Whether IF NOT EXISTS was given, should the name be taken meanwhile.
    pub if_not_exists: bool,
}

/// CREATE TABLE AS.
#[derive(Clone, Debug)]
pub struct CreateTableAsPlan {
    /// The table.
    pub table: CreateTablePlan,
    /// What gives its rows, whose columns are the table's, in its types; `None` for WITH NO DATA.
    pub source: Option<SelectPlan>,
}

/// ALTER TABLE of columns and constraints.
#[derive(Clone, Debug)]
pub struct AlterTablePlan {
    /// Which table.
    pub id: GlobalId,
    /// What goes with columns that are dropped, dependents before what they depend on, each once.
    pub drops: Vec<ObjectId>,
    /// What is done then, in order; each is possible after those before it.
    pub changes: Vec<TableChange>,
    /// Where the columns of the rows come from afterwards, if every row is another one then.
    pub rewrite: Option<Vec<ColumnSource>>,
    /// What the client is told.
    pub notices: Vec<PlanNotice>,
}

/// Where a column of a table's rows comes from when they are written anew.
#[derive(Clone, Debug)]
pub enum ColumnSource {
    /// The column at this position before.
    Kept(usize),
    /// An expression of this type over the columns before, without a qualifier: a DEFAULT, which has none in it, or what the
    /// values of a column become that gets another type.
    New(Expr, DataType),
    /// The values of a new sequence, in this type.
    Numbered(SequenceParams, DataType),
}

/// One change of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// A new constraint, without oids. The rows have yet to be checked.
    AddConstraint(ConstraintDef),
    /// A constraint goes; what NOT NULL it brought stays.
    DropConstraint {
        /// Its name.
        name: String,
        /// Whether the views that need it go with it.
        cascade: bool,
    },
    /// A foreign key is checked at another time.
    SetDeferral {
        /// Its name.
        name: String,
        /// When it is checked.
        deferral: Deferral,
    },
    /// A foreign key is valid from here on. The rows have yet to be checked.
    ValidateConstraint(String),
    /// A constraint gets another name.
    RenameConstraint {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// A change of the columns.
    Column(ColumnChange),
    /// A change of the sequence of a column.
    Sequence(AlterSequencePlan),
}

/// CREATE VIEW or CREATE MATERIALIZED VIEW.
#[derive(Clone, Debug)]
pub struct CreateViewPlan {
    /// In which schema.
    pub schema: SchemaId,
    /// Its full name.
    pub name: FullName,
    /// Its definition.
    pub view: ViewDef,
    /// The cluster that maintains a materialized view; `None` for a plain one.
    pub cluster: Option<ClusterId>,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
    /// OR REPLACE of this view, which has the same owner and whose dependents stay: the new columns start with the old.
    pub replace: Option<GlobalId>,
    /// Whether IF NOT EXISTS was given.
    pub if_not_exists: bool,
}

/// GRANT or REVOKE of privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantPlan {
    /// REVOKE.
    pub revoke: bool,
    /// Which.
    pub grants: Vec<Grant>,
    /// To or from whom.
    pub grantees: Vec<Grantee>,
}

/// Privileges on an object, or on a column of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The object.
    pub object: ObjectId,
    /// The column's position, if they are on one.
    pub column: Option<usize>,
    /// Which.
    pub privileges: Vec<Privilege>,
}

/// To whom a privilege is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grantee {
    /// Everybody.
    Public,
    /// A role.
    Role(RoleId),
}

/// Plans a statement for the role, database and search path of `ctx`. Types of parameters that `params` leaves open
/// are inferred and recorded there.
pub fn plan(ctx: &PlanContext<'_>, statement: &Statement, params: &mut Params) -> Result<Plan, SqlError> {
    match statement {
        Statement::Query(query) => Ok(Plan::Select(query::plan_select(ctx, query, params)?)),
        Statement::QueryAsOf { .. } | Statement::Subscribe(_) => {
            Ok(Plan::Read(read::plan_read(ctx, statement, params)?))
        }
        Statement::Insert(insert, overriding) => dml::plan_insert(ctx, insert, *overriding, params),
        Statement::Update(update) => dml::plan_update(ctx, update, params),
        Statement::Delete(delete) => dml::plan_delete(ctx, delete, params),
        Statement::Truncate(truncate) => dml::plan_truncate(ctx, truncate),
        Statement::Upkeep(upkeep) => session::plan_upkeep(ctx, upkeep),
        Statement::Copy(copy) => copy::plan_copy(ctx, copy),
        Statement::Explain(explain) => explain::plan_explain(ctx, explain, params),
        Statement::CreateDatabase { name, if_not_exists } => ddl::plan_create_database(ctx, name, *if_not_exists),
        Statement::CreateSchema { name, if_not_exists, authorization } => {
            ddl::plan_create_schema(ctx, name, *if_not_exists, authorization.as_deref())
        }
        Statement::CreateTable(create) => ddl::plan_create_table(ctx, create),
        Statement::CreateTableAs(create) => ddl::plan_create_table_as(ctx, create),
        Statement::AlterTable(alter) => ddl::plan_alter_table(ctx, alter),
        Statement::CreateView(create) => ddl::plan_create_view(ctx, create),
        Statement::CreateIndex(create) => ddl::plan_create_index(ctx, create),
        Statement::CreateSequence(create) => ddl::plan_create_sequence(ctx, create),
        Statement::AlterSequence(alter) => ddl::plan_alter_sequence(ctx, alter),
        Statement::CreateWebhook(create) => ddl::plan_create_webhook(ctx, create),
        Statement::CreateSecret(create) => ddl::plan_create_secret(ctx, create),
        Statement::AlterSecret(alter) => ddl::plan_alter_secret(ctx, alter),
        Statement::CreateModel(create) => ddl::plan_create_model(ctx, create),
        Statement::AlterModel(alter) => ddl::plan_alter_model(ctx, alter),
        Statement::CreateCluster { name, if_not_exists, options } => {
            ddl::plan_create_cluster(ctx, name, *if_not_exists, options)
        }
        Statement::AlterCluster { name, if_exists, options } => ddl::plan_alter_cluster(ctx, name, *if_exists, options),
        Statement::CreateRole { name, if_not_exists, options } => {
            roles::plan_create_role(ctx, name, *if_not_exists, options)
        }
        Statement::AlterRole { name, options } => roles::plan_alter_role(ctx, name, options),
        Statement::AlterRoleSet { name, variable, value } => roles::plan_alter_role_set(ctx, name, variable, value),
        Statement::AlterOwner { kind, name, if_exists, owner } => {
            ddl::plan_alter_owner(ctx, *kind, name, *if_exists, owner)
        }
        Statement::AlterRename { kind, name, if_exists, to } => {
            ddl::plan_alter_rename(ctx, *kind, name, *if_exists, to)
        }
        Statement::AlterSetCluster { kind, name, if_exists, cluster } => {
            ddl::plan_alter_set_cluster(ctx, *kind, name, *if_exists, cluster)
        }
        Statement::Drop(drop) => drop::plan_drop(ctx, drop),
        Statement::GrantPrivileges(grant) => roles::plan_grant(ctx, grant),
        Statement::DefaultPrivileges(defaults) => default_privileges::plan_default_privileges(ctx, defaults),
        Statement::GrantRole(grant) => roles::plan_grant_role(ctx, grant),
        Statement::ShowObjects(show) => show::plan_show_objects(ctx, show, params),
        Statement::ShowCreate { kind, name } => show::plan_show_create(ctx, *kind, name, params),
        Statement::Comment { kind, name, text } => ddl::plan_comment(ctx, *kind, name, text.as_deref()),
        Statement::Rebuild { kind, name } => ddl::plan_rebuild(ctx, *kind, name, statement.name()),
        Statement::Declare { name, binary, hold, query } => {
            let read = Box::new(read::plan_read(ctx, query, params)?);
            Ok(Plan::Declare { name: name.clone(), binary: *binary, hold: *hold, read })
        }
        other => session::plan_session(ctx, other),
    }
}

/// Binds an argument of EXECUTE for a parameter of type `ty`: a constant expression, cast as for an assignment.
pub fn plan_argument(ctx: &PlanContext<'_>, argument: &sp::Expr, ty: &PgType) -> Result<Expr, SqlError> {
    session::plan_argument(ctx, argument, ty)
}
