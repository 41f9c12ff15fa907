//! What exists: databases, schemas, relations, clusters, roles, privileges and system parameters.
//!
//! The catalog at one revision is a [`state::State`], an immutable value that every session reads through an `Arc`. Its
//! one writer is the committer, which hands a list of [`transact::Op`]s to [`Catalog::prepare`] and gets back the next
//! state, what has to be made durable, and what follows for storage and compute ([`transact::StateDiff`]). This crate
//! writes nothing by itself: the committer commits the returned [`persist::MetaWrite`]s and only then publishes the state.
//!
//! Entry points: [`Catalog::open`], [`Catalog::boot`], [`Catalog::prepare`], and [`state::State`] through
//! [`sql::plan::CatalogView`].
//!
//! Deliberately absent: name resolution and privilege checks of statements (`sql`), time, threads, and everything that
//! has to be done because of a change (`committer::implications`).

pub mod builtin;
mod catalog;
mod durable;
pub mod error;
pub mod objects;
pub mod state;
pub mod system;
pub mod transact;
pub mod verifier;

pub use catalog::Catalog;
