//! What a transaction has written to a table and not committed, arranged as one of the table's indexes is: laid over a snapshot of that
//! index it is found by the same look-ups and walks as what is committed, and takes away what the transaction has removed.
//!
//! Writes are only ever added. What came since the last look becomes a batch of its own, and batches that are not larger than what follows
//! them are made anew together with it, so that there are few.

use crate::index::IndexHandle;
use crate::plan::IndexInfo;
use arrangement::allowance::Allowance;
use arrangement::snapshot::Snapshot;
use arrangement::spine::{RowBatch, RowUpdate, batch};
use arrow::datatypes::DataType;
use repr::Updates;
use repr::row::{is_key_exact, split};
use std::ops::Range;
use std::sync::Arc;

/// When the transaction's own writes happen: before every time at which it may read.
const OWN_TIME: repr::Timestamp = 0;

/// A transaction's writes to one table as one of its indexes has them.
pub struct Uncommitted {
    handle: Arc<IndexHandle>,
    /// The types of the table's columns.
    types: Arc<[DataType]>,
    /// The columns of the index's key.
    key: Vec<usize>,
    levels: Vec<Level>,
}

/// Some of the writes, by the worker that owns their keys.
struct Level {
    range: Range<usize>,
    by_worker: Vec<Option<RowBatch>>,
}

impl Uncommitted {
    /// Nothing yet, if the index [`Uncommitted::fits`].
    pub fn of(index: &IndexInfo) -> Option<Uncommitted> {
        let types = index.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let key = index.key.iter().copied().flatten().collect();
        Uncommitted::fits(index).then(|| Uncommitted {
            handle: Arc::clone(&index.handle),
            types,
            key,
            levels: Vec::new(),
        })
    }

    /// Whether an index's keys can be cut out of rows as they are stored.
    pub fn fits(index: &IndexInfo) -> bool {
        let is_cut = |column: &usize| is_key_exact(index.schema.field(*column).data_type());
        index.key.iter().all(|column| column.as_ref().is_some_and(is_cut))
    }

    /// Whether this is how the index is maintained now, and not how it was before its cluster got another size.
    pub fn is_of(&self, index: &IndexInfo) -> bool {
        Arc::ptr_eq(&self.handle, &index.handle)
    }

    /// Arranges what has been written since the last time. `updates` are all writes so far.
    pub fn cover(&mut self, updates: &Updates) {
        let mut from = self.levels.last().map_or(0, |level| level.range.end);
        if from == updates.len() {
            return;
        }
        while let Some(last) = self.levels.last()
            && last.range.len() <= updates.len() - from
        {
            from = last.range.start;
            self.levels.pop();
        }
        let level = self.level(updates, from..updates.len());
        self.levels.push(level);
    }

    fn level(&self, updates: &Updates, range: Range<usize>) -> Level {
        let mut by_worker: Vec<Vec<RowUpdate>> = vec![Vec::new(); self.handle.slots().len()];
        for at in range.clone() {
            let (row, diff) = updates.get(at);
            let key = self.key_of(row);
            by_worker[self.handle.owner(&key)].push(((key, row.to_vec()), OWN_TIME, diff));
        }
        // The memory is the transaction's, which has it for the writes themselves.
        let allowance = Allowance::unlimited();
        Level { range, by_worker: by_worker.into_iter().map(|updates| batch(updates, &allowance)).collect() }
    }

    fn key_of(&self, row: &[u8]) -> Vec<u8> {
        let slices = split(row, &self.types);
        self.key.iter().flat_map(|column| slices[*column]).copied().collect()
    }

    /// What has been arranged, to be laid over the index's snapshots.
    pub fn layer(&self) -> Layer {
        let batches =
            |worker: usize| self.levels.iter().filter_map(move |level| level.by_worker[worker].clone()).collect();
        Layer((0..self.handle.slots().len()).map(batches).collect())
    }
}

/// Batches that lie over an index's snapshots, by worker.
#[derive(Clone)]
pub struct Layer(Arc<[Vec<RowBatch>]>);

impl Layer {
    /// A worker's snapshot with these over it.
    pub(crate) fn over(&self, worker: usize, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        match self.0[worker].as_slice() {
            [] => snapshot,
            batches => Arc::new(snapshot.under(batches)),
        }
    }
}
