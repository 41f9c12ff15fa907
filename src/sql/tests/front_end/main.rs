//! The front end from outside: text in, plans and answers out. One program, because each links the engine.

#[path = "../support/catalog.rs"]
mod catalog;

mod answers;
mod lift;
mod params;
mod parser;
mod plan;
mod reads;
