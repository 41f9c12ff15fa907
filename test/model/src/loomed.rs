//! The product's files with loom's atomics.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[path = "../../../src/compute-client/src/clock.rs"]
#[allow(unreachable_pub, reason = "it is public where it belongs")]
pub(crate) mod clock;
#[path = "../../../src/timestamp-oracle/src/lease.rs"]
pub(crate) mod lease;
#[path = "../../../src/timestamp-oracle/src/word.rs"]
pub(crate) mod word;
