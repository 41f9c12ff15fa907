//! Ordinary transactions over tables with keys, beside PostgreSQL: `pgbench`'s, and single statements of the kinds that
//! applications send.
//!
//! Both servers have the same tables: a primary key each, a foreign key where a row refers to another, no index besides. They
//! run one after the other, round by round, the order changing. PostgreSQL runs at its default level, READ COMMITTED; Glimpse
//! at its own, strict serializability.
//!
//! # Invariants
//! - Nothing may fail: an error on any connection, or a transaction that `pgbench` counts as failed, ends the benchmark.
//! - After a run the tables have what was acknowledged, not a row more or less.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::admin::Session;
use crate::arguments::{Places, Window};
use crate::connection::{Connection, Endpoint};
use crate::driver::{HOT_ID, Plan, Verify};
use crate::pgbench::Pgbench;
use crate::procfs;
use crate::report::median;
use crate::run::{LoadConfig, run};
use crate::servers::{Server, Target};
use crate::suite::{FRESH_IDS_PER_RUN, SETTLE, copy_kv};
use crate::workload::{Protocol, Random, Statement, Workload};

/// Connections of the largest case.
const CONNECTIONS_MAX: u32 = 64;
/// Threads of the client, ours and `pgbench`'s.
const THREADS: u32 = 2;
/// Of `pgbench -i`: a million accounts, ten branches.
const SCALE: u32 = 10;

/// What is measured, from how many connections, and the least ratio to PostgreSQL that is asked for.
pub struct Case {
    /// Its name in tables, and for `--only`.
    pub name: &'static str,
    /// None for `pgbench`'s script.
    workload: Option<Workload>,
    /// By number of connections.
    pub bars: &'static [(u32, f64)],
    /// The greatest ratio of the 99th percentiles, if there is a bar for them.
    pub p99_bar: Option<f64>,
}

const fn case(name: &'static str, workload: Workload, bars: &'static [(u32, f64)]) -> Case {
    Case { name, workload: Some(workload), bars, p99_bar: None }
}

/// All cases, in the order of the table.
pub const CASES: &[Case] = &[
    Case { name: "tpcb", workload: None, bars: &[(1, 1.0), (4, 1.0), (16, 1.0)], p99_bar: Some(1.5) },
    case("insert", Workload::Insert, &[(1, 1.0)]),
    case("refer", Workload::Refer, &[(1, 1.0), (16, 1.0)]),
    case("update", Workload::Update, &[(1, 1.0), (16, 1.0)]),
    case("upsert", Workload::Upsert, &[(1, 1.0), (16, 1.0)]),
    case("ten", Workload::Ten, &[(16, 1.5)]),
    case("hot", Workload::Hot, &[(CONNECTIONS_MAX, 1.0)]),
];

/// What to run.
pub struct Options {
    /// Names of cases; all of them if empty.
    pub only: Vec<String>,
    /// Simple or prepared.
    pub protocol: Protocol,
    /// Runs of each server per case and number of connections.
    pub rounds: u32,
    /// The time of each run.
    pub window: Window,
    /// Rows of the table that is changed.
    pub rows: u32,
    /// Where servers are.
    pub places: Places,
}

impl Options {
    /// Whether something of that name is to be run.
    pub fn selects(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// What one server did in one run, or the medians of its runs.
#[derive(Clone, Copy)]
pub struct Figures {
    /// Statements per second; of `tpcb` and `ten`, transactions.
    pub per_second: f64,
    /// The median of their latencies.
    pub p50_us: f64,
    /// 99 in 100 took at most this.
    pub p99_us: f64,
    /// CPU of the server for each.
    pub server_cpu_us: f64,
}

/// A case from a number of connections.
pub struct Line {
    /// Medians of the rounds.
    pub glimpse: Figures,
    /// The same of PostgreSQL.
    pub postgres: Figures,
    /// The median of the rounds' ratios of what was done per second.
    pub ratio: f64,
    /// The same of the 99th percentiles.
    pub p99_ratio: f64,
}

/// Both servers with their tables.
pub struct Pair {
    glimpse: Server,
    postgres: Server,
    pgbench: Pgbench,
    options: Options,
    runs: u32,
}

impl Pair {
    /// Starts them, and fills their tables.
    pub fn start(options: Options) -> Result<Pair> {
        ensure!(options.rounds > 0, "nothing to run");
        let mode = match options.protocol {
            Protocol::Simple => "simple",
            Protocol::Prepared => "prepared",
            other => anyhow::bail!("{other:?} is not a protocol of this benchmark"),
        };
        let Places { work_dir, environmentd, pg_bin } = &options.places;
        let pgbench = Pgbench::find(pg_bin.as_deref(), mode)?;
        let glimpse = Server::start_glimpse(work_dir, environmentd.as_deref())?;
        let postgres = Server::start_postgres(work_dir, pg_bin.as_deref(), CONNECTIONS_MAX)?;
        for server in [&glimpse, &postgres] {
            prepare(&server.endpoint, options.rows)?;
            pgbench.initialize(&server.endpoint, SCALE)?;
        }
        postgres.session()?.execute("vacuum analyze")?;
        Ok(Pair { glimpse, postgres, pgbench, options, runs: 0 })
    }

    /// Runs a case from some connections on both, round by round.
    pub fn compare(&mut self, case: &Case, connections: u32) -> Result<Line> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..self.options.rounds {
            for target in
                if round % 2 == 0 { [Target::Glimpse, Target::Postgres] } else { [Target::Postgres, Target::Glimpse] }
            {
                self.runs += 1;
                let server = if target == Target::Glimpse { &self.glimpse } else { &self.postgres };
                let figures = self.measure(server, case, connections).with_context(|| {
                    format!("{} on {}; its log ends with:\n{}", case.name, target.name(), server.log_tail())
                })?;
                eprintln!(
                    "{:7} {connections:3} connections, round {}: {:9} {:9.0} /s, p50 {:.0} us, p99 {:.0} us",
                    case.name,
                    round + 1,
                    target.name(),
                    figures.per_second,
                    figures.p50_us,
                    figures.p99_us
                );
                if target == Target::Glimpse { ours.push(figures) } else { theirs.push(figures) }
            }
        }
        let ratio = |of: fn(&Figures) -> f64| middle(ours.iter().zip(&theirs).map(|(our, their)| of(our) / of(their)));
        Ok(Line {
            ratio: ratio(|figures| figures.per_second)?,
            p99_ratio: ratio(|figures| figures.p99_us)?,
            glimpse: medians(&ours)?,
            postgres: medians(&theirs)?,
        })
    }

    fn measure(&self, server: &Server, case: &Case, connections: u32) -> Result<Figures> {
        match case.workload {
            None => self.tpcb(server, connections),
            Some(workload) => self.statements(server, workload, connections),
        }
    }

    fn tpcb(&self, server: &Server, clients: u32) -> Result<Figures> {
        let Options { window, .. } = &self.options;
        self.pgbench.tpcb(&server.endpoint, clients, THREADS, window.warmup())?;
        let before = procfs::tree_cpu_seconds(server.pid())?;
        let ran = self.pgbench.tpcb(&server.endpoint, clients, THREADS, window.duration())?;
        let cpu_seconds = procfs::tree_cpu_seconds(server.pid())? - before;
        let mut session = server.session()?;
        let sums = "select count(distinct sum) from (select sum(abalance) from pgbench_accounts union all \
                    select sum(tbalance) from pgbench_tellers union all select sum(bbalance) from pgbench_branches \
                    union all select sum(delta) from pgbench_history) as sums";
        ensure!(session.count(sums)? == 1, "the balances do not agree");
        Ok(Figures {
            per_second: ran.per_second,
            p50_us: ran.latency.quantile_us(0.5),
            p99_us: ran.latency.quantile_us(0.99),
            server_cpu_us: cpu_seconds * 1e6 / ran.latency.total().max(1) as f64,
        })
    }

    fn statements(&self, server: &Server, workload: Workload, connections: u32) -> Result<Figures> {
        let Options { protocol, rows, window, .. } = &self.options;
        let plan = Plan {
            workload,
            protocol: *protocol,
            connections,
            rows: *rows,
            fresh_ids: rows + self.runs * FRESH_IDS_PER_RUN,
            verify: Verify::Contents,
            describe: false,
            seed: u64::from(self.runs),
        };
        let mut session = server.session()?;
        session.execute("truncate ins, refer")?;
        session.execute("update hot set n = 0")?;
        let report = run(&LoadConfig {
            endpoint: server.endpoint.clone(),
            plan,
            threads: THREADS,
            warmup: window.warmup(),
            duration: window.duration(),
            server_pid: Some(server.pid()),
            check_freshness: false,
        })?;
        self.check(&mut session, workload, report.rows_written)?;
        Ok(Figures {
            per_second: report.qps,
            p50_us: report.latency.p50_us,
            p99_us: report.latency.p99_us,
            server_cpu_us: report.server_cpu_us.context("we know its process")?,
        })
    }

    /// That the tables have what was acknowledged; removes the new rows of `kv`.
    fn check(&self, session: &mut Session, workload: Workload, written: u64) -> Result<()> {
        let rows = u64::from(self.options.rows);
        let (sql, expected) = match workload {
            Workload::Insert => ("select count(*) from ins".to_owned(), written),
            Workload::Refer => ("select count(*) from refer join kv on kv.id = refer.kv".to_owned(), written),
            Workload::Hot => (format!("select n from hot where id = {HOT_ID}"), written),
            // A value says which row it is of.
            _ => (
                format!("select count(*) from kv where id < {rows} and v like 'v' || lpad(id::text, 7, '0') || '-%'"),
                rows,
            ),
        };
        let found = session.count(&sql)?;
        ensure!(found == expected, "{sql}: {found}, not {expected}");
        session.execute(&format!("delete from kv where id >= {rows}"))?;
        Ok(())
    }
}

/// Makes the tables and fills `kv`.
pub fn prepare(endpoint: &Endpoint, rows: u32) -> Result<()> {
    let mut session = Session::connect(endpoint)?;
    for sql in [
        "create table kv (id int4 primary key, v text)",
        "create table ins (id int4 primary key, v text)",
        "create table refer (id int4 primary key, kv int4 references kv)",
        "create table hot (id int4 primary key, n int4)",
        &format!("insert into hot values ({HOT_ID}, 0)"),
    ] {
        session.execute(sql)?;
    }
    copy_kv(&mut session, rows)?;
    let found = session.execute(&format!("select * from kv where id = {}", rows - 1))?;
    ensure!(found.len() == 1, "the last loaded row is not there");
    Ok(())
}

/// Transactions that read a row, think, and change it, beside commits to other rows.
pub struct Thoughts {
    /// How many there were.
    pub transactions: u32,
    /// Commits per second beside them.
    pub commits_per_second: f64,
}

/// Connections that think, each about a row of its own, and what they do how often.
const THINKERS: u32 = 8;
const THOUGHTS_EACH: u32 = 5;
const THINKING: Duration = Duration::from_secs(2);
/// Connections that commit meanwhile, and how often they do together, per second.
const WRITERS: u32 = 16;
const COMMITS_PER_SECOND: u32 = 3_000;

impl Pair {
    /// The thinkers on Glimpse, at its own level. One that fails, with 40001 or else, is an error.
    pub fn think(&self) -> Result<Thoughts> {
        let (endpoint, rows) = (&self.glimpse.endpoint, self.options.rows);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, async {
            let start = Instant::now();
            let until = start + THINKING * THOUGHTS_EACH;
            let mut thinkers = Vec::new();
            for id in 0..THINKERS {
                let connection = Connection::connect(endpoint).await?;
                thinkers.push(tokio::task::spawn_local(thinker(connection, id)));
            }
            let mut writers = Vec::new();
            for at in 0..WRITERS {
                let connection = Connection::connect(endpoint).await?;
                writers.push(tokio::task::spawn_local(writer(connection, at, rows, until)));
            }
            for thinker in thinkers {
                thinker.await.context("a thinker panicked")??;
            }
            let mut commits = 0;
            for writer in writers {
                commits += writer.await.context("a writer panicked")??;
            }
            let seconds = start.elapsed().as_secs_f64();
            Ok(Thoughts { transactions: THINKERS * THOUGHTS_EACH, commits_per_second: f64::from(commits) / seconds })
        })
    }
}

async fn thinker(mut connection: Connection, id: u32) -> Result<()> {
    for thought in 0..THOUGHTS_EACH {
        connection.simple("begin").await?;
        let rows = connection.simple(&Statement::Point.text(id, 0)).await?;
        ensure!(rows.len() == 1, "{} rows with id {id}", rows.len());
        tokio::time::sleep(THINKING).await;
        connection.simple(&Statement::Update.text(id, thought)).await?;
        connection.simple("commit").await?;
    }
    Ok(())
}

/// Changes other rows at its share of the rate; how many it changed.
async fn writer(mut connection: Connection, at: u32, rows: u32, until: Instant) -> Result<u32> {
    let (mut random, mut commits) = (Random::new(u64::from(at)), 0);
    let start = Instant::now();
    while Instant::now() < until {
        let due = start + Duration::from_secs_f64(f64::from(commits * WRITERS) / f64::from(COMMITS_PER_SECOND));
        tokio::time::sleep_until(due.into()).await;
        let id = THINKERS + random.below(rows - THINKERS);
        connection.simple(&Statement::Update.text(id, commits)).await?;
        commits += 1;
    }
    Ok(commits)
}

/// What a fresh Glimpse's resident memory grows by when `rows` rows come into a table: with a primary key, and with an index on the
/// same column instead.
pub fn memory(places: &Places, rows: u32) -> Result<[u64; 2]> {
    let grown = |tables: &[&str]| -> Result<u64> {
        let server = Server::start_glimpse(&places.work_dir, places.environmentd.as_deref())?;
        let mut session = server.session()?;
        let empty = procfs::status_bytes(server.pid(), "VmRSS")?;
        for sql in tables {
            session.execute(sql)?;
        }
        copy_kv(&mut session, rows)?;
        let found = session.execute(&format!("select * from kv where id = {}", rows - 1))?;
        ensure!(found.len() == 1, "the last loaded row is not there");
        std::thread::sleep(SETTLE);
        Ok(procfs::status_bytes(server.pid(), "VmRSS")?.saturating_sub(empty))
    };
    Ok([
        grown(&["create table kv (id int4 primary key, v text)"])?,
        grown(&["create table kv (id int4 not null, v text)", "create index on kv (id)"])?,
    ])
}

fn middle(values: impl Iterator<Item = f64>) -> Result<f64> {
    median(values.collect()).context("there are rounds")
}

fn medians(runs: &[Figures]) -> Result<Figures> {
    let of = |field: fn(&Figures) -> f64| middle(runs.iter().map(field));
    Ok(Figures {
        per_second: of(|figures| figures.per_second)?,
        p50_us: of(|figures| figures.p50_us)?,
        p99_us: of(|figures| figures.p99_us)?,
        server_cpu_us: of(|figures| figures.server_cpu_us)?,
    })
}
