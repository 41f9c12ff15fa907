//! A query over members: which measures, for which groups, of which rows.
//!
//! Whatever door it comes through, this is what it becomes, and what one compiler makes a plan of. [`Query::read`] takes Cube's JSON
//! apart; what is relative or left out there is said here.

pub mod dates;
pub mod error;
mod filter;
mod read;
mod write;

pub use filter::{Condition, Filter, Placement};

use chrono_tz::Tz;
use dates::Range;
use std::fmt;

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub measures: Vec<Name>,
    pub dimensions: Vec<Name>,
    pub time_dimensions: Vec<TimeDimension>,
    /// All of them hold.
    pub filters: Vec<Filter>,
    /// All of them hold.
    pub segments: Vec<Name>,
    pub order: Vec<(Key, Direction)>,
    pub limit: Limit,
    pub offset: u64,
    /// In which days, weeks and months begin.
    pub zone: Tz,
    pub rows: Rows,
    /// Whether it is also asked how many groups there are without limit and offset.
    pub total: Total,
    pub format: Format,
}

/// A cube or a view, and its member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub cube: String,
    pub member: String,
}

/// A dimension of time: grouped by, if it has a granularity, and filtered by, if it has a range.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeDimension {
    pub dimension: Name,
    pub granularity: Option<String>,
    pub range: Option<Range>,
}

/// What rows are ordered by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: Name,
    /// Of a time dimension, if the query says which.
    pub granularity: Option<String>,
}

/// NULLs come last if it ascends and first if it descends, as in PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The query says so.
    Asked(u64),
    /// The query says nothing, and this is what its door gives at most; none gives all.
    Default(Option<u64>),
}

/// Whether a row of the result is a group or a row of the cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    Grouped,
    Ungrouped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    Asked,
    NotAsked,
}

/// In which form Cube's clients want rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An object for each row.
    Objects,
    /// A list for each row.
    Compact,
    /// A list for each column.
    Columnar,
}

/// What was asked in one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Regular(Query),
    /// The same query for several ranges of its time dimension, in their order.
    CompareDateRange(Vec<Query>),
}

/// What a door gives who does not say how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub default: Option<u64>,
    /// More than this is refused.
    pub max: Option<u64>,
}

impl Query {
    /// The members that it names, in the order in which Cube looks for a cube to begin from; some may be there several times.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        let times = self.time_dimensions.iter().map(|of| &of.dimension);
        let filtered = self.filters.iter().flat_map(Filter::names);
        self.measures.iter().chain(&self.dimensions).chain(&self.segments).chain(filtered).chain(times)
    }
}

impl TimeDimension {
    /// The name of its column.
    pub fn column(&self) -> String {
        Key { name: self.dimension.clone(), granularity: self.granularity.clone() }.to_string()
    }
}

impl Name {
    /// `cube.member`; None if it is something else.
    pub fn new(text: &str) -> Option<Name> {
        let (cube, member) = text.split_once('.')?;
        (is_word(cube) && is_word(member)).then(|| Name { cube: cube.to_owned(), member: member.to_owned() })
    }
}

/// Whether it can be a name in a query.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cube, self.member)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.granularity {
            None => self.name.fmt(f),
            Some(granularity) => write!(f, "{}.{granularity}", self.name),
        }
    }
}
