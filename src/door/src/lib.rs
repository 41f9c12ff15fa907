//! What every door needs: listeners and the threads that connections live on ([`server`]), TLS ([`tls`]), and who may come in and what
//! it has to show ([`entrance`], by the rules of [`hba`]; [`scram`], [`token`]). Of doors over HTTP: connections ([`http`]), what is kept of
//! one between two requests ([`visitor`], [`crowd`]), and who sends one ([`shown`]). [`apart`] does what would hold up
//! others; [`exchange`] makes rows what other programs know as Arrow, and [`intake`] takes theirs, of [`messages`].
//!
//! Where it sits: between `adapter`, whose sessions it opens, and the doors, which speak a protocol. Deliberately absent: any
//! protocol of statements; how a secret is asked for. [`fuzz`] is for tests.

pub mod apart;
pub mod crowd;
pub mod entrance;
pub mod exchange;
pub mod fuzz;
pub mod hba;
pub mod http;
pub mod intake;
pub mod messages;
pub mod place;
pub mod scram;
pub mod server;
pub mod shown;
pub mod tls;
pub mod token;
pub mod visitor;
