//! How an index arranges the rows of its table, for whoever arranges a few of them without a dataflow.

use arrangement::allowance::Allowance;
use arrangement::spine::{RowBatch, RowUpdate, batch};
use arrow::datatypes::DataType;
use repr::row::{is_key_exact, split};
use repr::{Diff, Timestamp};
use std::sync::Arc;

/// An index's rows and keys.
pub struct Layout {
    /// The types of the rows' columns.
    types: Arc<[DataType]>,
    /// The columns of the key.
    key: Vec<usize>,
}

impl Layout {
    /// Of an index whose key is made of these columns, or of something else where there is `None`. Absent if keys cannot be cut out of
    /// rows as they are stored.
    pub fn new(
        types: impl IntoIterator<Item = DataType>,
        key: impl IntoIterator<Item = Option<usize>>,
    ) -> Option<Layout> {
        let types: Arc<[DataType]> = types.into_iter().collect();
        let cut = |column: Option<usize>| column.filter(|column| is_key_exact(&types[*column]));
        let key = key.into_iter().map(cut).collect::<Option<_>>()?;
        Some(Layout { types, key })
    }

    /// Batches of updates of one time, one for each of the workers; `owner` says which of them a key belongs to. What the allowance refuses
    /// is not among them.
    pub fn arrange<'a>(
        &self,
        updates: impl IntoIterator<Item = (&'a [u8], Diff)>,
        ts: Timestamp,
        workers: usize,
        owner: impl Fn(&[u8]) -> usize,
        allowance: &Arc<Allowance>,
    ) -> Vec<Option<RowBatch>> {
        let mut by_worker: Vec<Vec<RowUpdate>> = vec![Vec::new(); workers];
        for (row, diff) in updates {
            let key = self.key_of(row);
            by_worker[owner(&key)].push(((key, row.to_vec()), ts, diff));
        }
        by_worker.into_iter().map(|updates| batch(updates, allowance)).collect()
    }

    fn key_of(&self, row: &[u8]) -> Vec<u8> {
        let slices = split(row, &self.types);
        self.key.iter().flat_map(|column| slices[*column]).copied().collect()
    }
}
