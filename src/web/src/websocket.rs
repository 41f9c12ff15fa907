//! The WebSocket `/api/experimental/sql`: a session for as long as the socket is open, as Materialize has it.
//!
//! 1. The first message says who comes: `{"user","password","options"}`. Answered by parameters, the key with which others cancel what the
//!    session runs, and `ReadyForQuery`; or by the end of the socket, with the reason.
//! 2. Each further message is a request, `{"query"}` or `{"queries"}`; each message of ours an object of `type` and `payload`. The last that
//!    answers a request is `ReadyForQuery`, with where the transaction stands. Requests that come meanwhile wait.
//!
//! A client that hangs up ends what it has asked for. One that does not read makes its statement wait.

use crate::api;
use crate::identify::{admit, check_visit};
use crate::json;
use crate::outlet::Outlet;
use crate::printing::send;
use crate::request::{LARGE_BODY, Request, weight};
use crate::shared::Visitor;
use crate::single::options;
use crate::sockets::{closing, receive, sized};
use crate::statements::{Teller, tell};
use crate::told::{self, Refusal};
use adapter::answer::Answer;
use adapter::error::AdapterError;
use adapter::seat::Seat;
use adapter::session::Session;
use adapter::status::Status;
use axum::Extension;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::request::Parts;
use axum::response::Response;
use door::apart::elsewhere;
use door::place::{Place, session_options};
use door::shown::Shown;
use door::visitor::GOODBYE;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use ore::memory::Reservation;
use repr::sqlstate::SqlState;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The largest message that is taken.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Requests that may wait; behind them nothing is read, so that a client that hangs up is noticed when it is written to.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who a client says it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Introduction {
    user: Option<String>,
    #[serde(default)]
    password: String,
    /// Instead of both.
    token: Option<String>,
    #[serde(default)]
    options: BTreeMap<String, Value>,
}

/// What is told of it.
pub(crate) fn told() -> Value {
    json!({
        "summary": "A session, as a WebSocket",
        "responses": { "101": { "description": "Messages of JSON, of which the first says who comes" }, "default": api::refused() },
    })
}

/// The handler.
pub(crate) async fn websocket(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: Parts,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Refusal> {
    // A browser asks nobody before it opens a socket.
    let host = check_visit(&visitor, &request)?.to_owned();
    let upgrade = sized(upgrade, MESSAGE_BYTES_MAX);
    std::future::ready(Ok(upgrade.on_upgrade(move |socket| converse(socket, visitor, host)))).await
}

/// A socket's messages, from the first to the last.
async fn converse(socket: WebSocket, visitor: Arc<Visitor>, host: String) {
    let (sink, stream) = socket.split();
    let (mut outlet, mut inlet) = (Messages::new(sink), Inlet { stream, waiting: VecDeque::new() });
    let introduced = tokio::time::timeout(PATIENCE, introduce(&mut inlet, &visitor, &host)).await;
    let session = match introduced {
        Ok(Ok(Some(session))) => session,
        Ok(Ok(None)) => return,
        Ok(Err(refusal)) => return outlet.close(close_code::POLICY, refusal.message()).await,
        Err(_) => return outlet.close(close_code::POLICY, "nobody has said who it is").await,
    };
    let ended = session.shutdown();
    let mut seat = Box::new(Seat::new(session));
    let end = tokio::select! {
        biased;
        () = ended.cancelled() => Some((close_code::AWAY, "57P01: the session ends".to_owned())),
        end = serve(&mut seat, &mut inlet, &mut outlet) => end,
    };
    seat.close().await;
    match end {
        Some((code, reason)) => outlet.close(code, &reason).await,
        // Its own goodbye is answered.
        None => drop(tokio::time::timeout(GOODBYE, outlet.sink.close()).await),
    }
}

/// The session of who introduces itself; `None` of one that hangs up.
async fn introduce(inlet: &mut Inlet, visitor: &Visitor, host: &str) -> Result<Option<Session>, Refusal> {
    let turn = visitor.own.introductions.acquire().await;
    let Some(message) = inlet.next().await else { return Ok(None) };
    drop(turn);
    let Introduction { user, password, token, options } = serde_json::from_slice(&message).map_err(|error| {
        Refusal::malformed(format!("the first message says who comes, as user and password, or token: {error}"))
    })?;
    let shown = match (user, token) {
        (Some(user), None) => Shown::Password(user, password),
        (None, Some(token)) if password.is_empty() => Shown::Token(token),
        _ => {
            return Err(Refusal::malformed(
                "the first message has either a user, with or without a password, or a token",
            ));
        }
    };
    let (database, options) = session_options(options).map_err(Refusal::malformed)?;
    let (entrance, place) = admit(visitor, host, shown, database).await?;
    Ok(Some(entrance.connect(&visitor.arrival, Place { options, ..place })?))
}

/// Answers requests until the client hangs up, or there is a reason to.
async fn serve(seat: &mut Seat, inlet: &mut Inlet, outlet: &mut Messages) -> Option<(u16, String)> {
    let key = seat.backend_key();
    for (name, value) in seat.parameter_statuses() {
        outlet.say("ParameterStatus", &json!({ "name": name, "value": value }));
    }
    outlet.say("BackendKeyData", &json!({ "conn_id": key.0, "secret_key": key.1 }));
    outlet.ready(seat).await.ok()?;
    loop {
        let idle = seat.here().and_then(|session| session.idle_timeout());
        let message = match idle {
            None => inlet.next().await?,
            Some(timeout) => match tokio::time::timeout(timeout, inlet.next()).await {
                Ok(message) => message?,
                Err(_) => {
                    let error = seat.idle_for_too_long();
                    return Some((close_code::POLICY, format!("{}: {error}", error.sqlstate().code())));
                }
            },
        };
        tokio::select! {
            biased;
            answered = respond(seat, message, outlet) => answered.ok()?,
            () = inlet.hang_up() => return None,
        }
    }
}

/// Answers a request. Errors: nobody reads.
async fn respond(seat: &mut Seat, message: Vec<u8>, outlet: &mut Messages) -> Result<(), AdapterError> {
    seat.back().await;
    let mut memory = Reservation::empty(seat.message_memory());
    let request = match memory.try_grow(weight(&message)) {
        Ok(()) if message.len() > LARGE_BODY => elsewhere(move || Request::parse(&message)).await,
        Ok(()) => Request::parse(&message),
        Err(refused) => Err(AdapterError::from(refused).into()),
    };
    let done = match request {
        Ok(request) => match tell(seat, request, outlet).await {
            Err(error) if outlet.is_gone => return Err(error),
            done => done.map_err(Refusal::from),
        },
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = done {
        if let Some(session) = seat.here() {
            session.fail_transaction();
        }
        outlet.notices(seat);
        outlet.say("Error", &json!(refusal.told()));
    }
    outlet.ready(seat).await
}

/// What comes from the client.
struct Inlet {
    stream: SplitStream<WebSocket>,
    /// What came while another request was answered.
    waiting: VecDeque<Vec<u8>>,
}

impl Inlet {
    /// The next message; `None` if the client has hung up.
    ///
    /// # Cancellation
    /// Safe to drop: no message is lost.
    async fn next(&mut self) -> Option<Vec<u8>> {
        match self.waiting.pop_front() {
            Some(message) => Some(message),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Option<Vec<u8>> {
        receive(&mut self.stream).await.ok()
    }

    /// Returns when the client has hung up; what it sends until then waits.
    ///
    /// # Cancellation
    /// Safe to drop: no message is lost.
    async fn hang_up(&mut self) {
        let bytes = |waiting: &VecDeque<Vec<u8>>| waiting.iter().map(Vec::len).sum::<usize>();
        while self.waiting.len() < WAITING_MAX && bytes(&self.waiting) < WAITING_BYTES_MAX {
            match self.receive().await {
                Some(message) => self.waiting.push_back(message),
                None => return,
            }
        }
        std::future::pending().await
    }
}

/// What goes to the client: messages, each of which is a line until it is sent.
struct Messages {
    buffer: Vec<u8>,
    sink: SplitSink<WebSocket, Message>,
    /// Whether it takes nothing any more.
    is_gone: bool,
}

impl Outlet for Messages {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    async fn flush(&mut self) -> Result<(), AdapterError> {
        let buffer = std::mem::take(&mut self.buffer);
        for line in buffer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let text = Utf8Bytes::from(String::from_utf8_lossy(line).into_owned());
            if let Err(error) = self.sink.feed(Message::Text(text)).await {
                return Err(self.gone(&error));
            }
        }
        match self.sink.flush().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.gone(&error)),
        }
    }
}

impl Messages {
    fn new(sink: SplitSink<WebSocket, Message>) -> Messages {
        Messages { buffer: Vec::new(), sink, is_gone: false }
    }

    fn gone(&mut self, error: &axum::Error) -> AdapterError {
        self.is_gone = true;
        AdapterError::new(SqlState::CONNECTION_FAILURE, format!("the client has gone: {error}"))
    }

    fn say(&mut self, kind: &str, payload: &Value) {
        self.buffer.extend_from_slice(json!({ "type": kind, "payload": payload }).to_string().as_bytes());
        self.buffer.push(b'\n');
    }

    fn notices(&mut self, seat: &mut Seat) {
        for notice in seat.here().map(Session::take_notices).unwrap_or_default() {
            self.say("Notice", &told::notice(&notice));
        }
    }

    /// The end of what answers a request.
    async fn ready(&mut self, seat: &mut Seat) -> Result<(), AdapterError> {
        self.notices(seat);
        for (name, value) in seat.here().map(Session::take_parameter_changes).unwrap_or_default() {
            self.say("ParameterStatus", &json!({ "name": name, "value": value }));
        }
        let status = match seat.transaction_status() {
            Status::Idle => "I",
            Status::InBlock => "T",
            Status::Failed => "E",
        };
        self.say("ReadyForQuery", &json!(status));
        self.flush().await
    }

    /// Says why the socket ends, if there is somebody to tell.
    async fn close(&mut self, code: u16, reason: &str) {
        let _gone = tokio::time::timeout(GOODBYE, self.sink.send(closing(code, reason))).await;
    }
}

impl Teller for Messages {
    /// The tag; `None` of an empty statement.
    type Left = Option<String>;

    async fn answer(&mut self, answer: Answer<'_>) -> Result<Option<String>, AdapterError> {
        match answer {
            Answer::Empty => Ok(None),
            Answer::Done(tag) => {
                self.say("CommandStarting", &json!({ "has_rows": false, "is_streaming": false }));
                Ok(Some(tag.to_string()))
            }
            Answer::Rows(mut rows) => {
                self.say("CommandStarting", &json!({ "has_rows": true, "is_streaming": rows.is_live() }));
                self.buffer.extend_from_slice(b"{\"type\":\"Rows\",\"payload\":");
                json::description(&mut self.buffer, rows.desc());
                self.buffer.extend_from_slice(b"}\n");
                if rows.is_live() {
                    self.flush().await?;
                }
                let form = json::Row::new(options(&rows));
                send(&mut rows, form, self).await?;
                Ok(Some(rows.tag().to_string()))
            }
        }
    }

    fn end(&mut self, seat: &mut Seat, tag: Option<String>) {
        self.notices(seat);
        if let Some(tag) = tag {
            self.say("CommandComplete", &json!(tag));
        }
    }
}
