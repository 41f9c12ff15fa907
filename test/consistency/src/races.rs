//! Readers in the way of compaction, DDL and restarts: no panic, no error and no wrong answer.
//!
//! The rows of a group always change together, so whoever reads a group must find one value in all of its rows, and never a
//! smaller one than before. Meanwhile indexes and views over the table come and go, and history is kept for a millisecond only.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::deployment::{Deployment, Setup, wrong};
use crate::faults::rest;
use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Stage};

const GROUPS: u64 = 16;
const ROWS: u64 = 8;
const READERS: usize = 64;
const WRITERS: usize = 4;
/// How long a server lives, in milliseconds.
const LIVES_MS: std::ops::Range<u64> = 3_000..6_000;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Reads that were answered.
    pub peeks: u64,
    /// Changes of groups.
    pub writes: u64,
    /// Indexes and views that were made or dropped.
    pub ddl: u64,
    /// Restarts.
    pub restarts: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { peeks, writes, ddl, restarts } = self;
        write!(
            f,
            "{peeks} peeks, {writes} writes, {ddl} DDL statements, {restarts} restarts: no panic, no wrong answer"
        )
    }
}

/// What clients share.
#[derive(Default)]
struct Counts {
    peeks: AtomicU64,
    writes: AtomicU64,
    ddl: AtomicU64,
}

/// Lets readers, writers and DDL race for so long.
pub fn run(setup: &Setup, seed: u64, duration: Duration) -> anyhow::Result<Report> {
    let mut setup = setup.clone();
    setup.args.extend(["--retain-history", "1"].map(str::to_owned));
    let mut deployment = Deployment::start(&setup)?;
    prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let (stage, counts) = (Stage::new(vec![deployment.server.internal_sql_addr()]), Counts::default());
    // By reader: what it has seen of each group.
    let seen: Vec<Mutex<Vec<i64>>> =
        (0..READERS).map(|_| Mutex::new(vec![0; usize::try_from(GROUPS).expect("few")])).collect();
    let (mut random, started, mut restarts) = (StdRng::seed_from_u64(seed), Instant::now(), 0);
    let act = |actor: &mut Actor<'_>| match actor.index {
        0 => change(actor, &counts),
        writer if writer <= WRITERS => write(actor, &counts),
        reader => read(actor, &seen[reader - WRITERS - 1], &counts),
    };
    stage.beside(READERS + WRITERS + 1, seed, act, || {
        while started.elapsed() < duration && !stage.is_over() {
            let life = Duration::from_millis(random.random_range(LIVES_MS));
            rest(life, || stage.is_over() || started.elapsed() >= duration);
            deployment.check_log()?;
            deployment.server.kill9()?;
            deployment.server.restart()?;
            restarts += 1;
        }
        Ok(())
    })?;
    deployment.check_log()?;
    let sql = format!("SELECT g FROM race GROUP BY g HAVING min(v) <> max(v) OR count(*) <> {ROWS}");
    let torn = deployment.session()?.rows(&sql).map_err(|failure| wrong(&failure))?;
    ensure!(torn.is_empty(), "groups {torn:?} are torn");
    let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    Ok(Report { peeks: get(&counts.peeks), writes: get(&counts.writes), ddl: get(&counts.ddl), restarts })
}

fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute_each([
        "CREATE TABLE race (g int8, r int8, v int8)".to_owned(),
        "CREATE INDEX race_g ON race (g)".to_owned(),
        "CREATE VIEW race_view AS SELECT g, r, v, v % 2 AS parity FROM race".to_owned(),
        "CREATE INDEX race_view_g ON race_view (g)".to_owned(),
        format!(
            "INSERT INTO race SELECT g, r, 0 FROM generate_series(0, {}) AS a(g), generate_series(1, {ROWS}) AS b(r)",
            GROUPS - 1
        ),
    ])
}

fn read(actor: &mut Actor<'_>, seen: &Mutex<Vec<i64>>, counts: &Counts) -> Option<()> {
    let random = &mut actor.random;
    let group = random.random_range(0..GROUPS);
    let relation = if random.random_bool(0.7) { "race" } else { "race_view" };
    let (prepared, adhoc) = (random.random_bool(0.5), random.random_bool(0.02));
    let asked = actor.ask(|session| {
        let key = i64::try_from(group).expect("few groups");
        let values: Vec<i64> = if prepared {
            let rows = session.prepared(&format!("SELECT v FROM {relation} WHERE g = $1"), &[key])?;
            rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect()
        } else {
            let column = if adhoc { "g + 0" } else { "g" };
            let rows = session.rows(&format!("SELECT v FROM {relation} WHERE {column} = {group}"))?;
            rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect()
        };
        let is_whole = values.len() == usize::try_from(ROWS).expect("few") && values.iter().all(|v| *v == values[0]);
        if is_whole { Ok(values[0]) } else { Err(Failure::Wrong(format!("group {group} of {relation} is {values:?}"))) }
    })?;
    if let Answer::Given(value) = asked.answer {
        let mut seen = seen.lock().expect("nobody panics here");
        let before = &mut seen[usize::try_from(group).expect("few")];
        if value < *before {
            actor.stage.report(format!("group {group} of {relation} went back from {before} to {value}"));
        }
        *before = value;
        counts.peeks.fetch_add(1, Ordering::Relaxed);
    }
    None
}

fn write(actor: &mut Actor<'_>, counts: &Counts) -> Option<()> {
    let group = actor.random.random_range(0..GROUPS);
    let asked = actor.ask(|session| session.execute(&format!("UPDATE race SET v = v + 1 WHERE g = {group}")))?;
    if let Answer::Given(_) = asked.answer {
        counts.writes.fetch_add(1, Ordering::Relaxed);
    }
    None
}

/// Makes what may not be there, and drops what may be: what a kill left of the last change does not matter.
fn change(actor: &mut Actor<'_>, counts: &Counts) -> Option<()> {
    let which = actor.random.random_range(0..3);
    let sql = match actor.random.random_range(0..6) {
        0 => format!("DROP INDEX IF EXISTS race_v_{which}"),
        1 => format!("DROP INDEX IF EXISTS race_v_{which}; CREATE INDEX race_v_{which} ON race (v)"),
        2 => "DROP INDEX IF EXISTS race_g; CREATE INDEX race_g ON race (g)".to_owned(),
        3 => format!("DROP VIEW IF EXISTS race_sum_{which}"),
        4 => format!(
            "DROP VIEW IF EXISTS race_sum_{which}; CREATE VIEW race_sum_{which} AS SELECT g, sum(v) AS s FROM race GROUP BY g;
             CREATE DEFAULT INDEX ON race_sum_{which}"
        ),
        _ => "DROP INDEX IF EXISTS race_view_g; CREATE INDEX race_view_g ON race_view (g)".to_owned(),
    };
    for statement in sql.split(';') {
        let Answer::Given(_) = actor.ask(|session| session.execute(statement))?.answer else { return None };
        counts.ddl.fetch_add(1, Ordering::Relaxed);
    }
    None
}
