//! `POST /api/copy?table=`: rows in, as one transaction.
//!
//! Rows are read as they come and kept by the COPY, in its memory; they are committed when all have come. What form they have says
//! `Content-Type`: lines of CSV or of JSON objects, a stream of Arrow batches, or a Parquet file, which has to be there whole before
//! it can be read. Which columns they have is said by the table (`t(a, b)`), or by them: by the first line, or by names.

use crate::api;
use crate::identify::single;
use crate::json;
use crate::objects;
use crate::once::{self, Print, Record};
use crate::request::{Loaded, address, before, drain, next_piece, read_body, weight};
use crate::running::Welcome;
use crate::shared::{Seated, Visitor};
use crate::sql::{check_identity, welcome};
use crate::told::{self, Refusal};
use adapter::error::AdapterError;
use adapter::made::Table;
use adapter::once::Key;
use adapter::response::Tag;
use adapter::seat::Seat;
use adapter::session::Session;
use adapter::writing::copy_in::CopyIn;
use arrow::datatypes::Schema;
use arrow_ipc::reader::StreamDecoder;
use axum::Extension;
use axum::body::Body;
use axum::extract;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use door::apart::elsewhere;
use door::intake::{self, ROWS_AT_ONCE};
use door::messages::{Messages, decoded, guarded};
use ore::memory::Reservation;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pgrepr::copy::reader::{CopyError, CopyReader};
use pgrepr::copy::{CopyFormat, CopyOptions};
use repr::sqlstate::SqlState;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of a line of names, and of what comes with it.
const NAMES_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line from which on it is read where nobody waits.
const LARGE_LINE: usize = 256 << 10;

/// What form rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Lines of fields, with the names of columns in the first or not.
    Csv { header: bool },
    /// Objects in lines.
    Lines,
    /// A stream of Arrow batches.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// The form of a body. Errors: 415 of one that is not taken.
fn form_of(headers: &HeaderMap) -> Result<Form, Refusal> {
    check_identity(headers)?;
    let value = single(headers, header::CONTENT_TYPE)?.unwrap_or_default();
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    Ok(match essence.as_str() {
        "text/csv" => Form::Csv { header: !parts.any(|part| part.eq_ignore_ascii_case("header=absent")) },
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Form::Lines,
        "application/vnd.apache.arrow.stream" => Form::Arrow,
        "application/vnd.apache.parquet" => Form::Parquet,
        _ => {
            let message = "rows come as text/csv, application/x-ndjson, application/vnd.apache.arrow.stream or \
                           application/vnd.apache.parquet, and the body has to say so: Content-Type";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    })
}

/// What is told of it.
pub(crate) fn told() -> Value {
    json!({
        "summary": "Loads rows, as a transaction",
        "parameters": [
            api::required_query("table", "The table as in SQL: t, s.t, t(a, b)"), api::options(), api::idempotency_key(),
        ],
        "requestBody": { "required": true, "content": {
            "text/csv": {}, "application/x-ndjson": {}, "application/vnd.apache.arrow.stream": {},
            "application/vnd.apache.parquet": {},
        } },
        "responses": {
            "200": { "description": "How many rows there were", "content": { "application/json": {} } },
            "default": api::refused(),
        },
    })
}

/// The handler.
pub(crate) async fn copy(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let found = async {
        let Loaded { table, options } = address(&parts.uri)?;
        let welcome = welcome(&visitor, &parts, options.as_deref()).await?;
        Ok((welcome, Table::parse(&table)?, form_of(&parts.headers)?, Print::of(&parts)?))
    };
    let ((Welcome { entrance, place }, table, form, once), mut body) = before(body, found.await).await?;
    let mut seated = visitor.seat(&entrance, place)?;
    let once = match once {
        Some((key, print)) => {
            body = print.over(body);
            Some((seated.key(&key)?, print))
        }
        None => None,
    };
    let ended = seated.shutdown();
    let bytes_max = visitor.own.request_bytes_max;
    let loaded = {
        let mut load = Load { seat: &mut seated, table, bytes_max, once };
        tokio::select! {
            biased;
            () = ended.cancelled() => Err(AdapterError::new(SqlState::ADMIN_SHUTDOWN, "the session ends").into()),
            loaded = load.all(&mut body, form) => loaded,
        }
    };
    let answer = conclude(seated, loaded).await;
    if answer.is_err() {
        drain(body).await;
    }
    answer
}

/// What is told of rows that were loaded, or not; and the session goes back.
async fn conclude(mut seated: Seated, loaded: Result<Told, Refusal>) -> Result<Response, Refusal> {
    if let Err(refusal) = &loaded {
        seated.gave_up(refusal.sqlstate(), &refusal.message());
    }
    seated.give_back().await;
    let Told { body, is_again } = loaded?;
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    if is_again {
        once::mark(response.headers_mut());
    }
    Ok(response)
}

/// What is told of rows that were loaded, and whether that was before.
struct Told {
    body: Vec<u8>,
    is_again: bool,
}

/// What was told before, once the whole body has come. Errors: 422 if that was another one.
fn again(told: &[u8], print: &Print) -> Result<Told, Refusal> {
    Ok(Told { body: Record::decode(told, print)?.into_body(), is_again: true })
}

/// A load.
struct Load<'s> {
    seat: &'s mut Seat,
    table: Table,
    /// Of a line, of what an Arrow stream has between two batches, and of a file.
    bytes_max: usize,
    /// If it is carried out once.
    once: Option<(Key, Print)>,
}

impl Load<'_> {
    /// Takes all rows and commits them. Errors: those of rows, with their numbers, and of the commit.
    async fn all(&mut self, body: &mut Body, form: Form) -> Result<Told, Refusal> {
        let once = self.once.take();
        if let Some((key, print)) = &once
            && let Some(told) = key.answered_before().await?
        {
            while next_piece(body).await?.is_some() {}
            return again(&told, print);
        }
        let copy = match form {
            Form::Csv { header } => self.csv(body, header).await?,
            Form::Lines => self.lines(body).await?,
            Form::Arrow => self.arrow(body).await?,
            Form::Parquet => self.parquet(body).await?,
        };
        let Some((key, print)) = once else {
            let tag = self.seat.copy_done(copy).await?;
            return Ok(Told { body: self.told(&tag), is_again: false });
        };
        let body = self.told(&Tag::Counted("COPY", copy.row_count()));
        let record = Record::of(&print, "", body.clone());
        match self.seat.copy_done_once(copy, &key, record.encode()).await {
            Ok(_) => Ok(Told { body, is_again: false }),
            // Somebody may have been quicker, with the same.
            Err(error) => match key.answered_before().await? {
                Some(told) => again(&told, &print),
                None => Err(error.into()),
            },
        }
    }

    /// What is told of rows that were loaded.
    fn told(&mut self, tag: &Tag) -> Vec<u8> {
        let notices = self.seat.here().map(Session::take_notices).unwrap_or_default();
        let mut out = b"{\"results\":[{\"ok\":".to_vec();
        json::string(&mut out, &tag.to_string());
        out.extend_from_slice(b",\"notices\":");
        told::notices(&mut out, &notices);
        out.extend_from_slice(b"}]}\n");
        out
    }

    /// Begins to load rows with these columns.
    async fn begin(&mut self, names: Option<Vec<String>>, options: CopyOptions) -> Result<Box<CopyIn>, AdapterError> {
        self.seat.copy_in(self.table.copied(names, options)).await
    }

    async fn csv(&mut self, body: &mut Body, header: bool) -> Result<Box<CopyIn>, Refusal> {
        let options = CopyOptions { header, ..CopyOptions::new(CopyFormat::Csv) };
        let mut start = Vec::new();
        let mut names = None;
        if header && !self.table.has_columns() {
            while names.is_none() {
                let piece = next_piece(body).await?;
                start.extend_from_slice(piece.as_deref().unwrap_or_default());
                if start.len() > NAMES_BYTES_MAX {
                    return Err(too_much("the first line", NAMES_BYTES_MAX).into());
                }
                let found = first_line(&start, piece.is_none(), self.bytes_max);
                names = found.map_err(|wrong| wrong.of(&self.table))?;
                if piece.is_none() {
                    break;
                }
            }
        }
        let mut copy = self.begin(names, options).await?;
        let mut reader = CopyReader::new(copy.options.clone(), self.bytes_max);
        let mut next = Some(Bytes::from(start));
        while let Some(piece) = next {
            let ends = memchr::memchr2_iter(b'\n', b'\r', &piece).count();
            self.seat.copy_in_rows(&mut copy, ends as u64 + 2).await?;
            let pushed = reader.push(&piece, &mut |line: u64, fields: &[Option<Cow<'_, str>>]| {
                copy.push_texts(line, fields).map_err(Wrong::from)
            });
            pushed.map_err(|wrong| wrong.of(&self.table))?;
            tokio::task::yield_now().await;
            next = next_piece(body).await?;
        }
        let finished = reader.finish(&mut |line: u64, fields: &[Option<Cow<'_, str>>]| {
            copy.push_texts(line, fields).map_err(Wrong::from)
        });
        finished.map_err(|wrong| wrong.of(&self.table))?;
        Ok(copy)
    }

    async fn lines(&mut self, body: &mut Body) -> Result<Box<CopyIn>, Refusal> {
        let (mut copy, mut pending, mut number): (Option<Box<CopyIn>>, Vec<u8>, u64) = (None, Vec::new(), 0);
        let mut memory = Reservation::empty(self.seat.message_memory());
        loop {
            let piece = next_piece(body).await?;
            let scanned = pending.len();
            memory.cover(scanned + piece.as_deref().map_or(1, <[u8]>::len)).map_err(AdapterError::from)?;
            pending.extend_from_slice(piece.as_deref().unwrap_or(b"\n"));
            let mut start = 0;
            let ends: Vec<usize> = memchr::memchr_iter(b'\n', &pending[scanned..]).map(|at| scanned + at).collect();
            if let Some(copy) = &mut copy {
                self.seat.copy_in_rows(copy, ends.len() as u64).await?;
            }
            for end in ends {
                let line = pending[std::mem::replace(&mut start, end + 1)..end].trim_ascii();
                number += 1;
                if line.is_empty() {
                    continue;
                }
                let context = |error: AdapterError| self.table.in_context(error, number);
                let object = match line.len() > LARGE_LINE {
                    true => {
                        // It is there as it came, as values and as texts.
                        memory.cover(4 * line.len() + weight(line)).map_err(AdapterError::from)?;
                        let line = line.to_vec();
                        elsewhere(move || objects::object(&line)).await.map_err(context)?
                    }
                    false => objects::object(line).map_err(context)?,
                };
                let into = match &mut copy {
                    Some(copy) => copy,
                    None => {
                        let names = object.keys().cloned().collect();
                        let statement = self.table.copied(Some(names), CopyOptions::new(CopyFormat::Text));
                        let begun = self.seat.copy_in(statement).await?;
                        let begun = copy.insert(begun);
                        self.seat.copy_in_rows(begun, memchr::memchr_iter(b'\n', &pending).count() as u64).await?;
                        begun
                    }
                };
                let fields = objects::fields(&object, &into.columns).map_err(context)?;
                into.push_texts(number, &fields)?;
            }
            pending.drain(..start);
            if pending.len() > self.bytes_max {
                return Err(too_much("a line", self.bytes_max).into());
            }
            if piece.is_none() {
                // Of no rows there is nothing that says which columns they have.
                return match copy {
                    Some(copy) => Ok(copy),
                    None => Ok(self.begin(None, CopyOptions::new(CopyFormat::Text)).await?),
                };
            }
            tokio::task::yield_now().await;
        }
    }

    async fn arrow(&mut self, body: &mut Body) -> Result<Box<CopyIn>, Refusal> {
        let (mut decoder, mut messages) = (StreamDecoder::new(), Messages::new(self.bytes_max));
        let (mut copy, mut first): (Option<Box<CopyIn>>, u64) = (None, 1);
        let mut memory = Reservation::empty(self.seat.message_memory());
        while let Some(piece) = next_piece(body).await? {
            memory.cover(2 * (messages.pending.len() + piece.len())).map_err(AdapterError::from)?;
            for message in messages.push(&piece)? {
                let (back, batch) = elsewhere(move || Ok::<_, AdapterError>(decoded(decoder, message))).await?;
                decoder = back;
                let batch = batch?;
                // Nothing more is read for who may not load it.
                let into = match (copy.take(), decoder.schema()) {
                    (Some(copy), _) => copy,
                    (None, Some(schema)) => self.begin_with(&schema).await?,
                    (None, None) => continue,
                };
                copy = Some(match batch {
                    Some(batch) => {
                        let (back, next) = intake::load(self.seat, into, batch, first).await?;
                        first = next;
                        back
                    }
                    None => into,
                });
            }
        }
        if !messages.pending.is_empty() {
            return Err(malformed("the Arrow stream breaks off".to_owned()).into());
        }
        decoder.finish().map_err(|error| malformed(format!("the Arrow stream breaks off: {error}")))?;
        copy.ok_or_else(|| malformed("the body is no Arrow stream".to_owned()).into())
    }

    async fn parquet(&mut self, body: &mut Body) -> Result<Box<CopyIn>, Refusal> {
        let (file, memory) = read_body(std::mem::take(body), self.bytes_max, self.seat.message_memory()).await?;
        let mut memory = memory.unwrap_or_else(|| Reservation::empty(self.seat.message_memory()));
        let opened = elsewhere(move || {
            let opened = guarded(|| ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)));
            opened?.map_err(|error| malformed(format!("the body is no Parquet file: {error}")))
        });
        let builder = opened.await?;
        // The columns of a group of rows are there at once.
        let groups = builder.metadata().row_groups().iter();
        let unpacked = groups.map(|group| usize::try_from(group.total_byte_size()).unwrap_or(usize::MAX)).max();
        memory.try_grow(unpacked.unwrap_or(0)).map_err(AdapterError::from)?;
        let mut copy = self.begin_with(builder.schema()).await?;
        let reader = builder.with_batch_size(ROWS_AT_ONCE).build();
        let mut reader = reader.map_err(|error| malformed(format!("the Parquet file cannot be read: {error}")))?;
        let mut first = 1;
        loop {
            let read = elsewhere(move || {
                let next = guarded(|| reader.next())?;
                Ok::<_, AdapterError>((reader, next.transpose()))
            });
            let (back, batch) = read.await?;
            reader = back;
            match batch.map_err(|error| malformed(format!("the Parquet file cannot be read: {error}")))? {
                Some(batch) => (copy, first) = intake::load(self.seat, copy, batch, first).await?,
                None => return Ok(copy),
            }
        }
    }

    /// Begins to load rows of batches.
    async fn begin_with(&mut self, schema: &Schema) -> Result<Box<CopyIn>, AdapterError> {
        self.begin(Some(intake::names(schema)), CopyOptions::new(CopyFormat::Text)).await
    }
}

/// The names in the first line, once it is there whole; an empty body has none.
fn first_line(start: &[u8], is_all: bool, bytes_max: usize) -> Result<Option<Vec<String>>, Wrong> {
    let mut reader = CopyReader::new(CopyOptions::new(CopyFormat::Csv), bytes_max);
    let mut names = None;
    let mut first = |_line: u64, fields: &[Option<Cow<'_, str>>]| {
        let of = || fields.iter().map(|field| field.as_deref().unwrap_or_default().to_owned()).collect();
        names.get_or_insert_with(of);
        Ok::<(), Wrong>(())
    };
    // What is wrong behind it is told when it is read.
    let read = reader.push(start, &mut first).and_then(|()| if is_all { reader.finish(&mut first) } else { Ok(()) });
    match (names, read) {
        (None, Err(wrong)) => Err(wrong),
        (names, _) => Ok(names),
    }
}

/// What can be wrong with a row of CSV: its line, or the values in it.
enum Wrong {
    Line(CopyError),
    Values(AdapterError),
}

impl From<CopyError> for Wrong {
    fn from(error: CopyError) -> Wrong {
        Wrong::Line(error)
    }
}

impl From<AdapterError> for Wrong {
    fn from(error: AdapterError) -> Wrong {
        Wrong::Values(error)
    }
}

impl Wrong {
    fn of(self, table: &Table) -> AdapterError {
        match self {
            Wrong::Values(error) => error,
            Wrong::Line(CopyError { sqlstate, message, line, .. }) => {
                table.in_context(AdapterError::new(sqlstate, message.into_owned()), line)
            }
        }
    }
}

fn malformed(message: String) -> AdapterError {
    AdapterError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn too_much(what: &str, bytes_max: usize) -> AdapterError {
    AdapterError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("{what} has more than {bytes_max} bytes"))
}
