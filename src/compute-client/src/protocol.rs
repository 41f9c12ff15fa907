//! What workers are told. Every worker of a cluster receives every command, in the same order.
//!
//! An index that is built anew keeps its id. What a hydration sends therefore names the index by its [`IndexSpec`], which no
//! two incarnations share: what is late for one never reaches the next.

use crate::hydration::{Piece, Room};
use crate::index::IndexHandle;
use crate::layout::Layout;
use crate::plan::lir::{Lir, Node, column};
use crate::tail::Changes;
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use ore::memory::Reservation;
use repr::{GlobalId, Timestamp, Updates};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A command to the workers of one cluster.
pub enum ComputeCommand {
    /// Build and maintain an index. The contents of its inputs as of `spec.as_of` follow as [`ComputeCommand::Hydrate`], but for
    /// those that its plan reads from the arrangements of other indexes, which are there and hold everything from then on.
    CreateIndex(Arc<IndexSpec>),
    /// Rows of one of an index's inputs as of its `as_of`, or updates since; each worker takes the rows whose position is its
    /// own share.
    Hydrate {
        /// The index being hydrated.
        index: Arc<IndexSpec>,
        /// The input.
        input: GlobalId,
        /// When the updates happened: `as_of` for everything before, and at most `from`.
        ts: Timestamp,
        /// Some of its rows.
        piece: Piece,
        /// Given back when every worker has them, so that no more are read than can be taken.
        room: Arc<Room>,
    },
    /// All rows of an index's inputs have been sent.
    Hydrated(Arc<IndexSpec>),
    /// Rows of the index itself as of its `as_of`, from a run before; to be shown until it is hydrated.
    Seed {
        /// The index.
        index: Arc<IndexSpec>,
        /// All of its rows.
        rows: Arc<[Updates]>,
    },
    /// A commit: every update of the named tables at `ts`, later than any before.
    Append {
        /// When the updates happened.
        ts: Timestamp,
        /// Reads below this time are over; what is older may be compacted.
        since: Timestamp,
        /// The updates by table.
        tables: Arc<[(GlobalId, Vec<Arc<Updates>>)]>,
        /// The indexes of this cluster for which time goes on: those over one of the tables, and those that what is read
        /// together with them is made of.
        indexes: Arc<[GlobalId]>,
        /// The memory of the updates until every worker has them.
        waiting: Arc<Reservation>,
    },
    /// What happened in a maintained collection that indexes of this cluster read.
    Follow {
        /// The collection.
        id: GlobalId,
        /// Reads below this time are over.
        since: Timestamp,
        /// Its updates. Those at or below an index's `from` are in what it is hydrated with.
        changes: Arc<Changes>,
        /// Their memory until every worker has them.
        waiting: Arc<Reservation>,
    },
    /// An index cannot be hydrated: feed it no more. What reads its arrangement is told the same.
    GiveUp(Arc<IndexSpec>),
    /// Drop an index and free its memory. Nothing reads its arrangement any more.
    DropIndex(Arc<IndexSpec>),
    /// Stop the worker.
    Shutdown,
}

/// An index to build.
pub struct IndexSpec {
    /// The index.
    pub id: GlobalId,
    /// Its name, for logs.
    pub name: String,
    /// What its rows are.
    pub plan: Lir,
    /// What the rows are arranged by, over the rows that the index holds.
    pub key: Vec<KeyExpr>,
    /// Those of its inputs that are maintained themselves: they may have errors, and their time goes on by itself.
    pub maintained: BTreeSet<GlobalId>,
    /// It is readable from this time on.
    pub as_of: Timestamp,
    /// What happened in its inputs up to this time is part of what it is hydrated with; they are followed from there.
    pub from: Timestamp,
    /// Where the workers publish.
    pub handle: Arc<IndexHandle>,
}

/// One component of an index key.
#[derive(Clone)]
pub enum KeyExpr {
    /// A column of the row.
    Column(usize),
    /// An expression over the row, and its type.
    Expr(Arc<dyn PhysicalExpr>, DataType),
}

impl KeyExpr {
    /// The column that it is, if it is one.
    pub fn as_column(&self) -> Option<usize> {
        match self {
            KeyExpr::Column(column) => Some(*column),
            KeyExpr::Expr(expr, _) => column(expr),
        }
    }
}

/// How a plan's rows are arranged by this key, if they are those of a table and the key is cut out of them.
pub fn layout(plan: &Lir, key: &[KeyExpr]) -> Option<Layout> {
    let types: Vec<DataType> = plan.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let cut = |key: &KeyExpr| match key {
        KeyExpr::Expr(_, ty) => key.as_column().filter(|column| types[*column] == *ty),
        KeyExpr::Column(column) => Some(*column),
    };
    let key: Vec<Option<usize>> = key.iter().map(cut).collect();
    matches!(plan.node, Node::Get(_)).then(|| Layout::new(types, key)).flatten()
}
