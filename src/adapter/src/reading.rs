//! How rows are read: from an index, by the ad hoc engine, followed; and what SHOW and EXPLAIN answer.

pub(crate) mod admission;
pub mod batches;
pub mod explain;
pub(crate) mod reader;
pub(crate) mod select;
pub(crate) mod show;
pub(crate) mod subscribe;
pub mod waiting;
