//! Claims: which values of a PRIMARY KEY, a UNIQUE constraint or a unique index are taken.
//!
//! The committer sees every write in commit order, so it alone can say whether a key is free:
//!
//! 1. The keys of a table are those in their index, and what the latest commits did to them: those that the index has not
//!    published yet ([`Latest`]). So keys are in memory once, and nobody waits for a dataflow.
//! 2. Where there is no index, or it is not complete yet, its table's keys are read from the shard before the first write to it
//!    after a start, or after a constraint was added, and kept here until there is one.
//! 3. What a write does to the keys is netted: a row that is replaced by one with the same key changes nothing, and rows may
//!    trade their keys. After the write every key is there once, or not at all; else the write is refused.
//! 4. What a group does to the keys is *staged*, where its later writes see it. It is settled when the group is durable, and
//!    forgotten if that failed.
//!
//! # Invariants
//! - Between groups nothing is staged, and the claims of a table are the keys of what is durable of it.
//! - An index is asked between groups only: what it was fed is durable then, or it is another index.

use crate::constraint::{
    Duplicate, KeyCounts, NetKeys, TableConstraints, UniqueKey, Validated, first_duplicate, net_keys,
};
use crate::error::CommitError;
use crate::published::Published;
use ahash::AHashMap;
use bugs::Bug;
use compute_client::index::IndexHandle;
use persist::PersistClient;
use repr::{Diff, GlobalId, Timestamp, Updates};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// So many keys are forgotten in a moment.
const KEYS_FREED: usize = 10_000;

/// The claims of all tables that were written to.
#[derive(Default)]
pub(super) struct Claims {
    tables: HashMap<GlobalId, Vec<Claim>>,
    /// Tables of which something is staged.
    staged: BTreeSet<GlobalId>,
}

/// The keys of one constraint that are taken.
struct Claim {
    /// The constraint.
    oid: u32,
    durable: Source,
    /// What the group does to them.
    staged: NetKeys,
}

/// Where it is known from which keys are taken by what is durable.
enum Source {
    /// From their index, and what it may not have yet.
    Index(Arc<IndexHandle>, Latest),
    /// From their shard, and what was written since.
    Shard(KeyCounts),
}

/// What the latest commits did to keys.
#[derive(Default)]
struct Latest {
    by_key: AHashMap<Arc<[u8]>, SmallVec<[(Timestamp, Diff); 1]>>,
    /// Oldest first.
    by_time: VecDeque<(Timestamp, Arc<[u8]>)>,
}

impl Latest {
    fn note(&mut self, ts: Timestamp, key: Arc<[u8]>, diff: Diff) {
        self.by_key.entry(Arc::clone(&key)).or_default().push((ts, diff));
        self.by_time.push_back((ts, key));
    }

    /// What commits at or above a time did to a key.
    fn since(&self, upper: Timestamp, key: &[u8]) -> Diff {
        let all = self.by_key.get(key).into_iter().flatten();
        all.filter(|(ts, _)| *ts >= upper).map(|(_, diff)| diff).sum()
    }

    /// Forgets the commits below a time.
    fn forget_below(&mut self, upper: Timestamp) {
        while let Some((ts, key)) = self.by_time.pop_front_if(|(ts, _)| *ts < upper) {
            if let Some(commits) = self.by_key.get_mut(&key) {
                commits.retain(|(at, _)| *at != ts);
                if commits.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }
}

impl Source {
    /// How often a key is there.
    fn count(&self, key: &[u8]) -> Diff {
        match self {
            Source::Shard(counts) => counts.get(key).copied().unwrap_or(0),
            Source::Index(handle, latest) => {
                let (count, upper) = handle.count(key);
                count + latest.since(upper, key)
            }
        }
    }

    /// Takes over what a commit did to keys.
    fn settle(&mut self, ts: Timestamp, net: impl Iterator<Item = (Vec<u8>, Diff)>) {
        match self {
            Source::Shard(counts) => {
                for (key, diff) in net {
                    let count = counts.get(key.as_slice()).copied().unwrap_or(0) + diff;
                    match count {
                        0 => drop(counts.remove(key.as_slice())),
                        count => drop(counts.insert(key.into(), count)),
                    }
                }
            }
            Source::Index(handle, latest) => {
                net.for_each(|(key, diff)| latest.note(ts, key.into(), diff));
                latest.forget_below(handle.upper());
            }
        }
    }

    /// How many keys it has of its own.
    fn len(&self) -> usize {
        match self {
            Source::Index(_, latest) => latest.by_key.len(),
            Source::Shard(counts) => counts.len(),
        }
    }
}

/// Where the keys of tables are to be found.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) published: &'a Published,
    pub(super) persist: &'a PersistClient,
    /// The time of the latest commit, or a later one.
    pub(super) now: Timestamp,
}

/// A write to a table whose keys are to be claimed.
pub(super) struct Claimant<'a> {
    pub(super) table: GlobalId,
    pub(super) constraints: Arc<TableConstraints>,
    pub(super) updates: &'a Updates,
}

impl<'a> Stored<'a> {
    /// The index of a key, if it is maintained.
    fn index(&self, table: GlobalId, key: &UniqueKey) -> Option<&'a Arc<IndexHandle>> {
        let mut handles = self.published.indexes_on(table).iter().map(|index| &index.handle);
        handles.find(|handle| Some(handle.id) == key.index && handle.check().is_ok())
    }
}

impl Claim {
    /// Takes the keys from where they are best had. False if they are where the claim has them no longer.
    fn turn_to(&mut self, index: Option<&Arc<IndexHandle>>, now: Timestamp) -> bool {
        match (&self.durable, index) {
            (Source::Index(known, _), Some(index)) if Arc::ptr_eq(known, index) => true,
            (_, Some(index)) if index.all_complete(now) => {
                let before = std::mem::replace(&mut self.durable, Source::Index(Arc::clone(index), Latest::default()));
                forget(vec![before]);
                true
            }
            (Source::Shard(_), _) => true,
            (Source::Index(..), _) => false,
        }
    }

    fn count(&self, key: &[u8]) -> Diff {
        self.durable.count(key) + self.staged.get(key).copied().unwrap_or(0)
    }
}

impl Claims {
    /// Stages what a write does to the keys of its tables, or finds a key that is taken and stages nothing.
    pub(super) fn stage(
        &mut self,
        stored: Stored<'_>,
        claimants: &[Claimant<'_>],
    ) -> Result<Option<Duplicate>, CommitError> {
        let mut changes = Vec::new();
        for Claimant { table, constraints, updates } in claimants {
            self.load(stored, *table, constraints)?;
            let nets: Vec<NetKeys> = constraints.keys.iter().map(|key| net_keys(constraints, key, updates)).collect();
            if let Some(duplicate) = self.refuse(*table, constraints, updates, &nets)? {
                return Ok(Some(duplicate));
            }
            changes.push(nets);
        }
        for (Claimant { table, constraints, .. }, nets) in claimants.iter().zip(changes) {
            let Some(claims) = self.tables.get_mut(table) else { continue };
            for (key, net) in constraints.keys.iter().zip(nets) {
                let Some(claim) = claims.iter_mut().find(|claim| claim.oid == key.oid) else { continue };
                for (key, diff) in net {
                    *claim.staged.entry(key).or_default() += diff;
                }
            }
            self.staged.insert(*table);
        }
        Ok(None)
    }

    /// The first row whose key would be there twice.
    fn refuse(
        &self,
        table: GlobalId,
        constraints: &Arc<TableConstraints>,
        updates: &Updates,
        nets: &[NetKeys],
    ) -> Result<Option<Duplicate>, CommitError> {
        if bugs::is(Bug::KeysUnclaimed) {
            return Ok(None);
        }
        // How often a key is there after the write.
        let after =
            |oid: u32, key: &[u8], diff: Diff| self.claim(table, oid).map_or(0, |claim| claim.count(key)) + diff;
        let mut is_refused = false;
        for (key, net) in constraints.keys.iter().zip(nets) {
            for (bytes, diff) in net {
                match after(key.oid, bytes, *diff) {
                    0 | 1 => {}
                    copies if copies > 1 => is_refused = true,
                    _ => return Err(CommitError::internal(format!("a key of {} was given up twice", key.name))),
                }
            }
        }
        if !is_refused {
            return Ok(None);
        }
        let copies_after = |place: usize, key: &[u8]| {
            nets[place].get(key).map_or(0, |diff| after(constraints.keys[place].oid, key, *diff))
        };
        match first_duplicate(table, constraints, updates, copies_after) {
            Some(duplicate) => Ok(Some(duplicate)),
            None => Err(CommitError::internal("a key that is there twice is of no row")),
        }
    }

    fn claim(&self, table: GlobalId, constraint: u32) -> Option<&Claim> {
        self.tables.get(&table)?.iter().find(|claim| claim.oid == constraint)
    }

    /// Whether each of these keys, of the constraint with the oid beside it, is taken by what is durable.
    pub(super) fn are_taken(
        &mut self,
        stored: Stored<'_>,
        table: GlobalId,
        constraints: &TableConstraints,
        keys: &[(u32, Vec<u8>)],
    ) -> Result<Vec<bool>, CommitError> {
        self.load(stored, table, constraints)?;
        let is_taken = |(oid, key): &(u32, Vec<u8>)| self.claim(table, *oid).is_some_and(|claim| claim.count(key) > 0);
        Ok(keys.iter().map(is_taken).collect())
    }

    /// The constraints, by their oids, of which the keys have to be read from the shard.
    pub(super) fn unknown(&mut self, stored: Stored<'_>, table: GlobalId, constraints: &TableConstraints) -> Vec<u32> {
        if constraints.keys.is_empty() {
            return Vec::new();
        }
        let claims = self.tables.entry(table).or_default();
        let is_unknown = |key: &&UniqueKey| {
            let index = stored.index(table, key);
            if let Some(at) = claims.iter().position(|claim| claim.oid == key.oid) {
                if claims[at].turn_to(index, stored.now) {
                    return false;
                }
                claims.swap_remove(at);
            }
            match index.filter(|index| index.all_complete(stored.now)) {
                Some(index) => {
                    let durable = Source::Index(Arc::clone(index), Latest::default());
                    claims.push(Claim { oid: key.oid, durable, staged: NetKeys::new() });
                    false
                }
                None => true,
            }
        };
        constraints.keys.iter().filter(is_unknown).map(|key| key.oid).collect()
    }

    /// Step 2, for the keys that are not known yet; those of large tables were read before ([`super::put_off`]).
    fn load(&mut self, stored: Stored<'_>, table: GlobalId, constraints: &TableConstraints) -> Result<(), CommitError> {
        let unknown = self.unknown(stored, table, constraints);
        if !unknown.is_empty() {
            let keys = constraints.stored_keys(stored.persist, table, &unknown)?;
            self.install(table, keys);
        }
        Ok(())
    }

    /// Takes over the keys of constraints that are new.
    pub(super) fn install(&mut self, table: GlobalId, keys: Validated) {
        let claim = |(oid, counts)| Claim { oid, durable: Source::Shard(counts), staged: NetKeys::new() };
        self.tables.entry(table).or_default().extend(keys.into_iter().map(claim));
    }

    /// What was staged is durable, of this time.
    pub(super) fn settle(&mut self, ts: Timestamp) {
        for table in std::mem::take(&mut self.staged) {
            for claim in self.tables.get_mut(&table).into_iter().flatten() {
                claim.durable.settle(ts, claim.staged.drain().filter(|(_, diff)| *diff != 0));
            }
        }
    }

    /// What was staged has not come about.
    pub(super) fn forget(&mut self) {
        for table in std::mem::take(&mut self.staged) {
            self.tables.get_mut(&table).into_iter().flatten().for_each(|claim| claim.staged.clear());
        }
    }

    /// Keeps the claims of a table's constraints that it still has.
    pub(super) fn retain(&mut self, table: GlobalId, constraints: Option<&TableConstraints>) {
        let Some(constraints) = constraints else {
            if let Some(gone) = self.tables.remove(&table) {
                forget(gone.into_iter().map(|claim| claim.durable).collect());
            }
            return;
        };
        if let Some(claims) = self.tables.get_mut(&table) {
            let gone = claims.extract_if(.., |claim| constraints.key(claim.oid).is_none());
            forget(gone.map(|claim| claim.durable).collect());
        }
    }
}

/// Frees the memory of keys; where it is in many pieces, on a thread of its own.
fn forget(sources: Vec<Source>) {
    if sources.iter().map(Source::len).sum::<usize>() > KEYS_FREED {
        drop(ore::thread::spawn("forget", move || drop(sources)));
    }
}
