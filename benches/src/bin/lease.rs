//! Reads under a lease on a shared time, beside reads with the time embedded. `bin/bench lease` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use anyhow::Result;
use benches::arguments::{Places, Window};
use benches::lease::{Options, Pair};
use benches::machine::Machine;
use clap::Parser;

/// The bars: reads per second under the lease over those without a store, and the part of reads that are from memory.
const BAR_RATIO: f64 = 0.9;
const BAR_HIT_RATE: f64 = 0.999;

/// Starts Glimpse twice, once with its time in a PostgreSQL, and compares their point reads.
#[derive(Parser)]
struct Arguments {
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    connections: Vec<u32>,
    /// Runs of each server; figures are medians.
    #[arg(long, default_value_t = 5)]
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
    let mut pair = Pair::start(Options {
        connections: arguments.connections,
        rounds: arguments.rounds,
        window: arguments.window,
        rows: arguments.rows,
        places: arguments.places,
    })?;
    println!("| point reads | connections | embedded /s | under a lease /s | ratio |");
    println!("|---|--:|--:|--:|--:|");
    let lines = pair.compare(|line| {
        let (protocol, connections) = (format!("{:?}", line.protocol).to_lowercase(), line.connections);
        println!(
            "| {protocol} | {connections} | {:.0} | {:.0} | {:.2} |",
            line.embedded_qps, line.leased_qps, line.ratio
        );
    })?;
    let hits = pair.hits()?;
    let (rate, least) = (hits.rate(), lines.iter().map(|line| line.ratio).fold(f64::MAX, f64::min));
    let verdict = |is_reached: bool| if is_reached { "reached" } else { "missed" };
    println!("\nThe least ratio: {least:.2}, bar {BAR_RATIO}: {}", verdict(least >= BAR_RATIO));
    let shown = format!("{:.0} hits, {:.0} misses, {:.3} %", hits.hits, hits.misses, rate * 100.0);
    println!("Reads of the time: {shown}, bar {:.1} %: {}", BAR_HIT_RATE * 100.0, verdict(rate > BAR_HIT_RATE));
    Ok(())
}
