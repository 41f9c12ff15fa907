//! From the files of a model to trees whose nodes know their places.

pub mod fields;
pub mod jinja;
pub mod yaml;
