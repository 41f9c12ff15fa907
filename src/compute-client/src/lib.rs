//! Handles on maintained collections: how the rest of the system talks to timely workers and reads what they publish.
//!
//! Commands go down ([`protocol`], [`controller`]); snapshots come back through [`index::IndexHandle`]s, which any thread
//! reads ([`peek`]) without a message to anybody. [`plan`] decides which SELECTs a peek can answer. Deliberately absent:
//! the workers themselves (crate `compute`), so that they may one day live in another process.
#![warn(missing_docs)]

pub mod clock;
pub mod controller;
pub mod early;
pub mod error;
pub mod hydration;
pub mod index;
pub mod layout;
pub mod peek;
pub mod plan;
pub mod progress;
pub mod protocol;
pub mod queue;
pub mod read_hold;
pub mod schedule;
pub mod tail;
pub mod uncommitted;

/// Where [`clock`] takes its atomics from.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}
