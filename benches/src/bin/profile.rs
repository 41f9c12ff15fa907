//! A flamegraph of the server under a load. `bin/profile` builds and runs it.
//!
//! How: find a server, or start one and load it; keep a workload on it; ask its internal HTTP port for `/prof/cpu`
//! meanwhile; write the SVG. The load's own figures go to standard error: a profile means more beside them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use benches::connection::Endpoint;
use benches::driver::{Plan, Verify};
use benches::run::{LoadConfig, run};
use benches::servers::{Server, Target};
use benches::suite::prepare;
use benches::workload::{Protocol, Workload};
use benches::{http, oltp, procfs};
use clap::Parser;

/// Makes a flamegraph (SVG) of Glimpse under a load.
///
/// Without --url and --pid it starts a server of its own in a temporary directory and loads it. With one of them the
/// tables must be there, as bin/bench makes them (or say --setup).
#[derive(Parser)]
struct Arguments {
    /// The internal HTTP address of a running server, as in http://127.0.0.1:6878.
    #[arg(long)]
    url: Option<String>,
    /// A running server's process: its addresses are read from its command line.
    #[arg(long, conflicts_with = "url")]
    pid: Option<u32>,
    /// The SQL address of the server named by --url.
    #[arg(long, default_value = "127.0.0.1:6875")]
    server: SocketAddr,
    /// Create and fill the tables of a server named by --url or --pid.
    #[arg(long)]
    setup: bool,
    /// What to ask.
    #[arg(long, default_value = "point")]
    workload: Workload,
    /// How to ask.
    #[arg(long, default_value = "simple")]
    protocol: Protocol,
    /// Connections.
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// Seconds to sample.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Rows of kv.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Where to write the flamegraph.
    #[arg(long, short, default_value = "profile.svg")]
    output: PathBuf,
    /// The server binary, when it is not the one built beside this program.
    #[arg(long)]
    environmentd: Option<PathBuf>,
}

/// The server to profile; one that was started here lives as long as this.
struct Subject {
    endpoint: Endpoint,
    http: String,
    pid: Option<u32>,
    _started: Option<Server>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.seconds > 0, "--seconds must be positive");
    let subject = find_subject(&arguments)?;
    let config = load_config(&arguments, &subject);
    let load = std::thread::spawn(move || run(&config));
    // The load connects and warms up first.
    std::thread::sleep(Duration::from_secs(1));
    let url = format!("{}/prof/cpu?seconds={}", subject.http.trim_end_matches('/'), arguments.seconds);
    let svg = http::get(&url, Duration::from_secs(u64::from(arguments.seconds) + 60));
    let report = load.join().map_err(|_| anyhow!("the load panicked"))?.context("the load failed")?;
    let svg = svg?;
    ensure!(svg.windows(4).any(|window| window == b"<svg"), "{url} did not answer with an SVG");
    std::fs::write(&arguments.output, &svg).with_context(|| format!("cannot write {}", arguments.output.display()))?;
    eprintln!("{:#}", report.to_json());
    eprintln!("wrote {}", arguments.output.display());
    Ok(())
}

fn find_subject(arguments: &Arguments) -> Result<Subject> {
    let name = || "materialize".to_owned();
    let endpoint = |address| Endpoint { address, user: name(), database: name(), tls: false };
    let subject = if let Some(url) = &arguments.url {
        Subject { endpoint: endpoint(arguments.server), http: url.clone(), pid: None, _started: None }
    } else if let Some(pid) = arguments.pid {
        let line = procfs::command_line(pid)?;
        let sql = address_of(&line, "--sql-listen-addr", "127.0.0.1:6875")?;
        let http = address_of(&line, "--internal-http-listen-addr", "127.0.0.1:6878")?;
        Subject { endpoint: endpoint(sql), http: format!("http://{http}"), pid: Some(pid), _started: None }
    } else {
        let server = Server::start_glimpse(&std::env::temp_dir(), arguments.environmentd.as_deref())?;
        set_up(arguments, &server.endpoint)?;
        let http = server.internal_http.context("the server was started with that port")?;
        Subject {
            endpoint: server.endpoint.clone(),
            http: format!("http://{http}"),
            pid: Some(server.pid()),
            _started: Some(server),
        }
    };
    if arguments.setup && subject._started.is_none() {
        set_up(arguments, &subject.endpoint)?;
    }
    Ok(subject)
}

/// Makes and fills the tables that the workload needs.
fn set_up(arguments: &Arguments, endpoint: &Endpoint) -> Result<()> {
    if arguments.workload.needs_keys() {
        return oltp::prepare(endpoint, arguments.rows);
    }
    prepare(endpoint, Target::Glimpse, arguments.rows)?;
    Ok(())
}

/// The value of a flag, given as `--flag value` or `--flag=value`.
fn address_of(line: &[String], flag: &str, default: &str) -> Result<SocketAddr> {
    let value = line.iter().enumerate().find_map(|(at, argument)| {
        let rest = argument.strip_prefix(flag)?;
        if rest.is_empty() { line.get(at + 1).map(String::as_str) } else { rest.strip_prefix('=') }
    });
    let value = value.unwrap_or(default);
    let address: SocketAddr = value.parse().with_context(|| format!("{flag} {value} is not an address"))?;
    // A server that listens everywhere is reached on the loopback interface.
    Ok(if address.ip().is_unspecified() { SocketAddr::from(([127, 0, 0, 1], address.port())) } else { address })
}

fn load_config(arguments: &Arguments, subject: &Subject) -> LoadConfig {
    LoadConfig {
        endpoint: subject.endpoint.clone(),
        plan: Plan {
            workload: arguments.workload,
            protocol: arguments.protocol,
            connections: arguments.connections,
            rows: arguments.rows,
            fresh_ids: arguments.rows.saturating_mul(2).max(10_000_000),
            verify: Verify::Contents,
            describe: false,
            seed: 1,
        },
        threads: 2,
        warmup: Duration::from_millis(500),
        duration: Duration::from_secs(u64::from(arguments.seconds) + 1),
        server_pid: subject.pid,
        check_freshness: false,
    }
}
