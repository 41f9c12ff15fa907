//! What the standard library lacks: named tasks and threads, signals, an injectable clock, metric handles, `sometimes`.
//!
//! The lowest crate of the workspace (rank 1). It knows nothing of SQL, rows or storage; every crate above may
//! use it, and a small helper that two crates want belongs here.
//!
//! Entry points:
//! * [`task::spawn`] and [`thread::spawn`]: the only ways to start something that runs beside its caller.
//! * [`thread::Beside`]: where whoever starts something does not say how it runs, so that a simulation can decide when.
//! * [`clock::Clock`]: the only way to ask what time it is, so that a test can move time by hand.
//! * [`memory::Share`]: a part of the memory, from which whoever allocates much takes it.
//! * [`metrics::Registry`]: makes the counters, gauges and histograms that a crate's `metrics.rs` holds.
//! * [`exit::end`]: how the process ends where it cannot go on.
//! * [`until::until`]: work that a signal may end.
//! * [`abandon`]: gives a future up at every poll, to test that it may be.
//! * [`sometimes()`]: skips a fast path or a cache in tests, so that both paths meet every test.
//!
//! Deliberately absent: I/O, retries, configuration, error types, collections.

pub mod abandon;
pub mod clock;
pub mod counter;
pub mod exit;
pub mod memory;
pub mod metrics;
mod panic;
mod sometimes;
pub mod task;
pub mod thread;
pub mod turns;
pub mod until;

pub use sometimes::sometimes;
