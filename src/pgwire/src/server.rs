//! The Postgres door: its addresses, and what its connections share.
//!
//! Threads, listeners and the order of a stop are the crate `door`'s ([`door::server`]): a connection that is in its handshake or in a
//! session then is told FATAL 57P01.

use crate::connection;
use crate::metrics::{Metrics, Source};
use crate::shared::{PROTOCOL, Shared};
use adapter::client::Client;
use door::entrance::{Entrance, Port};
use door::server::{Server, Threads, listen};
use door::tls::TlsFiles;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
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
    /// The number of I/O threads; one per core if zero.
    pub io_threads: usize,
    /// The certificate; without one, nobody is offered TLS.
    pub tls: Option<TlsFiles>,
    /// The host-based rules, in the syntax of `pg_hba.conf`; without them, this machine is trusted and nobody else is let in.
    pub hba_file: Option<PathBuf>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            sql_addr: SocketAddr::from(([127, 0, 0, 1], 6875)),
            internal_addr: SocketAddr::from(([127, 0, 0, 1], 6877)),
            handshake_timeout: Duration::from_secs(60),
            request_bytes_max: 256 << 20,
            io_threads: 0,
            tls: None,
            hba_file: None,
        }
    }
}

/// A running server. Dropping it stops it without waiting.
pub struct ServerHandle {
    sql_addr: SocketAddr,
    internal_addr: SocketAddr,
    server: Server,
    shared: Arc<Shared>,
    threads: Threads,
}

impl ServerHandle {
    /// Where clients connect, with the port that was chosen if the configured one was 0.
    pub fn sql_addr(&self) -> SocketAddr {
        self.sql_addr
    }

    /// Where system users connect.
    pub fn internal_addr(&self) -> SocketAddr {
        self.internal_addr
    }

    /// Reads the rules and the certificate again, for connections to come. Errors: what cannot be used is left as it was.
    pub fn reload(&self) -> io::Result<()> {
        self.shared.entrance.reload()
    }

    /// Stops accepting, tells every session goodbye, and returns when all connections are closed or their time is up.
    pub async fn shutdown(self) {
        self.server.shutdown(|| self.shared.entrance.client().shutdown()).await;
        self.threads.end();
    }
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

/// Opens the listeners and starts serving sessions of `client`. Fails if an address cannot be listened on, or
/// certificate or rules cannot be used.
pub fn serve(config: &ServerConfig, client: Client, metrics: Metrics) -> io::Result<ServerHandle> {
    let entrance = Entrance::open(client, config.tls.clone(), PROTOCOL, config.hba_file.clone())?;
    let (sql, internal) = (listen(config.sql_addr)?, listen(config.internal_addr)?);
    let (sql_addr, internal_addr) = (sql.local_addr()?, internal.local_addr()?);
    let (server, threads) = Server::start(config.io_threads)?;
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
    Ok(ServerHandle { sql_addr, internal_addr, server, shared, threads })
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
