//! What is going on, as `mz_internal` and `mz_introspection` show it: progress, freshness and cost of what is stored and
//! maintained.
//!
//! The catalog knows what exists and not how it is kept up to date. Whoever reads a system relation hands in how to find
//! out ([`Live`]), and is asked only by the relations of this file. Their rows are of the moment of the scan, not of the
//! statement's timestamp.

use super::history::Execution;
use super::{Context, Producer, SystemRelation, maybe, text};
use arrow::array::RecordBatch;
use repr::datum::Datum;
use repr::{GlobalId, Timestamp};
use sql::engine::session::{AdvisoryKey, LockMode};
use sql::error::SqlError;
use sql::names::RoleId;
use sql::plan::CatalogView;
use std::net::SocketAddr;
use std::sync::Arc;

/// How to find out what is going on.
pub trait Live: Sync {
    /// The state of every table, index and materialized view, in any order.
    fn collections(&self) -> Vec<CollectionStatus>;

    /// The state of every session, in any order.
    fn sessions(&self) -> Vec<SessionStatus>;

    /// Who holds advisory locks, and who waits for them, by what is locked.
    fn locks(&self) -> Vec<LockStatus>;

    /// Statements that were sampled, the oldest first.
    fn executions(&self) -> Vec<Arc<Execution>>;

    /// Where a sequence stands.
    fn position(&self, sequence: GlobalId) -> Option<sql::plan::sequence::Position>;
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

    fn position(&self, _sequence: GlobalId) -> Option<sql::plan::sequence::Position> {
        None
    }
}

/// A holder of an advisory lock in one of its modes, or a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStatus {
    /// The database's oid.
    pub database: u32,
    /// What is locked.
    pub key: AdvisoryKey,
    /// Which session.
    pub session: u32,
    /// Whom it keeps out, or is to.
    pub mode: LockMode,
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

/// What a dataflow holds of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// Whether the dataflow has caught up with its inputs since it was started.
    pub is_hydrated: bool,
    /// Updates, an upper bound on the rows.
    pub record_count: usize,
    /// Batches that they are in.
    pub batch_count: usize,
    /// Bytes of memory that these take.
    pub byte_count: usize,
}

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "mz_hydration_statuses" => hydration_statuses,
        "mz_frontiers" => frontiers,
        "mz_wallclock_global_lag" => wallclock_global_lag,
        "mz_arrangement_sizes" => arrangement_sizes,
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
        let hydrated = collection.arrangement?.is_hydrated;
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
    let count = |count: usize| Datum::Int8(i64::try_from(count).unwrap_or(i64::MAX));
    let row = |collection: &CollectionStatus| {
        let Arrangement { record_count, batch_count, byte_count, .. } = collection.arrangement?;
        Some([object_id(collection), count(record_count), count(batch_count), count(byte_count)])
    };
    let rows = collections(context).iter().filter_map(row).collect();
    relation.batch(["object_id", "records", "batches", "size"], rows)
}
