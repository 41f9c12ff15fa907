//! How much memory there is, and how much of it the process has.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Where Linux says how much of it the control group of this process may use, by version 2 and version 1.
const LIMITS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// The memory of the machine, or that of this container if it is less; in bytes. `None` if nothing says so.
pub(crate) fn total() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").as_deref().and_then(of_machine);
    let containers = LIMITS.iter().filter_map(|path| read(path)?.trim().parse().ok());
    machine.into_iter().chain(containers).min()
}

/// How often pages that nobody uses are given back before their time, at the most: it takes some milliseconds per gigabyte.
const PURGE_EVERY: Duration = Duration::from_millis(100);

/// The pages that the allocator has given out, in bytes. Those that it was given back it keeps for a second; where with them the process
/// would have more than `most`, they go to the system at once.
pub(crate) fn used(most: usize) -> usize {
    // Its figures are of the moment at which they were last asked to be.
    if tikv_jemalloc_ctl::epoch::advance().is_err() {
        return 0;
    }
    let active = tikv_jemalloc_ctl::stats::active::read().unwrap_or(0);
    let resident = tikv_jemalloc_ctl::stats::resident::read().unwrap_or(0);
    if resident > most && active <= most {
        purge();
    }
    active
}

/// Gives back all pages that nobody uses, unless that was done a moment ago.
fn purge() {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Ok(mut last) = LAST.try_lock() else { return };
    if last.is_some_and(|last| last.elapsed() < PURGE_EVERY) {
        return;
    }
    *last = Some(Instant::now());
    #[allow(unsafe_code, reason = "the allocator takes commands by their name")]
    // SAFETY: the name is a C string of a command without operands, as the null pointers say.
    let code = unsafe { tikv_jemalloc_sys::mallctl(ALL_ARENAS.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    if code != 0 {
        tracing::warn!(code, "memory that nobody uses was not given back");
    }
}

/// The command that purges every arena; 4096 stands for all of them.
const ALL_ARENAS: &CStr = c"arena.4096.purge";

/// What `/proc/meminfo` says, in bytes.
fn of_machine(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::{of_machine, used};
    use std::alloc::{GlobalAlloc, Layout};
    use tikv_jemallocator::Jemalloc;

    #[test]
    fn the_total_is_read() {
        let meminfo = "MemTotal:       24689764 kB\nMemFree:          123456 kB\n";
        assert_eq!(of_machine(meminfo), Some(24_689_764 << 10));
        assert_eq!(of_machine("MemFree: 1 kB\n"), None);
    }

    fn resident() -> usize {
        tikv_jemalloc_ctl::epoch::advance().expect("it has figures");
        tikv_jemalloc_ctl::stats::resident::read().expect("it has figures")
    }

    #[test]
    #[allow(
        unsafe_code,
        reason = "these tests have another allocator than the server, which is asked by its functions"
    )]
    fn what_nobody_uses_is_given_back_where_it_would_be_too_much() {
        const BYTES: usize = 64 << 20;
        // Larger blocks are given back at once in any case.
        let layout = Layout::from_size_align(1 << 20, 4096).expect("a layout");
        let allocate = |_| {
            // SAFETY: the layout is not empty, and what is written was allocated.
            let block = unsafe { Jemalloc.alloc(layout) };
            assert!(!block.is_null(), "there is room");
            // SAFETY: as above.
            unsafe { block.write_bytes(1, layout.size()) };
            block
        };
        let blocks: Vec<*mut u8> = (0..BYTES / layout.size()).map(allocate).collect();
        // SAFETY: each was allocated with this layout, and is freed once.
        blocks.into_iter().for_each(|block| unsafe { Jemalloc.dealloc(block, layout) });
        let before = resident();
        let active = used(usize::MAX);
        // Some went at once, as the allocator thinks fit.
        assert!(before >= active + BYTES / 2, "it is kept for a while: {before} of {active} in use");
        let most = active + BYTES / 4;
        assert!(used(most) <= most, "what is in use is not too much");
        assert!(resident() <= most, "what nobody uses was");
    }
}
