//! The contents of a shard at one time.
//!
//! A snapshot is fixed when it is taken: it holds leases on its blobs and has its inline batches in memory, so that
//! neither commits nor compaction change what it yields or take anything away from it.

use crate::error::PersistError;
use crate::files::{ColumnFile, removals};
use crate::inner::Inner;
use crate::merge::{History, Merge, Stretch};
use crate::removals::Removals;
use crate::shard::Batch;
use crate::shard_id::ShardId;
use repr::{Diff, Timestamp, Updates};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A batch of a snapshot ends when it has this many bytes of rows, so that its reader's memory is bounded.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// And also when it has this many rows: what a vectorized engine likes to be handed at once.
pub(crate) const BATCH_ROWS_MAX: usize = 16_384;

/// All rows of a shard as of one time, sorted by their bytes.
///
/// An iterator of batches, consolidated: each row once, with its non-zero multiplicity. After an error it is over. Dropping it
/// releases what it kept from being deleted.
#[derive(Debug)]
pub struct ShardSnapshot {
    /// Whose it is, if that is still open.
    owner: Weak<Inner>,
    merge: Merge,
    as_of: Timestamp,
    history: History,
    is_done: bool,
}

impl ShardSnapshot {
    /// Takes a snapshot. See [`crate::PersistClient::snapshot`].
    pub(crate) fn open(inner: &Arc<Inner>, shard: ShardId, as_of: Timestamp) -> Result<ShardSnapshot, PersistError> {
        let Batches { list, payloads } = Batches::list(inner, shard, as_of)?;
        let merge = removals(shard, &list).and_then(|gone| Merge::new(shard, &list, payloads, &gone, as_of));
        let merge = merge.map_err(|error| inner.explained(error))?;
        Ok(ShardSnapshot { owner: Arc::downgrade(inner), merge, as_of, history: History::default(), is_done: false })
    }

    /// The next rows; `None` after the last. No batch is empty.
    pub fn next_batch(&mut self) -> Result<Option<Updates>, PersistError> {
        let mut batch = Updates::new();
        while !self.is_done && batch.bytes() < BATCH_BYTES && batch.len() < BATCH_ROWS_MAX {
            if let Some(Stretch { part, range }) = self.merge.next_stretch() {
                let mut visible = range.filter(|at| part.ts(*at) <= self.as_of).peekable();
                while let Some(at) = visible.next() {
                    let mut copies = 1;
                    while visible.next_if(|next| part.row(*next) == part.row(at)).is_some() {
                        copies += 1;
                    }
                    batch.push(part.row(at), copies);
                }
            } else if let Some(diff) = self.next_row()?
                && diff != 0
            {
                batch.push(&self.history.row, diff);
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Moves on to the next row; how often it is there, or `None` at the end.
    fn next_row(&mut self) -> Result<Option<Diff>, PersistError> {
        let moved = self.merge.next_row(&mut self.history).map_err(|error| match self.owner.upgrade() {
            Some(owner) => owner.explained(error),
            None => error,
        });
        self.is_done = !moved.as_ref().is_ok_and(|has_moved| *has_moved);
        let visible = self.history.changes.iter().filter(|(ts, _)| *ts <= self.as_of);
        Ok(moved?.then(|| visible.map(|(_, diff)| diff).sum()))
    }
}

/// What happened in a shard after one time and up to another, by time. See [`crate::PersistClient::changes`].
pub(crate) fn changes(
    inner: &Arc<Inner>,
    shard: ShardId,
    after: Timestamp,
    until: Timestamp,
) -> Result<BTreeMap<Timestamp, Updates>, PersistError> {
    // What is readable at `after` has not been moved past it by compaction.
    drop(list(inner, shard, after)?);
    let Batches { list, payloads } = Batches::list(inner, shard, until)?;
    let mut changes: BTreeMap<Timestamp, Updates> = BTreeMap::new();
    let read = || {
        // What has gone by position is said of files, old ones too; everything else says itself what it changes.
        let gone = removals(shard, &list)?;
        for mut file in ColumnFile::open_all(shard, &list, &gone)? {
            Arc::make_mut(&mut file.gone).retain(|gone| (after + 1..=until).contains(&gone.ts));
            for (row, ts) in file.gone_rows()? {
                changes.entry(ts).or_default().push(&row, -1);
            }
        }
        let recent: Vec<Batch> = list.iter().filter(|batch| batch.ts_max > after).cloned().collect();
        let inline = list.iter().filter(|batch| batch.is_inline()).zip(payloads);
        let payloads = inline.filter(|(batch, _)| batch.ts_max > after).map(|(_, payload)| payload).collect();
        let (mut merge, mut history) =
            (Merge::new(shard, &recent, payloads, &Removals::default(), until)?, History::default());
        while merge.next_row(&mut history)? {
            for (ts, diff) in &history.changes {
                if (after + 1..=until).contains(ts) {
                    changes.entry(*ts).or_default().push(&history.row, *diff);
                }
            }
        }
        Ok(())
    };
    read().map_err(|error| inner.explained(error))?;
    Ok(changes)
}

/// Batches of a shard, and the contents of those that are inline, in the same order.
pub(crate) struct Batches {
    pub(crate) list: Vec<Batch>,
    pub(crate) payloads: Vec<Vec<u8>>,
}

impl Batches {
    /// Those that make up the shard at `as_of`.
    pub(crate) fn list(inner: &Inner, shard: ShardId, as_of: Timestamp) -> Result<Batches, PersistError> {
        loop {
            // The list and the contents are read one after the other. Compaction may replace inline batches in
            // between; then the count of replacements has moved, and the list is read again.
            let (list_now, replaced_count) = list(inner, shard, as_of)?;
            let inline: Vec<u64> = list_now.iter().filter(|batch| batch.is_inline()).map(|batch| batch.seq).collect();
            let payloads = inner.consensus.payloads(&inline)?;
            if let Some(payloads) = payloads.into_iter().collect::<Option<Vec<_>>>() {
                return Ok(Batches { list: list_now, payloads });
            }
            // A swap changes consensus first and the list then, under this lock.
            drop(inner.writing.lock());
            let (_, replaced_count_now) = list(inner, shard, as_of)?;
            if replaced_count == replaced_count_now {
                let missing = PersistError::corrupt(format!("shard {shard}"), "an inline batch is missing");
                return Err(inner.explained(missing));
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{MetaWrite, PersistClient, ShardAppend};
    use crate::consensus::embedded::{EmbeddedConsensus, Expected};
    use crate::consensus::{Consensus, Loaded, Txn};
    use crate::data_dir::DataDir;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A store that stops between a swap and its return, until a reader has looked for what is gone.
    struct Pausing {
        store: EmbeddedConsensus,
        /// For one swap.
        swapped: Mutex<Option<SyncSender<()>>>,
        looked: Mutex<Receiver<()>>,
        looks: SyncSender<()>,
    }

    impl Consensus for Pausing {
        fn fence(&self) -> Result<u64, PersistError> {
            self.store.fence()
        }

        fn load(&self) -> Result<Loaded, PersistError> {
            self.store.load()
        }

        fn transact(&self, txn: &Txn<'_>) -> Result<(), PersistError> {
            self.store.transact(txn)?;
            let is_swap = !txn.delete.is_empty();
            let swapped = self.swapped.lock().expect("nobody panicked").take_if(|_| is_swap);
            if let Some(swapped) = swapped {
                swapped.send(()).expect("there is room for one");
                let looked = self.looked.lock().expect("nobody panicked");
                // The reader waits for us from here on, or fails.
                assert_ne!(looked.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Timeout), "nobody read");
                while looked.recv_timeout(Duration::from_millis(20)).is_ok() {}
            }
            Ok(())
        }

        fn payloads(&self, seqs: &[u64]) -> Result<Vec<Option<Vec<u8>>>, PersistError> {
            let payloads = self.store.payloads(seqs)?;
            if payloads.contains(&None) {
                // Full is as good: the pause is over, or ends for another look.
                let _ = self.looks.try_send(());
            }
            Ok(payloads)
        }

        fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
            self.store.meta_get(key)
        }

        fn meta_scan(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
            self.store.meta_scan(prefix, limit)
        }

        fn maintain(&self) -> Result<(), PersistError> {
            self.store.maintain()
        }
    }

    #[test]
    fn a_swap_under_way_is_no_corruption() {
        let path = tempfile::TempDir::new().expect("a temporary directory");
        let dir = DataDir::open(path.path()).expect("new");
        let store = EmbeddedConsensus::open(&dir.consensus(), Expected::NoWitness).expect("new");
        let epoch = store.fence().expect("works");
        let ((swapped, is_swapped), (looks, looked)) = (sync_channel(1), sync_channel(8));
        let pausing = Pausing { store, swapped: Mutex::new(Some(swapped)), looked: Mutex::new(looked), looks };
        let client = {
            let blobs = crate::blob::directory(path.path()).expect("it exists");
            PersistClient::start(Some(dir), blobs, Box::new(pausing), epoch, &Loaded::default()).expect("empty")
        };
        let shard = ShardId(1);
        client.commit(1, &[], &[MetaWrite::CreateShard(shard)]).expect("ok");
        let mut row = Updates::new();
        row.push(b"row", 1);
        let row = [Arc::new(row)];
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let as_of = client.upper() - 1;
                    let snapshot = client.snapshot(shard, as_of).expect("nothing is corrupt");
                    let batches: Vec<Updates> = snapshot.collect::<Result<_, _>>().expect("intact");
                    let copies: Diff = batches.iter().flat_map(Updates::iter).map(|(_, diff)| diff).sum();
                    assert_eq!(copies, Diff::try_from(as_of - 1).expect("small"));
                }
            });
            // Until compaction has found it worth its while, and a commit has waited for it.
            for ts in 2..100_000 {
                let was_swapped = is_swapped.try_recv().is_ok();
                client.commit(ts, &[ShardAppend { shard, updates: &row }], &[]).expect("ok");
                if was_swapped {
                    break;
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
        assert!(client.upper() < 100_000, "nothing was compacted");
    }
}
