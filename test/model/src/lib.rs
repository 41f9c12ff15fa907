//! The steps that threads take over shared memory without a lock, run through the orders in which they can take them.
//!
//! Nothing is written twice: files of the product are compiled here again, against the atomics of a model checker. `loom`
//! goes through every order of a few threads, and every value that the memory model lets a load return; `shuttle`
//! takes random orders of more of them.
//!
//! | model | product | promise |
//! |---|---|---|
//! | [`publication`] | `word.rs`, `clock.rs` | a read finds every write that was acknowledged before it was asked |
//! | [`lease`] | `word.rs`, `lease.rs` | an owner that was replaced answers from memory nothing that its successor has outdated |
//! | [`tickets`] | `tickets.rs` | an answer comes from a call that began after the question; nobody waits for ever |
//!
//! A model takes the mistakes it must find as an argument: `tests/` has each of them fail, and the product pass. What a
//! model leaves out is said at its head.

pub mod lease;
mod loomed;
pub mod publication;
mod shuttled;
pub mod tickets;
