//! The values everything else is made of: types, rows, times, ids and error codes.
//!
//! Pure data: no I/O, no clock, no tokio. A row is bytes (`row`), a relation is a list of named and typed columns
//! (`relation`), a type is Postgres's view of an Arrow type (`types`), and one decoded value is a [`Datum`].
//! Deliberately absent: text and binary forms of values, which only `pgrepr` knows.
#![warn(missing_docs)]

pub mod columns;
pub mod datum;
pub mod global_id;
pub mod relation;
pub mod row;
pub mod sqlstate;
pub mod subject;
pub mod timestamp;
pub mod types;
pub mod updates;

pub use datum::Datum;
pub use global_id::GlobalId;
pub use relation::{ColumnDesc, RelationDesc};
pub use timestamp::{Diff, Timestamp};
pub use types::{NumericDisplay, PgType, Reg};
pub use updates::Updates;
