//! Rows on their way out: pulled a chunk at a time, encoded into the write buffer, and written whenever enough have
//! piled up. A client that reads slowly makes the write wait, and with it whoever produces the rows.

use super::{Connection, Output, attended};
use crate::copy::Syntax;
use crate::encode;
use crate::encode::rows::{Shape, Stored, Target};
use crate::error::WireError;
use adapter::response::{Chunk, RowDesc, Rows};
use adapter::session::Session;
use sql::ast::{CopyFormat, CopyOptions};
use tokio::net::TcpStream;

/// Rows asked for at a time.
const CHUNK_ROWS_MAX: usize = 1_024;

/// Sends rows, at most `rows_max`, and returns how many.
pub(super) async fn send(
    output: &mut Output,
    stream: &mut TcpStream,
    shape: Shape<'_>,
    rows: &mut Rows,
    rows_max: Option<usize>,
) -> Result<usize, WireError> {
    let mut sent = 0;
    loop {
        let wanted = rows_max.map_or(CHUNK_ROWS_MAX, |max| CHUNK_ROWS_MAX.min(max - sent));
        if wanted == 0 {
            return Ok(sent);
        }
        if !rows.is_ready() {
            Box::pin(attended(stream, rows.wait())).await??;
        }
        let Some(chunk) = rows.take(wanted)? else { return Ok(sent) };
        match chunk {
            Chunk::Stored(chunk) => {
                let stored = Stored { types: chunk.stored_types(), projection: chunk.projection() };
                for row in chunk.rows() {
                    output.rows.stored(&mut output.buffer, row, stored, shape)?;
                    output.flush_if_full(stream).await?;
                    sent += 1;
                }
            }
            Chunk::Batch(batch, range) => {
                for row in range {
                    output.rows.batch_row(&mut output.buffer, &batch, row, shape)?;
                    output.flush_if_full(stream).await?;
                    sent += 1;
                }
            }
        }
    }
}

impl Connection {
    /// COPY TO STDOUT: every row a line, every line a message.
    pub(super) async fn copy_out(
        &mut self,
        session: &mut Session,
        desc: &RowDesc,
        mut rows: Rows,
        options: &CopyOptions,
    ) -> Result<(), WireError> {
        let syntax = syntax(options);
        let Connection { output, stream, .. } = self;
        let columns = desc.desc.columns.as_slice();
        let shape = Shape { columns, options: session.encode_options(), target: Target::Copy(&syntax) };
        encode::copy_out_response(&mut output.buffer, columns.len());
        if syntax.header {
            output.rows.header(&mut output.buffer, &syntax, shape)?;
        }
        let sent = send(output, stream, shape, &mut rows, None).await?;
        encode::copy_done(&mut output.buffer);
        output.notices(session);
        encode::command_complete(&mut output.buffer, format_args!("COPY {sent}"));
        Ok(())
    }
}

/// The syntax that a statement's options ask for.
pub(super) fn syntax(options: &CopyOptions) -> Syntax {
    Syntax {
        is_csv: matches!(options.format, CopyFormat::Csv),
        delimiter: options.delimiter,
        null: options.null.clone(),
        header: options.header,
        quote: options.quote,
        escape: options.escape,
    }
}
