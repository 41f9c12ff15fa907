//! Changes of the catalog: worked out, and carried out.
//!
//! 1. What a change leads to is prepared, from the catalog as it is.
//! 2. It is *worked out*: the rows of a table that gets other columns, whether rows satisfy new constraints, how what is created is
//!    maintained. Where that takes long a thread of its own does it, and the tables are closed meanwhile ([`super::put_off`]).
//! 3. It is carried out: one durable commit, and what follows from it.

use super::admission::{altered, examine};
use super::claims::Stored;
use super::sequences::{self, Closed};
use super::{Committer, revisions, shared_error};
use crate::constraint::Validated;
use crate::environment::Environment;
use crate::error::CommitError;
use crate::expectations::{Tables, contradicted};
use crate::implications;
use crate::materialized;
use crate::plans::{Plans, plan_created};
use crate::published::Published;
use crate::request::{CatalogChange, Committed, DdlRequest, Request, TableWrite, Work, WorkedOut, types_of};
use crate::rewrite::Rewriting;
use catalog::transact::{self, Prepared, StateDiff};
use ore::memory::Reservation;
use persist::{Ahead, PersistClient};
use repr::{GlobalId, Updates};
use sql::plan::{CatalogView, ItemKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

impl Committer {
    /// Carries out a change, or has it worked out first.
    pub(super) fn change_catalog(&mut self, ddl: DdlRequest) {
        let DdlRequest { mut change, reply } = ddl;
        let current = self.env.published.load_full();
        let prepared = match self.prepare(&current, &mut change) {
            Ok(Some(prepared)) => prepared,
            refused => {
                // A session that has gone does not want the answer.
                let _gone = reply.send(refused.map(|_| Committed::Conflict));
                return;
            }
        };
        let closed = closes(&change, &prepared);
        if !is_long(&self.env, &current, &change, &prepared) {
            let work = work_out(&self.env, &current, &mut change, prepared);
            let answer = work.and_then(|work| self.carry_out(&current, change, work));
            self.claims.forget();
            let _gone = reply.send(answer);
            return;
        }
        self.put_off.close(&closed);
        self.put_off.is_changing = true;
        let (env, committer) = (Arc::clone(&self.env), self.env.handle.clone());
        let work = async move {
            let work = ore::thread::survive("change", || work_out(&env, &current, &mut change, prepared));
            let work = work.unwrap_or_else(|| Err(CommitError::internal("a change of the catalog panicked")));
            committer.report(Request::WorkedOut(Box::new(WorkedOut { change, closed, work, reply })));
        };
        self.env.beside.start("change".to_owned(), Box::pin(work));
    }

    /// Carries out a change that was worked out, unless the catalog has become another one meanwhile, and lets those go on who waited.
    pub(super) fn worked_out(&mut self, worked_out: WorkedOut) {
        let WorkedOut { mut change, closed, work, reply } = worked_out;
        let current = self.env.published.load_full();
        let answer = work.and_then(|mut work| {
            if work.revision == current.state.revision() {
                change.prepared = Some(work.prepared);
            }
            // What its transaction has read is looked at again either way.
            let Some(prepared) = self.prepare(&current, &mut change)? else { return Ok(Committed::Conflict) };
            work.prepared = prepared;
            self.carry_out(&current, change, work)
        });
        self.claims.forget();
        self.put_off.open(&closed);
        self.put_off.is_changing = false;
        self.look_again();
        // A session that has gone does not want the answer.
        let _gone = reply.send(answer);
    }

    /// Looks anew at what was put off, before anything that has come since.
    pub(super) fn look_again(&mut self) {
        let mut waiting = self.put_off.take();
        waiting.append(&mut self.again);
        self.again = waiting;
    }

    /// What a change leads to; `None` if it was planned by another catalog, or what its transaction has read has changed.
    fn prepare(&self, current: &Published, change: &mut CatalogChange) -> Result<Option<Prepared>, CommitError> {
        let (now, before) = (current.state.revision(), change.prepared.take());
        if !self.alike.allows(change.revision, now)
            || contradicted(current, &self.recent, &BTreeMap::new(), &change.expectations)
        {
            return Ok(None);
        }
        match before.filter(|_| change.revision == now) {
            Some(prepared) => Ok(Some(prepared)),
            None => Ok(Some(transact::prepare(&self.env.engine, &current.state, change.ops.clone())?)),
        }
    }

    /// Makes a change durable, with what the same transaction wrote; dataflows that are there are fed that as any write, and those that
    /// the change starts find it in what they start from.
    fn carry_out(&mut self, current: &Published, change: CatalogChange, work: Work) -> Result<Committed, CommitError> {
        let Work { prepared, examined, plans, _memory, .. } = work;
        let CatalogChange { ops, mut writes, rewriting, sequences: staged, notes, .. } = change;
        let Some(expired) = self.notes.admit(&self.env.persist, &notes, self.env.clock.now_us())? else {
            return Ok(Committed::Repeated);
        };
        let positions = rewriting.map(|rewriting| sequences::after_rewriting(&rewriting, &prepared));
        let closed = Closed::by(current, &prepared.diff);
        let Some(positions) = closed.positions(&prepared.diff, &staged, positions.unwrap_or_default()) else {
            return Ok(Committed::Conflict);
        };
        let new_keys = match self.admit_change(current, examined, &writes)? {
            Ok(new_keys) => new_keys,
            Err(violation) => return Ok(Committed::Violates(Box::new(violation))),
        };
        let ts = self.write_ts()?;
        let ahead: Vec<Ahead> = writes.iter_mut().filter_map(|write| write.ahead.take()).collect();
        let tables: Vec<_> = writes.into_iter().map(|write| (write.table, vec![write.updates])).collect();
        let known: Tables = tables.iter().filter(|(table, _)| current.tables.contains_key(table)).cloned().collect();
        let fed = match known.is_empty() {
            true => Vec::new(),
            false => self.dataflows.controller.append(ts, self.since(), &known)?,
        };
        let mut meta = prepared.meta;
        let dropped = prepared.diff.iter().filter_map(|change| match change {
            StateDiff::MaterializedViewDropped(id) => Some(materialized::unmark(*id)),
            _ => None,
        });
        meta.extend(dropped);
        meta.extend(positions);
        self.notes.stage(&notes, expired);
        let durable = self.make_durable(ts, &tables, &ahead, meta);
        self.notes.clear();
        if let Err(error) = durable {
            self.start_over(&fed);
            return Err(error.into());
        }
        closed.for_good(&staged);
        self.claims.settle(ts);
        new_keys.into_iter().for_each(|(table, keys)| self.claims.install(table, keys));
        if !known.is_empty() {
            self.show(current, ts, &known);
            self.recent.remember(ts, &known);
            self.await_published(ts, &fed);
        }
        let state = Arc::new(prepared.state);
        let (diff, flows) = (&prepared.diff, &mut self.dataflows);
        let mut published = implications::apply(&self.env, current, state, diff, flows, ts, plans)
            .unwrap_or_else(|error| self.give_up("a change of the catalog is durable and cannot be shown", &error));
        published.successors.extend(prepared.rewritten);
        for change in &prepared.diff {
            if let StateDiff::TableAltered(id) | StateDiff::TableDropped(id) = change {
                self.claims.retain(*id, published.tables.get(id).map(|table| table.constraints.as_ref()));
            }
        }
        let are_temporary = revisions::are_temporary(&ops);
        self.alike.changed(current.state.revision(), published.state.revision(), are_temporary);
        self.env.published.store(Arc::new(published));
        let gone = prepared.diff.iter().filter_map(|change| match change {
            StateDiff::TableDropped(id)
            | StateDiff::ViewDropped(id)
            | StateDiff::ViewReplaced(id)
            | StateDiff::MaterializedViewDropped(id) => Some(*id),
            _ => None,
        });
        self.end_subscriptions(&gone.collect::<Vec<_>>());
        if known.is_empty() {
            self.go_on(ts).unwrap_or_else(|error| self.give_up("time cannot go on", &error));
        }
        self.raise(ts)?;
        Ok(Committed::At)
    }

    /// Whether keys have to be read before a request can be served, which begins then.
    pub(super) fn closes_to_load(&mut self, request: &Request) -> bool {
        let published = self.env.published.load();
        let stored = Stored::of(&self.env, &published);
        let mut is_closed = false;
        for id in with_related(&published, request) {
            let Some(table) = published.tables.get(&id) else { continue };
            if self.put_off.is_closed(id) {
                is_closed = true;
                continue;
            }
            let unknown = self.claims.unknown(stored, id, &table.constraints);
            if unknown.is_empty() || update_count(&self.env, id) <= self.env.long_updates {
                continue;
            }
            is_closed = true;
            self.put_off.close(&[id]);
            let (env, committer) = (Arc::clone(&self.env), self.env.handle.clone());
            let constraints = Arc::clone(&table.constraints);
            let load = async move {
                let read = ore::thread::survive("keys", || constraints.stored_keys(&env.persist, id, &unknown));
                let keys = read.unwrap_or_else(|| Err(CommitError::internal("reading the keys of a table panicked")));
                committer.report(Request::Loaded { table: id, keys });
            };
            self.env.beside.start(format!("keys-{id}"), Box::pin(load));
        }
        is_closed
    }

    /// Takes over the keys of a table that were read while nobody wrote to it.
    pub(super) fn loaded(&mut self, table: GlobalId, keys: Result<Validated, CommitError>) {
        self.put_off.open(&[table]);
        self.look_again();
        let published = self.env.published.load_full();
        // Of a table that has gone meanwhile there was nothing to read; who waits finds that out.
        let Some(known) = published.tables.get(&table) else { return };
        match keys {
            Ok(mut keys) => {
                let unknown = self.claims.unknown(Stored::of(&self.env, &published), table, &known.constraints);
                keys.retain(|(oid, _)| unknown.contains(oid));
                self.claims.install(table, keys);
            }
            Err(error) => {
                tracing::error!(%table, %error, "the keys of a table cannot be read");
                let error = Arc::new(error);
                let waits = |request: &Request| with_related(&published, request).any(|id| id == table);
                let (failed, again): (VecDeque<_>, _) = std::mem::take(&mut self.again).into_iter().partition(waits);
                self.again = again;
                failed.into_iter().for_each(|request| request.fail(shared_error(&error)));
            }
        }
    }
}

/// The tables that a request writes to or asks for, and those whose keys have to be known for that.
pub(super) fn with_related<'r>(published: &'r Published, request: &'r Request) -> impl Iterator<Item = GlobalId> + 'r {
    let known = request.tables().filter_map(|id| published.tables.get(&id));
    request.tables().chain(known.flat_map(|table| table.constraints.related()))
}

/// The tables of which a change may read all rows.
fn read_whole(change: &CatalogChange, prepared: &Prepared) -> BTreeSet<GlobalId> {
    altered(prepared).chain(change.rewriting.as_ref().map(|rewriting| rewriting.table)).collect()
}

/// The tables that nobody may write to while a change is worked out: those that it reads, and those that its transaction has read or
/// written.
fn closes(change: &CatalogChange, prepared: &Prepared) -> Vec<GlobalId> {
    let mut closes = read_whole(change, prepared);
    closes.extend(change.writes.iter().map(|write| write.table));
    closes.extend(change.expectations.iter().map(|expected| expected.table));
    closes.into_iter().collect()
}

/// Whether a change may take long to work out: it is about many rows, or plans are to be made.
fn is_long(env: &Environment, current: &Published, change: &CatalogChange, prepared: &Prepared) -> bool {
    let stored: u64 = read_whole(change, prepared).into_iter().map(|table| update_count(env, table)).sum();
    let new = change.writes.iter().filter(|write| !current.tables.contains_key(&write.table));
    let written: usize = new.map(|write| write.updates.len()).sum();
    !are_planned(prepared, &change.plans) || stored + written as u64 > env.long_updates
}

/// Whether it is known how all is maintained that a change creates, or is found out in a moment: a key's index has columns of a table.
fn are_planned(prepared: &Prepared, plans: &Plans) -> bool {
    let is_of_key = |id: GlobalId| {
        let item = prepared.state.item(id);
        item.is_some_and(|item| matches!(&item.kind, ItemKind::Index(index) if index.constraint.is_some()))
    };
    prepared.diff.iter().all(|it| match it {
        StateDiff::IndexCreated(id) => plans.contains_key(id) || is_of_key(*id),
        StateDiff::MaterializedViewCreated(id) => plans.contains_key(id),
        _ => true,
    })
}

fn update_count(env: &Environment, table: GlobalId) -> u64 {
    env.persist.shard_stats(table.into()).map_or(0, |stats| stats.update_count)
}

/// Step 2.
fn work_out(
    env: &Environment,
    current: &Published,
    change: &mut CatalogChange,
    prepared: Prepared,
) -> Result<Work, CommitError> {
    let mut memory = Reservation::empty(&env.memory);
    if let Some(rewriting) = &change.rewriting {
        change.writes.extend(rewritten(env, rewriting, &prepared, &mut memory)?);
    }
    let examined = examine(env, current, &prepared, &change.writes)?;
    let mut plans = std::mem::take(&mut change.plans);
    if !are_planned(&prepared, &plans) {
        plans = plan_created(&env.engine, &prepared).map_err(|(_, why)| why)?;
    }
    Ok(Work { revision: current.state.revision(), prepared, examined, plans, _memory: memory })
}

/// The rows of a table under its new id, made of all that are stored under the old one.
fn rewritten(
    env: &Environment,
    rewriting: &Rewriting,
    prepared: &Prepared,
    memory: &mut Reservation,
) -> Result<Option<TableWrite>, CommitError> {
    let persist = &env.persist;
    let stored = persist.snapshot(rewriting.table.into(), persist.upper().saturating_sub(1))?;
    let updates = Arc::new(rewriting.rows(Some(stored), &Updates::new(), memory)?);
    let table = prepared.rewritten.get(&rewriting.table).copied();
    let Some(table) = table.filter(|_| !updates.is_empty()) else { return Ok(None) };
    let types = prepared.state.item(table).map(|item| types_of(&item.desc));
    let ahead = match PersistClient::is_large(&updates) {
        true => Some(persist.write_ahead(table.into(), types.as_deref(), Arc::clone(&updates))?),
        false => None,
    };
    Ok(Some(TableWrite { table, updates, checked: None, types, ahead, keys: None }))
}
