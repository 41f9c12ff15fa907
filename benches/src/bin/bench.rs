//! The benchmark: floor, Glimpse and PostgreSQL side by side, and the table of ratios. `bin/bench` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use benches::arguments::Places;
use benches::report;
use benches::servers::Target;
use benches::suite::{Options, run_suite};
use clap::Parser;

/// Compares Glimpse with a canned-reply server (the floor) and with PostgreSQL, on this machine, in this run.
#[derive(Parser)]
struct Arguments {
    /// Workloads: select_star, point[_simple|_prepared|_binary], tls, pipelined, mixed,
    /// insert[_simple|_prepared|_multi|_copy], memory. All when not given.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',')]
    connections: Vec<u32>,
    /// Runs per server; figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Measured seconds of a run [default: 5, quick: 2].
    #[arg(long)]
    duration: Option<f64>,
    /// Seconds before measuring [default: 1, quick: 0.5].
    #[arg(long)]
    warmup: Option<f64>,
    /// Shorter runs, and 64 connections only.
    #[arg(long)]
    quick: bool,
    /// Servers to run.
    #[arg(long, value_delimiter = ',', default_value = "floor,glimpse,postgres")]
    targets: Vec<Target>,
    /// Rows of kv.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Client threads.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Describe portals before Execute, as libpq does.
    #[arg(long)]
    describe: bool,
    /// The first seed of random ids.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write everything to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    places: Places,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (connections, duration, warmup) =
        if arguments.quick { (vec![64], 2.0, 0.5) } else { (vec![1, 16, 64], 5.0, 1.0) };
    let options = Options {
        targets: arguments.targets,
        only: arguments.only,
        connections: if arguments.connections.is_empty() { connections } else { arguments.connections },
        rounds: arguments.rounds,
        duration: Duration::from_secs_f64(arguments.duration.unwrap_or(duration)),
        warmup: Duration::from_secs_f64(arguments.warmup.unwrap_or(warmup)),
        rows: arguments.rows,
        threads: arguments.threads,
        describe: arguments.describe,
        seed: arguments.seed,
        places: arguments.places,
    };
    let results = run_suite(options)?;
    println!("{}", report::render(&results));
    if let Some(path) = arguments.json {
        std::fs::write(&path, format!("{:#}\n", report::to_json(&results)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
