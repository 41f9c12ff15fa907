//! The keys of rows, as bytes.

use super::{TableConstraints, Wording, value_text};
use crate::error::CommitError;
use ahash::AHashMap;
use arrow::datatypes::DataType;
use pgrepr::json::order::common_jsonb;
use pgrepr::options::EncodeOptions;
use repr::row::{is_key_exact, read_datum, skip_datum, split, write_datum, write_key_datum};
use repr::sqlstate::SqlState;
use repr::subject::Subject;
use repr::{Datum, Diff, GlobalId, PgType, RelationDesc, Updates};
use sql::plan::constraint::{TableKey, column_list};
use std::sync::Arc;

/// How often a write adds each key, less how often it takes it away. Keys of which nothing remains are left out.
pub type NetKeys = AHashMap<Vec<u8>, Diff>;

/// How often each key is there; those that are not are left out.
pub type KeyCounts = AHashMap<Box<[u8]>, Diff>;

/// Columns of which is counted how often each of their values is there: of a PRIMARY KEY, a UNIQUE constraint or a unique index, where
/// that is once at most, or of a FOREIGN KEY.
#[derive(Clone, Debug)]
pub struct CountedKey {
    /// Its oid: the constraint's identity, whatever it is called.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// The positions of its columns, in the key's order.
    pub columns: Vec<usize>,
    /// The index that has its rows under its bytes, if one does.
    pub index: Option<GlobalId>,
    /// How the bytes of each are made those of its equals.
    forms: Vec<Form>,
    /// One past the last of the columns.
    reach: usize,
}

/// What has to be done to a stored value so that equal values are equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Exact,
    /// `-0.0` is `0.0`.
    Float,
    /// Blanks at the end do not count.
    Blanks,
    /// Zeros at the ends of numbers do not count.
    Json,
}

impl CountedKey {
    pub(super) fn new(key: TableKey, desc: &RelationDesc) -> CountedKey {
        let TableKey { oid, name, columns, index } = key;
        let form = |column: &usize| {
            let column = &desc.columns[*column];
            match (&column.ty, &column.data_type) {
                (PgType::Bpchar(_), _) => Form::Blanks,
                (PgType::Jsonb, _) => Form::Json,
                (_, DataType::List(_)) => Form::Exact,
                (_, data_type) if is_key_exact(data_type) => Form::Exact,
                _ => Form::Float,
            }
        };
        let forms: Vec<Form> = columns.iter().map(form).collect();
        let has_bytes =
            |(column, form): (&usize, &Form)| *form == Form::Exact && is_key_exact(&desc.columns[*column].data_type);
        let (index, reach) = (
            index.filter(|_| columns.iter().zip(&forms).all(has_bytes)),
            columns.iter().max().map_or(0, |last| last + 1),
        );
        CountedKey { oid, name, columns, index, forms, reach }
    }

    /// Whether the bytes of a key are those of its columns in the row.
    pub fn is_exact(&self) -> bool {
        self.forms.iter().all(|form| *form == Form::Exact)
    }

    /// The key of a row; `None` if a column of it is NULL, so that it is like no other.
    pub fn of(&self, types: &[DataType], row: &[u8]) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        self.append(types, row, &mut key).map(|()| key)
    }

    /// Appends the key of a row, or part of it and `None` if a column of it is NULL.
    pub(super) fn append(&self, types: &[DataType], row: &[u8], key: &mut Vec<u8>) -> Option<()> {
        let slices = split(row, &types[..self.reach]);
        key.reserve(self.columns.iter().map(|column| slices[*column].len()).sum());
        for (column, form) in self.columns.iter().zip(&self.forms) {
            let bytes = slices[*column];
            // NULL of any type begins with a zero.
            if bytes.first() == Some(&0) {
                return None;
            }
            match form {
                Form::Exact => key.extend_from_slice(bytes),
                form => write_form(key, *form, &types[*column], bytes),
            }
        }
        Some(())
    }

    /// `(a, b)=(1, x)`, as DETAIL shows a key.
    pub fn describe(&self, desc: &RelationDesc, key: &[u8], options: &EncodeOptions) -> String {
        let mut rest = key;
        let types = self.columns.iter().map(|column| &desc.columns[*column].data_type);
        self.describe_values(desc, types.map(|ty| skip_datum(&mut rest, ty)), options)
    }

    /// The same of a row, in whose own words it is shown: `-0`, and with the blanks at the end.
    fn describe_of(&self, desc: &RelationDesc, row: &[u8], options: &EncodeOptions) -> String {
        let mut rest = row;
        let slices: Vec<&[u8]> = desc.columns.iter().map(|column| skip_datum(&mut rest, &column.data_type)).collect();
        self.describe_values(desc, self.columns.iter().map(|column| slices[*column]), options)
    }

    fn describe_values<'v>(
        &self,
        desc: &RelationDesc,
        values: impl Iterator<Item = &'v [u8]>,
        options: &EncodeOptions,
    ) -> String {
        let columns = self.columns.iter().map(|column| &desc.columns[*column]);
        let values: Vec<String> =
            columns.zip(values).map(|(column, bytes)| value_text(column, bytes, options)).collect();
        format!("({})=({})", column_list(desc, &self.columns), values.join(", "))
    }

    /// The values of a key.
    pub fn values(&self, types: &[DataType], key: &[u8]) -> Vec<Datum<'static>> {
        let mut rest = key;
        let value = |column: &usize| {
            let (mut bytes, mut scratch) = (skip_datum(&mut rest, &types[*column]), Vec::new());
            read_datum(&mut bytes, &types[*column], &mut scratch).into_owned()
        };
        self.columns.iter().map(value).collect()
    }
}

fn write_form(key: &mut Vec<u8>, form: Form, ty: &DataType, bytes: &[u8]) {
    let (mut rest, mut scratch) = (bytes, Vec::new());
    let datum = read_datum(&mut rest, ty, &mut scratch);
    let written = match (&datum, form) {
        (Datum::Text(text), Form::Blanks) => write_datum(key, ty, &Datum::Text(text.trim_end_matches(' ').into())),
        (Datum::Text(text), Form::Json) => write_datum(key, ty, &Datum::Text(common_jsonb(text).into())),
        (datum, _) => write_key_datum(key, ty, datum),
    };
    written.expect("a value that was stored can be written as one of its type");
}

/// What updates do to a key.
pub fn net_keys(table: &TableConstraints, key: &CountedKey, updates: &Updates) -> NetKeys {
    let mut net = NetKeys::with_capacity(updates.len());
    for (row, diff) in updates.iter() {
        if let Some(key) = key.of(&table.types, row) {
            *net.entry(key).or_default() += diff;
        }
    }
    net.retain(|_, diff| *diff != 0);
    net
}

/// A row whose key was taken.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The table.
    pub id: GlobalId,
    /// What the table demands.
    pub table: Arc<TableConstraints>,
    /// The constraint.
    pub constraint: u32,
    /// The row.
    pub row: Vec<u8>,
    /// Which of the rows that were added it is.
    pub at: usize,
}

/// The first of the rows that `updates` add whose key is taken by then. `copies_after` says of a key how often it would be there
/// after all of them, given its place among the table's keys and its bytes.
pub fn first_duplicate(
    id: GlobalId,
    table: &Arc<TableConstraints>,
    updates: &Updates,
    copies_after: impl Fn(usize, &[u8]) -> Diff,
) -> Option<Duplicate> {
    let added = || updates.iter().filter(|(_, diff)| *diff > 0).map(|(row, _)| row);
    let keys = |row| {
        let of = move |(place, key): (usize, &CountedKey)| Some((place, key.of(&table.types, row)?));
        table.keys.iter().enumerate().filter_map(of)
    };
    // How often each key is there before the row that is looked at: first, before all of them.
    let mut copies: AHashMap<(usize, Vec<u8>), Diff> = AHashMap::new();
    for (place, key) in added().flat_map(keys) {
        let after = copies_after(place, &key);
        if after > 1 {
            *copies.entry((place, key)).or_insert(after) -= 1;
        }
    }
    added().enumerate().find_map(|(at, row)| {
        let place = keys(row).find_map(|(place, key)| {
            let before = copies.get_mut(&(place, key))?;
            *before += 1;
            (*before > 1).then_some(place)
        })?;
        let (table, constraint) = (Arc::clone(table), table.keys[place].oid);
        Some(Duplicate { id, table, constraint, row: row.to_vec(), at })
    })
}

/// 23505 of a row. Its key is shown to who may see it.
pub fn duplicate(duplicate: &Duplicate, wording: Wording<'_>) -> CommitError {
    let Duplicate { table, constraint, row, at, .. } = duplicate;
    let Some(key) = table.key(*constraint) else {
        return CommitError::internal("a key is of a constraint that is not there");
    };
    let message = format!("duplicate key value violates unique constraint \"{}\"", key.name);
    let describe = || format!("Key {} already exists.", key.describe_of(&table.desc, row, wording.options));
    let detail = (wording.shows_rows)().then(describe);
    let subject = Subject { row: Some(*at), ..wording.constraint(&key.name) };
    CommitError::violation(SqlState::UNIQUE_VIOLATION, message, detail, subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use repr::row::write_datum;

    fn row(values: &[Datum<'_>], desc: &RelationDesc) -> Vec<u8> {
        let mut row = Vec::new();
        for (value, column) in values.iter().zip(&desc.columns) {
            write_datum(&mut row, &column.data_type, value).expect("the value is of the column's type");
        }
        row
    }

    #[test]
    fn equal_values_have_equal_keys_and_null_has_none() {
        let columns = [("a", PgType::Int4), ("b", PgType::Float8), ("c", PgType::Bpchar(None))];
        let desc = RelationDesc::new(columns.map(|(name, ty)| (name.to_owned(), ty, true)));
        let types: Vec<DataType> = desc.columns.iter().map(|column| column.data_type.clone()).collect();
        let key = CountedKey::new(
            TableKey { oid: 1, name: "k".to_owned(), columns: vec![2, 1], index: Some(GlobalId::User(1)) },
            &desc,
        );
        let of = |a: i32, b: f64, c: &str| {
            key.of(&types, &row(&[Datum::Int4(a), Datum::Float8(b), Datum::Text(c.into())], &desc))
        };
        assert!(!key.is_exact() && key.index.is_none());
        assert_eq!(of(1, 0.0, "x"), of(2, -0.0, "x  "));
        assert_ne!(of(1, 0.0, "x"), of(1, 0.0, "y"));
        assert_ne!(of(1, 0.0, "x"), of(1, 1.0, "x"));
        assert_eq!(key.of(&types, &row(&[Datum::Int4(1), Datum::Null, Datum::Text("x".into())], &desc)), None);
        let shown = of(1, 1.5, "x").map(|bytes| key.describe(&desc, &bytes, &EncodeOptions::default()));
        assert_eq!(shown.as_deref(), Some("(c, b)=(x, 1.5)"));
    }
}
