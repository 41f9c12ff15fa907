//! What is going on, as `mz_internal` and `mz_introspection` show it: progress, freshness and cost of what is stored and
//! maintained.
//!
//! The catalog knows what exists and not how it is kept up to date. Whoever reads a system relation hands in how to find
//! out ([`Live`]), and is asked only by the relations of this file. Their rows are of the moment of the scan, not of the
//! statement's timestamp.

use super::history::Execution;
use super::{Context, Producer, SystemRelation, maybe, text};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use engine::names::RoleId;
use engine::session::AdvisoryKey;
use repr::datum::Datum;
use repr::{GlobalId, Timestamp};
use sql::plan::{CatalogView, ItemKind};
use std::net::SocketAddr;
use std::sync::Arc;

/// How to find out what is going on.
pub trait Live: Sync {
    /// The state of every table, index and materialized view, in any order.
    fn collections(&self) -> Vec<CollectionStatus>;

    /// The state of every session, in any order.
    fn sessions(&self) -> Vec<SessionStatus>;

    /// Who holds locks, and who waits for them, by what is locked.
    fn locks(&self) -> Vec<LockStatus>;

    /// Statements that were sampled, the oldest first.
    fn executions(&self) -> Vec<Arc<Execution>>;

    /// Where a sequence stands.
    fn position(&self, sequence: GlobalId) -> Option<engine::session::Position>;
}

/// Where there is nothing to ask.
pub struct NothingLive;

impl Live for NothingLive {
    fn collections(&self) -> Vec<CollectionStatus> {
        Vec::new()
    }

    fn sessions(&self) -> Vec<SessionStatus> {
        Vec::new()
    }

    fn locks(&self) -> Vec<LockStatus> {
        Vec::new()
    }

    fn executions(&self) -> Vec<Arc<Execution>> {
        Vec::new()
    }

    fn position(&self, _sequence: GlobalId) -> Option<engine::session::Position> {
        None
    }
}

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// A number on which users agree.
    Advisory {
        /// The database's oid.
        database: u32,
        /// The number.
        key: AdvisoryKey,
    },
    /// A row of this table.
    Row(GlobalId),
    /// All rows of this table.
    Table(GlobalId),
}

/// A holder of a lock in one of its modes, or a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStatus {
    /// What is locked.
    pub what: Locked,
    /// Which session.
    pub session: u32,
    /// Whom it keeps out, or is to, by PostgreSQL's name.
    pub mode: &'static str,
    /// Whether it is held.
    pub granted: bool,
}

/// A table, an index or a materialized view at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionStatus {
    /// Which one.
    pub id: GlobalId,
    /// It is readable from this time on.
    pub since: Timestamp,
    /// It has everything that will ever be below this time; 0 if nothing is known yet.
    pub upper: Timestamp,
    /// How long ago, at most, the oldest write was that it does not show, in microseconds; 0 if it shows all. `None` before
    /// it can be read.
    pub lag_us: Option<u64>,
    /// Of what a dataflow maintains.
    pub arrangement: Option<Arrangement>,
}

/// A session at one moment. Times are microseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// `pg_backend_pid()`.
    pub id: u32,
    /// Who logged in.
    pub role: RoleId,
    /// What its token says.
    pub claims: Option<Arc<str>>,
    /// The database.
    pub database: String,
    /// What the client calls itself.
    pub application_name: String,
    /// Where the client is.
    pub peer: Option<SocketAddr>,
    /// How what it says is encrypted, if it is.
    pub encryption: Option<Encryption>,
    /// When it began.
    pub started_us: i64,
    /// When its transaction began, if it is in one.
    pub transaction_us: Option<i64>,
    /// When its latest statement began.
    pub statement_us: Option<i64>,
    /// When it last began or ended a statement.
    pub changed_us: i64,
    /// `active`, `idle`, …
    pub state: &'static str,
    /// Its latest statement.
    pub statement: Arc<str>,
    /// Whether that waits until fewer ad hoc statements run.
    pub is_waiting_for_turn: bool,
}

/// How a session's connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The protocol: `TLSv1.3`.
    pub version: &'static str,
    /// The cipher, as OpenSSL calls it.
    pub cipher: String,
    /// The bits of its key.
    pub bits: i32,
}

/// What a dataflow holds of a collection, and how it came to that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// Whether the dataflow has caught up with its inputs since it was started.
    pub is_hydrated: bool,
    /// Updates, an upper bound on the rows.
    pub record_count: usize,
    /// Batches that they are in.
    pub batch_count: usize,
    /// Bytes of memory that these take.
    pub byte_count: usize,
    /// How far its hydration is, or was.
    pub hydration: Hydration,
    /// Bytes of memory that the dataflow has, in arrangements of its own and on their way there.
    pub memory_used: usize,
    /// Bytes that it may have.
    pub memory_allowed: usize,
    /// Why it shows nothing, and never will.
    pub error: Option<String>,
}

/// How far the hydration of a dataflow is: of what there is in its inputs, what was read. Updates that cancel out are in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hydration {
    /// Rows to read.
    pub rows_total: u64,
    /// Rows that were read.
    pub rows_read: u64,
    /// Bytes to read.
    pub bytes_total: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// How long it took, or has taken so far, in microseconds.
    pub took_us: u64,
}

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "mz_hydration_statuses" => hydration_statuses,
        "mz_frontiers" => frontiers,
        "mz_wallclock_global_lag" => wallclock_global_lag,
        "mz_arrangement_sizes" => arrangement_sizes,
        "mz_maintained_statuses" => maintained_statuses,
        "pg_stat_progress_create_index" => progress_create_index,
        _ => return None,
    })
}

fn collections(context: &Context<'_>) -> Vec<CollectionStatus> {
    let mut all = context.live.collections();
    all.sort_by_key(|collection| collection.id);
    all
}

fn object_id(collection: &CollectionStatus) -> Datum<'static> {
    text(collection.id.to_string())
}

fn hydration_statuses(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |collection: &CollectionStatus| {
        let hydrated = collection.arrangement.as_ref()?.is_hydrated;
        let cluster = context.catalog.item(collection.id).and_then(|item| item.cluster());
        let replica = maybe(cluster, |cluster| super::mz_catalog::replica_id(cluster, 1));
        Some([object_id(collection), replica, Datum::Bool(hydrated)])
    };
    relation.batch(["object_id", "replica_id", "hydrated"], collections(context).iter().filter_map(row).collect())
}

fn frontiers(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let timestamp = |ts: Timestamp| Datum::Numeric(arrow::datatypes::i256::from_i128(ts.into()), 0);
    let row = |collection: &CollectionStatus| {
        [object_id(collection), timestamp(collection.since), timestamp(collection.upper)]
    };
    relation.batch(["object_id", "read_frontier", "write_frontier"], collections(context).iter().map(row).collect())
}

fn wallclock_global_lag(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |collection: &CollectionStatus| {
        let lag = |us: u64| Datum::Interval(0, 0, i64::try_from(us).unwrap_or(i64::MAX));
        [object_id(collection), maybe(collection.lag_us, lag)]
    };
    relation.batch(["object_id", "lag"], collections(context).iter().map(row).collect())
}

fn arrangement_sizes(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |collection: &CollectionStatus| {
        let Arrangement { record_count, batch_count, byte_count, .. } = collection.arrangement.as_ref()?;
        Some([object_id(collection), count(*record_count), count(*batch_count), count(*byte_count)])
    };
    let rows = collections(context).iter().filter_map(row).collect();
    relation.batch(["object_id", "records", "batches", "size"], rows)
}

fn count(count: impl TryInto<i64>) -> Datum<'static> {
    Datum::Int8(count.try_into().unwrap_or(i64::MAX))
}

/// Indexes and materialized views with their names: how far each is, what it uses, and why it failed if it did.
fn maintained_statuses(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |collection: &CollectionStatus| {
        let arrangement = collection.arrangement.as_ref()?;
        let item = context.catalog.item(collection.id)?;
        let cluster = item.cluster().and_then(|cluster| context.catalog.cluster(cluster));
        let status = match arrangement {
            Arrangement { error: Some(_), .. } => "failed",
            Arrangement { is_hydrated: true, .. } => "running",
            _ => "hydrating",
        };
        let Hydration { rows_total, rows_read, bytes_total, bytes_read, took_us } = arrangement.hydration;
        Some([
            object_id(collection),
            maybe(item.name.database.as_deref(), text),
            text(&item.name.schema),
            text(&item.name.item),
            text(if matches!(item.kind, ItemKind::Index(_)) { "index" } else { "materialized-view" }),
            maybe(cluster, |cluster| text(&cluster.name)),
            text(status),
            maybe(arrangement.error.as_deref(), text),
            count(rows_read),
            count(rows_total),
            count(bytes_read),
            count(bytes_total),
            Datum::Interval(0, 0, i64::try_from(took_us).unwrap_or(i64::MAX)),
            count(arrangement.memory_used),
            count(arrangement.memory_allowed),
        ])
    };
    relation.batch(
        [
            "object_id",
            "database",
            "schema",
            "name",
            "type",
            "cluster",
            "status",
            "error",
            "rows_read",
            "rows_total",
            "bytes_read",
            "bytes_total",
            "hydration_time",
            "memory_used",
            "memory_allowed",
        ],
        collections(context).iter().filter_map(row).collect(),
    )
}

/// The indexes of the current database that are being built. No session builds them, and they are not read in blocks: what
/// PostgreSQL counts in these is counted in the same 8 kB.
fn progress_create_index(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    const BLOCK_BYTES: u64 = 8_192;
    let Some(database) = context.database() else { return relation.batch([], Vec::new()) };
    let row = |collection: &CollectionStatus| {
        let arrangement = collection.arrangement.as_ref().filter(|it| !it.is_hydrated && it.error.is_none())?;
        let item = context.catalog.item(collection.id)?;
        let ItemKind::Index(index) = &item.kind else { return None };
        let on = context.catalog.item(index.on)?;
        if item.name.database.as_ref() != Some(&database.name) {
            return None;
        }
        let Hydration { rows_total, rows_read, bytes_total, bytes_read, .. } = arrangement.hydration;
        let phase = match rows_read {
            0 if rows_total > 0 => "initializing",
            read if read < rows_total => "building index: scanning table",
            _ => "building index: loading tuples in tree",
        };
        Some([
            Datum::Oid(database.oid),
            text(&database.name),
            Datum::Oid(on.oid),
            Datum::Oid(item.oid),
            text("CREATE INDEX"),
            text(phase),
            count(bytes_total.div_ceil(BLOCK_BYTES)),
            count(bytes_read / BLOCK_BYTES),
            count(rows_total),
            count(rows_read),
        ])
    };
    relation.batch(
        [
            "datid",
            "datname",
            "relid",
            "index_relid",
            "command",
            "phase",
            "blocks_total",
            "blocks_done",
            "tuples_total",
            "tuples_done",
        ],
        collections(context).iter().filter_map(row).collect(),
    )
}
