//! From SQL text to a plan, with Postgres as the referee of every name, type and error.
//!
//! Sits between the wire and the executors: the adapter hands in text and gets back a [`plan::Plan`]. Text is parsed by
//! [`parser::parse`] into [`ast::Statement`]s; [`plan::plan`] resolves names against the catalog ([`plan::CatalogView`],
//! implemented by the catalog's immutable state), checks privileges and has queries bound and optimised by the
//! [`engine`], which is DataFusion with Postgres's semantics. [`vars`] knows the configuration parameters, and
//! [`plan::lift`] takes literals out of a statement's text so that plans can be shared between statements.
//!
//! Deliberately absent: tokio, I/O, clocks, and anything that belongs to one session; the adapter has those.

pub mod ast;
pub mod engine;
pub mod error;
pub mod functions;
pub mod names;
pub mod parser;
pub mod plan;
mod rewrite;
pub mod rules;
pub mod temporal;
pub mod vars;
