//! The consensus store in a PostgreSQL, which several processes reach and one at a time writes.
//!
//! A transaction begins by counting itself in the one row of `glimpse_control`, under the epoch of its writer: without that
//! row there is nobody to write, and with it the row is locked until the end. So transactions and changes of the epoch come
//! one after the other, and the lock tells what became of a COMMIT whose answer was lost: whoever locks the row next waits
//! until that is decided, and reads in the count whether it was.
//!
//! BEGIN and all statements go out together, so that a transaction costs two round trips and one flush of the server's log.
//!
//! # Invariants
//! * `transactions` is the number of transactions of this epoch.
//! * Unsigned words are stored as the signed integers of the same bits.

use crate::background::Background;
use crate::consensus::{BatchRow, Consensus, Loaded, Payload, Txn};
use crate::encoding::check_format;
use crate::error::PersistError;
use crate::postgres::{Pool, Transacted, in_full, retry};
use crate::shard_id::ShardId;
use rand::Rng;
use repr::Timestamp;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The version of the tables.
const FORMAT: i32 = 1;
/// How long a store that does not answer is waited for, when the server runs.
const PATIENCE: Duration = Duration::from_secs(30);
/// The committer, compaction, and reads beside them.
const CONNECTIONS_MAX: usize = 8;

/// The lock keeps two processes that come first from making the tables twice.
const CREATE: &str = "
    BEGIN;
    SELECT pg_advisory_xact_lock(7453010373645655140);
    CREATE TABLE IF NOT EXISTS glimpse_control (
        one bool PRIMARY KEY CHECK (one),
        format int4 NOT NULL,
        store int8 NOT NULL,
        epoch int8 NOT NULL,
        transactions int8 NOT NULL,
        upper int8 NOT NULL
    ) WITH (fillfactor = 10);
    CREATE TABLE IF NOT EXISTS glimpse_shard (id int8 PRIMARY KEY, since int8 NOT NULL);
    CREATE TABLE IF NOT EXISTS glimpse_batch (
        seq int8 PRIMARY KEY,
        shard int8 NOT NULL,
        ts_max int8 NOT NULL,
        rows int8 NOT NULL,
        update_count int8 NOT NULL,
        bytes int8 NOT NULL,
        is_blob bool NOT NULL,
        payload bytea NOT NULL
    );
    CREATE TABLE IF NOT EXISTS glimpse_meta (key text COLLATE \"C\" PRIMARY KEY, value bytea NOT NULL);
    COMMIT";
const CONTROL: &str = "INSERT INTO glimpse_control VALUES (true, $1, $2, 0, 0, 0) ON CONFLICT DO NOTHING";
const IDENTITY: &str = "SELECT format, store FROM glimpse_control";
const FENCE: &str = "UPDATE glimpse_control SET epoch = epoch + 1, transactions = 0 RETURNING epoch";
const COUNT: &str = "
    UPDATE glimpse_control SET transactions = transactions + 1, upper = greatest(upper, $2) WHERE epoch = $1
    RETURNING transactions";
const DECIDED: &str = "SELECT epoch, transactions FROM glimpse_control FOR UPDATE";
const EPOCH: &str = "SELECT epoch FROM glimpse_control";
const SHARD_CREATE: &str = "INSERT INTO glimpse_shard SELECT * FROM unnest($1::int8[], $2::int8[])";
const BATCH_INSERT: &str = "
    INSERT INTO glimpse_batch SELECT * FROM unnest(
        $1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::bool[], $8::bytea[])";
const BATCH_DELETE: &str = "DELETE FROM glimpse_batch WHERE seq = ANY ($1)";
const SHARD_SINCE: &str = "
    UPDATE glimpse_shard SET since = new.since FROM unnest($1::int8[], $2::int8[]) AS new (id, since)
    WHERE glimpse_shard.id = new.id";
const SHARD_DROP: &str = "DELETE FROM glimpse_shard WHERE id = ANY ($1)";
const META_PUT: &str = "
    INSERT INTO glimpse_meta SELECT * FROM unnest($1::text[], $2::bytea[])
    ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const META_DELETE: &str = "DELETE FROM glimpse_meta WHERE key = ANY ($1)";
/// One statement, and so one snapshot: the control row first, then shards, then batches.
const LOAD: &str = "
    SELECT 0 AS kind, upper AS a, 0::int8 AS b, 0::int8 AS c, 0::int8 AS d, 0::int8 AS e, 0::int8 AS f,
           NULL::bytea AS reference FROM glimpse_control
    UNION ALL SELECT 1, id, since, 0, 0, 0, 0, NULL FROM glimpse_shard
    UNION ALL SELECT 2, seq, shard, ts_max, rows, update_count, bytes, CASE WHEN is_blob THEN payload END
              FROM glimpse_batch
    ORDER BY kind, a";
const PAYLOADS: &str = "
    SELECT payload FROM unnest($1::int8[]) WITH ORDINALITY AS asked (seq, place)
    LEFT JOIN glimpse_batch ON glimpse_batch.seq = asked.seq AND NOT is_blob ORDER BY place";
const META_GET: &str = "SELECT value FROM glimpse_meta WHERE key = $1";
const META_SCAN: &str =
    "SELECT key, value FROM glimpse_meta WHERE key >= $1 AND starts_with(key, $1) ORDER BY key LIMIT $2";

/// See the module. Its threads end with it.
pub struct PostgresConsensus {
    pool: Pool,
    /// Which store this is, for what is kept beside it.
    store: u64,
    /// Moves the bytes.
    background: Background,
}

impl PostgresConsensus {
    /// Opens the store in the database at `url`, making its tables if there are none, and waits up to `patience` for a server
    /// that does not answer. An attempt may take up to `timeout`.
    pub fn open(url: &str, timeout: Duration, patience: Duration) -> Result<PostgresConsensus, PersistError> {
        let pool = Pool::new(url, CONNECTIONS_MAX, timeout)?;
        let background = Background::start("consensus")?;
        let mut opened = PostgresConsensus { pool, store: 0, background };
        let id = rand::rng().random::<i64>();
        opened.store = opened.wait(async {
            retry("opening the consensus store", patience, || opened.pool.execute_batch(CREATE)).await?;
            let make = async || opened.pool.query(CONTROL, &[&FORMAT, &id]).await;
            retry("opening the consensus store", patience, make).await?;
            let rows = retry("opening the consensus store", patience, || opened.pool.query(IDENTITY, &[])).await?;
            let row = only(&rows)?;
            let found = u64::try_from(row.get::<_, i32>(0)).unwrap_or(0);
            check_format("consensus store", found, u64::from(FORMAT.unsigned_abs()))?;
            Ok::<_, PersistError>(word(row, 1))
        })?;
        Ok(opened)
    }

    /// Which store this is: another for each that was ever made.
    pub fn id(&self) -> u64 {
        self.store
    }

    /// Where it is, without secrets.
    pub fn address(&self) -> String {
        self.pool.address()
    }

    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.background.wait(future)
    }

    fn read(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, PersistError> {
        self.wait(retry("reading the consensus store", PATIENCE, || self.pool.query(sql, params)))
    }

    /// Whether a transaction was committed whose COMMIT was not answered.
    async fn is_committed(&self, epoch: u64, count: u64, unanswered: &PersistError) -> Result<bool, PersistError> {
        let in_doubt =
            |source: PersistError| PersistError::Indeterminate { context: "committing", source: source.into() };
        tracing::warn!(error = in_full(unanswered), "a commit was not answered; asking what became of it");
        let decided = retry("asking what became of a commit", PATIENCE, || self.pool.query(DECIDED, &[])).await;
        let rows = decided.map_err(in_doubt)?;
        let row = only(&rows)?;
        match word(row, 0) == epoch {
            true => Ok(word(row, 1) >= count),
            // Whoever has begun another epoch knows.
            false => Err(in_doubt(PersistError::Fenced { ours: epoch, current: word(row, 0) })),
        }
    }
}

impl Consensus for PostgresConsensus {
    fn fence(&self) -> Result<u64, PersistError> {
        let rows = self.wait(retry("starting an epoch", PATIENCE, || self.pool.query(FENCE, &[])))?;
        Ok(word(only(&rows)?, 0))
    }

    fn load(&self) -> Result<Loaded, PersistError> {
        let rows = self.read(LOAD, &[])?;
        let mut loaded = Loaded::default();
        for row in &rows {
            match row.get::<_, i32>(0) {
                0 => loaded.upper = word(row, 1),
                1 => loaded.shards.push((ShardId(word(row, 1)), word(row, 2))),
                _ => {
                    let ts_max: Timestamp = word(row, 3);
                    loaded.upper = loaded.upper.max(ts_max.saturating_add(1));
                    loaded.batches.push(BatchRow {
                        seq: word(row, 1),
                        shard: ShardId(word(row, 2)),
                        ts_max,
                        rows: row.get(4),
                        update_count: word(row, 5),
                        bytes: word(row, 6),
                        payload: row.get::<_, Option<Vec<u8>>>(7).map_or(Payload::Inline(()), Payload::Blob),
                    });
                }
            }
        }
        loaded.shards.sort_unstable();
        Ok(loaded)
    }

    fn transact(&self, txn: &Txn<'_>) -> Result<(), PersistError> {
        let (epoch, columns) = (txn.epoch.cast_signed(), Columns::of(txn));
        let steps = columns.steps(&epoch);
        self.wait(async {
            // What has certainly not happened is tried again if that may help.
            let attempt = async || match self.pool.transact(&steps).await {
                Transacted::Committed => Ok(true),
                Transacted::RolledBack => Ok(false),
                Transacted::Failed(error) => Err(error),
                Transacted::InDoubt(count, error) => {
                    match self.is_committed(txn.epoch, count.cast_unsigned(), &error).await? {
                        true => Ok(true),
                        false => Err(error),
                    }
                }
            };
            if retry("writing a transaction", PATIENCE, attempt).await.map_err(certain)? {
                return Ok(());
            }
            let rows = self.pool.query(EPOCH, &[]).await.map_err(certain)?;
            Err(PersistError::Fenced { ours: txn.epoch, current: word(only(&rows)?, 0) })
        })
    }

    fn payloads(&self, seqs: &[u64]) -> Result<Vec<Option<Vec<u8>>>, PersistError> {
        let seqs: Vec<i64> = seqs.iter().map(|seq| seq.cast_signed()).collect();
        Ok(self.read(PAYLOADS, &[&seqs])?.iter().map(|row| row.get(0)).collect())
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
        Ok(self.read(META_GET, &[&key])?.first().map(|row| row.get(0)))
    }

    fn meta_scan(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self.read(META_SCAN, &[&prefix, &limit])?.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    fn maintain(&self) -> Result<(), PersistError> {
        // The server's own vacuum does it.
        Ok(())
    }
}

/// A transaction as parameters: a column per array.
#[derive(Default)]
struct Columns<'a> {
    upper: i64,
    create: [Vec<i64>; 2],
    insert: [Vec<i64>; 6],
    is_blob: Vec<bool>,
    payload: Vec<&'a [u8]>,
    delete: Vec<i64>,
    since: [Vec<i64>; 2],
    drop: Vec<i64>,
    put_keys: Vec<&'a str>,
    put_values: Vec<&'a [u8]>,
    delete_keys: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(txn: &'a Txn<'a>) -> Columns<'a> {
        let mut columns = Columns { upper: txn.upper.unwrap_or(0).cast_signed(), ..Columns::default() };
        for (shard, since) in &txn.create {
            push(&mut columns.create, [shard.0, *since]);
        }
        for batch in &txn.insert {
            let BatchRow { seq, shard, ts_max, rows, update_count, bytes, payload } = batch;
            push(&mut columns.insert, [*seq, shard.0, *ts_max, rows.cast_unsigned(), *update_count, *bytes]);
            let (is_blob, payload) = match payload {
                Payload::Inline(payload) => (false, payload),
                Payload::Blob(reference) => (true, reference),
            };
            columns.is_blob.push(is_blob);
            columns.payload.push(payload);
        }
        columns.delete.extend(txn.delete.iter().map(|seq| seq.cast_signed()));
        for (shard, since) in &txn.since {
            push(&mut columns.since, [shard.0, *since]);
        }
        columns.drop.extend(txn.drop.iter().map(|shard| shard.0.cast_signed()));
        // Of several changes of one key the last holds.
        let meta: BTreeMap<&str, Option<&[u8]>> = txn.meta.iter().copied().collect();
        for (key, value) in meta {
            match value {
                Some(value) => {
                    columns.put_keys.push(key);
                    columns.put_values.push(value);
                }
                None => columns.delete_keys.push(key),
            }
        }
        columns
    }

    /// The statements, in the order of [`Txn`]'s fields; those that have nothing to do are left out.
    fn steps<'b>(&'b self, epoch: &'b i64) -> Vec<(&'static str, Vec<&'b (dyn ToSql + Sync)>)> {
        let mut steps: Vec<(&'static str, Vec<&'b (dyn ToSql + Sync)>)> = vec![(COUNT, vec![epoch, &self.upper])];
        if !self.create[0].is_empty() {
            steps.push((SHARD_CREATE, all(&self.create)));
        }
        if !self.payload.is_empty() {
            let mut params = all(&self.insert);
            params.extend([&self.is_blob as &(dyn ToSql + Sync), &self.payload]);
            steps.push((BATCH_INSERT, params));
        }
        if !self.delete.is_empty() {
            steps.push((BATCH_DELETE, vec![&self.delete]));
        }
        if !self.since[0].is_empty() {
            steps.push((SHARD_SINCE, all(&self.since)));
        }
        if !self.drop.is_empty() {
            steps.push((SHARD_DROP, vec![&self.drop]));
        }
        if !self.put_keys.is_empty() {
            steps.push((META_PUT, vec![&self.put_keys, &self.put_values]));
        }
        if !self.delete_keys.is_empty() {
            steps.push((META_DELETE, vec![&self.delete_keys]));
        }
        steps
    }
}

fn push<const N: usize>(columns: &mut [Vec<i64>; N], row: [u64; N]) {
    for (column, value) in columns.iter_mut().zip(row) {
        column.push(value.cast_signed());
    }
}

fn all<const N: usize>(columns: &[Vec<i64>; N]) -> Vec<&(dyn ToSql + Sync)> {
    columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect()
}

/// A failure before COMMIT: a transaction that was not committed is rolled back by the server, also if we are gone.
fn certain(error: PersistError) -> PersistError {
    match error {
        PersistError::Unreachable { source } | PersistError::Determinate { source, .. } => {
            let is_full = source.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
            match is_full == Some(&tokio_postgres::error::SqlState::DISK_FULL) {
                true => PersistError::DiskFull { source },
                false => PersistError::Determinate { context: "writing a transaction", source },
            }
        }
        error => error,
    }
}

fn only(rows: &[Row]) -> Result<&Row, PersistError> {
    rows.first().ok_or_else(|| PersistError::corrupt("the consensus store", "its control row is missing"))
}

fn word(row: &Row, index: usize) -> u64 {
    row.get::<_, i64>(index).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::contract;
    use glimpse_test::postgres_server::Postgres;

    fn open(server: &Postgres) -> PostgresConsensus {
        let second = Duration::from_secs(1);
        PostgresConsensus::open(&server.url(), 10 * second, 30 * second).expect("it opens")
    }

    #[test]
    fn passes_the_contract() {
        let server = Postgres::start().expect("a PostgreSQL starts");
        contract(&|| Box::new(open(&server)));
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let server = Postgres::start().expect("a PostgreSQL starts");
        let store = open(&server);
        store.wait(store.pool.execute_batch("UPDATE glimpse_control SET format = 2")).expect("it is there");
        let second = Duration::from_secs(1);
        let Err(error) = PostgresConsensus::open(&server.url(), second, second) else {
            panic!("it is from the future")
        };
        assert_eq!(error.to_string(), "consensus store has format version 2, this version reads 1");
    }

    #[test]
    fn the_last_of_several_changes_of_a_key_holds() {
        let server = Postgres::start().expect("a PostgreSQL starts");
        let store = open(&server);
        let epoch = store.fence().expect("works");
        let meta: Vec<(&str, Option<&[u8]>)> =
            vec![("a", Some(b"1")), ("b", Some(b"1")), ("a", Some(b"2")), ("b", None)];
        store.transact(&Txn { epoch, meta, ..Txn::default() }).expect("works");
        assert_eq!(store.meta_scan("", usize::MAX).expect("works"), [("a".to_owned(), b"2".to_vec())]);
    }

    /// Commits go on over restarts of the store, and each that was answered is there once.
    #[test]
    fn a_restart_of_the_store_loses_and_doubles_nothing() {
        let mut server = Postgres::start().expect("a PostgreSQL starts");
        let store = open(&server);
        let epoch = store.fence().expect("works");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let acknowledged = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let (mut acknowledged, mut seq) = (Vec::new(), 0_u64);
                while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    seq += 1;
                    let payload = Payload::Inline(seq.to_le_bytes().to_vec());
                    let (shard, rows) = (ShardId(1), 1);
                    let row = BatchRow { seq, shard, ts_max: seq, rows, update_count: 1, bytes: 8, payload };
                    let txn = Txn { epoch, insert: vec![row], ..Txn::default() };
                    store.transact(&txn).expect("it is waited for");
                    acknowledged.push(seq);
                }
                acknowledged
            });
            for _ in 0..3 {
                server.kill9().expect("it ends");
                server.restart().expect("it starts again");
                // Works again.
                store.meta_get("a").expect("it is waited for");
            }
            is_over.store(true, std::sync::atomic::Ordering::SeqCst);
            writing.join().expect("no panic")
        });
        let found: Vec<u64> = store.load().expect("works").batches.iter().map(|batch| batch.seq).collect();
        assert_eq!(found, acknowledged);
        assert!(!acknowledged.is_empty());
    }
}
