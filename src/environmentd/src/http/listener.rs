//! Connections of a HTTP port, within bounds: strangers may open any number of them, and send little or nothing.
//!
//! A connection that is one too many is closed at once, so that whoever asks for the server's health learns that it has no answer; one
//! whose next request does not come in time is closed, whether it is half a request or none. Bodies are not read.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections that a port has at the most.
const CONNECTIONS_MAX: usize = 256;
/// How long the head of a request may take, from when the connection was made or the request before was answered.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// The largest head.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long a connection lasts, longer than the longest answer: a client that does not read goes then.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(900);
/// How long accepting rests when the process is out of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Serves a port. Never returns.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a HTTP connection");
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = async move {
            let _place = place;
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX);
            let served = http.serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(CONNECTION_TIME_MAX, served).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a HTTP connection ended"),
                Err(_) => tracing::debug!("a HTTP connection lasted too long"),
            }
        };
        ore::task::spawn("http_connection", connection).detach();
    }
}
