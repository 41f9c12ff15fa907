//! What a statement that writes locks: the rows that it changes or lets go, and the keys that it takes or gives up.
//!
//! Who wants what another transaction has locked waits until that has ended, and looks again. Locks spare statements that they fail
//! and have to be tried again; what is true at COMMIT the committer finds out without them.
//!
//! 1. A statement that looks its rows up by the table's key locks them before it reads, if they are free: that it has to wait for them
//!    is not certain before it has found them, or sees that somebody changes the one that it looks for. What it does not find it gives
//!    up. Another statement locks what it has found.
//! 2. If it has locked anything new, and had to wait or others have written meanwhile, it reads again: at a later time, to which its
//!    transaction moves if nothing that it has read has changed by then, and fails with 40001 if something has.
//! 3. What was locked before a row was read stays as it was read until the transaction ends, but for what DDL does, which locks nothing.

use crate::error::AdapterError;
use crate::locks::{Lockable, Strength, Taken};
use crate::plan_cache::SelectExec;
use crate::session::Session;
use crate::transaction::conflict;
use committer::constraint::{CountedKey, Reference, TableConstraints, net_keys};
use committer::expectations::{KeyRange, was_written};
use committer::request::Probed;
use compute_client::peek::{Bound, Looked};
use compute_client::plan::PeekPlan;
use repr::row::split;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use sql::plan::CatalogView;
use sql::row_locks::{Busy, RowLocks, RowStrength};
use std::sync::Arc;

/// So many keys are looked for in a row.
const PROBES_AT_ONCE: usize = 1_024;

/// More rows than these of one statement in one table are locked as the whole table.
pub(crate) const ROWS_MAX: usize = 10_000;

/// Whether what is written follows from what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    /// After it has waited for a lock it is read again, and others may be wanted.
    Again,
    /// It is written as it is; a key that is taken is an error.
    Once,
    /// What is there is looked at when these locks are had.
    Later,
}

/// What became of the rows that a query was to lock.
pub(crate) enum Selected {
    /// They are locked, or need not be.
    Locked,
    /// The only one is locked by somebody else, and to be left out.
    Skipped,
}

impl Session {
    /// Locks what updates of a table touch. Locks after the first `locked_before` may be given up for others.
    ///
    /// # Cancellation
    /// Dropping the future stops waiting; what was locked stays so until the transaction ends.
    pub(crate) async fn lock_touched(
        &mut self,
        table: GlobalId,
        locked_before: usize,
        constraints: &TableConstraints,
        updates: &Updates,
        looks: Looks,
    ) -> Result<Taken, AdapterError> {
        let removed = updates.iter().filter(|(_, diff)| *diff < 0).count();
        let mut wanted: Vec<_> = match removed.max(updates.len() - removed) {
            ..=ROWS_MAX => touched(table, constraints, updates),
            // What is new in a table without keys is nobody's affair.
            _ if constraints.keys.is_empty() && removed == 0 => Vec::new(),
            _ => all_of([table]),
        };
        let Some((_, rows)) = wanted.split_first_mut() else { return Ok(Taken::Nothing) };
        if looks == Looks::Later {
            // A key that is there already is not changed.
            rows.iter_mut().for_each(|(_, strength)| *strength = (*strength).min(Strength::NoKeyUpdate));
        }
        if looks == Looks::Again {
            // Whoever looks for several rows locks them in one order.
            rows.sort_unstable();
        }
        let (count, taken) = self.transaction.locks(&self.locks).take_free(&wanted);
        if count == wanted.len() {
            return Ok(taken);
        }
        // Who writes a key that is there already is told so, whoever has locked what else he writes, or keeps the key from going.
        let is_at_stake = self.transaction.locks(&self.locks).is_at_stake(&wanted[count].0);
        let stay = &wanted[..count + usize::from(!is_at_stake)];
        if looks == Looks::Once && self.is_taken(table, constraints, updates, stay).await? {
            return Ok(taken);
        }
        if looks != Looks::Again {
            return Ok(self.lock(&wanted).await?.max(taken));
        }
        match self.lock(&wanted[..=count]).await {
            Err(error) if error.sqlstate() == SqlState::DEADLOCK_DETECTED && self.lock_count() > locked_before => {
                // They wait for each other because of what each has found so far, which is looked for anew.
                self.unlock_after(locked_before);
                self.lock(&wanted[count..=count]).await
            }
            locked => locked,
        }
    }

    /// Locks all rows of tables.
    ///
    /// # Cancellation
    /// As [`Session::lock_touched`].
    pub(crate) async fn lock_tables(&mut self, tables: impl Iterator<Item = GlobalId>) -> Result<(), AdapterError> {
        self.lock(&all_of(tables)).await.map(drop)
    }

    /// Waits for all of these locks.
    pub(crate) async fn lock(&mut self, wanted: &[(Lockable, Strength)]) -> Result<Taken, AdapterError> {
        let (owner, timeout) = (self.transaction.locks(&self.locks), self.settings.vars.lock_timeout());
        Ok(self.interrupt().guard(owner.lock_all(wanted, timeout)).await??)
    }

    /// Whether one of these locks is on a key that updates of the table add, and that is taken.
    pub(crate) async fn is_taken(
        &mut self,
        table: GlobalId,
        constraints: &TableConstraints,
        updates: &Updates,
        locked: &[(Lockable, Strength)],
    ) -> Result<bool, AdapterError> {
        let mut asked = Vec::new();
        for key in &constraints.keys {
            let net = net_keys(constraints, key, updates);
            let own = self.transaction.own_keys(table, constraints, key);
            asked.extend(locked.iter().filter_map(|(what, _)| match what {
                Lockable::Row(_, oid, bytes) if *oid == key.oid => {
                    let added = net.get(bytes.as_ref())? + own.get(bytes.as_ref()).copied().unwrap_or(0);
                    (added > 0).then(|| ((*oid, bytes.to_vec()), added))
                }
                _ => None,
            }));
        }
        // The transaction itself has taken it, whatever others do.
        if asked.iter().any(|(_, added)| *added > 1) {
            return Ok(true);
        }
        let asked: Vec<(u32, Vec<u8>)> = asked.into_iter().map(|(key, _)| key).collect();
        if asked.is_empty() || self.published().created.contains(&table) {
            return Ok(false);
        }
        Ok(self.probe(table, asked).await?.counts.iter().any(|count| *count > 0))
    }

    /// How often these keys of a table, each of the constraint with the oid beside it, are there by what is committed. Where their indexes
    /// tell, nobody is asked; otherwise the committer is.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn probe(&mut self, table: GlobalId, keys: Vec<(u32, Vec<u8>)>) -> Result<Probed, AdapterError> {
        let (published, ts) = (self.published(), self.shared.oracle.known_ts());
        let (interrupt, shared) = (self.interrupt(), Arc::clone(&self.shared));
        let count = |oid: u32, key: &[u8]| {
            let index = published.tables.get(&table)?.constraints.counted(oid)?.index?;
            published.index_on(table, index)?.handle.count_at(key, ts)
        };
        let mut counts = Vec::with_capacity(keys.len());
        while let Some((oid, key)) = keys.get(counts.len())
            && let Some(count) = count(*oid, key)
        {
            counts.push(count);
            if counts.len() % PROBES_AT_ONCE == 0 {
                interrupt.guard(tokio::task::yield_now()).await?;
            }
        }
        if counts.len() == keys.len() && !ore::sometimes(10) {
            return Ok(Probed { ts, counts });
        }
        Ok(interrupt.guard(shared.committer.probe(table, keys)).await??)
    }

    /// Step 1: locks the rows that a look-up by the key of a table will find, if they are free; returns how many it has locked.
    /// A row that somebody changes without touching its key is there: who looks for nothing else waits at once.
    ///
    /// # Cancellation
    /// As [`Session::lock_touched`].
    pub(crate) async fn lock_looked_up(
        &mut self,
        table: GlobalId,
        constraints: &TableConstraints,
        peek: &PeekPlan,
        params: Bound<'_>,
        strength: Strength,
    ) -> Result<usize, AdapterError> {
        let owner = self.transaction.locks(&self.locks);
        let Some(rows) = looked_up(table, constraints, peek, params, strength) else { return Ok(0) };
        // The first keeps others from locking all of the table.
        match (owner.take_free(&rows).0, rows.as_slice()) {
            (1, [_, (row, _)]) if peek.residual.is_empty() && owner.is_at_stake(row) && !owner.is_leaving(row) => {
                self.lock(&rows).await?;
                Ok(1)
            }
            (count, _) => Ok(count.saturating_sub(1)),
        }
    }

    /// Locks what a query asks for by FOR UPDATE and its kin. Rows that are looked up by the key of their table are locked one by one. Others
    /// are not: at READ COMMITTED their tables are, as a whole; at the default level COMMIT sees to it that what a transaction that
    /// writes has read is still so, which is what the words ask for. Errors: 40P01, 55P03; 0A000 for SKIP LOCKED where rows cannot
    /// be told apart.
    ///
    /// # Cancellation
    /// As [`Session::lock_touched`].
    pub(crate) async fn lock_selected(
        &mut self,
        exec: &SelectExec,
        params: Bound<'_>,
    ) -> Result<Selected, AdapterError> {
        let Some(RowLocks { strength, busy }) = exec.select.locks else { return Ok(Selected::Locked) };
        let strength = match strength {
            RowStrength::Share => Strength::Share,
            RowStrength::Update => Strength::Update,
        };
        let (tables, published) = (exec.select.depends_on.as_slice(), self.published());
        let rows = match (tables, &exec.peek) {
            ([table], Some(peek)) => {
                published.tables.get(table).and_then(|of| looked_up(*table, &of.constraints, peek, params, strength))
            }
            _ => None,
        };
        let wanted = match rows {
            Some(rows) => rows,
            None if !self.reads_committed() => return Ok(Selected::Locked),
            None => all_of(tables.iter().copied().filter(|id| published.tables.contains_key(id))),
        };
        if busy == Busy::Wait {
            return self.lock(&wanted).await.map(|_| Selected::Locked);
        }
        if self.transaction.locks(&self.locks).take_free(&wanted).0 == wanted.len() {
            return Ok(Selected::Locked);
        }
        if busy == Busy::Fail {
            let name = tables.first().and_then(|id| published.state.item(*id));
            let name = name.map(|item| item.name.item.clone()).unwrap_or_default();
            let message = format!("could not obtain lock on row in relation \"{name}\"");
            return Err(AdapterError::new(SqlState::LOCK_NOT_AVAILABLE, message));
        }
        match wanted.as_slice() {
            // After what keeps others from locking all of the table.
            [_, (Lockable::Row(..), _)] => Ok(Selected::Skipped),
            _ => {
                let message =
                    "SKIP LOCKED of rows that are not looked up one by one by their table's key is not supported";
                Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    /// How many locks the transaction has.
    pub(crate) fn lock_count(&self) -> usize {
        self.transaction.locks(&self.locks).count()
    }

    /// Gives up the locks after the first `count` on rows of a table that these updates do not touch.
    pub(crate) fn unlock_untouched(
        &self,
        count: usize,
        table: GlobalId,
        constraints: &TableConstraints,
        updates: &Updates,
    ) {
        self.transaction.locks(&self.locks).keep_after(count, table, &touched(table, constraints, updates));
    }

    /// Gives up the locks after the first `count`: what was to be locked was not found.
    pub(crate) fn unlock_after(&self, count: usize) {
        self.transaction.locks(&self.locks).go_back(count);
    }

    /// The time at which a statement that writes reads: that of its transaction, which moves to a later one if any of these collections
    /// was written since. Error 40001 if what the transaction has read has changed.
    pub(crate) async fn time_to_write(&mut self, collections: &[GlobalId]) -> Result<Timestamp, AdapterError> {
        let held = self.transaction.held_ts().filter(|_| self.transaction.staged().is_none());
        if let Some(held) = held
            && self.were_written(collections, held)
        {
            let (interrupt, shared) = (self.interrupt(), Arc::clone(&self.shared));
            let now = interrupt.guard(shared.read_ts()).await??;
            if !interrupt.guard(self.transaction.refresh(&shared, now)).await?? {
                return Err(conflict());
            }
        }
        self.now_for(collections).await
    }

    /// Whether any of these collections may have changed since.
    pub(crate) fn were_written(&self, collections: &[GlobalId], since: Timestamp) -> bool {
        let published = self.published();
        let mut of_users = collections.iter().filter(|id| matches!(id, GlobalId::User(_)));
        of_users.any(|id| was_written(&published, *id, since))
    }
}

/// The rows that updates of a table remove, by the columns by which they are told apart; `None` if there are none.
pub(crate) fn removed_rows(constraints: &TableConstraints, updates: &Updates) -> Option<KeyRange> {
    let columns = match identity(constraints) {
        Some(key) => key.columns.clone(),
        None => (0..constraints.types.len()).collect(),
    };
    let key = |row: &[u8]| {
        let slices = split(row, &constraints.types);
        columns.iter().flat_map(|column| slices[*column]).copied().collect()
    };
    let keys: Vec<Vec<u8>> = updates.iter().filter(|(_, diff)| *diff < 0).map(|(row, _)| key(row)).collect();
    (!keys.is_empty()).then(|| KeyRange::new(Arc::clone(&constraints.types), columns, keys))
}

/// The rows that a look-up by the key of a table will find, after what keeps others from locking all of it; `None` if it is not by the
/// key, or of very many.
fn looked_up(
    table: GlobalId,
    constraints: &TableConstraints,
    peek: &PeekPlan,
    params: Bound<'_>,
    strength: Strength,
) -> Option<Vec<(Lockable, Strength)>> {
    let key = identity(constraints).filter(|key| key.is_exact())?;
    let looked = Looked::by(peek, params).filter(|looked| looked.columns() == key.columns)?;
    let rows = looked.keys.into_iter().map(|bytes| (Lockable::Row(table, key.oid, bytes.into()), strength));
    (rows.len() <= ROWS_MAX).then(|| on(table).chain(rows).collect())
}

/// All rows of tables.
fn all_of(tables: impl IntoIterator<Item = GlobalId>) -> Vec<(Lockable, Strength)> {
    tables.into_iter().map(|table| (Lockable::Table(table), Strength::Update)).collect()
}

/// What keeps others from locking a table as a whole.
fn on(table: GlobalId) -> impl Iterator<Item = (Lockable, Strength)> {
    std::iter::once((Lockable::Table(table), Strength::KeyShare))
}

/// The key by which rows of a table are told apart: the first of which no column can be NULL.
fn identity(constraints: &TableConstraints) -> Option<&CountedKey> {
    let is_there = |key: &&CountedKey| key.columns.iter().all(|column| !constraints.desc.columns[*column].nullable);
    constraints.keys.iter().find(is_there)
}

/// What updates of a table touch, in their order, after what keeps others from locking all of it; nothing if that is nothing.
pub(crate) fn touched(table: GlobalId, constraints: &TableConstraints, updates: &Updates) -> Vec<(Lockable, Strength)> {
    let rows = rows_touched(table, constraints, updates);
    if rows.is_empty() { rows } else { on(table).chain(rows).collect() }
}

/// What keeps the key that a reference is to from going, after what keeps others from locking all of its table.
pub(crate) fn referred_to(reference: &Reference, key: &[u8]) -> Option<[(Lockable, Strength); 2]> {
    let key = reference.to_parent(key)?;
    let row = Lockable::Row(reference.parent, reference.parent_key, key.as_ref().into());
    Some([(Lockable::Table(reference.parent), Strength::KeyShare), (row, Strength::KeyShare)])
}

fn rows_touched(table: GlobalId, constraints: &TableConstraints, updates: &Updates) -> Vec<(Lockable, Strength)> {
    let mut wanted = Vec::new();
    for key in &constraints.keys {
        let net = net_keys(constraints, key, updates);
        let of_key = |bytes: Vec<u8>, strength| (Lockable::Row(table, key.oid, bytes.into()), strength);
        for (row, diff) in updates.iter() {
            let Some(bytes) = key.of(&constraints.types, row) else { continue };
            match net.contains_key(&bytes) {
                true => wanted.push(of_key(bytes, Strength::Update)),
                // A row that keeps its key.
                false if diff < 0 => wanted.push(of_key(bytes, Strength::NoKeyUpdate)),
                false => {}
            }
        }
    }
    if identity(constraints).is_none() {
        // Some of its rows have no key, or none has.
        let removed = updates.iter().filter(|(_, diff)| *diff < 0);
        wanted.extend(removed.map(|(row, _)| (Lockable::Row(table, 0, row.into()), Strength::Update)));
    }
    wanted
}
