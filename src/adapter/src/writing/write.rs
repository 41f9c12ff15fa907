//! What a statement writes to a table: checked, then committed, or kept back until its transaction commits.
//!
//! A key that is taken is an error of the statement. A statement that commits by itself learns it from its commit. In a
//! transaction the statement asks the committer, with what the transaction has written before; COMMIT asks again.

use crate::cancel::committed;
use crate::error::AdapterError;
use crate::locks::Taken;
use crate::session::{Autocommit, Session};
use crate::shared::Shared;
use crate::transaction::{conflict, repeated};
use crate::writing::locking::{Looks, removed_rows, touched};
use crate::writing::references::{Change, Changed, Referring};
use ahash::AHashMap;
use committer::constraint::{Duplicate, TableConstraints, Violation, Wording, duplicate, first_duplicate, net_keys};
use committer::expectations::Expectation;
use committer::notes::Notes;
use committer::request::{Committed, TableWrite};
use engine::names::{ObjectId, Privilege};
use persist::Blobs;
use repr::sqlstate::SqlState;
use repr::{GlobalId, RelationDesc, Updates};
use sql::plan::CatalogView;
use sql::plan::privileges::has_privilege;
use sql_syntax::names::FullName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table that a statement was planned to write to.
pub(crate) struct WriteTarget<'a> {
    pub(crate) table: GlobalId,
    pub(crate) name: &'a FullName,
    /// Its columns, by which NOT NULL was checked.
    pub(crate) desc: &'a Arc<RelationDesc>,
    /// The constraints of which a key that is taken is no error but a conflict.
    pub(crate) arbiters: &'a [u32],
    /// Whether what refers to rows that go is looked at before COMMIT.
    pub(crate) is_followed: bool,
    /// How many locks the transaction had before the statement: those after them it may give up and look again.
    pub(crate) locked_before: usize,
    /// What is written already of the updates: all of them or nothing.
    pub(crate) written: Vec<Blobs>,
}

impl<'a> WriteTarget<'a> {
    /// For rows that are written as they are, whatever is read.
    pub(crate) fn as_they_are(table: GlobalId, name: &'a FullName, desc: &'a Arc<RelationDesc>) -> WriteTarget<'a> {
        let (is_followed, locked_before) = (true, usize::MAX);
        WriteTarget { table, name, desc, arbiters: &[], is_followed, locked_before, written: Vec::new() }
    }
}

impl Session {
    /// Commits updates of one table, or keeps them back until the transaction commits.
    pub(crate) async fn write(
        &mut self,
        target: WriteTarget<'_>,
        updates: Updates,
        expectations: Vec<Expectation>,
        autocommit: Autocommit,
    ) -> Result<Committed, AdapterError> {
        let constraints = self.constraints_of(target.table, target.name)?;
        self.check_rows(target.table, target.name, &constraints, target.desc, &updates)?;
        let looks = match expectations.is_empty() && target.arbiters.is_empty() {
            true => Looks::Once,
            false => Looks::Again,
        };
        let (table, locked_before) = (target.table, target.locked_before);
        let mut taken = self.lock_touched(table, locked_before, &constraints, &updates, looks).await?;
        let mut change = Change::of(target.table, constraints, updates, expectations);
        if target.is_followed && !change.tables[0].constraints.referenced.is_empty() && taken != Taken::Waited {
            if target.arbiters.is_empty() {
                self.refuse_taken(&change.tables[0]).await?;
            }
            taken = taken.max(self.follow(&mut change, target.locked_before, looks).await?);
        }
        let commits_alone = autocommit == Autocommit::Yes && self.commits_alone();
        let may_have_changed = match taken {
            Taken::Nothing => false,
            // The commit of a statement by itself finds that out.
            Taken::Free if commits_alone => false,
            Taken::Free => {
                change.expectations.iter().any(|expected| self.were_written(&[expected.table], expected.read_ts))
            }
            Taken::Waited => true,
        };
        if looks == Looks::Again && may_have_changed {
            return Ok(Committed::Conflict);
        }
        change.commits_alone = commits_alone;
        let new = self.new_references(&change);
        self.lock_referred(&change, &new).await?;
        match commits_alone {
            true => self.commit_alone(target, change).await,
            false => self.keep_back(&target, &change, new).await,
        }
    }

    async fn commit_alone(&mut self, target: WriteTarget<'_>, change: Change) -> Result<Committed, AdapterError> {
        let notes = self.transaction.notes.clone();
        if change.is_nothing() && notes.is_empty() {
            return Ok(Committed::At);
        }
        let Change { tables, expectations, .. } = change;
        // The first table is the one that was named.
        let mut written = target.written;
        let write = |it: Changed| {
            TableWrite::new(it.table, it.updates, Some(it.constraints)).with_blobs(std::mem::take(&mut written))
        };
        let mut writes: Vec<TableWrite> = tables.into_iter().map(write).collect();
        // That may take long, and can be given up as long as nothing is committed.
        if writes.iter().any(Shared::has_many_keys) {
            self.interrupt().guard(self.shared.look_up_keys(&mut writes)).await??;
        }
        let committed =
            committed(&self.cancel(), self.shared.committer.commit_noted(writes, expectations, notes)).await?;
        match committed {
            Committed::At => {
                // They are left, and are nothing to what comes next.
                self.transaction.notes = Notes::default();
                self.transaction.unlock();
                Ok(committed)
            }
            Committed::Violates(violation) => match violation.as_ref() {
                Violation::Duplicate(taken) if target.arbiters.contains(&taken.constraint) => Ok(Committed::Conflict),
                violation => Err(self.violation(violation)),
            },
            Committed::Conflict => Ok(committed),
            Committed::Repeated => Err(repeated()),
        }
    }

    /// Keeps a change back until the transaction commits.
    async fn keep_back(
        &mut self,
        target: &WriteTarget<'_>,
        change: &Change,
        new: Vec<Referring>,
    ) -> Result<Committed, AdapterError> {
        if !self.expects(change) {
            return Ok(Committed::Conflict);
        }
        self.transaction.reserve(&self.shared.memory, change.tables.iter().map(|changed| &changed.updates))?;
        for Changed { table, constraints, updates } in &change.tables {
            match self.claim_in_transaction(*table, constraints, updates).await? {
                // Taken by what was committed after the statement had looked.
                Some(taken) if target.arbiters.contains(&taken.constraint) => {
                    change.tables.iter().for_each(|changed| self.transaction.unclaim(changed.table));
                    return Ok(Committed::Conflict);
                }
                Some(taken) => return Err(self.duplicate(&taken)),
                None => {}
            }
        }
        self.check_references(new).await?;
        for Changed { table, constraints, updates } in &change.tables {
            self.transaction.write(*table, updates, constraints);
        }
        Ok(Committed::At)
    }

    /// Has the transaction expect what a change was made of; false if it is of another time than what the transaction has read.
    fn expects(&mut self, change: &Change) -> bool {
        let expectations = &change.expectations;
        let Some(Expectation { read_ts, .. }) = expectations.first() else { return true };
        let read_ts = *read_ts;
        if self.reads_committed() {
            for Changed { table, constraints, updates } in &change.tables {
                let rows = removed_rows(constraints, updates).map(Arc::new);
                let removed = rows.map(|rows| Expectation { table: *table, read_ts, rows: Some(rows) });
                removed.into_iter().for_each(|removed| self.transaction.note_removed(&self.shared, removed));
            }
            return true;
        }
        if !self.transaction.has_read() {
            // The first statement of a transaction without a block has noted nothing.
            self.transaction.reads().note(expectations.iter().map(|expected| expected.table));
        }
        // Read at the transaction's own timestamp, which COMMIT will hold it to, as to what it noted when it read.
        let held = self.transaction.read_ts(&self.shared, read_ts);
        expectations.iter().all(|expected| expected.read_ts == held)
    }

    /// Has values reserved of each of these sequences, by their oids, that are not a transaction's own: for so many rows what one
    /// takes, as far as there are so many.
    pub(crate) async fn reserve(&mut self, row: &BTreeMap<u32, u64>, rows: u64) -> Result<(), AdapterError> {
        if row.is_empty() {
            return Ok(());
        }
        let published = self.published();
        for (oid, count) in row {
            let (id, count) = (published.sequence_oids.get(oid), count.saturating_mul(rows));
            let sequence = id.and_then(|id| published.sequences.get(id));
            let Some(sequence) = sequence.filter(|sequence| !sequence.has(count)) else { continue };
            let (sequence, shared) = (Arc::clone(sequence), Arc::clone(&self.shared));
            self.interrupt().guard(shared.committer.reserve(sequence, count)).await??;
        }
        Ok(())
    }

    /// What a table demands of its rows now. Errors: 42P01 if it has gone; [`AdapterError::Stale`] if it has other columns now.
    pub(crate) fn constraints_of(
        &self,
        table: GlobalId,
        name: &FullName,
    ) -> Result<Arc<TableConstraints>, AdapterError> {
        let published = self.published();
        let known = published.tables.get(&table).map(|table| Arc::clone(&table.constraints));
        known.ok_or_else(|| match published.state.all_items().any(|item| item.name == *name) {
            true => AdapterError::Stale,
            false => {
                let message = "the table was dropped before the write committed";
                AdapterError::new(SqlState::UNDEFINED_TABLE, message)
            }
        })
    }

    /// Checks CHECK, and NOT NULL if `checked`, by which it was checked, are not the table's columns any more.
    pub(crate) fn check_rows(
        &self,
        table: GlobalId,
        name: &FullName,
        constraints: &TableConstraints,
        checked: &Arc<RelationDesc>,
        updates: &Updates,
    ) -> Result<(), AdapterError> {
        let is_current = Arc::ptr_eq(checked, &constraints.desc);
        let shows = || self.may_select(table);
        let wording = self.wording(name, &shows);
        if is_current {
            constraints.check_full(updates, wording)?;
            if !constraints.has_checks() {
                return Ok(());
            }
        }
        let (engine, info) = (&self.shared.engine, self.info(self.shared.oracle.known_ts()));
        match is_current {
            true => Ok(constraints.check_conditions(engine, &info, updates, wording)?),
            false => Ok(constraints.check_rows(engine, &info, updates, wording)?),
        }
    }

    /// Tells who changes a key to one that is taken, before anybody is waited for who refers to the row.
    async fn refuse_taken(&mut self, changed: &Changed) -> Result<(), AdapterError> {
        let Changed { table, constraints, updates } = changed;
        let locked = touched(*table, constraints, updates);
        if !updates.iter().any(|(_, diff)| diff < 0) || !self.is_taken(*table, constraints, updates, &locked).await? {
            return Ok(());
        }
        let taken = self.claim_in_transaction(*table, constraints, updates).await?;
        self.transaction.unclaim(*table);
        taken.map_or(Ok(()), |taken| Err(self.duplicate(&taken)))
    }

    /// Finds a key that the transaction's own rows have already, or what is committed.
    async fn claim_in_transaction(
        &mut self,
        table: GlobalId,
        constraints: &Arc<TableConstraints>,
        updates: &Updates,
    ) -> Result<Option<Duplicate>, AdapterError> {
        if updates.is_empty() {
            return Ok(None);
        }
        for reference in &constraints.references {
            let own = self.transaction.own_keys(table, constraints, &reference.key);
            for (bytes, diff) in net_keys(constraints, &reference.key, updates) {
                *own.entry(bytes).or_default() += diff;
            }
        }
        if constraints.keys.is_empty() {
            return Ok(None);
        }
        // How often a key would be there, where that is more than once.
        let (mut twice, mut once) = (AHashMap::new(), Vec::new());
        for (at, key) in constraints.keys.iter().enumerate() {
            let statement = net_keys(constraints, key, updates);
            let own = self.transaction.own_keys(table, constraints, key);
            for (bytes, diff) in statement {
                let total = own.get(&bytes).copied().unwrap_or(0) + diff;
                match total {
                    0 => drop(own.remove(&bytes)),
                    total => drop(own.insert(bytes.clone(), total)),
                }
                match (total, diff > 0) {
                    (2.., true) => drop(twice.insert((at, bytes), total)),
                    (1, true) => once.push((at, bytes)),
                    _ => {}
                }
            }
        }
        if !once.is_empty() && !self.published().created.contains(&table) {
            let asked = once.iter().map(|(at, key)| (constraints.keys[*at].oid, key.clone())).collect();
            let probed = self.probe(table, asked).await?;
            let taken = once.into_iter().zip(probed.counts).filter(|(_, count)| *count > 0);
            twice.extend(taken.map(|(key, _)| (key, 2)));
        }
        if twice.is_empty() {
            return Ok(None);
        }
        let copies_after = |at: usize, key: &[u8]| twice.get(&(at, key.to_vec())).copied().unwrap_or(0);
        match first_duplicate(table, constraints, updates, copies_after) {
            Some(duplicate) => Ok(Some(duplicate)),
            None => Err(AdapterError::internal("a key that is there twice is of no row")),
        }
    }

    /// The error of what a write may not do.
    pub(crate) fn violation(&self, violation: &Violation) -> AdapterError {
        match violation {
            Violation::Duplicate(taken) => self.duplicate(taken),
            Violation::Orphan(found) => self.orphan(found),
        }
    }

    /// 23505; or 40001, if the table has gone since.
    pub(crate) fn duplicate(&self, taken: &Duplicate) -> AdapterError {
        let Some(table) = self.published().state.item(taken.id) else { return conflict() };
        let shows = || self.may_select(taken.id);
        duplicate(taken, self.wording(&table.name, &shows)).into()
    }

    /// How violations of what a table demands are put into words for this session.
    pub(crate) fn wording<'a>(&'a self, name: &'a FullName, shows_rows: &'a dyn Fn() -> bool) -> Wording<'a> {
        Wording { table: name, options: self.encode_options(), shows_rows }
    }

    /// Whether the session's role may see a table's rows, and so those that errors are about.
    pub(crate) fn may_select(&self, table: GlobalId) -> bool {
        let published = self.published();
        has_privilege(published.state.as_ref(), self.rights.role.id, ObjectId::Item(table), Privilege::Select)
    }
}
