//! SUBSCRIBE as a stream of events (`text/event-stream`), which a browser's `EventSource` reads and takes up again where it broke off.
//!
//! An event is what has happened at one time: `{"snapshot","rows","complete"}`, with the time as its `id`. The first is what was there
//! (`snapshot`). What is too long for one event comes in several, and only the last of them is `complete` and has an `id`: who is cut off
//! in between begins behind the last id that it has, and so with the first of these again. A comment comes when nothing has for a while.
//!
//! Whoever comes with the id of the last event that it has seen (`Last-Event-ID`) gets what has happened after that, as long as that is
//! kept (`subscribe_history`); 410 afterwards.

use crate::json::Line;
use crate::outlet::{Outlet, PIECE_BYTES};
use crate::printing::{Form, send};
use crate::request::Request;
use crate::single::options;
use crate::sink::{Head, Sink};
use crate::told::Refusal;
use adapter::answer::{Answer, Follows, no_values};
use adapter::error::AdapterError;
use adapter::made::Followed;
use adapter::seat::Seat;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, Datum, RelationDesc, Timestamp};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// The time of the last event that a client has seen.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long nothing comes before a comment does: proxies end connections on which nothing happens.
const SILENCE: Duration = Duration::from_secs(15);

/// Bytes of rows from which on an event ends although its time is not complete.
const PART_BYTES: usize = PIECE_BYTES;

/// The time behind which a client goes on. Errors: 400 of what is none.
pub(crate) fn last_event(headers: &HeaderMap) -> Result<Option<Timestamp>, Refusal> {
    let Some(value) = crate::identify::single(headers, LAST_EVENT_ID)? else { return Ok(None) };
    // A client that has seen no event yet may say so.
    if value.is_empty() {
        return Ok(None);
    }
    let malformed = |_| Refusal::malformed("the header Last-Event-ID is not that of an event");
    value.parse().map(Some).map_err(malformed)
}

/// What a request follows. Errors: 42601, 0A000 of what is not SUBSCRIBE.
pub(crate) fn followed(request: Request, after: Option<Timestamp>) -> Result<Followed, AdapterError> {
    match request {
        Request::Simple(text) => Followed::parse(&text, after),
        Request::Extended(mut queries) => match (queries.pop(), queries.is_empty()) {
            (Some(query), true) if query.params.is_empty() => Followed::parse(&query.query, after),
            _ => Err(AdapterError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "events are those of one SUBSCRIBE without values",
            )),
        },
    }
}

/// Sends what happens for as long as somebody reads.
pub(crate) async fn answer(seat: &mut Seat, followed: Followed, sink: &mut Sink) -> Result<(), AdapterError> {
    let has_snapshot = followed.has_snapshot;
    // In room that is free again when it is known what comes.
    let answer = Box::pin(seat.answer(followed.statement(), no_values(), Follows::Nothing, PIECE_BYTES));
    let Answer::Rows(mut rows) = answer.await? else {
        return Err(AdapterError::internal("a subscription has no rows"));
    };
    if let Some(Head { headers }) = sink.head() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    sink.flush().await?;
    let desc = Arc::clone(&rows.desc().desc);
    let events = Events::new(&desc, options(&rows), has_snapshot);
    send(&mut rows, events, sink).await?;
    // Who has read to the end needs not come back.
    sink.buffer.extend_from_slice(b"event: end\ndata: {}\n\n");
    Ok(())
}

/// Lines as events.
struct Events {
    line: Line,
    options: EncodeOptions,
    /// Whether what was there at first is still to come.
    is_snapshot: bool,
    /// The time of the event that is being written.
    open: Option<Timestamp>,
    /// The time of which parts were sent and not the last.
    cut: Option<Timestamp>,
    /// Where its row begins that is being written, and how many bytes those before have.
    row_start: usize,
    bytes: usize,
    /// A time as it is printed.
    text: Vec<u8>,
}

impl Events {
    fn new(desc: &RelationDesc, options: EncodeOptions, is_snapshot: bool) -> Events {
        Events {
            line: Line::new(desc, options.clone()),
            options,
            is_snapshot,
            open: None,
            cut: None,
            row_start: 0,
            bytes: 0,
            text: Vec::new(),
        }
    }

    fn open(&mut self, out: &mut Vec<u8>, ts: Timestamp) {
        (self.open, self.bytes) = (Some(ts), 0);
        let start: &[u8] = if self.is_snapshot { b"data: {\"snapshot\":true" } else { b"data: {\"snapshot\":false" };
        out.extend_from_slice(start);
        out.extend_from_slice(b",\"rows\":[");
    }

    fn close(&mut self, out: &mut Vec<u8>, is_complete: bool) {
        let Some(ts) = self.open.take() else { return };
        out.extend_from_slice(b"],\"complete\":");
        if is_complete {
            self.is_snapshot = false;
            write!(out, "true}}\nid: {ts}\n\n").expect("memory takes whatever is written");
        } else {
            out.extend_from_slice(b"false}\n\n");
        }
        self.cut = (!is_complete).then_some(ts);
    }

    /// Completes a time of which parts were sent, if all below `upper` was given.
    fn complete(&mut self, out: &mut Vec<u8>, upper: Timestamp) {
        if let Some(cut) = self.cut.filter(|cut| self.open.is_none() && *cut < upper) {
            self.open(out, cut);
            self.close(out, true);
        }
    }
}

impl Form for Events {
    const SILENCE: Option<Duration> = Some(SILENCE);

    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>) {
        if at == 0 {
            self.text.clear();
            encode_text(&column.ty, datum, &self.options, &mut self.text);
            let ts = std::str::from_utf8(&self.text).ok().and_then(|text| text.parse().ok());
            let ts = ts.expect("the first column of a subscription is its time");
            if self.open.is_some_and(|open| open < ts) {
                self.close(out, true);
            }
            self.complete(out, ts);
            match self.open {
                Some(_) => out.push(b','),
                None => self.open(out, ts),
            }
            self.row_start = out.len();
            self.line.begin(out);
        }
        self.line.value(out, at, column, datum);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.line.end(out);
        // An event's data are one line.
        let line_end = out.pop();
        debug_assert_eq!(line_end, Some(b'\n'), "a line ends");
        self.bytes += out.len() - self.row_start;
    }

    fn pause(&mut self, out: &mut Vec<u8>, upper: Option<Timestamp>) {
        self.complete(out, upper.unwrap_or_default());
        if self.open.is_none()
            && self.cut.is_none()
            && self.is_snapshot
            && let Some(upper) = upper.filter(|upper| *upper > 0)
        {
            // There was nothing.
            self.open(out, upper - 1);
        }
        let is_complete = self.open.is_some_and(|open| upper.is_some_and(|upper| open < upper));
        if is_complete || self.bytes >= PART_BYTES {
            self.close(out, is_complete);
        }
    }

    fn silence(&mut self, out: &mut Vec<u8>) {
        if self.open.is_none() {
            out.extend_from_slice(b":\n\n");
        }
    }
}
