//! PostgreSQL, the referee, as a throw-away child process.
//!
//! The cluster has the same users (`mz_system`, the superuser, and `materialize`) and database as Glimpse, the C
//! collation, UTC and no fsync, so that a suite runs unchanged against either.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::process::{Port, Process, find_program};
use crate::wire::Wire;

/// Settings that make two PostgreSQL versions and two machines answer alike.
const SETTINGS: [&str; 10] = [
    "listen_addresses=127.0.0.1",
    "max_connections=200",
    "fsync=off",
    "timezone=UTC",
    "datestyle=ISO",
    "intervalstyle=postgres",
    "lc_messages=C",
    "authentication_timeout=2s",
    "max_stack_depth=6MB",
    "log_min_messages=fatal",
];

/// For `localhost`, and who signed it.
const CERTIFICATE: &str = include_str!("../tls/server.crt");
const KEY: &str = include_str!("../tls/server.key");
const AUTHORITY: &str = include_str!("../tls/ca.crt");

/// A running PostgreSQL.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    data: TempDir,
    port: Port,
    settings: Vec<String>,
    /// Its certificate, if it has one.
    files: Option<TempDir>,
    process: Option<Process>,
}

/// Finds the directory of `initdb` and `postgres`.
pub fn find_bin() -> anyhow::Result<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    let initdb = find_program("initdb", &versions)
        .context("no PostgreSQL server (initdb) in PATH or /usr/lib/postgresql: apt-get install postgresql")?;
    Ok(initdb.parent().context("a program has a directory")?.to_owned())
}

impl Postgres {
    /// Makes a new cluster and starts it.
    pub fn start() -> anyhow::Result<Postgres> {
        Postgres::start_with(Vec::new())
    }

    /// Makes a new cluster and starts it with more settings, each `name=value`.
    pub fn start_with(settings: Vec<String>) -> anyhow::Result<Postgres> {
        let (data, port) = (tempfile::tempdir()?, Port::claim()?);
        let mut server = Postgres { bin: find_bin()?, data, port, settings, files: None, process: None };
        give(server.data.path())?;
        let output = server
            .command("initdb")?
            .args(["--username=mz_system", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(server.cluster_dir())
            .output()?;
        if !output.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        server.restart()?;
        let mut wire = Wire::start(server.addr(), "mz_system", "postgres")?;
        wire.execute("CREATE ROLE materialize LOGIN")?;
        wire.execute("CREATE DATABASE materialize OWNER materialize")?;
        Ok(server)
    }

    /// The same with TLS, by the certificate for `localhost` of `test/tls`.
    pub fn start_secured() -> anyhow::Result<Postgres> {
        let files = tempfile::tempdir()?;
        give(files.path())?;
        let mut settings = vec!["ssl=on".to_owned()];
        for (name, text) in [("ca", AUTHORITY), ("cert", CERTIFICATE), ("key", KEY)] {
            let path = files.path().join(name);
            std::fs::write(&path, text)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            give(&path)?;
            if name != "ca" {
                settings.push(format!("ssl_{name}_file={}", path.display()));
            }
        }
        let mut server = Postgres::start_with(settings)?;
        server.files = Some(files);
        Ok(server)
    }

    /// The file of whoever has signed the certificate of a secured server.
    pub fn authority(&self) -> String {
        self.files.as_ref().map(|files| files.path().join("ca").display().to_string()).unwrap_or_default()
    }

    /// Starts the server again on the same port and data; the earlier process must have ended.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        let mut command = self.command("postgres")?;
        command.arg("-D").arg(self.cluster_dir()).arg("-k").arg(self.data.path());
        command.arg("-p").arg(self.port.number().to_string());
        for setting in SETTINGS.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        let mut process = Process::spawn(command, self.data.path(), "QUIT")?;
        let addr = self.addr();
        process.wait_ready(|| Wire::start(addr, "mz_system", "postgres").map(drop))?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends the server without a checkpoint, as a crash would. (SIGKILL of the postmaster alone would leave children.)
    pub fn kill9(&mut self) -> anyhow::Result<()> {
        self.stop("QUIT").map(drop)
    }

    /// Asks the server to stop and to end its sessions.
    pub fn sigterm(&mut self) -> anyhow::Result<ExitStatus> {
        self.stop("INT")
    }

    /// The URL of the database `materialize`, as its superuser.
    pub fn url(&self) -> String {
        format!("postgres://mz_system@{}/materialize", self.addr())
    }

    /// The address of the SQL port.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        self.process.as_ref().context("the server runs")?.signal(name)
    }

    /// Waits for the end of a server that was sent a signal.
    pub fn reap(&mut self) -> anyhow::Result<ExitStatus> {
        self.process.take().context("the server runs")?.wait(Duration::from_secs(30))
    }

    fn stop(&mut self, signal: &str) -> anyhow::Result<ExitStatus> {
        self.signal(signal)?;
        self.reap()
    }

    fn cluster_dir(&self) -> PathBuf {
        self.data.path().join("cluster")
    }

    fn command(&self, program: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(self.data.path());
        if let Some((uid, gid)) = unprivileged_user()? {
            command.uid(uid).gid(gid);
        }
        Ok(command)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.process.is_some() {
            // An immediate stop lets the children go too; dropping the handle is the fallback.
            let _ = self.stop("QUIT");
        }
    }
}

/// Gives a file or directory to the user that runs PostgreSQL.
pub fn give(path: &Path) -> anyhow::Result<()> {
    if let Some((uid, gid)) = unprivileged_user()? {
        chown(path, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// The user to run PostgreSQL as when we are root, which it refuses.
fn unprivileged_user() -> anyhow::Result<Option<(u32, u32)>> {
    if Path::new("/proc/self").metadata()?.uid() != 0 {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let fields: Vec<&str> = line.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    let user = find("postgres").or_else(|| find("nobody")).context("no user to run PostgreSQL as")?;
    Ok(Some(user))
}
