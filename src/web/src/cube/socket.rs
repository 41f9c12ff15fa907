//! Cube's API by WebSocket: what is asked for by HTTP, many things at once, and queries that are followed.
//!
//! 1. The first message says who comes: `{"authorization": TOKEN}`. Answered by `{"handshake": true}`; or by why not, after which the socket
//!    stays open for a while: Cube's client opens another one as soon as it is closed.
//! 2. Each further message asks for something, `{"messageId", "method", "params"}`, and is answered by
//!    `{"messageId", "message", "status"}`, what HTTP would answer, and then `{"messageProcessedId"}`. Answers come as they are ready.
//! 3. `subscribe` is answered again whenever the result has changed, until `{"unsubscribe": messageId}`. A client sends it again from time
//!    to time, which changes nothing. What fails meanwhile is told, and tried again.
//!
//! Followed is what the query gives, by a SUBSCRIBE: when that has something to tell, or the catalog has changed, the query is asked once more, and
//! its result told if it is another one. So an answer is one that HTTP would give, at one time, whatever has happened at once.

use crate::api;
use crate::cube::asked::{Params, Results, shown};
use crate::cube::describe::{self, Described};
use crate::cube::load::{Asked, limits};
use crate::cube::result::statement;
use crate::identify::{admit, check_visit};
use crate::outlet::{Outlet, PIECE_BYTES};
use crate::shared::{Seated, Visitor};
use crate::sockets::{closing, receive, sized};
use crate::told::Refusal;
use adapter::answer::{Answer, Answering, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::seat::Seat;
use adapter::session::Session;
use axum::Extension;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use door::entrance::Entrance;
use door::place::Place;
use door::visitor::GOODBYE;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use memchr::memmem::find;
use ore::memory::Reservation;
use ore::task::{JoinHandle, spawn};
use repr::datum::from_array;
use repr::sqlstate::SqlState;
use repr::{Datum, Timestamp};
use semantic::query::{Limit, Limits, Query, Total};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// The largest message that is taken.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// How long a client may take to say who it is, and how long it may stay that is not let in.
const PATIENCE: Duration = Duration::from_secs(10);
const STRANGERS_PATIENCE: Duration = Duration::from_secs(60);
/// How long it is waited for room for what is to be followed.
const MOMENT: Duration = Duration::from_millis(500);
/// How long after a failure what is followed is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// What is answered of one socket at once; behind it nothing is read.
const AT_ONCE: usize = 16;
/// Answers that wait to be sent.
const WAITING_MAX: usize = 4;
/// Where an answer tells when it was read.
const REFRESHED: &[u8] = b"\"lastRefreshTime\":";
/// How often it is looked whether a query means something else by now.
const TICK: Duration = Duration::from_secs(1);
/// What the library says of a message that is longer than it takes.
const TOO_LONG: &str = "Message too long";
/// Parameters of what has rows.
const LOAD: [&str; 3] = ["query", "queryType", "cache"];
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
    let upgrade = sized(upgrade, MESSAGE_BYTES_MAX);
    std::future::ready(Ok(upgrade.on_upgrade(move |socket| converse(socket, visitor, host)))).await
}

/// A socket's messages, from the first to the last.
async fn converse(socket: WebSocket, visitor: Arc<Visitor>, host: String) {
    let (mut sink, mut stream) = socket.split();
    let introduced = introduce(&mut stream, &mut sink, &visitor, &host).await;
    let (entrance, place, anchor) = match introduced {
        Ok(introduced) => introduced,
        Err(Some((code, reason))) => return goodbye(&mut sink, code, reason).await,
        Err(None) => return,
    };
    let ended = anchor.shutdown();
    let (tx, rx) = mpsc::channel(WAITING_MAX);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let guest = Arc::new(Guest { visitor, entrance, place, outbox: Outbox(tx), turns });
    let reason = tokio::select! {
        biased;
        () = ended.cancelled() => Some((close_code::AWAY, "57P01: the session ends")),
        () = send(&mut sink, rx) => None,
        reason = serve(&mut stream, &guest) => reason,
    };
    anchor.close().await;
    match reason {
        Some((code, reason)) => goodbye(&mut sink, code, reason).await,
        // Its own goodbye is answered.
        None => drop(tokio::time::timeout(GOODBYE, sink.close()).await),
    }
}

/// Why a socket is closed, if the client has not closed it.
type Reason = Option<(u16, &'static str)>;

async fn goodbye(sink: &mut SplitSink<WebSocket, Message>, code: u16, reason: &str) {
    let _gone = tokio::time::timeout(GOODBYE, sink.send(closing(code, reason))).await;
    if code == close_code::SIZE {
        // What was not read resets the connection when it is closed, and with it what was said.
        tokio::time::sleep(GOODBYE).await;
    }
}

/// Who introduces itself, and a session by which others see who is there, and end it. Who is not let in is told so, and may try again.
async fn introduce(
    stream: &mut SplitStream<WebSocket>,
    sink: &mut SplitSink<WebSocket, Message>,
    visitor: &Visitor,
    host: &str,
) -> Result<(Arc<Entrance>, Place, Seat), Reason> {
    const NOBODY: Reason = Some((close_code::POLICY, "nobody has said who it is"));
    let mut turn = visitor.own.introductions.acquire().await.map_err(|_| NOBODY)?;
    let mut patience = PATIENCE;
    let began = Instant::now();
    loop {
        let message = tokio::time::timeout(patience, next(stream)).await.map_err(|_| NOBODY)??;
        let (id, refusal) = match serde_json::from_slice(&message) {
            Ok(Introduction { authorization }) => {
                match welcome(visitor, host, authorization.as_deref().unwrap_or_default()).await {
                    Ok(welcomed) => {
                        let said = sink.send(Message::Text(json!({"handshake": true}).to_string().into())).await;
                        return said.map(|()| welcomed).map_err(|_| None);
                    }
                    Err(refusal) => (Value::Null, refusal),
                }
            }
            Err(_) => {
                let id = serde_json::from_slice(&message).map(|Call { message_id, .. }| message_id);
                let refusal = Refusal::new(StatusCode::FORBIDDEN, SqlState::INVALID_PASSWORD, "Not authorized");
                (id.unwrap_or(Value::Null), refusal)
            }
        };
        let refusal = refusal.in_cubes_words();
        let mut answer = json!({"message": refusal.body(), "status": refusal.status().as_u16()});
        if !id.is_null() {
            answer["messageId"] = id;
        }
        sink.send(Message::Text(answer.to_string().into())).await.map_err(|_| None)?;
        // Others do not wait for who stays.
        drop(turn);
        turn = visitor.own.strangers.try_acquire().map_err(|_| NOBODY)?;
        patience = STRANGERS_PATIENCE.checked_sub(began.elapsed()).ok_or(NOBODY)?;
    }
}

/// A session for who shows this.
async fn welcome(visitor: &Visitor, host: &str, authorization: &str) -> Result<(Arc<Entrance>, Place, Seat), Refusal> {
    let (entrance, place) = admit(visitor, host, shown(authorization)?, None).await?;
    let session = entrance.connect(&visitor.arrival, place.clone())?;
    Ok((entrance, place, Seat::new(session)))
}

/// The next message. Errors: the client has hung up, or why it has to.
async fn next(stream: &mut SplitStream<WebSocket>) -> Result<Vec<u8>, Reason> {
    receive(stream).await.map_err(|error| {
        // Who is told by this number does not send it again.
        let is_too_long = error.is_some_and(|error| error.to_string().contains(TOO_LONG));
        is_too_long.then_some((close_code::SIZE, "the message is too big"))
    })
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

/// What is followed, and what for.
struct Following {
    params: Map<String, Value>,
    /// Ends with this, unless it has ended by itself: there was nothing to follow.
    task: JoinHandle<()>,
}

/// Takes messages until the client hangs up, or has to; what is done for them ends then.
async fn serve(stream: &mut SplitStream<WebSocket>, guest: &Arc<Guest>) -> Reason {
    let (mut answering, mut following) = (Vec::<JoinHandle<()>>::new(), HashMap::<String, Following>::new());
    loop {
        let message = match next(stream).await {
            Ok(message) => message,
            Err(reason) => return reason,
        };
        answering.retain(|task| !task.is_finished());
        let call = match serde_json::from_slice(&message) {
            Ok(Said::End(End { unsubscribe })) => {
                following.remove(&unsubscribe.to_string());
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
        let Call { message_id: id, method, params, .. } = call;
        let (name, params) = (id.to_string(), params.unwrap_or_default());
        let is_followed = method == "subscribe";
        let is_known = |known: &Following| known.params == params && !known.task.is_finished();
        if is_followed && following.get(&name).is_some_and(is_known) {
            // It is being followed. That the client is told so shows it that somebody is here.
            guest.outbox.put(&json!({"messageProcessedId": id})).await;
            continue;
        }
        if is_followed {
            following.remove(&name);
        }
        let Ok(turn) = Arc::clone(&guest.turns).acquire_owned().await else { return None };
        let (guest, asked) = (Arc::clone(guest), params.clone());
        let task = spawn("cube_message", async move { guest.answer(&id, &method, asked, turn).await });
        if is_followed {
            following.insert(name, Following { params, task });
        } else {
            answering.push(task);
        }
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
    async fn answer(&self, id: &Value, method: &str, params: Map<String, Value>, turn: OwnedSemaphorePermit) {
        let done = match method {
            "subscribe" => self.follow(id, params, turn).await,
            _ => self.once(id, method, params).await,
        };
        if let Err(refusal) = done {
            self.refuse(id, refusal).await;
        }
        self.outbox.put(&json!({"messageProcessedId": id})).await;
    }

    async fn refuse(&self, id: &Value, refusal: Refusal) {
        let refusal = refusal.in_cubes_words();
        let status = refusal.status().as_u16();
        self.outbox.put(&json!({"messageId": id, "message": refusal.body(), "status": status})).await;
    }

    fn seat(&self) -> Result<Seated, Refusal> {
        Ok(self.visitor.seat(&self.entrance, self.place.clone())?)
    }

    /// Answers what is asked for once.
    async fn once(&self, id: &Value, method: &str, params: Map<String, Value>) -> Result<(), Refusal> {
        let limits = limits(&self.visitor.own);
        let described = match method {
            "load" => {
                let params = Params::of_message(params, &LOAD)?;
                params.check_cache()?;
                let mut seated = self.seat()?;
                let loaded = self.load(&mut seated, id, &params.query()?, params.results()?).await;
                let (_, answer) = given_back(seated, loaded).await?;
                return self.put(answer).await;
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

    /// What the query gives now, and the time at which it was read.
    async fn load(
        &self,
        seat: &mut Seat,
        id: &Value,
        query: &Value,
        results: Results,
    ) -> Result<(Timestamp, Collected), Refusal> {
        let asked = Asked::read(seat, query, limits(&self.visitor.own))?;
        let mut answer = Collected::new(id, seat);
        asked.tell(seat, results, &mut answer).await?;
        let at = seat.reads_at().unwrap_or_default();
        seat.commit().await?;
        Ok((at, answer))
    }

    async fn put(&self, answer: Collected) -> Result<(), Refusal> {
        let message = answer.message()?;
        let _gone = self.outbox.0.send(message).await;
        Ok(())
    }

    /// Answers now, and again whenever something else is to be answered. Errors: there is nothing to follow.
    async fn follow(&self, id: &Value, params: Map<String, Value>, turn: OwnedSemaphorePermit) -> Result<(), Refusal> {
        let params = Params::of_message(params, &LOAD)?;
        params.check_cache()?;
        let (query, results) = (params.query()?, params.results()?);
        let shared = &self.visitor.own;
        // One that has just ended makes room in a moment.
        let place = tokio::time::timeout(MOMENT, Arc::clone(&shared.followed).acquire_owned());
        let Ok(Ok(_place)) = place.await else {
            let message = format!("{} queries are being followed, and that is the limit", shared.cube.followed_max);
            let hint = "--cube-subscriptions-max says how many may be.";
            return Err(AdapterError::with_hint(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message, hint).into());
        };
        let mut told = Told { id, last: None, turn: Some(turn) };
        loop {
            let refusal = match Box::pin(self.follow_while(&query, results, &mut told)).await {
                Ok(()) => continue,
                Err(refusal) if told.last.is_none() => return Err(refusal),
                Err(refusal) => refusal.in_cubes_words(),
            };
            // It was followed, and may be again: a row was wrong, there was no memory, the model is being changed.
            if told.is_new(refusal.body().to_string().as_bytes()) {
                self.refuse(id, refusal).await;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The same for as long as the query means the same.
    async fn follow_while(&self, query: &Value, results: Results, told: &mut Told<'_>) -> Result<(), Refusal> {
        let limits = limits(&self.visitor.own);
        let mut watching = self.seat()?;
        let asked = Asked::read(&watching, query, limits)?;
        let text = followed(&asked);
        let answer = watching.answer(Statement::Text(text), no_values(), Follows::Nothing, PIECE_BYTES).await?;
        let Answer::Rows(mut changes) = answer else {
            return Err(AdapterError::internal("a subscription has no rows").into());
        };
        let meant = Meant { query, limits, asked: &asked };
        loop {
            let mut seated = self.seat()?;
            let loaded = self.load(&mut seated, told.id, query, results).await;
            let (at, answer) = given_back(seated, loaded).await?;
            if told.is_new(&answer.buffer) {
                self.put(answer).await?;
            }
            if told.turn.take().is_some() {
                // What comes from now on is waited for.
                self.outbox.put(&json!({"messageProcessedId": told.id})).await;
            }
            if !has_changed(&mut changes, at, &meant).await? {
                return Ok(());
            }
        }
    }
}

/// What was told of something that is followed.
struct Told<'i> {
    id: &'i Value,
    /// The hash of the last answer.
    last: Option<u64>,
    /// Until the first.
    turn: Option<OwnedSemaphorePermit>,
}

impl Told<'_> {
    /// Whether an answer is another one than the last, but for when it was read. It is the last from now on.
    fn is_new(&mut self, answer: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        let mut rest = answer;
        // No value of a row has it like this: its quotes would be escaped.
        while let Some(found) = find(rest, REFRESHED) {
            let (before, behind) = rest.split_at(found + REFRESHED.len());
            hasher.write(before);
            rest = behind.iter().position(|byte| *byte == b',').map_or(&[][..], |end| &behind[end..]);
        }
        hasher.write(rest);
        let hash = hasher.finish();
        self.last.replace(hash) != Some(hash)
    }
}

/// Returns true when something has changed after a time, and false when the query means something else, or may do so. Errors: why it cannot be
/// followed any more.
async fn has_changed(changes: &mut Answering<'_>, after: Timestamp, meant: &Meant<'_>) -> Result<bool, Refusal> {
    loop {
        let batch = match tokio::time::timeout(TICK, changes.next()).await {
            Ok(batch) => batch?,
            Err(_) if meant.is_over(changes.session()) => return Ok(false),
            Err(_) => continue,
        };
        if !changes.session().is_current() {
            return Ok(false);
        }
        let Some(batch) = batch else { return Err(AdapterError::internal("a subscription has ended").into()) };
        let is_later = |row| match batch.columns().first().and_then(|times| from_array(times.as_ref(), row)) {
            Some(Datum::Numeric(time, 0)) => time.as_i128() > i128::from(after),
            _ => true,
        };
        if (0..batch.num_rows()).any(is_later) {
            return Ok(true);
        }
    }
}

/// What a query has meant.
struct Meant<'q> {
    query: &'q Value,
    limits: Limits,
    asked: &'q Asked,
}

impl Meant<'_> {
    /// Whether it means something else by now, or may do so: what is relative is relative to something else, or the catalog has changed.
    fn is_over(&self, session: &Session) -> bool {
        !session.is_current() || Asked::read(session, self.query, self.limits).is_ok_and(|now| now != *self.asked)
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
        statement(&query)
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
