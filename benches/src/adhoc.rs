//! Ad hoc queries over the tables of TPC-H, beside PostgreSQL, and beside DuckDB and stock DataFusion in memory where these are found.
//!
//! All have the same rows, from the same files, and no keys or indexes, unless primary keys are asked for. Query by query, round by round,
//! one server runs after the other, warm; figures are medians. PostgreSQL gives up a query after a minute, and is asked once for what takes it long.
//!
//! # Invariants
//! - Glimpse's answer is PostgreSQL's, row by row and digit by digit, wherever PostgreSQL gives one.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tpch::{Data, Table};

use crate::admin::Session;
use crate::arguments::Places;
use crate::report::median;
use crate::servers::Server;

/// How long PostgreSQL may take for a query.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);
/// What takes it longer is not repeated.
const LONG: Duration = Duration::from_secs(5);
/// Queries beside those of TPC-H: what a scan costs.
const SCANS: [(&str, &str); 3] = [
    ("count", "SELECT count(*) FROM lineitem"),
    ("filtered", "SELECT count(*) FROM lineitem WHERE l_quantity > 10"),
    ("total", "SELECT sum(l_quantity) FROM lineitem"),
];
/// What changes one row of a hundred of the largest table, and removes another.
const CHURN: [&str; 2] = [
    "UPDATE lineitem SET l_comment = 'changed', l_tax = l_tax + 0.01 WHERE (l_orderkey * 7 + l_linenumber * 31 + l_partkey) % 100 = 0",
    "DELETE FROM lineitem WHERE (l_orderkey * 7 + l_linenumber * 31 + l_partkey) % 100 = 1",
];
/// The primary keys.
const KEYS: [(&str, &str); 8] = [
    ("region", "r_regionkey"),
    ("nation", "n_nationkey"),
    ("part", "p_partkey"),
    ("supplier", "s_suppkey"),
    ("partsupp", "ps_partkey, ps_suppkey"),
    ("customer", "c_custkey"),
    ("orders", "o_orderkey"),
    ("lineitem", "l_orderkey, l_linenumber"),
];
/// What runs in Python: the module that has it, and how it is run.
const DUCKDB: (&str, &str) = ("duckdb", include_str!("duckdb.py"));
const DATAFUSION: (&str, &str) = ("datafusion", include_str!("datafusion.py"));

/// What to run.
pub struct Options {
    /// Names of queries; all of them if empty.
    pub only: Vec<String>,
    /// 1 has six million rows in the largest table.
    pub scale: f64,
    /// Runs of each query.
    pub rounds: u32,
    /// Whether the servers' tables have their primary keys.
    pub keys: bool,
    /// A Python that has DuckDB, or DataFusion, or both.
    pub python: PathBuf,
    /// Where servers are.
    pub places: Places,
}

/// What a query took, in milliseconds.
pub struct Line {
    /// The query's name.
    pub name: &'static str,
    /// Median of Glimpse's runs.
    pub glimpse: f64,
    /// The same of PostgreSQL; `None` if it gave up.
    pub postgres: Option<f64>,
    /// The same of DuckDB, if there is one.
    pub duckdb: Option<f64>,
    /// The same of DataFusion, if there is one.
    pub datafusion: Option<f64>,
}

/// What loading took, in seconds.
pub struct Loaded {
    /// COPY of all tables into Glimpse.
    pub glimpse: f64,
    /// The same into PostgreSQL.
    pub postgres: f64,
    /// The same with its VACUUM ANALYZE.
    pub analyzed: f64,
    /// Bytes of Glimpse's blobs.
    pub glimpse_bytes: u64,
    /// Bytes of PostgreSQL's tables.
    pub postgres_bytes: u64,
}

/// The servers with their tables.
pub struct Rivals {
    glimpse: Server,
    postgres: Server,
    duckdb: Option<InPython>,
    datafusion: Option<InPython>,
    options: Options,
}

/// All queries: their names, and what they ask.
pub fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCANS.into_iter().chain(tpch::queries())
}

impl Rivals {
    /// Starts them, and fills their tables.
    pub fn start(options: Options) -> Result<(Rivals, Loaded)> {
        ensure!(options.rounds > 0, "nothing to run");
        let Places { work_dir, environmentd, pg_bin } = &options.places;
        let lines = lines(options.scale, work_dir)?;
        let glimpse = Server::start_glimpse(work_dir, environmentd.as_deref())?;
        let postgres = Server::start_postgres(work_dir, pg_bin.as_deref(), 10)?;
        let seconds = |server: &Server| -> Result<f64> {
            let started = Instant::now();
            load(&mut server.session()?, lines.path(), options.keys)?;
            Ok(started.elapsed().as_secs_f64())
        };
        let (of_glimpse, of_postgres) = (seconds(&glimpse)?, seconds(&postgres)?);
        let started = Instant::now();
        postgres.session()?.execute("VACUUM ANALYZE")?;
        let analyzed = of_postgres + started.elapsed().as_secs_f64();
        let in_python = |rival| InPython::start(rival, &options.python, work_dir, lines.path());
        let (duckdb, datafusion) = (in_python(DUCKDB)?, in_python(DATAFUSION)?);
        let sizes = Table::ALL.map(|table| format!("pg_table_size('{}')", table.name()));
        let size = postgres.session()?.execute(&format!("SELECT {}", sizes.join(" + ")))?;
        let size = size.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        let loaded = Loaded {
            glimpse: of_glimpse,
            postgres: of_postgres,
            analyzed,
            glimpse_bytes: glimpse.stored_bytes("blobs")?,
            postgres_bytes: size.context("PostgreSQL does not say how large its tables are")?,
        };
        Ok((Rivals { glimpse, postgres, duckdb, datafusion, options }, loaded))
    }

    /// Runs a query everywhere.
    pub fn compare(&mut self, (name, query): (&'static str, &'static str)) -> Result<Line> {
        let (mut ours, mut theirs) = (self.glimpse.session()?, self.postgres.session()?);
        theirs.execute(&format!("SET statement_timeout = {}", GIVEN_UP_AFTER.as_millis()))?;
        let (answer, _) = timed(&mut ours, query).with_context(|| format!("{name}\n{}", self.glimpse.log_tail()))?;
        let first = timed(&mut theirs, query);
        if let Ok((expected, _)) = &first {
            ensure!(sorted(&answer) == sorted(expected), "{name}: Glimpse and PostgreSQL differ");
        } else if !first.as_ref().is_err_and(|error| format!("{error:#}").contains("57014")) {
            bail!("{name} fails in PostgreSQL: {:#}", first.err().context("it failed")?);
        }
        let mut others = [&mut self.duckdb, &mut self.datafusion].map(|rival| (rival, Vec::new()));
        for (rival, _) in &mut others {
            rival.as_mut().map(|rival| rival.run(query)).transpose()?;
        }
        let (mut glimpse, mut postgres) = (Vec::new(), Vec::new());
        let repeats = first.as_ref().is_ok_and(|(_, took)| *took < LONG);
        for _ in 0..self.options.rounds {
            glimpse.push(millis(timed(&mut ours, query)?.1));
            if repeats {
                postgres.push(millis(timed(&mut theirs, query)?.1));
            }
            for (rival, took) in &mut others {
                took.extend(rival.as_mut().map(|rival| rival.run(query)).transpose()?.map(millis));
            }
        }
        if let (false, Ok((_, took))) = (repeats, &first) {
            postgres.push(millis(*took));
        }
        let glimpse = median(glimpse).context("there was a round")?;
        let [duckdb, datafusion] = others.map(|(_, took)| median(took));
        Ok(Line { name, glimpse, postgres: median(postgres), duckdb, datafusion })
    }

    /// Changes and removes rows everywhere but in DataFusion, which does not: it is no rival any more.
    pub fn churn(&mut self) -> Result<()> {
        self.datafusion = None;
        for sql in CHURN {
            self.glimpse.session()?.execute(sql)?;
            self.postgres.session()?.execute(sql)?;
            if let Some(duckdb) = &mut self.duckdb {
                duckdb.run(sql)?;
            }
        }
        Ok(())
    }

    /// Whether a query is to be run.
    pub fn selects(&self, name: &str) -> bool {
        self.options.only.is_empty() || self.options.only.iter().any(|only| only == name)
    }
}

/// The statements that create the tables.
fn schema() -> Vec<String> {
    let lines: Vec<&str> = tpch::SCHEMA.lines().filter(|line| !line.starts_with("--")).collect();
    lines.join(" ").split(';').map(|sql| sql.trim().to_owned()).filter(|sql| !sql.is_empty()).collect()
}

/// The lines of all tables, in a file each.
fn lines(scale: f64, work_dir: &Path) -> Result<TempDir> {
    let data = Data::generate(scale);
    let dir = tempfile::Builder::new().prefix("tpch").tempdir_in(work_dir)?;
    for table in Table::ALL {
        let mut file = BufWriter::new(File::create(dir.path().join(table.name()))?);
        for row in data.rows(table) {
            writeln!(file, "{}", row.copy_line())?;
        }
        file.flush()?;
        // What is left to be written would be while the first of the servers loads.
        file.get_ref().sync_all()?;
    }
    Ok(dir)
}

fn load(session: &mut Session, lines: &Path, keys: bool) -> Result<()> {
    for sql in schema() {
        session.execute(&sql)?;
    }
    for (table, key) in KEYS.iter().filter(|_| keys) {
        session.execute(&format!("ALTER TABLE {table} ADD PRIMARY KEY ({key})"))?;
    }
    Table::ALL.iter().try_for_each(|table| session.copy_file(table.name(), &lines.join(table.name())))
}

type Rows = Vec<Vec<Option<String>>>;

fn timed(session: &mut Session, query: &str) -> Result<(Rows, Duration)> {
    let started = Instant::now();
    let rows = session.execute(query)?;
    Ok((rows, started.elapsed()))
}

/// The rows, in an order that does not depend on who gives them.
fn sorted(rows: &Rows) -> Rows {
    let mut rows = rows.clone();
    rows.sort();
    rows
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// An engine in memory, with two threads, in a Python of its own.
struct InPython {
    name: &'static str,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its program.
    _dir: TempDir,
}

impl InPython {
    /// Starts it with these lines, if that Python has one.
    fn start(
        (name, program): (&'static str, &str),
        python: &Path,
        work_dir: &Path,
        lines: &Path,
    ) -> Result<Option<InPython>> {
        let is_there = Command::new(python).args(["-c", &format!("import {name}")]).stderr(Stdio::null()).status();
        if !is_there.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let dir = tempfile::Builder::new().prefix(name).tempdir_in(work_dir)?;
        let path = dir.path().join("rival.py");
        std::fs::write(&path, program)?;
        let mut command = Command::new(python);
        command.arg(&path).arg(lines).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot run {name}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("{name} has no pipes");
        };
        let mut rival = InPython { name, process, input, output: BufReader::new(output), _dir: dir };
        for sql in schema() {
            rival.run(&sql)?;
        }
        for table in Table::ALL {
            rival.run(&format!("LOAD TABLE {}", table.name()))?;
        }
        Ok(Some(rival))
    }

    fn run(&mut self, sql: &str) -> Result<Duration> {
        writeln!(self.input, "{}", sql.replace('\n', " "))?;
        self.input.flush()?;
        let mut reply = String::new();
        self.output.read_line(&mut reply)?;
        let seconds = reply.trim().parse().with_context(|| format!("{} says {reply:?} to {sql}", self.name))?;
        Ok(Duration::from_secs_f64(seconds))
    }
}

impl Drop for InPython {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
