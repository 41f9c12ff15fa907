//! Reads of a server that takes the time from a PostgreSQL under a lease, beside those of one that has the time to itself.
//!
//! Both are the same program with the same rows. They run one after the other, round by round, the order changing, so that what
//! the machine does beside them hits both alike. While they read, a session beside them writes and another reads what was
//! acknowledged: it must be there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::arguments::{Places, Window};
use crate::http;
use crate::report::median;
use crate::servers::{Server, Target};
use crate::suite::{point_reads, prepare};
use crate::workload::Protocol;

/// How long an answer of the metrics' port may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The metric of reads of the time: from memory, and from the store.
const FAST_PATH: &str = "mz_ts_oracle_fast_path_total";

/// What to run.
pub struct Options {
    /// Numbers of connections.
    pub connections: Vec<u32>,
    /// Runs of each server per number of connections and protocol.
    pub rounds: u32,
    /// The time of each run.
    pub window: Window,
    /// Rows of the table that is read.
    pub rows: u32,
    /// Where servers are.
    pub places: Places,
}

/// Point reads over one protocol from some connections; medians of the rounds.
pub struct Line {
    /// How it was asked.
    pub protocol: Protocol,
    /// From how many connections.
    pub connections: u32,
    /// Reads per second with the time embedded.
    pub embedded_qps: f64,
    /// Reads per second with the time shared.
    pub leased_qps: f64,
    /// Of the rounds' ratios of the second to the first.
    pub ratio: f64,
}

/// Reads of the time by the server that shares it, over the whole run.
pub struct Hits {
    /// From memory.
    pub hits: f64,
    /// From the store.
    pub misses: f64,
}

impl Hits {
    /// The part of the reads that were from memory.
    pub fn rate(&self) -> f64 {
        self.hits / (self.hits + self.misses)
    }
}

/// Two servers, and the store of one's time.
pub struct Pair {
    embedded: Server,
    leased: Server,
    _store: Server,
    options: Options,
    runs: u32,
}

impl Pair {
    /// Starts them, and fills their tables.
    pub fn start(options: Options) -> Result<Pair> {
        ensure!(options.rounds > 0 && !options.connections.is_empty(), "nothing to run");
        let Places { work_dir, environmentd, pg_bin } = &options.places;
        let store = Server::start_postgres(work_dir, pg_bin.as_deref(), 20)?;
        let url = store.endpoint.url();
        let start = |flags: &[&str]| {
            let server = Server::start_glimpse_with(work_dir, environmentd.as_deref(), flags)?;
            prepare(&server.endpoint, Target::Glimpse, options.rows)?;
            anyhow::Ok(server)
        };
        let embedded = start(&[])?;
        let leased = start(&["--timestamp-oracle-url", &url])?;
        Ok(Pair { embedded, leased, _store: store, options, runs: 0 })
    }

    /// Compares them, over each protocol and from each number of connections.
    pub fn compare(&mut self, mut each: impl FnMut(&Line)) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for protocol in [Protocol::Simple, Protocol::Prepared] {
            for connections in self.options.connections.clone() {
                let line = self.line(protocol, connections)?;
                each(&line);
                lines.push(line);
            }
        }
        Ok(lines)
    }

    fn line(&mut self, protocol: Protocol, connections: u32) -> Result<Line> {
        let (mut embedded, mut leased, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.options.rounds {
            let (one, other) = match round % 2 {
                0 => {
                    let one = self.qps(Which::Embedded, protocol, connections)?;
                    (one, self.qps(Which::Leased, protocol, connections)?)
                }
                _ => {
                    let other = self.qps(Which::Leased, protocol, connections)?;
                    (self.qps(Which::Embedded, protocol, connections)?, other)
                }
            };
            embedded.push(one);
            leased.push(other);
            ratios.push(other / one);
        }
        let of_rounds = |values| median(values).context("there are rounds");
        let (embedded_qps, leased_qps, ratio) = (of_rounds(embedded)?, of_rounds(leased)?, of_rounds(ratios)?);
        Ok(Line { protocol, connections, embedded_qps, leased_qps, ratio })
    }

    fn qps(&mut self, which: Which, protocol: Protocol, connections: u32) -> Result<f64> {
        self.runs += 1;
        let server = match which {
            Which::Embedded => &self.embedded,
            Which::Leased => &self.leased,
        };
        let Options { rows, window, .. } = &self.options;
        Ok(point_reads(server, protocol, connections, *rows, *window, self.runs)?.qps)
    }

    /// How the server that shares its time read it, so far.
    pub fn hits(&self) -> Result<Hits> {
        let address = self.leased.internal_http.context("a server of ours has a port for metrics")?;
        let text = String::from_utf8(http::get(&format!("http://{address}/metrics"), TIMEOUT)?)?;
        let value = |result: &str| {
            let series = format!("{FAST_PATH}{{result=\"{result}\"}} ");
            let found = text.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok());
            found.with_context(|| format!("there is no metric {series}"))
        };
        Ok(Hits { hits: value("hit")?, misses: value("miss")? })
    }
}

enum Which {
    Embedded,
    Leased,
}
