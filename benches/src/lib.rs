//! The benchmark: a load generator, a canned-reply server, and the suite that compares servers.
//!
//! What it is for: claims of speed are ratios, measured side by side in one run. Twelve programs share this library:
//! - `floor` answers every query with canned bytes and parses nothing but framing: what a tokio server costs at least.
//! - `load` drives one server with one workload and prints what it measured as JSON.
//! - `bench` starts floor, Glimpse and a PostgreSQL, alternates `load` between them and prints the table of ratios.
//! - `profile` holds one workload on a server and fetches its flamegraph.
//! - `oracle` reads the time from a PostgreSQL, side by side and through the product's own timestamp oracle.
//! - `lease` compares reads under a lease on a shared time with reads of a server that has the time to itself.
//! - `adhoc` compares the queries of TPC-H with those of PostgreSQL and DuckDB.
//! - `oltp` compares transactions over tables with keys with those of PostgreSQL, `pgbench`'s among them.
//! - `connections` measures logins and reads beside thousands of connections that ask nothing.
//! - `http` compares point reads by HTTP with those by the Postgres protocol, and with answers from memory; and measures who waits.
//! - `views` keeps the queries of TPC-H fresh in Glimpse while their tables change.
//! - `maintain` compares the dataflows of such views, without a server, with programs written by hand.
//!
//! The flow, top to bottom: [`suite`] decides what runs when, [`servers`] starts what is measured, [`run`] holds the
//! threads and the clock of one run, [`driver`] makes and verifies the queries of one connection, [`connection`]
//! and [`wire`] know bytes, [`tls`] has the certificates. [`arguments`] is what several programs are told alike. [`report`] turns measurements into a table.
//!
//! Deliberately absent: any use of the product's own crates by what judges a server. The client must not share a bug, or a
//! buffer, with it.
//!
//! # Invariants
//! - Every reply of a real server is verified: the row holds the id that was asked for. An error reply fails the run.
//! - Latency is measured for every round trip that ends inside the measured window; nothing is sampled.

pub mod adhoc;
pub mod admin;
pub mod arguments;
pub mod connection;
pub mod crowd;
pub mod driver;
pub mod followers;
pub mod freshness;
pub mod histogram;
pub mod http;
pub mod http_load;
pub mod lease;
pub mod machine;
pub mod oltp;
pub mod oracle;
pub mod pgbench;
pub mod procfs;
pub mod report;
pub mod run;
pub mod scan;
pub mod servers;
pub mod stream;
pub mod suite;
pub mod tls;
pub mod views;
pub mod wire;
pub mod workload;
