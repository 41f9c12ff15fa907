//! The load generator: one workload on one server, and what was measured as JSON.

#![allow(clippy::print_stdout, reason = "the JSON on standard output is what this program is for")]

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use benches::connection::Endpoint;
use benches::driver::{Plan, Verify};
use benches::run::{LoadConfig, run};
use benches::workload::{Protocol, Workload};
use clap::Parser;

/// Drives one Postgres server with one workload and prints throughput, latency and CPU per query as JSON.
///
/// The tables must exist: t(id text, value int4) with ('hello', 42); kv(id int4, v text) with ids below --rows and values
/// v{id:07}-000; ins(id int4, v text). bin/bench makes them.
#[derive(Parser)]
struct Arguments {
    /// The server's SQL address.
    #[arg(long, default_value = "127.0.0.1:6875")]
    server: SocketAddr,
    /// The role to connect as.
    #[arg(long, default_value = "materialize")]
    user: String,
    /// The database to connect to.
    #[arg(long, default_value = "materialize")]
    database: String,
    /// Over TLS; the server has the certificate of test/tls, for localhost.
    #[arg(long)]
    tls: bool,
    /// What to ask.
    #[arg(long, default_value = "point")]
    workload: Workload,
    /// How to ask.
    #[arg(long, default_value = "simple")]
    protocol: Protocol,
    /// Connections; each waits for its reply before it asks again.
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// Client threads.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Seconds before measuring.
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
    /// Seconds of measuring.
    #[arg(long, default_value_t = 5.0)]
    duration: f64,
    /// Rows of kv.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// The first id that no row has; of a table that an earlier run wrote to, choose a larger one.
    #[arg(long, default_value_t = 10_000_000)]
    fresh_ids: u32,
    /// What random ids derive from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server's process, for its CPU per query.
    #[arg(long)]
    server_pid: Option<u32>,
    /// Check only the shape of replies: the server is the floor.
    #[arg(long)]
    canned: bool,
    /// Describe the portal before Execute, as libpq does.
    #[arg(long)]
    describe: bool,
    /// Beside the reads, write ten rows a second and check that the next read sees each.
    #[arg(long)]
    check_freshness: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let config = LoadConfig {
        endpoint: Endpoint {
            address: arguments.server,
            user: arguments.user,
            database: arguments.database,
            tls: arguments.tls,
        },
        plan: Plan {
            workload: arguments.workload,
            protocol: arguments.protocol,
            connections: arguments.connections,
            rows: arguments.rows,
            fresh_ids: arguments.fresh_ids,
            verify: if arguments.canned { Verify::Shape } else { Verify::Contents },
            describe: arguments.describe,
            seed: arguments.seed,
        },
        threads: arguments.threads,
        warmup: Duration::from_secs_f64(arguments.warmup),
        duration: Duration::from_secs_f64(arguments.duration),
        server_pid: arguments.server_pid,
        check_freshness: arguments.check_freshness,
    };
    let report = run(&config)?;
    println!("{:#}", report.to_json());
    Ok(())
}
