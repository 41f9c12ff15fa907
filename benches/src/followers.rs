//! Those who wait: WebSockets on which nothing happens, and subscriptions to one view, each of which hears of every change.
//!
//! Sockets are read by one thread, and only counted: what the client costs is not what is measured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::admin::Session;
use crate::http::get;
use crate::procfs::{status_bytes, tree_cpu_seconds};
use crate::servers::Server;

/// How long something that was begun may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Before memory is looked at, what was freed is given back.
const REST: Duration = Duration::from_secs(2);

/// Who comes.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many.
    pub count: usize,
    /// How many at once; the next ones come when these were answered. No more than a listener's backlog.
    pub at_once: usize,
}

/// What followers cost a server.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    /// Changes per second.
    pub changes: f64,
    /// Microseconds of the server's CPU for each change that each follower heard of.
    pub cpu_us: f64,
    /// Bytes of memory for each follower.
    pub bytes: f64,
}

/// Bytes of the server's memory for each of so many idle WebSockets that have said who they are.
pub fn idle_websockets(server: &Server, crowd: Crowd) -> Result<f64> {
    let http = server.http.context("an HTTP port")?;
    let before = memory(server)?;
    let runtime = runtime()?;
    let greeting = websocket_greeting(http);
    // Introduced once the server is ready for a query.
    let (_sockets, _ready) = open(&runtime, http, crowd, &greeting, b"ReadyForQuery")?;
    Ok((memory(server)? - before) / crowd.count as f64)
}

/// What followers of a view cost while `rate` rows a second are written to its table, one by one.
pub fn followers(server: &Server, crowd: Crowd, rate: f64, duration: Duration) -> Result<Followed> {
    let http = server.http.context("an HTTP port")?;
    let mut session = Session::connect(&server.endpoint)?;
    for text in [
        "DROP TABLE IF EXISTS followed CASCADE",
        "CREATE TABLE followed (k int4, v int4)",
        "CREATE VIEW followed_sums AS SELECT k, count(*) AS n, sum(v) AS v FROM followed GROUP BY k",
        "INSERT INTO followed SELECT i, i FROM generate_series(0, 99) AS g(i)",
    ] {
        session.execute(text)?;
    }
    let before = memory(server)?;
    let runtime = runtime()?;
    let request = format!("GET /api/subscribe?query=SUBSCRIBE%20followed_sums HTTP/1.1\r\nHost: {http}\r\n\r\n");
    let (_sockets, heard) = open(&runtime, http, crowd, request.as_bytes(), b"\nid: ")?;
    let all = crowd.count as u64;
    let bytes = (memory(server)? - before) / crowd.count as f64;
    let (cpu, start, told) = (tree_cpu_seconds(server.pid())?, Instant::now(), heard.load(Ordering::Relaxed));
    let mut changes = 0_u64;
    while start.elapsed() < duration {
        session.execute(&format!("INSERT INTO followed VALUES ({}, 1)", changes % 100))?;
        changes += 1;
        let next = Duration::from_secs_f64(changes as f64 / rate);
        std::thread::sleep(next.saturating_sub(start.elapsed()));
    }
    let elapsed = start.elapsed().as_secs_f64();
    wait("not everybody has heard of every change", || Ok(heard.load(Ordering::Relaxed) - told >= changes * all))?;
    let cpu = tree_cpu_seconds(server.pid())? - cpu;
    let operators = server.internal_http.context("an operators' port")?;
    let metrics = String::from_utf8(get(&format!("http://{operators}/metrics"), PATIENCE)?)?;
    ensure!(metrics.lines().any(|line| line == "mz_subscribe_streams 1"), "more than one stream is followed");
    let cpu_us = cpu * 1e6 / (changes * all) as f64;
    Ok(Followed { changes: changes as f64 / elapsed, cpu_us, bytes })
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

fn memory(server: &Server) -> Result<f64> {
    std::thread::sleep(REST);
    Ok(status_bytes(server.pid(), "VmRSS")? as f64)
}

fn wait(what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !holds()? {
        ensure!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// The bytes of an upgrade, and of a first message that says who comes.
fn websocket_greeting(http: SocketAddr) -> Vec<u8> {
    let mut bytes = format!(
        "GET /api/experimental/sql HTTP/1.1\r\nHost: {http}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    .into_bytes();
    let text = br#"{"user":"materialize"}"#;
    // A text in one frame, masked with zeros.
    bytes.extend_from_slice(&[0x81, 0x80 | u8::try_from(text.len()).expect("short"), 0, 0, 0, 0]);
    bytes.extend_from_slice(text);
    bytes
}

/// Sockets that are open as long as this is held.
struct Sockets(Vec<tokio::task::JoinHandle<()>>);

impl Drop for Sockets {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Opens sockets, sends the same on each, and counts how often `mark` comes back: once at least of each.
fn open(
    runtime: &Runtime,
    addr: SocketAddr,
    Crowd { count, at_once }: Crowd,
    greeting: &[u8],
    mark: &'static [u8],
) -> Result<(Sockets, Arc<AtomicU64>)> {
    let (counted, greeting) = (Arc::new(AtomicU64::new(0)), Arc::<[u8]>::from(greeting));
    let mut readers = Vec::with_capacity(count);
    while readers.len() < count {
        let more = (count - readers.len()).min(at_once);
        let opened = runtime.block_on(async {
            let mut opened = Vec::with_capacity(more);
            for _ in 0..more {
                let mut stream = TcpStream::connect(addr).await?;
                stream.write_all(&greeting).await?;
                opened.push(stream);
            }
            Ok::<_, std::io::Error>(opened)
        })?;
        let reader = |stream| runtime.spawn(count_marks(stream, mark, Arc::clone(&counted)));
        readers.extend(opened.into_iter().map(reader));
        let come = readers.len() as u64;
        wait("not everybody is answered", || Ok(counted.load(Ordering::Relaxed) >= come))?;
    }
    Ok((Sockets(readers), counted))
}

async fn count_marks(mut stream: TcpStream, mark: &'static [u8], counted: Arc<AtomicU64>) {
    let mut input = Vec::with_capacity(1024);
    while let Ok(1..) = stream.read_buf(&mut input).await {
        let found = memchr::memmem::find_iter(&input, mark).count();
        counted.fetch_add(found as u64, Ordering::Relaxed);
        // A mark may come in two parts, and is not counted twice.
        let keep = match memchr::memmem::rfind(&input, mark) {
            Some(at) => (at + mark.len()).max((input.len() + 1).saturating_sub(mark.len())),
            None => (input.len() + 1).saturating_sub(mark.len()),
        };
        input.drain(..keep.min(input.len()));
    }
}
