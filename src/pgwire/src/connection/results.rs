//! Rows on their way out: pulled a chunk at a time, encoded into the write buffer, and written whenever enough have
//! piled up. A client that reads slowly makes the write wait, and with it whoever produces the rows.

use super::large::{Large, OwnedShape};
use super::{Connection, FLUSH_BYTES, Output, attended};
use crate::encode::rows::{Shape, Target};
use crate::error::WireError;
use crate::formats::{Format, Formats, row_description};
use crate::stream::Stream;
use crate::{encode, message};
use adapter::description::RowDesc;
use adapter::error::AdapterError;
use adapter::reading::batches::row_bytes;
use adapter::reading::waiting::{Awaited, PATIENCE};
use adapter::response::{Chunk, Response, Rows, RowsTag, StoredRows};
use adapter::seat::Seat;
use adapter::session::Session;
use adapter::writing::copy_in::CopyIn;
use arrow::array::Array;
use door::apart::apart;
use ore::memory::Reservation;
use pgrepr::copy::{CopyFormat, CopyOptions};
use pgrepr::options::EncodeOptions;
use repr::row::Stored;
use std::sync::Arc;

/// Rows asked for at a time: what may be in the write buffer beyond [`FLUSH_BYTES`].
const CHUNK_ROWS_MAX: usize = 32;

/// Bytes from which on a row is encoded elsewhere.
const LARGE_ROW: usize = 256 << 10;

/// An answer that has to be waited for.
pub(super) enum Answer {
    /// Rows of which some may be in the write buffer.
    Rows(Reply),
    /// COPY FROM STDIN.
    CopyIn(Box<CopyIn>),
    /// COPY TO STDOUT.
    CopyOut(Arc<RowDesc>, Rows, Box<CopyOptions>),
}

/// The rows of a statement, and how many were sent.
pub(super) struct Reply {
    desc: Arc<RowDesc>,
    formats: Formats,
    /// How values are printed, if that takes more than the session's settings.
    options: Option<Box<EncodeOptions>>,
    rows: Rows,
    /// Rows that come before those, the first of which is large.
    large: Option<Box<Large>>,
    tag: RowsTag,
    /// How many the client wants at the most; `None` is all.
    rows_max: Option<usize>,
    sent: usize,
    bytes: usize,
}

impl Reply {
    fn sending<'a>(&'a mut self, session: &'a Session) -> Sending<'a> {
        let target = Target::DataRow(&self.formats);
        let options = self.options.as_deref().unwrap_or(session.encode_options());
        let shape = Shape { columns: &self.desc.desc.columns, options, target };
        let Reply { rows, large, rows_max, sent, bytes, .. } = self;
        Sending { shape, rows, large, rows_max: *rows_max, sent: *sent, bytes: *bytes }
    }
}

/// Rows that are being sent.
pub(super) struct Sending<'a> {
    shape: Shape<'a>,
    rows: &'a mut Rows,
    large: &'a mut Option<Box<Large>>,
    /// How many shall be sent; `None` is all.
    rows_max: Option<usize>,
    /// How many have been, and their bytes.
    sent: usize,
    bytes: usize,
}

impl Sending<'_> {
    /// Encodes rows for as long as there are some and the buffer is not full. Whether that was all of them.
    fn encode(&mut self, output: &mut Output) -> Result<bool, WireError> {
        let before = output.buffer.len();
        let is_done = self.fill(output)?;
        self.bytes += output.buffer.len() - before;
        Ok(is_done)
    }

    fn fill(&mut self, output: &mut Output) -> Result<bool, WireError> {
        loop {
            let wanted = self.rows_max.map_or(CHUNK_ROWS_MAX, |max| CHUNK_ROWS_MAX.min(max - self.sent));
            if wanted == 0 {
                return Ok(true);
            }
            if self.large.is_some() || output.buffer.len() >= FLUSH_BYTES || !self.rows.is_ready() {
                return Ok(false);
            }
            match self.rows.take(wanted)? {
                None => return Ok(true),
                Some(Chunk::Stored(chunk)) => {
                    let stored = Stored { types: chunk.stored_types(), projection: chunk.projection() };
                    for (at, row) in chunk.rows().enumerate() {
                        if row.len() > LARGE_ROW {
                            *self.large = Some(Box::new(Large::Stored(StoredRows::of(&chunk, at), 0)));
                            return Ok(false);
                        }
                        output.rows.stored(&mut output.buffer, row, stored, self.shape)?;
                        self.sent += 1;
                    }
                }
                Some(Chunk::Batch(batch, range)) => {
                    let may_be_large = batch.columns().iter().any(|column| column.get_buffer_memory_size() > LARGE_ROW);
                    for row in range.clone() {
                        if may_be_large && row_bytes(&batch, row) > LARGE_ROW {
                            *self.large = Some(Box::new(Large::Batch(batch, row..range.end)));
                            return Ok(false);
                        }
                        output.rows.batch_row(&mut output.buffer, &batch, row, self.shape)?;
                        self.sent += 1;
                    }
                }
            }
        }
    }

    /// Sends the rows that were put aside because the first of them is large: each is encoded on a thread that nobody waits for, and
    /// sent before the next is.
    async fn send_large(
        &mut self,
        mut large: Large,
        output: &mut Output,
        stream: &mut impl Stream,
    ) -> Result<(), WireError> {
        output.flush(stream).await?;
        let mut shape = OwnedShape::of(&self.shape);
        while let Some(bytes) = large.next_bytes() {
            let mut memory = Reservation::empty(&output.memory);
            // As bytes in text, for example, it takes twice as much again.
            memory.try_grow(bytes.saturating_mul(2)).map_err(AdapterError::from)?;
            let mut rows = std::mem::take(&mut output.rows);
            let encoding = apart(move || {
                let mut out = Vec::new();
                let encoded = large.encode(&mut rows, &mut out, shape.shape());
                (encoded, out, rows, large, shape)
            });
            let encoded;
            (encoded, output.buffer, output.rows, large, shape) = encoding.await.ok_or(WireError::Shutdown)?;
            encoded?;
            self.sent += 1;
            self.bytes += output.buffer.len();
            output.flush(stream).await?;
            output.shrink();
        }
        Ok(())
    }

    /// Waits for a while for rows that are made of something that is being built, and says so if they do not come.
    async fn tell_of(
        &mut self,
        awaited: &Awaited,
        output: &mut Output,
        stream: &mut impl Stream,
    ) -> Result<(), WireError> {
        let waited = attended(stream, tokio::time::timeout(PATIENCE, self.rows.wait())).await?;
        match waited {
            Ok(done) => Ok(done?),
            Err(_) => match awaited.notice() {
                Some(notice) => {
                    output.notice(&notice);
                    output.flush(stream).await
                }
                None => Ok(()),
            },
        }
    }

    /// Sends what is left, waiting for rows and for the client. How many rows were sent, and their bytes.
    async fn finish(mut self, output: &mut Output, stream: &mut impl Stream) -> Result<(usize, usize), WireError> {
        while !self.encode(output)? {
            if let Some(large) = self.large.take() {
                self.send_large(*large, output, stream).await?;
                continue;
            }
            if self.rows.is_live() {
                output.flush(stream).await?;
            } else {
                output.flush_if_full(stream).await?;
            }
            if !self.rows.is_ready() {
                if let Some(awaited) = self.rows.take_awaited() {
                    self.tell_of(&awaited, output, stream).await?;
                }
                attended(stream, self.rows.wait()).await??;
            }
        }
        Ok((self.sent, self.bytes))
    }
}

impl<S: Stream> Connection<S> {
    /// Answers a statement of the simple protocol, whose rows are described first, as far as that needs no waiting.
    pub(super) fn respond_described(
        &mut self,
        session: &mut Seat,
        response: Response,
    ) -> Result<Option<Answer>, WireError> {
        let mut formats = Formats::text();
        if let Response::Rows { desc, is_binary, .. } = &response {
            if *is_binary {
                formats = Formats::All(Format::Binary);
            }
            self.output.buffer.extend_from_slice(&row_description(desc, &formats));
        }
        self.respond(session, response, formats, None)
    }

    /// Answers a statement as far as that needs no waiting; what is left is handed back.
    pub(super) fn respond(
        &mut self,
        session: &mut Seat,
        response: Response,
        formats: Formats,
        rows_max: Option<usize>,
    ) -> Result<Option<Answer>, WireError> {
        match response {
            Response::Rows { desc, rows, tag, .. } => {
                let options = desc.names_objects.then(|| Box::new(session.naming_options()));
                let mut reply = Reply { desc, formats, options, rows, large: None, tag, rows_max, sent: 0, bytes: 0 };
                let mut sending = reply.sending(session);
                let is_done = sending.encode(&mut self.output)?;
                (reply.sent, reply.bytes) = (sending.sent, sending.bytes);
                match is_done {
                    true => self.complete(session, reply)?,
                    false => return Ok(Some(Answer::Rows(reply))),
                }
            }
            Response::Complete(tag) => {
                self.output.notices(session);
                encode::command_complete(&mut self.output.buffer, tag);
                session.succeeded(None);
            }
            Response::Empty => encode::empty_query_response(&mut self.output.buffer),
            Response::CopyIn(copy) => return Ok(Some(Answer::CopyIn(copy))),
            Response::CopyOut { desc, rows, options } => return Ok(Some(Answer::CopyOut(desc, rows, options))),
        }
        Ok(None)
    }

    /// Sends what is left of an answer.
    pub(super) async fn finish(&mut self, session: &mut Seat, answer: Answer) -> Result<(), WireError> {
        match answer {
            Answer::Rows(mut reply) => {
                let sending = reply.sending(session);
                (reply.sent, reply.bytes) = sending.finish(&mut self.output, &mut self.stream).await?;
                self.complete(session, reply)
            }
            Answer::CopyIn(copy) => self.copy_in(session, copy).await,
            Answer::CopyOut(desc, rows, options) => self.copy_out(session, &desc, rows, &options).await,
        }
    }

    /// What follows the rows. Those that the client has not asked for yet stay with their portal.
    fn complete(&mut self, session: &mut Seat, reply: Reply) -> Result<(), WireError> {
        self.output.notices(session);
        session.succeeded(Some((reply.sent, reply.bytes)));
        if reply.rows_max == Some(reply.sent) {
            session.suspend(message::execute(self.input.body())?.portal, reply.rows);
            encode::portal_suspended(&mut self.output.buffer);
        } else {
            encode::rows_complete(&mut self.output.buffer, reply.tag, reply.sent);
        }
        Ok(())
    }

    /// COPY TO STDOUT: every row a line or its binary form, each of them a message.
    pub(super) async fn copy_out(
        &mut self,
        session: &mut Seat,
        desc: &RowDesc,
        mut rows: Rows,
        options: &CopyOptions,
    ) -> Result<(), WireError> {
        let Connection { output, stream, .. } = self;
        let columns = desc.desc.columns.as_slice();
        let target = match format(options) {
            Format::Text => Target::Copy(options),
            Format::Binary => Target::CopyBinary,
        };
        let named = desc.names_objects.then(|| session.naming_options());
        let shape = Shape { columns, options: named.as_ref().unwrap_or(session.encode_options()), target };
        encode::copy_out_response(&mut output.buffer, columns.len(), format(options));
        if let Target::CopyBinary = target {
            output.rows.begin_binary_copy();
        }
        if options.header {
            output.rows.header(&mut output.buffer, options, shape)?;
        }
        let large = &mut None;
        let sending = Sending { shape, rows: &mut rows, large, rows_max: None, sent: 0, bytes: 0 };
        let (sent, bytes) = sending.finish(output, stream).await?;
        if let Target::CopyBinary = target {
            output.rows.end_binary_copy(&mut output.buffer);
        }
        encode::copy_done(&mut output.buffer);
        output.notices(session);
        encode::command_complete(&mut output.buffer, format_args!("COPY {sent}"));
        session.succeeded(Some((sent, bytes)));
        Ok(())
    }
}

/// Whether a statement's options ask for lines of text or for binary rows.
pub(super) fn format(options: &CopyOptions) -> Format {
    match options.format {
        CopyFormat::Text | CopyFormat::Csv => Format::Text,
        CopyFormat::Binary => Format::Binary,
    }
}
