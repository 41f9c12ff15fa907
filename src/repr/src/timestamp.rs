//! Times and multiplicities of updates.

/// Microseconds since the Unix epoch on the one timeline.
///
/// Microseconds and not milliseconds: one connection commits several thousand durable rows a second, each at a
/// timestamp of its own, which in milliseconds would run ahead of the wall clock without bound.
pub type Timestamp = u64;

/// How many copies of a row an update adds (positive) or removes (negative).
pub type Diff = i64;
