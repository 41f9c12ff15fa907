//! The HTTP door: SQL for whoever speaks HTTP, beside what operators ask for.
//!
//! Where it sits: beside `pgwire`, over the statement API (`adapter::answer`) and `door`. It translates and decides nothing.
//!
//! - [`server`]: the ports, and a connection from its first byte to its last;
//! - `visitor`: what is kept of a connection between two requests: who it has proved to be, and sessions with their plans;
//! - `identify`: who sends a request, and whether a page of somebody else's has made a browser send it;
//! - `sql`: `POST /api/sql`;
//! - `request`, `json`, `told`: what is asked, how rows look, how errors and notices do;
//! - `sink`: a body that begins before its end is known.
//!
//! # Invariants
//! - A body is finished only if all of it was told: what fails after the first byte breaks the connection.
//! - A session that is not as new is never used for another request.

mod identify;
mod json;
mod request;
pub mod server;
mod shared;
mod sink;
mod sql;
mod told;
mod visitor;
