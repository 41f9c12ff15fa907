//! Declared later in this file's life.
use super::registry::Library;
/// Declares the functions of this file.
pub fn declare(_library: &mut Library) {}
