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
}

impl Bug {
    /// All.
    pub const ALL: [Bug; 9] = [
        Bug::RaisedBeforeDurable,
        Bug::AcknowledgedBeforeRaised,
        Bug::StoppedOwnerReads,
        Bug::TransactionsHoldNothing,
        Bug::FenceLost,
        Bug::FarFuture,
        Bug::EmptyUpdateIsStale,
        Bug::PlanOutlivesDdl,
        Bug::KeysUnclaimed,
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
        }
    }
}

pub use chosen::{is, late};

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
