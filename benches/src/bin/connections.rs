//! Logins and reads beside thousands of connections that ask nothing. `bin/bench connections` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use anyhow::Result;
use benches::arguments::{Places, Window};
use benches::crowd::{Crowd, Options, Stand};
use benches::machine::Machine;
use clap::Parser;

/// Starts Glimpse and measures logins and point reads alone, beside idle sessions, and beside handshakes that do not end.
#[derive(Parser)]
struct Arguments {
    /// Sessions that ask nothing.
    #[arg(long, default_value_t = 10_000)]
    idle: u32,
    /// Connections whose handshake does not end.
    #[arg(long, default_value_t = 5_000)]
    half_open: u32,
    /// Connections that read.
    #[arg(long, default_value_t = 16)]
    busy: u32,
    /// Logins, one after the other, per round.
    #[arg(long, default_value_t = 1_000)]
    logins: u32,
    /// Runs beside each crowd; figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    #[command(flatten)]
    window: Window,
    /// Rows of the table that is read.
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
    #[command(flatten)]
    places: Places,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    println!("{}\n", Machine::inspect(&arguments.places.work_dir)?.line());
    let busy = arguments.busy;
    let mut stand = Stand::start(Options {
        idle: arguments.idle,
        half_open: arguments.half_open,
        busy,
        logins: arguments.logins,
        rounds: arguments.rounds,
        window: arguments.window,
        rows: arguments.rows,
        places: arguments.places,
    })?;
    println!("| beside | KiB each | login p50 us | p99 us | point reads /s, {busy} connections | p50 us | p99 us |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (crowd, what) in
        [(Crowd::Nobody, "nobody"), (Crowd::HalfOpen, "handshakes that do not end"), (Crowd::Idle, "idle sessions")]
    {
        let line = stand.measure(crowd)?;
        let (who, each) = match crowd {
            Crowd::Nobody => (what.to_owned(), "-".to_owned()),
            _ => (format!("{} {what}", line.count), format!("{:.1}", line.bytes_each / 1024.0)),
        };
        println!(
            "| {who} | {each} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            line.login_us.0, line.login_us.1, line.qps, line.read_us.0, line.read_us.1
        );
    }
    Ok(())
}
