//! Sceptics: what clients see is recorded and compared with what is promised, while the server is killed, stopped,
//! replaced and cut off.
//!
//! A *history* is what many clients asked and were answered, with the times of both on one monotonic clock. An operation
//! whose connection was lost *may have happened*. A checker says whether any order explains a history; a *control* is a
//! server with a bug on purpose (`misc/bugs`), of which the checkers must say that none does.
//!
//! # Where to look
//! - [`stage`]: clients, clock and the end of a history; [`session`]: one connection, and what an error says about what happened.
//! - [`deployment`]: servers and stores; [`faults`]: what happens to them; [`proxy`]: a network that delays and cuts;
//!   [`clock`]: a wall clock that jumps.
//! - [`registers`]: reads, writes, compare-and-set, also of a view's definition; judged by porcupine ([`linearizable`]).
//! - [`lists`]: transactions that append and read, and SUBSCRIBE; judged by [`list_append`] with [`graph`].
//! - [`levels`]: the same over keys and foreign keys, at both levels; and whether 40001 was for a reason.
//! - [`bank`]: transfers that keep a total, which tables, views and indexes show.
//! - [`keys`]: rows of a table with a primary key, of which no two have one key.
//! - [`crash`]: acknowledged rows after `kill -9`, and on a disk that is full or fails.
//! - [`races`]: readers, DDL and compaction in each other's way.
//! - [`takeover`]: a stopped server that was replaced.
//! - [`controls`]: the bugs, and what finds each.
//! - [`runs`]: one run of each by name, for `bin/test` and for `bin/torture`.
//!
//! # Invariants
//! - A seed replays what clients ask and what happens to servers. What meets what is up to the machine.

pub mod bank;
pub mod clock;
pub mod controls;
pub mod crash;
pub mod deployment;
pub mod faults;
pub mod graph;
pub mod keys;
pub mod levels;
pub mod linearizable;
pub mod list_append;
pub mod lists;
pub mod proxy;
pub mod races;
pub mod references;
pub mod registers;
pub mod runs;
pub mod session;
pub mod stage;
pub mod takeover;
