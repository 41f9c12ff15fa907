//! The three servers that are compared: floor, Glimpse, PostgreSQL. Starts them, waits until they answer, stops them.
//!
//! Each runs as a child of this process on free ports of the loopback interface, with its data in a temporary directory.
//! Output goes to a log file there, and its end is shown when the server fails.
//!
//! # Invariants
//! - Dropping a [`Server`] stops its process and only then removes its directory.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::admin::Session;
use crate::connection::Endpoint;
use crate::tls;

/// How long a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// Lines of a failed server's log that are shown.
const LOG_LINES: usize = 30;

/// PostgreSQL as its manual would set it up for this load: durable, with memory, no checkpoints inside a run.
const POSTGRES_SETTINGS: &[&str] = &[
    "fsync=on",
    "synchronous_commit=on",
    "shared_buffers=1GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=30min",
    "unix_socket_directories=",
    "listen_addresses=127.0.0.1",
];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Target {
    /// The server that answers with canned bytes.
    Floor,
    /// The product.
    Glimpse,
    /// PostgreSQL.
    Postgres,
}

impl Target {
    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Glimpse => "glimpse",
            Self::Postgres => "postgres",
        }
    }
}

/// A running server.
pub struct Server {
    /// Which one it is.
    pub target: Target,
    /// Where it answers SQL.
    pub endpoint: Endpoint,
    /// Glimpse's HTTP address for users.
    pub http: Option<SocketAddr>,
    /// Glimpse's internal HTTP address, for profiles.
    pub internal_http: Option<SocketAddr>,
    /// Where it speaks Flight, if it does.
    pub flight: Option<SocketAddr>,
    process: Child,
    stop_signal: &'static str,
    log: PathBuf,
    /// Held so that it is removed after the process has ended.
    dir: TempDir,
}

impl Server {
    /// Where it answers SQL over TLS; the floor does not.
    pub fn over_tls(&self) -> Endpoint {
        Endpoint { tls: true, ..self.endpoint.clone() }
    }

    /// Starts the canned-reply server with rows shaped like table `shape`.
    pub fn start_floor(work_dir: &Path, shape: &str) -> Result<Self> {
        let dir = temporary(work_dir, "floor")?;
        let port = free_port()?;
        let mut command = Command::new(beside_this_binary("floor")?);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--shape", shape]);
        Self::start(Target::Floor, command, dir, port, ("bench", "bench"), "TERM")
    }

    /// Starts Glimpse from `binary`, or from the one that was built with this one.
    pub fn start_glimpse(work_dir: &Path, binary: Option<&Path>) -> Result<Self> {
        Self::start_glimpse_with(work_dir, binary, &[])
    }

    /// The same with more flags.
    pub fn start_glimpse_with(work_dir: &Path, binary: Option<&Path>, flags: &[&str]) -> Result<Self> {
        let dir = temporary(work_dir, "glimpse")?;
        let ports = [free_port()?, free_port()?, free_port()?, free_port()?, free_port()?];
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => beside_this_binary("environmentd")?,
        };
        let [certificate, key] = tls::write_files(dir.path())?;
        let mut command = Command::new(binary);
        command.arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
        command.arg("--data-dir").arg(dir.path().join("data")).args(flags);
        let flags = ["--sql", "--internal-sql", "--http", "--internal-http", "--flight"];
        for (flag, port) in flags.iter().zip(ports) {
            command.arg(format!("{flag}-listen-addr")).arg(format!("127.0.0.1:{port}"));
        }
        let user = ("materialize", "materialize");
        let mut server = Self::start(Target::Glimpse, command, dir, ports[0], user, "TERM")?;
        (server.http, server.internal_http) = (Some(loopback(ports[2])), Some(loopback(ports[3])));
        server.flight = Some(loopback(ports[4]));
        Ok(server)
    }

    /// Initialises and starts a PostgreSQL whose programs are in `bin_dir`.
    pub fn start_postgres(work_dir: &Path, bin_dir: Option<&Path>, connections_max: u32) -> Result<Self> {
        let dir = temporary(work_dir, "postgres")?;
        let bin_dir = match bin_dir {
            Some(bin_dir) => bin_dir.to_owned(),
            None => find_postgres()?,
        };
        let data = dir.path().join("data");
        fs::create_dir(&data)?;
        // The server refuses to run as root: its data then belongs to its own user.
        let account = if fs::metadata(dir.path())?.uid() == 0 { Some(postgres_account()?) } else { None };
        let [certificate, key] = tls::write_files(dir.path())?;
        if let Some((uid, gid)) = account {
            for path in [&data, &certificate, &key, dir.path()] {
                chown(path, Some(uid), Some(gid))?;
            }
        }
        let program = |name: &str| {
            let mut command = Command::new(bin_dir.join(name));
            command.current_dir(dir.path()).arg("-D").arg(&data);
            if let Some((uid, gid)) = account {
                command.uid(uid).gid(gid);
            }
            command
        };
        let mut initdb = program("initdb");
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-instructions"]);
        let output = initdb.output().context("cannot run initdb")?;
        ensure!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        let port = free_port()?;
        let mut command = program("postgres");
        command.args(["-p", &port.to_string(), "-c", &format!("max_connections={}", connections_max + 20)]);
        for setting in POSTGRES_SETTINGS {
            command.args(["-c", setting]);
        }
        command.args(["-c", "ssl=on"]);
        for (setting, file) in [("ssl_cert_file", certificate), ("ssl_key_file", key)] {
            command.args(["-c", &format!("{setting}={}", file.display())]);
        }
        // SIGINT is PostgreSQL's fast shutdown: it does not wait for sessions to leave.
        Self::start(Target::Postgres, command, dir, port, ("postgres", "postgres"), "INT")
    }

    fn start(
        target: Target,
        mut command: Command,
        dir: TempDir,
        port: u16,
        (user, database): (&str, &str),
        stop_signal: &'static str,
    ) -> Result<Self> {
        let log = dir.path().join("log");
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let (user, database) = (user.to_owned(), database.to_owned());
        let endpoint = Endpoint { address: loopback(port), user, database, tls: false };
        let mut server =
            Self { target, endpoint, http: None, internal_http: None, flight: None, process, stop_signal, log, dir };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The process id of the server; of PostgreSQL, that of the postmaster.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The bytes of the files below a directory of its data.
    pub fn stored_bytes(&self, below: &str) -> Result<u64> {
        let files = fs::read_dir(self.dir.path().join("data").join(below))?;
        files.map(|file| Ok(file?.metadata()?.len())).sum()
    }

    /// A session for what is not measured.
    pub fn session(&self) -> Result<Session> {
        Session::connect(&self.endpoint)
    }

    /// The end of what the server printed.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// What version it says it is.
    pub fn version(&self) -> String {
        let version = || -> Option<String> {
            let rows = self.session().ok()?.execute("select version()").ok()?;
            let version = rows.first()?.first()?.clone()?;
            Some(version.split(" on ").next()?.to_owned())
        };
        match self.target {
            Target::Floor => "canned replies".to_owned(),
            Target::Glimpse | Target::Postgres => version().unwrap_or_else(|| "unknown".to_owned()),
        }
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let name = self.target.name();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Err(error) = Session::connect(&self.endpoint) else {
                return Ok(());
            };
            if let Some(status) = self.process.try_wait()? {
                bail!("{name} ended with {status}; its log ends with:\n{}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("{name} did not become ready: {error:#}; its log ends with:\n{}", self.log_tail());
            }
            sleep(POLL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to do about failures here: the process is killed below if it is still there.
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args([&format!("-{}", self.stop_signal), &pid]).status();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            sleep(POLL);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A port that nobody listens on. Somebody else could take it before the server does; then the server says so.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(loopback(0))?.local_addr()?.port())
}

fn temporary(work_dir: &Path, name: &str) -> Result<TempDir> {
    let prefix = format!("bench-{name}-");
    tempfile::Builder::new().prefix(&prefix).tempdir_in(work_dir).context("cannot make a temporary directory")
}

fn beside_this_binary(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "{} is not built; bin/bench builds it", path.display());
    Ok(path)
}

/// The newest of the usual places, or the directory of `initdb` on the PATH.
pub(crate) fn find_postgres() -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let bin_dir = entry.path().join("bin");
        let version = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        if bin_dir.join("initdb").exists() {
            found.push((version, bin_dir));
        }
    }
    if let Some((_, bin_dir)) = found.into_iter().max_by_key(|(version, _): &(u32, _)| *version) {
        return Ok(bin_dir);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|dir| dir.join("initdb").exists());
    on_path
        .context("no PostgreSQL server found: install one, name --pg-bin, or leave it out with --targets floor,glimpse")
}

/// User and group id of the account that runs PostgreSQL when we are root.
fn postgres_account() -> Result<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd")?;
    for name in ["postgres", "nobody"] {
        for line in accounts.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            if let [account, _, uid, gid, ..] = fields.as_slice()
                && *account == name
            {
                return Ok((uid.parse()?, gid.parse()?));
            }
        }
    }
    bail!("PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody`")
}
