//! Files of columns of which much has gone: they are rewritten without it, once nobody writes to their shard any more.
//!
//! A scan leaves out what has gone by its position, which costs little while that is little, and a file is not rewritten for a few rows
//! while more of them go. So a shard has to be quiet for [`QUIET`]; then its files are rewritten one after the other, as long as it stays so, at the
//! pace of what nobody waits for (module `pace`).

use crate::error::PersistError;
use crate::files::removals;
use crate::inner::Inner;
use crate::shard::Shard;
use crate::shard_id::ShardId;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long nobody has written to a shard before its files are looked at.
const QUIET: Duration = Duration::from_secs(10);

/// What part of a file has to have gone: one row in so many.
const GONE_PART: u64 = 128;

/// Since when shards are as they are, of those that have holes.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// By shard: the latest batch, and when that was seen first.
    since: HashMap<ShardId, (u64, Instant)>,
}

impl Quiet {
    /// The shards whose files are to be looked at.
    pub(super) fn due(&mut self, inner: &Inner) -> Vec<ShardId> {
        let shards = inner.shards.lock();
        let holed = shards.by_id.iter().filter(|(_, shard)| has_holes(shard));
        let latest: HashMap<ShardId, u64> = holed.filter_map(|(id, shard)| Some((*id, latest(shard)?))).collect();
        drop(shards);
        let now = Instant::now();
        self.since.retain(|id, (seq, _)| latest.get(id) == Some(seq));
        for (id, seq) in latest {
            self.since.entry(id).or_insert((seq, now));
        }
        let due = self.since.iter_mut().filter(|(_, (_, seen))| now.duration_since(*seen) >= QUIET);
        due.map(|(id, (_, seen))| {
            // If it is as it is because nothing can go yet, it is looked at again later.
            *seen = now;
            *id
        })
        .collect()
    }
}

/// The key of its latest batch.
fn latest(shard: &Shard) -> Option<u64> {
    shard.batches.iter().map(|batch| batch.seq).max()
}

/// Whether so much has gone of files that one of them may be worth it.
fn has_holes(shard: &Shard) -> bool {
    let sizes = || shard.batches.iter().filter(|batch| batch.is_columns()).map(|batch| batch.update_count);
    shard.removed > 0 && sizes().any(|size| shard.removed >= size / GONE_PART)
}

impl Inner {
    /// The file of a shard of which most can go, by its batch, if that is enough.
    pub(super) fn most_holed(&self, shard: ShardId) -> Result<Option<u64>, PersistError> {
        let (batches, since) = {
            let shards = self.shards.lock();
            let state = shards.by_id.get(&shard).ok_or(PersistError::UnknownShard(shard))?;
            (state.batches.clone(), shards.compaction_frontier.min(shards.upper.saturating_sub(1)))
        };
        let gone = removals(shard, &batches)?;
        let can_go = |seq: u64| gone.of_file(seq).iter().filter(|gone| gone.ts <= since).count() as u64;
        let files = batches.iter().filter(|batch| batch.is_columns());
        let holed = files
            .map(|batch| (can_go(batch.seq), batch))
            .filter(|(gone, batch)| *gone > 0 && *gone >= batch.update_count / GONE_PART);
        Ok(holed.max_by_key(|(gone, _)| *gone).map(|(_, batch)| batch.seq))
    }
}
