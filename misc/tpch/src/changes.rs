//! Random changes to the data.

use crate::data::{Data, Order};
use crate::table::{Row, Table, literal};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What kinds of change are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// What the benchmark's refresh functions do, with updates between them: orders come and go with their lines, and
    /// quantities, prices and balances move. Every row keeps its partners.
    Refresh,
    /// Anything: rows of all tables are deleted and come back, any column but the key takes the value of another row
    /// or NULL.
    Anything,
}

/// One row that comes, goes, or is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its table.
    pub table: Table,
    /// The row before, absent for an insert.
    pub old: Option<Row>,
    /// The row after, absent for a delete.
    pub new: Option<Row>,
}

/// Draws changes and makes them to its own data.
#[derive(Debug)]
pub struct Changes {
    random: StdRng,
    mix: Mix,
    data: Data,
    /// What was deleted from the small tables and may come back.
    deleted: Vec<(Table, Row)>,
    next_orderkey: i64,
}

/// Columns that [`Mix::Refresh`] moves.
const MOVING: [(Table, &[usize]); 5] = [
    (Table::Lineitem, &[4, 5, 6]),
    (Table::Orders, &[3]),
    (Table::Partsupp, &[2, 3]),
    (Table::Customer, &[5]),
    (Table::Supplier, &[5]),
];

impl Changes {
    /// Changes to `data`, which the caller has loaded.
    pub fn new(data: Data, seed: u64, mix: Mix) -> Changes {
        let keys = data.orders.iter().filter_map(|order| order.order.field(0)?.parse::<i64>().ok());
        let next_orderkey = keys.max().unwrap_or(0) + 1;
        Changes { random: StdRng::seed_from_u64(seed), mix, data, deleted: Vec::new(), next_orderkey }
    }

    /// The data as it is after all changes so far.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The next change: several rows where they belong together.
    pub fn next_change(&mut self) -> Vec<Change> {
        let draw = self.random.random_range(0..100);
        match (self.mix, draw) {
            (_, 0..25) => self.insert_order(),
            (_, 25..50) => self.delete_order(),
            (Mix::Refresh, _) => {
                let (table, columns) = MOVING[self.random.random_range(0..MOVING.len())];
                let column = columns[self.random.random_range(0..columns.len())];
                self.update(table, &[column])
            }
            (Mix::Anything, 50..65) => self.delete_or_restore(),
            (Mix::Anything, _) => {
                let table = Table::ALL[self.random.random_range(0..Table::ALL.len())];
                let others: Vec<usize> =
                    (0..table.columns().len()).filter(|column| !table.key().contains(column)).collect();
                let count = self.random.random_range(1..=2.min(others.len()));
                let columns: Vec<usize> =
                    (0..count).map(|_| others[self.random.random_range(0..others.len())]).collect();
                self.update(table, &columns)
            }
        }
    }

    /// An order like an existing one, under a key of its own.
    fn insert_order(&mut self) -> Vec<Change> {
        if self.data.orders.is_empty() {
            return Vec::new();
        }
        let model = self.data.orders[self.random.random_range(0..self.data.orders.len())].clone();
        let key = self.next_orderkey.to_string();
        self.next_orderkey += 1;
        let order = model.order.with(0, Some(&key));
        let lines: Vec<Row> = model.lines.iter().map(|line| line.with(0, Some(&key))).collect();
        let mut changes = vec![Change { table: Table::Orders, old: None, new: Some(order.clone()) }];
        let line = |line: &Row| Change { table: Table::Lineitem, old: None, new: Some(line.clone()) };
        changes.extend(lines.iter().map(line));
        self.data.orders.push(Order { order, lines });
        changes
    }

    fn delete_order(&mut self) -> Vec<Change> {
        if self.data.orders.is_empty() {
            return Vec::new();
        }
        let at = self.random.random_range(0..self.data.orders.len());
        let Order { order, lines } = self.data.orders.swap_remove(at);
        let mut changes = vec![Change { table: Table::Orders, old: Some(order), new: None }];
        let line = |line| Change { table: Table::Lineitem, old: Some(line), new: None };
        changes.extend(lines.into_iter().map(line));
        changes
    }

    fn delete_or_restore(&mut self) -> Vec<Change> {
        if !self.deleted.is_empty() && self.random.random_bool(0.5) {
            let at = self.random.random_range(0..self.deleted.len());
            let (table, row) = self.deleted.swap_remove(at);
            self.data.small[table as usize].push(row.clone());
            return vec![Change { table, old: None, new: Some(row) }];
        }
        let table = Table::ALL[self.random.random_range(0..self.data.small.len())];
        let rows = &mut self.data.small[table as usize];
        if rows.is_empty() {
            return Vec::new();
        }
        let row = rows.swap_remove(self.random.random_range(0..rows.len()));
        self.deleted.push((table, row.clone()));
        vec![Change { table, old: Some(row), new: None }]
    }

    /// Gives columns of a row the values of other rows, or NULL.
    fn update(&mut self, table: Table, columns: &[usize]) -> Vec<Change> {
        let Some(place) = self.place(table) else { return Vec::new() };
        let old = self.row(table, place).clone();
        let mut new = old.clone();
        for column in columns {
            let is_null = self.mix == Mix::Anything && self.random.random_bool(0.1);
            let other = self.place(table).filter(|_| !is_null);
            new = new.with(*column, other.and_then(|other| self.row(table, other).field(*column)));
        }
        if old == new {
            return Vec::new();
        }
        *self.row(table, place) = new.clone();
        vec![Change { table, old: Some(old), new: Some(new) }]
    }

    /// Any row of a table, if there is one.
    fn place(&mut self, table: Table) -> Option<Place> {
        let rows = match table {
            Table::Orders | Table::Lineitem => self.data.orders.len(),
            small => self.data.small[small as usize].len(),
        };
        let row = (rows > 0).then(|| self.random.random_range(0..rows))?;
        let line = match table {
            Table::Lineitem => self.random.random_range(0..self.data.orders[row].lines.len()),
            _ => 0,
        };
        Some(Place { row, line })
    }

    fn row(&mut self, table: Table, place: Place) -> &mut Row {
        match table {
            Table::Orders => &mut self.data.orders[place.row].order,
            Table::Lineitem => &mut self.data.orders[place.row].lines[place.line],
            small => &mut self.data.small[small as usize][place.row],
        }
    }
}

/// Where a row stands among the rows of its table; a line, by its order.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    line: usize,
}

/// Changes as SQL: neighbouring inserts into a table, and neighbouring deletes by the same first key column, are one
/// statement.
pub fn statements(changes: &[Change]) -> Vec<String> {
    let together = |a: &Change, b: &Change| {
        a.table == b.table
            && match (&a.old, &a.new, &b.old, &b.new) {
                (None, _, None, _) => true,
                (Some(a), None, Some(b), None) => a.field(0) == b.field(0),
                _ => false,
            }
    };
    changes.chunk_by(together).map(statement).collect()
}

/// The statement of changes that belong together.
fn statement(changes: &[Change]) -> String {
    let first = &changes[0];
    let (table, columns) = (first.table.name(), first.table.columns());
    let equal = |row: &Row, at: usize| format!("{} = {}", columns[at], literal(row.field(at)));
    match (&first.old, &first.new) {
        (Some(old), Some(new)) => {
            let changed = (0..columns.len()).filter(|at| old.field(*at) != new.field(*at));
            let set: Vec<String> = changed.map(|at| equal(new, at)).collect();
            let key: Vec<String> = first.table.key().iter().map(|at| equal(old, *at)).collect();
            format!("UPDATE {table} SET {} WHERE {}", set.join(", "), key.join(" AND "))
        }
        (Some(old), None) if changes.len() > 1 => format!("DELETE FROM {table} WHERE {}", equal(old, 0)),
        (Some(old), None) => {
            let key: Vec<String> = first.table.key().iter().map(|at| equal(old, *at)).collect();
            format!("DELETE FROM {table} WHERE {}", key.join(" AND "))
        }
        (None, _) => {
            let rows: Vec<String> = changes.iter().flat_map(|change| &change.new).map(Row::values).collect();
            format!("INSERT INTO {table} VALUES {}", rows.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Mix, statements};
    use crate::data::Data;
    use crate::table::{Row, Table};
    use std::collections::BTreeSet;

    fn rows(data: &Data) -> BTreeSet<(Table, Row)> {
        Table::ALL.iter().flat_map(|table| data.rows(*table).map(|row| (*table, row.clone()))).collect()
    }

    #[test]
    fn changes_lead_from_the_first_rows_to_the_last() {
        for mix in [Mix::Refresh, Mix::Anything] {
            let data = Data::generate(0.0005);
            let mut expected = rows(&data);
            let mut changes = Changes::new(data, 7, mix);
            for _ in 0..500 {
                for change in changes.next_change() {
                    if let Some(old) = change.old {
                        assert!(expected.remove(&(change.table, old)), "what goes was there");
                    }
                    if let Some(new) = change.new {
                        assert!(expected.insert((change.table, new)), "what comes was not there");
                    }
                }
            }
            assert_eq!(rows(changes.data()), expected);
        }
    }

    #[test]
    fn an_order_is_two_statements() {
        let mut changes = Changes::new(Data::generate(0.0005), 1, Mix::Refresh);
        let inserted = statements(&changes.insert_order());
        assert_eq!(inserted.len(), 2, "{inserted:?}");
        assert!(inserted[1].starts_with("INSERT INTO lineitem VALUES ('"), "{inserted:?}");
        let deleted = statements(&changes.delete_order());
        assert!(deleted[0].starts_with("DELETE FROM orders WHERE o_orderkey = '"), "{deleted:?}");
        let updated = statements(&changes.update(Table::Partsupp, &[2]));
        assert!(updated[0].contains(" AND ps_suppkey = '"), "{updated:?}");
    }
}
