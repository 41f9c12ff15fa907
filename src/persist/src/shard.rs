//! What is known in memory about each shard: which batches make it up, and what they count.
//!
//! Rebuilt from consensus when the data directory is opened, then changed only together with consensus: under the
//! commit lock, after the transaction that made the same change durable.
//!
//! # Invariants
//! * The batches of a shard are in the order in which they were committed; a compacted batch stands where the
//!   batches that it replaces stood.
//! * `since` only advances.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use repr::{Diff, GlobalId, Timestamp};

use crate::blob::BlobLease;

/// Names a shard: the word of the catalog object whose data it holds. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u64);

impl From<GlobalId> for ShardId {
    fn from(id: GlobalId) -> ShardId {
        ShardId(id.to_u64())
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        GlobalId::from_u64(self.0).fmt(f)
    }
}

/// What a shard holds, as of its latest commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardStats {
    /// The sum of all diffs: the number of live rows, copies counted.
    pub rows: Diff,
    /// The length of all updates that are stored, history and not yet merged changes included.
    pub bytes: u64,
    /// The number of updates that are stored; well above `rows` means that compaction has work left.
    pub update_count: u64,
    /// The number of batches that a snapshot has to merge.
    pub batch_count: usize,
    /// The earliest readable time.
    pub since: Timestamp,
    /// The first time that is not readable yet.
    pub upper: Timestamp,
}

/// One durable batch of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// The key of the batch in consensus.
    pub(crate) seq: u64,
    /// The latest timestamp of any update in it.
    pub(crate) ts_max: Timestamp,
    /// The sum of its diffs.
    pub(crate) rows: Diff,
    /// The number of its updates.
    pub(crate) update_count: u64,
    /// The length of its rows.
    pub(crate) bytes: u64,
    pub(crate) location: Location,
}

/// Where the updates of a batch are.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// In consensus, as the payload of the batch itself.
    Inline,
    /// In a file; the lease keeps it from being deleted.
    Blob(Arc<BlobLease>),
}

impl Batch {
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.location, Location::Inline)
    }
}

/// One shard.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// Times below this have been, or may be, merged into it.
    pub(crate) since: Timestamp,
    pub(crate) batches: Vec<Batch>,
    /// How often batches were replaced. A reader that copied `batches` and then finds an inline batch gone compares
    /// this to tell compaction (start over) from corruption.
    pub(crate) replaced_count: u64,
}

impl Shard {
    pub(crate) fn stats(&self, upper: Timestamp) -> ShardStats {
        ShardStats {
            rows: self.batches.iter().map(|batch| batch.rows).sum(),
            bytes: self.batches.iter().map(|batch| batch.bytes).sum(),
            update_count: self.batches.iter().map(|batch| batch.update_count).sum(),
            batch_count: self.batches.len(),
            since: self.since,
            upper,
        }
    }
}

/// All shards and how far time has come. One lock, held for moments only: never across I/O.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    pub(crate) by_id: HashMap<ShardId, Shard>,
    /// Every commit from now on has at least this timestamp; everything below is settled.
    pub(crate) upper: Timestamp,
    /// Up to here history may be forgotten, says who knows the readers.
    pub(crate) compaction_frontier: Timestamp,
}
