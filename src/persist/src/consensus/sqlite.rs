//! The embedded consensus store: one SQLite database in WAL mode.
//!
//! Three connections share it. The *writer* runs transactions, one at a time. A commit of one small batch dirties
//! one page, the last leaf of table `batch`, so it costs one frame at the end of the log and one `fdatasync`; the
//! statements are prepared once. The *reader* serves look-ups and never waits for the writer. The *checkpointer*
//! copies the log back into the database from a background thread: automatic checkpoints are off, because they
//! would run inside an unlucky commit.
//!
//! A passive checkpoint beside a busy writer never catches up with the end of the log, and only a log that was
//! copied to its end starts over. So when the log has grown large the checkpointer runs twice: once beside the
//! writer, then with the writer held up, when only a few frames are left. The log file keeps its length and is
//! overwritten from the start, which spares commits the cost of growing a file: to sync a file that grew, the file
//! system writes its own journal, too. A log is given that length when the store is opened, so that the first
//! commits are no slower than the later ones.
//!
//! # Invariants
//! * Unsigned words are stored as the signed integers of the same bits: SQLite has no others. Keys of batches stay
//!   below 2^63, so that their order is the order of their rowids.
//! * `synchronous=FULL` on the writer: a transaction is on disk when it returns.
//! * What a start finds is what the [`witness`] knows of, or the start is refused and changes nothing.

mod witness;

use bugs::Bug;
use parking_lot::Mutex;
use repr::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

pub use self::witness::Expected;
use self::witness::Witness;
use crate::consensus::{BatchRow, Consensus, Loaded, Payload, Txn};
use crate::encoding::check_format;
use crate::error::PersistError;
use crate::shard_id::ShardId;

/// The version of the schema below, kept in SQLite's `user_version`.
const SCHEMA_FORMAT: u64 = 1;

/// Frames in the log from which on a background checkpoint is worth its syncs: 1 MiB.
const CHECKPOINT_FRAMES: u64 = 256;

/// Frames in the log from which on the writer is held up for a moment so that the log can start over: 16 MiB.
const RESTART_FRAMES: u64 = 4096;

/// How long the log is made when the store is opened.
const LOG_BYTES: u64 = RESTART_FRAMES * (FRAME_HEADER_BYTES + PAGE_BYTES);

/// The header of a log frame, which precedes its page.
const FRAME_HEADER_BYTES: u64 = 24;
const PAGE_BYTES: u64 = 4096;

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

/// See the module.
#[derive(Debug)]
pub struct SqliteConsensus {
    writer: Mutex<Writer>,
    reader: Mutex<Connection>,
    checkpointer: Mutex<Checkpointer>,
}

/// Runs transactions.
#[derive(Debug)]
struct Writer {
    witness: Witness,
    connection: Connection,
}

#[derive(Debug)]
struct Checkpointer {
    connection: Connection,
    /// The witness's.
    file: File,
}

impl SqliteConsensus {
    /// Opens the database at `path`, creating it if it does not exist and none is expected.
    ///
    /// Fails with `Loss` if the database is not what its witness, the file `witness` beside it, knows it to be, and has changed
    /// nothing then.
    pub fn open(path: &Path, expected: Expected) -> Result<SqliteConsensus, PersistError> {
        // SQLite deletes a log whose database is gone.
        let is_there = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
        if expected == Expected::Same && !is_there {
            return Err(PersistError::loss(path, "it is not there, or empty"));
        }
        let connection = connect(path)?;
        // A log of which SQLite reads only a part is not copied into the database, and cut off, by a start that is refused.
        let keep_log = |keep| {
            let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
            set.map_err(|error| failed("opening the consensus store", error))
        };
        keep_log(true)?;
        create_or_check_schema(&connection, path, expected)?;
        let witness = Witness::open(&path.with_file_name("witness"), &connection, expected)?;
        keep_log(false)?;
        extend_log(&connection, path);
        let file = witness.file().map_err(|error| PersistError::io("opening the consensus store", error))?;
        Ok(SqliteConsensus {
            writer: Mutex::new(Writer { witness, connection }),
            reader: Mutex::new(connect(path)?),
            checkpointer: Mutex::new(Checkpointer { connection: connect(path)?, file }),
        })
    }
}

impl Writer {
    /// Runs one transaction: `apply` does everything but COMMIT, `announce` tells the witness of it.
    fn transact<T>(
        &mut self,
        apply: impl FnOnce(&Connection) -> Result<T, PersistError>,
        announce: impl FnOnce(&mut Witness, &T) -> Result<(), PersistError>,
    ) -> Result<T, PersistError> {
        let Writer { witness, connection } = self;
        let committed = apply(connection).and_then(|result| {
            let announced = announce(witness, &result).and_then(|()| {
                let mut commit = connection.prepare_cached("COMMIT").map_err(|error| failed("committing", error))?;
                commit.execute([]).map(drop).map_err(|error| failed_sync("committing", error))
            });
            match announced {
                Ok(()) => witness.confirm().map(|()| result),
                Err(error) => {
                    if !error.is_indeterminate() {
                        witness.retract();
                    }
                    Err(error)
                }
            }
        });
        if committed.as_ref().is_err_and(PersistError::is_indeterminate) {
            witness.lose();
        }
        if committed.is_err() && !connection.is_autocommit() {
            // Whether the rollback works or not, the error that matters is the first one, and a connection that is
            // still inside a transaction fails the next BEGIN.
            if let Err(error) = connection.execute_batch("ROLLBACK") {
                tracing::error!(%error, "a failed transaction cannot be rolled back");
            }
        }
        committed
    }
}

impl Consensus for SqliteConsensus {
    fn fence(&self) -> Result<u64, PersistError> {
        // In a transaction of its own: what becomes of the commit of a lone statement with RETURNING nobody is told.
        let raise = |writer: &Connection| {
            writer.execute_batch("BEGIN IMMEDIATE")?;
            writer.query_row("UPDATE control SET epoch = epoch + 1 RETURNING epoch", [], |row| word(row, 0))
        };
        self.writer.lock().transact(
            |writer| raise(writer).map_err(|error| failed_write("starting an epoch", error)),
            |witness, epoch| witness.announce_epoch(*epoch),
        )
    }

    fn load(&self) -> Result<Loaded, PersistError> {
        let reader = self.reader.lock();
        load(&reader).map_err(|error| failed("loading the list of batches", error))
    }

    fn transact(&self, txn: &Txn<'_>) -> Result<(), PersistError> {
        self.writer.lock().transact(|writer| apply(writer, txn), |witness, ()| witness.announce(txn))
    }

    fn payloads(&self, seqs: &[u64]) -> Result<Vec<Option<Vec<u8>>>, PersistError> {
        let reader = self.reader.lock();
        let found: rusqlite::Result<_> = (|| {
            // One transaction, so that either all or none of a replaced run of batches is seen.
            reader.execute_batch("BEGIN")?;
            let mut select = reader.prepare_cached("SELECT payload FROM batch WHERE seq = ?1 AND is_blob = 0")?;
            seqs.iter().map(|seq| select.query_row([seq.cast_signed()], |row| row.get(0)).optional()).collect()
        })();
        if !reader.is_autocommit() {
            reader.execute_batch("COMMIT").map_err(|error| failed("reading batches", error))?;
        }
        found.map_err(|error| failed("reading batches", error))
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
        let reader = self.reader.lock();
        let found: rusqlite::Result<_> = (|| {
            let mut select = reader.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            select.query_row([key], |row| row.get(0)).optional()
        })();
        found.map_err(|error| failed("reading a key", error))
    }

    fn meta_scan(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        let reader = self.reader.lock();
        let found: rusqlite::Result<_> = (|| {
            let mut select = reader.prepare_cached("SELECT key, value FROM meta WHERE key >= ?1 ORDER BY key")?;
            let mut rows = select.query([prefix])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                if !key.starts_with(prefix) || found.len() == limit {
                    break;
                }
                found.push((key, row.get(1)?));
            }
            Ok(found)
        })();
        found.map_err(|error| failed("reading keys", error))
    }

    fn maintain(&self) -> Result<(), PersistError> {
        let checkpointer = self.checkpointer.lock();
        let Checkpointer { connection, file } = &*checkpointer;
        let log = wal_checkpoint(connection, "NOOP")?;
        if log.frames.saturating_sub(log.copied) < CHECKPOINT_FRAMES {
            return Ok(());
        }
        if wal_checkpoint(connection, "PASSIVE")?.frames >= RESTART_FRAMES {
            let _held_up = self.writer.lock();
            wal_checkpoint(connection, "PASSIVE")?;
        }
        file.sync_data().map_err(|error| PersistError::Indeterminate {
            context: "syncing the witness of the consensus store",
            source: error.into(),
        })
    }

    fn close(&self) -> Result<(), PersistError> {
        self.writer
            .lock()
            .witness
            .close()
            .map_err(|error| PersistError::io("closing the witness of the consensus store", error))
    }
}

/// How much a log holds, in frames.
struct Log {
    frames: u64,
    /// Those that are in the database, too.
    copied: u64,
}

/// Runs a checkpoint of `mode`: `NOOP` only counts, `PASSIVE` copies what it can without waiting for anybody,
/// `TRUNCATE` copies everything and empties the file.
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
    open().map_err(|error| failed("opening the consensus store", error))
}

fn create_or_check_schema(writer: &Connection, path: &Path, expected: Expected) -> Result<(), PersistError> {
    let opening = |error| failed("opening the consensus store", error);
    let version: i64 = writer.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(opening)?;
    if version != 0 {
        return check_format("consensus store", version.cast_unsigned(), SCHEMA_FORMAT);
    }
    if expected == Expected::Same {
        return Err(PersistError::loss(path, "it has no tables"));
    }
    let create = format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_FORMAT}; COMMIT;");
    writer.execute_batch(&create).map_err(opening)
}

/// Makes the log as long as it will be when it starts over. A transaction that is larger than SQLite's page cache
/// spills into the log, and rolling it back leaves the frames in the file, where later commits overwrite them. The
/// database never sees them. The next commit, which starts an epoch, syncs them.
///
/// A disk without room for them takes back what was written: such a store is as good as any, but slower at first.
fn extend_log(writer: &Connection, path: &Path) {
    let bytes = log_bytes(path);
    if bytes >= LOG_BYTES {
        return;
    }
    let missing_pages = (LOG_BYTES - bytes) / (FRAME_HEADER_BYTES + PAGE_BYTES);
    let spill = format!(
        "BEGIN IMMEDIATE; CREATE TABLE filler (bytes BLOB); INSERT INTO filler VALUES (zeroblob({}));",
        missing_pages * PAGE_BYTES
    );
    let spilled = writer.execute_batch(&spill);
    let rolled_back = writer.is_autocommit() || writer.execute_batch("ROLLBACK").is_ok();
    if let Err(error) = spilled {
        tracing::warn!(%error, "the log of the consensus store cannot be given its length");
        if rolled_back {
            let _ = wal_checkpoint(writer, "TRUNCATE");
        }
    }
}

/// The length of the log beside the database at `path`.
fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |metadata| metadata.len())
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

fn word(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(index).map(i64::cast_unsigned)
}

/// Does everything but COMMIT.
fn apply(writer: &Connection, txn: &Txn<'_>) -> Result<(), PersistError> {
    let current = begin(writer).map_err(|error| failed_write("beginning a transaction", error))?;
    if current != txn.epoch && !bugs::is(Bug::FenceLost) {
        return Err(PersistError::Fenced { ours: txn.epoch, current });
    }
    apply_steps(writer, txn).map_err(|error| failed_write("writing a transaction", error))
}

/// Starts a transaction and returns the epoch that it sees.
fn begin(writer: &Connection) -> rusqlite::Result<u64> {
    writer.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut epoch = writer.prepare_cached("SELECT epoch FROM control")?;
    epoch.query_row([], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
}

fn apply_steps(writer: &Connection, txn: &Txn<'_>) -> rusqlite::Result<()> {
    for (shard, since) in &txn.create {
        let mut insert = writer.prepare_cached("INSERT INTO shard VALUES (?1, ?2)")?;
        insert.execute([shard.0.cast_signed(), since.cast_signed()])?;
    }
    for batch in &txn.insert {
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
    for seq in &txn.delete {
        writer.prepare_cached("DELETE FROM batch WHERE seq = ?1")?.execute([seq.cast_signed()])?;
    }
    for (shard, since) in &txn.since {
        let mut update = writer.prepare_cached("UPDATE shard SET since = ?2 WHERE id = ?1")?;
        update.execute([shard.0.cast_signed(), since.cast_signed()])?;
    }
    for shard in &txn.drop {
        writer.prepare_cached("DELETE FROM shard WHERE id = ?1")?.execute([shard.0.cast_signed()])?;
    }
    for (key, value) in &txn.meta {
        match value {
            Some(value) => {
                writer.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?.execute(params![key, value])?
            }
            None => writer.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([key])?,
        };
    }
    if let Some(upper) = txn.upper {
        let mut update = writer.prepare_cached("UPDATE control SET upper = max(upper, ?1)")?;
        update.execute([upper.cast_signed()])?;
    }
    Ok(())
}

/// A failure before COMMIT: SQLite has nothing of the transaction that it would ever replay.
fn failed(context: &'static str, error: rusqlite::Error) -> PersistError {
    // Only the schema above writes here.
    let is_foreign = matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
    );
    match error.sqlite_error_code() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::contract;

    #[test]
    fn passes_the_contract() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("consensus.db");
        contract(&|| Box::new(SqliteConsensus::open(&path, Expected::NoWitness).expect("it opens")));
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("consensus.db");
        drop(SqliteConsensus::open(&path, Expected::NoWitness).expect("it opens"));
        let connection = Connection::open(&path).expect("it opens");
        connection.pragma_update(None, "user_version", 2).expect("writable");
        drop(connection);
        let error = SqliteConsensus::open(&path, Expected::NoWitness).expect_err("it is from the future");
        assert_eq!(error.to_string(), "consensus store has format version 2, this version reads 1");
    }

    #[test]
    fn the_log_has_its_length_from_the_start() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("consensus.db");
        let open = || SqliteConsensus::open(&path, Expected::NoWitness).expect("it opens");
        let store = open();
        let length = log_bytes(&path);
        assert!(length > LOG_BYTES / 2, "{length}");
        let epoch = store.fence().expect("works");
        store.transact(&Txn { epoch, meta: vec![("k", Some(b"v"))], ..Txn::default() }).expect("works");
        assert_eq!(log_bytes(&path), length, "a commit overwrites what is there");

        // Another process finds the log as a crash left it: the commits, not the filler behind them.
        let other = open();
        assert!(log_bytes(&path) < length + LOG_BYTES / 2, "it is not lengthened twice");
        assert_eq!(other.meta_get("k").expect("works").as_deref(), Some(b"v".as_slice()));
        drop((store, other));

        let bytes = std::fs::metadata(&path).expect("it is there").len();
        assert!(bytes < 1 << 20, "the filler is in the database, which has {bytes} bytes");
    }

    #[test]
    fn the_log_starts_over_beside_a_busy_writer() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("consensus.db");
        let store = SqliteConsensus::open(&path, Expected::NoWitness).expect("it opens");
        let epoch = store.fence().expect("works");
        let value = vec![7; 1 << 20];
        let mut bytes_max = 0;
        for round in 0..64_u8 {
            let key = format!("k{}", round % 4);
            store.transact(&Txn { epoch, meta: vec![(&key, Some(&value))], ..Txn::default() }).expect("works");
            store.maintain().expect("works");
            bytes_max = log_bytes(&path).max(bytes_max);
        }
        // 64 MiB were written; without starting over the log would hold them all.
        assert!(bytes_max < 32 << 20, "{bytes_max}");
    }
}
