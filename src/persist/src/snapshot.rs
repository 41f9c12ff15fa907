//! The contents of a shard at one time.
//!
//! A snapshot is fixed when it is taken: it holds leases on its blobs and has its inline batches in memory, so that
//! neither commits nor compaction change what it yields or take anything away from it.

use repr::{Timestamp, Updates};
use std::collections::BTreeMap;

use crate::client::Inner;
use crate::error::PersistError;
use crate::merge::{History, Merge};
use crate::shard::{Batch, ShardId};

/// A batch of a snapshot ends when it has this many bytes of rows, so that its reader's memory is bounded.
const BATCH_BYTES: usize = 1 << 20;

/// And also when it has this many rows: what a vectorized engine likes to be handed at once.
const BATCH_ROWS_MAX: usize = 16_384;

/// All rows of a shard as of one time: consolidated, sorted by their bytes, each with its non-zero multiplicity.
///
/// An iterator of batches. After an error it is over. Dropping it releases what it kept from being deleted.
#[derive(Debug)]
pub struct ShardSnapshot {
    merge: Merge,
    as_of: Timestamp,
    history: History,
    is_done: bool,
}

impl ShardSnapshot {
    /// Takes a snapshot. See [`crate::PersistClient::snapshot`].
    pub(crate) fn open(inner: &Inner, shard: ShardId, as_of: Timestamp) -> Result<ShardSnapshot, PersistError> {
        let (batches, payloads) = loop {
            // The list and the contents are read one after the other. Compaction may replace inline batches in
            // between; then the count of replacements has moved, and the list is read again.
            let (batches, replaced_count) = list(inner, shard, as_of)?;
            let inline: Vec<u64> = batches.iter().filter(|batch| batch.is_inline()).map(|batch| batch.seq).collect();
            let payloads = inner.consensus.payloads(&inline)?;
            if let Some(payloads) = payloads.into_iter().collect::<Option<Vec<_>>>() {
                break (batches, payloads);
            }
            let (_, replaced_count_now) = list(inner, shard, as_of)?;
            if replaced_count == replaced_count_now {
                return Err(PersistError::corrupt(format!("shard {shard}"), "an inline batch is missing"));
            }
        };
        let merge = Merge::new(shard, &batches, payloads)?;
        Ok(ShardSnapshot { merge, as_of, history: History::default(), is_done: false })
    }

    /// The next rows; `None` after the last. No batch is empty.
    pub fn next_batch(&mut self) -> Result<Option<Updates>, PersistError> {
        let mut batch = Updates::new();
        while !self.is_done && batch.bytes() < BATCH_BYTES && batch.len() < BATCH_ROWS_MAX {
            if !self.merge.next_row(&mut self.history).inspect_err(|_| self.is_done = true)? {
                self.is_done = true;
                break;
            }
            let visible = self.history.changes.iter().filter(|(ts, _)| *ts <= self.as_of);
            let diff = visible.map(|(_, diff)| diff).sum();
            if diff != 0 {
                batch.push(&self.history.row, diff);
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }
}

/// What happened in a shard after one time and up to another, by time. See [`crate::PersistClient::changes`].
pub(crate) fn changes(
    inner: &Inner,
    shard: ShardId,
    after: Timestamp,
    until: Timestamp,
) -> Result<BTreeMap<Timestamp, Updates>, PersistError> {
    // What is readable at `after` has not been moved past it by compaction.
    drop(list(inner, shard, after)?);
    let mut snapshot = ShardSnapshot::open(inner, shard, until)?;
    let mut changes: BTreeMap<Timestamp, Updates> = BTreeMap::new();
    while snapshot.merge.next_row(&mut snapshot.history)? {
        for (ts, diff) in &snapshot.history.changes {
            if (after + 1..=until).contains(ts) {
                changes.entry(*ts).or_default().push(&snapshot.history.row, *diff);
            }
        }
    }
    Ok(changes)
}

impl Iterator for ShardSnapshot {
    type Item = Result<Updates, PersistError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

/// The batches that make up the shard, and how often batches of it were replaced so far.
fn list(inner: &Inner, shard: ShardId, as_of: Timestamp) -> Result<(Vec<Batch>, u64), PersistError> {
    let shards = inner.shards.lock();
    let state = shards.by_id.get(&shard).ok_or(PersistError::UnknownShard(shard))?;
    if as_of < state.since || as_of >= shards.upper {
        return Err(PersistError::AsOfOutOfRange { shard, as_of, since: state.since, upper: shards.upper });
    }
    Ok((state.batches.clone(), state.replaced_count))
}
