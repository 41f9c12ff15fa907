//! The timestamp oracle: which time a write gets, and which time a read must not be older than.
//!
//! Strict serializability is this: if one operation was answered before another was asked, the other sees it. The
//! oracle turns that into numbers. A write takes [`TimestampOracle::write_ts`], becomes durable at that time, then is
//! applied with [`TimestampOracle::apply_write`], and only then acknowledged. A read takes
//! [`TimestampOracle::read_ts_fast`], or if that is not to be had [`TimestampOracle::read_ts`], after it was asked. In
//! that order, and in no other: applied before durable, a crash could take back what a reader has seen; acknowledged
//! before applied, a later reader could miss it.
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
//! A slightly older time will not do for a read, not even one that was right a moment ago: somebody may have been answered
//! since. So one load is a read timestamp only if the loaded word *is* the oracle, and never if it is a cache of it.
//!
//! Every implementation passes [`contract`]. [`local::LocalOracle`] is the one for a process that owns its data
//! directory: an atomic word. [`shared::SharedOracle`] keeps the time in a store that several processes reach
//! ([`timeline`], [`postgres`]), of which one at a time owns it ([`handover`]): a [`lease`] decides when that one may trust
//! its word, and reads without it go to the store together ([`batching`]).
//!
//! The protocols' steps over shared memory are [`word`], [`lease`] and [`tickets`], small files that `test/model` also
//! runs through all orders in which threads can take them.
//!
//! Where it sits: the `committer` calls the two that write, every session those that read.
//! Deliberately absent: several processes that move one timeline at the same time.
#![warn(missing_docs)]

pub mod batching;
pub mod contract;
mod handover;
mod lease;
pub mod local;
#[cfg(test)]
mod memory;
pub mod metrics;
pub mod postgres;
pub mod shared;
mod tickets;
pub mod timeline;
mod word;

/// Where [`word`], [`lease`] and [`tickets`] take their atomics from.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

use std::sync::Arc;

use futures::future::BoxFuture;
use persist::postgres::Transient;
use persist::{MetaWrite, PersistError};
use repr::Timestamp;
use repr::sqlstate::SqlState;

/// See the laws in the crate's header.
pub trait TimestampOracle: Send + Sync {
    /// The time at which a read that was asked before this call may be answered, if this process knows it by itself: one
    /// load, and with a lease one look at the clock.
    fn read_ts_fast(&self) -> Option<Timestamp>;

    /// The same from wherever the time is kept.
    ///
    /// # Cancellation
    /// Safe to drop.
    fn read_ts(&self) -> BoxFuture<'_, Result<Timestamp, OracleError>>;

    /// The latest time that this process knows to be applied: at most what a read would be told. For what may lag, such as
    /// compaction, and for whoever waits until a time has come here.
    fn known_ts(&self) -> Timestamp;

    /// A time for a write. Need not be applied: a write that failed leaves a gap. May block: not for tasks.
    fn write_ts(&self) -> Result<Timestamp, OracleError>;

    /// Says that everything at `ts` and below is durable, or will never be; the reservation made for `ts` included. May
    /// block: not for tasks. After an error nobody knows whether `ts` was applied, and the write must not be acknowledged.
    fn apply_write(&self, ts: Timestamp) -> Result<(), OracleError>;

    /// Whether a write's time may be waited for.
    fn may_block(&self) -> bool {
        true
    }

    /// What must become durable together with, or before, applying `ts`. Mostly nothing: time is reserved in blocks.
    /// An oracle that keeps its state elsewhere never asks.
    fn reservation_due(&self, ts: Timestamp) -> Option<MetaWrite> {
        let _ = ts;
        None
    }
}

/// Why there is no timestamp.
#[derive(Clone, Debug, thiserror::Error)]
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
    /// Another process owns the timeline now. This one can answer nothing any more, and nobody may be told that a write of
    /// its was applied.
    #[error("terminating connection because another process ({by}) has taken over")]
    Fenced {
        /// What the owner calls itself.
        by: String,
    },
    /// What is durable cannot be read or written.
    #[error("{0}")]
    Persist(#[source] Arc<PersistError>),
    /// There are no threads to ask the store with.
    #[error("cannot start a runtime for the timestamp oracle")]
    Runtime(#[source] Arc<std::io::Error>),
}

impl From<PersistError> for OracleError {
    fn from(error: PersistError) -> OracleError {
        OracleError::Persist(Arc::new(error))
    }
}

impl Transient for OracleError {
    fn is_transient(&self) -> bool {
        matches!(self, OracleError::Persist(error) if error.is_transient())
    }
}

impl OracleError {
    /// The code a client sees.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            OracleError::AheadOfClock { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            OracleError::Fenced { .. } => SqlState::ADMIN_SHUTDOWN,
            OracleError::Persist(error) => error.sqlstate(),
            OracleError::Runtime(_) => SqlState::INTERNAL_ERROR,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            OracleError::AheadOfClock { .. } => Some("check the system clock, or wait for it to catch up"),
            OracleError::Fenced { .. } => Some("connect again, to the new owner"),
            OracleError::Persist(_) | OracleError::Runtime(_) => None,
        }
    }
}
