//! The suite: which workloads run, on which servers, in which order.
//!
//! How, in steps:
//! 1. Start the servers; load one million rows into each; measure memory.
//! 2. For each case and each number of connections, run the servers one after the other, `rounds` times, the order
//!    rotating, so that what the machine does beside us hits all of them alike.
//! 3. After each run that wrote, count the rows: every acknowledged row must be there.
//!
//! # Invariants
//! - Ids of new rows are never reused between runs of one server: `fresh_ids` only grows.
//! - No two servers are under load at the same time.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::admin::Session;
use crate::arguments::{Places, Window};
use crate::connection::Endpoint;
use crate::driver::{Plan, Verify};
use crate::machine::Machine;
use crate::procfs;
use crate::run::{LoadConfig, LoadReport, run};
use crate::servers::{Server, Target};
use crate::workload::{Protocol, STAR_ID, Workload};

/// Rows per COPY while loading.
const LOAD_CHUNK_ROWS: u32 = 100_000;
/// Ids set aside for the new rows of one run.
pub(crate) const FRESH_IDS_PER_RUN: u32 = 2_000_000;
/// How long the servers may settle before their memory is read.
pub(crate) const SETTLE: Duration = Duration::from_secs(3);

/// One workload over one protocol.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name in tables, and for `--only`.
    pub name: &'static str,
    /// The name that selects it together with its siblings.
    pub group: &'static str,
    /// What is asked.
    pub workload: Workload,
    /// How.
    pub protocol: Protocol,
    /// Whether over TLS.
    pub tls: bool,
    /// The name under which point reads without writes and without TLS are recorded that run right before on the same server, for
    /// comparison.
    pub beside: Option<&'static str>,
}

const fn case(name: &'static str, group: &'static str, workload: Workload, protocol: Protocol) -> Case {
    Case { name, group, workload, protocol, tls: false, beside: None }
}

/// All cases, in the order of the table.
pub const CASES: &[Case] = &[
    case("select_star", "select_star", Workload::SelectStar, Protocol::Simple),
    case("point_simple", "point", Workload::Point, Protocol::Simple),
    case("point_prepared", "point", Workload::Point, Protocol::Prepared),
    case("point_binary", "point", Workload::Point, Protocol::Binary),
    case("pipelined", "pipelined", Workload::Point, Protocol::Pipelined),
    Case { tls: true, beside: Some("simple_plain"), ..case("simple_tls", "tls", Workload::Point, Protocol::Simple) },
    Case {
        tls: true,
        beside: Some("prepared_plain"),
        ..case("prepared_tls", "tls", Workload::Point, Protocol::Prepared)
    },
    Case { beside: Some(READS_ALONE), ..case("mixed", "mixed", Workload::Mixed, Protocol::Simple) },
    case("insert_simple", "insert", Workload::Insert, Protocol::Simple),
    case("insert_prepared", "insert", Workload::Insert, Protocol::Prepared),
    case("insert_multi", "insert", Workload::Insert, Protocol::MultiRow),
    case("insert_copy", "insert", Workload::Insert, Protocol::Copy),
];

/// The name under which `mixed` records the reads without writes that it is compared with.
pub const READS_ALONE: &str = "reads_alone";
/// The name that selects the memory measurement.
pub const MEMORY: &str = "memory";

/// What to run, and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers.
    pub targets: Vec<Target>,
    /// Names of cases or groups; empty means all.
    pub only: Vec<String>,
    /// Numbers of connections.
    pub connections: Vec<u32>,
    /// Runs of each server per case and number of connections.
    pub rounds: u32,
    /// Measured time of a run.
    pub duration: Duration,
    /// Unmeasured time before it.
    pub warmup: Duration,
    /// Rows of `kv`.
    pub rows: u32,
    /// Client threads.
    pub threads: u32,
    /// Whether extended queries describe their portal, as libpq does.
    pub describe: bool,
    /// The first seed; each run takes the next.
    pub seed: u64,
    /// Where servers are.
    pub places: Places,
}

impl Options {
    /// Refuses names that select nothing.
    pub fn check(&self) -> Result<()> {
        for name in &self.only {
            let known = name == MEMORY || CASES.iter().any(|case| case.name == name || case.group == name);
            ensure!(known, "there is no workload named {name}");
        }
        ensure!(!self.targets.is_empty() && !self.connections.is_empty() && self.rounds > 0, "nothing to run");
        Ok(())
    }

    fn selects(&self, case: &Case) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| case.name == name || case.group == name)
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The case, or the name of what ran beside it.
    pub case: &'static str,
    /// Connections.
    pub connections: u32,
    /// Which repetition.
    pub round: u32,
    /// Which server.
    pub target: Target,
    /// What was measured.
    pub report: LoadReport,
}

/// Resident memory around loading `kv` and indexing it.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Rows loaded.
    pub rows: u32,
    /// Before there was any table.
    pub empty_bytes: u64,
    /// With table and index, settled.
    pub loaded_bytes: u64,
    /// The largest it ever was.
    pub peak_bytes: u64,
    /// Seconds that loading took.
    pub load_seconds: f64,
    /// Seconds that creating the index took.
    pub index_seconds: f64,
}

/// Everything that a suite found.
pub struct Results {
    /// Where it ran.
    pub machine: Machine,
    /// What it ran.
    pub options: Options,
    /// Versions of the servers.
    pub versions: Vec<(Target, String)>,
    /// Memory of Glimpse, when it ran.
    pub memory: Option<Memory>,
    /// All runs.
    pub measurements: Vec<Measurement>,
}

/// The running servers. A floor per shape of rows, since it parses nothing that could tell it the shape.
struct Fleet {
    servers: Vec<Server>,
    floor_t: Option<Server>,
    floor_kv: Option<Server>,
    runs: u32,
}

/// Runs everything that `options` select.
pub fn run_suite(options: Options) -> Result<Results> {
    options.check()?;
    let machine = Machine::inspect(&options.places.work_dir)?;
    eprintln!("{}", machine.line());
    let mut memory = None;
    let mut fleet = Fleet::start(&options)?;
    for server in &fleet.servers {
        let used = load(server, options.rows).with_context(|| failed(server))?;
        // PostgreSQL's memory is shared between processes and sized by its settings: not comparable.
        memory = memory.or((server.target == Target::Glimpse).then_some(used));
    }
    let mut measurements = Vec::new();
    for case in CASES.iter().filter(|case| options.selects(case)) {
        for connections in &options.connections {
            for round in 0..options.rounds {
                fleet.run_round(&options, case, *connections, round, &mut measurements)?;
            }
        }
    }
    let versions = fleet.servers.iter().map(|server| (server.target, server.version())).collect();
    Ok(Results { machine, options, versions, memory, measurements })
}

impl Fleet {
    fn start(options: &Options) -> Result<Self> {
        let Places { work_dir, environmentd, pg_bin } = &options.places;
        let mut fleet = Self { servers: Vec::new(), floor_t: None, floor_kv: None, runs: 0 };
        for target in &options.targets {
            eprintln!("starting {}", target.name());
            match target {
                Target::Floor => {
                    fleet.floor_t = Some(Server::start_floor(work_dir, "t")?);
                    fleet.floor_kv = Some(Server::start_floor(work_dir, "kv")?);
                }
                Target::Glimpse => {
                    fleet.servers.push(Server::start_glimpse(work_dir, environmentd.as_deref())?);
                }
                Target::Postgres => {
                    let most = options.connections.iter().copied().max().unwrap_or(1);
                    fleet.servers.push(Server::start_postgres(work_dir, pg_bin.as_deref(), most)?);
                }
            }
        }
        Ok(fleet)
    }

    /// The servers that a case runs on. Writes are not compared with a floor: nothing durable is free. Nor is what is encrypted.
    fn servers_for(&self, case: &Case) -> Vec<&Server> {
        let floor = match case.workload {
            _ if case.tls => None,
            Workload::SelectStar => self.floor_t.as_ref(),
            Workload::Point => self.floor_kv.as_ref(),
            _ => None,
        };
        floor.into_iter().chain(&self.servers).collect()
    }

    fn run_round(
        &mut self,
        options: &Options,
        case: &Case,
        connections: u32,
        round: u32,
        measurements: &mut Vec<Measurement>,
    ) -> Result<()> {
        let mut runs = self.runs;
        let mut servers = self.servers_for(case);
        if servers.is_empty() {
            bail!("{} needs a server that holds data: add glimpse or postgres to --targets", case.name);
        }
        let first = round as usize % servers.len();
        servers.rotate_left(first);
        for server in servers {
            let mut one = |case: &Case| -> Result<()> {
                let config = load_config(options, case, connections, server, runs);
                let report = measure(server, &config).with_context(|| failed(server))?;
                runs += 1;
                eprintln!("{}", progress(case.name, connections, round, server, &report));
                measurements.push(Measurement { case: case.name, connections, round, target: server.target, report });
                Ok(())
            };
            if let Some(name) = case.beside {
                one(&Case { name, workload: Workload::Point, tls: false, ..*case })?;
            }
            one(case)?;
        }
        self.runs = runs;
        Ok(())
    }
}

fn load_config(options: &Options, case: &Case, connections: u32, server: &Server, runs: u32) -> LoadConfig {
    LoadConfig {
        endpoint: if case.tls { server.over_tls() } else { server.endpoint.clone() },
        plan: Plan {
            workload: case.workload,
            protocol: case.protocol,
            connections,
            rows: options.rows,
            fresh_ids: options.rows + runs * FRESH_IDS_PER_RUN,
            verify: if server.target == Target::Floor { Verify::Shape } else { Verify::Contents },
            describe: options.describe,
            seed: options.seed + u64::from(runs),
        },
        threads: options.threads,
        warmup: options.warmup,
        duration: options.duration,
        server_pid: Some(server.pid()),
        check_freshness: true,
    }
}

/// One run, with the table that it needs and the count that proves it.
fn measure(server: &Server, config: &LoadConfig) -> Result<LoadReport> {
    match config.plan.workload {
        Workload::Mixed => {
            let report = run(config)?;
            // Half of the writes are new rows and half are updates; clean up so that runs start alike.
            server.session()?.execute(&format!("delete from kv where id >= {}", config.plan.rows))?;
            Ok(report)
        }
        Workload::Insert => {
            let mut session = server.session()?;
            session.execute("drop table if exists ins")?;
            create_table(&mut session, server.target, "ins")?;
            create_index(&mut session, server.target, "ins")?;
            let report = run(config)?;
            let count = session.count("select count(*) from ins")?;
            ensure!(count == report.rows_written, "{} rows acknowledged, {count} there", report.rows_written);
            Ok(report)
        }
        _ => run(config),
    }
}

fn load(server: &Server, rows: u32) -> Result<Memory> {
    let empty_bytes = procfs::status_bytes(server.pid(), "VmRSS")?;
    let (load_seconds, index_seconds) = prepare(&server.endpoint, server.target, rows)?;
    sleep(SETTLE);
    let loaded_bytes = procfs::status_bytes(server.pid(), "VmRSS")?;
    eprintln!("{}: loaded {rows} rows in {load_seconds:.1} s, index in {index_seconds:.1} s", server.target.name());
    Ok(Memory {
        rows,
        empty_bytes,
        loaded_bytes,
        peak_bytes: procfs::status_bytes(server.pid(), "VmHWM")?,
        load_seconds,
        index_seconds,
    })
}

/// Reads by key of a prepared server's rows, beside a session that writes and one that must see it. `run_number` counts the runs
/// of one server.
pub fn point_reads(
    server: &Server,
    protocol: Protocol,
    connections: u32,
    rows: u32,
    window: Window,
    run_number: u32,
) -> Result<LoadReport> {
    let plan = Plan {
        workload: Workload::Point,
        protocol,
        connections,
        rows,
        fresh_ids: rows + run_number * FRESH_IDS_PER_RUN,
        verify: Verify::Contents,
        describe: false,
        seed: u64::from(run_number),
    };
    let report = run(&LoadConfig {
        endpoint: server.endpoint.clone(),
        plan,
        threads: 2,
        warmup: window.warmup(),
        duration: window.duration(),
        server_pid: Some(server.pid()),
        check_freshness: true,
    });
    report.with_context(|| format!("its log ends with:\n{}", server.log_tail()))
}

/// Makes and fills the tables, indexes them, and checks that everything is there; seconds of loading and of indexing.
pub fn prepare(endpoint: &Endpoint, target: Target, rows: u32) -> Result<(f64, f64)> {
    let mut session = Session::connect(endpoint)?;
    session.execute("create table t (id text, value int4)")?;
    session.execute(&format!("insert into t values ('{STAR_ID}', 42)"))?;
    create_table(&mut session, target, "kv")?;
    let start = Instant::now();
    copy_kv(&mut session, rows)?;
    let load_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    create_index(&mut session, target, "kv")?;
    match target {
        Target::Glimpse => session.execute("create default index on t")?,
        Target::Floor | Target::Postgres => session.execute("vacuum analyze")?,
    };
    // The first read waits until the index is there.
    let found = session.execute(&format!("select * from kv where id = {}", rows - 1))?;
    ensure!(found.len() == 1, "the last loaded row is not there");
    let index_seconds = start.elapsed().as_secs_f64();
    let count = session.count("select count(*) from kv")?;
    ensure!(count == u64::from(rows), "loaded {rows} rows, {count} are there");
    Ok((load_seconds, index_seconds))
}

/// Fills `kv` with the rows `0..rows`.
pub(crate) fn copy_kv(session: &mut Session, rows: u32) -> Result<()> {
    for first in (0..rows).step_by(LOAD_CHUNK_ROWS as usize) {
        session.copy_kv(first..rows.min(first + LOAD_CHUNK_ROWS))?;
    }
    Ok(())
}

fn create_table(session: &mut Session, target: Target, name: &str) -> Result<()> {
    let key = if target == Target::Postgres { " primary key" } else { "" };
    session.execute(&format!("create table {name} (id int4{key}, v text)"))?;
    Ok(())
}

fn create_index(session: &mut Session, target: Target, name: &str) -> Result<()> {
    if target == Target::Glimpse {
        session.execute(&format!("create index on {name} (id)"))?;
    }
    Ok(())
}

fn failed(server: &Server) -> String {
    format!("{} failed; its log ends with:\n{}\n", server.target.name(), server.log_tail())
}

fn progress(name: &str, connections: u32, round: u32, server: &Server, report: &LoadReport) -> String {
    format!(
        "{name:16} {connections:5} connections, round {}: {:9} {:10.0} /s, p50 {:.0} us, p99 {:.0} us, server {:.2} us",
        round + 1,
        server.target.name(),
        report.qps,
        report.latency.p50_us,
        report.latency.p99_us,
        report.server_cpu_us.unwrap_or(0.0)
    )
}
