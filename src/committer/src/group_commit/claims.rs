//! Claims: which values of a PRIMARY KEY, a UNIQUE constraint or a unique index are taken.
//!
//! The committer sees every write in commit order, so it alone can say whether a key is free:
//!
//! 1. The keys of a table are read from its shard before the first write to it after a start, or after a constraint was added.
//!    From then on they are kept here, exact, in memory.
//! 2. What a write does to the keys is netted: a row that is replaced by one with the same key changes nothing, and rows may
//!    trade their keys. After the write every key is there once, or not at all; else the write is refused.
//! 3. What a group does to the keys is *staged*, where its later writes see it. It is settled when the group is durable, and
//!    forgotten if that failed.
//!
//! # Invariants
//! - Between groups nothing is staged, and the claims of a table are the keys of what is durable of it.

use crate::constraint::{Duplicate, NetKeys, TableConstraints, Validated, first_duplicate, net_keys};
use crate::error::CommitError;
use ahash::{AHashMap, AHashSet};
use bugs::Bug;
use persist::PersistClient;
use repr::{Diff, GlobalId, Updates};
use std::collections::{BTreeSet, HashMap};
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
    taken: AHashSet<Box<[u8]>>,
    /// By key: whether it is taken after the group.
    staged: AHashMap<Vec<u8>, bool>,
}

/// A write to a table whose keys are to be claimed.
pub(super) struct Claimant<'a> {
    pub(super) table: GlobalId,
    pub(super) constraints: Arc<TableConstraints>,
    pub(super) updates: &'a Updates,
}

impl Claim {
    fn is_taken(&self, key: &[u8]) -> bool {
        self.staged.get(key).copied().unwrap_or_else(|| self.taken.contains(key))
    }
}

impl Claims {
    /// Stages what a write does to the keys of its tables, or finds a key that is taken and stages nothing.
    pub(super) fn stage(
        &mut self,
        persist: &PersistClient,
        claimants: &[Claimant<'_>],
    ) -> Result<Option<Duplicate>, CommitError> {
        let mut changes = Vec::new();
        for Claimant { table, constraints, updates } in claimants {
            self.load(persist, *table, constraints)?;
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
                    claim.staged.insert(key, diff > 0);
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
        let claims = self.tables.get(&table).map_or(&[][..], Vec::as_slice);
        let after = |oid: u32, key: &[u8], diff: Diff| {
            let is_taken = claims.iter().find(|claim| claim.oid == oid).is_some_and(|claim| claim.is_taken(key));
            Diff::from(is_taken) + diff
        };
        if bugs::is(Bug::KeysUnclaimed) {
            return Ok(None);
        }
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

    /// Whether each of these keys, of the constraint with the oid beside it, is taken by what is durable.
    pub(super) fn are_taken(
        &mut self,
        persist: &PersistClient,
        table: GlobalId,
        constraints: &TableConstraints,
        keys: &[(u32, Vec<u8>)],
    ) -> Result<Vec<bool>, CommitError> {
        self.load(persist, table, constraints)?;
        let claims = self.tables.get(&table).map_or(&[][..], Vec::as_slice);
        let is_taken = |(oid, key): &(u32, Vec<u8>)| {
            claims.iter().find(|claim| claim.oid == *oid).is_some_and(|claim| claim.is_taken(key))
        };
        Ok(keys.iter().map(is_taken).collect())
    }

    /// The constraints, by their oids, of which the keys are not known yet.
    pub(super) fn unknown(&self, table: GlobalId, constraints: &TableConstraints) -> Vec<u32> {
        if constraints.keys.is_empty() {
            return Vec::new();
        }
        let known = self.tables.get(&table).map_or(&[][..], Vec::as_slice);
        let oids = constraints.keys.iter().map(|key| key.oid);
        oids.filter(|oid| known.iter().all(|claim| claim.oid != *oid)).collect()
    }

    /// Step 1, for the keys that are not known yet; those of large tables were read before ([`super::put_off`]).
    fn load(
        &mut self,
        persist: &PersistClient,
        table: GlobalId,
        constraints: &TableConstraints,
    ) -> Result<(), CommitError> {
        let unknown = self.unknown(table, constraints);
        if !unknown.is_empty() {
            let keys = constraints.stored_keys(persist, table, &unknown)?;
            self.install(table, keys);
        }
        Ok(())
    }

    /// Takes over the keys of constraints that are new.
    pub(super) fn install(&mut self, table: GlobalId, keys: Validated) {
        let new = keys.into_iter().map(|(oid, taken)| Claim { oid, taken, staged: AHashMap::new() });
        self.tables.entry(table).or_default().extend(new);
    }

    /// What was staged is durable.
    pub(super) fn settle(&mut self) {
        for table in std::mem::take(&mut self.staged) {
            for claim in self.tables.get_mut(&table).into_iter().flatten() {
                for (key, is_taken) in claim.staged.drain() {
                    if is_taken {
                        claim.taken.insert(key.into());
                    } else {
                        claim.taken.remove(key.as_slice());
                    }
                }
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
                forget(gone);
            }
            return;
        };
        if let Some(claims) = self.tables.get_mut(&table) {
            let gone = claims.extract_if(.., |claim| constraints.key(claim.oid).is_none());
            forget(gone.collect());
        }
    }
}

/// Frees the memory of claims; where it is in many pieces, on a thread of its own.
fn forget(claims: Vec<Claim>) {
    if claims.iter().map(|claim| claim.taken.len()).sum::<usize>() > KEYS_FREED {
        drop(ore::thread::spawn("forget", move || drop(claims)));
    }
}
