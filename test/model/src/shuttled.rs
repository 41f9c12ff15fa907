//! The product's files with shuttle's atomics.

mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
}

#[path = "../../../src/timestamp-oracle/src/tickets.rs"]
pub(crate) mod tickets;
