//! What every door needs: listeners and the threads that connections live on ([`server`]), TLS ([`tls`]), and who may come in and what
//! it has to show ([`entrance`], by the rules of [`hba`]; [`scram`], [`token`]). [`apart`] does what would hold up
//! others; [`exchange`] makes rows what other programs know as Arrow, and [`intake`] takes theirs.
//!
//! Where it sits: between `adapter`, whose sessions it opens, and the doors, which speak a protocol. Deliberately absent: any
//! protocol; how a secret is asked for. [`fuzz`] is for tests.

pub mod apart;
pub mod entrance;
pub mod exchange;
pub mod fuzz;
pub mod hba;
pub mod intake;
pub mod scram;
pub mod server;
pub mod tls;
pub mod token;
