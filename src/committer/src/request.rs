//! What the committer is asked for, and how a session asks.

use super::Expectation;
use super::ddl::WorkedOut;
use crate::client::Shared;
use crate::constraint::{Duplicate, TableConstraints, Validated};
use crate::error::AdapterError;
use crate::implications::Plans;
use crate::rewrite::Rewriting;
use crate::sequence::{Asked, Reply, Sequence};
use crate::subscribe::SubscribeRequest;
use catalog::transact::{Op, Prepared};
use compute_client::index::IndexHandle;
use ore::task::spawn_apart;
use persist::{Ahead, PersistClient};
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use sql::plan::sequence::Position;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What the committer is asked for.
pub(crate) enum Request {
    /// Commit writes to tables.
    Write(WriteRequest),
    /// Change the catalog.
    Ddl(Box<DdlRequest>),
    /// Say which keys are taken.
    Probe(ProbeRequest),
    /// Reserve values of a sequence.
    Reserve(Asked),
    /// Let a sequence stand elsewhere.
    SetSequence {
        /// Which.
        sequence: Arc<Sequence>,
        /// Where.
        to: Position,
        /// Where the answer goes; also if another one has taken its place, and nothing was done.
        reply: Reply,
    },
    /// A materialized view that was not waited for has published, or a subscription has ended.
    Progress,
    /// Build anew what was stopped for want of memory.
    Rebuild(Vec<GlobalId>, oneshot::Sender<Result<(), AdapterError>>),
    /// Start what a SUBSCRIBE follows.
    Subscribe(Box<SubscribeRequest>),
    /// Let time come to this, or now if that is later.
    Tick(Timestamp, oneshot::Sender<Result<(), AdapterError>>),
    /// The keys of a table were read, or cannot be.
    Loaded {
        /// The table, which was closed meanwhile.
        table: GlobalId,
        /// Those of its constraints of which they were not known.
        keys: Result<Validated, AdapterError>,
    },
    /// A change of the catalog was worked out, or cannot be.
    WorkedOut(Box<WorkedOut>),
    /// A materialized view's shard was compared with its first contents.
    Compared {
        /// The view, as it was when it had its first contents.
        view: Arc<IndexHandle>,
        /// What its shard lacks.
        correction: Option<Updates>,
    },
    /// End.
    Stop,
}

impl Request {
    /// The tables that it writes to, or whose keys it asks for.
    pub(super) fn tables(&self) -> impl Iterator<Item = GlobalId> {
        let writes: &[TableWrite] = match self {
            Request::Write(write) => &write.writes,
            Request::Ddl(ddl) => &ddl.change.writes,
            _ => &[],
        };
        let other = match self {
            Request::Probe(probe) => Some(probe.table),
            Request::Ddl(ddl) => ddl.change.rewriting.as_ref().map(|rewriting| rewriting.table),
            _ => None,
        };
        writes.iter().map(|write| write.table).chain(other)
    }

    /// Whether what was written before may as well be committed after it.
    pub(super) fn is_apart(&self) -> bool {
        matches!(
            self,
            Request::Probe(_)
                | Request::Reserve(_)
                | Request::Progress
                | Request::Subscribe(_)
                | Request::Tick(..)
                | Request::Compared { .. }
                | Request::Loaded { .. }
        )
    }

    /// Answers it with an error.
    pub(super) fn fail(self, error: AdapterError) {
        // A session that has gone does not want the answer.
        match self {
            Request::Write(write) => drop(write.reply.send(Err(error))),
            Request::Probe(probe) => drop(probe.reply.send(Err(error))),
            Request::Ddl(ddl) => drop(ddl.reply.send(Err(error))),
            _ => {}
        }
    }
}

/// Writes of one statement or transaction.
pub(crate) struct WriteRequest {
    /// Each table once.
    pub(crate) writes: Vec<TableWrite>,
    /// What was read to make them.
    pub(crate) expectations: Vec<Expectation>,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Committed, AdapterError>>,
}

/// Updates of one table.
pub(crate) struct TableWrite {
    /// The table.
    pub(crate) table: GlobalId,
    /// The updates.
    pub(crate) updates: Arc<Updates>,
    /// By what definition of the table their rows were checked; `None` if by several.
    pub(crate) checked: Option<Arc<TableConstraints>>,
    /// What was written of them already, if they are many.
    pub(crate) ahead: Option<Ahead>,
}

impl TableWrite {
    /// Updates of which nothing is written yet.
    pub(crate) fn new(table: GlobalId, updates: Updates, checked: Option<Arc<TableConstraints>>) -> TableWrite {
        TableWrite { table, updates: Arc::new(updates), checked, ahead: None }
    }
}

/// What became of a write.
#[derive(Clone, Debug)]
pub(crate) enum Committed {
    /// It is durable and visible.
    At,
    /// Something that it read has changed: read again.
    Conflict,
    /// It would give a table a key twice.
    Duplicate(Box<Duplicate>),
}

/// A question for the keys of a table that are taken.
pub(crate) struct ProbeRequest {
    /// The table.
    pub(super) table: GlobalId,
    /// The constraint's oid, and a key.
    pub(super) keys: Vec<(u32, Vec<u8>)>,
    /// Where the answer goes.
    pub(super) reply: oneshot::Sender<Result<Probed, AdapterError>>,
}

/// Which keys are taken, and when that was so.
pub(crate) struct Probed {
    /// As of this time.
    pub(crate) ts: Timestamp,
    /// For each key that was asked for.
    pub(crate) taken: Vec<bool>,
}

/// A catalog change.
pub(crate) struct DdlRequest {
    /// What to do.
    pub(super) change: CatalogChange,
    /// Where the answer goes.
    pub(super) reply: oneshot::Sender<Result<Committed, AdapterError>>,
}

/// Changes of the catalog, and what the same transaction has written: all of it or nothing.
pub(crate) struct CatalogChange {
    /// The revision under which it was planned; under another one it is a conflict.
    pub(crate) revision: u64,
    /// The changes.
    pub(crate) ops: Vec<Op>,
    /// Each table once, also those that the changes create.
    pub(crate) writes: Vec<TableWrite>,
    /// What was read.
    pub(crate) expectations: Vec<Expectation>,
    /// What becomes of the rows of a table that the changes give other columns.
    pub(crate) rewriting: Option<Rewriting>,
    /// Sequences that the same transaction has made or changed, as far as they have come.
    pub(crate) sequences: Vec<Arc<Sequence>>,
    /// What the changes lead to from that revision, if that is known.
    pub(crate) prepared: Option<Prepared>,
    /// How what they create is maintained, as far as that is known.
    pub(crate) plans: Plans,
}

impl CatalogChange {
    /// Changes of nothing else.
    pub(crate) fn new(revision: u64, ops: Vec<Op>) -> CatalogChange {
        let (writes, expectations, sequences) = (Vec::new(), Vec::new(), Vec::new());
        let (rewriting, prepared, plans) = (None, None, Plans::new());
        CatalogChange { revision, ops, writes, expectations, rewriting, sequences, prepared, plans }
    }
}

impl Shared {
    /// Commits writes and waits until they are visible.
    ///
    /// # Cancellation
    /// The write goes on when the future is dropped; only its answer is lost.
    pub(crate) async fn commit(
        &self,
        writes: Vec<TableWrite>,
        expectations: Vec<Expectation>,
    ) -> Result<Committed, AdapterError> {
        let writes = self.write_ahead(writes).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Request::Write(WriteRequest { writes, expectations, reply })).await?;
        answer.await.map_err(|_| stopping())?
    }

    /// Writes what is large before the committer has to, on a thread of its own.
    async fn write_ahead(&self, mut writes: Vec<TableWrite>) -> Result<Vec<TableWrite>, AdapterError> {
        for write in writes.iter_mut().filter(|write| PersistClient::is_large(&write.updates)) {
            let (persist, shard, updates) = (self.persist.clone(), write.table.into(), Arc::clone(&write.updates));
            let writing = spawn_apart(&self.adhoc, "write_ahead", async move { persist.write_ahead(shard, updates) });
            let written =
                writing.await.map_err(|_| AdapterError::internal("what was to be committed was not written"))?;
            write.ahead = Some(written.map_err(|error| AdapterError::Persist(Arc::new(error)))?);
        }
        Ok(writes)
    }

    /// Which of these keys of a table, each of the constraint with the oid beside it, are taken.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn probe(&self, table: GlobalId, keys: Vec<(u32, Vec<u8>)>) -> Result<Probed, AdapterError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Probe(ProbeRequest { table, keys, reply })).await?;
        answer.await.map_err(|_| stopping())?
    }

    /// Changes the catalog.
    ///
    /// # Cancellation
    /// The change goes on when the future is dropped; only its answer is lost.
    pub(crate) async fn change_catalog(&self, change: CatalogChange) -> Result<Committed, AdapterError> {
        let change = CatalogChange { writes: self.write_ahead(change.writes).await?, ..change };
        let (reply, answer) = oneshot::channel();
        self.send(Request::Ddl(Box::new(DdlRequest { change, reply }))).await?;
        answer.await.map_err(|_| stopping())?
    }

    /// Lets the read timestamp come to now, though nothing happened.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn tick(&self) -> Result<(), AdapterError> {
        let now = self.clock.now_us();
        if self.oracle.known_ts() >= now {
            return Ok(());
        }
        self.tick_to(now).await
    }

    /// Waits until the committer is through with what it is at: what has gone from the stores is gone from the catalog then.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn settle(&self) -> Result<(), AdapterError> {
        self.tick_to(Timestamp::MIN).await
    }

    /// Builds anew what was stopped for want of memory.
    ///
    /// # Cancellation
    /// It goes on when the future is dropped.
    pub(crate) async fn rebuild(&self, stopped: Vec<GlobalId>) -> Result<(), AdapterError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Rebuild(stopped, reply)).await?;
        answer.await.map_err(|_| stopping())?
    }

    async fn tick_to(&self, at_least: Timestamp) -> Result<(), AdapterError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Tick(at_least, reply)).await?;
        answer.await.map_err(|_| stopping())?
    }

    pub(crate) async fn send(&self, request: Request) -> Result<(), AdapterError> {
        let mut request = request;
        loop {
            match self.commits.try_send(request) {
                Ok(()) => return Ok(()),
                Err(crossbeam_channel::TrySendError::Disconnected(_)) => return Err(stopping()),
                Err(crossbeam_channel::TrySendError::Full(back)) => {
                    request = back;
                    // The channel holds far more than one group: a moment later there is room.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }
}

pub(crate) fn stopping() -> AdapterError {
    AdapterError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}
