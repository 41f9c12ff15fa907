//! From what a client sends to the verb that does it: what is prepared, run, run again, run elsewhere, noted.

pub(crate) mod execute;
pub(crate) mod prepare;
pub(crate) mod replan;
pub(crate) mod sampling;
pub(crate) mod short;
pub(crate) mod staying;
