//! An S3-compatible service, as a throw-away child process: moto, which checks signatures and keeps everything in memory.
//!
//! An outage ([`S3::stop`], [`S3::start_again`]) is that of a service behind which nothing is lost: it listens no more, and then
//! again.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::process::{Port, Process};
use crate::programs::python;

const SCRIPT: &str = include_str!("../drivers/s3_server.py");
/// For `localhost`, and who signed it.
const CERTIFICATE: &str = concat!(include_str!("../tls/server.crt"), include_str!("../tls/server.key"));
const AUTHORITY: &str = include_str!("../tls/ca.crt");
/// The one bucket.
const BUCKET: &str = "glimpse";
/// How long it may take to do as told.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running service.
#[derive(Debug)]
pub struct S3 {
    process: Process,
    port: Port,
    key_id: String,
    secret: String,
    lent: [String; 3],
    is_secured: bool,
    /// Its log and certificates; removed after the process has ended.
    dir: TempDir,
}

impl S3 {
    /// Starts one; `None` where moto is not installed, of which a line tells that the test is skipped.
    pub fn start() -> anyhow::Result<Option<S3>> {
        S3::start_with(false)
    }

    /// The same over TLS.
    pub fn start_secured() -> anyhow::Result<Option<S3>> {
        S3::start_with(true)
    }

    fn start_with(is_secured: bool) -> anyhow::Result<Option<S3>> {
        let Some(python) = python("moto.server, boto3") else { return Ok(None) };
        let (dir, port) = (tempfile::tempdir()?, Port::claim()?);
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT, &port.number().to_string(), BUCKET]);
        if is_secured {
            std::fs::write(dir.path().join("ca.pem"), AUTHORITY)?;
            let certificate = dir.path().join("server.pem");
            std::fs::write(&certificate, CERTIFICATE)?;
            command.arg(certificate);
        }
        let mut process = Process::spawn(command, dir.path(), "TERM")?;
        process.wait_ready(|| ensure_said(dir.path(), "ready"))?;
        let log = process.log();
        let ready = log.lines().find_map(|line| line.strip_prefix("ready ")).context("a line with credentials")?;
        let words: Vec<String> = ready.split(' ').map(str::to_owned).collect();
        let Ok([key_id, secret, lent @ ..]) = <[String; 5]>::try_from(words) else { bail!("it is ready with {ready}") };
        Ok(Some(S3 { process, port, key_id, secret, lent, is_secured, dir }))
    }

    /// Key, secret and session token that are lent for an hour.
    pub fn lent(&self) -> &[String; 3] {
        &self.lent
    }

    /// The URL of what is below `prefix` in its bucket.
    pub fn url(&self, prefix: &str) -> String {
        let S3 { key_id, secret, .. } = self;
        let port = self.port.number();
        let [secret, prefix] = [secret.as_str(), prefix].map(|text| text.replace('+', "%2B").replace(' ', "%20"));
        let secret = secret.replace('/', "%2F");
        let credentials = format!("access_key_id={key_id}&secret_access_key={secret}");
        let (endpoint, more) = match self.is_secured {
            false => (format!("http://127.0.0.1:{port}"), String::new()),
            true => (
                format!("https://localhost:{port}"),
                format!("&ca_bundle={}", self.dir.path().join("ca.pem").display()),
            ),
        };
        format!("s3://{BUCKET}/{prefix}?endpoint={endpoint}&{credentials}{more}")
    }

    /// Stops listening.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.tell("USR1", "stopped")
    }

    /// Listens again, with everything that was stored.
    pub fn start_again(&self) -> anyhow::Result<()> {
        self.tell("USR2", "started")
    }

    fn tell(&self, signal: &str, answer: &str) -> anyhow::Result<()> {
        let said = || self.process.log().lines().filter(|line| *line == answer).count();
        let (before, start) = (said(), Instant::now());
        self.process.signal(signal)?;
        while said() == before {
            ensure!(start.elapsed() < PATIENCE, "the service has not {answer}: {}", self.process.log_tail());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

fn ensure_said(dir: &std::path::Path, word: &str) -> anyhow::Result<()> {
    let log = std::fs::read_to_string(dir.join("test.log"))?;
    // A line that was not written to its end has no end.
    let is_said = log.split_inclusive('\n').any(|line| line.starts_with(word) && line.ends_with('\n'));
    ensure!(is_said, "it is not ready");
    Ok(())
}
