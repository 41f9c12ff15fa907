//! Hydration: how the rows that were there before an index reach its workers, and how far that is.
//!
//! A job beside the committer ([`ore::thread::Beside`]) reads the inputs and sends them in pieces. It waits for *room* among the
//! pieces that wait for the workers, so that no more is read than can be taken, and for one of the cluster's *lanes*. It ends
//! early when its index does.

use crate::error::ComputeError;
use crate::index::IndexHandle;
use crate::protocol::Piece;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Indexes of a cluster that are hydrated at once. One after the other each is there as soon as it can be, instead of all of
/// them in the end; a second lane lets small ones pass a large one.
const LANES: usize = 2;
/// Pieces of a hydration that wait for the workers at the most.
const ROOMS: usize = 64;
/// How often a hydration that waits for room looks whether its index has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How far a hydration is: of how many rows and bytes of its inputs how many were read. The totals are those of when it began,
/// updates that cancel out included.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    took: OnceLock<Duration>,
    rows_total: AtomicU64,
    bytes_total: AtomicU64,
    rows_read: AtomicU64,
    bytes_read: AtomicU64,
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
            bytes_read: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// So much more is to be read.
    pub fn expect(&self, rows: u64, bytes: u64) {
        self.rows_total.fetch_add(rows, Ordering::Relaxed);
        self.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self, piece: &Piece) {
        let (Piece::Oks(updates) | Piece::Errs(updates)) = piece;
        self.rows_read.fetch_add(count(updates.len()), Ordering::Relaxed);
        self.bytes_read.fetch_add(count(updates.bytes()), Ordering::Relaxed);
    }

    /// It is over.
    pub(crate) fn end(&self) {
        let _ended_before = self.took.set(self.began.elapsed());
    }

    /// How far it is.
    pub fn now(&self) -> Hydrating {
        let (rows_read, bytes_read) = (self.rows_read.load(Ordering::Relaxed), self.bytes_read.load(Ordering::Relaxed));
        Hydrating {
            // What came since it began is read as well.
            rows_total: self.rows_total.load(Ordering::Relaxed).max(rows_read),
            bytes_total: self.bytes_total.load(Ordering::Relaxed).max(bytes_read),
            rows_read,
            bytes_read,
            took: self.took.get().copied().unwrap_or_else(|| self.began.elapsed()),
        }
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Room for a piece, which is free again when this is dropped.
pub struct Room(Sender<()>);

impl Drop for Room {
    fn drop(&mut self) {
        // Nobody waits any more where nobody holds the other end.
        let _gone = self.0.send(());
    }
}

/// The lanes of a cluster.
#[derive(Clone)]
pub(crate) struct Lanes(Arc<Semaphore>);

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes(Arc::new(Semaphore::new(LANES)))
    }

    /// Waits for a lane, which is free again when what this returns is dropped.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn enter(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.0).acquire_owned().await.expect("nobody closes the lanes")
    }
}

/// The pieces of a hydration that wait for the workers.
pub(crate) struct Pieces {
    handle: Arc<IndexHandle>,
    free: Sender<()>,
    rooms: Receiver<()>,
}

impl Pieces {
    pub(crate) fn of(handle: &Arc<IndexHandle>) -> Pieces {
        let (free, rooms) = bounded(ROOMS);
        (0..ROOMS).for_each(|_| free.send(()).expect("it takes as many as there are"));
        Pieces { handle: Arc::clone(handle), free, rooms }
    }

    /// Waits until there is room for a piece, which counts as read then. Fails when the index has ended.
    pub(crate) fn admit(&self, piece: &Piece) -> Result<Arc<Room>, ComputeError> {
        loop {
            self.handle.check()?;
            if self.rooms.recv_timeout(LOOK_EVERY).is_ok() {
                self.handle.progress().read(piece);
                return Ok(Arc::new(Room(self.free.clone())));
            }
        }
    }
}
