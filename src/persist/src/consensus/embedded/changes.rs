//! What transactions have changed that the database does not have yet.

use super::super::{BatchRow, Payload, Txn};
use crate::shard_id::ShardId;
use repr::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What some transactions come to together: a batch that came and went is not in it. Removals come before additions, and what has a
/// key in both is new.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) epoch: Option<u64>,
    pub(super) dropped: BTreeSet<ShardId>,
    pub(super) created: BTreeMap<ShardId, Timestamp>,
    /// Of shards that were there before.
    pub(super) since: BTreeMap<ShardId, Timestamp>,
    pub(super) deleted: BTreeSet<u64>,
    pub(super) inserted: BTreeMap<u64, BatchRow<Vec<u8>>>,
    pub(super) meta: BTreeMap<String, Option<Vec<u8>>>,
    pub(super) upper: Timestamp,
}

impl Changes {
    /// Adds what a transaction changes that was found to be possible.
    pub(super) fn add(&mut self, txn: &Txn<'_>) {
        for (shard, since) in &txn.create {
            self.since.remove(shard);
            self.created.insert(*shard, *since);
        }
        self.inserted.extend(txn.insert.iter().map(|batch| (batch.seq, batch.clone())));
        for seq in &txn.delete {
            if self.inserted.remove(seq).is_none() {
                self.deleted.insert(*seq);
            }
        }
        for (shard, since) in &txn.since {
            match self.created.get_mut(shard) {
                Some(created) => *created = *since,
                None => drop(self.since.insert(*shard, *since)),
            }
        }
        for shard in &txn.drop {
            self.since.remove(shard);
            if self.created.remove(shard).is_none() {
                self.dropped.insert(*shard);
            }
        }
        self.meta.extend(txn.meta.iter().map(|(key, value)| ((*key).to_owned(), value.map(<[u8]>::to_vec))));
        self.upper = self.upper.max(txn.upper.unwrap_or_default());
    }

    /// What became of a batch here, if anything.
    fn payload(&self, seq: u64) -> Option<Option<Vec<u8>>> {
        match self.inserted.get(&seq).map(|batch| &batch.payload) {
            Some(Payload::Inline(payload)) => Some(Some(payload.clone())),
            Some(Payload::Blob(_)) => Some(None),
            None => self.deleted.contains(&seq).then_some(None),
        }
    }
}

/// What lies over the database: the changes of all entries of the journal that it does not have.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    newer: Changes,
    /// Behind the last entry that is in `newer`.
    end: u64,
    /// On their way into the database, and the position behind them. They stay until they are there.
    older: Option<(Arc<Changes>, u64)>,
    /// The database has all before it.
    applied: u64,
    /// Somebody was told how far the database is behind.
    is_told: bool,
}

impl Overlay {
    /// Adds an entry of the journal that ends at `end`.
    pub(super) fn add(&mut self, txn: &Txn<'_>, end: u64) {
        self.newer.add(txn);
        self.end = end;
    }

    /// The first position of the journal that the database may not have.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// How long the part of the journal is that the database may not have.
    pub(super) fn bytes(&self) -> u64 {
        self.end - self.applied
    }

    /// Whether the database is so many bytes behind, and nobody was told yet.
    pub(super) fn is_newly_behind(&mut self, bytes: u64) -> bool {
        let is_behind = self.bytes() >= bytes;
        is_behind && !std::mem::replace(&mut self.is_told, true)
    }

    /// What to put into the database next, and the position behind that. What failed comes again.
    pub(super) fn freeze(&mut self) -> (Arc<Changes>, u64) {
        let (newer, end) = (&mut self.newer, self.end);
        let (changes, end) = self.older.get_or_insert_with(|| (Arc::new(std::mem::take(newer)), end));
        (Arc::clone(changes), *end)
    }

    /// The database has what was frozen.
    pub(super) fn thaw(&mut self) {
        let (_, end) = self.older.take().expect("something is frozen");
        assert!(end >= self.applied, "the database went back from {} to {end}", self.applied);
        self.applied = end;
        self.is_told = false;
    }

    /// The database has everything, and of what comes next it has what is before `end`.
    pub(super) fn leave_gap(&mut self, end: u64) {
        assert_eq!(self.bytes(), 0, "the database has everything");
        // What is frozen all the same is nothing, as of before the gap: it was to be put into the database, and that failed.
        self.older = None;
        (self.end, self.applied) = (end, end);
    }

    /// What became of a batch: its payload if it is inline; `None` if the database knows.
    pub(super) fn payload(&self, seq: u64) -> Option<Option<Vec<u8>>> {
        self.layers().find_map(|changes| changes.payload(seq))
    }

    /// What became of a key; `None` if the database knows.
    pub(super) fn meta(&self, key: &str) -> Option<Option<Vec<u8>>> {
        self.layers().find_map(|changes| changes.meta.get(key).cloned())
    }

    /// What became of all keys that begin with `prefix`.
    pub(super) fn metas(&self, prefix: &str) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        for changes in self.layers() {
            let with_prefix = changes.meta.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
            for (key, value) in with_prefix {
                found.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        found
    }

    /// The newest first.
    fn layers(&self) -> impl Iterator<Item = &Changes> {
        [&self.newer].into_iter().chain(self.older.as_ref().map(|(changes, _)| &**changes))
    }
}
