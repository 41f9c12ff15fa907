//! The port, and what is found out of a call before it is read: who calls.

use crate::accounted::Accounted;
use crate::service::Flights;
use crate::told::refused;
use crate::welcome::{self, Own, Shared};
use arrow_flight::flight_service_server::FlightServiceServer;
use axum::body::Body;
use door::crowd::Crowd;
use door::entrance::{Entrance, Port};
use door::http::{Door, HTTP2, Ported};
use door::server::{Server, listen};
use door::visitor::Visitor;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use repr::sqlstate::SqlState;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tonic::service::Routes;

/// How Flight is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub addr: SocketAddr,
    /// The largest message that is taken from a client.
    pub request_bytes_max: usize,
    /// Calls of one address that may be under way; any number if 0.
    pub requests_per_address: usize,
}

/// Opens the listener and serves whoever comes in by `entrance`, until `server` stops. Returns the address, with the port that was chosen if
/// the configured one was 0. Fails if it cannot be listened on.
pub fn serve(config: &Config, server: &Server, entrance: Arc<Entrance>) -> io::Result<SocketAddr> {
    let listener = listen(config.addr)?;
    let addr = listener.local_addr()?;
    let door = Flight {
        shared: Arc::new(Shared::new(Arc::clone(&entrance), config.request_bytes_max)),
        router: router(config.request_bytes_max),
    };
    let entrance = Arc::new(OnceLock::from(entrance));
    let crowd = Arc::new(Crowd::new(config.requests_per_address));
    Ported::new(door, Port::External, server, &entrance, &crowd).accept("accept_flight", listener);
    Ok(addr)
}

/// The calls, whose messages have at most so many bytes.
pub(crate) fn router(bytes_max: usize) -> axum::Router {
    let flights = FlightServiceServer::new(Flights).max_decoding_message_size(bytes_max);
    Routes::new(flights.max_encoding_message_size(usize::MAX)).prepare().into_axum_router()
}

/// See the module.
#[derive(Clone)]
struct Flight {
    shared: Arc<Shared>,
    router: axum::Router,
}

impl Door for Flight {
    type Own = Own;
    type Body = Body;
    const PROTOCOLS: &'static [&'static [u8]] = &[HTTP2];

    fn own(&self) -> Own {
        Own { shared: Arc::clone(&self.shared), transactions: Arc::default(), bound: Default::default() }
    }

    fn answer(
        &self,
        visitor: &Arc<Visitor<Own>>,
        mut request: hyper::Request<Incoming>,
        has_turn: bool,
    ) -> impl Future<Output = Result<axum::response::Response, Infallible>> + Send + use<> {
        let (visitor, router) = (Arc::clone(visitor), self.router.clone());
        async move {
            if !has_turn {
                let message = "too many calls from this address are under way";
                return Ok(refused(SqlState::TOO_MANY_CONNECTIONS, message).into_http());
            }
            // Before anything of its body is read.
            match welcome::caller(visitor, request.headers()).await {
                Ok(caller) => {
                    let shared = caller.shared();
                    let memory = Arc::clone(shared.entrance.client().message_memory());
                    let bytes_max = shared.request_bytes_max;
                    request.extensions_mut().insert(caller);
                    let request = request.map(|body| Body::new(Accounted::new(body, &memory, bytes_max)));
                    TowerToHyperService::new(router).call(request).await
                }
                Err(status) => Ok(status.into_http()),
            }
        }
    }

    fn left(&self, own: &Own) {
        own.transactions.end_all();
    }
}
