//! The embedded oracle: one atomic word that sessions read, and another from which write timestamps are taken.
//!
//! It may answer from memory because nobody else can move time: the lock on the data directory is the lease. The
//! kernel holds it for as long as the process exists, stopped or not, so that a process that was suspended for an
//! hour still owns the timeline when it wakes, and its word is still right. ([`crate::shared`] has no such lock and
//! needs a lease with a deadline.)
//!
//! # The durable mark
//! Law 5 asks that a restart begins at or above everything that was handed out. Committed writes tell that by
//! themselves, as the upper of the store. Time that was applied without a commit does not, so a *mark* is durable
//! ahead of it:
//! 1. Before the committer commits at `ts`, it asks [`TimestampOracle::reservation_due`]. Mostly the answer is `None`.
//! 2. If `ts` is beyond the mark, the answer is a write that moves the mark some seconds ahead of the clock. The
//!    committer adds it to its commit, so that it costs no sync of its own. (To apply a time without a commit, it
//!    commits the reservation alone, which is needed once every few seconds.)
//! 3. Only if the commit has succeeded, the committer calls `apply_write(ts)`, which thereby says that the
//!    reservation made for `ts` is durable.
//!
//! # Invariants
//! * `read` is written by `apply_write` alone, and never above a mark that is durable.
//! * `last >= read`: the next write timestamp is above both.

use std::sync::atomic::{AtomicU64, Ordering};

use bugs::Bug;
use futures::FutureExt;
use futures::future::BoxFuture;
use ore::clock::Clock;
use persist::{MetaWrite, PersistClient, PersistError};
use prost::Message;
use repr::Timestamp;

use crate::word::Word;
use crate::{OracleError, TimestampOracle};

/// How far a write timestamp may be ahead of the wall clock: twice what a restart can lead it ahead.
pub const AHEAD_US_MAX: u64 = 10_000_000;

/// How far ahead of the clock the mark is reserved. A restart within this time begins that much ahead.
const RESERVE_US: u64 = 5_000_000;

/// How far ahead of the timestamp the mark is reserved if that is ahead of the clock already. Small, so that a
/// process that is restarted again and again does not move further and further ahead.
const RESERVE_AHEAD_US: u64 = 100_000;

/// The key of the mark in the store.
const MARK_KEY: &str = "oracle/mark";

/// The version of [`MarkProto`].
const MARK_FORMAT: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct MarkProto {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(uint64, tag = "2")]
    mark: u64,
}

/// See the module.
#[derive(Debug)]
pub struct LocalOracle {
    /// What readers load.
    read: Word,
    /// The latest write timestamp handed out.
    last: Word,
    /// Up to here, time may be applied: the store will remember.
    mark: AtomicU64,
    /// The last mark asked for; durable once a time beyond `mark` is applied.
    pending: AtomicU64,
    clock: Clock,
}

impl LocalOracle {
    /// Starts where the last owner of the data directory cannot have been yet, and makes that time readable.
    pub fn open(persist: &PersistClient, clock: Clock) -> Result<LocalOracle, OracleError> {
        let mark = match persist.meta_get(MARK_KEY)? {
            None => 0,
            Some(value) => decode_mark(&value)?,
        };
        let start = mark.max(persist.upper().saturating_sub(1));
        persist.advance_upper(start + 1);
        Ok(LocalOracle::new(start, mark, clock))
    }

    /// An oracle that remembers nothing, and needs no reservations. For tests and benchmarks.
    pub fn ephemeral(clock: Clock) -> LocalOracle {
        LocalOracle::new(0, Timestamp::MAX, clock)
    }

    fn new(start: Timestamp, mark: Timestamp, clock: Clock) -> LocalOracle {
        LocalOracle {
            read: Word::new(start),
            last: Word::new(start),
            mark: AtomicU64::new(mark),
            pending: AtomicU64::new(mark),
            clock,
        }
    }
}

impl TimestampOracle for LocalOracle {
    fn write_ts(&self) -> Result<Timestamp, OracleError> {
        let hour_us = 3_600_000_000;
        let now_us = self.clock.now_us() + if bugs::is(Bug::FarFuture) { hour_us } else { 0 };
        let next = |last: Timestamp| now_us.max(last.saturating_add(1));
        let bound_us = now_us.saturating_add(AHEAD_US_MAX);
        self.last
            .step(|last| Some(next(last)).filter(|next| *next <= bound_us))
            .map_err(|last| OracleError::AheadOfClock { ahead_us: next(last) - now_us, bound_us: AHEAD_US_MAX })
    }

    #[inline]
    fn read_ts_fast(&self) -> Option<Timestamp> {
        Some(self.known_ts())
    }

    fn read_ts(&self) -> BoxFuture<'_, Result<Timestamp, OracleError>> {
        std::future::ready(Ok(self.known_ts())).boxed()
    }

    #[inline]
    fn known_ts(&self) -> Timestamp {
        self.read.get()
    }

    fn apply_write(&self, ts: Timestamp) -> Result<(), OracleError> {
        if ts > self.mark.load(Ordering::Acquire) {
            let pending = self.pending.load(Ordering::Acquire);
            assert!(ts <= pending.max(self.known_ts()), "time {ts} is applied beyond the durable mark {pending}");
            self.mark.fetch_max(pending, Ordering::AcqRel);
        }
        // In this order: whoever reads `ts` finds that no write timestamp below it will be handed out any more.
        self.last.raise(ts);
        self.read.raise(ts);
        Ok(())
    }

    fn may_block(&self) -> bool {
        false
    }

    fn reservation_due(&self, ts: Timestamp) -> Option<MetaWrite> {
        if ts <= self.mark.load(Ordering::Acquire) {
            return None;
        }
        let mark = self.clock.now_us().saturating_add(RESERVE_US).max(ts.saturating_add(RESERVE_AHEAD_US));
        self.pending.fetch_max(mark, Ordering::AcqRel);
        let value = MarkProto { format: MARK_FORMAT, mark }.encode_to_vec();
        Some(MetaWrite::Put { key: MARK_KEY.to_owned(), value })
    }
}

fn decode_mark(value: &[u8]) -> Result<Timestamp, PersistError> {
    let corrupt = |detail: String| PersistError::Corrupt { what: "the oracle's mark".to_owned(), detail };
    let proto = MarkProto::decode(value).map_err(|error| corrupt(error.to_string()))?;
    match proto.format {
        MARK_FORMAT => Ok(proto.mark),
        found => Err(PersistError::FormatVersion {
            what: "the oracle's mark",
            found: u64::from(found),
            supported: u64::from(MARK_FORMAT),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use ore::clock::ManualClock;
    use parking_lot::Mutex;
    use std::path::Path;
    use std::time::Duration;

    /// The oracle with its committer, which makes reservations durable as the real one does.
    struct Committing {
        oracle: LocalOracle,
        persist: PersistClient,
        committing: Mutex<()>,
    }

    impl Committing {
        fn open(dir: &Path, clock: Clock) -> Committing {
            let persist = PersistClient::open(dir).expect("it opens");
            let oracle = LocalOracle::open(&persist, clock).expect("it opens");
            Committing { oracle, persist, committing: Mutex::default() }
        }
    }

    impl TimestampOracle for Committing {
        fn write_ts(&self) -> Result<Timestamp, OracleError> {
            self.oracle.write_ts()
        }

        fn read_ts_fast(&self) -> Option<Timestamp> {
            self.oracle.read_ts_fast()
        }

        fn read_ts(&self) -> BoxFuture<'_, Result<Timestamp, OracleError>> {
            self.oracle.read_ts()
        }

        fn known_ts(&self) -> Timestamp {
            self.oracle.known_ts()
        }

        fn apply_write(&self, ts: Timestamp) -> Result<(), OracleError> {
            // The contract applies from several threads; a committer is one.
            let _committing = self.committing.lock();
            if let Some(reservation) = self.oracle.reservation_due(ts) {
                let upper = self.persist.upper();
                self.persist.commit(upper, &[], &[reservation]).expect("it commits");
            }
            self.oracle.apply_write(ts)
        }
    }

    #[test]
    fn passes_the_contract() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        contract::check(|| Committing::open(dir.path(), Clock::system()), drop);
    }

    #[test]
    fn follows_the_clock_and_never_runs_far_ahead_of_it() {
        let hands = ManualClock::new(50_000_000);
        let oracle = LocalOracle::ephemeral(hands.clock());
        assert_eq!(oracle.write_ts().expect("in bounds"), 50_000_000);
        assert_eq!(oracle.write_ts().expect("in bounds"), 50_000_001);
        hands.advance(Duration::from_secs(1));
        assert_eq!(oracle.write_ts().expect("in bounds"), 51_000_000);
        // Set back within the bound: monotonic. Beyond: refused, until the clock has caught up.
        hands.set_now_us(41_000_001);
        assert_eq!(oracle.write_ts().expect("in bounds"), 51_000_001);
        let refused = oracle.write_ts().expect_err("out of bounds");
        assert!(matches!(refused, OracleError::AheadOfClock { ahead_us: 10_000_001, .. }), "{refused}");
        hands.advance(Duration::from_micros(1));
        assert_eq!(oracle.write_ts().expect("in bounds"), 51_000_002);
    }

    #[test]
    fn restarts_at_the_mark_and_repeated_restarts_do_not_add_up() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let hands = ManualClock::new(50_000_000);
        let mut latest = 0;
        for restart in 0..20_u64 {
            let committing = Committing::open(dir.path(), hands.clock());
            assert!(committing.known_ts() >= latest);
            assert_eq!(committing.persist.upper(), committing.known_ts() + 1, "what is read first is readable");
            let ts = committing.write_ts().expect("in bounds");
            committing.apply_write(ts).expect("it commits");
            latest = ts;
            let ahead_us = latest - 50_000_000;
            assert!(ahead_us <= RESERVE_US + restart * (RESERVE_AHEAD_US + 1), "{ahead_us} after {restart} restarts");
        }
        // Within the reserved time, nothing is due.
        let committing = Committing::open(dir.path(), hands.clock());
        hands.advance(Duration::from_secs(20));
        let ts = committing.write_ts().expect("in bounds");
        assert!(committing.oracle.reservation_due(ts).is_some());
        committing.apply_write(ts).expect("it commits");
        hands.advance(Duration::from_secs(4));
        let ts = committing.write_ts().expect("in bounds");
        assert_eq!(committing.oracle.reservation_due(ts), None);
    }

    #[test]
    #[should_panic(expected = "beyond the durable mark")]
    fn time_that_would_be_forgotten_cannot_be_applied() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let persist = PersistClient::open(dir.path()).expect("it opens");
        let oracle = LocalOracle::open(&persist, Clock::system()).expect("it opens");
        let _beyond = oracle.apply_write(oracle.write_ts().expect("in bounds"));
    }

    #[test]
    fn a_mark_from_the_future_is_refused() {
        let value = MarkProto { format: MARK_FORMAT + 1, mark: 7 }.encode_to_vec();
        let error = decode_mark(&value).expect_err("it is from the future");
        assert_eq!(error.to_string(), "the oracle's mark has format version 2, this version reads 1");
    }
}
