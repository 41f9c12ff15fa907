//! Holds every external dependency with all the features that any crate of the workspace asks for.
//!
//! Cargo unifies features over the packages that a command selects, so `-p sql` and `--workspace` would otherwise build
//! the large dependencies twice. Every crate depends on this one by way of `ore` or `repr`; it has no code.
