//! HTTP's part of a door: its ports, and a connection from its first byte to its last. What is asked for and answered is the door's
//! ([`Door`]).
//!
//! Connections live on the I/O threads of all doors ([`crate::server`]). One that begins with a TLS handshake gets one, if there is a
//! certificate, and agrees there on the protocol.
//!
//! Strangers may open any number of connections and send little or nothing: one that is one too many is closed at once, and one whose next
//! request does not come in time is closed, whether it is half a request or none.

use crate::crowd::Crowd;
use crate::entrance::{Arrival, Entrance, Port};
use crate::server::Server;
use crate::visitor::{GOODBYE, Present, Visitor};
use hyper::body::Incoming;
use hyper::rt::{Executor, Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::server::TlsStream;

/// How HTTP/2 and HTTP/1.1 are called in ALPN.
pub const HTTP2: &[u8] = b"h2";
/// See [`HTTP2`].
pub const HTTP1: &[u8] = b"http/1.1";
/// The first byte of a TLS handshake, which no request begins with.
const TLS_HANDSHAKE: u8 = 22;
/// Connections that a port has at the most.
const CONNECTIONS_MAX: usize = 16_384;
/// How long the head of a request may take, from when the connection was made or the request before was answered; and a handshake.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Who holds a visitor of HTTP/2 between two requests: the connection, and what is called for each request.
const HOLDERS: usize = 2;
/// The largest head.
const HEAD_BYTES_MAX: u32 = 32 << 10;
/// Requests of a connection beside each other.
const STREAMS_MAX: u32 = 100;
/// Bytes of a request's body, and of all those of a connection, that a client of HTTP/2 may send before they are read.
const WINDOW_BYTES: u32 = 1 << 20;
/// How often a silent client of HTTP/2 is asked whether it is there, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_PATIENCE: Duration = Duration::from_secs(20);

/// What a door answers.
pub trait Door: Clone + Send + Sync + 'static {
    /// What it keeps of a connection.
    type Own: Send + Sync + 'static;
    /// What follows the head of an answer.
    type Body: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static;
    /// The protocols that are spoken, by their names in ALPN, the better one first; where nobody asks it is the last.
    const PROTOCOLS: &'static [&'static [u8]];

    /// Somebody has come in.
    fn own(&self) -> Self::Own;

    /// Answers a request, which `has_turn` unless too many of its address are under way.
    fn answer(
        &self,
        visitor: &Arc<Visitor<Self::Own>>,
        request: Request<Incoming>,
        has_turn: bool,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>> + Send + use<Self>;

    /// The connection has ended; answers that go on hold the visitor still.
    fn left(&self, own: &Self::Own);
}

/// A port of a door.
#[derive(Clone)]
pub struct Ported<D> {
    door: D,
    /// Whose port it is.
    port: Port,
    server: Server,
    /// Known when SQL is served.
    entrance: Arc<OnceLock<Arc<Entrance>>>,
    crowd: Arc<Crowd>,
    places: Arc<Semaphore>,
}

/// A connection whose first byte has come.
enum Met {
    Plain(TcpStream, Arrival),
    Encrypted(Box<TlsStream<TcpStream>>, Arrival),
}

impl<D: Door> Ported<D> {
    /// Whether HTTP/2 is spoken where nobody asks: without TLS, or without ALPN.
    const HTTP2_UNASKED: bool = matches!(D::PROTOCOLS, [.., [b'h', b'2']]);

    /// A port that nobody has come to.
    pub fn new(
        door: D,
        port: Port,
        server: &Server,
        entrance: &Arc<OnceLock<Arc<Entrance>>>,
        crowd: &Arc<Crowd>,
    ) -> Ported<D> {
        let (entrance, crowd) = (Arc::clone(entrance), Arc::clone(crowd));
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Ported { door, port, server: server.clone(), entrance, crowd, places }
    }

    /// Serves who comes to a listener, until the server stops.
    pub fn accept(self, name: &'static str, listener: std::net::TcpListener) {
        let server = self.server.clone();
        server.accept(name, listener, move |stream| self.clone().connection(stream));
    }

    async fn connection(self, stream: TcpStream) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        let present = Present { _place: place, _token: self.server.presence() };
        let arrival = Arrival::new(&stream, self.port);
        // Each has room of its own, which is free again when it is over.
        let met = match self.entrance.get().filter(|entrance| entrance.tls().is_some()) {
            Some(entrance) => Box::pin(Self::meet(entrance, stream, arrival)).await,
            None => Some(Met::Plain(stream, arrival)),
        };
        match met {
            Some(Met::Plain(stream, arrival)) => {
                Box::pin(self.converse(stream, arrival, present, Self::HTTP2_UNASKED)).await;
            }
            Some(Met::Encrypted(stream, arrival)) => {
                let is_http2 = crate::tls::names(&stream, HTTP2) || Self::HTTP2_UNASKED;
                Box::pin(self.converse(stream, arrival, present, is_http2)).await;
            }
            None => {}
        }
    }

    /// Has a handshake with whoever begins with one.
    async fn meet(entrance: &Entrance, stream: TcpStream, arrival: Arrival) -> Option<Met> {
        let mut first = [0];
        match tokio::time::timeout(HEAD_PATIENCE, stream.peek(&mut first)).await {
            Ok(Ok(1)) if first[0] == TLS_HANDSHAKE => {}
            Ok(Ok(1)) => return Some(Met::Plain(stream, arrival)),
            _ => return None,
        }
        match tokio::time::timeout(HEAD_PATIENCE, entrance.tls()?.accept(stream, D::PROTOCOLS)).await {
            Ok(Ok((stream, identity))) => {
                let arrival = arrival.encrypted(&stream, &identity);
                return Some(Met::Encrypted(Box::new(stream), arrival));
            }
            Ok(Err(error)) => tracing::debug!(%error, peer = ?arrival.peer, "a TLS handshake failed"),
            Err(_) => tracing::debug!(peer = ?arrival.peer, "a TLS handshake took too long"),
        }
        None
    }

    /// Serves the requests of somebody who has come by no socket.
    pub(crate) async fn converse_with(&self, stream: tokio::io::DuplexStream) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        let present = Present { _place: place, _token: self.server.presence() };
        self.converse(stream, Arrival::nowhere(self.port), present, Self::HTTP2_UNASKED).await;
    }

    /// Serves a connection's requests.
    async fn converse<S>(&self, stream: S, arrival: Arrival, present: Present, is_http2: bool)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let visitor = Arc::new(Visitor::new(self.door.own(), &self.crowd, arrival, present));
        let (door, of) = (self.door.clone(), Arc::clone(&visitor));
        let service = service_fn(move |request: Request<Incoming>| {
            let turn = of.turn();
            // Of HTTP/1.1 hyper knows whether something is being answered.
            let noted = is_http2.then(|| of.noted());
            let answering = door.answer(&of, request, turn.is_some());
            async move {
                let _under_way = (noted, turn);
                answering.await
            }
        });
        {
            let served = pin!(async {
                match is_http2 {
                    true => Box::pin(self.http2(TokioIo::new(stream), service, &visitor)).await,
                    false => self.http1(TokioIo::new(stream), service).await,
                }
            });
            tokio::select! {
                biased;
                served = served => if let Err(error) = served {
                    tracing::debug!(%error, peer = ?visitor.arrival.peer, "a HTTP connection ended");
                },
                () = visitor.abandoned() => {
                    tracing::debug!(peer = ?visitor.arrival.peer, "a HTTP connection was not read to its end");
                }
            }
        }
        self.door.left(&visitor.own);
        visitor.leave().await;
    }

    async fn http1<S, I>(&self, stream: I, service: S) -> hyper::Result<()>
    where
        S: hyper::service::HttpService<Incoming, ResBody = D::Body>,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        I: Read + Write + Unpin + Send + 'static,
    {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX as usize);
        // Boxed, because a future has room for what it moves at each place where that has been.
        let mut served = Box::pin(http.serve_connection(stream, service).with_upgrades());
        self.until_stopped(served.as_mut(), |served| served.graceful_shutdown()).await
    }

    async fn http2<S, I>(&self, stream: I, service: S, visitor: &Arc<Visitor<D::Own>>) -> hyper::Result<()>
    where
        S: hyper::service::HttpService<Incoming, ResBody = D::Body>,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        I: Read + Write + Unpin + Send + 'static,
    {
        let mut http = http2::Builder::new(Streams);
        http.timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_PATIENCE)
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX);
        let mut served = pin!(http.serve_connection(stream, service));
        tokio::select! {
            biased;
            served = self.until_stopped(served.as_mut(), |served| served.graceful_shutdown()) => return served,
            () = visitor.rested(HEAD_PATIENCE, HOLDERS) => served.as_mut().graceful_shutdown(),
        }
        // Who has not even begun gets no longer.
        tokio::time::timeout(GOODBYE, served).await.unwrap_or(Ok(()))
    }

    /// Serves a connection to its end; once the server stops, `finish` has it answer what it was asked for and no more.
    async fn until_stopped<C: Future>(&self, mut served: Pin<&mut C>, finish: impl FnOnce(Pin<&mut C>)) -> C::Output {
        tokio::select! {
            biased;
            served = served.as_mut() => return served,
            () = self.server.stop().cancelled() => finish(served.as_mut()),
        }
        served.await
    }
}

/// Runs the streams of HTTP/2 where their connection lives.
#[derive(Clone, Copy)]
struct Streams;

impl<F: Future<Output: Send + 'static> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        ore::task::spawn("http2_stream", stream).detach();
    }
}
