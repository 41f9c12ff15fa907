//! The rows of one statement, in a form that has room for rows and nothing else: lines of JSON, CSV, Arrow.
//!
//! What a statement says beside its rows has no place here: its tag, if it has no rows, is the header `Command-Tag`; an error that comes
//! before the first row is an answer of its own, with a status; notices are not told.

use crate::csv;
use crate::format::Shape;
use crate::json;
use crate::outlet::{Outlet, PIECE_BYTES};
use crate::printing::send;
use crate::request::{Query, Request};
use crate::sink::{Head, Sink};
use adapter::answer::{Answer, Answering, Follows};
use adapter::error::AdapterError;
use adapter::reading::batches::row_bytes;
use adapter::seat::Seat;
use adapter::status::Status;
use arrow::array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use axum::http::{HeaderName, HeaderValue, header};
use door::apart::elsewhere;
use door::exchange::Exchange;
use ore::memory::Reservation;
use pgrepr::options::EncodeOptions;
use repr::RelationDesc;
use repr::sqlstate::SqlState;
use std::collections::HashSet;
use std::sync::Arc;

/// The command tag of a statement without rows.
pub(crate) const COMMAND_TAG: HeaderName = HeaderName::from_static("command-tag");
/// Bytes of an Arrow batch, but for a row that has more.
pub(crate) const ARROW_BATCH_BYTES: usize = 1 << 20;
/// Bytes from which on a batch is made elsewhere.
const LARGE_BATCH: usize = 4 << 20;

/// Answers a request of one statement. Errors: 42601 of several, those of the statement and its rows.
pub(crate) async fn answer(
    seat: &mut Seat,
    request: Request,
    shape: Shape,
    sink: &mut Sink,
) -> Result<(), AdapterError> {
    let (statement, values) = one(request)?.asked();
    let bytes_max = if shape == Shape::Arrow { ARROW_BATCH_BYTES } else { PIECE_BYTES };
    // What cannot be printed did not happen. In room that is free again when it is known what comes.
    match Box::pin(seat.answer(statement, values, Follows::Others, bytes_max)).await? {
        Answer::Rows(mut rows) => {
            if rows.is_live() {
                live(shape, sink).await?;
            }
            rows_of(&mut rows, shape, sink).await?;
        }
        Answer::Done(tag) => tag_of(sink, &tag.to_string()),
        Answer::Empty => {}
    }
    seat.commit().await?;
    check_ended(seat)
}

/// Refuses a block that a request has begun and not ended: it is rolled back.
pub(crate) fn check_ended(seat: &mut Seat) -> Result<(), AdapterError> {
    match seat.transaction_status() {
        Status::Idle => Ok(()),
        // It is ended by who began it.
        _ if seat.here().is_some_and(|session| session.is_once()) => Ok(()),
        Status::InBlock | Status::Failed => {
            let message = "the transaction that the request has begun is rolled back: it was not ended";
            Err(AdapterError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
        }
    }
}

/// The one statement of a request.
fn one(request: Request) -> Result<Query, AdapterError> {
    match request {
        Request::Simple(query) => Ok(Query { query, params: Vec::new() }),
        Request::Extended(mut queries) => match (queries.pop(), queries.pop()) {
            (Some(query), None) => Ok(query),
            _ => Err(AdapterError::new(SqlState::SYNTAX_ERROR, "an answer of this type is of one statement")),
        },
    }
}

fn tag_of(sink: &mut Sink, tag: &str) {
    if let (Some(Head { headers }), Ok(tag)) = (sink.head(), HeaderValue::from_str(tag)) {
        headers.insert(COMMAND_TAG, tag);
    }
}

/// Rows without an end are sent line by line, and so are not compressed together; that they are followed is told at once.
async fn live(shape: Shape, sink: &mut Sink) -> Result<(), AdapterError> {
    if shape != Shape::Lines {
        return Err(endless());
    }
    if let Some(Head { headers }) = sink.head() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("identity"));
    }
    sink.flush().await
}

/// Refuses SUBSCRIBE where an answer has to end. Error 0A000.
pub(crate) fn endless() -> AdapterError {
    AdapterError::with_hint(
        SqlState::FEATURE_NOT_SUPPORTED,
        "SUBSCRIBE has no end, and an answer of this type needs one",
        "Accept text/event-stream or application/x-ndjson, or use the WebSocket.",
    )
}

async fn rows_of(rows: &mut Answering<'_>, shape: Shape, sink: &mut Sink) -> Result<(), AdapterError> {
    let desc = Arc::clone(rows.desc());
    let options = options(rows);
    match shape {
        Shape::Lines => {
            check_names(&desc.desc)?;
            send(rows, json::Line::new(&desc.desc, options), sink).await.map(drop)
        }
        Shape::Csv => {
            let form = csv::Line::new(&desc.desc, options);
            form.header(&mut sink.buffer, &desc.desc);
            send(rows, form, sink).await.map(drop)
        }
        Shape::Arrow => batches(rows, Exchange::of(&desc.desc), sink).await,
    }
}

/// How values are printed.
pub(crate) fn options(rows: &Answering<'_>) -> EncodeOptions {
    match rows.desc().names_objects {
        true => rows.session().naming_options(),
        false => rows.session().encode_options().clone(),
    }
}

/// Refuses an object in which a value would hide another.
fn check_names(desc: &RelationDesc) -> Result<(), AdapterError> {
    let mut names = HashSet::new();
    match desc.columns.iter().find(|column| !names.insert(column.name.as_str())) {
        None => Ok(()),
        Some(column) => Err(AdapterError::with_hint(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" appears more than once, and an object has each name once", column.name),
            "Give one of them another name: SELECT … AS.",
        )),
    }
}

/// Rows as a stream of Arrow batches.
pub(crate) async fn batches(rows: &mut Answering<'_>, exchange: Exchange, sink: &mut Sink) -> Result<(), AdapterError> {
    let memory = Arc::clone(rows.session().message_memory());
    let writer = StreamWriter::try_new(std::mem::take(&mut sink.buffer), exchange.schema());
    let mut writer = writer.map_err(unwritable)?;
    while let Some(batch) = rows.next().await? {
        // One row of more bytes than a batch has is a batch of its own.
        let bytes = row_bytes(&batch, 0);
        // Until it was sent.
        let mut held = Reservation::empty(&memory);
        if bytes < LARGE_BATCH {
            write(&mut writer, &exchange, &batch)?;
        } else {
            held.try_grow(bytes.saturating_mul(2))?;
            let exchange = exchange.clone();
            writer = elsewhere(move || write(&mut writer, &exchange, &batch).map(|()| writer)).await?;
        }
        if writer.get_ref().len() >= PIECE_BYTES {
            sink.buffer = std::mem::take(writer.get_mut());
            sink.flush().await?;
            // Others have their turn.
            tokio::task::yield_now().await;
        }
    }
    sink.buffer = writer.into_inner().map_err(unwritable)?;
    Ok(())
}

fn write(writer: &mut StreamWriter<Vec<u8>>, exchange: &Exchange, batch: &RecordBatch) -> Result<(), AdapterError> {
    writer.write(&exchange.batch(batch)?).map_err(unwritable)
}

fn unwritable(error: arrow::error::ArrowError) -> AdapterError {
    AdapterError::internal(format!("an Arrow stream cannot be written: {error}"))
}
