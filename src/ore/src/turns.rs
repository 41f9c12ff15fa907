//! Whom a thread serves, turn by turn: many by turns, or for a while only one.
//!
//! What waits without letting others have their turn does no harm where there are none. Who comes all the same waits with it, once: from
//! then on the thread serves two.

use std::cell::Cell;

/// So many turns in a row make one who is alone.
const ALONE: u32 = 32;

thread_local! {
    /// Who had the last turn, and how many in a row.
    static LAST: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// Notes that the calling thread serves `who` now, which is anything but 0.
pub fn take(who: usize) {
    let (last, count) = LAST.get();
    LAST.set((who, if last == who { count.saturating_add(1) } else { 1 }));
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
}
