//! A program that asks whether to make each mistake, and whether to panic: what the compiler leaves of the questions is what it leaves of them in a
//! server. `test/tests/shipped.rs` looks for their names in it.

use bugs::Bug;
use std::process::ExitCode;

fn main() -> ExitCode {
    bugs::panic_sometimes("asks");
    ExitCode::from(u8::from(Bug::ALL.into_iter().any(bugs::is)))
}
