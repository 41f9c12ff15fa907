//! What a statement that writes locks: the rows that it changes or lets go, and the keys that it takes or gives up.
//!
//! Who wants what another transaction has locked waits until that has ended, and looks again. Locks spare statements that they fail
//! and have to be tried again; what is true at COMMIT the committer finds out without them.
//!
//! 1. A statement that looks its rows up by the table's key locks them before it reads. Another locks what it has found.
//! 2. If it has locked anything new, and had to wait or others have written meanwhile, it reads again: at a later time, to which its
//!    transaction moves if nothing that it has read has changed by then, and fails with 40001 if something has.
//! 3. What was locked before a row was read stays as it was read until the transaction ends.

use crate::error::AdapterError;
use crate::locks::{Lockable, Strength, Taken};
use crate::session::Session;
use crate::transaction::conflict;
use committer::constraint::{TableConstraints, UniqueKey, net_keys};
use committer::expectations::was_written;
use compute_client::peek::{Bound, Looked};
use compute_client::plan::PeekPlan;
use repr::{GlobalId, Timestamp, Updates};
use std::sync::Arc;

/// More locks than these of one statement in one table become one on the table.
const LOCKS_MAX: usize = 10_000;

impl Session {
    /// Locks what updates of a table touch.
    ///
    /// # Cancellation
    /// Dropping the future stops waiting; what was locked stays so until the transaction ends.
    pub(crate) async fn lock_touched(
        &mut self,
        table: GlobalId,
        constraints: &TableConstraints,
        updates: &Updates,
    ) -> Result<Taken, AdapterError> {
        self.lock(table, touched(table, constraints, updates)).await
    }

    /// Step 1: locks the rows that a look-up by the key of a table will find.
    ///
    /// # Cancellation
    /// As [`Session::lock_touched`].
    pub(crate) async fn lock_looked_up(
        &mut self,
        table: GlobalId,
        constraints: &TableConstraints,
        (peek, params): (&PeekPlan, Bound<'_>),
        strength: Strength,
    ) -> Result<(), AdapterError> {
        let Some(key) = identity(constraints).filter(|key| key.is_exact()) else { return Ok(()) };
        let Some(looked) = Looked::by(peek, params).filter(|looked| looked.columns() == key.columns) else {
            return Ok(());
        };
        let rows = looked.keys.into_iter().map(|bytes| (Lockable::Row(table, key.oid, bytes.into()), strength));
        self.lock(table, rows.collect()).await.map(drop)
    }

    async fn lock(&mut self, table: GlobalId, mut wanted: Vec<(Lockable, Strength)>) -> Result<Taken, AdapterError> {
        match wanted.len() {
            0 => return Ok(Taken::Nothing),
            ..=LOCKS_MAX => wanted.insert(0, (Lockable::Table(table), Strength::KeyShare)),
            _ => wanted = vec![(Lockable::Table(table), Strength::Update)],
        }
        let (owner, timeout) = (self.transaction.locks(&self.locks), self.settings.vars.lock_timeout());
        Ok(self.interrupt().guard(owner.lock_all(&wanted, timeout)).await??)
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

/// The key by which rows of a table are told apart: the first of which no column can be NULL.
fn identity(constraints: &TableConstraints) -> Option<&UniqueKey> {
    let is_there = |key: &&UniqueKey| key.columns.iter().all(|column| !constraints.desc.columns[*column].nullable);
    constraints.keys.iter().find(is_there)
}

/// What updates of a table touch, in their order.
fn touched(table: GlobalId, constraints: &TableConstraints, updates: &Updates) -> Vec<(Lockable, Strength)> {
    let mut wanted = Vec::new();
    if constraints.keys.is_empty() {
        let removed = updates.iter().filter(|(_, diff)| *diff < 0);
        wanted.extend(removed.map(|(row, _)| (Lockable::Row(table, 0, row.into()), Strength::Update)));
        return wanted;
    }
    let identity = identity(constraints).map(|key| key.oid);
    for key in &constraints.keys {
        let net = net_keys(constraints, key, updates);
        let of_key = |bytes: Vec<u8>, strength| (Lockable::Row(table, key.oid, bytes.into()), strength);
        for (row, diff) in updates.iter() {
            let Some(bytes) = key.of(&constraints.types, row) else { continue };
            match net.contains_key(&bytes) {
                true => wanted.push(of_key(bytes, Strength::Update)),
                // A row that keeps its key.
                false if diff < 0 && identity == Some(key.oid) => wanted.push(of_key(bytes, Strength::NoKeyUpdate)),
                false => {}
            }
        }
    }
    if identity.is_none() {
        // Some of its rows have no key.
        let removed = updates.iter().filter(|(_, diff)| *diff < 0);
        wanted.extend(removed.map(|(row, _)| (Lockable::Row(table, 0, row.into()), Strength::Update)));
    }
    wanted
}
