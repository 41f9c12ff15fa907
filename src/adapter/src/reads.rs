//! What a transaction has read, and whether that has changed since.
//!
//! Rows that were looked up by their key are remembered by that key: a write to another row of their table contradicts nothing. What was
//! read in another way is remembered as all of the collection.

use ahash::AHashSet;
use committer::expectations::{Expectation, KeyRange, was_written};
use committer::published::Published;
use compute_client::error::ComputeError;
use compute_client::peek::Looked;
use repr::{GlobalId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many keys are remembered; what is looked up after them counts as all of its table.
const KEYS_MAX: usize = 100_000;
/// What a key takes of the memory, more or less.
const KEY_BYTES: usize = 256;

/// What a transaction has read, all of it at one time.
#[derive(Default)]
pub(crate) struct Reads {
    reads: Vec<Read>,
    /// What is among them, so that nothing is twice.
    known: AHashSet<Known>,
    /// Whether the time itself was read: it is another one later.
    has_time: bool,
}

/// Something that was read.
enum Read {
    All(GlobalId),
    /// Of a table.
    Rows(GlobalId, Looked),
}

#[derive(PartialEq, Eq, Hash)]
enum Known {
    All(GlobalId),
    Key(GlobalId, Vec<u8>),
}

impl Reads {
    /// Notes that the time was read.
    pub(crate) fn note_time(&mut self) {
        self.has_time = true;
    }

    /// Notes that all of these collections were read.
    pub(crate) fn note(&mut self, collections: impl IntoIterator<Item = GlobalId>) {
        // What the system ships with changes with what is not in it.
        for id in collections.into_iter().filter(|id| matches!(id, GlobalId::User(_))) {
            if self.known.insert(Known::All(id)) {
                self.reads.push(Read::All(id));
            }
        }
    }

    /// Notes that rows of a table were looked up.
    pub(crate) fn note_rows(&mut self, table: GlobalId, mut looked: Looked) {
        if self.known.contains(&Known::All(table)) {
            return;
        }
        if self.known.len() >= KEYS_MAX {
            return self.note([table]);
        }
        let index = looked.index.handle.id;
        looked.keys.retain(|key| self.known.insert(Known::Key(index, key.clone())));
        if !looked.keys.is_empty() {
            self.reads.push(Read::Rows(table, looked));
        }
    }

    /// The memory that it takes, more or less.
    pub(crate) fn memory(&self) -> usize {
        self.known.len() * KEY_BYTES
    }

    /// How much was read.
    pub(crate) fn len(&self) -> usize {
        self.reads.len()
    }

    /// Forgets what was read after the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        for read in self.reads.drain(count.min(self.reads.len())..) {
            let known: Vec<Known> = match read {
                Read::All(id) => vec![Known::All(id)],
                Read::Rows(_, Looked { index, keys, .. }) => {
                    keys.into_iter().map(|key| Known::Key(index.handle.id, key)).collect()
                }
            };
            for known in &known {
                self.known.remove(known);
            }
        }
    }

    /// What must be as it was at `read_ts` when the transaction commits.
    pub(crate) fn expectations(&self, read_ts: Timestamp) -> Vec<Expectation> {
        let mut expectations = Vec::new();
        // By table and index, and how many columns of its key.
        let mut rows: BTreeMap<(GlobalId, GlobalId, usize), (&Looked, Vec<Vec<u8>>)> = BTreeMap::new();
        for read in &self.reads {
            match read {
                Read::All(table) => expectations.push(Expectation { table: *table, read_ts, rows: None }),
                Read::Rows(table, looked) => {
                    let place = (*table, looked.index.handle.id, looked.width);
                    let (_, keys) = rows.entry(place).or_insert_with(|| (looked, Vec::new()));
                    keys.extend(looked.keys.iter().cloned());
                }
            }
        }
        expectations.extend(rows.into_iter().map(|((table, ..), (looked, keys))| {
            let rows = Some(Arc::new(KeyRange::as_looked_up(looked, keys)));
            Expectation { table, read_ts, rows }
        }));
        expectations
    }

    /// Whether all of it is the same at a later time of the oracle.
    ///
    /// # Cancellation
    /// Safe to drop at any await.
    pub(crate) async fn are_unchanged(
        &self,
        published: &Published,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<bool, ComputeError> {
        if self.has_time {
            return Ok(false);
        }
        for read in &self.reads {
            let is_unchanged = match read {
                Read::All(id) if published.indexes_on(*id).iter().any(|index| index.handle.is_temporal()) => false,
                Read::All(id) => !was_written(published, *id, from),
                Read::Rows(table, _) if !was_written(published, *table, from) => true,
                Read::Rows(_, looked) => match looked.is_unchanged(from, to).await {
                    // The index has gone, and what it has told cannot be asked for again.
                    Err(ComputeError::Dropped(_) | ComputeError::OutOfMemory(_)) => false,
                    compared => compared?,
                },
            };
            if !is_unchanged {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
