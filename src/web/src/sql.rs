//! `POST /api/sql`: statements in, their results out. A request is a transaction of its own. `GET /api/subscribe`: events out.

use crate::api;
use crate::events;
use crate::format::{Format, Shape};
use crate::identify::{self, identify};
use crate::once::{IDEMPOTENCY_KEY, Print, Record};
use crate::request::{Address, Followed, LARGE_BODY, Request, address, before, read_body, weight};
use crate::results::Results;
use crate::running::{Welcome, Work, respond};
use crate::shared::Visitor;
use crate::single::{self, COMMAND_TAG};
use crate::sink::{Head, Sink};
use crate::told::Refusal;
use adapter::error::AdapterError;
use adapter::made;
use adapter::once::Key;
use adapter::seat::Seat;
use axum::Extension;
use axum::extract;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::response::Response;
use door::apart::elsewhere;
use door::place::{Place, options_of};
use ore::memory::Reservation;
use repr::Timestamp;
use repr::sqlstate::SqlState;
use serde_json::{Value, json};
use std::sync::Arc;

/// How long what was told is kept for who comes back: a parameter of the session.
const HISTORY: &str = "subscribe_history";

/// What is told of `POST /api/sql`.
pub(crate) fn told() -> Value {
    let query = json!({ "type": "string" });
    json!({
        "summary": "Runs statements, as a transaction",
        "parameters": [api::options(), api::idempotency_key()],
        "requestBody": { "required": true, "content": { "application/json": { "schema": { "oneOf": [
            { "type": "object", "required": ["query"], "properties": { "query": query } },
            { "type": "object", "required": ["queries"], "properties": { "queries": { "type": "array", "items": {
                "type": "object", "required": ["query"],
                "properties": { "query": query, "params": { "type": "array", "items": {} } },
            } } } },
        ] } } } },
        "responses": {
            "200": {
                "description": "Results of all statements, or the rows of one in the form that is accepted",
                "content": {
                    "application/json": { "schema": { "type": "object", "properties": { "results": {
                        "type": "array", "items": { "type": "object" },
                    } } } },
                    "application/x-ndjson": {}, "text/csv": {}, "application/vnd.apache.arrow.stream": {},
                    "text/event-stream": {},
                },
            },
            "default": api::refused(),
        },
    })
}

/// What is told of `GET /api/subscribe`.
pub(crate) fn subscribe_told() -> Value {
    json!({
        "summary": "Follows what a SUBSCRIBE does, as events",
        "parameters": [
            api::required_query("query", "The SUBSCRIBE"),
            api::options(),
            { "name": "Last-Event-ID", "in": "header", "required": false, "schema": { "type": "string" },
              "description": "Behind which event it goes on" },
        ],
        "responses": {
            "200": { "description": "Events", "content": { "text/event-stream": {} } },
            "410": { "description": "What was told since is not known any more: begin anew, without an id" },
            "default": api::refused(),
        },
    })
}

/// What a request is answered with.
enum Asked {
    /// The results of statements.
    Results(Request),
    /// The rows of one.
    Rows(Request, Shape),
    /// What happens.
    Events(Box<made::Followed>),
}

/// What is known of a request before its body comes.
struct Heard {
    welcome: Welcome,
    format: Format,
    /// Behind which event it goes on.
    after: Option<Timestamp>,
    /// Of one that is carried out once.
    once: Option<(String, Print)>,
}

impl Heard {
    async fn of(visitor: &Visitor, parts: &Parts) -> Result<Heard, Refusal> {
        let Address { options } = address(&parts.uri)?;
        let welcome = welcome(visitor, parts, options.as_deref()).await?;
        let (format, after) = (Format::accepted(&parts.headers)?, events::last_event(&parts.headers)?);
        check_json(&parts.headers)?;
        let once = Print::of(parts)?;
        if once.is_some() && format == Format::Events {
            let message = format!("events have no end, and with an {IDEMPOTENCY_KEY} an answer has one");
            return Err(Refusal::malformed(message));
        }
        Ok(Heard { welcome, format, after, once })
    }
}

/// `POST /api/sql`.
pub(crate) async fn sql(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let heard = Heard::of(&visitor, &parts).await;
    // The next request is read where this one was, once nobody has any of it.
    drop(parts);
    let (Heard { welcome, format, after, once }, body) = before(body, heard).await?;
    let (bytes_max, memory) = (visitor.own.request_bytes_max, welcome.entrance.client().message_memory());
    let (body, mut memory) = read_body(body, bytes_max, memory).await?;
    if let Some(memory) = &mut memory {
        memory.try_grow(weight(&body)).map_err(AdapterError::from)?;
    }
    let is_large = body.len() > LARGE_BODY;
    let print = once.as_ref().map(|(_, print)| print.clone());
    let read = move || {
        if let Some(print) = print {
            print.push(&body);
        }
        let request = Request::parse(&body)?;
        Ok::<_, Refusal>(match format {
            Format::Results => Asked::Results(request),
            Format::Rows(shape) => Asked::Rows(request, shape),
            Format::Events => Asked::Events(Box::new(events::followed(request, after)?)),
        })
    };
    let asked = if is_large { Box::pin(elsewhere(read)).await? } else { read()? };
    answer(visitor, welcome, (asked, once, memory), format).await
}

/// `GET /api/subscribe`: the same of events, for whoever can do no more than open an address.
pub(crate) async fn subscribe(Extension(visitor): Extension<Arc<Visitor>>, parts: Parts) -> Result<Response, Refusal> {
    let Followed { query, options } = address(&parts.uri)?;
    let welcome = welcome(&visitor, &parts, options.as_deref()).await?;
    let after = events::last_event(&parts.headers)?;
    if parts.headers.contains_key(IDEMPOTENCY_KEY) {
        return Err(Refusal::malformed(format!("what is followed has no {IDEMPOTENCY_KEY}")));
    }
    let asked = Asked::Events(Box::new(events::followed(Request::Simple(query), after)?));
    answer(visitor, welcome, (asked, None, None), Format::Events).await
}

/// Whose request it is and where it goes, which is known before its body comes.
pub(crate) async fn welcome(visitor: &Visitor, parts: &Parts, options: Option<&str>) -> Result<Welcome, Refusal> {
    check_version(parts)?;
    let (database, options) = options_of(options).map_err(Refusal::malformed)?;
    let (entrance, place) = identify(visitor, parts, database).await?;
    Ok(Welcome { entrance, place: Place { options, ..place } })
}

/// Refuses who could not tell half an answer from all of it.
pub(crate) fn check_version(parts: &Parts) -> Result<(), Refusal> {
    if parts.version < Version::HTTP_11 {
        // Its bodies end with their connection, whether they are whole or not.
        let message = "HTTP/1.1 or HTTP/2 is needed: an answer that breaks off would look whole";
        return Err(Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, SqlState::PROTOCOL_VIOLATION, message));
    }
    Ok(())
}

/// Answers in a session of whoever asks.
async fn answer(
    visitor: Arc<Visitor>,
    Welcome { entrance, mut place }: Welcome,
    (asked, once, memory): (Asked, Option<(String, Print)>, Option<Reservation>),
    format: Format,
) -> Result<Response, Refusal> {
    if format == Format::Events && !place.options.iter().any(|(name, _)| name == HISTORY) {
        place.options.push((HISTORY.to_owned(), visitor.own.subscribe_history.as_millis().to_string()));
    }
    let statements = Statements { asked, once, _memory: memory };
    respond(visitor, Welcome { entrance, place }, Head::of(format.content_type()), statements).await
}

/// What a request asks for.
struct Statements {
    asked: Asked,
    once: Option<(String, Print)>,
    /// What the request takes.
    _memory: Option<Reservation>,
}

impl Work for Statements {
    async fn tell(self, seat: &mut Seat, sink: &mut Sink) -> Result<(), Refusal> {
        // Each has room of its own: who follows something does so for long.
        match self.once {
            Some((key, print)) => Box::pin(tell_once(seat, self.asked, (&key, &print), sink)).await,
            None => tell(seat, self.asked, sink).await,
        }
    }
}

/// Refuses a body that is compressed.
pub(crate) fn check_identity(headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(coding) = identify::single(headers, header::CONTENT_ENCODING)?.filter(|coding| *coding != "identity") {
        let message = format!("a body that is compressed ({coding:.20}) is not read");
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}

/// Refuses a body that does not say that it is JSON: others a browser sends for anybody's page, without asking us.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Refusal> {
    check_identity(headers)?;
    let value = identify::single(headers, header::CONTENT_TYPE)?.unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let message = "the body has to be JSON, and to say so: Content-Type: application/json";
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, SqlState::PROTOCOL_VIOLATION, message))
        }
    }
}

/// Writes what a request is answered with.
async fn tell(seat: &mut Seat, asked: Asked, sink: &mut Sink) -> Result<(), Refusal> {
    match asked {
        Asked::Results(request) => Box::pin(Results::new(sink).of(seat, request)).await,
        Asked::Rows(request, shape) => Ok(Box::pin(single::answer(seat, request, shape, sink)).await?),
        Asked::Events(followed) => Ok(Box::pin(events::answer(seat, *followed, sink)).await?),
    }
}

/// The same of a request with a key: what was answered before, or what is answered and kept.
async fn tell_once(
    seat: &mut Seat,
    asked: Asked,
    (key, print): (&str, &Print),
    sink: &mut Sink,
) -> Result<(), Refusal> {
    let key = seat.key(key)?;
    if tell_again(&key, print, sink).await? {
        return Ok(());
    }
    seat.begin_once()?;
    sink.hold();
    let told = tell(seat, asked, sink).await.and_then(|()| Ok(sink.release()?));
    match seat.here() {
        // It was given up, and nobody waits for it.
        None => return told,
        Some(session) if told.is_err() => session.fail_transaction(),
        Some(_) => {}
    }
    let tag = sink.head().and_then(|head| head.headers.get(COMMAND_TAG)?.to_str().ok()).unwrap_or_default().to_owned();
    let record = Record::of(print, &tag, sink.buffer.clone()).encode();
    let committed = Box::pin(seat.commit_once(&key, record)).await;
    // Somebody may have been quicker, with the same.
    if matches!(committed, Ok(true)) || tell_again(&key, print, sink).await? {
        return Ok(());
    }
    committed?;
    told
}

/// Tells what was answered to the request with this key before, if it was carried out. Errors: 422 if that was another request.
async fn tell_again(key: &Key, print: &Print, sink: &mut Sink) -> Result<bool, Refusal> {
    let Some(bytes) = key.answered_before().await? else { return Ok(false) };
    Record::decode(&bytes, print)?.put(sink);
    Ok(true)
}
