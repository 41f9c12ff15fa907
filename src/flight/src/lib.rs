//! The Flight SQL door: results as Arrow for whoever speaks gRPC, and Arrow in.
//!
//! Where it sits: beside `web`, over the statement API (`adapter::answer`) and `door`. It translates and decides nothing.
//!
//! - [`server`]: the port; `service`: the calls of Flight, and which of them carries which command of Flight SQL;
//! - `accounted`: memory of what a call sends;
//! - `welcome`: who calls, and in which session; `handshake`: tokens for who has shown a password;
//! - `statement`: what a ticket and the handle of a prepared statement are, and what is bound to it;
//! - `answering`: statements and their rows; `sending`: rows as messages; `receiving`: the batches of a client;
//! - `transaction`: sessions that are kept from one call to another;
//! - `ingest`: rows into a table, which may have to be made for them;
//! - `relations`, `information`: what there is, and what the server can;
//! - `told`: errors as gRPC has them. [`fuzz`] is for tests.
//!
//! # Invariants
//! - Nothing is kept of a statement between two calls but what is bound to it and the transaction that it is in, and both end with their
//!   connection.
//! - A stream is ended without an error only if all rows were sent.

mod accounted;
mod answering;
pub mod fuzz;
mod handshake;
mod information;
mod ingest;
mod receiving;
mod relations;
mod sending;
pub mod server;
mod service;
mod statement;
mod told;
mod transaction;
mod welcome;
