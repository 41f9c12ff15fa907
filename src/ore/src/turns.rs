//! Whom a thread serves, turn by turn: many by turns, or for a while only one.
//!
//! What waits without letting others have their turn does no harm where there are none. Who comes all the same waits with it, once: from
//! then on the thread serves two.

use crate::thread;
use std::cell::Cell;
use std::io;

/// So many turns in a row make one who is alone.
const ALONE: u32 = 32;
/// So many let a thread leave its core.
const SETTLED: u32 = 512;

thread_local! {
    /// The core of the calling thread.
    static HOME: Cell<Option<usize>> = const { Cell::new(None) };
    /// Who had the last turn, and how many in a row.
    static LAST: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// Notes that the calling thread serves `who` now, which is anything but 0.
pub fn take(who: usize) {
    let (last, before) = LAST.get();
    let count = if last == who { before.saturating_add(1) } else { 1 };
    LAST.set((who, count));
    let Some(core) = HOME.get() else { return };
    if count == SETTLED {
        thread::roam();
    } else if count < before
        && before >= SETTLED
        && let Err(error) = thread::stay_on(core)
    {
        tracing::warn!(%error, "a thread cannot return to its core");
    }
}

/// Lets the calling thread run on one core only, as long as it serves many. With one alone it may go where the kernel has it: beside whom it
/// serves, if on the same machine, so that none of the two wakes a core that sleeps.
pub fn stay_on(core: usize) -> io::Result<()> {
    thread::stay_on(core)?;
    HOME.set(Some(core));
    Ok(())
}

/// Whether the calling thread has served nobody else lately.
pub fn is_alone() -> bool {
    LAST.get().1 >= ALONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_all_the_turns_is_alone() {
        assert!(!is_alone());
        (0..ALONE).for_each(|_| take(7));
        assert!(is_alone());
        take(8);
        assert!(!is_alone(), "another has come");
        (1..ALONE).for_each(|_| take(8));
        assert!(is_alone(), "and stayed");
    }

    #[test]
    fn who_serves_many_stays_on_a_core() {
        let all = thread::cores().expect("the system tells");
        let last = *all.last().expect("there is a core");
        let cores = move || thread::cores().expect("the system tells");
        let stays = move || {
            stay_on(last).expect("the system permits it");
            let mut seen = vec![cores()];
            for (who, turns) in [(7, SETTLED - 1), (7, 1), (8, 1), (7, 1), (7, SETTLED)] {
                (0..turns).for_each(|_| take(who));
                seen.push(cores());
            }
            seen
        };
        let (one, seen) = (vec![last], thread::spawn("stays", stays).join().expect("it does not panic"));
        assert_eq!(seen, [one.clone(), one.clone(), all.clone(), one.clone(), one, all]);
    }
}
