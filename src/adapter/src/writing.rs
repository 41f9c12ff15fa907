//! How rows are written: by INSERT, UPDATE, DELETE, TRUNCATE and COPY, and by webhooks.

mod append;
pub(crate) mod copy;
pub mod copy_in;
pub(crate) mod insert;
pub(crate) mod locking;
pub(crate) mod on_conflict;
pub(crate) mod read_then_write;
pub(crate) mod references;
pub mod webhook;
pub(crate) mod write;
