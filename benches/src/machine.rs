//! Where and of what a measurement was taken: commit, processor, memory, kernel, the cost of making a write durable.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::histogram::Histogram;

/// Facts that a figure means nothing without.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Short commit id, with `-dirty` when the checkout has changes.
    pub commit: String,
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_gib: f64,
    /// Kernel release.
    pub kernel: String,
    /// Load average at the start: who else was running.
    pub load_average: String,
    /// Median time of appending 4 KiB and `fdatasync`, in the directory that the servers write to.
    pub fdatasync_us: f64,
}

impl Machine {
    /// Looks at this machine.
    pub fn inspect(work_dir: &Path) -> Result<Self> {
        let memory = proc_value("/proc/meminfo", "MemTotal");
        let kib: f64 = memory.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
        let load_average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Ok(Self {
            commit: commit(),
            processor: proc_value("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: kib / 1_048_576.0,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            load_average: load_average.split(' ').take(3).collect::<Vec<_>>().join(" "),
            fdatasync_us: fdatasync_us(work_dir)?,
        })
    }

    /// One line for a person.
    pub fn line(&self) -> String {
        format!(
            "commit {}; {} x {}, {:.0} GiB, Linux {}; load {}; fdatasync {:.0} us",
            self.commit, self.cores, self.processor, self.memory_gib, self.kernel, self.load_average, self.fdatasync_us
        )
    }

    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "commit": self.commit,
            "processor": self.processor,
            "cores": self.cores,
            "memory_gib": self.memory_gib,
            "kernel": self.kernel,
            "load_average": self.load_average,
            "fdatasync_us": self.fdatasync_us,
        })
    }
}

fn commit() -> String {
    let Some(id) = git(&["rev-parse", "--short=10", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let dirty = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
    if dirty { format!("{id}-dirty") } else { id }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn proc_value(file: &str, field: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == field).then(|| value.trim().to_owned())
    });
    value.unwrap_or_else(|| "unknown".to_owned())
}

fn fdatasync_us(dir: &Path) -> Result<f64> {
    let path = dir.join("fdatasync");
    let mut file = File::create(&path)?;
    let mut times = Histogram::new();
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        let start = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.record(start.elapsed());
    }
    fs::remove_file(path)?;
    Ok(times.quantile_us(0.5))
}
