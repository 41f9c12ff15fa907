//! What a statement reads of the relations that it names.

use repr::GlobalId;
use std::collections::BTreeSet;

/// One mention of a relation in FROM. A relation that is mentioned twice is read twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The relation.
    pub id: GlobalId,
    /// The positions of the columns that are read.
    pub columns: BTreeSet<usize>,
}
