//! The verbs: what a session can ask for, from its text to its answer.
//!
//! A door holds a [`client::Client`] and opens a session per connection. One without a protocol of statements and portals asks
//! [`seat::Seat::answer`] for the answer to a statement with values, and pulls its rows as Arrow batches of bounded bytes. `pgwire` has
//! such a protocol: it uses the session's verbs, and pulls [`response::Response`]s, whose rows it encodes as they are stored. The read
//! path is [`plan_cache`] → [`select`]; writes go to the `committer`. Deliberately absent: wire bytes and the formats of values, and the
//! name of `compute`, which only the server joins to this crate.

mod activity;
mod admission;
mod advisory;
pub mod answer;
pub mod batches;
pub mod bindable;
mod cancel;
pub mod client;
mod copy;
pub mod copy_in;
pub mod description;
pub mod error;
pub mod explain;
pub mod metrics;
pub mod password;
pub mod response;
mod sampling;
pub mod seat;
mod sequence;
pub mod session;
mod settings;
mod shared;
mod short;
pub mod startup;
pub mod status;
mod staying;
pub mod waiting;

mod create_table_as;
mod ddl;
mod execute;
mod history;
mod insert;
mod introspection;
mod on_conflict;
mod own;
mod plan_cache;
mod prepare;
mod read_then_write;
mod reader;
mod replan;
mod rewrite;
mod select;
mod show;
mod subscribe;
mod temporary;
mod transaction;
mod write;
