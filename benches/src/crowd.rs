//! What connections cost that ask nothing: thousands of idle sessions, and of clients that never finish their handshake.
//!
//! Each is measured beside a server of its own doing nothing else, round by round: how long a login takes, and what a few busy
//! connections that read rows by key still get. The crowd is counted afterwards: whoever was sent away does not count as endured.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::arguments::{Places, Window};
use crate::connection::{Connection, Endpoint};
use crate::histogram::Histogram;
use crate::procfs;
use crate::report::median;
use crate::servers::{Server, Target};
use crate::suite::{point_reads, prepare};
use crate::workload::Protocol;

/// How long a crowd may take to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// What clients send who then send nothing: nothing, a part of a length, a startup message without its end.
const BEGINNINGS: [&[u8]; 3] = [b"", b"\0\0", b"\0\0\0\x40\0\x03\0\0user\0mat"];

/// What to run.
pub struct Options {
    /// Sessions that ask nothing.
    pub idle: u32,
    /// Connections whose handshake does not end.
    pub half_open: u32,
    /// Connections that read.
    pub busy: u32,
    /// Logins, one after the other, per round.
    pub logins: u32,
    /// Runs beside each crowd; figures are medians.
    pub rounds: u32,
    /// The time of each run.
    pub window: Window,
    /// Rows of the table that is read.
    pub rows: u32,
    /// Where the server is.
    pub places: Places,
}

/// Who is there beside the busy connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// Nobody.
    Nobody,
    /// Sessions that ask nothing.
    Idle,
    /// Connections whose handshake does not end.
    HalfOpen,
}

/// What was measured beside a crowd; medians of the rounds.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// How many there were.
    pub count: u32,
    /// Resident bytes of the server for each of them.
    pub bytes_each: f64,
    /// From connecting to being ready, in microseconds: the median, and what 99 of 100 logins take at most.
    pub login_us: (f64, f64),
    /// Reads per second.
    pub qps: f64,
    /// Round trips of the reads, likewise.
    pub read_us: (f64, f64),
}

/// A server and what it has to endure.
pub struct Stand {
    server: Server,
    runtime: Runtime,
    options: Options,
    runs: u32,
}

/// Those who are there; they leave when it is dropped.
enum Present {
    Nobody,
    Idle(Vec<Connection>),
    HalfOpen(Vec<TcpStream>),
}

impl Stand {
    /// Starts the server, and fills its table.
    pub fn start(options: Options) -> Result<Stand> {
        ensure!(options.rounds > 0 && options.logins > 0, "nothing to run");
        let places = &options.places;
        let max = format!("--system-parameter-default=max_connections={}", options.idle + options.busy + 100);
        let server = Server::start_glimpse_with(&places.work_dir, places.environmentd.as_deref(), &[&max])?;
        prepare(&server.endpoint, Target::Glimpse, options.rows)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Stand { server, runtime, options, runs: 0 })
    }

    /// What logins and reads take beside a crowd.
    pub fn measure(&mut self, crowd: Crowd) -> Result<Line> {
        let count = match crowd {
            Crowd::Nobody => 0,
            Crowd::Idle => self.options.idle,
            Crowd::HalfOpen => self.options.half_open,
        };
        let (mut logins, mut reads, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            let before = self.resident()?;
            let present = self.gather(crowd)?;
            bytes.push((self.resident()? - before) / f64::from(count.max(1)));
            logins.push(self.logins()?);
            reads.push(self.reads()?);
            let left = self.runtime.block_on(present.count())?;
            ensure!(
                left == count as usize,
                "of {count} connections the server has sent {} away",
                count as usize - left
            );
        }
        let of = |values: Vec<f64>| median(values).context("there are rounds");
        Ok(Line {
            count,
            bytes_each: of(bytes)?,
            login_us: (of(logins.iter().map(|l| l.0).collect())?, of(logins.iter().map(|l| l.1).collect())?),
            qps: of(reads.iter().map(|r| r.0).collect())?,
            read_us: (of(reads.iter().map(|r| r.1).collect())?, of(reads.iter().map(|r| r.2).collect())?),
        })
    }

    fn resident(&self) -> Result<f64> {
        Ok(procfs::status_bytes(self.server.pid(), "VmRSS")? as f64)
    }

    fn gather(&self, crowd: Crowd) -> Result<Present> {
        let endpoint = &self.server.endpoint;
        let gathering = async {
            Ok(match crowd {
                Crowd::Nobody => Present::Nobody,
                Crowd::Idle => {
                    let mut sessions = Vec::with_capacity(self.options.idle as usize);
                    for _ in 0..self.options.idle {
                        sessions.push(Connection::connect(endpoint).await?);
                    }
                    Present::Idle(sessions)
                }
                Crowd::HalfOpen => {
                    let mut streams = Vec::with_capacity(self.options.half_open as usize);
                    for at in 0..self.options.half_open as usize {
                        let mut stream = TcpStream::connect(endpoint.address).await?;
                        stream.write_all(BEGINNINGS[at % BEGINNINGS.len()]).await?;
                        streams.push(stream);
                    }
                    Present::HalfOpen(streams)
                }
            })
        };
        let gathered = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, gathering).await });
        gathered.context("the crowd did not come in time")?
    }

    /// The median and the 99th percentile of logins, in microseconds.
    fn logins(&self) -> Result<(f64, f64)> {
        let endpoint: &Endpoint = &self.server.endpoint;
        let mut histogram = Histogram::new();
        for _ in 0..self.options.logins {
            let started = Instant::now();
            let connection = self.runtime.block_on(Connection::connect(endpoint))?;
            histogram.record(started.elapsed());
            drop(connection);
        }
        Ok((histogram.quantile_us(0.5), histogram.quantile_us(0.99)))
    }

    /// Reads per second, their median and their 99th percentile, in microseconds.
    fn reads(&mut self) -> Result<(f64, f64, f64)> {
        self.runs += 1;
        let Options { busy, rows, window, .. } = &self.options;
        let report = point_reads(&self.server, Protocol::Simple, *busy, *rows, *window, self.runs)?;
        Ok((report.qps, report.latency.p50_us, report.latency.p99_us))
    }
}

impl Present {
    /// How many are still there: a session answers, and of a half-open connection the server's end is not closed.
    async fn count(self) -> Result<usize> {
        match self {
            Present::Nobody => Ok(0),
            Present::Idle(sessions) => {
                let mut left = 0;
                for mut session in sessions {
                    left += usize::from(session.simple("SELECT 1").await.is_ok());
                }
                Ok(left)
            }
            Present::HalfOpen(streams) => {
                let mut left = 0;
                for stream in streams {
                    // Without waiting: nothing to read is an error of its own kind, and the end is not.
                    let mut stream = stream.into_std()?;
                    let read = stream.read(&mut [0; 1]);
                    left += usize::from(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
                }
                Ok(left)
            }
        }
    }
}
