//! The tables that random queries read, and random changes to them.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// A family of types within which expressions can be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    /// smallint and integer.
    Int,
    /// bigint.
    Big,
    /// numeric(10,2) and what is made of it.
    Numeric,
    /// double precision.
    Float,
    /// text and varchar.
    Text,
    /// boolean.
    Bool,
    /// date.
    Date,
    /// timestamp.
    Timestamp,
    /// integer[].
    List,
}

/// All of them, common ones more than once.
pub(super) const TYPES: [Ty; 15] = [
    Ty::Int,
    Ty::Int,
    Ty::Text,
    Ty::Numeric,
    Ty::Big,
    Ty::Bool,
    Ty::Int,
    Ty::Date,
    Ty::Float,
    Ty::Timestamp,
    Ty::Text,
    Ty::Int,
    Ty::List,
    Ty::Numeric,
    Ty::Big,
];

impl Ty {
    /// The type that a cast to the family names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Ty::Int => "int4",
            Ty::Big => "int8",
            Ty::Numeric => "numeric(10,2)",
            Ty::Float => "float8",
            Ty::Text => "text",
            Ty::Bool => "bool",
            Ty::Date => "date",
            Ty::Timestamp => "timestamp",
            Ty::List => "int4[]",
        }
    }

    /// Whether it can be calculated with.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Ty::Int | Ty::Big | Ty::Numeric | Ty::Float)
    }

    /// Literals of it; few, so that values meet. Floats are sums of few powers of two.
    pub(super) fn literals(self) -> &'static [&'static str] {
        match self {
            Ty::Int => &["1", "0", "2", "3", "5", "(-1)"],
            Ty::Big => &["1::int8", "0::int8", "3::int8", "10000000000"],
            Ty::Numeric => &["1.50", "0.00", "2.25", "(-3.75)"],
            Ty::Float => &["1.5::float8", "0::float8", "(-2)::float8", "1024::float8"],
            Ty::Text => &["'a'", "''", "'b'", "'ab'", "'A'"],
            Ty::Bool => &["true", "false"],
            Ty::Date => &["DATE '2024-01-31'", "DATE '2024-02-29'", "DATE '1999-12-31'"],
            Ty::Timestamp => &["TIMESTAMP '2024-01-31 00:00:00'", "TIMESTAMP '2024-06-01 12:30:00'"],
            Ty::List => &["ARRAY[1, 2]", "ARRAY[]::int4[]", "ARRAY[3, 0]", "ARRAY[2]"],
        }
    }
}

/// A table: its name and its columns with their declared types.
pub type Table = (&'static str, &'static [(&'static str, &'static str, Ty)]);

/// The tables.
pub const TABLES: [Table; 4] = [
    (
        "r1",
        &[
            ("id", "int4", Ty::Int),
            ("a", "int4", Ty::Int),
            ("b", "int4", Ty::Int),
            ("s", "text", Ty::Text),
            ("f", "bool", Ty::Bool),
        ],
    ),
    (
        "r2",
        &[
            ("id", "int4", Ty::Int),
            ("a", "int4", Ty::Int),
            ("l", "int8", Ty::Big),
            ("n", "numeric(10,2)", Ty::Numeric),
            ("d", "date", Ty::Date),
        ],
    ),
    (
        "r3",
        &[
            ("a", "int4 NOT NULL", Ty::Int),
            ("h", "int2", Ty::Int),
            ("s", "varchar(8)", Ty::Text),
            ("v", "int4[]", Ty::List),
        ],
    ),
    (
        "r4",
        &[
            ("b", "int4", Ty::Int),
            ("x", "float8", Ty::Float),
            ("ts", "timestamp", Ty::Timestamp),
            ("f", "bool NOT NULL", Ty::Bool),
        ],
    ),
];

/// CREATE TABLE of all of them.
pub fn setup() -> Vec<String> {
    let create = |(name, columns): &Table| {
        let columns: Vec<String> = columns.iter().map(|(column, ty, _)| format!("{column} {ty}")).collect();
        format!("CREATE TABLE {name} ({})", columns.join(", "))
    };
    TABLES.iter().map(create).collect()
}

/// Draws statements that change the tables.
#[derive(Debug)]
pub struct Changes {
    random: StdRng,
}

impl Changes {
    /// From a seed.
    pub fn new(seed: u64) -> Changes {
        Changes { random: StdRng::seed_from_u64(seed) }
    }

    fn value(&mut self, declared: &str, ty: Ty) -> String {
        if !declared.ends_with("NOT NULL") && self.random.random_bool(0.15) {
            return "NULL".to_owned();
        }
        (*ty.literals().choose(&mut self.random).expect("every type has literals")).to_owned()
    }

    /// An INSERT of some rows.
    pub fn insert(&mut self, table: usize, count: usize) -> String {
        let (name, columns) = TABLES[table];
        let rows: Vec<String> = (0..count)
            .map(|_| {
                let values: Vec<String> = columns.iter().map(|(_, declared, ty)| self.value(declared, *ty)).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        format!("INSERT INTO {name} VALUES {}", rows.join(", "))
    }

    /// Any change.
    pub fn change(&mut self) -> String {
        let table = self.random.random_range(0..TABLES.len());
        let (name, columns) = TABLES[table];
        let condition = |changes: &mut Changes| {
            let (column, declared, ty) = columns.choose(&mut changes.random).expect("every table has columns");
            match changes.value(declared, *ty).as_str() {
                "NULL" => format!("{column} IS NULL"),
                value => format!("{column} = {value}"),
            }
        };
        match self.random.random_range(0..20) {
            0..=9 => {
                let count = self.random.random_range(1..5);
                self.insert(table, count)
            }
            10..=14 => format!("DELETE FROM {name} WHERE {}", condition(self)),
            15..=18 => {
                let (column, declared, ty) = columns.choose(&mut self.random).expect("every table has columns");
                let value = self.value(declared, *ty);
                format!("UPDATE {name} SET {column} = {value} WHERE {}", condition(self))
            }
            _ => format!("DELETE FROM {name}"),
        }
    }
}
