//! The one handle on a data directory.
//!
//! # The commit protocol
//! 1. Check: the timestamp is not below the upper, every shard exists.
//! 2. Encode what is appended. What is small stays in memory; what is large is sorted, written to a blob and synced, unless that was
//!    done ahead (module `ahead`).
//! 3. One transaction of consensus: the epoch is still ours, then all batches of all shards, all keys and values, all
//!    shards created and dropped. One sync. When it returns, the commit is durable; if it fails determinately, it
//!    never happened, and the blobs of step 2 are deleted.
//! 4. Publish: the lists of batches and the upper in memory, which snapshots read.
//! 5. Wake the background thread if a shard has become worth compacting.
//!
//! If step 3 ends indeterminately, nobody knows what is on disk until the directory is opened again, so the client
//! refuses every further write; reads go on.
//!
//! # Invariants
//! * The lock `writing` is held from step 1 to step 4, and by compaction for its swap: consensus and memory change
//!   together, in one order. The lock `shards` is innermost, and never held across I/O.
//! * `shards` never shows what is not durable.

pub(crate) mod ahead;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use repr::{Diff, Timestamp, Updates};

use crate::blob::store::ObjectStore;
use crate::blob::{BlobStore, claim, directory};
use crate::compact::BackgroundThread;
use crate::compact::requests::Background;
use crate::consensus::embedded::{EmbeddedConsensus, Expected};
use crate::consensus::postgres::PostgresConsensus;
use crate::consensus::{BatchRow, Consensus, Loaded, Payload, Txn};
use crate::contents::ShardContents;
use crate::data_dir::DataDir;
use crate::encoding::{BlobRef, PartBuilder, estimate_encoded_bytes, length_to_u64};
use crate::error::PersistError;
use crate::facts::{self, ColumnFacts};
use crate::inner::{INLINE_BYTES_MAX, Inner, batch};
use crate::output::{Output, Written};
use crate::scan::{Scanned, ShardScan, SnapshotRows};
use crate::shard::{Batch, Counted, Location, Shard, ShardStats, Shards};
use crate::shard_id::ShardId;
use crate::snapshot::ShardSnapshot;
use ahead::Ahead;
use arrow::datatypes::DataType;
use columns::{Cache, Shape};
use ore::memory::Share;

/// Updates and rows of a shard, and bytes of them, whose values are counted without a file of columns, at the most.
const COUNTED_ROWS_MAX: u64 = 4_096;
const COUNTED_BYTES_MAX: u64 = 1 << 20;

/// Updates of one shard, part of a commit. All get the timestamp of the commit.
#[derive(Clone, Copy, Debug)]
pub struct ShardAppend<'a> {
    /// The shard.
    pub shard: ShardId,
    /// What is appended. Need not be sorted or consolidated.
    pub updates: &'a [Arc<Updates>],
}

/// A change, part of a commit, of something that is not a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetaWrite {
    /// Sets a key.
    Put {
        /// The key; its owner is told by a prefix, as in `catalog/`.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes a key, if it is there.
    Delete {
        /// The key.
        key: String,
    },
    /// Adds an empty shard. The same commit may append to it. It is readable at every earlier time, and empty there.
    CreateShard(ShardId),
    /// The same, readable from this commit on: what it holds was elsewhere before.
    CreateShardFromHere(ShardId),
    /// Removes a shard with all that is in it. Snapshots that were taken before stay readable.
    DropShard(ShardId),
}

/// A data directory that this process serves. Clones share it; when the last one is dropped, its background thread
/// ends and its lock is released.
///
/// All calls block. [`PersistClient::commit`] has one caller, the committer; everything else may be called from
/// anywhere.
#[derive(Clone)]
pub struct PersistClient {
    pub(crate) inner: Arc<Inner>,
    /// Stops the background thread when the last client goes; there is none over stores that a test has opened.
    _background: Option<Arc<BackgroundThread>>,
}

/// Stores that several processes reach: of consensus, and of the blobs that it refers to. Nobody was fenced yet.
pub struct SharedStores {
    consensus: PostgresConsensus,
    blobs: Box<dyn ObjectStore>,
}

impl SharedStores {
    /// Makes sure that the two belong together.
    ///
    /// Fails with `OtherStore` if the blobs are those of another consensus store, `NotADataDirectory` if what is there is
    /// nobody's blobs, and `FormatVersion` if a newer version wrote them.
    pub fn new(consensus: PostgresConsensus, blobs: Box<dyn ObjectStore>) -> Result<SharedStores, PersistError> {
        let has_blobs = consensus.load()?.batches.iter().any(|batch| matches!(batch.payload, Payload::Blob(_)));
        claim(blobs.as_ref(), consensus.id(), !has_blobs)?;
        Ok(SharedStores { consensus, blobs })
    }
}

impl PersistClient {
    /// Opens the data directory `dir`, creating it if need be, and fences whoever wrote to it before.
    ///
    /// Fails with `InUse` if another process serves it, `NotADataDirectory` if it is something else,
    /// `FormatVersion` if a newer version wrote it, and `Loss` if what it holds is not what it is known to have acknowledged.
    pub fn open(dir: &Path) -> Result<PersistClient, PersistError> {
        PersistClient::open_data_dir(DataDir::open(dir)?, Expected::Same)
    }

    /// The same of a directory that may have lost something: what is there is taken as it is, and the log says what is not.
    pub fn open_with_loss(dir: &Path) -> Result<PersistClient, PersistError> {
        PersistClient::open_data_dir(DataDir::open(dir)?, Expected::Any)
    }

    fn open_data_dir(mut dir: DataDir, expected: Expected) -> Result<PersistClient, PersistError> {
        let expected = if dir.is_witnessed() { expected } else { Expected::NoWitness };
        let consensus = EmbeddedConsensus::open(&dir.consensus(), expected)?;
        if expected == Expected::NoWitness {
            dir.set_witnessed()?;
        }
        let epoch = consensus.fence()?;
        // The store's files are new if the directory is.
        dir.sync()?;
        let loaded = consensus.load()?;
        let blobs = directory(dir.path())?;
        PersistClient::start(Some(dir), blobs, Box::new(consensus), epoch, &loaded)
    }

    /// Opens stores that others reach, too, and fences whoever wrote to them before. Whether that one may be fenced was decided
    /// by whoever calls this.
    pub fn open_shared(stores: SharedStores) -> Result<PersistClient, PersistError> {
        let SharedStores { consensus, blobs } = stores;
        let epoch = consensus.fence()?;
        let loaded = consensus.load()?;
        PersistClient::start(None, blobs, Box::new(consensus), epoch, &loaded)
    }

    /// Opens stores of which nobody else knows, and fences whoever wrote to them before. Nothing is done in the background: what
    /// compacts is [`PersistClient::compact`]. For simulations.
    pub fn open_by_hand(
        consensus: Box<dyn Consensus>,
        blobs: Box<dyn ObjectStore>,
    ) -> Result<PersistClient, PersistError> {
        let epoch = consensus.fence()?;
        let loaded = consensus.load()?;
        let inner = PersistClient::restored(None, blobs, consensus, epoch, &loaded)?;
        Ok(PersistClient { inner, _background: None })
    }

    pub(crate) fn start(
        dir: Option<DataDir>,
        blobs: Box<dyn ObjectStore>,
        consensus: Box<dyn Consensus>,
        epoch: u64,
        loaded: &Loaded,
    ) -> Result<PersistClient, PersistError> {
        let inner = PersistClient::restored(dir, blobs, consensus, epoch, loaded)?;
        let background = Some(Arc::new(BackgroundThread::spawn(Arc::clone(&inner))));
        Ok(PersistClient { inner, _background: background })
    }

    fn restored(
        dir: Option<DataDir>,
        blobs: Box<dyn ObjectStore>,
        consensus: Box<dyn Consensus>,
        epoch: u64,
        loaded: &Loaded,
    ) -> Result<Arc<Inner>, PersistError> {
        let (blobs, shards) = restore(blobs, epoch, loaded)?;
        let next_seq = loaded.batches.last().map_or(1, |batch| batch.seq + 1);
        Ok(Arc::new(Inner {
            consensus,
            blobs,
            background: Background::new(&shards),
            shapes: Mutex::default(),
            cache: OnceLock::new(),
            shards: Mutex::new(shards),
            writing: Mutex::default(),
            next_seq: AtomicU64::new(next_seq),
            epoch,
            dir,
        }))
    }

    /// Counts how often the directory was opened. A commit of an older epoch fails.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Makes `appends` and `meta` durable together, at `ts`: one transaction and one sync. The protocol is in the
    /// module's header.
    ///
    /// Shards are created first, then appended to, then dropped. `ts` must be at least [`PersistClient::upper`],
    /// which afterwards is `ts + 1`.
    ///
    /// An error of which [`PersistError::is_indeterminate`] is false means that nothing changed.
    pub fn commit(&self, ts: Timestamp, appends: &[ShardAppend<'_>], meta: &[MetaWrite]) -> Result<(), PersistError> {
        self.commit_ahead(ts, appends, &[], meta)
    }

    /// The same, where the blobs of some of the updates that are appended have been written already.
    pub fn commit_ahead(
        &self,
        ts: Timestamp,
        appends: &[ShardAppend<'_>],
        ahead: &[Ahead],
        meta: &[MetaWrite],
    ) -> Result<(), PersistError> {
        let inner = &*self.inner;
        let mut writing = inner.writing.lock();
        if writing.is_poisoned {
            return Err(PersistError::Poisoned);
        }
        let mut txn = Txn { epoch: inner.epoch, ..Txn::default() };
        inner.plan(ts, appends, meta, &mut txn)?;
        let mut leases = HashMap::new();
        let committed = appends
            .iter()
            .try_for_each(|append| inner.encode(ts, append, ahead, &mut txn, &mut leases))
            .and_then(|()| {
                if txn.insert.is_empty() || !meta.is_empty() {
                    txn.upper = Some(ts + 1);
                }
                inner.consensus.transact(&txn)
            });
        if let Err(error) = committed {
            writing.is_poisoned = error.is_indeterminate();
            if !error.is_indeterminate() {
                leases.values().for_each(|location| location.mark_obsolete());
            }
            return Err(error);
        }
        inner.publish(ts, &txn, &leases);
        if inner.consensus.is_newly_behind() {
            inner.background.request_housekeeping();
        }
        Ok(())
    }

    /// Says what the rows of `shard` are made of: from here on large batches of them are kept by column, where that can be, and what
    /// is not kept so yet is rewritten in the background.
    pub fn describe(&self, shard: ShardId, types: &[DataType]) {
        let Some(shape) = Shape::new(types) else { return };
        self.inner.shapes.lock().insert(shard, Arc::new(shape));
        self.inner.request_rewriting(shard);
    }

    /// Whether everything is in a data directory, so that what is durable can be read as long as the process runs.
    pub fn is_local(&self) -> bool {
        self.inner.dir.is_some()
    }

    /// The contents of `shard` at `as_of`: consolidated, sorted, streamed. Fails with `AsOfOutOfRange` outside of
    /// `[since, upper)`.
    pub fn snapshot(&self, shard: ShardId, as_of: Timestamp) -> Result<ShardSnapshot, PersistError> {
        ShardSnapshot::open(&self.inner, shard, as_of)
    }

    /// Keeps hot columns decoded from here on, in a share of the memory, and gives them up when anything else is refused memory.
    pub fn keep_decoded(&self, memory: Arc<Share>) {
        let cache = Arc::new(Cache::new(Arc::clone(&memory)));
        if self.inner.cache.set(Arc::clone(&cache)).is_ok() {
            let cache = Arc::downgrade(&cache);
            memory.give_up_by(Box::new(move |bytes| cache.upgrade().map_or(0, |cache| cache.give_up(bytes))));
        }
    }

    /// The same rows, in no order, by column where they are kept so.
    pub fn scan(&self, shard: ShardId, as_of: Timestamp) -> Result<ShardScan, PersistError> {
        ShardScan::open(&self.inner, shard, as_of)
    }

    /// The same rows, all of them, decoded ahead of whoever reads them. Where columns are given it may be that rows have NULL in the
    /// others: whoever does not read these sees the rows that are there.
    pub fn contents(
        &self,
        shard: ShardId,
        as_of: Timestamp,
        columns: Option<BTreeSet<usize>>,
    ) -> Result<ShardContents, PersistError> {
        ShardContents::open(&self.inner, shard, as_of, columns)
    }

    /// The updates of `shard` after one time and up to another, by time. Fails with `AsOfOutOfRange` if either is outside of
    /// `[since, upper)`.
    pub fn changes(
        &self,
        shard: ShardId,
        after: Timestamp,
        until: Timestamp,
    ) -> Result<BTreeMap<Timestamp, Updates>, PersistError> {
        crate::snapshot::changes(&self.inner, shard, after, until)
    }

    /// By column: what its files of columns say of the values of a shard, or its rows, if these are few and there are no such files.
    /// What else is kept as rows, or has gone, is not looked at, so this is good for estimates alone. Empty if nothing is known, or
    /// what is known cannot be read.
    pub fn column_facts(&self, shard: ShardId) -> Arc<[ColumnFacts]> {
        let (leases, looked_up) = {
            let mut shards = self.inner.shards.lock();
            let Some(state) = shards.by_id.get_mut(&shard) else { return Arc::default() };
            let files = state.batches.iter().filter_map(|batch| match &batch.location {
                Location::Blob(lease) if lease.is_columns() => Some((batch.seq, Arc::clone(lease))),
                _ => None,
            });
            let (seqs, leases): (Vec<u64>, Vec<_>) = files.unzip();
            (leases, state.looked_up(seqs))
        };
        if leases.is_empty() {
            return self.facts_of_few(shard).unwrap_or_default();
        }
        if let Some(facts) = looked_up.facts.get() {
            return Arc::clone(facts);
        }
        // Who scans what cannot be read says so.
        let files = leases.iter().map(|lease| lease.open_columns(shard).map(|(file, _)| file));
        let Ok(files) = files.collect::<Result<Vec<_>, _>>() else { return Arc::default() };
        Arc::clone(looked_up.facts.get_or_init(|| facts::of_files(&files)))
    }

    /// What the rows of a shard say of its values, if these are few. Counted again once there are a quarter more updates, or compaction
    /// has made others of them.
    fn facts_of_few(&self, shard: ShardId) -> Option<Arc<[ColumnFacts]>> {
        let shape = self.inner.shape(shard)?;
        let (stats, replaced, counted) = {
            let shards = self.inner.shards.lock();
            let state = shards.by_id.get(&shard)?;
            (state.stats(shards.upper), state.replaced_count, state.counted.clone())
        };
        // An update may be of many copies of a row.
        let count = stats.update_count.max(stats.rows.unsigned_abs());
        if count > COUNTED_ROWS_MAX || stats.bytes > COUNTED_BYTES_MAX {
            return None;
        }
        if let Some(counted) = counted
            && counted.replaced == replaced
            && stats.update_count <= counted.updates + counted.updates / 4
        {
            return Some(counted.facts);
        }
        let mut scan = self.scan(shard, stats.upper.checked_sub(1)?).ok()?;
        let mut all = Vec::new();
        while let Some(rows) = scan.next_rows().ok()? {
            // With a file of columns there are no longer few.
            let Scanned::Rows(rows) = rows else { return None };
            all.push(rows);
        }
        let rows: Vec<&[u8]> = all.iter().flat_map(SnapshotRows::iter).collect();
        let facts = facts::of_rows(shape.types(), &rows)?;
        let counted = Counted { updates: stats.update_count, replaced, facts: Arc::clone(&facts) };
        self.inner.shards.lock().by_id.get_mut(&shard)?.counted = Some(counted);
        Some(facts)
    }

    /// What `shard` holds; `None` if it does not exist.
    pub fn shard_stats(&self, shard: ShardId) -> Option<ShardStats> {
        let shards = self.inner.shards.lock();
        shards.by_id.get(&shard).map(|state| state.stats(shards.upper))
    }

    /// All shards, sorted.
    pub fn shards(&self) -> Vec<ShardId> {
        let mut ids: Vec<ShardId> = self.inner.shards.lock().by_id.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Every later commit has at least this timestamp, and every time below it is readable. One for all shards.
    pub fn upper(&self) -> Timestamp {
        self.inner.shards.lock().upper
    }

    /// Promises that no later commit will be below `upper`, so that times below it become readable. In memory only:
    /// the oracle, which knows that time has come so far, remembers it across a restart.
    pub fn advance_upper(&self, upper: Timestamp) {
        let mut shards = self.inner.shards.lock();
        shards.upper = shards.upper.max(upper);
    }

    /// Lets compaction forget all history below `since`: nobody will ask for it any more. Never goes back. Without
    /// such calls nothing is forgotten.
    pub fn allow_compaction(&self, since: Timestamp) {
        let mut shards = self.inner.shards.lock();
        shards.compaction_frontier = shards.compaction_frontier.max(since);
    }

    /// Ends all writing, for good: later commits fail, compaction changes nothing any more. What was committed can still be read.
    pub fn close(&self) {
        let mut writing = self.inner.writing.lock();
        if !std::mem::replace(&mut writing.is_poisoned, true)
            && let Err(error) = self.inner.consensus.close()
        {
            tracing::warn!(%error, "a clean stop could not be noted");
        }
    }

    /// The durable value of `key`.
    pub fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
        self.inner.consensus.meta_get(key)
    }

    /// All durable keys that begin with `prefix`, in order, with their values.
    pub fn meta_scan(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        self.inner.consensus.meta_scan(prefix, usize::MAX)
    }

    /// The first of them.
    pub fn meta_first(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        self.inner.consensus.meta_scan(prefix, limit)
    }

    /// Compacts `shard` now, on the calling thread, into as few batches as possible. The background thread does
    /// the same by itself where it pays.
    pub fn compact(&self, shard: ShardId) -> Result<(), PersistError> {
        self.inner.compact(shard, crate::compact::Extent::All).map(drop)
    }

    /// What the background thread does of that, now, on the calling thread: as much as pays.
    pub fn compact_some(&self, shard: ShardId) -> Result<(), PersistError> {
        self.inner.compact(shard, crate::compact::Extent::Tiered).map(drop)
    }

    /// What it does of that once nobody writes to the shard: the file of which most has gone is rewritten without it. False if none is
    /// worth it.
    pub fn compact_holes(&self, shard: ShardId) -> Result<bool, PersistError> {
        self.inner.compact_holes(shard)
    }
}

impl fmt::Debug for PersistClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistClient").field("epoch", &self.inner.epoch).finish_non_exhaustive()
    }
}

impl Location {
    fn mark_obsolete(&self) {
        if let Location::Blob(lease) = self {
            lease.mark_obsolete();
        }
    }
}

impl Batch {
    /// Consensus no longer has this batch.
    pub(crate) fn mark_obsolete(&self) {
        self.location.mark_obsolete();
    }
}

impl Inner {
    pub(crate) fn allocate_seq(&self) -> u64 {
        self.next_seq.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn blob_key(&self, shard: ShardId, seq: u64) -> String {
        crate::blob::key(self.epoch, shard, seq)
    }

    /// Step 1: checks, and everything of the transaction but the batches appended.
    fn plan<'a>(
        &self,
        ts: Timestamp,
        appends: &[ShardAppend<'_>],
        meta: &'a [MetaWrite],
        txn: &mut Txn<'a>,
    ) -> Result<(), PersistError> {
        let shards = self.shards.lock();
        if ts < shards.upper {
            return Err(PersistError::UpperMismatch { ts, upper: shards.upper });
        }
        for write in meta {
            match write {
                MetaWrite::Put { key, value } => txn.meta.push((key, Some(value))),
                MetaWrite::Delete { key } => txn.meta.push((key, None)),
                MetaWrite::CreateShard(shard) | MetaWrite::CreateShardFromHere(shard) => {
                    if shards.by_id.contains_key(shard) || txn.create.iter().any(|(created, _)| created == shard) {
                        return Err(PersistError::DuplicateShard(*shard));
                    }
                    let since = if matches!(write, MetaWrite::CreateShard(_)) { 0 } else { ts };
                    txn.create.push((*shard, since));
                }
                MetaWrite::DropShard(shard) => {
                    let state = shards.by_id.get(shard).ok_or(PersistError::UnknownShard(*shard))?;
                    txn.delete.extend(state.batches.iter().map(|batch| batch.seq));
                    txn.drop.push(*shard);
                }
            }
        }
        for append in appends {
            let created = txn.create.iter().any(|(shard, _)| *shard == append.shard);
            let exists = created || shards.by_id.contains_key(&append.shard);
            if !exists || txn.drop.contains(&append.shard) {
                return Err(PersistError::UnknownShard(append.shard));
            }
        }
        Ok(())
    }

    /// Step 2 for one shard: inline, or a blob that is on disk when this returns.
    fn encode(
        &self,
        ts: Timestamp,
        append: &ShardAppend<'_>,
        ahead: &[Ahead],
        txn: &mut Txn<'_>,
        leases: &mut HashMap<u64, Location>,
    ) -> Result<(), PersistError> {
        let shard = append.shard;
        let of = |updates: &Arc<Updates>| ahead.iter().find(|ahead| ahead.shard == shard && ahead.is(updates));
        for ahead in append.updates.iter().filter_map(of) {
            for (row, blob) in ahead.commit(ts) {
                leases.insert(row.seq, Location::Blob(self.blobs.lease(blob)));
                txn.insert.push(row);
            }
        }
        let rest: Vec<Arc<Updates>> = append.updates.iter().filter(|updates| of(updates).is_none()).cloned().collect();
        let update_count: usize = rest.iter().map(|updates| updates.len()).sum();
        if update_count == 0 {
            return Ok(());
        }
        let bytes: usize = rest.iter().map(|updates| updates.bytes()).sum();
        if estimate_encoded_bytes(update_count, bytes) > INLINE_BYTES_MAX {
            let order = rest.iter().flat_map(|updates| updates.iter()).collect();
            for Written { row, location } in self.sorted(shard, self.shape(shard), ts, order)?.finish()? {
                leases.insert(row.seq, location);
                txn.insert.push(row);
            }
            return Ok(());
        }
        let mut part = PartBuilder::default();
        for (row, diff) in rest.iter().flat_map(|updates| updates.iter()) {
            part.push(row, ts, diff);
        }
        txn.insert.push(BatchRow {
            seq: self.allocate_seq(),
            shard,
            ts_max: ts,
            rows: rest.iter().flat_map(|updates| updates.diffs()).sum(),
            update_count: length_to_u64(update_count),
            bytes: length_to_u64(bytes),
            payload: Payload::Inline(part.encode(shard)),
        });
        Ok(())
    }

    /// Updates on their way to blobs.
    pub(crate) fn sorted(
        &self,
        shard: ShardId,
        shape: Option<Arc<Shape>>,
        ts: Timestamp,
        order: Vec<(&[u8], Diff)>,
    ) -> Result<Output<'_>, PersistError> {
        let order = repr::updates::by_row(order);
        let mut output = Output::new(self, shard, shape);
        let written = output.push_groups(&order, ts)?;
        order[written..].iter().try_for_each(|(row, diff)| output.push(row, ts, *diff))?;
        Ok(output)
    }

    /// Steps 4 and 5.
    fn publish(&self, ts: Timestamp, txn: &Txn<'_>, leases: &HashMap<u64, Location>) {
        let mut shards = self.shards.lock();
        let shards = &mut *shards;
        for (shard, since) in &txn.create {
            shards.by_id.insert(*shard, Shard::new(*since));
        }
        for row in &txn.insert {
            let location = leases.get(&row.seq).cloned().unwrap_or(Location::Inline);
            let state = shards.by_id.get_mut(&row.shard).expect("it was checked under the same lock");
            state.push(batch(row, location));
            if state.is_worth_compacting() {
                self.background.request(row.shard);
            }
        }
        for shard in &txn.drop {
            let state = shards.by_id.remove(shard).expect("it was checked under the same lock");
            state.batches.iter().for_each(Batch::mark_obsolete);
            self.shapes.lock().remove(shard);
        }
        shards.upper = shards.upper.max(ts + 1);
    }
}

/// Rebuilds what is in memory from what is on disk.
fn restore(blobs: Box<dyn ObjectStore>, epoch: u64, loaded: &Loaded) -> Result<(BlobStore, Shards), PersistError> {
    let mut references = HashMap::new();
    for row in &loaded.batches {
        if let Payload::Blob(reference) = &row.payload {
            references.insert(row.seq, BlobRef::decode_framed(row.shard, reference)?);
        }
    }
    let referenced: HashSet<String> = references.values().map(|blob| blob.key.clone()).collect();
    let blobs = BlobStore::open(blobs, epoch, &referenced)?;
    let mut shards = Shards { upper: loaded.upper, ..Shards::default() };
    for (shard, since) in &loaded.shards {
        shards.by_id.insert(*shard, Shard::new(*since));
    }
    for row in &loaded.batches {
        let location = match references.remove(&row.seq) {
            Some(reference) => Location::Blob(blobs.lease(reference)),
            None => Location::Inline,
        };
        let Some(state) = shards.by_id.get_mut(&row.shard) else {
            let detail = format!("batch {} belongs to shard {}, which does not exist", row.seq, row.shard);
            return Err(PersistError::corrupt("the consensus store", detail));
        };
        state.push(batch(row, location));
    }
    Ok((blobs, shards))
}
