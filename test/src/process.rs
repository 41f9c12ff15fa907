//! Child processes: free ports, output in a log file, signals, and waits that poll.
//!
//! Both servers under test are plain children of the test process. Their output goes to a file, of which the
//! last lines are printed when the test that owns the server panics, or when the server crashed.
//!
//! A server that tests share lives in a static, which is never dropped. So each process has a watchdog: a shell that
//! waits for the end of a pipe whose other end only we hold, and then ends that one process and removes its files.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rand::Rng;

/// How long a server may take to answer its first connection. Generous: CI machines build at the same time.
const READY_SECONDS_MAX: u64 = 120;
/// The signals that tests end a server with: KILL, TERM, and INT or QUIT, which stop a PostgreSQL.
const ENDED_BY_US: [i32; 4] = [9, 15, 2, 3];
/// How often a wait looks again.
const POLL: Duration = Duration::from_millis(20);

/// A running child with its log.
#[derive(Debug)]
pub struct Process {
    child: Child,
    watchdog: Child,
    log: PathBuf,
}

/// What the watchdog runs: `$1` is the signal, `$2` the process, `$3` its temporary directory.
const WATCHDOG: &str = r#"read -r _; kill -s "$1" "$2" && sleep 1; rm -rf -- "$3""#;

/// Where ports are taken from: below those that the system gives to connections, so that a server which starts again finds its
/// own still free.
const PORTS: Range<u16> = 10_000..32_768;

/// Returns a port of the loopback interface that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    let mut random = rand::rng();
    let mut tried = (0..1_000).map(|_| random.random_range(PORTS));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    tried.find(is_free).context("no port is free")
}

impl Process {
    /// Starts `command` with its output in `directory`, which is removed should this process end without a drop;
    /// `last_signal` ends the command then.
    pub fn spawn(mut command: Command, directory: &Path, last_signal: &str) -> anyhow::Result<Process> {
        let log = directory.join("test.log");
        let out = File::options().create(true).append(true).open(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", last_signal, &child.id().to_string()])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start the watchdog")?;
        Ok(Process { child, watchdog, log })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name (`TERM`, `KILL`, `STOP`, ..).
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status()?;
        if !status.success() {
            bail!("kill -{name} {} failed: {status}", self.id());
        }
        Ok(())
    }

    /// Waits for the process to end.
    pub fn wait(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > deadline {
                bail!("process {} did not end within {deadline:?}", self.id());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Ends the process without any chance to tidy up, and reaps it.
    pub fn kill9(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until `probe` succeeds; fails early when the process ends.
    pub fn wait_ready(&mut self, mut probe: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended while starting ({status}):\n{}", self.log_tail());
            }
            let error = match probe() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if start.elapsed() > Duration::from_secs(READY_SECONDS_MAX) {
                bail!("the server was not ready in {READY_SECONDS_MAX} s: {error:#}\n{}", self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Everything that was logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that gives its error on has no panic yet.
        let crashed = self.child.try_wait().is_ok_and(|status| {
            status.and_then(|status| status.signal()).is_some_and(|signal| !ENDED_BY_US.contains(&signal))
        });
        if crashed || std::thread::panicking() {
            eprintln!("--- last lines of process {} ---\n{}\n---", self.id(), self.log_tail());
        }
        // The watchdog goes first, while the process id is surely still ours.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        // A process that has ended already gives an error here, which is what we want anyway.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects, trying again until the deadline: for a listener that is about to exist.
pub fn connect_retry(addr: SocketAddr, deadline: Duration) -> anyhow::Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(addr) {
            Ok(stream) => return Ok(stream),
            Err(error) if start.elapsed() > deadline => return Err(error).context("connect"),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

/// Looks for a program in `PATH` and then in `extra` directories.
pub fn find_program(name: &str, extra: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(extra.iter().cloned())
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
}
