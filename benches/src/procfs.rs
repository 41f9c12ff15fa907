//! What a process used, from `/proc`: CPU time of a process and its descendants, resident memory.
//!
//! Times in `stat` are rounded down to 10 ms per process, which loses nearly everything when a thousand backends share
//! a second: for a process of one thread, `schedstat` has nanoseconds.
//!
//! # Invariants
//! - CPU of reaped children counts (`cutime`, `cstime`): a PostgreSQL backend that ends moves its time to its parent, and
//!   the sum over the tree stays.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result};

/// `USER_HZ`, in which Linux reports times to user space on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// One line of `/proc/PID/stat`, as far as we need it.
struct Stat {
    parent: u32,
    own_ticks: u64,
    reaped_ticks: u64,
    threads: u32,
}

/// CPU seconds that `root` and all its descendants have used.
pub fn tree_cpu_seconds(root: u32) -> Result<f64> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut seconds: HashMap<u32, f64> = HashMap::new();
    for pid in all_pids()? {
        // A process may end between the listing and the reading.
        if let Ok(stat) = read_stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
            seconds.insert(pid, used_seconds(pid, &stat));
        }
    }
    seconds.get(&root).with_context(|| format!("no process {root}"))?;
    let mut total = 0.0;
    let mut left = vec![root];
    while let Some(pid) = left.pop() {
        total += seconds.get(&pid).copied().unwrap_or(0.0);
        left.extend(children.get(&pid).into_iter().flatten());
    }
    Ok(total)
}

/// CPU seconds that one process has used, with those of its reaped children.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    Ok(used_seconds(pid, &read_stat(pid)?))
}

fn used_seconds(pid: u32, stat: &Stat) -> f64 {
    let own = match schedstat_seconds(pid) {
        Some(seconds) if stat.threads == 1 => seconds,
        _ => stat.own_ticks as f64 / TICKS_PER_SECOND,
    };
    own + stat.reaped_ticks as f64 / TICKS_PER_SECOND
}

/// Time on a processor of the process's first thread; none where the kernel does not keep it.
fn schedstat_seconds(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanos: u64 = text.split(' ').next()?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

/// A field of `/proc/PID/status` in bytes: `VmRSS`, `VmHWM`.
pub fn status_bytes(pid: u32, field: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.split_whitespace().next()).with_context(|| format!("no {field}"))?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// The command line of a process, one element per argument.
pub fn command_line(pid: u32) -> Result<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).with_context(|| format!("no process {pid}"))?;
    Ok(bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect())
}

fn all_pids() -> Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

fn read_stat(pid: u32) -> Result<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?).with_context(|| format!("the stat line of {pid}"))
}

/// The second field, a name in parentheses, may contain anything: what follows its last parenthesis is regular.
fn parse_stat(line: &str) -> Option<Stat> {
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| -> Option<u64> { fields.get(at)?.parse().ok() };
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own_ticks: ticks(11)? + ticks(12)?,
        reaped_ticks: ticks(13)? + ticks(14)?,
        threads: fields.get(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let stat = parse_stat("7 (a) b) S 3 7 7 0 -1 0 1 2 3 4 50 20 5 2 20 0 1").expect("a valid line");
        assert_eq!((stat.parent, stat.own_ticks, stat.reaped_ticks, stat.threads), (3, 70, 7, 1));
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id();
        assert!(status_bytes(pid, "VmRSS").expect("we are running") > 0);
        assert!(tree_cpu_seconds(pid).expect("we are running") >= 0.0);
    }
}
