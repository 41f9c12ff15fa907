//! What has to be there, by what was answered.

use arrow::datatypes::DataType;
use repr::row::write_datum;
use repr::{Datum, Diff, Updates};
use std::collections::{BTreeMap, BTreeSet};

/// A row of a table here: a key, and a number that no other row has.
pub(crate) type Row = (i32, i32);

/// Rows as they are stored, with their multiplicities.
pub(crate) type Rows = BTreeMap<Vec<u8>, Diff>;

/// The columns of every table here.
pub(crate) const COLUMNS: [DataType; 2] = [DataType::Int32, DataType::Int32];

/// The stored form of a row.
pub(crate) fn encode((key, tag): Row) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (data_type, value) in COLUMNS.iter().zip([key, tag]) {
        write_datum(&mut bytes, data_type, &Datum::Int4(value)).expect("an integer is one");
    }
    bytes
}

/// The stored form of a value of a column.
pub(crate) fn encode_key(key: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_datum(&mut bytes, &COLUMNS[0], &Datum::Int4(key)).expect("an integer is one");
    bytes
}

/// What a write does to a table.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) table: String,
    pub(crate) out: Vec<Row>,
    /// At least one.
    pub(crate) new: Vec<Row>,
}

impl Change {
    pub(crate) fn updates(&self) -> Updates {
        let mut updates = Updates::new();
        self.out.iter().for_each(|row| updates.push(&encode(*row), -1));
        self.new.iter().for_each(|row| updates.push(&encode(*row), 1));
        updates
    }

    /// Whether it touches a table, or the rows with this key.
    pub(crate) fn touches(&self, table: &str, key: Option<i32>) -> bool {
        let mut rows = self.out.iter().chain(&self.new);
        self.table == table && key.is_none_or(|key| rows.any(|row| row.0 == key))
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// By name.
    pub(crate) tables: BTreeMap<String, BTreeSet<Row>>,
    /// By name: the relations that a materialized view has the rows of.
    pub(crate) views: BTreeMap<String, Vec<String>>,
    /// By name: the indexes that demand a key only once, and on which table.
    pub(crate) unique: BTreeMap<String, String>,
    /// By name: the value that a sequence gave last.
    pub(crate) sequences: BTreeMap<String, i64>,
    /// Every change of rows so far.
    pub(crate) log: Vec<Change>,
}

impl Model {
    pub(crate) fn apply(&mut self, change: &Change) {
        if let Some(rows) = self.tables.get_mut(&change.table) {
            change.out.iter().for_each(|row| assert!(rows.remove(row), "{row:?} has gone twice from {}", change.table));
            rows.extend(&change.new);
        }
        self.log.push(change.clone());
    }

    /// The rows that a table, or a view, has to have.
    pub(crate) fn rows(&self, relation: &str) -> Rows {
        if let Some(rows) = self.tables.get(relation) {
            return rows.iter().map(|row| (encode(*row), 1)).collect();
        }
        let mut all = Rows::new();
        for part in self.views.get(relation).into_iter().flatten() {
            self.rows(part).into_iter().for_each(|(row, count)| *all.entry(row).or_default() += count);
        }
        all
    }

    /// Whether a table has a key at the most once.
    pub(crate) fn is_unique(&self, table: &str) -> bool {
        let mut keys = BTreeSet::new();
        self.tables.get(table).into_iter().flatten().all(|row| keys.insert(row.0))
    }

    /// What has gone from the catalog goes.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.tables.retain(|name, _| is_there(name));
        self.views.retain(|name, _| is_there(name));
        self.unique.retain(|name, _| is_there(name));
        self.sequences.retain(|name, _| is_there(name));
    }
}
