//! Glimpse's own server as a child process, on free ports and a temporary data directory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::process::{Port, Process};
use crate::wire::Wire;

/// How long SIGTERM may take: sessions are told, writes flushed.
const SHUTDOWN_MAX: Duration = Duration::from_secs(30);

/// The ports of a server: SQL, internal SQL, HTTP, internal HTTP and Flight.
pub type Ports = [Port; 5];

/// A running `environmentd`.
#[derive(Debug)]
pub struct Server {
    binary: PathBuf,
    data: Arc<TempDir>,
    ports: Ports,
    extra_args: Vec<String>,
    environment: Vec<(String, String)>,
    process: Option<Process>,
}

/// How to start a server, if not in the usual way.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Another program than [`find_binary`] finds.
    pub binary: Option<PathBuf>,
    /// More flags.
    pub args: Vec<String>,
    /// What its environment has besides ours.
    pub environment: Vec<(String, String)>,
    /// Where the temporary directory is made that holds its data.
    pub data_in: Option<PathBuf>,
    /// An archive of what its data directory has at first, for `tar`.
    pub archive: Option<PathBuf>,
}

/// Finds the server: `GLIMPSE_ENVIRONMENTD`, or `environmentd` beside the test's own target directory.
pub fn find_binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("GLIMPSE_ENVIRONMENTD") {
        return Ok(PathBuf::from(path));
    }
    let test = std::env::current_exe()?;
    let beside = test.ancestors().skip(1).take(2).map(|dir| dir.join("environmentd"));
    beside.into_iter().find(|path| path.is_file()).with_context(
        || "no environmentd beside the tests: run `cargo build -p glimpse-environmentd` or set GLIMPSE_ENVIRONMENTD",
    )
}

impl Server {
    /// Starts a server with an empty data directory and waits until it answers.
    pub fn start() -> anyhow::Result<Server> {
        Server::start_with(&[])
    }

    /// Starts a server with more flags.
    pub fn start_with(extra_args: &[&str]) -> anyhow::Result<Server> {
        let args = extra_args.iter().map(|&arg| arg.to_owned()).collect();
        Server::launch(Launch { args, ..Launch::default() })
    }

    /// Starts a server as described.
    pub fn launch(launch: Launch) -> anyhow::Result<Server> {
        let data = match &launch.data_in {
            Some(parent) => tempfile::tempdir_in(parent)?,
            None => tempfile::tempdir()?,
        };
        if let Some(archive) = &launch.archive {
            let directory = data.path().join("data");
            std::fs::create_dir(&directory)?;
            let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&directory).status()?;
            anyhow::ensure!(status.success(), "tar cannot unpack {}", archive.display());
        }
        let mut server = Server {
            binary: launch.binary.map_or_else(find_binary, Ok)?,
            data: Arc::new(data),
            ports: claim_ports()?,
            extra_args: launch.args,
            environment: launch.environment,
            process: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// Starts another server on the same data, with more flags, beside this one.
    pub fn beside(&self, more_args: &[&str]) -> anyhow::Result<Server> {
        let own = self.extra_args.iter().map(String::as_str);
        self.start_beside(&own.chain(more_args.iter().copied()).collect::<Vec<_>>())
    }

    /// Starts another server on the same data, with flags of its own.
    pub fn start_beside(&self, args: &[&str]) -> anyhow::Result<Server> {
        let mut server = Server {
            binary: self.binary.clone(),
            data: Arc::clone(&self.data),
            ports: claim_ports()?,
            extra_args: args.iter().map(|&arg| arg.to_owned()).collect(),
            environment: self.environment.clone(),
            process: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// Starts the server, for the first time or again, on the same ports and data; the earlier process must have ended.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        if self.process.is_some() {
            bail!("the server still runs");
        }
        let mut process = Process::spawn(self.command(&self.ports), self.data.path(), "KILL")?;
        // The internal port needs no password.
        let addr = self.internal_sql_addr();
        process.wait_ready(|| {
            let mut wire = Wire::start(addr, "mz_system", "materialize")?;
            wire.query("SELECT 1").map(drop)
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// The command line of a server on our data directory and the given ports.
    pub fn command(&self, ports: &Ports) -> Command {
        self.command_line(&self.data.path().join("data"), ports)
    }

    /// The command line of a server on another data directory and our ports.
    pub fn command_on(&self, data_dir: &Path) -> Command {
        self.command_line(data_dir, &self.ports)
    }

    fn command_line(&self, data_dir: &Path, ports: &Ports) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--data-dir").arg(data_dir);
        let flags = [
            "--sql-listen-addr",
            "--internal-sql-listen-addr",
            "--http-listen-addr",
            "--internal-http-listen-addr",
            "--flight-listen-addr",
        ];
        for (flag, port) in flags.into_iter().zip(ports) {
            command.arg(flag).arg(port.addr().to_string());
        }
        command.args(&self.extra_args).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Ends the server as a power cut would, as far as a process can tell.
    pub fn kill9(&mut self) -> anyhow::Result<()> {
        self.process.take().context("the server runs")?.kill9()
    }

    /// Asks the server to stop and returns how it ended.
    pub fn sigterm(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal("TERM")?;
        self.reap()
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        self.process.as_ref().context("the server runs")?.signal(name)
    }

    /// The most memory that it has had.
    pub fn peak_bytes(&self) -> anyhow::Result<u64> {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> anyhow::Result<u64> {
        let id = self.process.as_ref().context("the server runs")?.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let bytes = status.lines().find_map(|line| line.strip_prefix(field)?.strip_suffix("kB"));
        Ok(bytes.context("a number of kB")?.trim().parse::<u64>()? * 1024)
    }

    /// The memory that it has now.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.status_bytes("VmRSS:")
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// Waits for the end of a server that was sent a signal.
    pub fn reap(&mut self) -> anyhow::Result<ExitStatus> {
        self.process.take().context("the server runs")?.wait(SHUTDOWN_MAX)
    }

    /// The address of the SQL port.
    pub fn sql_addr(&self) -> SocketAddr {
        self.ports[0].addr()
    }

    /// The address of the system SQL port.
    pub fn internal_sql_addr(&self) -> SocketAddr {
        self.ports[1].addr()
    }

    /// The address of the HTTP port.
    pub fn http_addr(&self) -> SocketAddr {
        self.ports[2].addr()
    }

    /// The address of the internal HTTP port.
    pub fn internal_http_addr(&self) -> SocketAddr {
        self.ports[3].addr()
    }

    /// The address of the Flight port.
    pub fn flight_addr(&self) -> SocketAddr {
        self.ports[4].addr()
    }

    /// The directory that holds the data directory and the log.
    pub fn directory(&self) -> &Path {
        self.data.path()
    }
}

/// Claims the ports of one server.
pub fn claim_ports() -> anyhow::Result<Ports> {
    Ok([Port::claim()?, Port::claim()?, Port::claim()?, Port::claim()?, Port::claim()?])
}
