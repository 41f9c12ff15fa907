//! The one writer of tables, catalog and time, and what follows from a change of them.
//!
//! A session holds a [`handle::Handle`] and reads [`published::Published`]; the server gives the committer an
//! [`environment::Environment`] and a thread. Deliberately absent: sessions, statements, and whoever asks.

pub mod constraint;
pub mod environment;
pub mod error;
pub mod expectations;
pub mod group_commit;
pub mod handle;
mod implications;
mod maintain;
mod materialized;
pub mod metrics;
pub mod notes;
pub mod plans;
pub mod published;
pub mod request;
pub mod rewrite;
mod seat;
pub mod sequence;
