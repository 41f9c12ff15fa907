//! From a syntax tree to a plan, with Postgres as the referee of every name, type and error.
//!
//! Sits between the wire and the executors: the adapter hands in a [`Statement`](sql_syntax::ast::Statement) and gets back a
//! [`plan::Plan`]. [`plan::plan`] resolves names against the catalog ([`plan::CatalogView`], implemented by the catalog's immutable
//! state) and checks privileges; [`bind`] makes typed logical plans of queries by Postgres's rules (literals, unknown types,
//! overloads of operators and functions, output names, scopes, errors), which the [`engine`] optimises and runs. DataFusion's own SQL
//! front end and its type coercion are not used, because their rules differ from Postgres's in places that no later pass can mend: by
//! the time a rule sees `1 + '2'` the type of the literal has been decided. [`vars`] knows the configuration parameters, and
//! [`plan::lift`] takes literals out of a statement's text so that plans can be shared between statements.
//!
//! Deliberately absent: tokio, I/O, clocks, and anything that belongs to one session; the adapter has those.

pub mod bind;
mod catalog;
mod dates;
pub mod dialect;
pub mod names;
pub mod plan;
pub mod row_count;
pub mod row_locks;
pub mod secret;
pub mod sequence;
pub mod vars;
pub mod webhook;
