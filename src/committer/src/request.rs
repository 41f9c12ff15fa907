//! What the committer is asked for.

use crate::constraint::{LoadedKeys, TableConstraints, Validated, Violation, Watch};
use crate::error::CommitError;
use crate::expectations::Expectation;
use crate::notes::{Name, Notes};
use crate::plans::{Plans, Target};
use crate::rewrite::Rewriting;
use crate::sequence::{Asked, Reply, Sequence};
use arrow::datatypes::DataType;
use catalog::transact::{Op, Prepared};
use compute_client::index::IndexHandle;
use engine::session::Position;
use ore::memory::Reservation;
use persist::{Ahead, Blobs};
use repr::{Diff, GlobalId, RelationDesc, Timestamp, Updates};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What the committer is asked for.
pub(crate) enum Request {
    /// Commit writes to tables.
    Write(WriteRequest),
    /// Change the catalog.
    Ddl(Box<DdlRequest>),
    /// Say how often keys are there.
    Probe(ProbeRequest),
    /// Note from here on which keys of a table change; `None` if there is no such table.
    Watch(GlobalId, oneshot::Sender<Result<Option<Watch>, CommitError>>),
    /// Say what a note has.
    Note(Name, oneshot::Sender<Result<Option<Vec<u8>>, CommitError>>),
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
    Rebuild(Vec<GlobalId>, oneshot::Sender<Result<(), CommitError>>),
    /// Start what a SUBSCRIBE follows.
    Subscribe(Box<SubscribeRequest>),
    /// Let time come to this, or now if that is later.
    Tick(Timestamp, oneshot::Sender<Result<(), CommitError>>),
    /// The keys of a table were read, or cannot be.
    Loaded {
        /// The table, which was closed meanwhile.
        table: GlobalId,
        /// Those of its constraints of which they were not known.
        keys: Result<Validated, CommitError>,
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
    pub(crate) fn tables(&self) -> impl Iterator<Item = GlobalId> {
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
    pub(crate) fn is_apart(&self) -> bool {
        matches!(
            self,
            Request::Probe(_)
                | Request::Watch(..)
                | Request::Note(..)
                | Request::Reserve(_)
                | Request::Progress
                | Request::Subscribe(_)
                | Request::Tick(..)
                | Request::Compared { .. }
                | Request::Loaded { .. }
        )
    }

    /// Answers it with an error.
    pub(crate) fn fail(self, error: CommitError) {
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
    /// What they leave beside the rows, and require.
    pub(crate) notes: Notes,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Committed, CommitError>>,
}

/// Updates of one table.
pub struct TableWrite {
    /// The table.
    pub table: GlobalId,
    /// The updates.
    pub updates: Arc<Updates>,
    /// By what definition of the table their rows were checked; `None` if by several.
    pub checked: Option<Arc<TableConstraints>>,
    /// The types of the columns of a table that is only being made.
    pub types: Option<Vec<DataType>>,
    /// What was written of them already, if they are many.
    pub ahead: Option<Ahead>,
    /// What is known of their keys already, if they are many.
    pub keys: Option<LoadedKeys>,
}

impl TableWrite {
    /// Updates of which nothing is written yet.
    pub fn new(table: GlobalId, updates: Updates, checked: Option<Arc<TableConstraints>>) -> TableWrite {
        TableWrite { table, updates: Arc::new(updates), checked, types: None, ahead: None, keys: None }
    }

    /// The same with what was written of them, which is all or nothing.
    #[must_use]
    pub fn with_blobs(self, blobs: Vec<Blobs>) -> TableWrite {
        let ahead = (!blobs.is_empty()).then(|| Ahead::new(self.table.into(), Arc::clone(&self.updates), blobs));
        TableWrite { ahead, ..self }
    }

    /// Rows of a new table with such columns.
    pub fn of_new(table: GlobalId, updates: Updates, desc: &RelationDesc) -> TableWrite {
        TableWrite { types: Some(types_of(desc)), ..TableWrite::new(table, updates, None) }
    }

    /// The same once more.
    #[must_use]
    pub fn again(&self) -> TableWrite {
        let (updates, checked) = (Arc::clone(&self.updates), self.checked.clone());
        TableWrite { table: self.table, updates, checked, types: self.types.clone(), ahead: None, keys: None }
    }
}

/// The types of the columns of a table.
pub(crate) fn types_of(desc: &RelationDesc) -> Vec<DataType> {
    desc.columns.iter().map(|column| column.data_type.clone()).collect()
}

/// What became of a write.
#[derive(Clone, Debug)]
pub enum Committed {
    /// It is durable and visible.
    At,
    /// Something that it read has changed: read again.
    Conflict,
    /// A note is not as it required: it was done before, or something else was.
    Repeated,
    /// It would be against a constraint that is about several rows.
    Violates(Box<Violation>),
}

/// A question for keys of a table, or of foreign keys of it.
pub(crate) struct ProbeRequest {
    /// The table.
    pub(crate) table: GlobalId,
    /// The constraint's oid, and a key.
    pub(crate) keys: Vec<(u32, Vec<u8>)>,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Probed, CommitError>>,
}

/// How often keys are there, and when that was so.
pub struct Probed {
    /// As of this time.
    pub ts: Timestamp,
    /// For each key that was asked for.
    pub counts: Vec<Diff>,
}

/// A catalog change.
pub(crate) struct DdlRequest {
    /// What to do.
    pub(crate) change: CatalogChange,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Committed, CommitError>>,
}

/// Changes of the catalog, and what the same transaction has written: all of it or nothing.
pub struct CatalogChange {
    /// The revision under which it was planned; under another one it is a conflict.
    pub revision: u64,
    /// The changes.
    pub ops: Vec<Op>,
    /// Each table once, also those that the changes create.
    pub writes: Vec<TableWrite>,
    /// What was read.
    pub expectations: Vec<Expectation>,
    /// What becomes of the rows of a table that the changes give other columns.
    pub rewriting: Option<Rewriting>,
    /// Sequences that the same transaction has made or changed, as far as they have come.
    pub sequences: Vec<Arc<Sequence>>,
    /// What the changes lead to from that revision, if that is known.
    pub prepared: Option<Prepared>,
    /// How what they create is maintained, as far as that is known.
    pub plans: Plans,
    /// What they leave beside, and require.
    pub notes: Notes,
}

impl CatalogChange {
    /// Changes of nothing else.
    pub fn new(revision: u64, ops: Vec<Op>) -> CatalogChange {
        let (writes, expectations, sequences) = (Vec::new(), Vec::new(), Vec::new());
        let (rewriting, prepared, plans, notes) = (None, None, Plans::new(), Notes::default());
        CatalogChange { revision, ops, writes, expectations, rewriting, sequences, prepared, plans, notes }
    }
}

/// What the committer is asked for: a dataflow for a subscription.
pub(crate) struct SubscribeRequest {
    /// What it shall maintain, and where.
    pub(crate) target: Target,
    /// Every relation that is read, and the views through which: when one goes, so does the subscription.
    pub(crate) depends_on: Vec<GlobalId>,
    /// From when on.
    pub(crate) as_of: Timestamp,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Arc<IndexHandle>, CommitError>>,
}

/// A change that was worked out on a thread of its own.
pub(crate) struct WorkedOut {
    pub(crate) change: CatalogChange,
    /// The tables that were closed meanwhile.
    pub(crate) closed: Vec<GlobalId>,
    pub(crate) work: Result<Work, CommitError>,
    pub(crate) reply: oneshot::Sender<Result<Committed, CommitError>>,
}

/// What a change needs that may take long.
pub(crate) struct Work {
    /// What it leads to from the catalog with this revision.
    pub(crate) prepared: Prepared,
    pub(crate) revision: u64,
    pub(crate) examined: Examined,
    pub(crate) plans: Plans,
    /// Of the rows that were written anew.
    pub(crate) _memory: Reservation,
}

/// What was found out of the tables that a change of the catalog makes, or gives other constraints.
pub(crate) struct Examined {
    /// The keys of their new constraints.
    pub(crate) new_keys: Vec<(GlobalId, Validated)>,
    /// Their constraints that are not new.
    pub(crate) kept: BTreeMap<GlobalId, Arc<TableConstraints>>,
}
