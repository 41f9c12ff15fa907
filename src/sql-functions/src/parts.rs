//! Columns whose texts are parts of another column's.

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use std::sync::Arc;

/// A part of each text of a column.
pub(crate) fn parts_of(texts: &StringViewArray, part: impl Fn(&str) -> &str) -> ArrayRef {
    let mut parts = StringViewBuilder::with_capacity(texts.len());
    texts.iter().for_each(|text| parts.append_option(text.map(&part)));
    Arc::new(parts.finish())
}
