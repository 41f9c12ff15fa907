//! How the process ends by itself, and what whoever supervises it may make of that.
//!
//! What a panic leaves behind that nobody may build upon ends the process by SIGABRT ([`crate::task::spawn_critical`]); that is a
//! mistake of ours. What is here is not: the message says what happened, the code what to do.

use std::fmt::Display;
use std::io::Write;

/// Exit codes; 0 is a stop that was asked for, 2 a command line that cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It could not start: a flag, a port, a store that is not reachable, no room on the disk.
    Refused = 1,
    /// Another process has taken over.
    Replaced = 3,
    /// The disk failed. What the kernel holds of the files cannot be trusted any more; a start reads them again.
    StorageFailed = 4,
    /// What is durable is damaged, or not what it is known to have been. Another start does not help.
    Damaged = 5,
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> u8 {
        exit as u8
    }
}

/// How the process ends: [`end`], but in a simulation, which goes on without it.
pub type End = fn(Exit, &dyn Display) -> !;

/// Ends the process at once, with a last line that says why. Destructors are not run.
pub fn end(exit: Exit, why: &dyn Display) -> ! {
    last_line(why);
    std::process::exit(i32::from(u8::from(exit)))
}

/// Says why the process ends.
pub fn last_line(why: &dyn Display) {
    let _unheard = writeln!(std::io::stderr(), "environmentd: {why}");
}
