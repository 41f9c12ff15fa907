//! What a statement answers with: a tag, or rows to be pulled.

use crate::copy::CopyIn;
use crate::error::AdapterError;
use arrow::array::RecordBatch;
use bytes::{Bytes, BytesMut};
use compute_client::peek::{PeekChunk, PeekRows};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use repr::RelationDesc;
use repr::sqlstate::SqlState;
use sql::ast::CopyOptions;
use sql::error::SqlError;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A value's form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As a person reads it.
    Text,
    /// As Postgres's `*_send` functions write it.
    Binary,
}

impl Format {
    /// The format with this code. Error: 08P01.
    pub fn from_code(code: i16) -> Result<Format, AdapterError> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(AdapterError::new(SqlState::PROTOCOL_VIOLATION, format!("unsupported format code: {code}"))),
        }
    }
}

/// The formats of a result's columns: one for all, or one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultFormats {
    /// Every column.
    All(Format),
    /// Column by column.
    Each(Vec<Format>),
}

impl ResultFormats {
    /// From Bind's codes: none means text, one is for all columns.
    pub fn from_codes(codes: &[i16]) -> Result<ResultFormats, AdapterError> {
        match codes {
            [] => Ok(ResultFormats::All(Format::Text)),
            [code] => Ok(ResultFormats::All(Format::from_code(*code)?)),
            codes => {
                Ok(ResultFormats::Each(codes.iter().map(|code| Format::from_code(*code)).collect::<Result<_, _>>()?))
            }
        }
    }

    /// Text for every column.
    pub fn text() -> ResultFormats {
        ResultFormats::All(Format::Text)
    }

    /// The format of column `index`.
    pub fn for_column(&self, index: usize) -> Format {
        match self {
            ResultFormats::All(format) => *format,
            ResultFormats::Each(formats) => formats.get(index).copied().unwrap_or(Format::Text),
        }
    }

    /// Error 08P01 if there are neither none, one, nor as many codes as columns.
    pub(crate) fn check(&self, column_count: usize) -> Result<(), AdapterError> {
        match self {
            ResultFormats::Each(formats) if formats.len() != column_count => Err(AdapterError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {} result formats but query has {column_count} columns", formats.len()),
            )),
            _ => Ok(()),
        }
    }
}

/// Parameter values as Bind carries them.
#[derive(Clone, Copy, Debug)]
pub struct BoundParams<'a> {
    /// None (all text), one for all, or one each.
    pub formats: &'a [i16],
    /// The values; `None` is NULL.
    pub values: &'a [Option<&'a [u8]>],
}

/// What Describe says of a prepared statement.
#[derive(Debug)]
pub struct StatementDesc {
    /// The OIDs of its parameters.
    pub params: Vec<u32>,
    /// Its result, if it has one.
    pub rows: Option<Arc<RowDesc>>,
}

/// The shape of a result, shared by every execution of a plan.
#[derive(Debug)]
pub struct RowDesc {
    /// Names and types.
    pub desc: Arc<RelationDesc>,
    /// The whole RowDescription message with every column in text format.
    pub text_row_description: Bytes,
}

impl RowDesc {
    /// Encodes the description once.
    pub fn new(desc: Arc<RelationDesc>) -> Arc<RowDesc> {
        let text_row_description = describe(&desc, &ResultFormats::text());
        Arc::new(RowDesc { desc, text_row_description })
    }

    /// The RowDescription message with these formats.
    pub fn row_description(&self, formats: &ResultFormats) -> Bytes {
        match formats {
            ResultFormats::All(Format::Text) => self.text_row_description.clone(),
            formats => describe(&self.desc, formats),
        }
    }
}

fn describe(desc: &RelationDesc, formats: &ResultFormats) -> Bytes {
    let mut out = BytesMut::new();
    let code = |column| match formats.for_column(column) {
        Format::Text => 0,
        Format::Binary => 1,
    };
    pgrepr::row_description::row_description(desc, code, &mut out);
    out.freeze()
}

/// The answer to one statement.
#[allow(clippy::large_enum_variant, reason = "one exists per statement, on the way from its verb to its door")]
pub enum Response {
    /// Rows, then a tag with their number.
    Rows {
        /// Their shape.
        desc: Arc<RowDesc>,
        /// Their formats.
        formats: ResultFormats,
        /// The rows.
        rows: Rows,
        /// What the tag begins with.
        tag: RowsTag,
        /// Whether RowDescription comes first (simple protocol).
        send_description: bool,
    },
    /// A tag.
    Complete(Tag),
    /// An empty statement.
    Empty,
    /// The client is to send rows.
    CopyIn(CopyIn),
    /// Rows as COPY data.
    CopyOut {
        /// Their shape.
        desc: Arc<RowDesc>,
        /// The rows.
        rows: Rows,
        /// The format.
        options: CopyOptions,
    },
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
}

/// Some rows.
pub enum Chunk<'a> {
    /// As they are stored.
    Stored(PeekChunk<'a>),
    /// A range of an Arrow batch.
    Batch(RecordBatch, Range<usize>),
}

impl Rows {
    /// Rows that are there already.
    pub fn ready(batches: Vec<RecordBatch>) -> Rows {
        Rows::Batches(Box::new(BatchRows {
            ready: batches.into(),
            offset: 0,
            stream: None,
            interrupt: Interrupt::never(),
        }))
    }

    /// Rows of a running query, until it is interrupted.
    pub fn stream(stream: SendableRecordBatchStream, interrupt: Interrupt) -> Rows {
        Rows::Batches(Box::new(BatchRows { ready: VecDeque::new(), offset: 0, stream: Some(stream), interrupt }))
    }

    /// The next rows, at most `rows_max`, or `None` at the end.
    ///
    /// # Cancellation
    /// Safe to drop: no row is taken before it is returned.
    pub async fn next(&mut self, rows_max: usize) -> Result<Option<Chunk<'_>>, AdapterError> {
        match self {
            Rows::Peek(rows) => Ok(rows.next_chunk(rows_max)?.map(Chunk::Stored)),
            Rows::Batches(rows) => rows.next(rows_max).await,
        }
    }
}

/// Arrow batches, ready or still being computed.
pub struct BatchRows {
    ready: VecDeque<RecordBatch>,
    /// Rows of the first ready batch that were handed out.
    offset: usize,
    stream: Option<SendableRecordBatchStream>,
    interrupt: Interrupt,
}

impl BatchRows {
    async fn next(&mut self, rows_max: usize) -> Result<Option<Chunk<'_>>, AdapterError> {
        loop {
            if let Some(batch) = self.ready.front() {
                if self.offset < batch.num_rows() {
                    let end = batch.num_rows().min(self.offset.saturating_add(rows_max));
                    let range = self.offset..end;
                    self.offset = end;
                    return Ok(Some(Chunk::Batch(batch.clone(), range)));
                }
                self.ready.pop_front();
                self.offset = 0;
                continue;
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            match self.interrupt.guard(stream.next()).await? {
                Some(Ok(batch)) => self.ready.push_back(batch),
                Some(Err(error)) => return Err(SqlError::from(error).into()),
                None => self.stream = None,
            }
        }
    }
}

/// What ends a running statement early: CancelRequest, a timeout.
#[derive(Clone, Debug)]
pub struct Interrupt {
    token: CancellationToken,
    deadline: Option<(tokio::time::Instant, Duration)>,
}

impl Interrupt {
    /// Interrupted by the token, or after `timeout`.
    pub fn new(token: CancellationToken, timeout: Option<Duration>) -> Interrupt {
        Interrupt { token, deadline: timeout.map(|timeout| (tokio::time::Instant::now() + timeout, timeout)) }
    }

    /// Never interrupted.
    pub fn never() -> Interrupt {
        Interrupt { token: CancellationToken::new(), deadline: None }
    }

    /// Runs `work` unless interrupted before it is done. Error: 57014.
    ///
    /// # Cancellation
    /// As safe to drop as `work`.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, AdapterError> {
        let timeout = async {
            match self.deadline {
                Some((deadline, _)) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.token.cancelled() => Err(AdapterError::canceled()),
            result = work => Ok(result),
            () = timeout => {
                Err(AdapterError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout"))
            }
        }
    }
}
