//! `POST /api/sql`: statements in, their results out, as Materialize has it.
//!
//! A request is a transaction of its own. Its results come in one JSON object: what statements with rows gave as `{"desc","rows","tag",
//! "notices"}`, others as `{"ok","notices"}`, and the first error as `{"error","notices"}`, behind which nothing is run.

use crate::identify::{identify, single};
use crate::json::{self, Printer, Stored};
use crate::request::{Address, Query, Request, decode, read_body};
use crate::sink::{Gone, Head, PIECE_BYTES, Sink, answered};
use crate::told::{self, Refusal, Told};
use crate::visitor::{Place, Seated, Visitor};
use adapter::answer::{Answer, Answering, Follows, Statement, Values};
use adapter::error::AdapterError;
use adapter::reading::batches::row_bytes;
use adapter::response::{Chunk, StoredRows};
use adapter::seat::Seat;
use adapter::session::Session;
use adapter::status::Status;
use arrow::array::RecordBatch;
use axum::Extension;
use axum::extract::{self, Query as Parameters};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use ore::memory::Reservation;
use repr::sqlstate::SqlState;
use repr::{PgType, RelationDesc};
use std::sync::Arc;

/// Bytes of rows that are taken at once.
const BATCH_BYTES: usize = PIECE_BYTES;
/// Bytes from which on a row is printed elsewhere.
const LARGE_ROW: usize = 256 << 10;
/// How much longer than it is stored a value may be in JSON: bytes in hexadecimal, or control characters.
const PRINTED_TIMES: usize = 6;

/// The handler.
pub(crate) async fn sql(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let Parameters(address) = Parameters::<Address>::try_from_uri(&parts.uri)
        .map_err(|error| Refusal::malformed(format!("the address: {error}")))?;
    let (database, options) = address.options()?;
    let (entrance, user, database) = identify(&visitor, &parts, database).await?;
    check_json(&parts.headers)?;
    let (body, memory) = read_body(body, visitor.shared.request_bytes_max, entrance.client().message_memory()).await?;
    let request = Request::parse(&body)?;
    drop(body);
    let seated = visitor.seat(&entrance, Place { user, database, options })?;
    let answer = answered(Head::of("application/json"), |sink| run(seated, request, memory, sink)).await;
    if door::server::is_crowded() {
        // What others have asked meanwhile is answered first, and then everything sent.
        tokio::task::yield_now().await;
    }
    Ok(answer)
}

/// Refuses a body that does not say that it is JSON: others a browser sends for anybody's page, without asking us.
fn check_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let value = single(headers, header::CONTENT_TYPE)?.unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let message = "the body has to be JSON, and to say so: Content-Type: application/json";
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, SqlState::PROTOCOL_VIOLATION, message))
        }
    }
}

/// Runs a request, and gives the session back.
async fn run(
    mut seated: Seated,
    request: Request,
    _memory: Reservation,
    mut sink: Sink,
) -> (Sink, Result<(), Refusal>) {
    let ended = seated.shutdown();
    let results = Results { sink: &mut sink, count: 0, begins: 0, has_left: false };
    let done = tokio::select! {
        biased;
        () = ended.cancelled() => Err(AdapterError::new(SqlState::ADMIN_SHUTDOWN, "the session ends").into()),
        done = results.of(&mut seated, request) => done,
    };
    if done.is_ok() {
        seated.give_back().await;
    }
    (sink, done)
}

/// Results on their way out.
struct Results<'s> {
    sink: &'s mut Sink,
    /// How many there are that are whole.
    count: usize,
    /// Where in the buffer the next one begins, or begins to be written.
    begins: usize,
    /// Whether part of that one has been sent.
    has_left: bool,
}

impl Results<'_> {
    /// All results of a request. Errors: those of a statement of whose result part was sent.
    async fn of(mut self, seat: &mut Seat, request: Request) -> Result<(), Refusal> {
        self.sink.buffer.extend_from_slice(b"{\"results\":[");
        self.begins = self.sink.buffer.len();
        let done = match request {
            Request::Simple(text) => self.simple(seat, text).await,
            Request::Extended(queries) => self.extended(seat, queries).await,
        };
        let done = done.and_then(|()| match seat.transaction_status() {
            Status::Idle => Ok(()),
            Status::InBlock | Status::Failed => {
                let message = "the transaction that the request has begun is rolled back: it was not ended";
                Err(AdapterError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
            }
        });
        if let Err(error) = done {
            self.failed(seat, error)?;
        }
        self.sink.buffer.extend_from_slice(b"]}\n");
        Ok(())
    }

    async fn simple(&mut self, seat: &mut Seat, text: String) -> Result<(), AdapterError> {
        let mut asked = seat.ask(text).await?;
        loop {
            let Some(answer) = seat.next_answer(&mut asked, BATCH_BYTES).await? else { return Ok(()) };
            let is_told = self.result(answer).await?;
            self.end(seat, is_told);
        }
    }

    async fn extended(&mut self, seat: &mut Seat, queries: Vec<Query>) -> Result<(), AdapterError> {
        for mut query in queries {
            let params = query.take_params();
            let bytes = params.iter().flatten().map(String::len).sum();
            let decode = move |session: &Session, types: &[PgType]| decode(session, types, &params);
            let (statement, values) = (Statement::Text(query.query), Values { bytes, decode });
            let answer = seat.answer(statement, values, Follows::Others, BATCH_BYTES).await?;
            let is_told = self.result(answer).await?;
            self.end(seat, is_told);
        }
        seat.commit().await
    }

    /// One result, but for its notices. Whether there is one: of an empty statement there is none.
    async fn result(&mut self, answer: Answer<'_>) -> Result<bool, AdapterError> {
        match answer {
            Answer::Empty => return Ok(false),
            Answer::Done(tag) => {
                self.begins_with(b"{\"ok\":");
                json::string(&mut self.sink.buffer, &tag.to_string());
            }
            Answer::Rows(rows) if rows.is_live() => {
                let message = "SUBSCRIBE has no end, and this answer needs one";
                return Err(AdapterError::with_hint(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    message,
                    "Use the Postgres protocol.",
                ));
            }
            Answer::Rows(mut rows) => {
                self.begins_with(b"{\"desc\":");
                let out = &mut self.sink.buffer;
                json::description(out, &rows.desc().desc);
                out.extend_from_slice(b",\"rows\":[");
                self.rows(&mut rows).await?;
                self.sink.buffer.extend_from_slice(b"],\"tag\":");
                json::string(&mut self.sink.buffer, &rows.tag().to_string());
            }
        }
        Ok(true)
    }

    /// A result begins.
    fn begins_with(&mut self, text: &[u8]) {
        let out = &mut self.sink.buffer;
        if self.count > 0 {
            out.push(b',');
        }
        out.extend_from_slice(text);
    }

    async fn rows(&mut self, rows: &mut Answering<'_>) -> Result<(), AdapterError> {
        let desc = Arc::clone(rows.desc());
        let options = match desc.names_objects {
            true => rows.session().naming_options(),
            false => rows.session().encode_options().clone(),
        };
        let mut printing = Printing { printer: Printer::new(options), columns: Arc::clone(&desc.desc), is_first: true };
        let memory = Arc::clone(rows.session().message_memory());
        while let Some(chunk) = rows.next_rows().await? {
            let out = &mut self.sink.buffer;
            // A large row is the last of its chunk, or a batch of its own.
            let large = match &chunk {
                Chunk::Stored(stored) => {
                    let at = stored.rows().len() - 1;
                    let is_large = stored.rows().last().is_some_and(|row| row.len() > LARGE_ROW);
                    let before = if is_large { at } else { at + 1 };
                    let columns = Stored { types: stored.stored_types(), projection: stored.projection() };
                    stored.rows().take(before).for_each(|row| printing.stored(out, row, columns));
                    is_large.then(|| Large::Stored(StoredRows::of(stored, at)))
                }
                Chunk::Batch(batch, range) => match row_bytes(batch, range.start) > LARGE_ROW {
                    true => Some(Large::Batch(batch.clone(), range.start)),
                    false => {
                        range.clone().try_for_each(|row| printing.batch(out, batch, row))?;
                        None
                    }
                },
            };
            if let Some(large) = large {
                let mut held = Reservation::empty(&memory);
                held.try_grow(large.bytes().saturating_mul(PRINTED_TIMES))?;
                (printing, self.sink.buffer) = large.print(printing, std::mem::take(out)).await?;
            }
            if self.sink.buffer.len() >= PIECE_BYTES {
                self.has_left = true;
                self.sink.flush().await.map_err(|Gone| gone())?;
                // Others have their turn.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// The end of a result.
    fn end(&mut self, seat: &mut Seat, is_told: bool) {
        if is_told {
            let told = seat.here().map(Session::take_notices).unwrap_or_default();
            let out = &mut self.sink.buffer;
            out.extend_from_slice(b",\"notices\":");
            told::notices(out, &told);
            out.push(b'}');
            (self.begins, self.has_left) = (out.len(), false);
            self.count += 1;
        }
    }

    /// The result of what failed takes the place of what there is of another, if that has not left.
    fn failed(&mut self, seat: &mut Seat, error: AdapterError) -> Result<(), Refusal> {
        if let Some(session) = seat.here() {
            session.fail_transaction();
        }
        if self.has_left {
            return Err(error.into());
        }
        self.sink.buffer.truncate(self.begins);
        self.begins_with(b"{\"error\":");
        let error = serde_json::to_vec(&Told::from(&error)).expect("it is text and numbers");
        self.sink.buffer.extend_from_slice(&error);
        self.end(seat, true);
        Ok(())
    }
}

/// Rows being printed.
struct Printing {
    printer: Printer,
    columns: Arc<RelationDesc>,
    is_first: bool,
}

impl Printing {
    fn separate(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.is_first) {
            out.push(b',');
        }
    }

    fn stored(&mut self, out: &mut Vec<u8>, row: &[u8], stored: Stored<'_>) {
        self.separate(out);
        self.printer.stored_row(out, row, stored, &self.columns.columns);
    }

    fn batch(&mut self, out: &mut Vec<u8>, batch: &RecordBatch, row: usize) -> Result<(), AdapterError> {
        self.separate(out);
        self.printer.row(out, batch, row, &self.columns.columns)
    }
}

/// A row so large that printing it would hold up the other connections of a thread.
enum Large {
    Stored(StoredRows),
    Batch(RecordBatch, usize),
}

impl Large {
    /// About how many bytes it has.
    fn bytes(&self) -> usize {
        match self {
            Large::Stored(rows) => rows.chunk().rows().map(<[u8]>::len).sum(),
            Large::Batch(batch, row) => row_bytes(batch, *row),
        }
    }

    /// Prints it on a thread that nobody waits for.
    async fn print(self, mut printing: Printing, mut out: Vec<u8>) -> Result<(Printing, Vec<u8>), AdapterError> {
        let print = move || {
            match &self {
                Large::Stored(rows) => {
                    let chunk = rows.chunk();
                    let columns = Stored { types: chunk.stored_types(), projection: chunk.projection() };
                    chunk.rows().for_each(|row| printing.stored(&mut out, row, columns));
                }
                Large::Batch(batch, row) => printing.batch(&mut out, batch, *row)?,
            }
            Ok((printing, out))
        };
        match tokio::task::spawn_blocking(print).await {
            Ok(printed) => printed,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(AdapterError::new(SqlState::ADMIN_SHUTDOWN, "the server stops")),
            },
        }
    }
}

/// Nobody reads the answer.
fn gone() -> AdapterError {
    AdapterError::new(SqlState::CONNECTION_FAILURE, "the client has gone")
}
