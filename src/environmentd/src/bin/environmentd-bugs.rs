//! The server with bugs on purpose, of which `GLIMPSE_BUG` chooses one: for `test/consistency`, which must find it.

#[path = "../main.rs"]
mod server;

fn main() -> anyhow::Result<()> {
    server::main()
}
