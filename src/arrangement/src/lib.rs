//! Arrangements of rows: differential's sorted batches over bytes, shared across threads, and how to read them.
//!
//! A timely worker arranges a collection by key into a spine of immutable batches ([`spine`]); after each step it
//! publishes them as a [`snapshot::Snapshot`] into a [`snapshot::SnapshotSlot`], from which any thread reads with a
//! [`snapshot::cursor`]. Deliberately absent: dataflows (crate `compute`) and waiting (crate `compute-client`).
#![warn(missing_docs)]

pub mod allowance;
pub mod arc_batch;
pub mod batcher;
mod layers;
pub mod merger;
pub mod offsets;
pub mod packed;
pub mod row_cursor;
pub mod row_layout;
pub mod snapshot;
pub mod spine;
