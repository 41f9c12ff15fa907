//! `/cubesql`: the rows of a statement in SQL, as lines of JSON: first what the columns are, then rows, many in a line.
//!
//! What fails after the first line is a line of its own, `{"error"}`, which Cube's clients look for.

use crate::api;
use crate::cube::asked::Heard;
use crate::cube::cells::Cells;
use crate::cube::result::{refreshed, write};
use crate::format::{Format, Shape};
use crate::outlet::PIECE_BYTES;
use crate::printing::{Form, send};
use crate::request::Request;
use crate::running::{Work, respond};
use crate::shared::Visitor;
use crate::single::{self, check_ended, endless, options};
use crate::sink::{Head, Sink};
use crate::told::{AGAIN, Refusal};
use adapter::answer::{Answer, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::seat::Seat;
use axum::Extension;
use axum::extract;
use axum::response::Response;
use memchr::memmem::find;
use ore::memory::Reservation;
use repr::{ColumnDesc, Datum, PgType};
use serde_json::{Value, json};
use std::sync::Arc;

/// Parameters of a request. Of how long to wait, and what is kept, there is nothing to choose.
const KNOWN: [&str; 4] = ["query", "timezone", "cache", "throwContinueWait"];
/// Rows of a line.
const LINE_ROWS: usize = 1000;
/// The type of what is sent: a client that does not know it would take it for text.
const JSON_LINES: &str = "application/x-ndjson";
/// A line without rows.
const NO_ROWS: &[u8] = b"{\"data\":[]}\n";
/// What Cube's clients take for "ask again" wherever they find it in the text of an answer: the same to who reads JSON, and not to who does not.
const NOT_AGAIN: &[u8] = b"Continue\\u0020wait";

/// What is told of it.
pub(crate) fn told() -> Value {
    json!({
        "summary": "Rows of a statement in SQL, as lines of JSON",
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object", "required": ["query"],
            "properties": { "query": { "type": "string" }, "timezone": { "type": "string" } },
        } } } },
        "responses": {
            "200": {
                "description": "The columns, then rows",
                "content": { "application/x-ndjson": {}, "application/vnd.apache.arrow.stream": {} },
            },
            "default": api::refused(),
        },
    })
}

/// The handler.
pub(crate) async fn cubesql(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    asked(visitor, request).await.map_err(Refusal::in_cubes_words)
}

async fn asked(visitor: Arc<Visitor>, request: extract::Request) -> Result<Response, Refusal> {
    let Heard { mut welcome, params, headers, memory } = Heard::of(&visitor, request, &KNOWN).await?;
    let text = params.text("query")?.ok_or_else(|| Refusal::malformed("Query param is required"))?.to_owned();
    params.check_cache()?;
    params.flag("throwContinueWait")?;
    if let Some(zone) = params.text("timezone")? {
        welcome.place.options.push(("TimeZone".to_owned(), zone.to_owned()));
    }
    let is_arrow = Format::accepted(&headers)? == Format::Rows(Shape::Arrow);
    let form = if is_arrow { Format::Rows(Shape::Arrow).content_type() } else { JSON_LINES };
    respond(visitor, welcome, Head::of(form), Sql { text, is_arrow, _memory: memory }).await
}

struct Sql {
    text: String,
    is_arrow: bool,
    /// What the request takes.
    _memory: Option<Reservation>,
}

impl Work for Sql {
    async fn tell(self, seat: &mut Seat, sink: &mut Sink) -> Result<(), Refusal> {
        if self.is_arrow {
            return Ok(Box::pin(single::answer(seat, Request::Simple(self.text), Shape::Arrow, sink)).await?);
        }
        let told = Box::pin(lines(seat, self.text, sink)).await;
        let Err(error) = told else { return Ok(()) };
        if sink.head().is_some() {
            return Err(error.into());
        }
        // Rows were sent, and a line of them is open.
        let refusal = Refusal::from(error).in_cubes_words();
        sink.buffer.extend_from_slice(b"]}\n");
        write(&mut sink.buffer, &refusal.body());
        sink.buffer.push(b'\n');
        Ok(())
    }

    fn refused(refusal: Refusal) -> Refusal {
        refusal.in_cubes_words()
    }
}

/// Writes the lines. Errors: those of the statement and its rows.
async fn lines(seat: &mut Seat, text: String, sink: &mut Sink) -> Result<(), AdapterError> {
    seat.read_together();
    let mut last = NO_ROWS;
    match Box::pin(seat.answer(Statement::Text(text), no_values(), Follows::Others, PIECE_BYTES)).await? {
        Answer::Rows(rows) if rows.is_live() => return Err(endless()),
        Answer::Rows(mut rows) => {
            let desc = Arc::clone(&rows.desc().desc);
            let columns: Vec<Value> = desc.columns.iter().map(described).collect();
            let schema = json!({"schema": columns, "lastRefreshTime": refreshed(rows.session())});
            put(&mut sink.buffer, schema.to_string().as_bytes());
            sink.buffer.push(b'\n');
            let options = options(&rows);
            let zone = options.locale.time_zone;
            let form = Lines { cells: Cells::new(options, zone), count: 0, row: Vec::new() };
            last = send(&mut rows, form, sink).await?.last();
        }
        Answer::Done(_) | Answer::Empty => sink.buffer.extend_from_slice(b"{\"schema\":[]}\n"),
    }
    seat.commit().await?;
    check_ended(seat)?;
    // Until here a line of rows that were sent is open.
    sink.buffer.extend_from_slice(last);
    Ok(())
}

/// Appends JSON in which no client finds an order to ask again.
fn put(out: &mut Vec<u8>, json: &[u8]) {
    let mut rest = json;
    while let Some(found) = find(rest, AGAIN.as_bytes()) {
        out.extend_from_slice(&rest[..found]);
        out.extend_from_slice(NOT_AGAIN);
        rest = &rest[found + AGAIN.len()..];
    }
    out.extend_from_slice(rest);
}

fn described(column: &ColumnDesc) -> Value {
    let ty = match column.ty {
        PgType::Bool => "Boolean",
        PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Oid => "Int64",
        PgType::Float4 | PgType::Float8 => "Double",
        PgType::Numeric(_) => "Decimal",
        PgType::Date | PgType::Timestamp | PgType::Timestamptz => "Timestamp",
        PgType::Interval => "Interval",
        _ => "String",
    };
    json!({"name": column.name, "column_type": ty})
}

/// Rows as lists, many in a line.
struct Lines {
    cells: Cells,
    /// Rows of the line that is open.
    count: usize,
    /// The row that is being written.
    row: Vec<u8>,
}

impl Lines {
    /// What comes last: there is a line of rows, for clients that look for it.
    fn last(self) -> &'static [u8] {
        if self.count == 0 { NO_ROWS } else { b"]}\n" }
    }
}

impl Form for Lines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.count == LINE_ROWS {
            out.extend_from_slice(b"]}\n");
            self.count = 0;
        }
        out.extend_from_slice(if self.count == 0 { b"{\"data\":[[" } else { b",[" });
        self.count += 1;
    }

    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>) {
        if at > 0 {
            out.push(b',');
        }
        self.row.clear();
        self.cells.value(&mut self.row, &column.ty, datum);
        put(out, &self.row);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(b']');
    }
}
