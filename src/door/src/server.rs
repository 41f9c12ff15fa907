//! The listeners, and the threads that connections live on.
//!
//! There are N I/O threads with one single-threaded runtime each, one per core: a connection is dealt to one of them,
//! round robin, and never leaves it, so that its wake-ups and buffers stay on one core and nothing is stolen or locked. Where
//! there are as many of them as cores, each stays on its own.
//! Accepting happens on the first of them and costs little; a new socket is handed over unregistered.
//!
//! A stop goes in this order: the listeners close; connections, each of which watches [`Server::stop`] and its session's end, say
//! goodbye and close; when all are gone, or after [`STOP_GRACE`], the threads end.

use ore::task::{spawn_critical, spawn_on};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

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

thread_local! {
    /// The connections of this I/O thread.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// Whether this I/O thread has so many connections that replies are better sent together, after all that is there to be
/// read was handled: a client that serves many of its own then finds several, instead of being woken for each.
pub fn is_crowded() -> bool {
    HERE.get() >= CROWD
}

/// Counts one open connection of this thread for as long as it lives.
struct Present;

impl Present {
    fn new() -> Present {
        HERE.set(HERE.get() + 1);
        Present
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        HERE.set(HERE.get() - 1);
    }
}

/// The threads, and the connections on them; cheap to clone.
#[derive(Clone)]
pub struct Server {
    runtimes: Arc<[Handle]>,
    stop: CancellationToken,
    connections: TaskTracker,
}

/// Ends the threads when it is dropped, whether connections are left on them or not.
pub struct Threads(DropGuard);

impl Server {
    /// Starts the threads; one per core if the count is zero.
    pub fn start(count: usize) -> io::Result<(Server, Threads)> {
        let until = CancellationToken::new();
        let count = if count == 0 { std::thread::available_parallelism()?.get() } else { count };
        let cores = ore::thread::cores()?;
        let start = |index: usize| {
            // Threads of its own that block are none of those that stay.
            let runtime = Builder::new_current_thread().enable_all().on_thread_start(ore::thread::roam).build()?;
            let (handle, until) = (runtime.handle().clone(), until.clone());
            let core = cores.get(index).copied().filter(|_| count == cores.len());
            ore::thread::spawn(format!("io-{index}"), move || {
                if let Some(Err(error)) = core.map(ore::turns::stay_on) {
                    tracing::warn!(%error, "an I/O thread does not stay on its core");
                }
                runtime.block_on(until.cancelled());
            });
            Ok(handle)
        };
        let runtimes = (0..count).map(start).collect::<io::Result<_>>()?;
        let server = Server { runtimes, stop: CancellationToken::new(), connections: TaskTracker::new() };
        Ok((server, Threads(until.drop_guard())))
    }

    /// Fires when the server stops.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// What a stop waits for as long as it is held: a connection that goes on after the future that served it.
    pub fn presence(&self) -> TaskTrackerToken {
        self.connections.token()
    }

    /// Accepts connections until the server stops. `serve` is called on the thread where the connection will live; its future is the
    /// connection.
    pub fn accept<F: Future<Output = ()> + Send + 'static>(
        &self,
        name: &'static str,
        listener: std::net::TcpListener,
        serve: impl Fn(TcpStream) -> F + Clone + Send + Sync + 'static,
    ) {
        let server = self.clone();
        spawn_critical(&self.runtimes[0], name, async move { server.accepting(listener, serve).await }).detach();
    }

    async fn accepting<F: Future<Output = ()> + Send + 'static>(
        &self,
        listener: std::net::TcpListener,
        serve: impl Fn(TcpStream) -> F + Clone + Send + Sync + 'static,
    ) {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot listen"),
        };
        let mut runtimes = self.runtimes.iter().cycle();
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    let runtime = runtimes.next().expect("there is at least one thread");
                    let connection = self.connections.track_future(serve_one(stream, serve.clone()));
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

    /// Accepts nobody any more, has `goodbye` said, and returns when all connections are closed or their time is up.
    pub async fn shutdown(&self, goodbye: impl FnOnce()) {
        self.stop.cancel();
        goodbye();
        self.connections.close();
        if tokio::time::timeout(STOP_GRACE, self.connections.wait()).await.is_err() {
            tracing::warn!(connection_count = self.connections.len(), "connections did not close in time");
        }
    }
}

impl Threads {
    /// Ends them.
    pub fn end(self) {
        self.0.disarm().cancel();
    }
}

/// Opens a listener.
pub fn listen(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

/// One connection, from its socket to its end.
async fn serve_one<F: Future<Output = ()>>(stream: std::net::TcpStream, serve: impl Fn(TcpStream) -> F) {
    let _present = Present::new();
    match prepare(stream) {
        Ok(stream) => serve(stream).await,
        Err(error) => tracing::debug!(%error, "a connection was lost before it began"),
    }
}

/// Sets the socket's options and hands it to this thread's runtime.
fn prepare(stream: std::net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    TcpStream::from_std(stream)
}
