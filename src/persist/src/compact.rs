//! Compaction, and the thread that does it together with the rest of the housekeeping.
//!
//! A shard collects one batch per commit that touches it. Compaction merges batches into one, forgets the
//! differences between times below `since`, and drops what cancels out:
//! 1. Choose batches, under the lock on the lists: all inline ones, and blobs as long as they are not much larger
//!    than what is chosen already. So a byte is rewritten a logarithmic number of times. If more than half of what is
//!    stored would cancel out, everything is chosen. A file of which much has gone is chosen by itself, once its shard is quiet
//!    (module `holes`).
//! 2. Merge them into new blobs (or an inline batch, if it is small), without any lock.
//! 3. Swap in one transaction of consensus, under the lock `writing`: old batches out, new ones in, `since` up.
//! 4. Publish the same in memory. The old blobs are deleted when the last snapshot that reads them is gone.
//!
//! # Invariants
//! * `since` of a shard never passes the frontier that [`crate::PersistClient::allow_compaction`] was told, nor
//!   the latest settled time.
//! * A commit waits at most for one swap, whose cost is the number of batches and not of rows.

mod holes;
mod pace;
pub(crate) mod requests;
use crate::consensus::Txn;
use crate::error::PersistError;
use crate::files::{ColumnFile, Placing, removals};
use crate::inner::{Inner, batch};
use crate::merge::{History, Merge};
use crate::output::{Output, Written};
use crate::postgres::in_full;
use crate::shard::{Batch, Location, Shard};
use crate::shard_id::ShardId;
use columns::Shape;
use holes::Quiet;
use ore::exit::{self, Exit};
use pace::Pace;
use repr::{Diff, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Which batches of a shard to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Where it pays.
    Tiered,
    /// All of them.
    All,
    /// The file that this one is, with the lists of what has gone.
    File(u64),
}

/// What of a shard is merged.
struct Choice {
    merged: Vec<Batch>,
    /// The other batches.
    kept: Vec<Batch>,
    /// Up to where history is forgotten.
    since: Timestamp,
}

/// Owns the thread: stops and joins it when dropped.
pub(crate) struct BackgroundThread {
    inner: Option<Arc<Inner>>,
    handle: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    pub(crate) fn spawn(inner: Arc<Inner>) -> BackgroundThread {
        let shared = Arc::clone(&inner);
        let handle = ore::thread::spawn("persist-compact", move || run(&shared));
        BackgroundThread { inner: Some(inner), handle: Some(handle) }
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        if let (Some(inner), Some(handle)) = (self.inner.take(), self.handle.take()) {
            inner.background.stop();
            // A panic of the thread was logged where it happened, and what it left undone is redone at the next open.
            let _ = handle.join();
        }
    }
}

fn run(inner: &Inner) {
    let mut quiet = Quiet::default();
    while let Some(requests) = inner.background.next() {
        if requests.is_empty() {
            for shard in quiet.due(inner) {
                inner.fill_holes(shard);
            }
        }
        for shard in requests {
            let before = inner.to_rewrite(shard);
            let compacted = ore::thread::survive("compaction", || inner.compact(shard, Extent::Tiered));
            // What cannot be rewritten, because it is damaged, is not tried for ever.
            if inner.done(shard, compacted).is_some() && inner.to_rewrite(shard) < before {
                inner.request_rewriting(shard);
            }
        }
        inner.keep_house();
        inner.blobs.collect_garbage();
    }
}

impl Inner {
    /// Rewrites files of which much has gone, as long as nothing else is asked for.
    fn fill_holes(&self, shard: ShardId) {
        let fill = || self.done(shard, ore::thread::survive("compaction", || self.compact_holes(shard)));
        while self.background.is_idle() && fill() == Some(true) {
            // Each may take long.
            self.keep_house();
            self.blobs.collect_garbage();
        }
    }

    /// Rewrites the file of a shard of which most can go, if that is enough; whether it was.
    pub(crate) fn compact_holes(&self, shard: ShardId) -> Result<bool, PersistError> {
        self.most_holed(shard)?.map_or(Ok(false), |file| self.compact(shard, Extent::File(file)))
    }

    /// What a compaction of a shard did; what it means if it could not.
    fn done<T>(&self, shard: ShardId, compacted: Option<Result<T, PersistError>>) -> Option<T> {
        match compacted.map(|done| done.map_err(|error| self.explained(error))) {
            Some(Ok(done)) => return Some(done),
            None | Some(Err(PersistError::UnknownShard(_))) => {}
            Some(Err(error)) if error.is_indeterminate() => exit::end(Exit::StorageFailed, &in_full(&error)),
            // Whoever serves it finds out, and ends.
            Some(Err(PersistError::Fenced { .. })) => {}
            Some(Err(error)) => tracing::warn!(%shard, %error, "compaction failed and will be tried again"),
        }
        None
    }

    /// How many updates of a shard could be kept by column, or as positions, and are not.
    fn to_rewrite(&self, shard: ShardId) -> u64 {
        if self.shape(shard).is_none() {
            return 0;
        }
        let shards = self.shards.lock();
        let batches = shards.by_id.get(&shard).map(Shard::to_rewrite).unwrap_or_default();
        batches.iter().map(|batch| batch.update_count).sum()
    }

    /// Asks for a shard to be rewritten if that has something left to do.
    pub(crate) fn request_rewriting(&self, shard: ShardId) {
        if self.to_rewrite(shard) > 0 {
            self.background.request(shard);
        }
    }

    /// The housekeeping of consensus.
    fn keep_house(&self) {
        match self.consensus.maintain() {
            Ok(()) => {}
            Err(error) if error.is_indeterminate() => exit::end(Exit::StorageFailed, &in_full(&error)),
            Err(PersistError::Fenced { .. }) => {}
            Err(error) => tracing::warn!(%error, "housekeeping failed and will be tried again"),
        }
    }

    /// Merges batches of `shard`. False if it was left as it is: there is nothing to gain, the process is stopping, or somebody else has
    /// changed it.
    pub(crate) fn compact(&self, shard: ShardId, extent: Extent) -> Result<bool, PersistError> {
        let Some(choice) = self.choose(shard, extent)? else { return Ok(false) };
        let inline: Vec<u64> = choice.merged.iter().filter(|batch| batch.is_inline()).map(|batch| batch.seq).collect();
        let payloads = self.consensus.payloads(&inline)?;
        let Some(payloads) = payloads.into_iter().collect::<Option<Vec<_>>>() else {
            // Somebody else compacted or dropped the shard in the meantime.
            return Ok(false);
        };
        let gone = removals(shard, choice.merged.iter().chain(&choice.kept))?;
        let merge = Merge::new(shard, &choice.merged, payloads, &gone, choice.since)?;
        let mut files = Placing::new(ColumnFile::open_all(shard, &choice.kept, &gone)?);
        let pace = matches!(extent, Extent::File(_)).then(Pace::begin);
        let Some(written) = self.write_merged(shard, merge, &choice, &mut files, pace)? else { return Ok(false) };
        self.swap(shard, &choice, written)
    }

    /// Step 1; `None` if there is nothing to gain.
    fn choose(&self, shard: ShardId, extent: Extent) -> Result<Option<Choice>, PersistError> {
        let shards = self.shards.lock();
        let state = shards.by_id.get(&shard).ok_or(PersistError::UnknownShard(shard))?;
        let since = state.since.max(shards.compaction_frontier.min(shards.upper.saturating_sub(1)));
        let mut chosen: HashSet<u64> = match extent {
            Extent::All => state.batches.iter().map(|batch| batch.seq).collect(),
            Extent::Tiered => choose_tiered(state, since),
            Extent::File(file) => state.batches.iter().map(|batch| batch.seq).filter(|seq| *seq == file).collect(),
        };
        let mut gains = match extent {
            Extent::Tiered => chosen.len() > 1,
            Extent::All => chosen.len() > 1 || since > state.since && !chosen.is_empty(),
            Extent::File(_) => !chosen.is_empty(),
        };
        if self.shape(shard).is_some() && !matches!(extent, Extent::File(_)) {
            let mut to_rewrite = state.to_rewrite();
            // Of what could be by column one at a time, the smallest first.
            to_rewrite.sort_by_key(|batch| batch.bytes);
            if to_rewrite.first().is_some_and(|batch| batch.could_be_columns()) {
                to_rewrite.truncate(1);
            }
            gains |= !to_rewrite.is_empty();
            chosen.extend(to_rewrite.iter().map(|batch| batch.seq));
        }
        let is_chosen = |batch: &Batch| chosen.contains(&batch.seq);
        // A list says what has gone of files that are there: when one is rewritten, so are the lists.
        let takes_lists = state.batches.iter().any(|batch| batch.is_columns() && is_chosen(batch));
        let (merged, kept) =
            state.batches.iter().cloned().partition(|batch| is_chosen(batch) || takes_lists && batch.is_removals());
        Ok(gains.then_some(Choice { merged, kept, since }))
    }

    /// Step 2, at a pace if nobody waits for it. `None` if the process is stopping.
    fn write_merged(
        &self,
        shard: ShardId,
        mut merge: Merge,
        choice: &Choice,
        files: &mut Placing,
        mut pace: Option<Pace>,
    ) -> Result<Option<Vec<Written>>, PersistError> {
        let since = choice.since;
        let mut output = Output::new(self, shard, self.shape_of(shard, &choice.merged)?);
        let stays = |seq: u64| choice.kept.iter().any(|batch| batch.seq == seq);
        output.keep(&removals(shard, choice.merged.iter())?, stays);
        let (mut history, mut changes) = (History::default(), Vec::new());
        let mut row_count = 0_u64;
        while merge.next_row(&mut history)? {
            history.changes.iter_mut().for_each(|(ts, _)| *ts = since.max(*ts));
            history.changes.sort_unstable_by_key(|(ts, _)| *ts);
            changes.clear();
            for at_once in history.changes.chunk_by(|a, b| a.0 == b.0) {
                let diff: Diff = at_once.iter().map(|(_, diff)| diff).sum();
                if diff != 0 {
                    changes.push((at_once[0].0, diff));
                }
            }
            output.push_history(&history.row, &changes, files)?;
            row_count += 1;
            if row_count.is_multiple_of(4_096) {
                if self.background.is_stopping() {
                    return Ok(None);
                }
                if self.background.is_housekeeping_due() {
                    self.keep_house();
                }
                if let Some(pace) = &mut pace {
                    pace.rest(&self.background);
                }
            }
        }
        output.finish().map(Some)
    }

    /// The shape of merged rows: what is by column stays so, though nobody may have described the shard since the start.
    fn shape_of(&self, shard: ShardId, merged: &[Batch]) -> Result<Option<Arc<Shape>>, PersistError> {
        let file = |batch: &Batch| match &batch.location {
            Location::Blob(lease) if lease.is_columns() => Some(Arc::clone(lease)),
            _ => None,
        };
        match (self.shape(shard), merged.iter().find_map(file)) {
            (None, Some(lease)) => Ok(Some(Arc::clone(lease.open_columns(shard)?.0.shape()))),
            (described, _) => Ok(described),
        }
    }

    /// Steps 3 and 4. False if the shard has changed.
    fn swap(&self, shard: ShardId, choice: &Choice, written: Vec<Written>) -> Result<bool, PersistError> {
        let mut writing = self.writing.lock();
        let since = choice.since;
        let replaced: HashSet<u64> = choice.merged.iter().map(|batch| batch.seq).collect();
        let in_memory = |Written { row, location }: &Written| batch(row, location.clone());
        let new: Vec<Batch> = written.iter().map(in_memory).collect();
        let abandon = |new: Vec<Batch>| new.iter().for_each(Batch::mark_obsolete);
        // A new list may say something of any file that is kept.
        let needed = choice.kept.iter().filter(|batch| batch.is_columns()).map(|batch| batch.seq);
        let needed: HashSet<u64> = replaced.iter().copied().chain(needed).collect();
        if writing.is_poisoned || !self.still_holds(shard, &needed) {
            abandon(new);
            return Ok(false);
        }
        let txn = Txn {
            epoch: self.epoch,
            insert: written.into_iter().map(|written| written.row).collect(),
            delete: choice.merged.iter().map(|batch| batch.seq).collect(),
            since: vec![(shard, since)],
            // The batches that go may be all that told how far time had come.
            upper: Some(self.shards.lock().upper),
            ..Txn::default()
        };
        if let Err(error) = self.consensus.transact(&txn) {
            writing.is_poisoned = error.is_indeterminate();
            if !error.is_indeterminate() {
                abandon(new);
            }
            return Err(error);
        }
        let mut shards = self.shards.lock();
        let state = shards.by_id.get_mut(&shard).expect("it was there, and the lock on writing is held");
        assert!(state.since <= since, "since of shard {shard} went back from {} to {since}", state.since);
        state.since = since;
        state.replace(&replaced, new).iter().for_each(Batch::mark_obsolete);
        Ok(true)
    }

    /// Whether all of these batches are still there.
    fn still_holds(&self, shard: ShardId, seqs: &HashSet<u64>) -> bool {
        let shards = self.shards.lock();
        let held = shards
            .by_id
            .get(&shard)
            .map_or(0, |state| state.batches.iter().filter(|batch| seqs.contains(&batch.seq)).count());
        held == seqs.len()
    }
}

/// What pays: everything, if that is mostly history, otherwise what is of similar size.
fn choose_tiered(state: &Shard, since: Timestamp) -> HashSet<u64> {
    let stored: u64 = state.batches.iter().map(|batch| batch.update_count).sum();
    let live: Diff = state.batches.iter().map(|batch| batch.rows).sum();
    let is_history = is_mostly_history(state.since, since, stored, u64::try_from(live).unwrap_or_default());
    let chosen = if is_history { state.batches.iter().collect() } else { state.tier() };
    chosen.iter().map(|batch| batch.seq).collect()
}

/// Whether a shard is worth rewriting: more than half of what it stores is history, and its since has advanced from `last`, which
/// lets some of that go. Where it has not, rewriting would drop nothing, again and again.
fn is_mostly_history(last: Timestamp, since: Timestamp, stored: u64, live: u64) -> bool {
    since > last && stored / 2 > live
}

#[cfg(test)]
mod tests {
    use super::is_mostly_history;

    #[test]
    fn a_shard_is_rewritten_for_history_that_can_go() {
        assert!(is_mostly_history(4, 5, 10, 4));
        assert!(!is_mostly_history(4, 5, 10, 5), "half of it is live");
        assert!(!is_mostly_history(5, 5, 10, 0), "nothing can go that could not before");
        assert!(!is_mostly_history(4, 5, 0, 0), "there is nothing");
    }
}
