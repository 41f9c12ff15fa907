//! Cube's API by WebSocket: what is asked for by HTTP, many things at once, and queries that are followed.
//!
//! 1. The first message says who comes: `{"authorization": TOKEN}`. Answered by `{"handshake": true}`.
//! 2. Each further message asks for something, `{"messageId", "method", "params"}`, and is answered by
//!    `{"messageId", "message", "status"}`, what HTTP would answer, and then `{"messageProcessedId"}`. Answers come as they are ready.
//! 3. `subscribe` is answered again whenever the result has changed, until `{"unsubscribe": messageId}`. A client sends it again from time
//!    to time, which changes nothing.
//!
//! Followed is what the query gives, by a SUBSCRIBE: when that has something to tell, the query is asked once more. So an answer is one
//! that HTTP would give, at one time, whatever has happened at once.

use crate::api;
use crate::cube::asked::{Params, Results, shown};
use crate::cube::describe::{self, Described};
use crate::cube::load::{self, Asked, limits};
use crate::identify::{admit, check_visit};
use crate::outlet::{Outlet, PIECE_BYTES};
use crate::shared::{Seated, Visitor};
use crate::told::Refusal;
use adapter::answer::{Answer, Answering, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::made::cube_load;
use adapter::seat::Seat;
use adapter::session::Session;
use axum::Extension;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::request::Parts;
use axum::response::Response;
use door::entrance::Entrance;
use door::place::Place;
use door::visitor::GOODBYE;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use ore::memory::Reservation;
use ore::task::{JoinHandle, spawn};
use repr::datum::from_array;
use repr::sqlstate::SqlState;
use repr::{Datum, Timestamp};
use semantic::query::{Limit, Limits, Query, Total};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// What an idle socket holds for reading.
const BUFFER_BYTES: usize = 4 << 10;
/// The largest message that is taken: it is in memory before it is known who sends it.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is answered of one socket at once; behind it nothing is read.
const AT_ONCE: usize = 16;
/// Answers that wait to be sent.
const WAITING_MAX: usize = 4;
/// How often it is looked whether what is relative in a query means something else by now.
const TICK: Duration = Duration::from_secs(1);
/// Characters of a message's name.
const ID_CHARS_MAX: usize = 16;

/// What is told of it.
pub(crate) fn told() -> Value {
    json!({
        "summary": "Cube's API, as a WebSocket",
        "responses": { "101": { "description": "Messages of JSON, of which the first says who comes" }, "default": api::refused() },
    })
}

/// A message.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    End(End),
    Asked(Call),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Introduction {
    authorization: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    unsubscribe: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Call {
    message_id: Value,
    /// The client's, to find it in its logs.
    #[serde(rename = "requestId")]
    _request_id: Option<String>,
    method: String,
    #[serde(default)]
    params: Option<Map<String, Value>>,
}

/// The handler.
pub(crate) async fn websocket(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: Parts,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Refusal> {
    // A browser asks nobody before it opens a socket.
    let host = check_visit(&visitor, &request).map_err(Refusal::in_cubes_words)?.to_owned();
    let upgrade = upgrade
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(PIECE_BYTES)
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX);
    std::future::ready(Ok(upgrade.on_upgrade(move |socket| converse(socket, visitor, host)))).await
}

/// A socket's messages, from the first to the last.
async fn converse(socket: WebSocket, visitor: Arc<Visitor>, host: String) {
    let (mut sink, mut stream) = socket.split();
    let introduced = tokio::time::timeout(PATIENCE, introduce(&mut stream, &mut sink, &visitor, &host)).await;
    let (entrance, place) = match introduced {
        Ok(Some(introduced)) => introduced,
        Ok(None) => return,
        Err(_) => return goodbye(&mut sink, close_code::POLICY, "nobody has said who it is").await,
    };
    // By this one it is seen who is there, and ended.
    let anchor = match entrance.connect(&visitor.arrival, place.clone()) {
        Ok(session) => Seat::new(session),
        Err(error) => return goodbye(&mut sink, close_code::POLICY, &error.to_string()).await,
    };
    let ended = anchor.shutdown();
    let (tx, rx) = mpsc::channel(WAITING_MAX);
    let guest =
        Arc::new(Guest { visitor, entrance, place, outbox: Outbox(tx), turns: Arc::new(Semaphore::new(AT_ONCE)) });
    let reason = tokio::select! {
        biased;
        () = ended.cancelled() => Some("57P01: the session ends"),
        () = send(&mut sink, rx) => None,
        () = serve(&mut stream, &guest) => None,
    };
    anchor.close().await;
    match reason {
        Some(reason) => goodbye(&mut sink, close_code::AWAY, reason).await,
        // Its own goodbye is answered.
        None => drop(tokio::time::timeout(GOODBYE, sink.close()).await),
    }
}

async fn goodbye(sink: &mut SplitSink<WebSocket, Message>, code: u16, reason: &str) {
    let frame = CloseFrame { code, reason: Utf8Bytes::from(reason[..reason.floor_char_boundary(120)].to_owned()) };
    let _gone = tokio::time::timeout(GOODBYE, sink.send(Message::Close(Some(frame)))).await;
}

/// Who introduces itself; `None` of one that hangs up, or cannot be let in and is told so.
async fn introduce(
    stream: &mut SplitStream<WebSocket>,
    sink: &mut SplitSink<WebSocket, Message>,
    visitor: &Visitor,
    host: &str,
) -> Option<(Arc<Entrance>, Place)> {
    let turn = visitor.own.introductions.acquire().await;
    let message = receive(stream).await?;
    drop(turn);
    let introduced = match serde_json::from_slice(&message) {
        Ok(Introduction { authorization }) => match shown(authorization.as_deref().unwrap_or_default()) {
            Ok(shown) => admit(visitor, host, shown, None).await,
            Err(refusal) => Err(refusal),
        },
        Err(error) => Err(Refusal::malformed(format!("the first message is {{\"authorization\": …}}: {error}"))),
    };
    let (answer, introduced) = match introduced {
        Ok(introduced) => (json!({"handshake": true}), Some(introduced)),
        Err(refusal) => {
            let refusal = refusal.in_cubes_words();
            (json!({"message": refusal.body(), "status": refusal.status().as_u16()}), None)
        }
    };
    sink.send(Message::Text(answer.to_string().into())).await.ok()?;
    if introduced.is_none() {
        goodbye(sink, close_code::POLICY, "nobody is let in by this").await;
    }
    introduced
}

/// The next message; `None` if the client has hung up.
async fn receive(stream: &mut SplitStream<WebSocket>) -> Option<Vec<u8>> {
    loop {
        match stream.next().await? {
            Ok(Message::Text(text)) => return Some(text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => return Some(bytes.to_vec()),
            // Pings are answered below us.
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Close(_)) => return None,
            Err(error) => {
                tracing::debug!(%error, "a WebSocket ended");
                return None;
            }
        }
    }
}

/// A message on its way out, and the memory that it takes.
struct Outgoing(String, Option<Reservation>);

/// Sends messages until the client takes none.
async fn send(sink: &mut SplitSink<WebSocket, Message>, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing(text, _memory)) = outgoing.recv().await {
        if sink.send(Message::Text(text.into())).await.is_err() {
            return;
        }
    }
}

/// Where messages wait to be sent.
#[derive(Clone)]
struct Outbox(mpsc::Sender<Outgoing>);

impl Outbox {
    /// Waits for whoever reads slowly; what nobody reads is dropped with its socket.
    async fn put(&self, message: &Value) {
        let _gone = self.0.send(Outgoing(message.to_string(), None)).await;
    }
}

/// Who has introduced itself.
struct Guest {
    visitor: Arc<Visitor>,
    entrance: Arc<Entrance>,
    place: Place,
    outbox: Outbox,
    turns: Arc<Semaphore>,
}

/// What is being done for a message.
struct Doing {
    is_followed: bool,
    task: JoinHandle<()>,
}

/// Takes messages until the client hangs up; what is done for them ends then.
async fn serve(stream: &mut SplitStream<WebSocket>, guest: &Arc<Guest>) {
    let mut doing: HashMap<String, Doing> = HashMap::new();
    while let Some(message) = receive(stream).await {
        doing.retain(|_, doing| !doing.task.is_finished());
        let call = match serde_json::from_slice(&message) {
            Ok(Said::End(End { unsubscribe })) => {
                doing.remove(&unsubscribe.to_string());
                continue;
            }
            Ok(Said::Asked(call)) if is_id(&call.message_id) => call,
            Ok(Said::Asked(_)) | Err(_) => {
                let message = format!("Invalid message format: {:.200}", String::from_utf8_lossy(&message));
                let refusal = Refusal::malformed(message).in_cubes_words();
                guest.outbox.put(&json!({"message": refusal.body(), "status": 400})).await;
                continue;
            }
        };
        let (id, is_followed) = (call.message_id.clone(), call.method == "subscribe");
        if is_followed && doing.get(&id.to_string()).is_some_and(|doing| doing.is_followed) {
            // It is being followed. That the client is told so shows it that somebody is here.
            guest.outbox.put(&json!({"messageProcessedId": id})).await;
            continue;
        }
        let Ok(turn) = Arc::clone(&guest.turns).acquire_owned().await else { return };
        let guest = Arc::clone(guest);
        let task = spawn("cube_message", async move { guest.answer(call, turn).await });
        doing.insert(id.to_string(), Doing { is_followed, task });
    }
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::Number(number) => number.to_string().len() <= ID_CHARS_MAX,
        Value::String(text) => text.chars().count() <= ID_CHARS_MAX,
        _ => false,
    }
}

impl Guest {
    /// Answers a message, and says that it has.
    async fn answer(&self, call: Call, turn: OwnedSemaphorePermit) {
        let Call { message_id: id, method, params, .. } = call;
        let done = match method.as_str() {
            "subscribe" => self.follow(&id, params.unwrap_or_default(), turn).await,
            _ => self.once(&id, &method, params.unwrap_or_default()).await,
        };
        if let Err(refusal) = done {
            let refusal = refusal.in_cubes_words();
            let status = refusal.status().as_u16();
            self.outbox.put(&json!({"messageId": id, "message": refusal.body(), "status": status})).await;
        }
        self.outbox.put(&json!({"messageProcessedId": id})).await;
    }

    fn seat(&self) -> Result<Seated, Refusal> {
        Ok(self.visitor.seat(&self.entrance, self.place.clone())?)
    }

    /// Answers what is asked for once.
    async fn once(&self, id: &Value, method: &str, params: Map<String, Value>) -> Result<(), Refusal> {
        let limits = limits(&self.visitor.own);
        let described = match method {
            "load" => {
                let params = Params::of_message(params, &load::KNOWN)?;
                let mut seated = self.seat()?;
                let loaded = self.load(&mut seated, id, &params.query()?, params.results()?).await;
                return given_back(seated, loaded).await.map(drop);
            }
            "meta" => Described::meta(&Params::of_message(params, &describe::META)?)?,
            "dry-run" => Described::dry_run(&Params::of_message(params, &describe::DRY_RUN)?, limits)?,
            "sql" => Described::sql(&Params::of_message(params, &describe::SQL)?, limits)?,
            other => return Err(Refusal::malformed(format!("Unsupported method: {other:.100}"))),
        };
        let mut seated = self.seat()?;
        let mut answer = Collected::new(id, &seated);
        let mut told = described.tell(&mut seated, &mut answer).await;
        if told.is_ok() {
            told = seated.commit().await.map_err(Refusal::from);
        }
        given_back(seated, told).await?;
        self.put(answer).await
    }

    /// Sends what the query gives now, and returns the time at which it was read.
    async fn load(&self, seat: &mut Seat, id: &Value, query: &Value, results: Results) -> Result<Timestamp, Refusal> {
        let asked = Asked::read(seat, query, limits(&self.visitor.own))?;
        let mut answer = Collected::new(id, seat);
        asked.tell(seat, results, &mut answer).await?;
        let at = seat.reads_at().unwrap_or_default();
        seat.commit().await?;
        self.put(answer).await?;
        Ok(at)
    }

    async fn put(&self, answer: Collected) -> Result<(), Refusal> {
        let message = answer.message()?;
        let _gone = self.outbox.0.send(message).await;
        Ok(())
    }

    /// Answers now, and again whenever something else is to be answered.
    async fn follow(&self, id: &Value, params: Map<String, Value>, turn: OwnedSemaphorePermit) -> Result<(), Refusal> {
        let params = Params::of_message(params, &load::KNOWN)?;
        let (query, results) = (params.query()?, params.results()?);
        let shared = &self.visitor.own;
        let Ok(_place) = Arc::clone(&shared.followed).try_acquire_owned() else {
            let message = format!("{} queries are being followed, and that is the limit", shared.cube.followed_max);
            let hint = "--cube-subscriptions-max says how many may be.";
            return Err(AdapterError::with_hint(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message, hint).into());
        };
        let mut turn = Some(turn);
        let is_relative = Query::read(&query, None, limits(shared)).is_err();
        // For as long as what is relative means the same.
        loop {
            let mut watching = self.seat()?;
            let asked = Asked::read(&watching, &query, limits(shared))?;
            let text = followed(&asked);
            let answer = watching.answer(Statement::Text(text), no_values(), Follows::Nothing, PIECE_BYTES).await?;
            let Answer::Rows(mut changes) = answer else {
                return Err(AdapterError::internal("a subscription has no rows").into());
            };
            loop {
                let mut seated = self.seat()?;
                let loaded = self.load(&mut seated, id, &query, results).await;
                let at = given_back(seated, loaded).await?;
                // What comes from now on is waited for.
                turn.take();
                // Without a clock nothing is relative.
                let meant = Meant { query: &query, limits: limits(shared), asked: &asked };
                if !has_changed(&mut changes, at, is_relative.then_some(&meant)).await? {
                    break;
                }
            }
        }
    }
}

/// Returns true when something has changed after a time, and false when the query means something else. Errors: why it cannot be followed any
/// more.
async fn has_changed(
    changes: &mut Answering<'_>,
    after: Timestamp,
    meant: Option<&Meant<'_>>,
) -> Result<bool, Refusal> {
    loop {
        let batch = match tokio::time::timeout(TICK, changes.next()).await {
            Ok(batch) => batch?,
            Err(_) if meant.is_some_and(|meant| meant.is_over(changes.session())) => return Ok(false),
            Err(_) => continue,
        };
        let Some(batch) = batch else { return Err(AdapterError::internal("a subscription has ended").into()) };
        let is_later = |row| match batch.columns().first().and_then(|times| from_array(times.as_ref(), row)) {
            Some(Datum::Numeric(time, 0)) => time.as_i128() > i128::from(after),
            Some(Datum::UInt8(time)) => time > after,
            _ => true,
        };
        if (0..batch.num_rows()).any(is_later) {
            return Ok(true);
        }
    }
}

/// What a query that says something relative has meant.
struct Meant<'q> {
    query: &'q Value,
    limits: Limits,
    asked: &'q Asked,
}

impl Meant<'_> {
    /// Whether it means something else by now.
    fn is_over(&self, session: &Session) -> bool {
        Asked::read(session, self.query, self.limits).is_ok_and(|now| now != *self.asked)
    }
}

/// What is followed of what is asked: all that can change the answer. That is said without a limit that nobody has asked for, and without
/// one where the rows behind it are counted.
fn followed(asked: &Asked) -> String {
    let parts = asked.queries.iter().map(|query| {
        let is_whole = query.total == Total::Asked || matches!(query.limit, Limit::Default(_));
        let query = match is_whole {
            true => Query { limit: Limit::Default(None), offset: 0, order: Vec::new(), ..query.clone() },
            false => query.clone(),
        };
        format!("SELECT * FROM {}", cube_load(&Value::Object(query.json()).to_string()))
    });
    format!("SUBSCRIBE TO ({}) WITH (SNAPSHOT = false)", parts.collect::<Vec<_>>().join(" UNION ALL "))
}

/// Gives a session back, which is as new unless something has failed in it.
async fn given_back<T>(mut seated: Seated, done: Result<T, Refusal>) -> Result<T, Refusal> {
    if let (Err(_), Some(session)) = (&done, seated.here()) {
        session.fail_transaction();
    }
    seated.give_back().await;
    done
}

/// An answer that is a message, and so in memory as a whole.
struct Collected {
    buffer: Vec<u8>,
    held: Reservation,
}

impl Collected {
    fn new(id: &Value, seat: &Seat) -> Collected {
        let buffer = format!("{{\"messageId\":{id},\"message\":").into_bytes();
        Collected { buffer, held: Reservation::empty(seat.message_memory()) }
    }

    fn message(mut self) -> Result<Outgoing, Refusal> {
        self.buffer.extend_from_slice(b",\"status\":200}");
        let text = String::from_utf8(self.buffer).map_err(|error| AdapterError::internal(error.to_string()))?;
        Ok(Outgoing(text, Some(self.held)))
    }
}

impl Outlet for Collected {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    async fn flush(&mut self) -> Result<(), AdapterError> {
        // It grows by half at the least, and is moved then.
        let bytes = self.buffer.capacity();
        std::future::ready(self.held.cover(bytes / 2 * 3)).await?;
        Ok(())
    }
}
