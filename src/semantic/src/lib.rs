//! The semantic layer: measures and dimensions that are defined once, in Cube's YAML.
//!
//! Files come in as texts ([`model::Model::read`]), with whatever is wrong in them told with its place ([`report::Report`]). Pieces of
//! SQL in them are parsed once, and stay syntax trees. Queries come in as Cube's JSON ([`query::Query::read`]), and are made plain:
//! every range of dates is two times, every default is said.
//!
//! It stands on `sql-syntax` and knows neither the catalog nor what a relation's columns are; it reads no files and has no clock.

pub mod model;
pub mod operator;
pub mod query;
pub mod report;
pub mod security;
pub mod text;
