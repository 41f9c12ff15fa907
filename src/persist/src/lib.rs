//! Durable, time-varying collections: what an acknowledged write is written to before it is acknowledged.
//!
//! A *shard* is a collection of rows with multiplicities that changes over time. This crate sees rows as bytes and
//! knows neither columns nor SQL. Two stores hold a data directory: *consensus* (SQLite behind a journal, or a PostgreSQL that several
//! processes reach) holds every small thing that must change atomically, and *blobs* (files) hold batches that are too
//! large for it. A commit is one transaction of consensus over all touched shards and one fsync; see [`client`] for the
//! protocol.
//!
//! Where it sits: the `committer` is the only caller of [`PersistClient::commit`] and everything it wrote
//! is readable through [`PersistClient::contents`] and [`PersistClient::scan`] by anybody, which is how indexes rehydrate and how ad hoc
//! queries read tables that have no index. The catalog and the timestamp oracle keep their durable state in the key
//! and value part of the same transaction ([`MetaWrite`]).
//!
//! Entry points: [`PersistClient`], [`ShardAppend`], [`MetaWrite`], [`PersistError`].
//!
//! Deliberately absent: encodings of values, timestamps' meaning (the oracle's business), retries of indeterminate
//! commits (reopen and read back), several writers at a time.
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod background;
pub mod blob;
pub mod client;
mod compact;
pub mod consensus;
pub mod contents;
mod data_dir;
mod encoding;
mod error;
pub mod facts;
mod files;
mod inner;
mod merge;
mod output;
mod pauses;
pub mod postgres;
mod removals;
pub mod scan;
mod shard;
mod shard_id;
pub mod snapshot;
mod tls;

pub use crate::shard_id::ShardId;
pub use client::ahead::{Ahead, Blobs};
pub use client::{MetaWrite, PersistClient, ShardAppend};
pub use contents::ShardContents;
pub use error::PersistError;
pub use facts::ColumnFacts;
pub use scan::{ColumnRows, Scanned, ShardScan, SnapshotRows};
pub use shard::ShardStats;
pub use snapshot::ShardSnapshot;
