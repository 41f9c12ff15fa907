//! The transaction of a session.
//!
//! Reads of a transaction are all at the timestamp of its first one, held for as long as it lasts; its writes are kept back
//! and laid over what it reads. COMMIT hands them to the committer as one write, on the condition that nothing the
//! transaction has read was written since: optimistic, so no statement ever waits for another's transaction, and what
//! cannot be serialized gets 40001. A statement of its own (autocommit) needs none of this.
//!
//! DDL in a block is carried out by COMMIT as well. It must be all that the block does, because the statements after it could
//! not see what it changes.
//!
//! Three lifetimes share this state: a block (BEGIN … COMMIT), the implicit transaction over the statements of one simple
//! query, and that over the messages up to a Sync.

use crate::client::Shared;
use crate::error::AdapterError;
use crate::group_commit::{Committed, Expectation};
use catalog::transact::Op;
use compute_client::read_hold::ReadHold;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Outside any block.
    Idle,
    /// In a block.
    InBlock,
    /// In a block that has failed: only its end is accepted.
    Failed,
}

/// What a transaction has done so far.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) status: Status,
    hold: Option<ReadHold>,
    reads: BTreeSet<GlobalId>,
    writes: BTreeMap<GlobalId, Updates>,
    /// Changes of the catalog that COMMIT carries out, and the revision they were planned under.
    ddl: Option<(u64, Vec<Op>)>,
    /// The start of the transaction, for `now()`; microseconds since the epoch.
    pub(crate) started_us: Option<i64>,
}

impl Transaction {
    pub(crate) fn new() -> Transaction {
        Transaction {
            status: Status::Idle,
            hold: None,
            reads: BTreeSet::new(),
            writes: BTreeMap::new(),
            ddl: None,
            started_us: None,
        }
    }

    /// Whether it has neither read nor written.
    pub(crate) fn is_fresh(&self) -> bool {
        self.hold.is_none() && self.writes.is_empty() && self.ddl.is_none()
    }

    /// Whether the time at which it reads is chosen.
    pub(crate) fn has_read(&self) -> bool {
        self.hold.is_some()
    }

    /// Whether it will change the catalog.
    pub(crate) fn has_ddl(&self) -> bool {
        self.ddl.is_some()
    }

    /// Keeps a change of the catalog back until COMMIT.
    pub(crate) fn change_catalog(&mut self, revision: u64, op: Op) {
        self.ddl.get_or_insert_with(|| (revision, Vec::new())).1.push(op);
    }

    /// The changes of the catalog so far.
    pub(crate) fn catalog_changes(&self) -> &[Op] {
        self.ddl.as_ref().map_or(&[], |(_, ops)| ops)
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

    /// Notes what was read, which must not change until a write of this transaction commits.
    pub(crate) fn note_reads(&mut self, collections: impl IntoIterator<Item = GlobalId>) {
        self.reads.extend(collections);
    }

    /// Keeps writes back until COMMIT.
    pub(crate) fn write(&mut self, table: GlobalId, updates: &Updates) {
        self.writes.entry(table).or_default().extend(updates);
    }

    /// The tables that it has written to.
    pub(crate) fn written(&self) -> impl Iterator<Item = &GlobalId> {
        self.writes.keys()
    }

    /// Its own writes, for its own reads.
    pub(crate) fn overlay(&self) -> HashMap<GlobalId, Arc<Updates>> {
        self.writes.iter().map(|(table, updates)| (*table, Arc::new(updates.clone()))).collect()
    }

    /// Makes its writes durable and visible. Error 40001 if what it read has changed.
    pub(crate) async fn commit(&mut self, shared: &Shared) -> Result<(), AdapterError> {
        let transaction = std::mem::replace(self, Transaction::new());
        if let Some((revision, ops)) = transaction.ddl {
            return if shared.change_catalog(revision, ops).await? { Ok(()) } else { Err(conflict()) };
        }
        if transaction.writes.is_empty() {
            return Ok(());
        }
        let expectations = match &transaction.hold {
            Some(hold) => transaction
                .reads
                .iter()
                .filter(|id| matches!(id, GlobalId::User(_)))
                .map(|table| Expectation { table: *table, read_ts: hold.ts(), rows: None })
                .collect(),
            None => Vec::new(),
        };
        let writes = transaction.writes.into_iter().map(|(table, updates)| (table, Arc::new(updates))).collect();
        match shared.commit(writes, expectations).await? {
            Committed::At => Ok(()),
            Committed::Conflict => Err(conflict()),
        }
    }
}

/// 40001.
pub(crate) fn conflict() -> AdapterError {
    AdapterError::with_hint(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access due to concurrent update",
        "The transaction might succeed if retried.",
    )
}
