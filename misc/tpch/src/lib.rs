//! TPC-H for tests and benchmarks: the tables, the 22 queries, rows at any scale, and a stream of changes to them.
//!
//! Rows come from the `tpchgen` crate, so they are those of the benchmark except for comments, which are cut from a smaller
//! pool of text. [`Data`] holds all of them; [`Changes`] draws inserts, updates and deletes from a seed, keeps its own copy
//! of the data in step, and says each change both as rows and as SQL.
//!
//! # Invariants
//! - The same scale and seed give the same rows and changes, on every machine.
//! - Keys stay unique, and an order comes and goes with its lines.

mod changes;
mod data;
mod table;

pub use changes::{Change, Changes, Mix, statements};
pub use data::{Data, Order};
pub use table::{Row, Table};

/// CREATE TABLE for all tables, with semicolons.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The queries: paragraphs, each with a line `-- name: q01` and ended by a semicolon.
pub const QUERIES: &str = include_str!("queries.sql");

/// The [`QUERIES`] by name, each without its semicolon.
pub fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let paragraphs = QUERIES.split("\n\n").filter_map(|paragraph| paragraph.trim().strip_prefix("-- name: "));
    paragraphs.filter_map(|paragraph| {
        let (name, query) = paragraph.split_once('\n')?;
        Some((name.trim(), query.trim().trim_end_matches(';')))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_are_22_queries() {
        let names: Vec<&str> = super::queries().map(|(name, _)| name).collect();
        let expected: Vec<String> = (1..=22).map(|n| format!("q{n:02}")).collect();
        assert_eq!(names, expected);
        assert!(super::queries().all(|(_, query)| query.starts_with("SELECT") || query.starts_with("WITH")));
    }
}
