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
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
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

/// A port of the loopback interface for one server of a test.
///
/// A server listens some time after its port was chosen, and not at all between its end and its next start. No other test, of this
/// process or of another, gets the port meanwhile: who holds one has bound an abstract socket of its name, which the system gives
/// to one holder at a time and takes back when that process ends, however it ends.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UnixDatagram,
}

impl Port {
    /// Claims one that nobody has claimed or listens on.
    pub fn claim() -> anyhow::Result<Port> {
        let mut random = rand::rng();
        let mut tried = (0..1_000).map(|_| random.random_range(PORTS));
        tried.find_map(Port::try_claim).context("no port is free")
    }

    fn try_claim(number: u16) -> Option<Port> {
        let name = UnixAddr::from_abstract_name(format!("glimpse-test-port-{number}")).ok()?;
        let claim = UnixDatagram::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Port { number, _claim: claim })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Where a server on it is reached.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::Port;

    #[test]
    fn a_port_has_one_holder_whether_or_not_anybody_listens_on_it() {
        let port = Port::claim().expect("a port is free");
        assert!(Port::try_claim(port.number()).is_none(), "it is held, and nobody listens");
        let listener = TcpListener::bind(port.addr()).expect("its holder may listen");
        let number = port.number();
        drop(port);
        assert!(Port::try_claim(number).is_none(), "nobody holds it, and somebody listens");
        drop(listener);
        assert!(Port::try_claim(number).is_some(), "it is free again");
    }
}
