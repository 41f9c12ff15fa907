//! PostgreSQL's own `pgbench`, as a client of either server: its tables, its TPC-B-like script, its log of latencies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::connection::Endpoint;
use crate::histogram::Histogram;
use crate::servers::find_postgres;

/// The program, and how its scripts send statements (`simple`, `prepared`).
pub struct Pgbench {
    program: PathBuf,
    mode: &'static str,
}

/// What a run of the script gave.
pub struct Ran {
    /// Transactions per second, without the time of connecting.
    pub per_second: f64,
    /// Of each transaction, from its first statement to the reply to its last.
    pub latency: Histogram,
}

impl Pgbench {
    /// The program in `bin_dir`, or beside the PostgreSQL that is found without.
    pub fn find(bin_dir: Option<&Path>, mode: &'static str) -> Result<Pgbench> {
        let bin_dir = match bin_dir {
            Some(bin_dir) => bin_dir.to_owned(),
            None => find_postgres()?,
        };
        let program = bin_dir.join("pgbench");
        ensure!(program.exists(), "{} is not there: PostgreSQL's packages bring it", program.display());
        Ok(Pgbench { program, mode })
    }

    /// Makes the tables, with their primary keys, and fills them.
    pub fn initialize(&self, endpoint: &Endpoint, scale: u32) -> Result<()> {
        self.run(endpoint, &["-i", "-q", "-s", &scale.to_string()])?;
        Ok(())
    }

    /// The TPC-B-like script for some whole seconds. A transaction that fails is an error.
    pub fn tpcb(&self, endpoint: &Endpoint, clients: u32, threads: u32, time: Duration) -> Result<Ran> {
        let log = tempfile::tempdir()?;
        let prefix = log.path().join("transactions");
        let (clients, threads) = (clients.to_string(), threads.min(clients).to_string());
        let (seconds, prefix) = (time.as_secs().max(1).to_string(), prefix.display().to_string());
        let log_flag = format!("--log-prefix={prefix}");
        let flags = ["-n", "-M", self.mode, "-c", &clients, "-j", &threads, "-T", &seconds, "-l", &log_flag];
        let output = self.run(endpoint, &flags)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = number_after(&text, "number of failed transactions: ").context("pgbench counts no failures")?;
        ensure!(failed == 0.0, "{failed} transactions failed:\n{text}");
        let per_second = number_after(&text, "tps = ").context("pgbench tells no tps")?;
        let mut latency = Histogram::new();
        for entry in fs::read_dir(log.path())? {
            for line in fs::read_to_string(entry?.path())?.lines() {
                // The client, the number of its transaction, and the microseconds that it took.
                let micros = line.split(' ').nth(2).and_then(|micros| micros.parse().ok());
                latency.record(Duration::from_micros(micros.with_context(|| format!("a line of its log: {line}"))?));
            }
        }
        Ok(Ran { per_second, latency })
    }

    fn run(&self, endpoint: &Endpoint, flags: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(flags);
        command.args(["-h", &endpoint.address.ip().to_string(), "-p", &endpoint.address.port().to_string()]);
        command.args(["-U", &endpoint.user, &endpoint.database]);
        let output = command.output().with_context(|| format!("cannot run {}", self.program.display()))?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pgbench {} ended with {}:\n{told}", flags.join(" "), output.status);
        Ok(output)
    }
}

/// The number that follows `label` in a report.
fn number_after(report: &str, label: &str) -> Option<f64> {
    let rest = report.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::number_after;

    #[test]
    fn its_report_is_read() {
        let report = "number of failed transactions: 3 (0.120%)\ntps = 2496.15 (without initial connection time)\n";
        assert_eq!(number_after(report, "number of failed transactions: "), Some(3.0));
        assert_eq!(number_after(report, "tps = "), Some(2496.15));
        assert_eq!(number_after(report, "latency average = "), None);
    }
}
