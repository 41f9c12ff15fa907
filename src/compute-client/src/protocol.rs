//! What workers are told. Every worker of a cluster receives every command, in the same order.

use crate::index::IndexHandle;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use repr::{GlobalId, Timestamp, Updates};
use std::sync::Arc;

/// A command to the workers of one cluster.
pub enum ComputeCommand {
    /// Build and maintain an index. Its input's contents as of `spec.as_of` follow as [`ComputeCommand::Hydrate`].
    CreateIndex(Arc<IndexSpec>),
    /// Rows of an index's input as of its `as_of`; each worker takes the rows whose position is its own share.
    Hydrate {
        /// The index being hydrated.
        id: GlobalId,
        /// Some of the rows.
        rows: Arc<Updates>,
        /// Whether these are the last.
        done: bool,
    },
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

/// An index to build: over a table, or over a view that filters and projects one.
pub struct IndexSpec {
    /// The index.
    pub id: GlobalId,
    /// Its name, for logs.
    pub name: String,
    /// The table whose updates feed it.
    pub table: GlobalId,
    /// The table's columns.
    pub table_schema: SchemaRef,
    /// What happens to a row before it is arranged; `None` takes it as it is.
    pub mfp: Option<Mfp>,
    /// The types of the rows that the index holds.
    pub row_types: Vec<DataType>,
    /// What the rows are arranged by, over the rows that the index holds.
    pub key: Vec<KeyExpr>,
    /// Its input is read as of this time and followed from there.
    pub as_of: Timestamp,
    /// Where the workers publish.
    pub handle: Arc<IndexHandle>,
}

/// Map, filter and project in one: predicates over the input row, then the output columns.
pub struct Mfp {
    /// A row stays if every predicate is true.
    pub predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns of the output row.
    pub projection: Vec<Arc<dyn PhysicalExpr>>,
    /// The schema of the output row.
    pub schema: SchemaRef,
}

/// One component of an index key.
#[derive(Clone)]
pub enum KeyExpr {
    /// A column of the row.
    Column(usize),
    /// An expression over the row, and its type.
    Expr(Arc<dyn PhysicalExpr>, DataType),
}
