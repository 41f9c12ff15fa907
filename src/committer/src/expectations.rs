//! What a write has read, and whether that has changed since.
//!
//! The committer remembers the latest commits, so that a statement that read some rows by their key is contradicted by a write
//! to these rows and not by any other to their table.

use crate::published::Published;
use arrow::datatypes::DataType;
use compute_client::index::IndexHandle;
use compute_client::peek::Looked;
use repr::row::split;
use repr::{GlobalId, Timestamp, Updates};
use sql::plan::CatalogView;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Commits, and updates in them, that are remembered to compare rows with. A statement that read before the oldest of them
/// counts as contradicted by any write to its table.
const RECENT_COMMITS_MAX: usize = 1_024;
const RECENT_UPDATES_MAX: usize = 16_384;

/// A table, or some of its rows, that was read at a time and must not have changed since.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The table.
    pub table: GlobalId,
    /// When it was read.
    pub read_ts: Timestamp,
    /// The rows that were read, if they can be told from others; `None` is all of them.
    pub rows: Option<Arc<KeyRange>>,
}

/// The rows of a table whose first key columns have one of some values.
#[derive(Debug)]
pub struct KeyRange {
    /// The types of the table's columns.
    types: Arc<[DataType]>,
    /// The columns that were looked up, in the key's order.
    columns: Vec<usize>,
    /// The values, encoded one after the other; in order.
    keys: Vec<Vec<u8>>,
}

/// With more keys than this a row's key is looked for by halving.
const KEYS_COMPARED_MAX: usize = 8;

impl KeyRange {
    /// The rows that have one of `keys` in `columns`.
    pub fn new(types: Arc<[DataType]>, columns: Vec<usize>, mut keys: Vec<Vec<u8>>) -> KeyRange {
        keys.sort_unstable();
        KeyRange { types, columns, keys }
    }

    /// The rows that have these keys where others were looked up.
    pub fn as_looked_up(looked: &Looked, keys: Vec<Vec<u8>>) -> KeyRange {
        KeyRange::new(Arc::clone(&looked.types), looked.columns(), keys)
    }

    /// Whether any of these updates is of its rows.
    pub fn is_touched(&self, updates: &Updates) -> bool {
        updates.iter().any(|(row, _)| self.contains(row))
    }

    fn contains(&self, row: &[u8]) -> bool {
        let slices = split(row, &self.types);
        if self.keys.len() > KEYS_COMPARED_MAX {
            let key: Vec<u8> = self.columns.iter().flat_map(|column| slices[*column]).copied().collect();
            return self.keys.binary_search(&key).is_ok();
        }
        self.keys.iter().any(|key| {
            let mut key = key.as_slice();
            self.columns.iter().all(|column| key.strip_prefix(slices[*column]).map(|tail| key = tail).is_some())
        })
    }
}

/// The latest commits, to tell whether a write hit rows that another had read.
#[derive(Default)]
pub(crate) struct Recent {
    /// Time and updates by table, oldest first.
    commits: VecDeque<(Timestamp, Tables)>,
    update_count: usize,
    /// Commits at or below this time are forgotten.
    forgotten: Timestamp,
}

/// Updates by table.
pub(crate) type Tables = Arc<[(GlobalId, Vec<Arc<Updates>>)]>;

impl Recent {
    pub(crate) fn remember(&mut self, ts: Timestamp, tables: &Tables) {
        self.update_count += Recent::count(tables);
        self.commits.push_back((ts, Arc::clone(tables)));
        while self.update_count > RECENT_UPDATES_MAX || self.commits.len() > RECENT_COMMITS_MAX {
            let Some((ts, tables)) = self.commits.pop_front() else { return };
            self.update_count -= Recent::count(&tables);
            self.forgotten = ts;
        }
    }

    fn count(tables: &Tables) -> usize {
        tables.iter().flat_map(|(_, updates)| updates).map(|updates| updates.len()).sum()
    }

    /// Whether any of these rows of a table was written after `ts`, as far as is known.
    fn changed(&self, table: GlobalId, rows: &KeyRange, ts: Timestamp) -> bool {
        self.forgotten > ts
            || self.commits.iter().rev().take_while(|(at, _)| *at > ts).any(|(_, tables)| {
                let of_table = tables.iter().filter(|(written, _)| *written == table);
                of_table.flat_map(|(_, updates)| updates).any(|updates| rows.is_touched(updates))
            })
    }
}

/// Whether a collection may have changed after a time: it was written, or has gone.
pub fn was_written(published: &Published, collection: GlobalId, after: Timestamp) -> bool {
    match (published.tables.get(&collection), published.maintained(collection)) {
        (Some(table), _) => table.clock.last_write() > after,
        // A materialized view changes with the tables below it; any other with those it depends on, which are read as well.
        (None, Some(handle)) => handle.last_write() > after,
        (None, None) => published.state.item(collection).is_none(),
    }
}

/// Whether something that was read has changed, or is changed by the group.
pub(crate) fn contradicted(
    published: &Published,
    recent: &Recent,
    group: &BTreeMap<GlobalId, Vec<Arc<Updates>>>,
    expectations: &[Expectation],
) -> bool {
    expectations.iter().any(|expectation| {
        let Expectation { table, read_ts, rows } = expectation;
        let changed = match rows {
            _ if !was_written(published, *table, *read_ts) => false,
            Some(rows) if published.tables.contains_key(table) => recent.changed(*table, rows, *read_ts),
            _ => true,
        };
        let below = |handle: &Arc<IndexHandle>| group.keys().any(|table| handle.clocks().contains_key(table));
        let changes = match (group.get(table), rows) {
            (None, _) => published.maintained(*table).is_some_and(below),
            (Some(_), None) => true,
            (Some(updates), Some(rows)) => updates.iter().any(|updates| rows.is_touched(updates)),
        };
        changed || changes
    })
}
