//! How much memory there is, and how much of it the process has.

/// Where Linux says how much of it the control group of this process may use, by version 2 and version 1.
const LIMITS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// The memory of the machine, or that of this container if it is less; in bytes. `None` if nothing says so.
pub(crate) fn total() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").as_deref().and_then(of_machine);
    let containers = LIMITS.iter().filter_map(|path| read(path)?.trim().parse().ok());
    machine.into_iter().chain(containers).min()
}

/// The pages that the allocator has given out, in bytes.
pub(crate) fn used() -> usize {
    // Its figures are of the moment at which they were last asked to be.
    match tikv_jemalloc_ctl::epoch::advance() {
        Ok(_) => tikv_jemalloc_ctl::stats::active::read().unwrap_or(0),
        Err(_) => 0,
    }
}

/// What `/proc/meminfo` says, in bytes.
fn of_machine(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::of_machine;

    #[test]
    fn the_total_is_read() {
        let meminfo = "MemTotal:       24689764 kB\nMemFree:          123456 kB\n";
        assert_eq!(of_machine(meminfo), Some(24_689_764 << 10));
        assert_eq!(of_machine("MemFree: 1 kB\n"), None);
    }
}
