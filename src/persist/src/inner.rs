//! What clients, snapshots and the background thread share.
//!
//! # Invariants
//! * The lock `writing` is held from the check of a commit until it is published, and by compaction for its swap: consensus and memory
//!   change together, in one order. The lock `shards` is never held across I/O, and nothing but `shapes` is locked within it.

use crate::blob::BlobStore;
use crate::compact::requests::Background;
use crate::consensus::{BatchRow, Consensus, Txn};
use crate::data_dir::DataDir;
use crate::error::PersistError;
use crate::shard::{Batch, Location, Shards};
use crate::shard_id::ShardId;
use columns::{Cache, Shape};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Batches that take more than this when encoded become blobs. Below it, a second file with two syncs of its own
/// costs more than the bytes do in the log.
pub(crate) const INLINE_BYTES_MAX: usize = 64 << 10;

/// A part of a blob is closed when it has this many bytes: what a merge holds in memory per blob.
pub(crate) const PART_BYTES: usize = 1 << 20;

/// What clients, snapshots and the background thread share.
pub(crate) struct Inner {
    pub(crate) consensus: Box<dyn Consensus>,
    pub(crate) blobs: BlobStore,
    pub(crate) shards: Mutex<Shards>,
    pub(crate) writing: Mutex<Writing>,
    pub(crate) background: Background,
    /// Where hot columns are kept decoded, if somebody has given memory for that.
    pub(crate) cache: OnceLock<Arc<Cache>>,
    /// What the rows of a shard are made of, where somebody has said so and they can be kept by column.
    pub(crate) shapes: Mutex<HashMap<ShardId, Arc<Shape>>>,
    /// The next key for a batch. Keys order batches and name blobs.
    pub(crate) next_seq: AtomicU64,
    pub(crate) epoch: u64,
    /// Of a data directory. Last, so that the lock goes when everything else is closed.
    pub(crate) dir: Option<DataDir>,
}

impl Inner {
    /// The shape of the rows of a shard, if they are to be kept by column.
    pub(crate) fn shape(&self, shard: ShardId) -> Option<Arc<Shape>> {
        self.shapes.lock().get(&shard).cloned()
    }

    /// What an error means of something durable that cannot be read: in stores that others reach, a process that has taken over deletes
    /// what it has compacted, and that is no damage.
    pub(crate) fn explained(&self, error: PersistError) -> PersistError {
        if self.dir.is_some() || !matches!(error, PersistError::Corrupt { .. }) {
            return error;
        }
        match self.consensus.transact(&Txn { epoch: self.epoch, ..Txn::default() }) {
            Err(fenced @ PersistError::Fenced { .. }) => fenced,
            _ => error,
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// Whoever holds this may change consensus and `shards`.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    /// A transaction ended indeterminately, or the client was closed.
    pub(crate) is_poisoned: bool,
}

/// What a batch of consensus is in memory.
pub(crate) fn batch<P>(row: &BatchRow<P>, location: Location) -> Batch {
    let BatchRow { seq, ts_max, rows, update_count, bytes, .. } = *row;
    Batch { seq, ts_max, rows, update_count, bytes, location }
}
