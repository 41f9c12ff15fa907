//! The features of external crates that only some of our crates ask for, directly or by what they use.
//!
//! Cargo unifies features over the packages that a command selects, so `-p sql` and `--workspace`, or a build and the tests
//! after it, would compile such a crate twice, and with it all that stands on it. Every crate of ours depends on this one by
//! way of `ore` or `repr`, so that each is compiled with all features that anything in the workspace asks for. Named here is
//! the crate whose features differ, not what asks for them: a crate of ours waits for no benchmark's or test's library.
//!
//! `bin/test` fails if a library was compiled twice, and says which feature is missing here.
