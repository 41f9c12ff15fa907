//! The timestamp oracle: which time a write gets, and which time a read must not be older than.
//!
//! Strict serializability is this: if one operation was answered before another was asked, the other sees it. The
//! oracle turns that into numbers. A write takes [`TimestampOracle::write_ts`], becomes durable at that time, then is
//! applied with [`TimestampOracle::apply_write`], and only then acknowledged. A read takes
//! [`TimestampOracle::read_ts`] after it was asked. In that order, and in no other: applied before durable, a crash
//! could take back what a reader has seen; acknowledged before applied, a later reader could miss it.
//!
//! # Laws
//! 1. `write_ts()` is strictly greater than every read and write timestamp that was handed out before.
//! 2. `read_ts()` is at least every timestamp whose `apply_write` completed before the call.
//! 3. `read_ts()` never decreases, and is never a time that was not applied: what it returns is settled.
//! 4. `apply_write(ts)` raises both: later reads are at least `ts`, later write timestamps above it.
//! 5. All of this also holds across a restart, for whatever was acknowledged before it.
//! 6. A write timestamp is never ahead of the wall clock by more than a bound: it is refused instead. A write in the
//!    far future would have to be waited for by every later read, restarts included.
//!
//! Every implementation passes [`contract`]. [`local::LocalOracle`] is the one for a process that owns its data
//! directory: an atomic word, and the word is the oracle, not a cache of it. One that shares a database between
//! processes comes beside it, with batched calls and a lease that decides when the word may be trusted.
//!
//! Where it sits: the committer (`adapter`) calls the two that write, every session the one that reads.
//! Deliberately absent: waiting, retries, timelines other than the one.
#![warn(missing_docs)]

pub mod contract;
pub mod local;

use persist::{MetaWrite, PersistError};
use repr::Timestamp;
use repr::sqlstate::SqlState;

/// See the laws in the crate's header.
pub trait TimestampOracle: Send + Sync {
    /// A time for a write. Need not be applied: a write that failed leaves a gap.
    fn write_ts(&self) -> Result<Timestamp, OracleError>;

    /// The time at which a read that was asked before this call may be answered.
    fn read_ts(&self) -> Timestamp;

    /// Says that everything at `ts` and below is durable, or will never be; the reservation made for `ts` included.
    fn apply_write(&self, ts: Timestamp);

    /// What must become durable together with, or before, applying `ts`. Mostly nothing: time is reserved in blocks.
    /// An oracle that keeps its state elsewhere never asks.
    fn reservation_due(&self, ts: Timestamp) -> Option<MetaWrite> {
        let _ = ts;
        None
    }
}

/// Why there is no timestamp.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The next timestamp would be too far ahead of the wall clock. The clock was set back, or the last run's was
    /// wrong; the error goes away when the clock catches up.
    #[error("the next write timestamp is {ahead_us} us ahead of the clock, more than {bound_us} us are not allowed")]
    AheadOfClock {
        /// How far it would be ahead.
        ahead_us: u64,
        /// How far it may be.
        bound_us: u64,
    },
    /// The durable mark cannot be read.
    #[error(transparent)]
    Persist(#[from] PersistError),
}

impl OracleError {
    /// The code a client sees.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            OracleError::AheadOfClock { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            OracleError::Persist(error) => error.sqlstate(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            OracleError::AheadOfClock { .. } => Some("check the system clock, or wait for it to catch up"),
            OracleError::Persist(_) => None,
        }
    }
}
