//! Bugs on purpose: what the checkers of `test/consistency` must find. A checker that has never failed proves nothing.
//!
//! Each is one line at the place where the mistake would be made, which asks here whether it is to be made. The server that
//! tests use has them, and makes at most the one that `GLIMPSE_BUG` names. Whoever builds for people compiles without
//! debug assertions: there every question is a constant, and nothing is left of it in the program, which
//! `bin/environmentd` looks at.
#![warn(missing_docs)]

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Readers see a write before it is durable: a crash takes it back.
    RaisedBeforeDurable,
    /// A writer is answered before readers see the write.
    AcknowledgedBeforeRaised,
    /// A process that was stopped, and replaced, trusts its memory when it goes on.
    StoppedOwnerReads,
    /// Compaction does not wait for transactions.
    TransactionsHoldNothing,
    /// Two processes write to one store.
    FenceLost,
    /// A write gets a time far ahead of the clock.
    FarFuture,
    /// A statement that changes rows looks for them in the past; if it finds none, nobody notices.
    EmptyUpdateIsStale,
    /// A plan is used after what it was made for has changed.
    PlanOutlivesDdl,
    /// Nobody asks whether a key is taken when a write commits.
    KeysUnclaimed,
    /// Nobody asks whether the key is there that a foreign key refers to when a write commits.
    OrphansCommitted,
    /// A transaction that has waited goes on at a later time without looking whether what it has read is the same there.
    RefreshSkipped,
    /// Locks are given up before the commit is durable.
    UnlockedBeforeDurable,
}

impl Bug {
    /// All.
    pub const ALL: [Bug; 12] = [
        Bug::RaisedBeforeDurable,
        Bug::AcknowledgedBeforeRaised,
        Bug::StoppedOwnerReads,
        Bug::TransactionsHoldNothing,
        Bug::FenceLost,
        Bug::FarFuture,
        Bug::EmptyUpdateIsStale,
        Bug::PlanOutlivesDdl,
        Bug::KeysUnclaimed,
        Bug::OrphansCommitted,
        Bug::RefreshSkipped,
        Bug::UnlockedBeforeDurable,
    ];

    /// What `GLIMPSE_BUG` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Bug::RaisedBeforeDurable => "raised-before-durable",
            Bug::AcknowledgedBeforeRaised => "acknowledged-before-raised",
            Bug::StoppedOwnerReads => "stopped-owner-reads",
            Bug::TransactionsHoldNothing => "transactions-hold-nothing",
            Bug::FenceLost => "fence-lost",
            Bug::FarFuture => "far-future",
            Bug::EmptyUpdateIsStale => "empty-update-is-stale",
            Bug::PlanOutlivesDdl => "plan-outlives-ddl",
            Bug::KeysUnclaimed => "keys-unclaimed",
            Bug::OrphansCommitted => "orphans-committed",
            Bug::RefreshSkipped => "refresh-skipped",
            Bug::UnlockedBeforeDurable => "unlocked-before-durable",
        }
    }
}

pub use chosen::{is, late};
pub use panics::{are_wanted, panic_sometimes};

/// The environment variable that asks for panics: about one in how many calls of [`panic_sometimes`].
pub const PANICS: &str = "GLIMPSE_PANICS";

#[cfg(not(debug_assertions))]
mod chosen {
    use super::Bug;

    /// Whether this mistake is to be made: never.
    #[inline(always)]
    pub const fn is(_bug: Bug) -> bool {
        false
    }

    /// What it is given.
    #[inline(always)]
    pub const fn late(_bug: Bug, value: u64) -> u64 {
        value
    }
}

#[cfg(debug_assertions)]
mod chosen {
    use super::Bug;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Whether this mistake is to be made.
    pub fn is(bug: Bug) -> bool {
        static CHOSEN: OnceLock<Option<Bug>> = OnceLock::new();
        let choose = || {
            let name = std::env::var("GLIMPSE_BUG").ok()?;
            let bug = Bug::ALL.into_iter().find(|bug| bug.name() == name);
            assert!(bug.is_some(), "no bug is called {name}");
            bug
        };
        *CHOSEN.get_or_init(choose) == Some(bug)
    }

    /// What it is given; with this bug, what it was given the time before.
    pub fn late(bug: Bug, value: u64) -> u64 {
        static BEFORE: AtomicU64 = AtomicU64::new(0);
        if is(bug) { BEFORE.swap(value, Ordering::SeqCst) } else { value }
    }
}

#[cfg(not(debug_assertions))]
mod panics {
    /// Whether there are panics on purpose: never.
    #[inline(always)]
    pub const fn are_wanted() -> bool {
        false
    }

    /// Does nothing.
    #[inline(always)]
    pub const fn panic_sometimes(_place: &str) {}
}

#[cfg(debug_assertions)]
mod panics {
    use super::PANICS;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn one_in() -> u64 {
        static ONE_IN: OnceLock<u64> = OnceLock::new();
        let read = || std::env::var(PANICS).map_or(0, |number| number.parse().expect("GLIMPSE_PANICS is a number"));
        *ONE_IN.get_or_init(read)
    }

    /// Whether there are panics on purpose.
    pub fn are_wanted() -> bool {
        one_in() > 0
    }

    /// Panics about once in as many calls as `GLIMPSE_PANICS` says.
    ///
    /// # Panics
    /// That is what it is for.
    pub fn panic_sometimes(place: &str) {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        if one_in() > 0 {
            let call = CALLS.fetch_add(1, Ordering::Relaxed);
            assert!(!scattered(call).is_multiple_of(one_in()), "on purpose: {place}, call {call}");
        }
    }

    /// Numbers that follow each other, as numbers that do not (the finalizer of splitmix64).
    fn scattered(number: u64) -> u64 {
        let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
