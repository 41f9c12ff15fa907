//! Hydration: how the rows that were there before an index reach its workers.
//!
//! A job beside the committer ([`ore::thread::Beside`]) reads the inputs and sends them in pieces. It waits for *room* among the
//! pieces that wait for the workers, so that no more is read than can be taken, and for one of the cluster's *lanes*. It ends
//! early when its index does.

use crate::error::ComputeError;
use crate::index::IndexHandle;
use crossbeam_channel::{Receiver, Sender, bounded};
use repr::Updates;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Indexes of a cluster that are hydrated at once. One after the other each is there as soon as it can be, instead of all of
/// them in the end; a second lane lets small ones pass a large one.
const LANES: usize = 2;
/// Pieces of a hydration that wait for the workers at the most.
const ROOMS: usize = 64;
/// How often a hydration that waits for room looks whether its index has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Some of an input's rows.
#[derive(Clone)]
pub enum Piece {
    /// Rows.
    Oks(Arc<Updates>),
    /// Encoded errors.
    Errs(Arc<Updates>),
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
                let (Piece::Oks(updates) | Piece::Errs(updates)) = piece;
                self.handle.progress().read(updates);
                return Ok(Arc::new(Room(self.free.clone())));
            }
        }
    }
}
