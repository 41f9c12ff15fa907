//! The store of small things that change atomically.
//!
//! Consensus holds: the epoch of the process that may write, the list of shards, the batches of each shard (small
//! ones with their contents, large ones as references to blobs), and keys with values for catalog and oracle. One
//! [`Txn`] changes any of these together or not at all, and is durable when [`Consensus::transact`] returns.
//!
//! [`embedded`] is the one of a data directory, [`postgres`] the one that several processes reach, [`memory`] the one of
//! simulations; all pass the contract test at the end of this file.
//!
//! # Laws
//! 1. A transaction whose epoch is not the current one changes nothing and fails with `Fenced`.
//! 2. A transaction that returned `Ok` is found by every later [`Consensus::load`], whatever happens to the process.
//! 3. A transaction that failed with anything but `Indeterminate` is found by none.
//! 4. [`Consensus::fence`] makes every earlier epoch stale, for ever.

pub mod embedded;
pub mod memory;
pub mod postgres;

use crate::error::PersistError;
use crate::shard_id::ShardId;
use repr::{Diff, Timestamp};

/// A batch as consensus keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow<P> {
    /// Its key. Chosen by the writer, larger than any that is in use.
    pub seq: u64,
    /// The shard it belongs to.
    pub shard: ShardId,
    /// The latest timestamp of any of its updates.
    pub ts_max: Timestamp,
    /// The sum of its diffs.
    pub rows: Diff,
    /// The number of its updates.
    pub update_count: u64,
    /// The length of its rows.
    pub bytes: u64,
    /// Where its updates are.
    pub payload: Payload<P>,
}

/// Where the updates of a batch are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<P> {
    /// Here.
    Inline(P),
    /// In the blob that this encoded reference names.
    Blob(Vec<u8>),
}

/// What changes together. Steps are applied in the order of the fields.
#[derive(Debug, Default)]
pub struct Txn<'a> {
    /// The epoch under which the writer believes to be.
    pub epoch: u64,
    /// Shards to add, each with its since.
    pub create: Vec<(ShardId, Timestamp)>,
    /// Batches to add.
    pub insert: Vec<BatchRow<Vec<u8>>>,
    /// Batches to remove, by their key.
    pub delete: Vec<u64>,
    /// Shards whose since advances.
    pub since: Vec<(ShardId, Timestamp)>,
    /// Shards to remove; their batches are in `delete`.
    pub drop: Vec<ShardId>,
    /// Keys to set, or to remove where there is no value.
    pub meta: Vec<(&'a str, Option<&'a [u8]>)>,
    /// The upper to record. Needed only where no inserted batch implies it.
    pub upper: Option<Timestamp>,
}

/// Everything but the contents of inline batches and the keys and values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// At least one above every timestamp that was ever committed.
    pub upper: Timestamp,
    /// All shards with their since.
    pub shards: Vec<(ShardId, Timestamp)>,
    /// All batches in the order of their keys.
    pub batches: Vec<BatchRow<()>>,
}

/// The store. Calls block; see the module's laws.
pub trait Consensus: Send + Sync {
    /// Begins a new epoch and returns it.
    fn fence(&self) -> Result<u64, PersistError>;

    /// Reads what there is.
    fn load(&self) -> Result<Loaded, PersistError>;

    /// Applies `txn`. The time of one commit is the time of this call.
    fn transact(&self, txn: &Txn<'_>) -> Result<(), PersistError>;

    /// The contents of inline batches, in the order of `seqs`; `None` where there is no such inline batch.
    fn payloads(&self, seqs: &[u64]) -> Result<Vec<Option<Vec<u8>>>, PersistError>;

    /// The value of `key`.
    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError>;

    /// The first keys that begin with `prefix`, in order, with their values; at most `limit`.
    fn meta_scan(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError>;

    /// Housekeeping, off the commit path. Called now and then by a background thread.
    fn maintain(&self) -> Result<(), PersistError>;

    /// Whether commits will have to wait if [`Consensus::maintain`] does not come soon. Says so once, until it has come.
    fn is_newly_behind(&self) -> bool {
        false
    }

    /// Nothing is written after this. Leaves whatever tells the next start that all is as it was left.
    fn close(&self) -> Result<(), PersistError> {
        Ok(())
    }
}

/// The contract: `open` opens the same store again each time, empty at first.
#[cfg(test)]
fn contract(open: &dyn Fn() -> Box<dyn Consensus>) {
    let store = open();
    let epoch = store.fence().expect("works");
    assert_eq!(store.load().expect("works"), Loaded::default());
    let inline = |seq, shard, ts_max, payload: &[u8]| BatchRow {
        seq,
        shard: ShardId(shard),
        ts_max,
        rows: -3,
        update_count: 5,
        bytes: 7,
        payload: Payload::Inline(payload.to_vec()),
    };
    let blob = |seq| BatchRow { payload: Payload::Blob(b"ref".to_vec()), ..inline(seq, 1, u64::MAX >> 1, b"") };

    // A transaction does all of its steps.
    let txn = Txn {
        epoch,
        create: vec![(ShardId(1), 0), (ShardId(u64::MAX), 4)],
        insert: vec![inline(1, 1, 10, b"one"), inline(2, u64::MAX, 10, b"two"), blob(3)],
        meta: vec![("a/1", Some(b"x")), ("a/2", Some(b"y")), ("b/1", Some(b"z"))],
        ..Txn::default()
    };
    store.transact(&txn).expect("works");
    let payloads = store.payloads(&[2, 1, 3, 4]).expect("works");
    assert_eq!(payloads, [Some(b"two".to_vec()), Some(b"one".to_vec()), None, None]);

    // A stale epoch changes nothing, a reopened store has everything.
    let newer = open();
    let newer_epoch = newer.fence().expect("works");
    assert!(newer_epoch > epoch);
    let stale = Txn { epoch, meta: vec![("a/1", None)], ..Txn::default() };
    let fenced = store.transact(&stale).expect_err("stale");
    assert!(matches!(fenced, PersistError::Fenced { ours, current } if ours == epoch && current == newer_epoch));
    let loaded = newer.load().expect("works");
    assert_eq!(loaded.upper, (u64::MAX >> 1) + 1);
    assert_eq!(loaded.shards, [(ShardId(1), 0), (ShardId(u64::MAX), 4)]);
    assert_eq!(loaded.batches.iter().map(|batch| batch.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(loaded.batches[0].rows, -3);
    assert_eq!(loaded.batches[2].payload, Payload::Blob(b"ref".to_vec()));
    let scanned = newer.meta_scan("a/", usize::MAX).expect("works");
    assert_eq!(scanned, [("a/1".to_owned(), b"x".to_vec()), ("a/2".to_owned(), b"y".to_vec())]);
    assert_eq!(newer.meta_scan("a/", 1).expect("works"), scanned[..1]);

    // A transaction that fails half way leaves nothing behind: the batch key is taken.
    let clash = Txn { epoch: newer_epoch, insert: vec![inline(9, 1, 1, b""), inline(1, 1, 1, b"")], ..Txn::default() };
    let error = newer.transact(&clash).expect_err("the key is taken");
    assert!(!error.is_indeterminate());
    assert_eq!(newer.load().expect("works"), loaded);

    // Removal, overwriting, since and upper.
    let txn = Txn {
        epoch: newer_epoch,
        delete: vec![1, 2, 3],
        since: vec![(ShardId(1), 8)],
        drop: vec![ShardId(u64::MAX)],
        meta: vec![("a/1", None), ("a/2", Some(b"new"))],
        upper: Some(u64::MAX >> 1),
        ..Txn::default()
    };
    newer.transact(&txn).expect("works");
    newer.maintain().expect("works");
    drop((store, newer));
    let last = open();
    let expected = Loaded { upper: u64::MAX >> 1, shards: vec![(ShardId(1), 8)], batches: Vec::new() };
    assert_eq!(last.load().expect("works"), expected);
    assert_eq!(last.meta_get("a/1").expect("works"), None);
    assert_eq!(last.meta_get("a/2").expect("works"), Some(b"new".to_vec()));

    // The recorded upper never goes back.
    let epoch = last.fence().expect("works");
    last.transact(&Txn { epoch, upper: Some(5), ..Txn::default() }).expect("works");
    assert_eq!(last.load().expect("works").upper, u64::MAX >> 1);
}
