//! Requests over kept connections, as fast as they are answered: point reads by HTTP, the same bytes from memory, rows of a webhook.
//!
//! One write and one read per request, as in [`crate::connection`]; every answer is compared with what it has to be.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::histogram::Histogram;
use crate::workload::Random;

/// Room for an answer.
const INPUT_BYTES: usize = 16 * 1024;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A row of `kv` by its key.
    Point {
        /// How many there are.
        rows: u32,
    },
    /// What the canned route answers.
    Canned,
    /// A row of the webhook `hook`, of JSON.
    Webhook,
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct HttpLoad {
    /// Where.
    pub server: SocketAddr,
    /// What.
    pub asked: Asked,
    /// Connections; each waits for its answer before it asks again.
    pub connections: u32,
    /// Client threads.
    pub threads: u32,
    /// Before measuring.
    pub warmup: Duration,
    /// Of measuring.
    pub duration: Duration,
    /// What random ids derive from.
    pub seed: u64,
}

/// What was measured.
pub struct Measured {
    /// Answers per second.
    pub per_second: f64,
    /// How long they took.
    pub latency: Histogram,
}

/// The body of the answer to a point read.
pub fn point_answer(id: u32) -> String {
    format!(
        "{{\"results\":[{{\"desc\":{{\"columns\":[{{\"name\":\"id\",\"type_oid\":23,\"type_len\":4,\"type_mod\":-1}},\
         {{\"name\":\"v\",\"type_oid\":25,\"type_len\":-1,\"type_mod\":-1}}]}},\"rows\":[[\"{id}\",\"v{id:07}-000\"]],\
         \"tag\":\"SELECT 1\",\"notices\":[]}}]}}\n"
    )
}

/// Runs a load.
pub fn run(load: &HttpLoad) -> Result<Measured> {
    let (measures, stops) = (AtomicBool::new(false), AtomicBool::new(false));
    let threads = load.threads.clamp(1, load.connections);
    std::thread::scope(|scope| {
        let worker = |thread| {
            let (measures, stops) = (&measures, &stops);
            scope.spawn(move || work(load, (thread, threads), measures, stops))
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        std::thread::sleep(load.warmup);
        let start = Instant::now();
        measures.store(true, Ordering::Relaxed);
        std::thread::sleep(load.duration);
        stops.store(true, Ordering::Relaxed);
        let seconds = start.elapsed().as_secs_f64();
        let mut latency = Histogram::new();
        for worker in workers {
            latency.merge(&worker.join().map_err(|_| anyhow::anyhow!("a client thread panicked"))??);
        }
        Ok(Measured { per_second: latency.total() as f64 / seconds, latency })
    })
}

fn work(
    load: &HttpLoad,
    (thread, threads): (u32, u32),
    measures: &AtomicBool,
    stops: &AtomicBool,
) -> Result<Histogram> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asking = async {
        let mine = (thread..load.connections).step_by(threads as usize);
        let asking = mine.map(|connection| ask(load, connection, measures, stops));
        let mut latency = Histogram::new();
        for asked in futures::future::join_all(asking).await {
            latency.merge(&asked?);
        }
        Ok(latency)
    };
    LocalSet::new().block_on(&runtime, asking)
}

/// One connection.
async fn ask(load: &HttpLoad, connection: u32, measures: &AtomicBool, stops: &AtomicBool) -> Result<Histogram> {
    let mut stream = TcpStream::connect(load.server).await.with_context(|| load.server.to_string())?;
    stream.set_nodelay(true)?;
    let mut random = Random::new(load.seed + u64::from(connection));
    let (mut latency, mut request, mut input) = (Histogram::new(), Vec::new(), vec![0; INPUT_BYTES]);
    while !stops.load(Ordering::Relaxed) {
        let (path, id) = match load.asked {
            Asked::Point { rows } => ("/api/sql", random.below(rows)),
            Asked::Canned => ("/canned", 0),
            Asked::Webhook => ("/api/webhook/materialize/public/hook", random.below(u32::MAX)),
        };
        let body = match load.asked {
            Asked::Webhook => format!("{{\"id\":{id},\"v\":\"v{id:07}-000\"}}"),
            Asked::Point { .. } | Asked::Canned => format!("{{\"query\":\"SELECT id, v FROM kv WHERE id = {id}\"}}"),
        };
        request.clear();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        request.extend_from_slice(head.as_bytes());
        request.extend_from_slice(body.as_bytes());
        let start = Instant::now();
        stream.write_all(&request).await?;
        let answer = answer(&mut stream, &mut input).await?;
        let expected = if load.asked == Asked::Webhook { String::new() } else { point_answer(id) };
        ensure!(answer == expected.as_bytes(), "a wrong answer: {}", String::from_utf8_lossy(answer));
        if measures.load(Ordering::Relaxed) {
            latency.record(start.elapsed());
        }
    }
    Ok(latency)
}

/// The body of an answer whose length is told.
async fn answer<'i>(stream: &mut TcpStream, input: &'i mut [u8]) -> Result<&'i [u8]> {
    let mut end = 0;
    loop {
        let read = stream.read(&mut input[end..]).await?;
        ensure!(read > 0, "the connection ends");
        end += read;
        let Some(head) = input[..end].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&input[..head])?;
        if !text.starts_with("HTTP/1.1 200") {
            bail!("{}", String::from_utf8_lossy(&input[..end]));
        }
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.context("a length")?.parse()?;
        let whole = head + 4 + length;
        ensure!(whole <= input.len(), "an answer of {length} bytes");
        while end < whole {
            let read = stream.read(&mut input[end..]).await?;
            ensure!(read > 0, "the connection ends");
            end += read;
        }
        return Ok(&input[head + 4..whole]);
    }
}
