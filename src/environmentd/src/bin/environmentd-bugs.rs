//! The server with bugs on purpose, of which `GLIMPSE_BUG` chooses one: for `test/consistency`, which must find it.

use std::process::ExitCode;

#[path = "../main.rs"]
mod server;

fn main() -> ExitCode {
    server::main()
}
