//! A blocking session for what is not measured: creating tables, loading rows, counting them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

use crate::connection::{Connection, Endpoint};
use crate::wire;
use crate::workload::{write_id, write_value};

/// Bytes of one CopyData message.
const COPY_CHUNK_BYTES: usize = 64 * 1024;

/// One session and the runtime that drives it.
pub struct Session {
    connection: Connection,
    runtime: Runtime,
}

impl Session {
    /// Connects.
    pub fn connect(endpoint: &Endpoint) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(Connection::connect(endpoint))?;
        Ok(Self { connection, runtime })
    }

    /// Runs one statement; its rows as text.
    pub fn execute(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        self.runtime.block_on(self.connection.simple(sql))
    }

    /// Runs one statement and reads the integer that it returns.
    pub fn count(&mut self, sql: &str) -> Result<u64> {
        let rows = self.execute(sql)?;
        let value = rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
        value.with_context(|| format!("{sql} returned nothing"))?.parse().context("not an integer")
    }

    /// Copies the rows `ids` into `kv`, by one COPY.
    pub fn copy_kv(&mut self, ids: std::ops::Range<u32>) -> Result<()> {
        self.copy("kv", ids, |rows, id| {
            write_id(rows, id);
            rows.push(b'\t');
            write_value(rows, id, 0);
        })
    }

    /// Copies a file's lines into a table, by one COPY.
    pub fn copy_file(&mut self, table: &str, path: &Path) -> Result<()> {
        let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let Self { connection, runtime } = self;
        runtime.block_on(async {
            connection.begin_copy(table).await?;
            let mut lines = vec![0; COPY_CHUNK_BYTES];
            loop {
                let length = file.read(&mut lines)?;
                if length == 0 {
                    return connection.end_copy(table).await;
                }
                wire::copy_data(&mut connection.output, &lines[..length]);
                connection.send().await?;
            }
        })
    }

    /// Copies rows into a table, by one COPY; `write` makes a line of one, without its end.
    pub fn copy<R>(
        &mut self,
        table: &str,
        rows: impl Iterator<Item = R>,
        write: impl Fn(&mut Vec<u8>, R),
    ) -> Result<()> {
        let Self { connection, runtime } = self;
        runtime.block_on(async {
            connection.begin_copy(table).await?;
            let mut lines = Vec::with_capacity(COPY_CHUNK_BYTES);
            for row in rows {
                write(&mut lines, row);
                lines.push(b'\n');
                if lines.len() >= COPY_CHUNK_BYTES {
                    wire::copy_data(&mut connection.output, &lines);
                    connection.send().await?;
                    lines.clear();
                }
            }
            wire::copy_data(&mut connection.output, &lines);
            connection.end_copy(table).await
        })
    }
}
