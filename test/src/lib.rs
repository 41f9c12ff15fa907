//! The harness of the system tests: servers to test, clients that speak raw wire bytes, and the record formats.
//!
//! A test starts a [`target::Target`]: the Glimpse server of this workspace, or, with `GLIMPSE_TEST_TARGET=postgres`,
//! a throw-away PostgreSQL. Both answer the same suites, which is how the suites themselves are proved: an
//! expectation that the referee does not meet is a mistake of the test.
//!
//! # Where to look
//! - [`process`]: free ports, spawning, signals, waiting; what both servers share.
//! - [`server`]: Glimpse as a child process, with `kill9`, `sigterm` and `restart`.
//! - [`postgres_server`]: PostgreSQL as a child process, found on this machine.
//! - [`s3_server`]: an S3-compatible service as a child process.
//! - [`target`]: one of the two; [`secured`]: one with a certificate and host-based rules.
//! - [`programs`]: psql, Python and the like, run as clients.
//! - [`http`]: a client of the HTTP ports.
//! - [`wire`]: a blocking client that sees every message, and the builders of frontend messages.
//! - [`hostile`]: frames that no client sends.
//! - [`blocks`]: text files of inputs with recorded outputs, the form of the next two.
//! - [`pgtest`]: scripts of wire messages (`pgtest/*.pt`).
//! - [`slt`]: sqllogictest files: the driver, the runner, the list of differences.
//! - [`views`]: maintained views against their queries, ad hoc and in PostgreSQL.
//! - [`random_sql`]: random queries, and [`choices`], by which they are made again and made simpler.
//! - [`columns`]: names and type OIDs of result columns.
//! - `bin/record.rs`: writes the expectations of all of them from PostgreSQL.
//!
//! # Invariants
//! - A process that the harness started ends when its handle is dropped, by process id.
//! - Nothing waits for a fixed time: every wait polls for what it waits for and has a deadline that fails the test.

pub mod blocks;
pub mod choices;
pub mod columns;
pub mod hostile;
pub mod http;
pub mod pgtest;
pub mod postgres_server;
pub mod process;
pub mod programs;
pub mod random_sql;
pub mod s3_server;
pub mod secured;
pub mod server;
pub mod slt;
pub mod target;
pub mod tokens;
pub mod views;
pub mod wire;

/// Where this crate's data is: what cargo says when it runs a test, because a build cache may be older than the checkout.
pub fn manifest_dir() -> std::path::PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), Into::into)
}

/// Whether this is `bin/test --long`.
pub fn is_long() -> bool {
    std::env::var_os("GLIMPSE_TEST_LONG").is_some()
}

/// How much a test does of what it could do without end: so much, and twenty times as much under `bin/test --long`.
pub fn amount(small: u64) -> u64 {
    if is_long() { small * 20 } else { small }
}
