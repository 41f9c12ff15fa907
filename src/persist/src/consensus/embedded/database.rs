//! The database: SQLite in WAL mode. It has everything but what the journal still holds.
//!
//! What was committed comes here in groups, in one transaction each, which also says how far it has come in the
//! journal. Automatic checkpoints are off, because they would run inside an unlucky commit; [`Database::checkpoint`] copies the log back.
//! As nobody else writes, it is copied to its end, unless a reader is still in it; and only a log that was copied to its end starts over.
//!
//! # Invariants
//! * Unsigned words are stored as the signed integers of the same bits: SQLite has no others. Keys of batches stay
//!   below 2^63, so that their order is the order of their rowids.
//! * `synchronous=FULL`: what was written is on disk when [`Database::write`] returns, and its entries may be written over.

use super::Expected;
use super::changes::Changes;
use super::journal::Start;
use crate::consensus::{BatchRow, Loaded, Payload};
use crate::encoding::check_format;
use crate::error::PersistError;
use crate::shard_id::ShardId;
use repr::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use std::path::Path;
use std::time::Duration;

/// The version of the schema below and of the journal's entries, kept in SQLite's `user_version`. The first knew no journal.
const SCHEMA_FORMAT: u64 = 2;

/// Frames in the log from which on a checkpoint is worth its syncs: 1 MiB.
const CHECKPOINT_FRAMES: u64 = 256;

/// As the first version had it.
const SCHEMA: &str = "
    CREATE TABLE control (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, upper INTEGER NOT NULL);
    INSERT INTO control VALUES (1, 0, 0);
    CREATE TABLE shard (id INTEGER PRIMARY KEY, since INTEGER NOT NULL);
    CREATE TABLE batch (
        seq INTEGER PRIMARY KEY,
        shard INTEGER NOT NULL,
        ts_max INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        update_count INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        is_blob INTEGER NOT NULL,
        payload BLOB NOT NULL
    );
    CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
";

/// What the second version has more: where the journal begins.
const WITH_JOURNAL: &str = "
    ALTER TABLE control ADD COLUMN salt INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE control ADD COLUMN applied INTEGER NOT NULL DEFAULT 0;
";

/// See the module.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    /// Of the journal that goes with it, until another start begins another one.
    salt: u64,
}

/// A database that was opened and not changed.
#[derive(Debug)]
pub(super) struct Unchanged {
    connection: Connection,
    has_journal: bool,
}

impl Unchanged {
    /// Opens the database at `path`, creating it if it does not exist and none is expected.
    pub(super) fn open(path: &Path, expected: Expected) -> Result<Unchanged, PersistError> {
        // SQLite deletes a log whose database is gone.
        let is_there = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
        if expected == Expected::Same && !is_there {
            return Err(PersistError::loss(path, "it is not there, or empty"));
        }
        let connection = connect(path)?;
        // A log of which SQLite reads only a part is not copied into the database, and cut off, by a start that is refused.
        keep_log(&connection, true)?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(opening)?;
        match version.cast_unsigned() {
            0 if expected == Expected::Same => return Err(PersistError::loss(path, "it has no tables")),
            0 => {
                let create = format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = 1; COMMIT;");
                connection.execute_batch(&create).map_err(opening)?;
            }
            version => check_format("consensus store", version, SCHEMA_FORMAT)?,
        }
        Ok(Unchanged { connection, has_journal: version > 1 })
    }

    /// Where its journal begins, if it has one.
    pub(super) fn journal(&self) -> Result<Option<Start>, PersistError> {
        if !self.has_journal {
            return Ok(None);
        }
        let select = "SELECT salt, applied FROM control";
        let start =
            self.connection.query_row(select, [], |row| Ok(Start { salt: word(row, 0)?, applied: word(row, 1)? }));
        start.map(Some).map_err(|error| failed("reading the consensus store", error))
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Writes what the journal holds, and begins another one.
    pub(super) fn begin(self, changes: &Changes, salt: u64) -> Result<Database, PersistError> {
        let Unchanged { connection, has_journal } = self;
        if !has_journal {
            let alter = format!("BEGIN IMMEDIATE; {WITH_JOURNAL} PRAGMA user_version = {SCHEMA_FORMAT}; COMMIT;");
            connection.execute_batch(&alter).map_err(opening)?;
        }
        let mut database = Database { connection, salt };
        database.write_with(changes, "UPDATE control SET salt = ?2, applied = ?1", 0)?;
        keep_log(&database.connection, false)?;
        Ok(database)
    }
}

impl Database {
    /// Writes changes in one transaction, and that the journal begins at `applied` from then on. Fails with `Fenced` if it is not the
    /// journal that goes with the database any more.
    pub(super) fn write(&mut self, changes: &Changes, applied: u64) -> Result<(), PersistError> {
        self.write_with(changes, "UPDATE control SET applied = ?1 WHERE salt = ?2", applied)
    }

    /// The same, with the statement that says where the journal begins.
    fn write_with(&mut self, changes: &Changes, begin_journal: &str, applied: u64) -> Result<(), PersistError> {
        let Database { connection, salt } = self;
        let journal = [applied.cast_signed(), salt.cast_signed()];
        let written = connection
            .execute_batch("BEGIN IMMEDIATE")
            .and_then(|()| write_steps(connection, changes))
            .and_then(|()| connection.prepare_cached(begin_journal)?.execute(journal))
            .map_err(|error| failed_write("writing a transaction", error))
            .and_then(|journals| if journals == 1 { Ok(()) } else { Err(fenced(connection)) })
            .and_then(|()| connection.execute_batch("COMMIT").map_err(|error| failed_sync("committing", error)));
        if written.is_err() && !connection.is_autocommit() {
            // Whether the rollback works or not, the error that matters is the first one, and a connection that is
            // still inside a transaction fails the next BEGIN.
            if let Err(error) = connection.execute_batch("ROLLBACK") {
                tracing::error!(%error, "a failed transaction cannot be rolled back");
            }
        }
        written
    }

    pub(super) fn load(&self) -> Result<Loaded, PersistError> {
        load(&self.connection).map_err(|error| failed("loading the list of batches", error))
    }

    /// Copies the log back if that is worth it; says whether.
    pub(super) fn checkpoint(&mut self) -> Result<bool, PersistError> {
        let log = wal_checkpoint(&self.connection, "NOOP")?;
        if log.frames.saturating_sub(log.copied) < CHECKPOINT_FRAMES {
            return Ok(false);
        }
        wal_checkpoint(&self.connection, "PASSIVE").map(|_| true)
    }
}

/// Reads beside whoever writes.
#[derive(Debug)]
pub(super) struct Reader {
    connection: Connection,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader, PersistError> {
        connect(path).map(|connection| Reader { connection })
    }

    /// The database as it is now, for as long as the result is there.
    pub(super) fn snapshot(&mut self) -> Result<Snapshot<'_>, PersistError> {
        let reading = |error| failed("reading the consensus store", error);
        let snapshot = Snapshot { transaction: self.connection.transaction().map_err(reading)? };
        // A transaction sees what is there at its first read.
        let mut first = snapshot.transaction.prepare_cached("SELECT epoch FROM control").map_err(reading)?;
        first.query_row([], |_| Ok(())).map_err(reading)?;
        drop(first);
        Ok(snapshot)
    }
}

/// See [`Reader::snapshot`].
pub(super) struct Snapshot<'a> {
    transaction: rusqlite::Transaction<'a>,
}

impl Snapshot<'_> {
    /// The contents of an inline batch.
    pub(super) fn payload(&self, seq: u64) -> Result<Option<Vec<u8>>, PersistError> {
        self.one("SELECT payload FROM batch WHERE seq = ?1 AND is_blob = 0", seq.cast_signed())
            .map_err(|error| failed("reading batches", error))
    }

    pub(super) fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
        self.one("SELECT value FROM meta WHERE key = ?1", key).map_err(|error| failed("reading a key", error))
    }

    fn one(&self, select: &str, key: impl rusqlite::ToSql) -> rusqlite::Result<Option<Vec<u8>>> {
        self.transaction.prepare_cached(select)?.query_row([key], |row| row.get(0)).optional()
    }

    /// The first keys that begin with `prefix` and are wanted, with their values.
    pub(super) fn metas(
        &self,
        prefix: &str,
        limit: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        let found: rusqlite::Result<_> = (|| {
            let mut select =
                self.transaction.prepare_cached("SELECT key, value FROM meta WHERE key >= ?1 ORDER BY key")?;
            let mut rows = select.query([prefix])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                if !key.starts_with(prefix) || found.len() == limit {
                    break;
                }
                if is_wanted(&key) {
                    found.push((key, row.get(1)?));
                }
            }
            Ok(found)
        })();
        found.map_err(|error| failed("reading keys", error))
    }
}

/// How much a log holds, in frames.
struct Log {
    frames: u64,
    /// Those that are in the database, too.
    copied: u64,
}

/// Runs a checkpoint of `mode`: `NOOP` only counts, `PASSIVE` copies what it can without waiting for anybody.
fn wal_checkpoint(connection: &Connection, mode: &str) -> Result<Log, PersistError> {
    // Negative if there is no log.
    let frames =
        |row: &rusqlite::Row<'_>, index| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or_default());
    connection
        .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok(Log { frames: frames(row, 1)?, copied: frames(row, 2)? })
        })
        .map_err(|error| failed_sync("copying the log into the database", error))
}

fn connect(path: &Path) -> Result<Connection, PersistError> {
    let open = || {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.set_prepared_statement_cache_capacity(32);
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(connection)
    };
    open().map_err(opening)
}

/// Whether the log is left as it is by whoever closes the database.
fn keep_log(connection: &Connection, is_kept: bool) -> Result<(), PersistError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_kept).map(drop).map_err(opening)
}

fn load(reader: &Connection) -> rusqlite::Result<Loaded> {
    let mut loaded = Loaded::default();
    let mut select = reader.prepare("SELECT upper FROM control")?;
    loaded.upper = select.query_row([], |row| row.get::<_, i64>(0))?.cast_unsigned();
    let mut select = reader.prepare("SELECT id, since FROM shard")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        loaded.shards.push((ShardId(word(row, 0)?), word(row, 1)?));
    }
    loaded.shards.sort_unstable();
    let mut select = reader.prepare(
        "SELECT seq, shard, ts_max, rows, update_count, bytes, is_blob, CASE WHEN is_blob THEN payload END
         FROM batch ORDER BY seq",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let ts_max: Timestamp = word(row, 2)?;
        loaded.upper = loaded.upper.max(ts_max.saturating_add(1));
        loaded.batches.push(BatchRow {
            seq: word(row, 0)?,
            shard: ShardId(word(row, 1)?),
            ts_max,
            rows: row.get(3)?,
            update_count: word(row, 4)?,
            bytes: word(row, 5)?,
            payload: if row.get(6)? { Payload::Blob(row.get(7)?) } else { Payload::Inline(()) },
        });
    }
    Ok(loaded)
}

pub(super) fn word(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(index).map(i64::cast_unsigned)
}

fn write_steps(writer: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    for shard in &changes.dropped {
        writer.prepare_cached("DELETE FROM shard WHERE id = ?1")?.execute([shard.0.cast_signed()])?;
    }
    for (shard, since) in &changes.created {
        let mut insert = writer.prepare_cached("INSERT INTO shard VALUES (?1, ?2)")?;
        insert.execute([shard.0.cast_signed(), since.cast_signed()])?;
    }
    for (shard, since) in &changes.since {
        let mut update = writer.prepare_cached("UPDATE shard SET since = ?2 WHERE id = ?1")?;
        update.execute([shard.0.cast_signed(), since.cast_signed()])?;
    }
    for seq in &changes.deleted {
        writer.prepare_cached("DELETE FROM batch WHERE seq = ?1")?.execute([seq.cast_signed()])?;
    }
    for batch in changes.inserted.values() {
        let (is_blob, payload) = match &batch.payload {
            Payload::Inline(payload) => (false, payload),
            Payload::Blob(reference) => (true, reference),
        };
        let mut insert = writer.prepare_cached("INSERT INTO batch VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        insert.execute(params![
            batch.seq.cast_signed(),
            batch.shard.0.cast_signed(),
            batch.ts_max.cast_signed(),
            batch.rows,
            batch.update_count.cast_signed(),
            batch.bytes.cast_signed(),
            is_blob,
            payload
        ])?;
    }
    for (key, value) in &changes.meta {
        match value {
            Some(value) => {
                writer.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?.execute(params![key, value])?
            }
            None => writer.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([key])?,
        };
    }
    if changes.upper > 0 {
        let mut update = writer.prepare_cached("UPDATE control SET upper = max(upper, ?1)")?;
        update.execute([changes.upper.cast_signed()])?;
    }
    if let Some(epoch) = changes.epoch {
        writer.prepare_cached("UPDATE control SET epoch = ?1")?.execute([epoch.cast_signed()])?;
    }
    Ok(())
}

/// Another start has begun an epoch, or is about to.
fn fenced(connection: &Connection) -> PersistError {
    match connection.query_row("SELECT epoch FROM control", [], |row| word(row, 0)) {
        Ok(current) => PersistError::Fenced { ours: current.saturating_sub(1), current },
        Err(error) => failed("reading the epoch", error),
    }
}

fn opening(error: rusqlite::Error) -> PersistError {
    failed("opening the consensus store", error)
}

/// A failure before COMMIT: SQLite has nothing of the transaction that it would ever replay.
pub(super) fn failed(context: &'static str, error: rusqlite::Error) -> PersistError {
    // Only the schema above writes here.
    let is_foreign = matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
    );
    // A file that ends before its pages do.
    let is_cut =
        error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ);
    match error.sqlite_error_code() {
        _ if is_cut => PersistError::corrupt("the consensus store", error.to_string()),
        None if is_foreign => PersistError::corrupt("the consensus store", error.to_string()),
        Some(ErrorCode::DiskFull) => PersistError::DiskFull { source: error.into() },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            PersistError::corrupt("the consensus store", error.to_string())
        }
        _ => PersistError::Determinate { context, source: error.into() },
    }
}

/// A failure before COMMIT of what may have been written to the log. What the kernel holds of a file that it could not write is not
/// what the next process finds.
fn failed_write(context: &'static str, error: rusqlite::Error) -> PersistError {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => PersistError::Indeterminate { context, source: error.into() },
        _ => failed(context, error),
    }
}

/// A failure of COMMIT, or of a checkpoint. A full disk stopped a frame from being written, and a log whose last frame is missing
/// is not replayed; a busy database was not touched. After any other failure, a failed sync above all, the frames may be in
/// the log, and the next process to open it would find them.
fn failed_sync(context: &'static str, error: rusqlite::Error) -> PersistError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => failed(context, error),
        _ => PersistError::Indeterminate { context, source: error.into() },
    }
}
