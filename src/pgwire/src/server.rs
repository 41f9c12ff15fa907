//! The Postgres door: its addresses, and what its connections share.
//!
//! Threads, listeners and the order of a stop are the crate `door`'s ([`door::server`]): a connection that is in its handshake or in a
//! session when the server stops is told FATAL 57P01.

use crate::connection;
use crate::metrics::{Metrics, Source};
use crate::shared::Shared;
use door::entrance::{Entrance, Port};
use door::server::{Server, listen};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// How the wire is served.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where clients connect.
    pub sql_addr: SocketAddr,
    /// Where system users connect.
    pub internal_addr: SocketAddr,
    /// How long a peer may take from connecting to having a session.
    pub handshake_timeout: Duration,
    /// The largest message that is taken from a client, COPY data included.
    pub request_bytes_max: usize,
}

/// The addresses that are served, with the ports that were chosen where the configured ones were 0.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Where clients connect.
    pub sql: SocketAddr,
    /// Where system users connect.
    pub internal: SocketAddr,
}

/// Counts one open connection for as long as it lives.
#[derive(Debug)]
struct Running {
    metrics: Metrics,
    source: Source,
}

impl Running {
    fn new(metrics: Metrics, source: Source) -> Running {
        metrics.source(source).open.add(1);
        Running { metrics, source }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.metrics.source(self.source).open.add(-1);
    }
}

/// Opens the listeners and serves whoever comes in by `entrance`, until `server` stops. Fails if an address cannot be listened on.
pub fn serve(
    config: &ServerConfig,
    server: &Server,
    entrance: Arc<Entrance>,
    metrics: Metrics,
) -> io::Result<Addresses> {
    let (sql, internal) = (listen(config.sql_addr)?, listen(config.internal_addr)?);
    let addresses = Addresses { sql: sql.local_addr()?, internal: internal.local_addr()? };
    let shared = Arc::new(Shared {
        entrance,
        metrics,
        handshake_timeout: config.handshake_timeout,
        request_bytes_max: config.request_bytes_max,
        stop: server.stop().clone(),
    });
    for (name, listener, source) in
        [("accept_sql", sql, Source::External), ("accept_internal", internal, Source::Internal)]
    {
        let shared = Arc::clone(&shared);
        server.accept(name, listener, move |stream| serve_one(stream, source, Arc::clone(&shared)));
    }
    Ok(addresses)
}

/// One connection, from its first byte to its end.
async fn serve_one(stream: TcpStream, source: Source, shared: Arc<Shared>) {
    let _running = Running::new(shared.metrics.clone(), source);
    let port = match source {
        Source::External => Port::External,
        Source::Internal => Port::Internal,
    };
    let good = connection::run(stream, &shared, port).await;
    let counters = shared.metrics.source(source);
    if good { counters.success.inc() } else { counters.error.inc() }
}
