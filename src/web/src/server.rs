//! The ports, and a connection from its first byte to its last.
//!
//! Connections live on the I/O threads of all doors ([`door::server`]). One that begins with a TLS handshake gets one, if there is a
//! certificate, and agrees there on HTTP/2 or HTTP/1.1.
//!
//! Strangers may open any number of connections and send little or nothing: one that is one too many is closed at once, and one whose next
//! request does not come in time is closed, whether it is half a request or none.

use crate::api::Routes;
use crate::copy;
use crate::crowd::Crowd;
use crate::events::LAST_EVENT_ID;
use crate::once::{IDEMPOTENCY_KEY, REPLAYED};
use crate::request::drain;
use crate::shared::Shared;
use crate::single::COMMAND_TAG;
use crate::sql;
use crate::told::Refusal;
use crate::visitor::{GOODBYE, Present, Visitor};
use crate::webhook;
use crate::websocket;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::IntoResponse;
use door::entrance::{Arrival, Entrance, Port};
use door::server::{Server, listen};
use hyper::body::Incoming;
use hyper::rt::{Executor, Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use repr::sqlstate::SqlState;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// How HTTP/2 and HTTP/1.1 are called in ALPN, the better one first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";
/// The first byte of a TLS handshake, which no request begins with.
const TLS_HANDSHAKE: u8 = 22;
/// Connections that a port has at the most.
const CONNECTIONS_MAX: usize = 16_384;
/// How long the head of a request may take, from when the connection was made or the request before was answered; and a handshake.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// WebSockets that nobody has introduced themselves on and that may have sent something: each has a message in memory.
const INTRODUCTIONS_MAX: usize = 2048;
/// Who holds a visitor of HTTP/2 between two requests: the connection, and what is called for each request.
const HOLDERS: usize = 2;
/// The largest head.
const HEAD_BYTES_MAX: u32 = 32 << 10;
/// Requests of a connection beside each other.
const STREAMS_MAX: u32 = 100;
/// For how long a browser knows what it was told of a page of another origin.
const PREFLIGHT_AGE: Duration = Duration::from_secs(3600);
/// How often a silent client of HTTP/2 is asked whether it is there, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_PATIENCE: Duration = Duration::from_secs(20);

/// How HTTP is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where users come.
    pub addr: SocketAddr,
    /// Where operators come.
    pub internal_addr: SocketAddr,
    /// The largest body that is read into memory.
    pub request_bytes_max: usize,
    /// Pages of these origins (`https://example.com`) may send requests.
    pub origins: Vec<String>,
    /// Requests of one address that may be under way; any number if 0.
    pub requests_per_address: usize,
    /// How long what was told in events is kept for who comes back, if a request does not say.
    pub subscribe_history: Duration,
}

/// What else is served, by port.
pub struct Others {
    /// For everybody.
    pub external: Routes,
    /// For operators.
    pub internal: Routes,
}

/// The door, which opens when SQL is served.
pub struct Handle {
    addr: SocketAddr,
    internal_addr: SocketAddr,
    shared: Arc<Shared>,
}

impl Handle {
    /// Where users come, with the port that was chosen if the configured one was 0.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where operators come.
    pub fn internal_addr(&self) -> SocketAddr {
        self.internal_addr
    }

    /// From now on there is SQL for whoever comes in by `entrance`.
    pub fn open(&self, entrance: Arc<Entrance>) {
        // There is one server.
        let _first = self.shared.entrance.set(entrance);
    }
}

/// Opens the listeners and serves until `server` stops; SQL from [`Handle::open`] on. Fails if an address cannot be listened on.
pub fn serve(config: Config, server: &Server, others: Others) -> io::Result<Handle> {
    let (external, internal) = (listen(config.addr)?, listen(config.internal_addr)?);
    let (addr, internal_addr) = (external.local_addr()?, internal.local_addr()?);
    let Config { request_bytes_max, origins, requests_per_address, subscribe_history, .. } = config;
    // Who has no friends tells browsers of none.
    let cross_origin = if origins.is_empty() { None } else { Some(cross_origin(&origins)?) };
    let introductions = Semaphore::new(INTRODUCTIONS_MAX);
    let (entrance, crowd) = (OnceLock::new(), Crowd::new(requests_per_address));
    let shared = Arc::new(Shared { entrance, request_bytes_max, origins, subscribe_history, crowd, introductions });
    let ours = |others: Routes| {
        let ours = Routes::default()
            .post("/api/sql", sql::sql, sql::told())
            .get("/api/subscribe", sql::subscribe, sql::subscribe_told())
            .post("/api/copy", copy::copy, copy::told())
            .post("/api/webhook/{database}/{schema}/{name}", webhook::webhook, webhook::told())
            .get("/api/experimental/sql", websocket::websocket, websocket::told());
        let router = ours.merge(others).into_router();
        match &cross_origin {
            Some(cross_origin) => router.layer(cross_origin.clone()),
            None => router,
        }
    };
    for (name, listener, port, router) in [
        ("accept_http", external, Port::External, ours(others.external)),
        ("accept_internal_http", internal, Port::Internal, ours(others.internal)),
    ] {
        let visited = Visited {
            server: server.clone(),
            shared: Arc::clone(&shared),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            // A stream is compressed where others wait.
            compressing: router.clone().layer(CompressionLayer::new().quality(CompressionLevel::Fastest)),
            router,
            port,
        };
        server.accept(name, listener, move |stream| visited.clone().connection(stream));
    }
    Ok(Handle { addr, internal_addr, shared })
}

/// What browsers are told when a page of another origin asks whether it may send a request. Fails on an origin that is no header's value.
fn cross_origin(origins: &[String]) -> io::Result<CorsLayer> {
    let values = origins.iter().map(|origin| HeaderValue::from_str(origin));
    let values = values.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    Ok(CorsLayer::new()
        .allow_origin(AllowOrigin::list(values))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::ACCEPT, header::AUTHORIZATION, header::CONTENT_TYPE, LAST_EVENT_ID, IDEMPOTENCY_KEY])
        .expose_headers([COMMAND_TAG, REPLAYED])
        .max_age(PREFLIGHT_AGE))
}

/// What is answered however crowded it is.
const HEALTH: [&str; 2] = ["/api/livez", "/api/readyz"];

/// What is told to an address of which too many requests are under way.
fn too_many() -> Refusal {
    let message = "too many requests from this address are under way";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, SqlState::TOO_MANY_CONNECTIONS, message)
}

/// A port.
#[derive(Clone)]
struct Visited {
    server: Server,
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    router: Router,
    /// The same for who takes compressed bodies: it costs a tenth of a short answer's time to find out that somebody does not.
    compressing: Router,
    port: Port,
}

impl Visited {
    async fn connection(self, stream: TcpStream) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        let present = Present { _place: place, _token: self.server.presence() };
        let arrival = Arrival::new(&stream, self.port);
        let tls = self.shared.entrance.get().and_then(|entrance| entrance.tls().map(|_| Arc::clone(entrance)));
        let Some(entrance) = tls else { return self.converse(stream, arrival, present, false).await };
        // Boxed, so that plain connections have no room for it.
        let served = Box::pin(async {
            let mut first = [0];
            match tokio::time::timeout(HEAD_PATIENCE, stream.peek(&mut first)).await {
                Ok(Ok(1)) if first[0] == TLS_HANDSHAKE => {}
                Ok(Ok(1)) => return self.converse(stream, arrival, present, false).await,
                _ => return,
            }
            let Some(tls) = entrance.tls() else { return };
            match tokio::time::timeout(HEAD_PATIENCE, tls.accept(stream, &PROTOCOLS)).await {
                Ok(Ok((stream, identity))) => {
                    let is_http2 = door::tls::names(&stream, HTTP2);
                    let arrival = arrival.encrypted(&stream, &identity);
                    self.converse(stream, arrival, present, is_http2).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, peer = ?arrival.peer, "a TLS handshake failed"),
                Err(_) => tracing::debug!(peer = ?arrival.peer, "a TLS handshake took too long"),
            }
        });
        served.await;
    }

    /// Serves a connection's requests.
    async fn converse<S>(&self, stream: S, arrival: Arrival, present: Present, is_http2: bool)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let visitor = Arc::new(Visitor::new(Arc::clone(&self.shared), arrival, present));
        let (router, compressing, of) = (self.router.clone(), self.compressing.clone(), Arc::clone(&visitor));
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(Arc::clone(&of));
            let turn = of.turn();
            // Of HTTP/1.1 hyper knows whether something is being answered.
            let noted = is_http2.then(|| of.noted());
            let answering = if turn.is_some() || HEALTH.contains(&request.uri().path()) {
                let compresses = request.headers().contains_key(header::ACCEPT_ENCODING);
                let router = if compresses { &compressing } else { &router };
                Ok(TowerToHyperService::new(router.clone()).call(request))
            } else {
                Err(request.into_body())
            };
            async move {
                let _under_way = (noted, turn);
                match answering {
                    Ok(answering) => answering.await,
                    Err(body) => {
                        drain(Body::new(body)).await;
                        Ok(too_many().into_response())
                    }
                }
            }
        });
        let served = async {
            match is_http2 {
                true => Box::pin(self.http2(TokioIo::new(stream), service, &visitor)).await,
                false => self.http1(TokioIo::new(stream), service).await,
            }
        };
        tokio::select! {
            biased;
            served = served => if let Err(error) = served {
                tracing::debug!(%error, peer = ?visitor.arrival.peer, "a HTTP connection ended");
            },
            () = visitor.abandoned() => {
                tracing::debug!(peer = ?visitor.arrival.peer, "a HTTP connection was not read to its end");
            }
        }
        visitor.leave().await;
    }

    async fn http1<S, I>(&self, stream: I, service: S) -> hyper::Result<()>
    where
        S: hyper::service::HttpService<Incoming, ResBody = Body>,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        I: Read + Write + Unpin + Send + 'static,
    {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX as usize);
        let served = pin!(http.serve_connection(stream, service).with_upgrades());
        self.until_stopped(served, |served| served.graceful_shutdown()).await
    }

    async fn http2<S, I>(&self, stream: I, service: S, visitor: &Arc<Visitor>) -> hyper::Result<()>
    where
        S: hyper::service::HttpService<Incoming, ResBody = Body>,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        I: Read + Write + Unpin + Send + 'static,
    {
        let mut http = http2::Builder::new(Streams);
        http.timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_PATIENCE)
            .max_concurrent_streams(STREAMS_MAX)
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
