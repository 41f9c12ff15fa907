//! Reads of the time from a shared store. `bin/bench oracle` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use std::path::PathBuf;

use anyhow::Result;
use benches::arguments::Window;
use benches::machine::Machine;
use benches::oracle::{Line, Store, Sweep};
use clap::Parser;

/// The bar: with this many readers and calls, a call answers at least so many reads.
const BAR_READERS: usize = 64;
const BAR_IN_FLIGHT: usize = 3;
const BAR_READS_PER_CALL: f64 = 8.0;

/// Sweeps readers of a timestamp oracle in a local PostgreSQL, without a lease, and compares reads under it with the
/// embedded oracle's.
#[derive(Parser)]
struct Arguments {
    /// Numbers of readers.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128")]
    readers: Vec<usize>,
    /// Numbers of calls that may be under way.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4")]
    in_flight: Vec<usize>,
    #[command(flatten)]
    window: Window,
    /// Where the server keeps its data [default: the system's temporary directory].
    #[arg(long)]
    work_dir: Option<PathBuf>,
    /// PostgreSQL's programs, if not found by themselves.
    #[arg(long)]
    pg_bin: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let work_dir = arguments.work_dir.unwrap_or_else(std::env::temp_dir);
    let sweep = Sweep { readers: arguments.readers, in_flight: arguments.in_flight, window: arguments.window };
    println!("{}", Machine::inspect(&work_dir)?.line());
    let store = Store::start(&work_dir, arguments.pg_bin.as_deref())?;
    println!("\nTime in {}; reads without a lease.\n", store.version());
    println!("| calls under way | readers | reads/s | p50 us | p99 us | reads per call |");
    println!("|--:|--:|--:|--:|--:|--:|");
    let lines = store.sweep(&sweep, |line| {
        let Line { in_flight, readers, reads_per_second, waits, reads_per_call } = line;
        let (p50, p99) = (waits.quantile_us(0.5), waits.quantile_us(0.99));
        println!("| {in_flight} | {readers} | {reads_per_second:.0} | {p50:.0} | {p99:.0} | {reads_per_call:.1} |");
    })?;
    let fast = store.fast_reads()?;
    println!("\nA read from memory: embedded {:.1} ns, under a lease {:.1} ns.\n", fast.embedded_ns, fast.leased_ns);
    let bar = lines.iter().find(|line| line.readers == BAR_READERS && line.in_flight == BAR_IN_FLIGHT);
    match bar {
        Some(line) => {
            let verdict = if line.reads_per_call >= BAR_READS_PER_CALL { "reached" } else { "missed" };
            let measured = line.reads_per_call;
            println!(
                "Reads per call, {BAR_READERS} readers, {BAR_IN_FLIGHT} calls: {measured:.1}, bar {BAR_READS_PER_CALL}: {verdict}"
            );
        }
        None => println!("Reads per call, {BAR_READERS} readers, {BAR_IN_FLIGHT} calls: not measured"),
    }
    Ok(())
}
