//! What a transaction has written to a table and not committed, arranged as one of the table's indexes is: laid over a snapshot of that
//! index it is found by the same look-ups and walks as what is committed, and takes away what the transaction has removed.
//!
//! Writes are only ever added. What came since the last look becomes a batch of its own, and batches that are not larger than what follows
//! them are made anew together with it, so that there are few.

use crate::index::IndexHandle;
use crate::layout::Layout;
use crate::plan::IndexInfo;
use arrangement::allowance::Allowance;
use arrangement::snapshot::Snapshot;
use arrangement::spine::RowBatch;
use repr::Updates;
use std::ops::Range;
use std::sync::Arc;

/// When the transaction's own writes happen: before every time at which it may read.
const OWN_TIME: repr::Timestamp = 0;

/// A transaction's writes to one table as one of its indexes has them.
pub struct Uncommitted {
    handle: Arc<IndexHandle>,
    layout: Layout,
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
        let layout = layout_of(index)?;
        Some(Uncommitted { handle: Arc::clone(&index.handle), layout, levels: Vec::new() })
    }

    /// Whether an index's keys can be cut out of rows as they are stored.
    pub fn fits(index: &IndexInfo) -> bool {
        layout_of(index).is_some()
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
        let (workers, rows) = (self.handle.slots().len(), range.clone().map(|at| updates.get(at)));
        // The memory is the transaction's, which has it for the writes themselves.
        let memory = Allowance::unlimited();
        let by_worker = self.layout.arrange(rows, OWN_TIME, workers, |key| self.handle.owner(key), &memory);
        Level { range, by_worker }
    }

    /// What has been arranged, to be laid over the index's snapshots.
    pub fn layer(&self) -> Layer {
        let batches =
            |worker: usize| self.levels.iter().filter_map(move |level| level.by_worker[worker].clone()).collect();
        Layer((0..self.handle.slots().len()).map(batches).collect())
    }
}

fn layout_of(index: &IndexInfo) -> Option<Layout> {
    Layout::new(index.schema.fields().iter().map(|field| field.data_type().clone()), index.key.iter().copied())
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
