//! The HTTP door beside the Postgres door, and beside the same server loop with answers from memory. `bin/bench http` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use benches::admin::Session;
use benches::driver::{Plan, Verify};
use benches::followers::{Crowd, Followed, followers, idle_websockets};
use benches::http_load::{Asked, HttpLoad, Measured, point_answer, run};
use benches::machine::Machine;
use benches::run::LoadConfig;
use benches::scan::{self, Came};
use benches::servers::{Server, free_port};
use benches::workload::{Protocol, Workload};
use clap::Parser;
use web::api::Routes;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Point reads, beside the Postgres protocol and the same answers from memory.
    Reads,
    /// Rows of a webhook, beside inserts by the Postgres protocol, one each.
    Webhook,
    /// WebSockets on which nothing happens.
    Idle,
    /// Subscriptions to one view, few and many.
    Followers,
    /// All rows of a table as Arrow, by HTTP and by Flight, beside PostgreSQL's binary COPY.
    Scan,
}

/// Measures point reads by HTTP, by the Postgres protocol, and the same answers from memory; rows of a webhook; idle WebSockets; followers
/// of one view; scans by HTTP and by Flight.
#[derive(Clone, Parser)]
struct Arguments {
    /// What is measured.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Reads, Part::Webhook, Part::Idle, Part::Followers, Part::Scan])]
    only: Vec<Part>,
    /// WebSockets on which nothing happens.
    #[arg(long, default_value_t = 8_000)]
    idle: usize,
    /// Few followers, and many.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000])]
    followers: Vec<usize>,
    /// How many of those who wait come at once.
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// Changes per second that followers hear of.
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// Connections.
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// Client threads.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Rounds; figures are medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of measuring.
    #[arg(long, default_value_t = 3.0)]
    duration: f64,
    /// Seconds before measuring.
    #[arg(long, default_value_t = 0.5)]
    warmup: f64,
    /// Rows of kv.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Rows of a scan.
    #[arg(long, default_value_t = 5_000_000)]
    scanned: u64,
    /// PostgreSQL's programs, if not found by themselves.
    #[arg(long)]
    pg_bin: Option<PathBuf>,
    /// Where the server keeps its data [default: the system's temporary directory].
    #[arg(long)]
    work_dir: Option<PathBuf>,
    /// The server binary, when it is not the one built beside this program.
    #[arg(long)]
    environmentd: Option<PathBuf>,
    /// Serves the answers from memory at this address, until its parent is gone: what this program starts for itself.
    #[arg(long, hide = true)]
    canned: Option<SocketAddr>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.canned {
        Some(addr) => canned(addr),
        None => measure(&arguments),
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    let work_dir = arguments.work_dir.clone().unwrap_or_else(std::env::temp_dir);
    println!("{}", Machine::inspect(&work_dir)?.line());
    for part in &arguments.only {
        let many = ["--system-parameter-default", "max_connections=20000"];
        let glimpse = Server::start_glimpse_with(&work_dir, arguments.environmentd.as_deref(), &many)?;
        let crowd = |count| Crowd { count, at_once: arguments.at_once };
        match part {
            Part::Reads => reads(arguments, &glimpse)?,
            Part::Webhook => webhook(arguments, &glimpse)?,
            Part::Idle => {
                let bytes = idle_websockets(&glimpse, crowd(arguments.idle))?;
                println!("\n{} idle WebSockets: {:.1} kB each (bar 40)", arguments.idle, bytes / 1e3);
            }
            Part::Followers => follow(arguments, &glimpse)?,
            Part::Scan => scans(arguments, &glimpse, &work_dir)?,
        }
    }
    Ok(())
}

/// What followers of one view cost, few and many, round by round.
fn follow(arguments: &Arguments, glimpse: &Server) -> Result<()> {
    println!("\n| followers | changes /s | CPU us per change that one heard of | kB each |\n|--:|--:|--:|--:|");
    let mut figures = vec![Vec::new(); arguments.followers.len()];
    for _ in 0..arguments.rounds {
        for (count, figures) in arguments.followers.iter().zip(&mut figures) {
            let duration = Duration::from_secs_f64(arguments.duration);
            let crowd = Crowd { count: *count, at_once: arguments.at_once };
            let Followed { changes, cpu_us, bytes } = followers(glimpse, crowd, arguments.rate, duration)?;
            println!("| {count} | {changes:.0} | {cpu_us:.1} | {:.1} |", bytes / 1e3);
            figures.push(cpu_us);
        }
    }
    if let [few, .., many] = figures.as_mut_slice() {
        println!("\nCPU of many by that of few {:.2} (bar 0.5)", median(many) / median(few));
    }
    Ok(())
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The server loop of the HTTP door, with one route.
fn canned(addr: SocketAddr) -> Result<()> {
    let (server, _threads) = door::server::Server::start(0)?;
    let answer = || async { ([(axum::http::header::CONTENT_TYPE, "application/json")], point_answer(0)) };
    let told = serde_json::json!({ "responses": {} });
    let others =
        web::server::Others { external: Routes::default().post("/canned", answer, told), internal: Routes::default() };
    let config = web::server::Config {
        addr,
        internal_addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        request_bytes_max: 1 << 20,
        origins: Vec::new(),
        requests_per_address: 0,
        subscribe_history: Duration::ZERO,
        cube: web::cube::CubeConfig::default(),
    };
    web::server::serve(config, &server, others)?;
    // The parent holds the other end.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn http(arguments: &Arguments, server: SocketAddr, asked: Asked, seed: u64) -> Result<Measured> {
    run(&HttpLoad {
        server,
        asked,
        connections: arguments.connections,
        threads: arguments.threads,
        warmup: Duration::from_secs_f64(arguments.warmup),
        duration: Duration::from_secs_f64(arguments.duration),
        seed,
    })
}

/// One row per request, durable when it is answered, beside INSERTs of one row.
fn webhook(arguments: &Arguments, glimpse: &Server) -> Result<()> {
    let mut session = Session::connect(&glimpse.endpoint)?;
    session.execute("CREATE TABLE ins (id int4 NOT NULL, v text NOT NULL)")?;
    session.execute("CREATE SOURCE hook FROM WEBHOOK BODY FORMAT JSON")?;
    let http_addr = glimpse.http.context("an HTTP port")?;
    println!("| rows of a webhook /s | p50 us | p99 us | INSERTs by the Postgres protocol /s |\n|--:|--:|--:|--:|");
    let mut figures: [Vec<f64>; 2] = Default::default();
    for seed in 0..arguments.rounds as u64 {
        let Measured { per_second, latency } = http(arguments, http_addr, Asked::Webhook, seed)?;
        let inserts = benches::run::run(&wire(arguments, glimpse, Workload::Insert, seed))?.writes_per_second;
        let (p50, p99) = (latency.quantile_us(0.5), latency.quantile_us(0.99));
        println!("| {per_second:.0} | {p50:.0} | {p99:.0} | {inserts:.0} |");
        figures[0].push(per_second);
        figures[1].push(inserts);
    }
    let [hook, inserts] = figures.map(|mut of| median(&mut of));
    println!("\nof INSERTs by the Postgres protocol {:.2} (bar 0.8)", hook / inserts);
    Ok(())
}

fn reads(arguments: &Arguments, glimpse: &Server) -> Result<()> {
    let mut session = Session::connect(&glimpse.endpoint)?;
    session.execute("CREATE TABLE kv (id int4 NOT NULL, v text NOT NULL)")?;
    session.execute("CREATE INDEX kv_id ON kv (id)")?;
    session.copy_kv(0..arguments.rows)?;
    let canned_addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let mut canned = Command::new(std::env::current_exe()?)
        .args(["--canned", &canned_addr.to_string()])
        .stdin(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(canned_addr).is_err() {
        ensure!(Instant::now() < deadline, "the answers from memory are not served");
        std::thread::sleep(Duration::from_millis(20));
    }
    let http_addr = glimpse.http.context("an HTTP port")?;
    let mut figures: [Vec<f64>; 3] = Default::default();
    println!(
        "| answers from memory /s | point reads by HTTP /s | p50 us | p99 us | by the Postgres protocol /s |\n|--:|--:|--:|--:|--:|"
    );
    for seed in 0..arguments.rounds as u64 {
        let memory = http(arguments, canned_addr, Asked::Canned, seed)?;
        let Measured { per_second, latency } = http(arguments, http_addr, Asked::Point { rows: arguments.rows }, seed)?;
        let wire = benches::run::run(&wire(arguments, glimpse, Workload::Point, seed))?.reads_per_second;
        let (p50, p99) = (latency.quantile_us(0.5), latency.quantile_us(0.99));
        println!("| {:.0} | {per_second:.0} | {p50:.0} | {p99:.0} | {wire:.0} |", memory.per_second);
        for (of, figure) in figures.iter_mut().zip([memory.per_second, per_second, wire]) {
            of.push(figure);
        }
    }
    // Round by round: a machine that others have too is not the same machine in the next.
    let [memory, http, wire] = figures;
    let of = |of: &[f64]| median(&mut http.iter().zip(of).map(|(http, of)| http / of).collect::<Vec<_>>());
    println!(
        "\nof answers from memory {:.2} (bar 0.7), of the Postgres protocol {:.2} (bar 0.35): medians of the rounds' ratios",
        of(&memory),
        of(&wire)
    );
    drop(canned.stdin.take());
    canned.wait()?;
    Ok(())
}

/// Scans by turns.
fn scans(arguments: &Arguments, glimpse: &Server, work_dir: &Path) -> Result<()> {
    let postgres = Server::start_postgres(work_dir, arguments.pg_bin.as_deref(), 10)?;
    for server in [glimpse, &postgres] {
        scan::make(&server.endpoint, arguments.scanned)?;
    }
    Session::connect(&postgres.endpoint)?.execute("VACUUM ANALYZE scanned")?;
    let (http, flight) = (glimpse.http.context("an HTTP port")?, glimpse.flight.context("a Flight port")?);
    let all = Came::all(arguments.scanned);
    let timed = |(came, took): (Came, Duration)| {
        ensure!(came == all, "{came:?} came of {all:?}");
        Ok(came.rows as f64 / took.as_secs_f64() / 1e6)
    };
    // Once, so that nothing is read from the disk.
    timed(scan::by_http(http)?)?;
    timed(scan::by_flight(flight)?)?;
    timed(scan::by_copy(&postgres.endpoint)?)?;
    println!(
        "\n| by HTTP, million rows /s | memory MB | by Flight | memory MB | PostgreSQL's COPY |\n|--:|--:|--:|--:|--:|"
    );
    let mut figures: [Vec<f64>; 3] = Default::default();
    for _ in 0..arguments.rounds {
        let (by_http, http_bytes) = scan::growth(glimpse, || timed(scan::by_http(http)?))?;
        let (by_flight, flight_bytes) = scan::growth(glimpse, || timed(scan::by_flight(flight)?))?;
        let by_copy = timed(scan::by_copy(&postgres.endpoint)?)?;
        let (http_mb, flight_mb) = (http_bytes / 1e6, flight_bytes / 1e6);
        println!("| {by_http:.1} | {http_mb:.0} | {by_flight:.1} | {flight_mb:.0} | {by_copy:.1} |");
        for (of, figure) in figures.iter_mut().zip([by_http, by_flight, by_copy]) {
            of.push(figure);
        }
    }
    let [by_http, by_flight, by_copy] = figures.map(|mut of| median(&mut of));
    println!(
        "\nof PostgreSQL's COPY by HTTP {:.1}, by Flight {:.1} (bar 4); by Flight of by HTTP {:.2} (bar 0.8)",
        by_http / by_copy,
        by_flight / by_copy,
        by_flight / by_http
    );
    Ok(())
}

fn wire(arguments: &Arguments, glimpse: &Server, workload: Workload, seed: u64) -> LoadConfig {
    LoadConfig {
        endpoint: glimpse.endpoint.clone(),
        plan: Plan {
            workload,
            protocol: Protocol::Simple,
            connections: arguments.connections,
            rows: arguments.rows,
            fresh_ids: 10_000_000,
            verify: Verify::Contents,
            describe: false,
            seed,
        },
        threads: arguments.threads,
        warmup: Duration::from_secs_f64(arguments.warmup),
        duration: Duration::from_secs_f64(arguments.duration),
        server_pid: None,
        check_freshness: false,
    }
}
