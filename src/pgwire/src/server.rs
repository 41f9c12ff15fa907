//! The listeners, and the threads that connections live on.
//!
//! There are N I/O threads with one single-threaded runtime each, one per core: a connection is dealt to one of them,
//! round robin, and never leaves it, so that its wake-ups and buffers stay on one core and nothing is stolen or locked. Where
//! there are as many of them as cores, each stays on its own.
//! Accepting happens on the first of them and costs little; a new socket is handed over unregistered.
//!
//! A stop goes in this order: the listeners close; connections in their handshake or in a session are told FATAL 57P01
//! and closed; when all are gone, or after [`STOP_GRACE`], the threads end.

use crate::connection;
use crate::hba::Rules;
use crate::metrics::{Metrics, Source};
use crate::tls::{Tls, TlsFiles};
use adapter::client::Client;
use arc_swap::ArcSwap;
use ore::task::{spawn_critical, spawn_on};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections that the kernel may hold for us while we are busy; a pool of a thousand connects at once.
const ACCEPT_BACKLOG: i32 = 4096;
/// When a silent peer is asked whether it is still there, and how often then.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Connections of one I/O thread from which on replies wait for each other. Measured on two cores: with 4 connections a
/// thread, waiting costs a tenth of the throughput; with 16 it makes no difference; with 32 and more it gains a fifteenth.
const CROWD: usize = 24;
/// How long connections get to leave when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long accepting rests when the process is out of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);

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
    shared: Arc<Shared>,
    /// Ends the threads; cancelled by the drop guard at the latest.
    threads: tokio_util::sync::DropGuard,
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
        let rules = read_rules(self.shared.hba_file.as_deref()).map(|rules| self.shared.rules.store(Arc::new(rules)));
        rules.and(self.shared.tls.as_ref().map_or(Ok(()), Tls::reload))
    }

    /// Stops accepting, tells every session goodbye, and returns when all connections are closed or their time is up.
    pub async fn shutdown(self) {
        let Shared { client, stop, connections, .. } = self.shared.as_ref();
        stop.cancel();
        client.shutdown();
        connections.close();
        if tokio::time::timeout(STOP_GRACE, connections.wait()).await.is_err() {
            tracing::warn!(connection_count = connections.len(), "connections did not close in time");
        }
        self.threads.disarm().cancel();
    }
}

thread_local! {
    /// The connections of this I/O thread.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// Whether this I/O thread has so many connections that replies are better sent together, after all that is there to be
/// read was handled: a client that serves many of its own then finds several, instead of being woken for each.
pub(crate) fn is_crowded() -> bool {
    HERE.get() >= CROWD
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
        HERE.set(HERE.get() + 1);
        Running { metrics, source }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.metrics.source(self.source).open.add(-1);
        HERE.set(HERE.get() - 1);
    }
}

/// What every connection shares.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) tls: Option<Tls>,
    pub(crate) rules: ArcSwap<Rules>,
    hba_file: Option<PathBuf>,
    pub(crate) handshake_timeout: Duration,
    pub(crate) request_bytes_max: usize,
    /// Fires when the server stops.
    pub(crate) stop: CancellationToken,
    connections: TaskTracker,
    runtimes: Vec<Handle>,
}

/// Opens the listeners and starts serving sessions of `client`. Fails if an address cannot be listened on, or
/// certificate or rules cannot be used.
pub fn serve(config: &ServerConfig, client: Client, metrics: Metrics) -> io::Result<ServerHandle> {
    let tls = config.tls.clone().map(Tls::open).transpose()?;
    let rules = ArcSwap::from_pointee(read_rules(config.hba_file.as_deref())?);
    let sql = listen(config.sql_addr)?;
    let internal = listen(config.internal_addr)?;
    let (sql_addr, internal_addr) = (sql.local_addr()?, internal.local_addr()?);
    let threads = CancellationToken::new();
    let runtimes = start_threads(config.io_threads, &threads)?;
    let shared = Arc::new(Shared {
        client,
        metrics,
        tls,
        rules,
        hba_file: config.hba_file.clone(),
        handshake_timeout: config.handshake_timeout,
        request_bytes_max: config.request_bytes_max,
        stop: CancellationToken::new(),
        connections: TaskTracker::new(),
        runtimes,
    });
    let first = &shared.runtimes[0];
    spawn_critical(first, "accept_sql", accept(sql, Source::External, Arc::clone(&shared))).detach();
    spawn_critical(first, "accept_internal", accept(internal, Source::Internal, Arc::clone(&shared))).detach();
    Ok(ServerHandle { sql_addr, internal_addr, shared, threads: threads.drop_guard() })
}

fn read_rules(file: Option<&Path>) -> io::Result<Rules> {
    let Some(file) = file else { return Ok(Rules::local()) };
    let unusable = |why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
    Rules::parse(&text).map_err(unusable)
}

fn listen(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

fn start_threads(count: usize, until: &CancellationToken) -> io::Result<Vec<Handle>> {
    let count = if count == 0 { std::thread::available_parallelism()?.get() } else { count };
    let cores = ore::thread::cores()?;
    (0..count)
        .map(|index| {
            // Threads of its own that block are none of those that stay.
            let runtime = Builder::new_current_thread().enable_all().on_thread_start(ore::thread::roam).build()?;
            let (handle, until) = (runtime.handle().clone(), until.clone());
            let core = cores.get(index).copied().filter(|_| count == cores.len());
            ore::thread::spawn(format!("io-{index}"), move || {
                if let Some(Err(error)) = core.map(ore::thread::stay_on) {
                    tracing::warn!(%error, "an I/O thread does not stay on its core");
                }
                runtime.block_on(until.cancelled());
            });
            Ok(handle)
        })
        .collect()
}

/// Accepts connections until the server stops.
async fn accept(listener: std::net::TcpListener, source: Source, shared: Arc<Shared>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    let mut runtimes = shared.runtimes.iter().cycle();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => {
                let runtime = runtimes.next().expect("there is at least one thread");
                let connection = shared.connections.track_future(serve_one(stream, source, Arc::clone(&shared)));
                // Boxed here, because a task that takes a future by value has room for it twice.
                spawn_on(runtime, "connection", Box::pin(connection)).detach();
            }
            Err(error) => {
                // Out of file descriptors, or a peer that left in between; either passes.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

/// One connection, from its socket to its end.
async fn serve_one(stream: std::net::TcpStream, source: Source, shared: Arc<Shared>) {
    let _running = Running::new(shared.metrics.clone(), source);
    let good = match prepare(stream) {
        Ok(stream) => connection::run(stream, &shared, source == Source::Internal).await,
        Err(error) => return tracing::debug!(%error, "a connection was lost before it began"),
    };
    let counters = shared.metrics.source(source);
    if good { counters.success.inc() } else { counters.error.inc() }
}

/// Sets the socket's options and hands it to this thread's runtime.
fn prepare(stream: std::net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    TcpStream::from_std(stream)
}
