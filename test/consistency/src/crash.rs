//! What was acknowledged is there after `kill -9`, once, and all of a statement or nothing; and a disk that is full loses nothing.
//!
//! Writers insert numbered rows, one or many at a time, by statements and by blocks. Time is cut into *cycles*, one per kill: a
//! row says in which cycle it was asked for. After a restart the rows of the cycle that was cut off are compared with what its
//! writers were told.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use glimpse_test::http;
use glimpse_test::server::find_binary;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::deployment::{Deployment, Setup, wrong};
use crate::faults::rest;
use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Stage};

const WRITERS: usize = 16;
/// When the server is killed, in milliseconds after its last start.
const LIVES_MS: std::ops::Range<u64> = 20..2_500;
/// The exit code of a server whose disk has failed.
const STORAGE_FAILED: i32 = 4;
/// Rows of one statement at the most; above some size they are no longer part of the log, but a file.
const ROWS_MAX: u64 = 40;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Kills while writers were at work.
    pub kills: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Rows in them.
    pub rows: u64,
    /// Writes that may have happened.
    pub unknown: u64,
    /// Writes that were refused because the disk was full.
    pub refused: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { kills, acknowledged, rows, unknown, refused } = self;
        write!(
            f,
            "{kills} kills, {acknowledged} writes acknowledged ({rows} rows), {unknown} unknown, {refused} refused: none lost or doubled"
        )
    }
}

/// A statement or block that inserted rows with consecutive numbers.
#[derive(Clone, Copy, Debug)]
struct Write {
    cycle: u64,
    first: u64,
    count: u64,
    is_acknowledged: bool,
}

/// What writers share.
#[derive(Default)]
struct Log {
    cycle: AtomicU64,
    next: AtomicU64,
    writes: Mutex<Vec<Write>>,
}

/// Kills the server again and again under writers, for so long, and compares.
pub fn kills(setup: &Setup, seed: u64, duration: Duration) -> anyhow::Result<Report> {
    let mut deployment = Deployment::start(setup)?;
    let (mut random, started, mut kills) = (StdRng::seed_from_u64(seed), Instant::now(), 0);
    let report = under_writers(&mut deployment, seed, |deployment, stage, log| {
        while started.elapsed() < duration && !stage.is_over() {
            rest(Duration::from_millis(random.random_range(LIVES_MS)), || stage.is_over());
            deployment.check_log()?;
            deployment.server.kill9()?;
            let cut_off = log.cycle.fetch_add(1, Ordering::SeqCst);
            deployment.server.restart()?;
            kills += 1;
            log.compare(&mut deployment.session()?, Some(cut_off))?;
        }
        Ok(())
    })?;
    deployment.check_log()?;
    Ok(Report { kills, ..report })
}

/// Fills the disk under writers: they are refused, readers are not, and when there is room again all goes on; also after a
/// kill. `None` if this machine does not let us have a small disk, which is said in one line.
pub fn full_disk(seed: u64) -> anyhow::Result<Option<Report>> {
    let Some(disk) = SmallDisk::mount()? else { return Ok(None) };
    let mut deployment = Deployment::start(&Setup { data_in: Some(disk.path()), ..Setup::default() })?;
    let ballast = disk.path().join("ballast");
    let report = under_writers(&mut deployment, seed, |deployment, stage, log| {
        for is_killed in [false, true] {
            let before = stage.counts().refused;
            fill(&ballast)?;
            stage.wait_for("writers are refused", || stage.counts().refused > before + 20)?;
            let mut reader = deployment.session()?;
            let count = reader.value("SELECT count(*) FROM log").map_err(|failure| wrong(&failure))?;
            ensure!(count.is_some(), "a full disk is in the way of readers");
            ensure_room_is_the_reason(deployment, &mut reader)?;
            drop(reader);
            let mut is_started = true;
            if is_killed {
                deployment.server.kill9()?;
                log.cycle.fetch_add(1, Ordering::SeqCst);
                is_started = started_without_room(deployment)?;
            }
            std::fs::remove_file(&ballast)?;
            if !is_started {
                deployment.server.restart()?;
            }
            log.wait_for_more(stage, 20)?;
        }
        Ok(())
    })?;
    deployment.check_log()?;
    Ok(Some(Report { kills: 1, ..report }))
}

/// Starts a server on a full disk: it is refused and says why, or serves. Then writers are told that the disk is full, or nothing
/// of it, but not that somebody else writes.
fn started_without_room(deployment: &mut Deployment) -> anyhow::Result<bool> {
    if let Err(error) = deployment.server.restart() {
        let text = format!("{error:#}").to_lowercase();
        ensure!(text.contains("no space left on device"), "a start on a full disk is refused with: {text}");
        return Ok(false);
    }
    let mut session = deployment.session()?;
    ensure_room_is_the_reason(deployment, &mut session)?;
    Ok(true)
}

/// On a full disk, what `readyz` says is that writes succeed, or that there is no space; and a small write succeeds, or is told the
/// same. (Whether there is room for a small write changes from one to the next: others write, and the log starts over.)
fn ensure_room_is_the_reason(deployment: &Deployment, session: &mut Session) -> anyhow::Result<()> {
    // What it says is a second old at the most.
    std::thread::sleep(Duration::from_millis(1_100));
    let (line, body) = http::get(deployment.server.internal_http_addr(), "/api/readyz")?;
    let is_ready = line.contains("200");
    ensure!(
        is_ready || (line.contains("503") && body.contains("no space")),
        "readiness on a full disk: {line}: {body}"
    );
    match session.execute("INSERT INTO probe VALUES (1)") {
        Ok(_) => Ok(()),
        Err(Failure::Refused(code)) if code == "53100" => Ok(()),
        Err(failure) => bail!("a write on a full disk: {failure:?}"),
    }
}

/// Lets a sync, or a write, fail once the server has done many, under writers; then restarts it on a disk that works. `None` if
/// this machine does not let us, which is said in one line.
pub fn disk_errors(error: DiskError, seed: u64) -> anyhow::Result<Option<Report>> {
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir()?;
    let healthy = dir.path().join("healthy");
    let Some(wrapper) = faulty(dir.path(), &healthy, error, random.random_range(100..400))? else { return Ok(None) };
    let mut deployment = Deployment::start(&Setup { binary: Some(wrapper), ..Setup::default() })?;
    let report = under_writers(&mut deployment, seed, |deployment, stage, log| {
        // A server that cannot know what is durable ends; one that knows refuses.
        stage.wait_for("the disk fails", || stage.counts().lost > 0 || stage.counts().refused > 0)?;
        std::fs::write(&healthy, "")?;
        if matches!(error, DiskError::Sync) {
            let log = deployment.server.log();
            let is_said = log.lines().rev().take(3).any(|line| line.starts_with("environmentd: storage failed"));
            let status = deployment.server.reap()?;
            ensure!(status.code() == Some(STORAGE_FAILED), "a server whose disk fails ends with {status}");
            ensure!(is_said, "its last line does not say why: {log}");
        } else {
            deployment.server.kill9()?;
        }
        log.cycle.fetch_add(1, Ordering::SeqCst);
        deployment.server.restart()?;
        log.wait_for_more(stage, 100)
    })?;
    Ok(Some(Report { kills: 1, ..report }))
}

/// Runs writers beside what happens to their server, and compares what is stored with what they were told: at once, and after
/// one more kill.
fn under_writers(
    deployment: &mut Deployment,
    seed: u64,
    happens: impl FnOnce(&mut Deployment, &Stage, &Log) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    prepare(&mut deployment.session()?).map_err(|failure| wrong(&failure))?;
    let (stage, log) = (Stage::new(vec![deployment.server.internal_sql_addr()]), Log::default());
    stage.beside(WRITERS, seed, |actor| log.write(actor), || happens(deployment, &stage, &log))?;
    log.compare(&mut deployment.session()?, None)?;
    deployment.server.kill9()?;
    deployment.server.restart()?;
    log.compare(&mut deployment.session()?, None)?;
    Ok(log.report(&stage))
}

/// How a disk fails.
#[derive(Clone, Copy, Debug)]
pub enum DiskError {
    /// A sync fails: nobody knows what is on disk.
    Sync,
    /// Writes fail for a while: there is no room.
    NoRoom,
}

/// A program that runs the server with system calls that fail, as long as there is no file `healthy`.
fn faulty(dir: &Path, healthy: &Path, error: DiskError, after: u64) -> anyhow::Result<Option<PathBuf>> {
    let probe = Command::new("strace").args(["-D", "-qq", "-o", "/dev/null", "-e", "trace=none", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: strace, which lets system calls fail, is not there or not permitted");
        return Ok(None);
    }
    let inject = match error {
        DiskError::Sync => format!("-e trace=fsync,fdatasync -e inject=fsync,fdatasync:error=EIO:when={after}+"),
        // Of the journal alone, which is in the directory that the second argument names: threads wake each other by writes. It is given its
        // length by calls of another kind.
        DiskError::NoRoom => {
            format!("-P \"$2/journal\" -e trace=pwrite64 -e inject=pwrite64:error=ENOSPC:when={after}..{}", after + 200)
        }
    };
    let server = find_binary()?;
    let script = format!(
        "#!/bin/sh\n[ -e '{healthy}' ] && exec '{server}' \"$@\"\nexec strace -f -D -qq -o /dev/null --seccomp-bpf {inject} '{server}' \"$@\"\n",
        healthy = healthy.display(),
        server = server.display(),
    );
    let path = dir.join("environmentd");
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(Some(path))
}

fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute_each([
        "CREATE TABLE log (cycle int8, n int8, padding text)",
        "CREATE INDEX log_cycle ON log (cycle)",
        "CREATE TABLE shadow (cycle int8, n int8)",
        "CREATE TABLE probe (n int8)",
        "CREATE MATERIALIZED VIEW counted AS SELECT cycle, count(*) AS n FROM log GROUP BY cycle",
    ])
}

impl Log {
    /// One statement or block.
    fn write(&self, actor: &mut Actor<'_>) -> Option<()> {
        actor.session()?;
        let (is_single, in_block) = (actor.random.random_bool(0.7), actor.random.random_bool(0.2));
        let count = if is_single { 1 } else { actor.random.random_range(2..=ROWS_MAX) };
        let bytes = actor.random.random_range(0..200);
        let first = self.next.fetch_add(count, Ordering::SeqCst);
        let cycle = self.cycle.load(Ordering::SeqCst);
        let rows = |padding: &str| {
            let row = |n| format!("({cycle}, {n}{padding})");
            (first..first + count).map(row).collect::<Vec<_>>().join(", ")
        };
        let insert = format!("INSERT INTO log VALUES {}", rows(&format!(", '{}'", "x".repeat(bytes))));
        let sql = match in_block {
            false => insert,
            true => format!("BEGIN; {insert}; INSERT INTO shadow VALUES {}; COMMIT", rows("")),
        };
        let asked = actor.ask(|session| {
            if in_block { session.or_roll_back(|session| session.execute(&sql)) } else { session.execute(&sql) }
        })?;
        let is_acknowledged = match asked.answer {
            Answer::Given(_) => true,
            Answer::Lost => false,
            Answer::Refused(_) => return None,
        };
        self.writes.lock().expect("nobody panics here").push(Write { cycle, first, count, is_acknowledged });
        Some(())
    }

    /// Waits until more than so many writes more were acknowledged.
    fn wait_for_more(&self, stage: &Stage, more: usize) -> anyhow::Result<()> {
        let acknowledged = || {
            let writes = self.writes.lock().expect("nobody panics here");
            writes.iter().filter(|write| write.is_acknowledged).count()
        };
        let before = acknowledged();
        stage.wait_for("writers go on", || acknowledged() > before + more)
    }

    /// Compares what is stored with what writers were told, of one cycle or of all.
    fn compare(&self, session: &mut Session, cycle: Option<u64>) -> anyhow::Result<()> {
        let told: Vec<Write> = {
            let writes = self.writes.lock().expect("nobody panics here");
            writes.iter().filter(|write| cycle.is_none_or(|cycle| write.cycle == cycle)).copied().collect()
        };
        let condition = cycle.map(|cycle| format!("WHERE cycle = {cycle}")).unwrap_or_default();
        let mut numbers = |sql: &str| -> anyhow::Result<HashMap<u64, u64>> {
            let rows = session.rows(sql).map_err(|failure| wrong(&failure))?;
            let mut copies = HashMap::with_capacity(rows.len());
            for row in rows {
                let n = row[0].as_deref().and_then(|n| n.parse().ok()).context("a number")?;
                *copies.entry(n).or_insert(0) += 1;
            }
            Ok(copies)
        };
        let stored = numbers(&format!("SELECT n FROM log {condition}"))?;
        if let Some((n, copies)) = stored.iter().find(|(_, copies)| **copies != 1) {
            bail!("row {n} is stored {copies} times");
        }
        for write in &told {
            let found = (write.first..write.first + write.count).filter(|n| stored.contains_key(n)).count();
            let found = u64::try_from(found)?;
            ensure!(found == write.count || found == 0, "{found} rows of a write are stored: {write:?}");
            ensure!(found > 0 || !write.is_acknowledged, "an acknowledged write is lost: {write:?}");
        }
        let shadow = numbers(&format!("SELECT n FROM shadow {condition}"))?;
        if let Some(n) = shadow.iter().find(|(n, copies)| **copies != 1 || !stored.contains_key(n)) {
            bail!("row {n:?} of a block is in one table, and not once in the other");
        }
        let lines = session
            .rows(&format!(
                "SELECT cycle, n FROM counted {condition} EXCEPT SELECT cycle, count(*) FROM log {condition} GROUP BY cycle"
            ))
            .map_err(|failure| wrong(&failure))?;
        ensure!(lines.is_empty(), "a materialized view counts {lines:?}, its table does not");
        Ok(())
    }

    /// What writers were told.
    fn report(&self, stage: &Stage) -> Report {
        let writes = self.writes.lock().expect("nobody panics here");
        let (acknowledged, unknown): (Vec<&Write>, Vec<&Write>) =
            writes.iter().partition(|write| write.is_acknowledged);
        let length = |writes: &[&Write]| u64::try_from(writes.len()).expect("few");
        Report {
            kills: 0,
            acknowledged: length(&acknowledged),
            rows: acknowledged.iter().map(|write| write.count).sum(),
            unknown: length(&unknown),
            refused: stage.counts().refused,
        }
    }
}

/// Writes until there is no room.
fn fill(path: &Path) -> anyhow::Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::create(path)?;
    for chunk in [1 << 20, 1 << 16, 1 << 12] {
        let zeros = vec![0; chunk];
        while file.write_all(&zeros).is_ok() {}
    }
    Ok(())
}

/// A file system in memory, a few times as large as what the store takes for its journal and its database's log alone.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> anyhow::Result<Option<SmallDisk>> {
        let dir = tempfile::tempdir()?;
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(dir.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Ok(Some(SmallDisk(dir)));
        }
        eprintln!("SKIPPED: a small disk cannot be mounted here: what a full one does is not tested");
        Ok(None)
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server's watchdog may still look at it.
        let _unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
