//! What is known in memory about each shard: which batches make it up, and what they count.
//!
//! Rebuilt from consensus when the data directory is opened, then changed only together with consensus: under the
//! commit lock, after the transaction that made the same change durable.
//!
//! # Invariants
//! * The order of the batches of a shard means nothing: each update carries its own time.
//! * `since` only advances.

use crate::blob::BlobLease;
use crate::facts::ColumnFacts;
use crate::shard_id::ShardId;
use columns::find::Found;
use parking_lot::Mutex;
use repr::{Diff, Timestamp};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Inline batches from which on they are merged. Opening a snapshot looks up each of them, some microseconds apiece.
const INLINE_COUNT_MAX: usize = 1_000;

/// Bytes in inline batches from which on they are merged: what a snapshot has to sort in memory.
const INLINE_BYTES_MAX: u64 = 8 << 20;

/// Blobs from which on they are merged. Those of similar size merge earlier, so that this bounds a burst only.
const BLOB_COUNT_MAX: usize = 12;

/// Below twice this a blob is merged whenever anything is. Not more: a thousand small commits take 40 KB, and where they come by the second all
/// of this is decoded and written again each time.
const SMALL_BYTES: u64 = 64 << 10;

/// How much larger than all smaller ones together a blob may be and still be merged with them.
const SIZE_RATIO: u64 = 2;

/// What a shard holds, as of its latest commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardStats {
    /// The sum of all diffs: the number of live rows, copies counted.
    pub rows: Diff,
    /// The time of the latest change: from here on there are so many rows.
    pub changed: Timestamp,
    /// The length of all updates that are stored, history and not yet merged changes included.
    pub bytes: u64,
    /// The number of updates that are stored; well above `rows` means that compaction has work left.
    pub update_count: u64,
    /// How many of these are kept by column.
    pub by_column: u64,
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
    /// The latest time of its updates.
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

    /// Whether it is a file of columns.
    pub(crate) fn is_columns(&self) -> bool {
        matches!(&self.location, Location::Blob(lease) if lease.is_columns())
    }

    /// Whether it is a list of what has gone of files of columns.
    pub(crate) fn is_removals(&self) -> bool {
        matches!(&self.location, Location::Blob(lease) if lease.is_removals())
    }

    /// Whether it is a blob of parts that says of rows that they have gone, which lists of positions could say.
    pub(crate) fn could_be_removals(&self) -> bool {
        let is_parts = !self.is_inline() && !self.is_columns() && !self.is_removals();
        is_parts && u64::try_from(self.rows) != Ok(self.update_count)
    }

    /// Whether it is a blob of parts that could be a file of columns: nothing says that it removes rows.
    pub(crate) fn could_be_columns(&self) -> bool {
        let is_parts = !self.is_inline() && !self.is_columns() && !self.is_removals();
        is_parts && u64::try_from(self.rows) == Ok(self.update_count)
    }
}

/// One shard.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// Times below this have been, or may be, merged into it.
    pub(crate) since: Timestamp,
    pub(crate) batches: Vec<Batch>,
    /// The number of inline batches in `batches`, and the length of their rows.
    inline_count: usize,
    inline_bytes: u64,
    /// How many rows of files have gone by what lists say.
    pub(crate) removed: u64,
    /// How often batches were replaced. A reader that copied `batches` and then finds an inline batch gone compares
    /// this to tell compaction (start over) from corruption.
    pub(crate) replaced_count: u64,
    /// What scans have looked up.
    looked_up: Arc<LookedUp>,
    pub(crate) counted: Option<Counted>,
}

/// What few rows, which are in no files of columns, say of their values.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// How many updates there were, and how often batches had been replaced.
    pub(crate) updates: u64,
    pub(crate) replaced: u64,
    pub(crate) facts: Arc<[ColumnFacts]>,
}

/// What was looked up in files of columns, once, as long as the files are the same.
#[derive(Debug, Default)]
pub(crate) struct LookedUp {
    /// The batches that are the files.
    pub(crate) files: Vec<u64>,
    /// By row, and by file in that order: where it stands.
    pub(crate) places: Mutex<HashMap<Box<[u8]>, Arc<[Vec<Found>]>>>,
    /// What is known of the values of all files together.
    pub(crate) facts: OnceLock<Arc<[ColumnFacts]>>,
}

impl Shard {
    /// A shard without batches.
    pub(crate) fn new(since: Timestamp) -> Shard {
        Shard { since, ..Shard::default() }
    }

    /// Adds a batch at the end.
    pub(crate) fn push(&mut self, batch: Batch) {
        if batch.is_inline() {
            self.inline_count += 1;
            self.inline_bytes += batch.bytes;
        }
        if batch.is_removals() {
            self.removed += batch.update_count;
        }
        self.batches.push(batch);
    }

    /// Puts `merged` in the place of the batches whose keys are `replaced`. Returns these.
    pub(crate) fn replace(&mut self, replaced: &HashSet<u64>, merged: Vec<Batch>) -> Vec<Batch> {
        let (old, kept) = std::mem::take(&mut self.batches).into_iter().partition(|b| replaced.contains(&b.seq));
        self.replaced_count += 1;
        self.inline_count = 0;
        self.inline_bytes = 0;
        self.removed = 0;
        for batch in merged.into_iter().chain(kept) {
            self.push(batch);
        }
        old
    }

    /// What was looked up in these files.
    pub(crate) fn looked_up(&mut self, files: Vec<u64>) -> Arc<LookedUp> {
        if self.looked_up.files != files {
            self.looked_up = Arc::new(LookedUp { files, ..LookedUp::default() });
        }
        Arc::clone(&self.looked_up)
    }

    /// Whether there is enough small stuff that merging it pays.
    pub(crate) fn is_worth_compacting(&self) -> bool {
        self.inline_count >= INLINE_COUNT_MAX
            || self.inline_bytes >= INLINE_BYTES_MAX
            // Of blobs, at least two; large ones stay by themselves, however many they are.
            || self.batches.len() - self.inline_count >= BLOB_COUNT_MAX && self.tier().len() > self.inline_count + 1
            || !self.removals_to_place().is_empty()
    }

    /// All inline batches, then blobs from small to large while the next one is not much larger than those before.
    pub(crate) fn tier(&self) -> Vec<&Batch> {
        let (mut tier, mut blobs): (Vec<&Batch>, Vec<&Batch>) =
            self.batches.iter().partition(|batch| batch.is_inline());
        let mut bytes = self.inline_bytes;
        blobs.sort_by_key(|batch| batch.bytes);
        for blob in blobs {
            if blob.bytes > bytes.max(SMALL_BYTES).saturating_mul(SIZE_RATIO) {
                break;
            }
            bytes += blob.bytes;
            tier.push(blob);
        }
        tier
    }

    /// What could be kept by column, or, when all of that is, as positions of removed rows.
    pub(crate) fn to_rewrite(&self) -> Vec<&Batch> {
        let old: Vec<&Batch> = self.batches.iter().filter(|batch| batch.could_be_columns()).collect();
        if old.is_empty() { self.removals_to_place() } else { old }
    }

    /// What says of many rows that they have gone, not where they stood, if there are files where that may be.
    fn removals_to_place(&self) -> Vec<&Batch> {
        let removals: Vec<&Batch> = self.batches.iter().filter(|batch| batch.could_be_removals()).collect();
        let any = |is_so: fn(&Batch) -> bool| self.batches.iter().any(is_so);
        match removals.is_empty() || any(Batch::could_be_columns) || !any(Batch::is_columns) {
            true => Vec::new(),
            false => removals,
        }
    }

    pub(crate) fn stats(&self, upper: Timestamp) -> ShardStats {
        ShardStats {
            rows: self.batches.iter().map(|batch| batch.rows).sum(),
            changed: self.batches.iter().map(|batch| batch.ts_max).max().unwrap_or(0),
            bytes: self.batches.iter().map(|batch| batch.bytes).sum(),
            update_count: self.batches.iter().map(|batch| batch.update_count).sum(),
            by_column: self.batches.iter().filter(|batch| batch.is_columns()).map(|batch| batch.update_count).sum(),
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
