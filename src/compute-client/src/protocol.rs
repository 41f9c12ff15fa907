//! What workers are told. Every worker of a cluster receives every command, in the same order.

use crate::index::IndexHandle;
use crate::plan::lir::Lir;
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use repr::{GlobalId, Timestamp, Updates};
use std::sync::Arc;

/// A command to the workers of one cluster.
pub enum ComputeCommand {
    /// Build and maintain an index. The contents of its tables as of `spec.as_of` follow as [`ComputeCommand::Hydrate`].
    CreateIndex(Arc<IndexSpec>),
    /// Rows of one of an index's tables as of its `as_of`; each worker takes the rows whose position is its own share.
    Hydrate {
        /// The index being hydrated.
        id: GlobalId,
        /// The table.
        table: GlobalId,
        /// Some of its rows.
        rows: Arc<Updates>,
    },
    /// All rows of an index's tables have been sent.
    Hydrated(GlobalId),
    /// A commit: every update of the named tables at `ts`, later than any before.
    Append {
        /// When the updates happened.
        ts: Timestamp,
        /// Reads below this time are over; what is older may be compacted.
        since: Timestamp,
        /// The updates by table.
        tables: Arc<[(GlobalId, Vec<Arc<Updates>>)]>,
    },
    /// Drop an index and free its memory.
    DropIndex(GlobalId),
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
    /// Its tables are read as of this time and followed from there.
    pub as_of: Timestamp,
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
