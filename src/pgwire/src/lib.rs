//! The PostgreSQL v3 wire: the door through which SQL clients come in.
//!
//! A SELECT enters here as bytes and leaves as bytes; everything between is one call into the session of `adapter`.
//! [`server`] serves what comes in through the crate `door`, [`startup`] turns a socket, or TLS over it, into a
//! session, [`connection`] runs the loop: read what is there, handle every complete message ([`codec`] frames them,
//! [`message`] decodes them), append the answers to one buffer ([`encode`], [`copy`]), and write it once.
//!
//! Entry points: [`server::serve`], [`metrics::Metrics::register`].
//!
//! Before a session there is its user, who is believed as far as the rules of `door` say and has to prove the rest to
//! [`auth`].
//!
//! Deliberately absent: client certificates, the function call protocol, replication, and any knowledge of SQL. [`fuzz`] is for tests.
#![deny(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod auth;
mod codec;
mod connection;
pub mod copy;
pub mod encode;
pub mod error;
pub mod formats;
pub mod fuzz;
mod message;
pub mod metrics;
mod packet;
pub mod server;
mod shared;
mod startup;
mod stream;
