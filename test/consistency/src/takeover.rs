//! A server that was stopped and replaced answers no read when it goes on.
//!
//! Clients read from the old server all the time. It is stopped, another takes its timeline over and acknowledges a write,
//! the old one goes on. A read that it was asked for after the acknowledgement may get an error, or no answer, but not rows:
//! they would be from before a write that somebody was told of.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use glimpse_test::server::{Launch, Server};

use crate::deployment::{Deployment, LEASE_MS, Setup, Store, connect, wrong};
use crate::stage::{Actor, Answer, Stage};

const READERS: usize = 8;

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Reads that the old server answered before it was replaced.
    pub before: u64,
    /// Reads that it was asked for afterwards, and did not answer.
    pub unanswered: u64,
}

/// Replaces a stopped server. An error says what it answered afterwards.
pub fn run(setup: &Setup, seed: u64) -> anyhow::Result<Report> {
    let mut deployment = Deployment::start(&Setup { store: Store::Postgres, ..setup.clone() })?;
    let mut session = deployment.session()?;
    for sql in ["CREATE TABLE t (a int8)", "CREATE DEFAULT INDEX ON t", "INSERT INTO t VALUES (1)"] {
        session.execute(sql).map_err(|failure| wrong(&failure))?;
    }
    drop(session);
    let stage = Stage::new(vec![deployment.server.internal_sql_addr()]);
    // When the new owner has acknowledged a write.
    let acknowledged_ns = AtomicU64::new(u64::MAX);
    let (before, unanswered) = (AtomicU64::new(0), AtomicU64::new(0));
    let act = |actor: &mut Actor<'_>| {
        let asked = actor.ask(|session| session.rows("SELECT a FROM t"))?;
        let is_after = asked.call_ns > acknowledged_ns.load(Ordering::SeqCst);
        match (asked.answer, is_after) {
            (Answer::Given(rows), true) => stage.report(format!("a server that was replaced answers {rows:?}")),
            (Answer::Given(_), false) => drop(before.fetch_add(1, Ordering::SeqCst)),
            (_, true) => drop(unanswered.fetch_add(1, Ordering::SeqCst)),
            (_, false) => {}
        }
        Some(())
    };
    let _new_owner = stage.beside(READERS, seed, act, || replace(&mut deployment, &stage, &acknowledged_ns))?;
    Ok(Report { before: before.into_inner(), unanswered: unanswered.into_inner() })
}

/// Returns the new owner, once the old one has ended, or somebody has seen it answer.
fn replace(deployment: &mut Deployment, stage: &Stage, acknowledged_ns: &AtomicU64) -> anyhow::Result<Server> {
    stage.wait_for("clients read", || stage.counts().operations >= 1_000)?;
    deployment.server.signal("STOP")?;
    let url = deployment.store_url()?;
    let flags = ["--timestamp-oracle-url", &url, "--timestamp-oracle-lease", LEASE_MS, "--takeover"];
    // On a data directory of its own: what the two share is the time.
    let new = Server::launch(Launch { args: flags.map(str::to_owned).to_vec(), ..Launch::default() });
    let written = new.and_then(|new| {
        let mut session = connect(new.internal_sql_addr())?;
        session.execute("CREATE TABLE t (a int8)").map_err(|failure| wrong(&failure))?;
        session.execute("INSERT INTO t VALUES (2)").map_err(|failure| wrong(&failure))?;
        acknowledged_ns.store(stage.now_ns(), Ordering::SeqCst);
        Ok(new)
    });
    deployment.server.signal("CONT")?;
    let new = written?;
    let status = deployment.server.reap()?;
    ensure!(status.code() == Some(3), "a server that was replaced ends with {status}");
    Ok(new)
}
