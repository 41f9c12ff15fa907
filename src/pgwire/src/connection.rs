//! One client's connection: the loop between its socket and its session.
//!
//! It is compiled once for sockets and once for TLS over them.
//!
//! 1. Read what the socket has; wait only if there is nothing to do.
//! 2. Handle every complete message in the buffer, appending answers to the write buffer.
//! 3. Write the answers at once, when a Sync, Flush or Query among those messages makes the client wait for them, or
//!    when [`FLUSH_BYTES`] have piled up (which is also where a slow reader makes us wait).
//!
//! An error in the extended protocol skips messages up to the next Sync, as the protocol says; an error in a Query ends
//! that Query. Errors after which the stream cannot be trusted, a stop of the server and the end of the session end the
//! connection, with a last message if there is somebody to read it.
//!
//! # Invariants
//! - The write buffer holds whole messages, the first of which may be partly written: whenever the loop is abandoned
//!   (a stop), a last message can be appended.
//! - Nothing here allocates for a query whose session does not: both buffers are reused.

mod copying;
mod large;
mod results;

use crate::codec::{Input, Next};
use crate::encode::rows::RowEncoder;
use crate::encode::{self, Severity};
use crate::error::WireError;
use crate::formats::{Formats, Wanted, decode, row_description};
use crate::message::{self, Target};
use crate::metrics::{MessageKind, Metrics};
use crate::packet;
use crate::shared::{PROTOCOL, Shared};
use crate::startup::{self, Introduction, NOT_OURS, Packet, Upgrade, Visit};
use crate::stream::Stream;
use adapter::error::{AdapterError, Notice};
use adapter::response::Response;
use adapter::seat::Seat;
use adapter::session::{Script, Session};
use door::entrance::{Arrival, Port};
use futures::future::BoxFuture;
use ore::memory::{Refused, Share};
use ore::until::until;
use results::Answer;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How much is gathered before it is written.
pub(crate) const FLUSH_BYTES: usize = 64 << 10;
/// What an idle connection holds for writing.
const IDLE_OUTPUT_BYTES: usize = 2 << 10;
/// A write buffer that is worth giving back.
const LARGE_OUTPUT_BYTES: usize = 16 << 10;
/// Large buffers are given back after a pause of this length.
const SHRINK_AFTER: Duration = Duration::from_secs(2);
/// How long a client gets to stop sending after it was told that its connection ends, so that it reads why.
const LINGER: Duration = Duration::from_secs(1);
/// How often, while a statement runs, it is checked that its client is still there.
const ATTENDANCE: Duration = Duration::from_secs(5);
const FUNCTION_CALLS: &str = "the function call protocol is not supported";
/// How long a client gets to take our last message.
const GOODBYE: Duration = Duration::from_secs(1);

/// A stream with its buffers, and what is written to it.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    input: Input,
    output: Output,
    metrics: Metrics,
    request_bytes_max: usize,
    /// After an error in the extended protocol, everything is skipped until Sync.
    skips_to_sync: bool,
}

/// What handling a message has left to be waited for. Small, as it is handed back for every message.
enum Later {
    /// A simple query's statements, after what is left of an answer that was begun.
    Script(Box<(Script, Option<Answer>)>),
    /// A message of this type that is not known to be short, of which nothing was done: Query, Parse, Bind, Describe.
    Elsewhere(u8),
    /// An Execute.
    Execute,
    /// What is left of the answer to an Execute.
    Answer(Box<Answer>),
    /// A Sync that ends an implicit transaction.
    Sync,
}

/// Answers that were not written yet, and what is needed to encode them.
#[derive(Debug)]
pub(crate) struct Output {
    buffer: Vec<u8>,
    /// How many of the buffer's bytes are written.
    written: usize,
    rows: RowEncoder,
    wanted: Wanted,
    /// Whether the client waits for what is in the buffer.
    is_due: bool,
    /// What large rows take while they are encoded and sent.
    memory: Arc<Share>,
}

impl Visit<'_> {
    /// A part of the handshake, until the deadline or a stop of the server.
    async fn in_time<T>(&self, part: impl Future<Output = Result<T, WireError>>) -> Result<T, WireError> {
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => Err(WireError::Shutdown),
            done = tokio::time::timeout_at(self.deadline, part) => done.unwrap_or(Err(WireError::HandshakeTimeout)),
        }
    }
}

/// Serves a connection from its first byte to its last. Whether it ended as a client should end it.
pub(crate) async fn run(stream: TcpStream, shared: &Shared, port: Port) -> bool {
    let deadline = Instant::now() + shared.handshake_timeout;
    let arrival = Arrival::new(&stream, port);
    let visit = Visit { shared, arrival: &arrival, deadline };
    let mut connection = Connection::new(stream, shared);
    match visit.in_time(startup::introduce(&mut connection.stream, shared.entrance.tls().is_some())).await {
        Ok(Introduction::Packet(packet)) => connection.converse(packet, visit).await,
        // Boxed, so that plain connections have no room for it.
        Ok(Introduction::Upgrade(how)) => Box::pin(run_encrypted(connection.stream, how, visit)).await,
        Err(error) => connection.turn_away(&error).await,
    }
}

/// Goes on in TLS with what began as a plain connection; nothing that was read or written before comes along.
async fn run_encrypted(stream: TcpStream, how: Upgrade, visit: Visit<'_>) -> bool {
    let Some(tls) = visit.shared.entrance.tls() else { return false };
    let (mut connection, identity) = match visit.in_time(async { Ok(tls.accept(stream, &[PROTOCOL]).await?) }).await {
        Ok((stream, identity)) => (Connection::new(stream, visit.shared), identity),
        Err(error) => {
            tracing::debug!(%error, peer = ?visit.arrival.peer, "a TLS handshake failed");
            return false;
        }
    };
    let introduced = match how {
        Upgrade::Direct if !door::tls::names(&connection.stream, PROTOCOL) => Err(packet::refusal(NOT_OURS)),
        Upgrade::Asked | Upgrade::Direct => visit.in_time(startup::introduce_encrypted(&mut connection.stream)).await,
    };
    match introduced {
        Ok(packet) => {
            let arrival = visit.arrival.clone().encrypted(&connection.stream, &identity);
            let visit = Visit { arrival: &arrival, ..visit };
            connection.converse(packet, visit).await
        }
        Err(error) => connection.turn_away(&error).await,
    }
}

impl<S: Stream> Connection<S> {
    fn new(stream: S, shared: &Shared) -> Connection<S> {
        let memory = shared.entrance.client().message_memory();
        let output = Output {
            buffer: Vec::with_capacity(IDLE_OUTPUT_BYTES),
            written: 0,
            rows: RowEncoder::default(),
            wanted: Wanted::default(),
            is_due: false,
            memory: Arc::clone(memory),
        };
        let (metrics, request_bytes_max) = (shared.metrics.clone(), shared.request_bytes_max);
        let input = Input::new(request_bytes_max, memory);
        Connection { stream, input, output, metrics, request_bytes_max, skips_to_sync: false }
    }

    /// Serves a client that has introduced itself. Whether it ended as a client should end it.
    async fn converse(&mut self, packet: Packet, visit: Visit<'_>) -> bool {
        let opening = startup::open(&mut self.stream, packet, visit, &mut self.output.buffer);
        let mut session = match visit.in_time(opening).await {
            Ok(Some(session)) => Seat::new(session),
            Ok(None) => {
                // The answer to a CancelRequest is the end of the connection, which TLS has to announce.
                let _gone = tokio::time::timeout(GOODBYE, self.stream.shutdown()).await;
                return true;
            }
            Err(error) => return self.turn_away(&error).await,
        };
        let ended = session.shutdown();
        let error = match until(self.serve(&mut session), ended.cancelled()).await {
            Ok(Err(error)) => error,
            Err(()) => WireError::Shutdown,
        };
        session.close().await;
        self.end(&error).await;
        matches!(error, WireError::Closed)
    }

    /// Ends a connection that never had a session.
    async fn turn_away(&mut self, error: &WireError) -> bool {
        self.end(error).await;
        false
    }

    /// The loop. Returns only with the reason why the connection ends.
    async fn serve(&mut self, session: &mut Seat) -> Result<Infallible, WireError> {
        self.output.ready(session);
        loop {
            loop {
                match self.input.next()? {
                    Next::Message(tag) => {
                        // One that was given up is not needed to say goodbye, nor to end what has failed.
                        if session.here().is_none() && tag != b'X' && !self.skips_to_sync {
                            self.await_session(session).await?;
                        }
                        if let Some(later) = self.message(session, tag)? {
                            Box::pin(self.later(session, later)).await?;
                        }
                    }
                    Next::Large(tag) if self.skips_to_sync || tag == b'd' => drop(self.input.take_body()),
                    Next::Large(b'F') => self.not_taken(session, b'F', WireError::Unsupported(FUNCTION_CALLS))?,
                    Next::Large(tag) => {
                        self.await_session(session).await?;
                        Box::pin(self.later(session, Later::Elsewhere(tag))).await?;
                    }
                    Next::Refused(tag, refused) => {
                        self.not_taken(session, tag, no_memory(refused))?;
                    }
                    Next::Skipped { tag, message_bytes } => {
                        let bytes_max = self.request_bytes_max;
                        self.not_taken(session, tag, WireError::RequestTooLarge { bytes: message_bytes, bytes_max })?;
                    }
                    Next::None => break,
                }
                self.output.flush_if_full(&mut self.stream).await?;
            }
            if self.output.is_due {
                if door::server::is_crowded() {
                    tokio::task::yield_now().await;
                }
                self.output.flush(&mut self.stream).await?;
            }
            match session.here().and_then(|session| session.idle_timeout()) {
                None => self.fill().await?,
                Some(timeout) => match Box::pin(tokio::time::timeout(timeout, self.fill())).await {
                    Ok(filled) => filled?,
                    Err(_) => return Err(session.idle_for_too_long().into()),
                },
            }
        }
    }

    /// Waits for a session that was given up, after what its client is to know of that was written.
    async fn await_session(&mut self, session: &mut Seat) -> Result<(), WireError> {
        if session.here().is_none() {
            self.output.flush(&mut self.stream).await?;
            Box::pin(attended(&self.stream, session.back())).await?;
        }
        Ok(())
    }

    /// Reads more from the client; large buffers are not kept while waiting long.
    async fn fill(&mut self) -> Result<(), WireError> {
        let is_large = self.input.is_large() || self.output.buffer.capacity() > LARGE_OUTPUT_BYTES;
        let early = if is_large {
            Box::pin(tokio::time::timeout(SHRINK_AFTER, self.input.fill(&mut self.stream))).await.ok()
        } else {
            None
        };
        let count = match early {
            Some(count) => count?,
            None => {
                if is_large {
                    self.input.shrink();
                    self.output.shrink();
                }
                self.input.fill(&mut self.stream).await?
            }
        };
        ore::turns::take(std::ptr::from_ref(self).addr());
        if self.input.is_gathering() {
            // There is more at once, as long as its sender is quicker than we are: others have their turn.
            tokio::task::yield_now().await;
        }
        if count == 0 { Err(WireError::Closed) } else { Ok(()) }
    }

    /// Handles the message that the input just found, as far as that needs no waiting.
    ///
    /// What does need it is handed back as data, not as a future: a future would have room for all that handling a message
    /// may take, and be moved for every one of them.
    fn message(&mut self, session: &mut Seat, tag: u8) -> Result<Option<Later>, WireError> {
        if self.skips_to_sync && !matches!(tag, b'S' | b'X') {
            return Ok(None);
        }
        let (body, Output { buffer: out, wanted, .. }) = (self.input.body(), &mut self.output);
        let result = match tag {
            b'Q' => return self.query(session),
            b'S' => return self.sync(session),
            b'X' => return Err(WireError::Closed),
            b'P' => self.metrics.time(MessageKind::Parse, || parse(session, wanted, body, out)),
            b'B' => bind(session, wanted, body, out),
            b'D' => describe(session, wanted, body, out),
            b'E' => match self.execute(session) {
                Ok(later) => return Ok(later),
                Err(error) => Err(error),
            },
            b'C' => self.close(session),
            b'H' => message::empty(self.input.body()).map_err(WireError::from).map(|()| self.output.is_due = true),
            // What is left of a COPY that failed.
            b'd' | b'c' | b'f' => Ok(()),
            b'F' => {
                self.output.fail(session, WireError::Unsupported(FUNCTION_CALLS))?;
                self.output.ready(session);
                return Ok(None);
            }
            _ => Err(WireError::Protocol("no answer was asked for".to_owned())),
        };
        match result {
            Err(WireError::Session(AdapterError::Elsewhere)) if matches!(tag, b'P' | b'B' | b'D') => {
                Ok(Some(Later::Elsewhere(tag)))
            }
            result => result.or_else(|error| self.fail_to_sync(session, error)).map(|()| None),
        }
    }

    /// Does what [`Connection::message`] had to leave.
    async fn later(&mut self, session: &mut Seat, later: Later) -> Result<(), WireError> {
        match later {
            Later::Script(rest) => {
                let (script, begun) = *rest;
                let result = self.script(session, script, begun).await;
                self.query_ended(session, result)
            }
            Later::Elsewhere(b'Q') => {
                let result = match self.script_elsewhere(session).await {
                    Ok(script) => self.script(session, script, None).await,
                    Err(error) => Err(error),
                };
                self.query_ended(session, result)
            }
            Later::Elsewhere(tag) => {
                let result = self.message_elsewhere(session, tag).await;
                result.or_else(|error| self.fail_to_sync(session, error))
            }
            Later::Execute => {
                let result = self.execute_waiting(session).await;
                result.or_else(|error| self.fail_to_sync(session, error))
            }
            Later::Answer(answer) => {
                let result = self.finish(session, *answer).await;
                result.or_else(|error| self.fail_to_sync(session, error))
            }
            Later::Sync => {
                let ended = self.attend(MessageKind::Sync, Box::pin(session.sync())).await;
                self.query_ended(session, ended)
            }
        }
    }

    /// Reports an error in the extended protocol.
    fn fail_to_sync(&mut self, session: &mut Seat, error: WireError) -> Result<(), WireError> {
        self.output.fail(session, error)?;
        self.skips_to_sync = true;
        Ok(())
    }

    /// Answers a request that was not looked at.
    fn not_taken(&mut self, session: &mut Seat, tag: u8, why: WireError) -> Result<(), WireError> {
        if self.skips_to_sync || tag == b'd' {
            return Ok(());
        }
        self.output.fail(session, why)?;
        match tag {
            b'Q' | b'F' => self.output.ready(session),
            _ => self.skips_to_sync = true,
        }
        Ok(())
    }

    /// Query: one statement after another, then ReadyForQuery.
    fn query(&mut self, session: &mut Seat) -> Result<Option<Later>, WireError> {
        let result = match self.start_script(session) {
            Ok(None) => Ok(()),
            Err(WireError::Session(AdapterError::Elsewhere)) => return Ok(Some(Later::Elsewhere(b'Q'))),
            Ok(Some(later)) => return Ok(Some(later)),
            Err(error) => Err(error),
        };
        self.query_ended(session, result)?;
        Ok(None)
    }

    /// Answers a query that is one read of an index; what else it may be is for later.
    fn start_script(&mut self, session: &mut Seat) -> Result<Option<Later>, WireError> {
        let mut script = session.start_script(message::string(self.input.body())?)?;
        let begun = match session.next_at_once(&mut script) {
            Some(response) => match self.respond_described(session, response?)? {
                Some(answer) => Some(answer),
                None => return Ok(None),
            },
            None => None,
        };
        Ok(Some(Later::Script(Box::new((script, begun)))))
    }

    /// The end of what a ReadyForQuery follows.
    fn query_ended(&mut self, session: &mut Seat, result: Result<(), WireError>) -> Result<(), WireError> {
        if let Err(error) = result {
            self.output.fail(session, error)?;
        }
        self.output.ready(session);
        Ok(())
    }

    /// Runs what is left of a script, the rest of an answer that was begun first.
    async fn script(&mut self, session: &mut Seat, mut script: Script, begun: Option<Answer>) -> Result<(), WireError> {
        if let Some(answer) = begun {
            self.finish(session, answer).await?;
        }
        while !script.is_done() {
            let work = session.next_in_script(&mut script);
            let response = match self.attend(MessageKind::Query, Box::pin(work)).await {
                Err(WireError::Session(AdapterError::Elsewhere)) => {
                    let work = session.elsewhere(move |session| {
                        Box::pin(async move {
                            let response = session.next_in_script(&mut script).await?;
                            Ok::<_, WireError>((script, response))
                        })
                    });
                    let response;
                    (script, response) = self.attend(MessageKind::Query, Box::pin(work)).await?;
                    response
                }
                response => response?,
            };
            if let Some(answer) = self.respond_described(session, response)? {
                self.finish(session, answer).await?;
            }
        }
        match session.must_finish(&script) {
            true => self.attend(MessageKind::Query, Box::pin(session.finish_script(&script))).await,
            false => Ok(()),
        }
    }

    /// Reads a query that is not known to be short.
    async fn script_elsewhere(&mut self, session: &mut Seat) -> Result<Script, WireError> {
        let mut body = self.input.take_body();
        let work = session.elsewhere(move |session| {
            Box::pin(async move {
                let text = body.whole().map_err(no_memory)?;
                Ok::<_, WireError>(session.start_script(message::string(&text)?)?)
            })
        });
        self.attend(MessageKind::Query, Box::pin(work)).await
    }

    /// Handles a Parse, Bind or Describe that is not known to be short.
    async fn message_elsewhere(&mut self, session: &mut Seat, tag: u8) -> Result<(), WireError> {
        let mut body = self.input.take_body();
        let (kind, message): (_, Short) = match tag {
            b'P' => (MessageKind::Parse, parse),
            b'B' => (MessageKind::Bind, bind),
            b'D' => (MessageKind::Describe, describe),
            _ => return Err(WireError::Protocol("no answer was asked for".to_owned())),
        };
        let mut wanted = self.output.wanted.clone();
        let work = session.elsewhere(move |session| {
            Box::pin(async move {
                let mut out = Vec::new();
                message(session, &mut wanted, &body.whole().map_err(no_memory)?, &mut out).map(|()| (out, wanted))
            })
        });
        let out;
        (out, self.output.wanted) = self.attend(kind, Box::pin(work)).await?;
        self.output.buffer.extend_from_slice(&out);
        Ok(())
    }

    /// Waits for a session's work, for as long as its client does.
    fn attend<'a, T: 'a, E: 'a>(
        &'a self,
        kind: MessageKind,
        mut work: BoxFuture<'a, Result<T, E>>,
    ) -> BoxFuture<'a, Result<T, WireError>>
    where
        WireError: From<E>,
    {
        Box::pin(async move { Ok(attended(&self.stream, self.metrics.watch(kind, work.as_mut())).await??) })
    }

    /// Execute: a portal's rows, all of them or as many as were asked for.
    fn execute(&mut self, session: &mut Seat) -> Result<Option<Later>, WireError> {
        let execute = message::execute(self.input.body())?;
        let rows_max = execute.rows_max;
        let Some(response) = session.execute_at_once(execute.portal) else { return Ok(Some(Later::Execute)) };
        let response = response?;
        let formats = self.output.formats_of(execute.portal, &response);
        Ok(self.respond(session, response, formats, rows_max)?.map(|answer| Later::Answer(Box::new(answer))))
    }

    async fn execute_waiting(&mut self, session: &mut Seat) -> Result<(), WireError> {
        let execute = message::execute(self.input.body())?;
        let sync_follows = self.input.sync_follows();
        let work = session.execute(execute.portal, sync_follows);
        let response = match self.attend(MessageKind::Execute, Box::pin(work)).await {
            Err(WireError::Session(AdapterError::Elsewhere)) => {
                let portal = execute.portal.to_owned();
                let work = session
                    .elsewhere(move |session| Box::pin(async move { session.execute(&portal, sync_follows).await }));
                self.attend(MessageKind::Execute, Box::pin(work)).await?
            }
            response => response?,
        };
        let formats = self.output.formats_of(execute.portal, &response);
        match self.respond(session, response, formats, execute.rows_max)? {
            Some(answer) => self.finish(session, answer).await,
            None => Ok(()),
        }
    }

    fn close(&mut self, session: &mut Seat) -> Result<(), WireError> {
        let (target, name) = message::target(self.input.body())?;
        match target {
            Target::Statement => session.close_statement(name),
            Target::Portal => session.close_portal(name),
        }
        encode::close_complete(&mut self.output.buffer);
        Ok(())
    }

    /// Sync: the end of an implicit transaction, and of skipping.
    fn sync(&mut self, session: &mut Seat) -> Result<Option<Later>, WireError> {
        message::empty(self.input.body())?;
        self.skips_to_sync = false;
        if session.here().is_some_and(|session| !session.sync_at_once()) {
            return Ok(Some(Later::Sync));
        }
        self.output.ready(session);
        Ok(None)
    }

    /// Says why the connection ends, if there is somebody to tell, and hangs up.
    async fn end(&mut self, error: &WireError) {
        if error.is_silent() {
            return;
        }
        // Whatever it is called elsewhere, what ends a connection is fatal: so is a wrong database in a handshake.
        encode::error_response(&mut self.output.buffer, Severity::Fatal, error);
        // The peer may be gone or not reading; either way there is nothing more to do.
        let _ = tokio::time::timeout(GOODBYE, async {
            self.output.flush(&mut self.stream).await?;
            self.stream.shutdown().await.map_err(WireError::from)
        })
        .await;
        if error.needs_linger() {
            let _ = tokio::time::timeout(LINGER, drain(&mut self.stream)).await;
        }
    }
}

/// 53200 of a message.
fn no_memory(refused: Refused) -> WireError {
    AdapterError::from(refused).into()
}

/// A message of the extended protocol whose answer is short.
type Short = fn(&mut Session, &mut Wanted, &[u8], &mut Vec<u8>) -> Result<(), WireError>;

/// Parse.
fn parse(session: &mut Session, _: &mut Wanted, body: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let parse = message::parse(body)?;
    session.parse(parse.name, parse.sql, parse.param_oids.as_slice())?;
    encode::parse_complete(out);
    Ok(())
}

/// Bind.
#[inline]
fn bind(session: &mut Session, wanted: &mut Wanted, body: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let bind = message::bind(body)?;
    let (format_count, values) = (bind.param_formats.iter().len(), bind.params.as_slice());
    if format_count > 1 && format_count != values.len() {
        return Err(WireError::Protocol(format!(
            "bind message has {format_count} parameter formats but {} parameters",
            values.len()
        )));
    }
    bound(session, wanted, &bind)?;
    encode::bind_complete(out);
    Ok(())
}

/// Gives a statement its values. An error here is two words long, and hardly ever is there one.
#[inline]
fn bound(session: &mut Session, wanted: &mut Wanted, bind: &message::Bind<'_>) -> Result<(), AdapterError> {
    let values = bind.params.as_slice();
    let param_formats = Formats::from_codes(bind.param_formats.iter())?;
    let formats = Formats::from_codes(bind.result_formats.iter())?;
    let bytes = values.iter().flatten().map(|value| value.len()).sum();
    let bindable = session.to_bind(bind.portal, bind.statement, bytes)?;
    let params = decode(session, bind.statement, bindable.params(), &param_formats, values)?;
    formats.check(bindable.desc().map_or(0, |desc| desc.desc.arity()))?;
    let number = session.bind(bind.portal, bindable, params);
    wanted.put(session, bind.portal, number, formats);
    Ok(())
}

/// Describe, of a statement or a portal.
fn describe(session: &mut Session, wanted: &mut Wanted, body: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let (target, name) = message::target(body)?;
    let (rows, formats) = match target {
        Target::Statement => {
            let statement = session.describe_statement(name)?;
            let oids: Vec<u32> = statement.params().iter().map(pgrepr::types::oid).collect();
            encode::parameter_description(out, &oids);
            (statement.desc().cloned(), Formats::text())
        }
        Target::Portal => {
            let (rows, number) = session.describe_portal(name)?;
            (rows, wanted.of(name, number))
        }
    };
    match rows {
        Some(rows) => out.extend_from_slice(&row_description(&rows, &formats)),
        None => encode::no_data(out),
    }
    Ok(())
}

/// Does work that nobody may be waiting for any more: when the client hangs up while it goes on, it is given up.
async fn attended<T>(stream: &impl Stream, work: impl Future<Output = T>) -> Result<T, WireError> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        error = hung_up(stream) => Err(error),
    }
}

/// Returns when the peer has hung up, which is looked for now and then only: work rarely lasts that long.
async fn hung_up(stream: &impl Stream) -> WireError {
    loop {
        tokio::time::sleep(ATTENDANCE).await;
        match stream.has_hung_up().await {
            Ok(true) => return WireError::Closed,
            Ok(false) => {}
            Err(error) => return error.into(),
        }
    }
}

/// Reads until the peer hangs up: closing a socket with unread data would reset it, and our last words with it.
async fn drain(stream: &mut impl Stream) {
    let mut nowhere = [0; 256];
    while stream.read(&mut nowhere).await.is_ok_and(|count| count > 0) {}
}

impl Output {
    /// Writes what is in the buffer.
    pub(crate) async fn flush(&mut self, stream: &mut impl Stream) -> Result<(), WireError> {
        // Not `write_all_buf`, whose gathering system call costs more for the one slice there is.
        while self.written < self.buffer.len() {
            match stream.write(&self.buffer[self.written..]).await? {
                0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                count => self.written += count,
            }
        }
        self.buffer.clear();
        self.written = 0;
        // TLS may hold back what the socket did not take; for a socket this is nothing.
        stream.flush().await?;
        self.is_due = false;
        Ok(())
    }

    /// Writes what is in the buffer if it is worth a system call, and then lets other connections have their turn.
    pub(crate) async fn flush_if_full(&mut self, stream: &mut impl Stream) -> Result<(), WireError> {
        if self.buffer.len() >= FLUSH_BYTES {
            Box::pin(async {
                self.flush(stream).await?;
                tokio::task::yield_now().await;
                Ok::<(), WireError>(())
            })
            .await?;
        }
        Ok(())
    }

    /// The formats in which the rows of a portal are wanted.
    #[inline]
    fn formats_of(&self, portal: &str, response: &Response) -> Formats {
        match response {
            Response::Rows { portal: number, .. } => self.wanted.of(portal, *number),
            _ => Formats::text(),
        }
    }

    /// ReadyForQuery, and before it what the session has to say.
    fn ready(&mut self, session: &mut Seat) {
        self.notices(session);
        if let Some(session) = session.here().filter(|session| session.has_pending()) {
            for (name, value) in session.take_parameter_changes() {
                encode::parameter_status(&mut self.buffer, name, &value);
            }
        }
        encode::ready_for_query(&mut self.buffer, session.transaction_status());
        self.is_due = true;
    }

    /// The session's notices, which belong before the end of the statement that caused them.
    pub(crate) fn notices(&mut self, session: &mut Seat) {
        let Some(session) = session.here().filter(|session| session.has_pending()) else { return };
        session.take_notices().iter().for_each(|notice| self.notice(notice));
    }

    pub(crate) fn notice(&mut self, notice: &Notice) {
        let report = encode::Report {
            severity: notice.severity,
            sqlstate: notice.sqlstate,
            message: &notice.message,
            detail: notice.detail.as_deref(),
            hint: notice.hint.as_deref(),
            position: None,
            context: None,
            subject: None,
            routine: None,
        };
        encode::notice_response(&mut self.buffer, &report);
    }

    /// Reports an error that ends a statement; hands back one that ends the connection.
    fn fail(&mut self, session: &mut Seat, error: WireError) -> Result<(), WireError> {
        if error.is_fatal() {
            return Err(error);
        }
        // The session does not know of errors that were met here: in a message, in COPY data, in rows being pulled.
        if let Some(session) = session.here() {
            session.fail_transaction();
            session.failed(error.sqlstate(), &error);
        }
        self.notices(session);
        encode::error_response(&mut self.buffer, Severity::Error, &error);
        // A client that sent Flush and no Sync must hear of the error too, although its Flush is skipped.
        self.is_due = true;
        Ok(())
    }

    fn shrink(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = Vec::with_capacity(IDLE_OUTPUT_BYTES);
            self.rows.shrink();
        }
    }
}
