//! A stream of changes to the tables of TPC-H: who writes what, and when.
//!
//! Changes to the same key go to the same writer, in order, so that all writers together leave what the changes say. A
//! writer sends each statement in a transaction of its own. The first of them, the *witness*, reads the view after each of its
//! writes: a read that begins when a write was acknowledged must see it, so its answer comes when the view has the write.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tpch::Changes;

use crate::connection::{Connection, Endpoint};
use crate::histogram::Histogram;

/// A statement and when it is due.
struct Step {
    due: Duration,
    sql: String,
}

/// What every writer has to do.
pub struct Plan {
    writers: Vec<Vec<Step>>,
    rows: u64,
}

impl Plan {
    /// At least `rows` changed rows, at `rate` rows per second or, without a rate, as fast as they go.
    pub fn new(changes: &mut Changes, writers: usize, rows: u64, rate: Option<f64>) -> Plan {
        let mut plan = Plan { writers: (0..writers).map(|_| Vec::new()).collect(), rows: 0 };
        while plan.rows < rows {
            let change = changes.next_change();
            let Some(first) = change.first() else { continue };
            let mut hasher = DefaultHasher::new();
            // Orders and their lines have the same first field.
            first.old.as_ref().or(first.new.as_ref()).and_then(|row| row.field(0)).hash(&mut hasher);
            let writer = usize::try_from(hasher.finish() % writers as u64).expect("small");
            let due = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(plan.rows as f64 / rate));
            plan.writers[writer].extend(tpch::statements(&change).into_iter().map(|sql| Step { due, sql }));
            plan.rows += change.len() as u64;
        }
        plan
    }
}

/// How a stream went.
pub struct Streamed {
    /// Rows that changed.
    pub rows: u64,
    /// From the first statement until the view had the last.
    pub elapsed: Duration,
    /// From sending a write until a read after it had seen it.
    pub visible: Histogram,
}

impl Streamed {
    /// Changed rows per second.
    pub fn rate(&self) -> f64 {
        self.rows as f64 / self.elapsed.as_secs_f64()
    }
}

/// Runs a plan; `probe` reads the view.
pub fn run(endpoint: &Endpoint, plan: Plan, probe: &str) -> Result<Streamed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut connections = Vec::new();
        for _ in &plan.writers {
            connections.push(Connection::connect(endpoint).await?);
        }
        let start = Instant::now();
        let mut tasks = Vec::new();
        for (at, (steps, connection)) in plan.writers.into_iter().zip(connections).enumerate() {
            let probe = (at == 0).then(|| probe.to_owned());
            tasks.push(tokio::task::spawn_local(write(connection, steps, start, probe)));
        }
        let mut visible = Histogram::new();
        for task in tasks {
            visible.merge(&task.await.context("a writer panicked")??);
        }
        Connection::connect(endpoint).await?.simple(probe).await?;
        Ok(Streamed { rows: plan.rows, elapsed: start.elapsed(), visible })
    })
}

/// One writer. With a probe it is the witness, and tells how long each of its writes took to be seen.
async fn write(
    mut connection: Connection,
    steps: Vec<Step>,
    start: Instant,
    probe: Option<String>,
) -> Result<Histogram> {
    let mut visible = Histogram::new();
    for step in steps {
        tokio::time::sleep_until((start + step.due).into()).await;
        let sent = Instant::now();
        connection.simple(&step.sql).await?;
        if let Some(probe) = &probe {
            connection.simple(probe).await?;
            visible.record(sent.elapsed());
        }
    }
    Ok(visible)
}
