//! From SQL text to a syntax tree.
//!
//! [`parser::parse`] makes [`ast::Statement`]s of a text: queries and expressions in them are sqlparser's trees, and everything else is
//! ours. [`keywords`] are its words, [`names`] has names as statements write them, and [`types`] the types that
//! texts name. Nothing here knows the catalog.

pub mod ast;
pub mod keywords;
pub mod names;
pub mod parser;
pub mod types;
