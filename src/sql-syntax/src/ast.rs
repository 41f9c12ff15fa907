//! Statements, parsed and not yet resolved.
//!
//! Queries, data changes and every expression inside them are sqlparser's own types (`sqlparser::ast`),
//! because DataFusion's planner reads those. Everything else is a type of ours, with names folded and values checked as
//! far as that needs no catalog: sqlparser's DDL types cover a dozen dialects and would make every consumer refuse
//! hundreds of fields.
//!
//! # Invariants
//! - A value of these types holds nothing that would be ignored: what is not supported was refused by the parser.

mod alter_table;
mod constraint;
mod copy;
mod default_privileges;
mod grant;
mod isolation;
mod model;
mod recursion;
mod secret;
mod sequence;
pub mod visit;
mod webhook;

use crate::names::Name;
use engine::names::ObjectKind;
use repr::PgType;
use sqlparser::ast as sp;

pub use alter_table::{AlterTable, TableAction};
pub use constraint::{Action, ConstraintSpec, Deferral, ForeignSpec, SetConstraints, TableConstraint};
pub use copy::{Copy, CopyDirection, CopySource, Forced, ForcedColumns};
pub use default_privileges::{DefaultKind, DefaultPrivileges};
pub use grant::{GrantPrivileges, GrantRole, GrantTarget, PrivilegeSpec};
pub use isolation::IsolationLevel;
pub use model::{AlterModel, CreateModel, ModelFile};
pub use recursion::{limit_of, mark, print_query};
pub use secret::{AlterSecret, CreateSecret, NewPassword, Secret, SecretValue};
pub use sequence::{AlterSequence, Bound, ColumnSequence, CreateSequence, Identity, Overriding, SequenceOptions};
pub use webhook::{BodyFormat, CheckInput, CheckOf, CreateWebhook, CsvBody, HeaderFilter, MappedHeader, WebhookCheck};

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// SELECT, VALUES, TABLE, WITH … SELECT.
    Query(Box<sp::Query>),
    /// The same as of a given time.
    QueryAsOf {
        /// The query.
        query: Box<sp::Query>,
        /// The time.
        as_of: Box<AsOf>,
    },
    /// SUBSCRIBE.
    Subscribe(Box<Subscribe>),
    /// INSERT.
    Insert(Box<sp::Insert>, Option<Overriding>),
    /// UPDATE.
    Update(Box<sp::Update>),
    /// DELETE.
    Delete(Box<sp::Delete>),
    /// TRUNCATE: deletes everything.
    Truncate(Truncate),
    /// VACUUM, ANALYZE.
    Upkeep(Upkeep),
    /// COPY.
    Copy(Copy),
    /// EXPLAIN in all its forms.
    Explain(Explain),
    /// CREATE DATABASE.
    CreateDatabase {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// One or two parts.
        name: Name,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// AUTHORIZATION: its owner.
        authorization: Option<String>,
    },
    /// CREATE TABLE.
    CreateTable(CreateTable),
    /// CREATE TABLE AS.
    CreateTableAs(CreateTableAs),
    /// ALTER TABLE.
    AlterTable(AlterTable),
    /// CREATE VIEW or MATERIALIZED VIEW.
    CreateView(CreateView),
    /// CREATE INDEX.
    CreateIndex(CreateIndex),
    /// CREATE SEQUENCE.
    CreateSequence(CreateSequence),
    /// ALTER SEQUENCE.
    AlterSequence(AlterSequence),
    /// CREATE SOURCE … FROM WEBHOOK.
    CreateWebhook(CreateWebhook),
    /// CREATE SECRET.
    CreateSecret(CreateSecret),
    /// ALTER SECRET … AS.
    AlterSecret(AlterSecret),
    /// CREATE SEMANTIC MODEL.
    CreateModel(CreateModel),
    /// ALTER SEMANTIC MODEL … AS.
    AlterModel(AlterModel),
    /// CREATE CLUSTER.
    CreateCluster {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Its options.
        options: ClusterOptions,
    },
    /// ALTER CLUSTER … SET (…).
    AlterCluster {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// The options to change.
        options: ClusterOptions,
    },
    /// CREATE ROLE or USER.
    CreateRole {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Its attributes.
        options: RoleOptions,
    },
    /// ALTER ROLE … with attributes.
    AlterRole {
        /// Its name.
        name: String,
        /// The attributes to change.
        options: RoleOptions,
    },
    /// ALTER ROLE … SET / RESET: a session default of that role.
    AlterRoleSet {
        /// Its name.
        name: String,
        /// The variable, in lower case.
        variable: String,
        /// The value; [`SetValue::Default`] for RESET.
        value: SetValue,
    },
    /// ALTER … OWNER TO.
    AlterOwner {
        /// What kind of object.
        kind: ObjectKind,
        /// Which one.
        name: Name,
        /// IF EXISTS.
        if_exists: bool,
        /// The new owner.
        owner: RoleSpec,
    },
    /// ALTER … RENAME TO.
    AlterRename {
        /// What kind of object.
        kind: ObjectKind,
        /// Which one.
        name: Name,
        /// IF EXISTS.
        if_exists: bool,
        /// The new last part of its name.
        to: String,
    },
    /// ALTER MATERIALIZED VIEW | INDEX … SET CLUSTER.
    AlterSetCluster {
        /// What kind of object.
        kind: ObjectKind,
        /// Which one.
        name: Name,
        /// IF EXISTS.
        if_exists: bool,
        /// The cluster that is to maintain it.
        cluster: String,
    },
    /// DROP.
    Drop(Drop),
    /// GRANT or REVOKE of privileges on objects.
    GrantPrivileges(GrantPrivileges),
    /// ALTER DEFAULT PRIVILEGES.
    DefaultPrivileges(DefaultPrivileges),
    /// GRANT or REVOKE of membership in roles.
    GrantRole(GrantRole),
    /// SHOW of a variable.
    ShowVariable(String),
    /// SHOW TRANSACTION ISOLATION LEVEL.
    ShowIsolationLevel,
    /// SHOW ALL.
    ShowAll,
    /// SHOW of objects.
    ShowObjects(ShowObjects),
    /// SHOW CREATE TABLE | VIEW | MATERIALIZED VIEW | INDEX | SOURCE.
    ShowCreate {
        /// What kind of object.
        kind: ObjectKind,
        /// Which one.
        name: Name,
    },
    /// SET [SESSION | LOCAL].
    Set {
        /// The variable, in lower case.
        variable: String,
        /// Its value.
        value: SetValue,
        /// SET LOCAL: until the transaction ends.
        local: bool,
    },
    /// SET TRANSACTION.
    SetTransaction(TransactionModes),
    /// SET CONSTRAINTS.
    SetConstraints(SetConstraints),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    SetSessionCharacteristics(TransactionModes),
    /// RESET x; `None` is RESET ALL.
    Reset(Option<String>),
    /// ALTER SYSTEM SET.
    AlterSystemSet {
        /// The variable, in lower case.
        variable: String,
        /// Its value.
        value: SetValue,
    },
    /// ALTER SYSTEM RESET x; `None` is RESET ALL.
    AlterSystemReset(Option<String>),
    /// BEGIN or START TRANSACTION.
    Begin(TransactionModes),
    /// COMMIT or END.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE SAVEPOINT.
    ReleaseSavepoint(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackToSavepoint(String),
    /// PREPARE.
    Prepare {
        /// The statement's name.
        name: String,
        /// The declared parameter types; `None` for `unknown`.
        types: Vec<Option<PgType>>,
        /// What to prepare.
        statement: Box<Statement>,
        /// Its text.
        sql: String,
    },
    /// EXECUTE.
    Execute {
        /// The statement's name.
        name: String,
        /// Expressions without columns.
        arguments: Vec<sp::Expr>,
    },
    /// DEALLOCATE; `None` is ALL.
    Deallocate(Option<String>),
    /// DECLARE … CURSOR FOR.
    Declare {
        /// The cursor's name.
        name: String,
        /// BINARY: rows that a simple query fetches come in the binary format.
        binary: bool,
        /// WITH HOLD.
        hold: bool,
        /// A query, with or without AS OF, or a SUBSCRIBE.
        query: Box<Statement>,
    },
    /// FETCH or MOVE.
    Fetch {
        /// The cursor's name.
        name: String,
        /// How many rows; `None` is ALL.
        count: Option<u64>,
        /// MOVE: skip the rows.
        skip: bool,
        /// WITH (TIMEOUT = …), which only matters for cursors over SUBSCRIBE.
        timeout: Option<String>,
    },
    /// CLOSE; `None` is ALL.
    Close(Option<String>),
    /// DISCARD.
    Discard(DiscardTarget),
    /// LISTEN.
    Listen(String),
    /// UNLISTEN; `None` is `*`.
    Unlisten(Option<String>),
    /// COMMENT ON.
    Comment {
        /// What kind of object; `None` for a column, whose name is the last part.
        kind: Option<ObjectKind>,
        /// Which one.
        name: Name,
        /// The text; NULL removes it.
        text: Option<String>,
    },
    /// REFRESH MATERIALIZED VIEW, REINDEX.
    Rebuild {
        /// A materialized view, an index, or a table, which is all of its indexes.
        kind: ObjectKind,
        /// Which one.
        name: Name,
    },
}

impl Statement {
    /// The statement's name in messages such as `CREATE TABLE cannot run inside a transaction block`, which is also the
    /// command tag of those statements that return no rows.
    #[expect(clippy::too_many_lines, reason = "a line for each statement")]
    pub fn name(&self) -> &'static str {
        match self {
            Statement::Query(_) => "SELECT",
            Statement::Insert(..) => "INSERT",
            Statement::Update(_) => "UPDATE",
            Statement::Delete(_) => "DELETE",
            Statement::Truncate(_) => "TRUNCATE TABLE",
            Statement::Upkeep(upkeep) => upkeep.verb,
            Statement::Copy(_) => "COPY",
            Statement::Explain(_) => "EXPLAIN",
            Statement::CreateDatabase { .. } => "CREATE DATABASE",
            Statement::CreateSchema { .. } => "CREATE SCHEMA",
            Statement::CreateTable(_) => "CREATE TABLE",
            Statement::CreateTableAs(_) => "CREATE TABLE AS",
            Statement::AlterTable(_) => "ALTER TABLE",
            Statement::CreateView(create) => create.tag(),
            Statement::CreateIndex(_) => "CREATE INDEX",
            Statement::CreateSequence(_) => "CREATE SEQUENCE",
            Statement::CreateWebhook(_) => "CREATE SOURCE",
            Statement::CreateSecret(_) => "CREATE SECRET",
            Statement::AlterSecret(_) => "ALTER SECRET",
            Statement::CreateModel(_) => "CREATE SEMANTIC MODEL",
            Statement::AlterModel(_) => "ALTER SEMANTIC MODEL",
            Statement::AlterSequence(_) => "ALTER SEQUENCE",
            Statement::CreateCluster { .. } => "CREATE CLUSTER",
            Statement::AlterCluster { .. } => "ALTER CLUSTER",
            Statement::CreateRole { .. } => "CREATE ROLE",
            Statement::AlterRole { .. } | Statement::AlterRoleSet { .. } => "ALTER ROLE",
            Statement::AlterOwner { kind, .. }
            | Statement::AlterRename { kind, .. }
            | Statement::AlterSetCluster { kind, .. } => kind.alter_tag(),
            Statement::Drop(drop) => drop.kind.drop_tag(),
            Statement::GrantPrivileges(grant) if grant.revoke => "REVOKE",
            Statement::GrantPrivileges(_) => "GRANT",
            Statement::DefaultPrivileges(_) => "ALTER DEFAULT PRIVILEGES",
            Statement::GrantRole(grant) if grant.revoke => "REVOKE ROLE",
            Statement::GrantRole(_) => "GRANT ROLE",
            Statement::ShowVariable(_)
            | Statement::ShowIsolationLevel
            | Statement::ShowAll
            | Statement::ShowObjects(_)
            | Statement::ShowCreate { .. } => "SHOW",
            Statement::SetConstraints(_) => "SET CONSTRAINTS",
            Statement::Set { .. } | Statement::SetTransaction(_) | Statement::SetSessionCharacteristics(_) => "SET",
            Statement::Reset(_) => "RESET",
            Statement::AlterSystemSet { .. } | Statement::AlterSystemReset(_) => "ALTER SYSTEM",
            Statement::Begin(_) => "BEGIN",
            Statement::Commit { .. } => "COMMIT",
            Statement::Rollback { .. } | Statement::RollbackToSavepoint(_) => "ROLLBACK",
            Statement::Savepoint(_) => "SAVEPOINT",
            Statement::ReleaseSavepoint(_) => "RELEASE",
            Statement::Prepare { .. } => "PREPARE",
            Statement::Execute { .. } => "EXECUTE",
            Statement::Deallocate(None) => "DEALLOCATE ALL",
            Statement::Deallocate(Some(_)) => "DEALLOCATE",
            Statement::QueryAsOf { .. } => "SELECT",
            Statement::Subscribe(_) => "SUBSCRIBE",
            Statement::Declare { .. } => "DECLARE CURSOR",
            Statement::Fetch { skip: true, .. } => "MOVE",
            Statement::Fetch { .. } => "FETCH",
            Statement::Close(None) => "CLOSE CURSOR ALL",
            Statement::Close(Some(_)) => "CLOSE CURSOR",
            Statement::Discard(DiscardTarget::All) => "DISCARD ALL",
            Statement::Discard(DiscardTarget::Plans) => "DISCARD PLANS",
            Statement::Discard(DiscardTarget::Sequences) => "DISCARD SEQUENCES",
            Statement::Discard(DiscardTarget::Temporary) => "DISCARD TEMP",
            Statement::Listen(_) => "LISTEN",
            Statement::Unlisten(_) => "UNLISTEN",
            Statement::Comment { .. } => "COMMENT",
            Statement::Rebuild { kind: ObjectKind::MaterializedView, .. } => "REFRESH MATERIALIZED VIEW",
            Statement::Rebuild { .. } => "REINDEX",
        }
    }
}

/// AS OF.
#[derive(Clone, Debug, PartialEq)]
pub struct AsOf {
    /// AT LEAST: or the earliest readable time after it.
    pub at_least: bool,
    /// Microseconds since the epoch, or a timestamp.
    pub at: sp::Expr,
}

/// SUBSCRIBE.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscribe {
    /// What is followed.
    pub to: SubscribeTo,
    /// The form of its changes.
    pub envelope: Envelope,
    /// Whether it begins with what is there.
    pub snapshot: bool,
    /// Whether it tells how far time has come.
    pub progress: bool,
    /// Where it begins.
    pub as_of: Option<AsOf>,
    /// Before which time it ends.
    pub up_to: Option<sp::Expr>,
}

impl Subscribe {
    /// Makes it begin with what has happened after a time, in microseconds since the epoch.
    pub fn go_on(&mut self, after: u64) {
        self.snapshot = false;
        let at = sp::Expr::Value(sp::Value::Number(after.to_string(), false).into());
        self.as_of = Some(AsOf { at_least: false, at });
    }
}

/// What SUBSCRIBE follows.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscribeTo {
    /// A relation.
    Object(Name),
    /// A query.
    Query(Box<sp::Query>),
}

/// The form in which SUBSCRIBE gives changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Envelope {
    /// Rows with multiplicities.
    Diff,
    /// By key: the row it has now, or that it has none.
    Upsert(Vec<String>),
    /// By key: the row before and after.
    Debezium(Vec<String>),
    /// Rows with multiplicities, those of one time in this order.
    Within(Vec<OrderBy>),
}

/// A column of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// Its name, or `mz_diff`.
    pub column: String,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST, which is DESC's default.
    pub nulls_first: bool,
}

/// EXPLAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// What is to be shown.
    pub stage: ExplainStage,
    /// VERBOSE or WITH (…): more detail.
    pub verbose: bool,
    /// FORMAT.
    pub format: ExplainFormat,
    /// Of what.
    pub of: ExplainOf,
}

/// What EXPLAIN is about.
#[derive(Clone, Debug, PartialEq)]
pub enum ExplainOf {
    /// A statement.
    Statement(Box<Statement>),
    /// A view, a materialized view or an index that exists: how it is maintained.
    Object(Name),
}

/// What EXPLAIN shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainStage {
    /// EXPLAIN: the executor, index and key, and the plan.
    Default,
    /// EXPLAIN OPTIMIZED PLAN FOR: the logical plan after optimization.
    Optimized,
    /// EXPLAIN PHYSICAL PLAN FOR: what the executor runs.
    Physical,
    /// EXPLAIN TIMESTAMP FOR: how the timestamp was chosen.
    Timestamp,
    /// EXPLAIN ANALYZE: what the executor did when it ran.
    Analyze,
}

/// How EXPLAIN prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainFormat {
    /// One line per row.
    Text,
    /// One JSON document.
    Json,
}

/// TRUNCATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// Of these tables.
    pub names: Vec<Name>,
    /// RESTART IDENTITY: the sequences of their columns begin again.
    pub restart: bool,
    /// CASCADE: tables that refer to them as well.
    pub cascade: bool,
}

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub name: Name,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// TEMPORARY: it goes with the session.
    pub temporary: bool,
    /// Its columns.
    pub columns: Vec<ColumnDef>,
    /// Its constraints and those of its columns, in the order of the text.
    pub constraints: Vec<TableConstraint>,
    /// `WITH (KEY INDEX = …)`: whether its PRIMARY KEY and UNIQUE constraints have indexes that answer reads, if it was said.
    pub key_index: Option<bool>,
}

/// CREATE TABLE AS.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    /// The table's name.
    pub name: Name,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// TEMPORARY: it goes with the session.
    pub temporary: bool,
    /// New names for its first columns.
    pub columns: Vec<String>,
    /// As of [`CreateTable`], of the keys that it will get.
    pub key_index: Option<bool>,
    /// The query whose rows it gets.
    pub query: Box<sp::Query>,
    /// False for WITH NO DATA.
    pub with_data: bool,
}

/// A column of CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: PgType,
    /// False for NOT NULL.
    pub nullable: bool,
    /// DEFAULT.
    pub default: Option<sp::Expr>,
    /// `serial`, or GENERATED … AS IDENTITY.
    pub sequence: Option<ColumnSequence>,
}

/// CREATE VIEW or CREATE MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Its name.
    pub name: Name,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// New names for its first columns.
    pub columns: Vec<String>,
    /// Its query.
    pub query: Box<sp::Query>,
    /// The query's text.
    pub sql: String,
    /// What CREATE MATERIALIZED VIEW says beyond that; `None` for CREATE VIEW.
    pub materialized: Option<Materialized>,
}

/// How a materialized view is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Materialized {
    /// IN CLUSTER; the session's if absent.
    pub cluster: Option<String>,
}

impl CreateView {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        if self.materialized.is_some() { "CREATE MATERIALIZED VIEW" } else { "CREATE VIEW" }
    }
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// Its name; one is made up if absent.
    pub name: Option<String>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// UNIQUE.
    pub unique: bool,
    /// IN CLUSTER; the session's if absent.
    pub cluster: Option<String>,
    /// The table, view or materialized view.
    pub on: Name,
    /// The key; `None` (CREATE DEFAULT INDEX) is the relation's default key: all columns.
    pub keys: Option<Vec<(sp::Expr, KeyOptions)>>,
}

/// What an index's key says beside its expression. It is kept for those who ask: an arrangement is of no order, and answers what
/// an index of any order answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOptions {
    /// The operator class, if it is not its type's default one.
    pub class: Option<String>,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST, which DESC is without more words.
    pub nulls_first: bool,
}

/// Options of CREATE and ALTER CLUSTER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterOptions {
    /// SIZE: the number of workers as text.
    pub size: Option<String>,
    /// WORKERS.
    pub workers: Option<u64>,
    /// REPLICATION FACTOR.
    pub replication_factor: Option<u64>,
}

/// Attributes of CREATE and ALTER ROLE; `None` leaves the default, or what was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// SUPERUSER.
    pub superuser: Option<bool>,
    /// INHERIT.
    pub inherit: Option<bool>,
    /// LOGIN.
    pub login: Option<bool>,
    /// CREATEDB.
    pub create_db: Option<bool>,
    /// CREATEROLE.
    pub create_role: Option<bool>,
    /// CREATECLUSTER.
    pub create_cluster: Option<bool>,
    /// PASSWORD.
    pub password: Option<NewPassword>,
}

/// A role in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleSpec {
    /// By name.
    Name(String),
    /// CURRENT_USER, CURRENT_ROLE.
    Current,
    /// SESSION_USER.
    Session,
    /// PUBLIC: everybody.
    Public,
}

/// DROP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// What kind of objects.
    pub kind: ObjectKind,
    /// IF EXISTS.
    pub if_exists: bool,
    /// Which ones.
    pub names: Vec<Name>,
    /// CASCADE; the opposite of RESTRICT.
    pub cascade: bool,
}

/// SHOW of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ShowObjects {
    /// What is listed.
    pub kind: ShowKind,
    /// FROM / IN: a schema for items, a database for schemas.
    pub from: Option<Name>,
    /// ON: the relation whose indexes, or FROM: whose columns.
    pub on: Option<Name>,
    /// IN CLUSTER, for indexes and materialized views.
    pub cluster: Option<String>,
    /// LIKE or WHERE.
    pub filter: Option<ShowFilter>,
}

/// What SHOW lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the words after SHOW")]
pub enum ShowKind {
    Tables,
    Views,
    MaterializedViews,
    Sources,
    Secrets,
    SemanticModels,
    Indexes,
    Columns,
    Schemas,
    Databases,
    Clusters,
    Roles,
    Objects,
}

/// Which of the listed objects are wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum ShowFilter {
    /// LIKE on the name.
    Like(String),
    /// WHERE over the listed columns.
    Where(Box<sp::Expr>),
}

/// The value in SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// DEFAULT.
    Default,
    /// Values as text; more than one for lists such as search_path.
    Values(Vec<String>),
}

/// Modes of BEGIN and SET TRANSACTION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// ISOLATION LEVEL.
    pub isolation: Option<IsolationLevel>,
    /// READ ONLY (true) or READ WRITE (false).
    pub read_only: Option<bool>,
    /// DEFERRABLE; without effect here as in Postgres below SERIALIZABLE READ ONLY.
    pub deferrable: Option<bool>,
}

/// VACUUM or ANALYZE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// Which of the two.
    pub verb: &'static str,
    /// Of these tables; of all if there is none.
    pub tables: Vec<Name>,
}

/// What DISCARD throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the words after DISCARD")]
pub enum DiscardTarget {
    All,
    Plans,
    Sequences,
    Temporary,
}
