//! The verbs: what a session can ask for, from its text to its answer.
//!
//! A door holds a [`client::Client`] and opens a session per connection. One without a protocol of statements and portals asks
//! [`seat::Seat::answer`] for the answer to a statement with values, and pulls its rows as Arrow batches of bounded bytes. `pgwire` has
//! such a protocol: it uses the session's verbs, and pulls [`response::Response`]s, whose rows it encodes as they are stored. The read
//! path is [`plan_cache`] → [`reading::select`]; writes go to the `committer`. Deliberately absent: wire bytes and the formats of values, and the
//! name of `compute`, which only the server joins to this crate.

mod catalog;
mod control;
pub mod reading;
mod reads;
pub mod writing;

mod activity;
mod advisory;
pub mod answer;
pub mod bindable;
mod cancel;
pub mod client;
mod cubes;
pub mod description;
pub mod error;
mod locks;
pub mod made;
pub mod metrics;
pub mod once;
pub mod password;
pub mod response;
mod rights;
mod running;
pub mod seat;
mod sequence;
pub mod session;
mod settings;
mod shared;
pub mod spill;
pub mod startup;
mod statements;
pub mod status;

mod history;
mod introspection;
mod plan_cache;
mod transaction;
