//! A timeline in a PostgreSQL: one row, and one statement per call.
//!
//! A statement is atomic, its commit is flushed before others see it, and READ COMMITTED shows every statement what was
//! committed before it began: law 1 of [`crate::timeline`]. The epoch stands in every WHERE, so that a fenced owner's
//! statement finds no row: law 2. The row is written all the time and nothing refers to it, so its page is kept nearly
//! empty, and versions are replaced within it.
//!
//! # Invariants
//! * No column ever decreases, but for the term.

use std::time::Duration;

use persist::PersistError;
use persist::postgres::Pool;
use repr::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::OracleError;
use crate::timeline::{Owner, Timeline};

/// The version of the table.
const FORMAT: i32 = 1;

/// Connections beside those that read: for the beat, and for the committer.
const CONNECTIONS_BESIDE_READS: usize = 2;

/// The lock keeps two processes that come first from making the table twice.
const CREATE: &str = "
    BEGIN;
    SELECT pg_advisory_xact_lock(7453010373645655139);
    CREATE TABLE IF NOT EXISTS glimpse_timeline (
        timeline text PRIMARY KEY,
        format int4 NOT NULL,
        read_ts int8 NOT NULL,
        write_ts int8 NOT NULL,
        epoch int8 NOT NULL,
        beat int8 NOT NULL,
        term_us int8 NOT NULL,
        owner text NOT NULL
    ) WITH (fillfactor = 10);
    COMMIT";
const INSERT: &str = "INSERT INTO glimpse_timeline VALUES ($1, $2, 0, 0, 0, 0, 0, '') ON CONFLICT DO NOTHING";
const FORMAT_OF: &str = "SELECT format FROM glimpse_timeline WHERE timeline = $1";
const OWNER: &str = "SELECT epoch, beat, term_us, owner FROM glimpse_timeline WHERE timeline = $1";
const TAKE: &str = "
    UPDATE glimpse_timeline SET epoch = epoch + 1, beat = 0, term_us = $4, owner = $5
    WHERE timeline = $1 AND epoch = $2 AND beat = $3 RETURNING epoch";
const BEAT: &str = "UPDATE glimpse_timeline SET beat = beat + 1 WHERE timeline = $1 AND epoch = $2 RETURNING beat";
const RELEASE: &str =
    "UPDATE glimpse_timeline SET beat = beat + 1, term_us = 0 WHERE timeline = $1 AND epoch = $2 RETURNING beat";
const READ_TS: &str = "SELECT read_ts FROM glimpse_timeline WHERE timeline = $1 AND epoch = $2";
const WRITE_TS: &str = "
    UPDATE glimpse_timeline SET write_ts = greatest(write_ts + 1, $3)
    WHERE timeline = $1 AND epoch = $2 AND write_ts < $4 RETURNING write_ts";
const LATEST: &str = "SELECT write_ts FROM glimpse_timeline WHERE timeline = $1 AND epoch = $2";
const APPLY: &str = "
    UPDATE glimpse_timeline SET read_ts = greatest(read_ts, $3), write_ts = greatest(write_ts, $3)
    WHERE timeline = $1 AND epoch = $2 RETURNING read_ts";

/// See the module.
pub struct PostgresTimeline {
    pool: Pool,
    name: String,
}

impl PostgresTimeline {
    /// The timeline `name` in the database at `url`, of which `reads_max` reads may be under way. An attempt may take up to
    /// `timeline`. Connects only when it is asked something.
    pub fn new(url: &str, name: &str, reads_max: usize, timeout: Duration) -> Result<PostgresTimeline, OracleError> {
        let pool = Pool::new(url, reads_max + CONNECTIONS_BESIDE_READS, timeout)?;
        Ok(PostgresTimeline { pool, name: name.to_owned() })
    }

    /// Where it is, without secrets.
    pub fn address(&self) -> String {
        self.pool.address()
    }

    /// The one row of an answer; none is the answer to an epoch that has passed.
    async fn row(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, OracleError> {
        match self.pool.query(sql, params).await?.pop() {
            Some(row) => Ok(row),
            None => Err(OracleError::Fenced { by: self.owner().await?.name }),
        }
    }
}

impl Timeline for PostgresTimeline {
    async fn prepare(&self) -> Result<(), OracleError> {
        self.pool.execute_batch(CREATE).await?;
        self.pool.query(INSERT, &[&self.name, &FORMAT]).await?;
        let found = self.pool.query(FORMAT_OF, &[&self.name]).await?.first().map_or(0, |row| row.get::<_, i32>(0));
        if found != FORMAT {
            let (found, supported) = (u64::try_from(found).unwrap_or(0), u64::from(FORMAT.unsigned_abs()));
            return Err(PersistError::FormatVersion { what: "the timeline's table", found, supported }.into());
        }
        Ok(())
    }

    async fn owner(&self) -> Result<Owner, OracleError> {
        let rows = self.pool.query(OWNER, &[&self.name]).await?;
        let row = rows.first().ok_or_else(|| PersistError::Corrupt {
            what: "the timeline's table".to_owned(),
            detail: format!("it has no row {}", self.name),
        })?;
        let term = Duration::from_micros(word(row, 2));
        Ok(Owner { epoch: word(row, 0), beat: word(row, 1), term, name: row.get(3) })
    }

    async fn take(&self, seen: &Owner, term: Duration, name: &str) -> Result<Option<u64>, OracleError> {
        let term_us = i64::try_from(term.as_micros()).unwrap_or(i64::MAX);
        let (epoch, beat) = (seen.epoch.cast_signed(), seen.beat.cast_signed());
        let rows = self.pool.query(TAKE, &[&self.name, &epoch, &beat, &term_us, &name]).await?;
        Ok(rows.first().map(|row| word(row, 0)))
    }

    async fn beat(&self, epoch: u64) -> Result<(), OracleError> {
        self.row(BEAT, &[&self.name, &epoch.cast_signed()]).await.map(drop)
    }

    async fn release(&self, epoch: u64) -> Result<(), OracleError> {
        self.row(RELEASE, &[&self.name, &epoch.cast_signed()]).await.map(drop)
    }

    async fn read_ts(&self, epoch: u64) -> Result<Timestamp, OracleError> {
        Ok(word(&self.row(READ_TS, &[&self.name, &epoch.cast_signed()]).await?, 0))
    }

    async fn write_ts(&self, epoch: u64, now_us: u64, ahead_us_max: u64) -> Result<Timestamp, OracleError> {
        let (epoch, now) = (epoch.cast_signed(), now_us.cast_signed());
        let bound = now_us.saturating_add(ahead_us_max).cast_signed();
        if let Some(row) = self.pool.query(WRITE_TS, &[&self.name, &epoch, &now, &bound]).await?.first() {
            return Ok(word(row, 0));
        }
        let latest = word(&self.row(LATEST, &[&self.name, &epoch]).await?, 0);
        let ahead_us = latest.saturating_add(1).saturating_sub(now_us);
        Err(OracleError::AheadOfClock { ahead_us, bound_us: ahead_us_max })
    }

    async fn apply_write(&self, epoch: u64, ts: Timestamp) -> Result<(), OracleError> {
        self.row(APPLY, &[&self.name, &epoch.cast_signed(), &ts.cast_signed()]).await.map(drop)
    }
}

/// An unsigned word: stored as the signed integer of the same bits. Times stay below 2^63 for some 290,000 years.
fn word(row: &Row, index: usize) -> u64 {
    row.get::<_, i64>(index).cast_unsigned()
}
