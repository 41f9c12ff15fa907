//! TPC-H as maintained views. `bin/bench views` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use benches::machine::Machine;
use benches::views::{AtScale, Options, run};
use clap::Parser;

/// Keeps the queries of TPC-H fresh in Glimpse under a stream of changes, and says what that costs.
#[derive(Parser)]
struct Arguments {
    /// Sizes of the data: 1 has six million lines.
    #[arg(long, value_delimiter = ',', default_value = "0.1")]
    scale: Vec<f64>,
    /// Queries: q01 to q22. All when not given.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Changed rows per second at which latency is measured.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    rates: Vec<u32>,
    /// Seconds of each stream at a rate.
    #[arg(long, default_value_t = 3.0)]
    duration: f64,
    /// Rows that change in the stream without a rate.
    #[arg(long, default_value_t = 30_000)]
    burst_rows: u64,
    /// Connections that write.
    #[arg(long, default_value_t = 16)]
    writers: usize,
    /// The seed of the changes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the server keeps its data [default: the system's temporary directory].
    #[arg(long)]
    work_dir: Option<PathBuf>,
    /// The server binary, when it is not the one built beside this program.
    #[arg(long)]
    environmentd: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let options = Options {
        scales: arguments.scale,
        only: arguments.only,
        rates: arguments.rates,
        duration: Duration::from_secs_f64(arguments.duration),
        burst_rows: arguments.burst_rows,
        writers: arguments.writers.max(1),
        seed: arguments.seed,
        work_dir: arguments.work_dir.unwrap_or_else(std::env::temp_dir),
        environmentd: arguments.environmentd,
    };
    println!("{}", Machine::inspect(&options.work_dir)?.line());
    let measured = run(&options, |line| eprintln!("{line}"))?;
    measured.iter().for_each(|at| print(at, &options.rates));
    Ok(())
}

fn print(at: &AtScale, rates: &[u32]) {
    println!("\nScale {}, {} lines at first.\n", at.scale, at.lineitems);
    let columns: String = rates.iter().map(|rate| format!(" p50 ms at {rate}/s | p99 | reached /s |")).collect();
    println!("| query | rows | build s | memory MB | changed rows/s |{columns}");
    println!("|---|--:|--:|--:|--:|{}", "--:|--:|--:|".repeat(rates.len()));
    for line in &at.lines {
        let megabytes = line.bytes as f64 / 1e6;
        let (build, rate) = (line.build.as_secs_f64(), line.burst.rate());
        let paced = line.paced.iter().map(|streamed| {
            let [half, most] = [0.5, 0.99].map(|quantile| streamed.visible.quantile_us(quantile) / 1e3);
            format!(" {half:.2} | {most:.2} | {:.0} |", streamed.rate())
        });
        let paced: String = paced.collect();
        println!("| {} | {} | {build:.2} | {megabytes:.0} | {rate:.0} |{paced}", line.name, line.rows);
    }
    let (idle, busy) = at.reads;
    println!("\nReads of one row of a view: {idle:.0}/s idle, {busy:.0}/s while it changes: {:.2} of it.", busy / idle);
    let [half, most] = [0.5, 0.99].map(|quantile| at.single.quantile_us(quantile) / 1e3);
    println!(
        "One changed line through two joins and an aggregate, from UPDATE to read: p50 {half:.2} ms, p99 {most:.2} ms."
    );
}
