//! The queries of TPC-H as indexed views of Glimpse, kept fresh under a stream of inserts, updates and deletes.
//!
//! For each query: how long its index takes to be there, what memory it needs, how many changed rows per second it follows
//! when writers go as fast as they can, and how long a write takes until a read sees it at given rates. Then what reads of a
//! view lose while it changes, and how fast one changed row of the largest table comes through two joins and an aggregate.
//!
//! # Invariants
//! - After its streams each view has the rows of its query run ad hoc in the same transaction, or the benchmark fails.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tpch::{Changes, Data, Mix, Table};

use crate::admin::Session;
use crate::connection::{Connection, Endpoint};
use crate::histogram::Histogram;
use crate::procfs::status_bytes;
use crate::servers::Server;
use crate::stream::{self, Plan, Streamed};

/// How often is looked whether an index is there.
const POLL: Duration = Duration::from_millis(5);
/// How long an index may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Connections that read a view while it changes.
const READERS: usize = 16;
/// Writes of one row that are timed.
const SINGLE_WRITES: usize = 300;

/// A view with a key, for reads of one row.
const SPENT: (&str, &str) =
    ("spent", "SELECT o_custkey, count(*) AS n, sum(o_totalprice) AS total FROM orders GROUP BY o_custkey");
/// A join of the three largest tables and an aggregate.
const SHIPPED: (&str, &str) = (
    "shipped",
    "SELECT c_nationkey, count(*) AS n, sum(l_quantity) AS quantity FROM lineitem JOIN orders ON o_orderkey = l_orderkey
     JOIN customer ON c_custkey = o_custkey GROUP BY c_nationkey",
);

/// What to run.
pub struct Options {
    /// Sizes of the data: 1 has six million lines.
    pub scales: Vec<f64>,
    /// Names of queries; all of them if empty.
    pub only: Vec<String>,
    /// Changed rows per second at which latency is measured.
    pub rates: Vec<u32>,
    /// How long each stream at a rate is.
    pub duration: Duration,
    /// Rows that change in the stream without a rate.
    pub burst_rows: u64,
    /// Connections that write.
    pub writers: usize,
    /// The seed of the changes.
    pub seed: u64,
    /// Where the server keeps its data.
    pub work_dir: PathBuf,
    /// The server, if not the one beside this program.
    pub environmentd: Option<PathBuf>,
}

/// What was measured of one query.
pub struct Line {
    /// The query.
    pub name: String,
    /// From CREATE INDEX until the index was there.
    pub build: Duration,
    /// What the server's resident memory grew by.
    pub bytes: i64,
    /// The stream as fast as it goes.
    pub burst: Streamed,
    /// The streams at the given rates.
    pub paced: Vec<Streamed>,
    /// Rows of the view in the end.
    pub rows: usize,
}

/// What was measured at one scale.
pub struct AtScale {
    /// The scale.
    pub scale: f64,
    /// Rows of `lineitem` at first.
    pub lineitems: u64,
    /// By query.
    pub lines: Vec<Line>,
    /// Reads per second of one row of a view: while nothing changes, and while its table does at the first rate.
    pub reads: (f64, f64),
    /// From sending an UPDATE of one row until a read has seen it come through two joins and an aggregate.
    pub single: Histogram,
}

/// Runs everything and calls `progress` with each line as it comes.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Vec<AtScale>> {
    for name in &options.only {
        ensure!(tpch::queries().any(|(known, _)| known == name), "there is no query named {name}");
    }
    let mut measured = Vec::new();
    for scale in &options.scales {
        measured.push(at_scale(options, *scale, &mut progress)?);
    }
    Ok(measured)
}

fn at_scale(options: &Options, scale: f64, progress: &mut dyn FnMut(&str)) -> Result<AtScale> {
    let server = Server::start_glimpse(&options.work_dir, options.environmentd.as_deref())?;
    let mut session = server.session()?;
    let mut changes = Changes::new(Data::generate(scale), options.seed, Mix::Refresh);
    let started = Instant::now();
    load(&mut session, changes.data())?;
    progress(&format!("scale {scale}: loaded in {:.1} s", started.elapsed().as_secs_f64()));
    let lineitems = session.count("SELECT count(*) FROM lineitem")?;
    let mut lines = Vec::new();
    for (name, query) in tpch::queries() {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            let line = measure(options, &server, &mut session, &mut changes, (name, query)).with_context(|| {
                format!("{name} at scale {scale}; the server's log ends with:\n{}", server.log_tail())
            })?;
            progress(&format!("{name}: built in {:.2} s, {:.0} rows/s", line.build.as_secs_f64(), line.burst.rate()));
            lines.push(line);
        }
    }
    let reads = reads(options, &server, &mut session, &mut changes)?;
    let single = single(&server, &mut session, &changes)?;
    Ok(AtScale { scale, lineitems, lines, reads, single })
}

/// Creates and fills the tables, each with an index on its key.
fn load(session: &mut Session, data: &Data) -> Result<()> {
    for sql in tpch::SCHEMA.split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
        session.execute(sql)?;
    }
    for table in Table::ALL {
        let name = table.name();
        session.copy(name, data.rows(table), |line, row| line.extend_from_slice(row.copy_line().as_bytes()))?;
        let key: Vec<&str> = table.key().iter().map(|at| table.columns()[*at]).collect();
        session.execute(&format!("CREATE INDEX {name}_key ON {name} ({})", key.join(", ")))?;
        wait_hydrated(session, &format!("{name}_key"))?;
    }
    Ok(())
}

fn wait_hydrated(session: &mut Session, index: &str) -> Result<()> {
    let sql = format!(
        "SELECT count(*) FROM mz_internal.mz_hydration_statuses h JOIN mz_indexes i ON i.id = h.object_id
         WHERE i.name = '{index}' AND h.hydrated"
    );
    let deadline = Instant::now() + PATIENCE;
    while session.count(&sql)? == 0 {
        ensure!(Instant::now() < deadline, "index {index} is not there after {} s", PATIENCE.as_secs());
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Creates a view and its index, by all columns if no key is given; how long the index took to be there, and what it added
/// to the server's memory.
fn create(
    server: &Server,
    session: &mut Session,
    (name, query): (&str, &str),
    key: Option<&str>,
) -> Result<(Duration, i64)> {
    let resident = || status_bytes(server.pid(), "VmRSS").map(u64::cast_signed);
    let before = resident()?;
    session.execute(&format!("CREATE VIEW {name} AS {query}"))?;
    let key = match key {
        Some(key) => key.to_owned(),
        None => columns(session, name)?,
    };
    let started = Instant::now();
    session.execute(&format!("CREATE INDEX {name}_index ON {name} ({key})"))?;
    wait_hydrated(session, &format!("{name}_index"))?;
    Ok((started.elapsed(), resident()? - before))
}

/// The columns of a view, in order.
fn columns(session: &mut Session, view: &str) -> Result<String> {
    let rows = session.execute(&format!(
        "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
         WHERE c.relname = '{view}' AND a.attnum > 0 ORDER BY a.attnum"
    ))?;
    Ok(rows.into_iter().flatten().flatten().collect::<Vec<_>>().join(", "))
}

fn measure(
    options: &Options,
    server: &Server,
    session: &mut Session,
    changes: &mut Changes,
    (name, query): (&str, &str),
) -> Result<Line> {
    let (build, bytes) = create(server, session, (name, query), None)?;
    let probe = format!("SELECT * FROM {name} LIMIT 1");
    let mut stream = |rows: u64, rate: Option<f64>| {
        stream::run(&server.endpoint, Plan::new(changes, options.writers, rows, rate), &probe)
    };
    let burst = stream(options.burst_rows, None)?;
    let rate = |rate: &u32| {
        let rows = (f64::from(*rate) * options.duration.as_secs_f64()) as u64;
        stream(rows, Some(f64::from(*rate)))
    };
    let paced = options.rates.iter().map(rate).collect::<Result<Vec<_>>>()?;
    session.execute("BEGIN")?;
    let mut sorted = |sql: &str| -> Result<_> {
        let mut rows = session.execute(sql)?;
        rows.sort();
        Ok(rows)
    };
    let (view, expected) = (sorted(&format!("SELECT * FROM {name}"))?, sorted(query)?);
    ensure!(view == expected, "{name} has {} rows, its query {}, or they differ", view.len(), expected.len());
    session.execute("COMMIT")?;
    session.execute(&format!("DROP VIEW {name} CASCADE"))?;
    Ok(Line { name: name.to_owned(), build, bytes, burst, paced, rows: view.len() })
}

/// Reads of one row per second: idle, and under the first rate.
fn reads(options: &Options, server: &Server, session: &mut Session, changes: &mut Changes) -> Result<(f64, f64)> {
    create(server, session, SPENT, Some("o_custkey"))?;
    let customers = session.count("SELECT count(*) FROM customer")?;
    let idle = read_for(&server.endpoint, customers, options.duration)?;
    let rate = f64::from(options.rates.first().copied().unwrap_or(1_000));
    let rows = (rate * (options.duration.as_secs_f64() + 1.0)) as u64;
    let plan = Plan::new(changes, options.writers, rows, Some(rate));
    let busy = std::thread::scope(|scope| {
        let writing = scope.spawn(|| stream::run(&server.endpoint, plan, "SELECT * FROM spent LIMIT 1"));
        std::thread::sleep(Duration::from_millis(500));
        let busy = read_for(&server.endpoint, customers, options.duration);
        writing.join().expect("no panic in a writer")?;
        busy
    })?;
    session.execute("DROP VIEW spent CASCADE")?;
    Ok((idle, busy))
}

/// Closed loops of point reads; reads per second.
fn read_for(endpoint: &Endpoint, customers: u64, duration: Duration) -> Result<f64> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let started = Instant::now();
        let mut tasks = Vec::new();
        for reader in 0..READERS as u64 {
            let mut connection = Connection::connect(endpoint).await?;
            tasks.push(tokio::task::spawn_local(async move {
                let (mut at, mut count) = (reader * 7_919, 0_u64);
                while started.elapsed() < duration {
                    // A step that shares no factor with usual counts visits all keys.
                    at = (at + 48_271) % customers;
                    let key = (at + 1).to_string();
                    let rows = connection.simple(&format!("SELECT * FROM spent WHERE o_custkey = {key}")).await?;
                    let is_right = rows.iter().all(|row| row.first().and_then(Option::as_ref) == Some(&key));
                    ensure!(rows.len() <= 1 && is_right, "a wrong answer for {key}: {rows:?}");
                    count += 1;
                }
                Ok(count)
            }));
        }
        let mut total = 0;
        for task in tasks {
            total += task.await.context("a reader panicked")??;
        }
        Ok(total as f64 / started.elapsed().as_secs_f64())
    })
}

/// Writes of one row of the largest table, each with a read of the view that depends on it.
fn single(server: &Server, session: &mut Session, changes: &Changes) -> Result<Histogram> {
    create(server, session, SHIPPED, Some("c_nationkey"))?;
    let mut histogram = Histogram::new();
    let lines = changes.data().rows(Table::Lineitem);
    let step = changes.data().rows(Table::Lineitem).count() / SINGLE_WRITES;
    let total = "SELECT sum(quantity) FROM shipped";
    let number = |rows: Vec<Vec<Option<String>>>| -> Result<f64> {
        let value = rows.into_iter().flatten().next().flatten().context("a sum")?;
        Ok(value.parse()?)
    };
    let mut before = number(session.execute(total)?)?;
    for line in lines.step_by(step.max(1)).take(SINGLE_WRITES) {
        let (order, number_of_line) = (line.field(0).unwrap_or_default(), line.field(3).unwrap_or_default());
        let sql = format!(
            "UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey = {order} AND l_linenumber = {number_of_line}"
        );
        let started = Instant::now();
        session.execute(&sql)?;
        let after = number(session.execute(total)?)?;
        histogram.record(started.elapsed());
        ensure!((after - before - 1.0).abs() < 1e-6, "an update moved the sum from {before} to {after}");
        before = after;
    }
    session.execute("DROP VIEW shipped CASCADE")?;
    Ok(histogram)
}
