//! Has the features of what macros are made with unified, too.

fn main() {}
