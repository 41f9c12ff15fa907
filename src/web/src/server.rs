//! The ports of the door and their routes; connections are [`door::http`]'s.

use crate::api::Routes;
use crate::copy;
use crate::cube::asked::{CUBE_AUTHORIZATION, REQUEST_ID};
use crate::cube::{self, CubeConfig};
use crate::events::LAST_EVENT_ID;
use crate::once::{IDEMPOTENCY_KEY, REPLAYED};
use crate::request::drain;
use crate::shared::{Shared, Visitor};
use crate::single::COMMAND_TAG;
use crate::sql;
use crate::told::Refusal;
use crate::webhook;
use crate::websocket;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use door::crowd::Crowd;
use door::entrance::{Entrance, Port};
use door::http::{Door, HTTP1, HTTP2, Ported};
use door::server::{Server, listen};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use repr::sqlstate::SqlState;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// WebSockets that nobody has introduced themselves on and that may have sent something: each has a message in memory.
const INTRODUCTIONS_MAX: usize = 2048;
/// WebSockets that stay although they were not let in.
const STRANGERS_MAX: usize = 256;
/// For how long a browser knows what it was told of a page of another origin.
const PREFLIGHT_AGE: Duration = Duration::from_secs(3600);

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
    /// How Cube's API is served.
    pub cube: CubeConfig,
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
    let Config { request_bytes_max, origins, requests_per_address, subscribe_history, cube, .. } = config;
    // Who has no friends tells browsers of none.
    let cross_origin = if origins.is_empty() { None } else { Some(cross_origin(&origins)?) };
    let (introductions, strangers) = (Semaphore::new(INTRODUCTIONS_MAX), Semaphore::new(STRANGERS_MAX));
    let (entrance, crowd) = (Arc::default(), Arc::new(Crowd::new(requests_per_address)));
    let followed = Arc::new(Semaphore::new(cube.followed_max));
    let shared =
        Shared { entrance, request_bytes_max, origins, cube, followed, subscribe_history, introductions, strangers };
    let shared = Arc::new(shared);
    for (name, listener, port, others) in [
        ("accept_http", external, Port::External, others.external),
        ("accept_internal_http", internal, Port::Internal, others.internal),
    ] {
        let web = Web::new(&shared, others, cross_origin.as_ref());
        Ported::new(web, port, server, &shared.entrance, &crowd).accept(name, listener);
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
        .allow_headers([
            header::ACCEPT,
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            LAST_EVENT_ID,
            IDEMPOTENCY_KEY,
            CUBE_AUTHORIZATION,
            REQUEST_ID,
        ])
        .expose_headers([COMMAND_TAG, REPLAYED])
        .max_age(PREFLIGHT_AGE))
}

/// What is answered however crowded it is.
const HEALTH: [&str; 4] = ["/api/livez", "/api/readyz", "/livez", "/readyz"];

/// What is told to an address of which too many requests are under way.
fn too_many() -> Refusal {
    let message = "too many requests from this address are under way";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, SqlState::TOO_MANY_CONNECTIONS, message)
}

/// What is answered at a port.
#[derive(Clone)]
pub(crate) struct Web {
    shared: Arc<Shared>,
    router: Router,
    /// The same for who takes compressed bodies: it costs a tenth of a short answer's time to find out that somebody does not.
    compressing: Router,
}

impl Web {
    /// Our routes and others.
    pub(crate) fn new(shared: &Arc<Shared>, others: Routes, cross_origin: Option<&CorsLayer>) -> Web {
        let ours = Routes::default()
            .post("/api/sql", sql::sql, sql::told())
            .get("/api/subscribe", sql::subscribe, sql::subscribe_told())
            .post("/api/copy", copy::copy, copy::told())
            .post("/api/webhook/{database}/{schema}/{name}", webhook::webhook, webhook::told())
            .get("/api/experimental/sql", websocket::websocket, websocket::told());
        let mut router = ours.merge(cube::routes()).merge(others).into_router();
        if let Some(cross_origin) = cross_origin {
            router = router.layer(cross_origin.clone());
        }
        // A stream is compressed where others wait.
        let compressing = router.clone().layer(CompressionLayer::new().quality(CompressionLevel::Fastest));
        Web { shared: Arc::clone(shared), router, compressing }
    }
}

impl Door for Web {
    type Own = Arc<Shared>;
    type Body = Body;
    const PROTOCOLS: &'static [&'static [u8]] = &[HTTP2, HTTP1];

    fn own(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn answer(
        &self,
        visitor: &Arc<Visitor>,
        mut request: hyper::Request<Incoming>,
        has_turn: bool,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        request.extensions_mut().insert(Arc::clone(visitor));
        let answering = if has_turn || HEALTH.contains(&request.uri().path()) {
            let compresses = request.headers().contains_key(header::ACCEPT_ENCODING);
            let router = if compresses { &self.compressing } else { &self.router };
            Ok(TowerToHyperService::new(router.clone()).call(request))
        } else {
            Err(request.into_body())
        };
        async move {
            match answering {
                Ok(answering) => answering.await,
                Err(body) => {
                    drain(Body::new(body)).await;
                    Ok(too_many().into_response())
                }
            }
        }
    }

    fn left(&self, _own: &Arc<Shared>) {}
}
