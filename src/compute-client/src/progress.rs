//! How far a hydration is.

use repr::Updates;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How far a hydration is: of how many rows and bytes of its inputs how many were read. The totals are those of when it began,
/// updates that cancel out included. Of rows that were read, those columns may be missing that nothing is made of: their share of the
/// bytes is that of the rows.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    took: OnceLock<Duration>,
    rows_total: AtomicU64,
    bytes_total: AtomicU64,
    rows_read: AtomicU64,
}

/// What a [`Progress`] says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hydrating {
    /// Rows to read.
    pub rows_total: u64,
    /// Their bytes.
    pub bytes_total: u64,
    /// Rows that were read.
    pub rows_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// How long it took, or has taken so far.
    pub took: Duration,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            began: Instant::now(),
            took: OnceLock::new(),
            rows_total: AtomicU64::new(0),
            bytes_total: AtomicU64::new(0),
            rows_read: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// So much more is to be read.
    pub fn expect(&self, rows: u64, bytes: u64) {
        self.rows_total.fetch_add(rows, Ordering::Relaxed);
        self.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much was read.
    pub(crate) fn read(&self, updates: &Updates) {
        let rows = u64::try_from(updates.len()).unwrap_or(u64::MAX);
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// It is over.
    pub(crate) fn end(&self) {
        let _ended_before = self.took.set(self.began.elapsed());
    }

    /// How far it is.
    pub fn now(&self) -> Hydrating {
        let (rows_total, bytes_total) =
            (self.rows_total.load(Ordering::Relaxed), self.bytes_total.load(Ordering::Relaxed));
        let rows_read = self.rows_read.load(Ordering::Relaxed);
        let among = u128::from(rows_total.max(1));
        let bytes_read = u128::from(bytes_total) * u128::from(rows_read.min(rows_total)) / among;
        Hydrating {
            // What came since it began is read as well.
            rows_total: rows_total.max(rows_read),
            bytes_total,
            bytes_read: u64::try_from(bytes_read).unwrap_or(bytes_total),
            rows_read,
            took: self.took.get().copied().unwrap_or_else(|| self.began.elapsed()),
        }
    }
}
