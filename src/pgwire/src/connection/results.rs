//! Rows on their way out: pulled a chunk at a time, encoded into the write buffer, and written whenever enough have
//! piled up. A client that reads slowly makes the write wait, and with it whoever produces the rows.

use super::{Connection, FLUSH_BYTES, Output, attended};
use crate::copy::Syntax;
use crate::encode;
use crate::encode::rows::{Shape, Stored, Target};
use crate::error::WireError;
use crate::stream::Stream;
use adapter::response::{Chunk, RowDesc, Rows};
use adapter::session::Session;
use sql::ast::{CopyFormat, CopyOptions};

/// Rows asked for at a time: what may be in the write buffer beyond [`FLUSH_BYTES`].
const CHUNK_ROWS_MAX: usize = 32;

/// Rows that are being sent.
pub(super) struct Sending<'a> {
    pub(super) shape: Shape<'a>,
    pub(super) rows: &'a mut Rows,
    /// How many shall be sent; `None` is all.
    pub(super) rows_max: Option<usize>,
    /// How many have been.
    pub(super) sent: usize,
}

impl Sending<'_> {
    /// Encodes rows for as long as there are some and the buffer is not full. Whether that was all of them.
    pub(super) fn encode(&mut self, output: &mut Output) -> Result<bool, WireError> {
        loop {
            let wanted = self.rows_max.map_or(CHUNK_ROWS_MAX, |max| CHUNK_ROWS_MAX.min(max - self.sent));
            if wanted == 0 {
                return Ok(true);
            }
            if output.buffer.len() >= FLUSH_BYTES || !self.rows.is_ready() {
                return Ok(false);
            }
            match self.rows.take(wanted)? {
                None => return Ok(true),
                Some(Chunk::Stored(chunk)) => {
                    let stored = Stored { types: chunk.stored_types(), projection: chunk.projection() };
                    for row in chunk.rows() {
                        output.rows.stored(&mut output.buffer, row, stored, self.shape)?;
                        self.sent += 1;
                    }
                }
                Some(Chunk::Batch(batch, range)) => {
                    for row in range {
                        output.rows.batch_row(&mut output.buffer, &batch, row, self.shape)?;
                        self.sent += 1;
                    }
                }
            }
        }
    }

    /// Sends what is left, waiting for rows and for the client.
    pub(super) async fn finish(mut self, output: &mut Output, stream: &mut impl Stream) -> Result<usize, WireError> {
        while !self.encode(output)? {
            if self.rows.is_live() {
                output.flush(stream).await?;
            } else {
                output.flush_if_full(stream).await?;
            }
            if !self.rows.is_ready() {
                attended(stream, self.rows.wait()).await??;
            }
        }
        Ok(self.sent)
    }
}

impl<S: Stream> Connection<S> {
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
        let sending = Sending { shape, rows: &mut rows, rows_max: None, sent: 0 };
        let sent = sending.finish(output, stream).await?;
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
