//! The transaction of a session.
//!
//! Reads of a transaction are all at the timestamp of its first one, held for as long as it lasts; its writes are kept back
//! and laid over what it reads. COMMIT hands them to the committer as one write, on the condition that nothing the
//! transaction has read has changed since, else 40001. Who writes what another transaction has written waits for that
//! (`writing/locking.rs`), and goes on at a later time: a transaction is *refreshed* to it, if what it has read is the same there.
//! A statement of its own (autocommit) needs none of this. At READ COMMITTED nothing is held and nothing remembered but writes and locks.
//!
//! DDL in a block is kept back as well. From then on the transaction plans by, and reads, the catalog that its changes lead
//! to ([`Staged`]); COMMIT carries them out together with its writes, in one durable step, on the condition that nobody else
//! has changed the catalog.
//!
//! A savepoint is how far the transaction has come: writes are only ever added, so going back is cutting them off. What they do
//! to the keys of a table is made from what remains of them.
//!
//! Three lifetimes share this state: a block (BEGIN … COMMIT), the implicit transaction over the statements of one simple
//! query, and that over the messages up to a Sync.

use crate::error::AdapterError;
use crate::locks::{OfTransaction, Owner};
use crate::reads::Reads;
use crate::shared::Shared;
use crate::status::Status;
use bugs::Bug;
use catalog::transact::{Op, Prepared};
use committer::constraint::{CountedKey, NetKeys, Reference, TableConstraints, net_keys};
use committer::error::CommitError;
use committer::expectations::Expectation;
use committer::notes::Notes;
use committer::published::Published;
use committer::request::{CatalogChange, Committed, TableWrite};
use compute_client::plan::IndexInfo;
use compute_client::read_hold::ReadHold;
use compute_client::uncommitted::{Layer, Uncommitted};
use engine::error::SqlError;
use engine::session::TransactionNumber;
use ore::memory::{Reservation, Share};
use parking_lot::Mutex;
use persist::PersistError;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use sql::vars::SessionVars;
use sql_syntax::ast::Deferral;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

/// How often what reads and writes is tried again because another has written between the two.
pub(crate) const RETRIES_MAX: usize = 1_000;

/// What a lock takes of the memory, more or less.
const LOCK_BYTES: usize = 256;

/// What a transaction has done so far.
pub(crate) struct Transaction {
    pub(crate) status: Status,
    hold: Option<ReadHold>,
    reads: Reads,
    /// At READ COMMITTED: the rows that it has removed, as they were read, and a hold on the earliest of the times when that was. They are
    /// locked, so they do not change; what does not lock may have changed them all the same.
    removed: Vec<Expectation>,
    removed_hold: Option<ReadHold>,
    writes: BTreeMap<GlobalId, Updates>,
    /// The memory of its writes.
    kept: Option<Reservation>,
    /// By what definition of a table the rows written to it were checked; `None` if by several.
    checked: BTreeMap<GlobalId, Option<Arc<TableConstraints>>>,
    /// By table and constraint: what its writes do to the keys. Made from them when first asked for.
    own_keys: HashMap<(GlobalId, u32), NetKeys>,
    /// By index: its writes to the index's table, arranged as the index is. Likewise.
    arranged: BTreeMap<GlobalId, Uncommitted>,
    staged: Option<Staged>,
    savepoints: Vec<Savepoint>,
    deferred: Deferred,
    /// What its commit leaves beside the rows, and requires; and whether no statement may end it.
    pub(crate) notes: Notes,
    pub(crate) is_once: bool,
    /// Outside of a block: whether its statements read at one time, also the first.
    pub(crate) is_together: bool,
    /// The start of the transaction, for `now()`; microseconds since the epoch.
    pub(crate) started_us: Option<i64>,
    /// For `txid_current()`; made when a statement may ask for it.
    number: OnceLock<TransactionNumber>,
    /// Who takes its locks; made when a statement may.
    locks: Mutex<Option<OfTransaction>>,
}

/// Changes of the catalog that COMMIT carries out.
#[derive(Clone)]
struct Staged {
    /// The revision of the catalog from which they start.
    base: u64,
    ops: Vec<Op>,
    /// The catalog that they lead to.
    published: Arc<Published>,
}

/// What SET CONSTRAINTS has said of foreign keys.
#[derive(Clone, Default)]
struct Deferred {
    /// Of all.
    all: Option<bool>,
    /// Of some since, by oid.
    some: BTreeMap<u32, bool>,
}

/// How far a transaction had come.
struct Savepoint {
    name: String,
    /// How many updates each table had.
    written: BTreeMap<GlobalId, usize>,
    staged: Option<Staged>,
    /// How many locks there were, and rows removed of which that is remembered.
    locks: usize,
    removed: usize,
    deferred: Deferred,
    vars: SessionVars,
}

impl Transaction {
    pub(crate) fn new() -> Transaction {
        Transaction {
            status: Status::Idle,
            hold: None,
            reads: Reads::default(),
            removed: Vec::new(),
            removed_hold: None,
            writes: BTreeMap::new(),
            kept: None,
            checked: BTreeMap::new(),
            own_keys: HashMap::new(),
            arranged: BTreeMap::new(),
            staged: None,
            savepoints: Vec::new(),
            deferred: Deferred::default(),
            notes: Notes::default(),
            is_once: false,
            is_together: false,
            started_us: None,
            number: OnceLock::new(),
            locks: Mutex::default(),
        }
    }

    /// Who takes its locks, of this session.
    pub(crate) fn locks(&self, session: &Owner) -> Arc<Owner> {
        Arc::clone(&self.locks.lock().get_or_insert_with(|| OfTransaction(session.another())).0)
    }

    /// Gives up its locks.
    pub(crate) fn unlock(&self) {
        self.locks.lock().take();
    }

    /// Its number, which is given if a statement asks for it.
    pub(crate) fn number(&self, shared: &Shared) -> TransactionNumber {
        self.number.get_or_init(|| TransactionNumber::new(Arc::clone(&shared.transaction_numbers))).clone()
    }

    /// Outside of a block a transaction begins with a query or after a Sync, even if the one before has left nothing.
    pub(crate) fn begin_implicit(&mut self) {
        if self.status == Status::Idle {
            self.number.take();
            self.is_together = false;
        }
    }

    /// Whether it has neither read nor written.
    pub(crate) fn is_fresh(&self) -> bool {
        self.hold.is_none() && self.writes.is_empty() && self.staged.is_none() && self.notes.is_empty()
    }

    /// Whether the time at which it reads is chosen.
    pub(crate) fn has_read(&self) -> bool {
        self.hold.is_some()
    }

    /// The catalog as it will be if the transaction commits, if it changes it.
    pub(crate) fn staged(&self) -> Option<&Arc<Published>> {
        self.staged.as_ref().map(|staged| &staged.published)
    }

    /// Keeps a change of the catalog, which was tried out on `before`, back until COMMIT.
    pub(crate) fn change_catalog(
        &mut self,
        shared: &Shared,
        before: &Published,
        op: Op,
        prepared: Prepared,
    ) -> Result<(), AdapterError> {
        let published = Arc::new(before.staged(&shared.engine, prepared, shared.next_staged())?);
        let (base, mut ops) = match self.staged.take() {
            Some(staged) => (staged.base, staged.ops),
            None => (before.state.revision(), Vec::new()),
        };
        ops.push(op);
        self.staged = Some(Staged { base, ops, published });
        Ok(())
    }

    /// The timestamp of its reads, if it is chosen.
    pub(crate) fn held_ts(&self) -> Option<Timestamp> {
        self.hold.as_ref().map(ReadHold::ts)
    }

    /// The timestamp of its reads, chosen and held with the first.
    pub(crate) fn read_ts(&mut self, shared: &Shared, now: Timestamp) -> Timestamp {
        if let Some(ts) = self.held_ts() {
            return ts;
        }
        let hold = shared.holds.acquire(now);
        let ts = hold.ts();
        self.hold = Some(hold);
        ts
    }

    /// Notes rows that were read and are to be removed, of a transaction that does not hold its time.
    pub(crate) fn note_removed(&mut self, shared: &Shared, removed: Expectation) {
        let read_ts = removed.read_ts;
        self.removed_hold.get_or_insert_with(|| shared.holds.acquire(read_ts));
        self.removed.push(removed);
    }

    /// What it has read, which must not change until a write of it commits.
    pub(crate) fn reads(&mut self) -> &mut Reads {
        &mut self.reads
    }

    /// Moves the time of its reads to `now` if nothing that it has read has changed by then; whether that is so.
    ///
    /// # Cancellation
    /// Safe to drop at any await: the time stays, or has moved.
    pub(crate) async fn refresh(&mut self, shared: &Shared, now: Timestamp) -> Result<bool, AdapterError> {
        let Some(held) = self.held_ts().filter(|held| *held < now) else { return Ok(true) };
        // Acquired before what is read is looked at: the hold before it still keeps what was there.
        let hold = shared.holds.acquire(now);
        let is_unchanged =
            bugs::is(Bug::RefreshSkipped) || self.reads.are_unchanged(&shared.published.load_full(), held, now).await?;
        if is_unchanged {
            self.hold = Some(hold);
        }
        Ok(is_unchanged)
    }

    /// Asks for the memory of writes that are about to be kept back. Error 53200.
    pub(crate) fn reserve<'u>(
        &mut self,
        memory: &Arc<Share>,
        updates: impl Iterator<Item = &'u Updates>,
    ) -> Result<(), AdapterError> {
        let locks = self.locks.lock().as_ref().map_or(0, |owner| owner.0.count() * LOCK_BYTES);
        let written =
            self.writes.values().map(Updates::memory).sum::<usize>() + updates.map(Updates::memory).sum::<usize>();
        let bytes = written + locks + self.reads.memory();
        let kept = self.kept.get_or_insert_with(|| Reservation::empty(memory));
        Ok(kept.cover(bytes).map_err(SqlError::from)?)
    }

    /// Keeps writes back until COMMIT. Their rows were checked by this definition of the table, and what they do to its keys was
    /// added to [`Transaction::own_keys`].
    pub(crate) fn write(&mut self, table: GlobalId, updates: &Updates, checked: &Arc<TableConstraints>) {
        self.writes.entry(table).or_default().extend(updates);
        let before = self.checked.entry(table).or_insert_with(|| Some(Arc::clone(checked)));
        if !before.as_ref().is_some_and(|before| Arc::ptr_eq(before, checked)) {
            *before = None;
        }
    }

    /// What it has written to a table.
    pub(crate) fn written_to(&self, table: GlobalId) -> Option<&Updates> {
        self.writes.get(&table)
    }

    /// What its writes do to the keys of a table's constraint.
    pub(crate) fn own_keys(
        &mut self,
        table: GlobalId,
        constraints: &TableConstraints,
        key: &CountedKey,
    ) -> &mut NetKeys {
        let writes = &self.writes;
        let keys = || writes.get(&table).map(|updates| net_keys(constraints, key, updates)).unwrap_or_default();
        self.own_keys.entry((table, key.oid)).or_insert_with(keys)
    }

    /// Forgets what was added to [`Transaction::own_keys`] of a table and not written.
    pub(crate) fn unclaim(&mut self, table: GlobalId) {
        self.own_keys.retain(|(of, _), _| *of != table);
    }

    /// The tables that it has written to.
    pub(crate) fn written(&self) -> impl Iterator<Item = &GlobalId> {
        self.writes.keys()
    }

    /// Its own writes, for its own reads.
    pub(crate) fn overlay(&self) -> HashMap<GlobalId, Arc<Updates>> {
        self.writes.iter().map(|(table, updates)| (*table, Arc::new(updates.clone()))).collect()
    }

    /// Its own writes to the table of an index, to be laid over that; `None` if the index cannot have them.
    pub(crate) fn layer(&mut self, table: GlobalId, index: &IndexInfo) -> Option<Layer> {
        self.arranged.retain(|id, arranged| *id != index.handle.id || arranged.is_of(index));
        let arranged = match self.arranged.entry(index.handle.id) {
            Entry::Occupied(arranged) => arranged.into_mut(),
            Entry::Vacant(place) => place.insert(Uncommitted::of(index)?),
        };
        self.writes.get(&table).into_iter().for_each(|updates| arranged.cover(updates));
        Some(arranged.layer())
    }

    /// SET CONSTRAINTS, by oids or ALL.
    pub(crate) fn defer(&mut self, constraints: Option<&[u32]>, to: Deferral) {
        let is_deferred = to == Deferral::Deferred;
        match constraints {
            None => self.deferred = Deferred { all: Some(is_deferred), some: BTreeMap::new() },
            Some(oids) => self.deferred.some.extend(oids.iter().map(|oid| (*oid, is_deferred))),
        }
    }

    /// Whether a foreign key is checked by COMMIT.
    pub(crate) fn is_deferred(&self, reference: &Reference) -> bool {
        let said = self.deferred.some.get(&reference.key.oid).copied().or(self.deferred.all);
        match reference.foreign.deferral {
            Deferral::Never => false,
            Deferral::Immediate => said.unwrap_or(false),
            Deferral::Deferred => said.unwrap_or(true),
        }
    }

    /// How many savepoints there are.
    pub(crate) fn savepoint_count(&self) -> usize {
        self.savepoints.len()
    }

    /// SAVEPOINT.
    pub(crate) fn save(&mut self, name: &str, vars: &SessionVars) {
        let written = self.writes.iter().map(|(table, updates)| (*table, updates.len())).collect();
        let (name, staged, vars) = (name.to_owned(), self.staged.clone(), vars.clone());
        let locks = self.locks.lock().as_ref().map_or(0, |owner| owner.0.count());
        let removed = self.removed.len();
        let deferred = self.deferred.clone();
        self.savepoints.push(Savepoint { name, written, staged, locks, removed, deferred, vars });
    }

    /// The place of the latest savepoint of this name, counted from the first. Error 3B001.
    pub(crate) fn savepoint(&self, name: &str) -> Result<usize, AdapterError> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            AdapterError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, format!("savepoint \"{name}\" does not exist"))
        })
    }

    /// Forgets this savepoint and those after it.
    pub(crate) fn release(&mut self, at: usize) {
        self.savepoints.truncate(at);
    }

    /// A statement has failed: what it and those since the last savepoint have locked is free.
    pub(crate) fn fail(&mut self) {
        self.status = Status::Failed;
        self.unlock_after(self.savepoints.last().map_or(0, |savepoint| savepoint.locks));
    }

    fn unlock_after(&self, count: usize) {
        if let Some(owner) = self.locks.lock().as_ref() {
            owner.0.go_back(count);
        }
    }

    /// Undoes what came after this savepoint, which stays; returns what the settings were. What was read has been read.
    pub(crate) fn go_back(&mut self, at: usize) -> &SessionVars {
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        self.writes.retain(|table, updates| {
            let written = savepoint.written.get(table);
            updates.truncate(written.copied().unwrap_or(0));
            written.is_some()
        });
        if let Some(kept) = &mut self.kept {
            kept.resize(self.writes.values().map(Updates::memory).sum());
        }
        self.own_keys.clear();
        self.arranged.clear();
        self.removed.truncate(savepoint.removed);
        self.deferred.clone_from(&savepoint.deferred);
        self.staged.clone_from(&savepoint.staged);
        self.unlock_after(savepoint.locks);
        self.status = Status::InBlock;
        &savepoint.vars
    }

    /// Makes its writes durable and visible. Error 40001 if what it read has changed.
    pub(crate) async fn commit(&mut self, shared: &Shared) -> Result<Committed, AdapterError> {
        let mut transaction = std::mem::replace(self, Transaction::new());
        if transaction.writes.is_empty() && transaction.staged.is_none() && transaction.notes.is_empty() {
            return Ok(Committed::At);
        }
        let mut checked = std::mem::take(&mut transaction.checked);
        let writes = std::mem::take(&mut transaction.writes).into_iter();
        let writes = writes.map(|(table, updates)| TableWrite::new(table, updates, checked.remove(&table).flatten()));
        let writes: Vec<TableWrite> = writes.collect();
        if let Some(staged) = transaction.staged.take() {
            return transaction.commit_catalog(shared, staged, writes).await;
        }
        if bugs::is(Bug::UnlockedBeforeDurable) {
            transaction.unlock();
        }
        for _ in 0..RETRIES_MAX {
            let mut again: Vec<TableWrite> = writes.iter().map(TableWrite::again).collect();
            shared.look_up_keys(&mut again).await?;
            let (expectations, notes) = (transaction.expectations(), transaction.notes.clone());
            match shared.committer.commit_noted(again, expectations, notes).await? {
                Committed::Conflict => {}
                Committed::Repeated => return Err(repeated()),
                committed => return Ok(committed),
            }
            let published = shared.published.load_full();
            let is_there = writes.iter().all(|write| published.tables.contains_key(&write.table));
            if !is_there || !transaction.renew(shared).await? {
                break;
            }
        }
        Err(conflict())
    }

    /// Whether all that it expects is so after all, at a later time, as of which it is expected from here on. The committer
    /// remembers the latest writes only: what it takes for changed may not be.
    async fn renew(&mut self, shared: &Shared) -> Result<bool, AdapterError> {
        let now = shared.read_ts().await?;
        let is_later = self.held_ts().is_some_and(|held| held < now) || !self.removed.is_empty();
        Ok(is_later && self.refresh(shared, now).await? && self.renew_removed(shared, now).await?)
    }

    fn expectations(&self) -> Vec<Expectation> {
        let mut expectations = self.hold.as_ref().map_or_else(Vec::new, |hold| self.reads.expectations(hold.ts()));
        expectations.extend(self.removed.iter().cloned());
        expectations
    }

    /// Looks whether rows that it has removed are as they were read, in all that has been written since; if so, that is known as of `now`.
    async fn renew_removed(&mut self, shared: &Shared, now: Timestamp) -> Result<bool, AdapterError> {
        if self.removed.is_empty() {
            return Ok(true);
        }
        let (removed, persist) = (self.removed.clone(), shared.persist.clone());
        let until = now.min(persist.upper().saturating_sub(1));
        let look = ore::task::spawn_on(&shared.adhoc, "renew", async move {
            for Expectation { table, read_ts, rows } in &removed {
                let changes = persist.changes((*table).into(), *read_ts, until.max(*read_ts))?;
                if changes.values().any(|updates| rows.as_ref().is_none_or(|rows| rows.is_touched(updates))) {
                    return Ok(false);
                }
            }
            Ok::<bool, PersistError>(true)
        });
        let is_unchanged = look.await.map_err(|error| AdapterError::internal(error.to_string()))?;
        if is_unchanged.map_err(CommitError::from)? {
            self.removed.iter_mut().for_each(|removed| removed.read_ts = removed.read_ts.max(until));
            return Ok(true);
        }
        Ok(false)
    }

    /// The same of a transaction that has changed the catalog.
    async fn commit_catalog(
        &self,
        shared: &Shared,
        staged: Staged,
        writes: Vec<TableWrite>,
    ) -> Result<Committed, AdapterError> {
        let Staged { base, ops, published } = staged;
        // Nobody else knows what is new, and nobody will know what has gone.
        let mut expectations = self.expectations();
        expectations.retain(|expected| !published.created.contains(&expected.table));
        let writes = writes.into_iter().filter(|write| published.tables.contains_key(&write.table)).collect();
        let sequences = published.sequences.values().filter(|sequence| sequence.is_staged()).cloned().collect();
        let notes = self.notes.clone();
        let change = CatalogChange { writes, expectations, sequences, notes, ..CatalogChange::new(base, ops) };
        match shared.committer.change_catalog(change).await? {
            Committed::Conflict => Err(conflict()),
            Committed::Repeated => Err(repeated()),
            committed => Ok(committed),
        }
    }
}

/// 40001: what was to be done once was done meanwhile.
pub(crate) fn repeated() -> AdapterError {
    AdapterError::new(SqlState::SERIALIZATION_FAILURE, "what is carried out once was carried out meanwhile")
}

/// 40001.
pub(crate) fn conflict() -> AdapterError {
    AdapterError::with_hint(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access due to concurrent update",
        "The transaction might succeed if retried.",
    )
}
