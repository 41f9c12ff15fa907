//! The HTTP door: SQL for whoever speaks HTTP, beside what operators ask for.
//!
//! Where it sits: beside `pgwire`, over the statement API (`adapter::answer`) and `door`. It translates and decides nothing.
//!
//! - [`server`]: the ports; [`api`]: the routes, and what is told of them;
//! - `identify`: who sends a request, and whether a page of somebody else's has made a browser send it;
//! - `sql`: `POST /api/sql`: what is asked (`request`), which form the answer has (`format`): the results of any statements (`results`), or the
//!   rows of one (`single`); `statements` runs them one after the other;
//! - `running`: a request's work, in a session of whoever asks;
//! - `cube`: Cube's API, `/cubejs-api/v1/…`;
//! - `once`: requests that are carried out once, however often they come;
//! - `events`: SUBSCRIBE as events, also by `GET /api/subscribe`;
//! - `copy`: rows in, as CSV, lines of objects (`objects`), Arrow or Parquet;
//! - `webhook`: `POST /api/webhook/…`, rows of webhooks;
//! - `sockets`: what WebSockets have in common;
//! - `websocket`: `/api/experimental/sql`, a session for as long as the socket is open;
//! - `printing`, `json`, `csv`: how rows look; `told`: how errors and notices do;
//! - `outlet`: where what is printed goes; `sink`: a body that begins before its end is known.
//!
//! [`fuzz`] is for tests.
//!
//! # Invariants
//! - A body is finished only if all of it was told: what fails after the first byte breaks the connection, but where clients look for it in a line
//!   of its own (`cube/cubesql`).
//! - A session that is not as new is never used for another request.

pub mod api;
mod copy;
mod csv;
pub mod cube;
mod events;
mod format;
pub mod fuzz;
mod identify;
mod json;
mod objects;
mod once;
mod outlet;
mod printing;
mod request;
mod results;
mod running;
pub mod server;
mod shared;
mod single;
mod sink;
mod sockets;
mod sql;
mod statements;
mod told;
mod webhook;
mod websocket;
