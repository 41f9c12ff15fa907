//! Rows at rest, by column: a Parquet file of sorted rows, each with the time at which it came.
//!
//! Where a row format is read whole, a file of columns is read a column at a time: whoever wants two of sixteen columns reads an
//! eighth of the bytes, and gets arrays to compute with. Encodings and compression are Parquet's, so that anybody's tools read a
//! file; what Parquet does not say stands beside its own metadata: a checksum of each *chunk* (a column of a row group), and the
//! beginning of every [`GRANULE_ROWS`]th row, by which a row is found without decoding the others.
//!
//! Pure: where bytes come from is the caller's business ([`file::Fetch`]). Rows are those of [`repr::row`], and come back byte by
//! byte as they were.
//!
//! # Invariants
//! * Rows ascend by their bytes across the whole file; a row that is there several times stands there several times.
//! * Nothing is decoded whose checksum was not found right.
#![warn(missing_docs)]

pub mod cache;
pub mod distinct;
pub mod facts;
pub mod file;
pub mod find;
mod marks;
mod packed;
pub mod shape;
pub mod writer;

pub use cache::Cache;
pub use distinct::Distinct;
pub use facts::Bounds;
pub use file::{Fetch, File, Group};
pub use find::Finder;
pub use shape::Shape;
pub use writer::Writer;

/// Rows of a row group, except the last: what is decoded at once.
pub const GROUP_ROWS: usize = 1 << 16;
/// Bytes of rows of a row group at the most, if it has more than one row.
pub const GROUP_BYTES: usize = 32 << 20;
/// Rows from one mark to the next.
pub const GRANULE_ROWS: usize = 1 << 10;

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not what was written.
    #[error("{0}")]
    Damaged(String),
    /// It is of a newer version.
    #[error("columns have format version {found}, this version reads {supported}")]
    Version {
        /// The version of the file.
        found: u64,
        /// The newest that is read.
        supported: u64,
    },
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Error {
        Error::Damaged(error.to_string())
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Error {
        Error::Damaged(error.to_string())
    }
}

impl From<repr::row::RowError> for Error {
    fn from(error: repr::row::RowError) -> Error {
        Error::Damaged(error.to_string())
    }
}
