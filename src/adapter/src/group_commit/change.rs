//! What a change of the catalog consists of: the changes, and what becomes durable together with them.

use super::{Expectation, TableWrite};
use crate::rewrite::Rewriting;
use crate::sequence::Sequence;
use catalog::transact::Op;
use std::sync::Arc;

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
}

impl CatalogChange {
    /// Changes of nothing else.
    pub(crate) fn new(revision: u64, ops: Vec<Op>) -> CatalogChange {
        let (writes, expectations, sequences) = (Vec::new(), Vec::new(), Vec::new());
        CatalogChange { revision, ops, writes, expectations, rewriting: None, sequences }
    }
}
