//! What a statement answers with: a tag, or rows to be pulled.

use crate::cancel::Interrupt;
use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::reading::waiting::Awaited;
use crate::writing::copy_in::CopyIn;
use arrow::array::RecordBatch;
use compute_client::peek::{OwnedPeekChunk, PeekChunk, PeekRows};
use datafusion::execution::SendableRecordBatchStream;
use engine::error::SqlError;
use futures::StreamExt;
use futures::future::BoxFuture;
use pgrepr::copy::CopyOptions;
use repr::Timestamp;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The answer to one statement.
pub enum Response {
    /// Rows, then a tag with their number.
    Rows {
        /// Their shape.
        desc: Arc<RowDesc>,
        /// The rows.
        rows: Rows,
        /// What the tag begins with.
        tag: RowsTag,
        /// Whether they are those of a BINARY cursor: who was not told otherwise gets them in binary.
        is_binary: bool,
        /// Which of all that were bound the portal is that was executed; 0 of a cursor and where there is none.
        portal: u64,
    },
    /// A tag.
    Complete(Tag),
    /// An empty statement.
    Empty,
    /// The client is to send rows.
    CopyIn(Box<CopyIn>),
    /// Rows as COPY data.
    CopyOut {
        /// Their shape.
        desc: Arc<RowDesc>,
        /// The rows.
        rows: Rows,
        /// The format.
        options: Box<CopyOptions>,
    },
}

impl Response {
    /// Rows that are to be had in whatever form is asked for.
    pub(crate) fn rows(desc: Arc<RowDesc>, rows: Rows, tag: RowsTag) -> Response {
        Response::Rows { desc, rows, tag, is_binary: false, portal: 0 }
    }

    /// The same from the portal that was bound with this number.
    pub(crate) fn of_portal(mut self, number: u64) -> Response {
        if let Response::Rows { portal, .. } = &mut self {
            *portal = number;
        }
        self
    }
}

/// The command tags of statements that return rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the tags' own names")]
pub enum RowsTag {
    Select,
    Insert,
    Update,
    Delete,
    Fetch,
    Show,
    Explain,
}

impl RowsTag {
    /// What the tag begins with.
    pub fn text(self) -> &'static str {
        match self {
            RowsTag::Select => "SELECT",
            RowsTag::Insert => "INSERT 0",
            RowsTag::Update => "UPDATE",
            RowsTag::Delete => "DELETE",
            RowsTag::Fetch => "FETCH",
            RowsTag::Show => "SHOW",
            RowsTag::Explain => "EXPLAIN",
        }
    }

    /// Whether the number of rows follows.
    pub fn has_count(self) -> bool {
        !matches!(self, RowsTag::Show | RowsTag::Explain)
    }
}

/// A command tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A word or two.
    Plain(&'static str),
    /// INSERT 0 n, UPDATE n, DELETE n, COPY n, MOVE n.
    Counted(&'static str, u64),
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tag::Plain(text) => f.write_str(text),
            Tag::Counted(text, count) => write!(f, "{text} {count}"),
        }
    }
}

/// Rows being pulled. They own what they read, so nothing else has to be kept for them.
pub enum Rows {
    /// Straight from an index.
    Peek(Box<PeekRows>),
    /// As Arrow batches.
    Batches(Box<BatchRows>),
    /// Rows that have to be waited for first.
    Pending(Box<Pending>),
}

/// Rows that have to be waited for.
pub struct Pending {
    work: BoxFuture<'static, Result<Rows, AdapterError>>,
    awaited: Option<Awaited>,
}

/// Some rows.
pub enum Chunk<'a> {
    /// As they are stored.
    Stored(PeekChunk<'a>),
    /// A range of an Arrow batch.
    Batch(RecordBatch, Range<usize>),
}

impl Chunk<'_> {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        match self {
            Chunk::Stored(rows) => rows.rows().len(),
            Chunk::Batch(_, range) => range.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Stored rows that hold what they are in.
pub struct StoredRows(OwnedPeekChunk);

impl StoredRows {
    /// Those of a chunk from the one at `start` on.
    pub fn of(chunk: &PeekChunk<'_>, start: usize) -> StoredRows {
        StoredRows(chunk.to_owned_from(start))
    }

    /// The rows.
    pub fn chunk(&self) -> PeekChunk<'_> {
        self.0.chunk()
    }
}

impl Rows {
    /// Rows that are there already.
    pub fn ready(batches: Vec<RecordBatch>) -> Rows {
        Rows::Batches(Box::new(BatchRows { ready: batches.into(), offset: 0, stream: None, given: None }))
    }

    /// Rows of a running query, until it is interrupted.
    pub fn stream(stream: SendableRecordBatchStream, interrupt: Interrupt) -> Rows {
        let stream = Some((stream, interrupt));
        Rows::Batches(Box::new(BatchRows { ready: VecDeque::new(), offset: 0, stream, given: None }))
    }

    /// Rows that come as things happen, until interrupted; and what `stream` says of how far those go that it has given.
    pub fn live(stream: SendableRecordBatchStream, given: Arc<AtomicU64>, interrupt: Interrupt) -> Rows {
        let stream = Some((stream, interrupt));
        Rows::Batches(Box::new(BatchRows { ready: VecDeque::new(), offset: 0, stream, given: Some(given) }))
    }

    /// Of rows that come as things happen, the time below which everything was taken, if nothing is left to be taken.
    pub fn upper(&self) -> Option<Timestamp> {
        let Rows::Batches(rows) = self else { return None };
        let given = rows.given.as_ref().filter(|_| !rows.has_rows())?;
        Some(given.load(Ordering::Relaxed))
    }

    /// Whether what is there should be seen before more is waited for.
    pub fn is_live(&self) -> bool {
        matches!(self, Rows::Batches(rows) if rows.given.is_some())
    }

    /// Rows that `work` gives, unless it is interrupted; before, it may wait for something to be built.
    pub fn pending(
        interrupt: Interrupt,
        awaited: Option<Awaited>,
        work: impl Future<Output = Result<Rows, AdapterError>> + Send + 'static,
    ) -> Rows {
        Rows::Pending(Box::new(Pending { work: Box::pin(async move { interrupt.guard(work).await? }), awaited }))
    }

    /// What is to be built before there are rows: told once.
    pub fn take_awaited(&mut self) -> Option<Awaited> {
        match self {
            Rows::Pending(pending) => pending.awaited.take(),
            _ => None,
        }
    }

    /// Whether [`Rows::take`] has something to say without [`Rows::wait`].
    pub fn is_ready(&self) -> bool {
        match self {
            Rows::Peek(_) => true,
            Rows::Batches(rows) => rows.is_ready(),
            Rows::Pending(_) => false,
        }
    }

    /// Waits until there are rows, or an end.
    ///
    /// # Cancellation
    /// Safe to drop: nothing is lost.
    pub async fn wait(&mut self) -> Result<(), AdapterError> {
        loop {
            match self {
                Rows::Peek(_) => return Ok(()),
                Rows::Batches(rows) => return rows.wait().await,
                Rows::Pending(pending) => *self = (&mut pending.work).await?,
            }
        }
    }

    /// The next of the rows that are there, at most `rows_max`; `None` at the end, or if they have to be waited for.
    pub fn take(&mut self, rows_max: usize) -> Result<Option<Chunk<'_>>, AdapterError> {
        match self {
            Rows::Peek(rows) => Ok(rows.next_chunk(rows_max)?.map(Chunk::Stored)),
            Rows::Batches(rows) => Ok(rows.take(rows_max)),
            Rows::Pending(_) => Ok(None),
        }
    }

    /// The same as [`Rows::next`]; stored rows before the last of the chunk have fewer bytes than `bytes_max`.
    ///
    /// # Cancellation
    /// As [`Rows::next`].
    pub async fn next_within(&mut self, rows_max: usize, bytes_max: usize) -> Result<Option<Chunk<'_>>, AdapterError> {
        self.wait().await?;
        match self {
            Rows::Peek(rows) => Ok(rows.next_chunk_within(rows_max, bytes_max)?.map(Chunk::Stored)),
            rows => rows.take(rows_max),
        }
    }

    /// The next rows, at most `rows_max`, waited for if need be; `None` at the end.
    ///
    /// # Cancellation
    /// Safe to drop: no row is taken before it is returned.
    pub async fn next(&mut self, rows_max: usize) -> Result<Option<Chunk<'_>>, AdapterError> {
        self.wait().await?;
        self.take(rows_max)
    }
}

/// Arrow batches, ready or still being computed.
pub struct BatchRows {
    ready: VecDeque<RecordBatch>,
    /// Rows of the first ready batch that were handed out.
    offset: usize,
    stream: Option<(SendableRecordBatchStream, Interrupt)>,
    /// Of rows that come as things happen: below this time all were given by the stream.
    given: Option<Arc<AtomicU64>>,
}

impl BatchRows {
    fn is_ready(&self) -> bool {
        self.stream.is_none() || self.has_rows()
    }

    fn has_rows(&self) -> bool {
        self.ready.front().is_some_and(|batch| self.offset < batch.num_rows())
    }

    async fn wait(&mut self) -> Result<(), AdapterError> {
        while !self.is_ready()
            && let Some((stream, interrupt)) = &mut self.stream
        {
            match interrupt.guard(stream.next()).await? {
                Some(Ok(batch)) if batch.num_rows() > 0 => {
                    self.ready.clear();
                    self.offset = 0;
                    self.ready.push_back(batch);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(SqlError::from(error).into()),
                None => self.stream = None,
            }
        }
        Ok(())
    }

    fn take<'a>(&mut self, rows_max: usize) -> Option<Chunk<'a>> {
        loop {
            let batch = self.ready.front()?;
            if self.offset < batch.num_rows() {
                let end = batch.num_rows().min(self.offset.saturating_add(rows_max));
                let range = self.offset..end;
                if end < batch.num_rows() {
                    self.offset = end;
                    return Some(Chunk::Batch(batch.clone(), range));
                }
                // Who waits for more keeps nothing of it.
                self.offset = 0;
                return self.ready.pop_front().map(|batch| Chunk::Batch(batch, range));
            }
            self.ready.pop_front();
            self.offset = 0;
        }
    }
}
