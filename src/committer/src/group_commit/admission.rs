//! Whether a write, or a change of the catalog, may be committed: step 1 of the committer.
//!
//! 1. Its tables exist. If not, whoever wrote looks again: a table may have gone, or have other columns and a new id.
//! 2. What it read has not changed since, by itself or by the group.
//! 3. Its rows satisfy NOT NULL and CHECK. The session has seen to it; if the table demands something else by now, they are
//!    checked again.
//! 4. The keys of its rows are free.
//!
//! The notes that it requires are as it requires them: that is seen between 2 and 3.
//!
//! A change of the catalog may add constraints. What is stored is checked against these here, where nobody writes meanwhile,
//! so that no number of writers can keep a constraint from being added.

use super::Committer;
use super::claims::{Claimant, Stored};
use crate::constraint::{
    KeyCounts, Orphan, Reference, TableConstraints, Validated, Violation, Wording, net_keys, net_rows, only_adds,
    orphan, validate,
};
use crate::environment::Environment;
use crate::error::CommitError;
use crate::expectations::contradicted;
use crate::published::Published;
use crate::request::{Committed, Examined, TableWrite, WriteRequest};
use catalog::transact::{Prepared, StateDiff};
use engine::SessionInfo;
use pgrepr::options::EncodeOptions;
use repr::{GlobalId, Updates};
use sql::plan::{CatalogView, ItemRef};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Committer {
    /// Whether a write may join the group whose writes so far are `group`; its keys are staged then.
    pub(super) fn admit(
        &mut self,
        published: &Published,
        group: &BTreeMap<GlobalId, Vec<Arc<Updates>>>,
        write: &WriteRequest,
    ) -> Result<Committed, CommitError> {
        if write.writes.iter().any(|write| !published.tables.contains_key(&write.table)) {
            return Ok(Committed::Conflict);
        }
        if contradicted(published, &self.recent, group, &write.expectations) {
            return Ok(Committed::Conflict);
        }
        let persist = &self.env.persist;
        let Some(expired) = self.notes.admit(persist, &write.notes, self.env.clock.now_us())? else {
            return Ok(Committed::Repeated);
        };
        let mut claimants = Vec::new();
        for write in &write.writes {
            claimants.extend(self.claimant(published, write)?);
        }
        if let Some(violation) = self.stage(published, &claimants)? {
            return Ok(Committed::Violates(Box::new(violation)));
        }
        self.notes.stage(&write.notes, expired);
        Ok(Committed::At)
    }

    /// Step 3 for one table, and what step 4 needs of it.
    fn claimant<'w>(&self, published: &Published, write: &'w TableWrite) -> Result<Option<Claimant<'w>>, CommitError> {
        let constraints = &published.tables[&write.table].constraints;
        let is_checked = write.checked.as_ref().is_some_and(|checked| Arc::ptr_eq(checked, constraints));
        if !is_checked && let Some(item) = published.state.item(write.table) {
            check_rows(&self.env, constraints, &item, &write.updates)?;
        }
        let is_asked = (!constraints.keys.is_empty() || constraints.has_references()) && !write.updates.is_empty();
        let (constraints, loaded) = (Arc::clone(constraints), write.keys.as_ref().filter(|_| is_checked));
        Ok(is_asked.then(|| Claimant { table: write.table, constraints, updates: &write.updates, loaded }))
    }

    fn stage(&mut self, published: &Published, claimants: &[Claimant<'_>]) -> Result<Option<Violation>, CommitError> {
        if claimants.is_empty() {
            return Ok(None);
        }
        self.claims.stage(Stored::of(&self.env, published), claimants)
    }

    /// Whether a change of the catalog, examined before, may be made together with what was written in its transaction. The keys of
    /// constraints that are not new are staged then; those of the others are returned.
    pub(super) fn admit_change(
        &mut self,
        current: &Published,
        examined: Examined,
        writes: &[TableWrite],
    ) -> Result<Result<Vec<(GlobalId, Validated)>, Violation>, CommitError> {
        let mut claimants = Vec::new();
        for write in writes {
            let TableWrite { table, updates, .. } = write;
            match examined.kept.get(table) {
                Some(kept) if kept.keys.is_empty() && !kept.has_references() || updates.is_empty() => {}
                Some(kept) => {
                    claimants.push(Claimant { table: *table, constraints: Arc::clone(kept), updates, loaded: None });
                }
                None if current.tables.contains_key(table) => claimants.extend(self.claimant(current, write)?),
                None => {}
            }
        }
        Ok(match self.stage(current, &claimants)? {
            Some(violation) => Err(violation),
            None => Ok(examined.new_keys),
        })
    }
}

/// The tables that a change alters.
pub(super) fn altered(prepared: &Prepared) -> impl Iterator<Item = GlobalId> {
    prepared.diff.iter().filter_map(|change| match change {
        StateDiff::TableAltered(id) => Some(*id),
        _ => None,
    })
}

/// Checks what is stored and was written against new constraints. Errors: those of violations.
pub(super) fn examine(
    env: &Environment,
    current: &Published,
    prepared: &Prepared,
    writes: &[TableWrite],
) -> Result<Examined, CommitError> {
    let altered: BTreeSet<GlobalId> = altered(prepared).collect();
    let none = Updates::new();
    let (mut new_keys, mut kept, mut references) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let written = writes.iter().map(|write| (write.table, write.updates.as_ref()));
    let unwritten = altered.iter().filter(|id| writes.iter().all(|write| write.table != **id));
    for (table, updates) in written.chain(unwritten.map(|id| (*id, &none))) {
        let before = current.tables.get(&table).map(|table| &table.constraints);
        if before.is_some() && !altered.contains(&table) {
            continue;
        }
        let Some(item) = prepared.state.item(table) else { continue };
        let after = TableConstraints::of(&env.engine, &prepared.state, &item)?;
        new_keys.push((table, validate_stored(env, before, &after, &item, updates)?));
        check_rows(env, &after, &item, updates)?;
        kept.insert(table, Arc::new(after.as_before(before.map(Arc::as_ref))));
        // Of a table that has other columns now nobody knows what the transaction wrote to it, beside its rows as they are: all that it
        // refers to is new, and to what refers to it the keys are.
        let is_rewritten = |id: GlobalId| prepared.rewritten.values().any(|new| *new == id);
        let to_rewritten = after.references.iter().filter(|it| it.foreign.is_valid && is_rewritten(it.parent));
        let unchecked = after.new_references(before.map(Arc::as_ref)).chain(to_rewritten);
        references.extend(unchecked.map(|reference| (reference.key.oid, Arc::clone(reference))));
    }
    references
        .values()
        .try_for_each(|reference| check_reference(env, current, prepared, (reference, writes), &new_keys))?;
    Ok(Examined { new_keys, kept })
}

/// Checks that the keys are there to which a new foreign key refers. Error 23503.
fn check_reference(
    env: &Environment,
    current: &Published,
    prepared: &Prepared,
    (reference, writes): (&Arc<Reference>, &[TableWrite]),
    new_keys: &[(GlobalId, Validated)],
) -> Result<(), CommitError> {
    // As the change leaves them: of what is new, or has other columns, all is known; of others, what is stored and written.
    let counts = |table: GlobalId, oid: u32| -> Result<Cow<'_, KeyCounts>, CommitError> {
        let of_table = new_keys.iter().filter(|(of, _)| *of == table).flat_map(|(_, keys)| keys);
        if let Some((_, counts)) = of_table.into_iter().find(|(of, _)| *of == oid) {
            return Ok(Cow::Borrowed(counts));
        }
        let known = current.tables.get(&table).map(|known| &known.constraints);
        let Some((known, key)) = known.and_then(|known| Some((known, known.counted(oid)?))) else {
            return Ok(Cow::Owned(KeyCounts::new()));
        };
        let stored = known.stored_keys(&env.persist, table, &[oid])?;
        let mut counts = stored.into_iter().next().map(|(_, counts)| counts).unwrap_or_default();
        for write in writes.iter().filter(|write| write.table == table) {
            for (bytes, diff) in net_keys(known, key, &write.updates) {
                *counts.entry(bytes.into()).or_default() += diff;
            }
        }
        Ok(Cow::Owned(counts))
    };
    let (referring, there) =
        (counts(reference.child, reference.key.oid)?, counts(reference.parent, reference.parent_key)?);
    let count = |key: &[u8]| there.get(key).copied().unwrap_or(0);
    let is_there = |key: &[u8]| reference.to_parent(key).is_some_and(|key| count(&key) > 0);
    let referring = referring.iter().filter(|(_, count)| **count > 0).map(|(key, _)| key);
    let Some(key) = referring.filter(|key| !is_there(key)).min() else { return Ok(()) };
    let found = Orphan { reference: Arc::clone(reference), key: key.to_vec(), is_new: true };
    let Some(child) = prepared.state.item(reference.child) else { return Ok(()) };
    Err(orphan(&prepared.state, &found, wording(&child, &EncodeOptions::default())))
}

/// Checks what is stored, with what was written over it, against constraints that `after` has and `before` has not.
fn validate_stored(
    env: &Environment,
    before: Option<&Arc<TableConstraints>>,
    after: &TableConstraints,
    item: &ItemRef,
    written: &Updates,
) -> Result<Validated, CommitError> {
    let persist = &env.persist;
    let stored = match before {
        Some(before) if after.demands_more_than(before) => {
            Some(persist.snapshot(item.id.into(), persist.upper().saturating_sub(1))?)
        }
        _ => None,
    };
    let (engine, options) = (&env.engine, EncodeOptions::default());
    validate(engine, before.map(Arc::as_ref), after, stored, written, wording(item, &options))
}

/// Checks rows that were not, or by another definition of their table.
fn check_rows(
    env: &Environment,
    constraints: &TableConstraints,
    item: &ItemRef,
    updates: &Updates,
) -> Result<(), CommitError> {
    let remaining: Cow<'_, Updates> = match only_adds(updates) {
        true => Cow::Borrowed(updates),
        false => Cow::Owned(net_rows(updates).into_iter().filter(|(_, diff)| *diff > 0).collect()),
    };
    let options = EncodeOptions::default();
    constraints.check_rows(&env.engine, &SessionInfo::default(), &remaining, wording(item, &options))
}

/// The committer speaks for no session: it prints values in their standard form.
fn wording<'a>(item: &'a ItemRef, options: &'a EncodeOptions) -> Wording<'a> {
    Wording { table: &item.name, options, shows_rows: &always }
}

fn always() -> bool {
    true
}
