//! Ordinary transactions beside PostgreSQL. `bin/bench oltp` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use anyhow::{Result, ensure};
use benches::arguments::{Places, Window};
use benches::machine::Machine;
use benches::oltp::{CASES, Options, Pair, memory};
use benches::workload::Protocol;
use clap::Parser;

/// The names that are not cases of a table.
const THINK: &str = "think";
const MEMORY: &str = "memory";

/// Starts Glimpse and a PostgreSQL, and compares transactions over tables with keys.
#[derive(Parser)]
struct Arguments {
    /// tpcb, insert, refer, update, upsert, ten, hot, think, memory.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How statements are sent: simple or prepared.
    #[arg(long, default_value = "simple")]
    protocol: Protocol,
    /// Runs of each server; figures are medians.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    #[command(flatten)]
    window: Window,
    /// Rows of the table that is changed.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    #[command(flatten)]
    places: Places,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    for name in &arguments.only {
        let is_known = [THINK, MEMORY].contains(&name.as_str()) || CASES.iter().any(|case| case.name == name);
        ensure!(is_known, "there is nothing named {name}");
    }
    println!("{}\n", Machine::inspect(&arguments.places.work_dir)?.line());
    let Arguments { only, protocol, rounds, window, rows, places } = arguments;
    let options = Options { only, protocol, rounds, window, rows, places: places.clone() };
    let (thinks, weighs) = (options.selects(THINK), options.selects(MEMORY));
    let selected: Vec<_> = CASES.iter().filter(|case| options.selects(case.name)).collect();
    if thinks || !selected.is_empty() {
        let mut pair = Pair::start(options)?;
        println!(
            "| {protocol:?} | conns | Glimpse /s | PG /s | / PG | bar | | p50 us | p99 us | PG p50 | PG p99 | p99 / PG | server CPU us | PG |"
        );
        println!("|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|");
        for case in selected {
            for (connections, bar) in case.bars {
                let line = pair.compare(case, *connections)?;
                let p99_bar = case.p99_bar.unwrap_or(f64::INFINITY);
                let verdict = if line.ratio >= *bar && line.p99_ratio <= p99_bar { "met" } else { "MISSED" };
                let (ours, theirs) = (line.glimpse, line.postgres);
                println!(
                    "| {} | {connections} | {:.0} | {:.0} | {:.2} | {bar:.1} | {verdict} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.0} | {:.0} |",
                    case.name,
                    ours.per_second,
                    theirs.per_second,
                    line.ratio,
                    ours.p50_us,
                    ours.p99_us,
                    theirs.p50_us,
                    theirs.p99_us,
                    line.p99_ratio,
                    ours.server_cpu_us,
                    theirs.server_cpu_us
                );
            }
        }
        if thinks {
            let thoughts = pair.think()?;
            println!(
                "\n{} transactions that read a row, think and change it, beside {:.0} commits/s to other rows: none failed.",
                thoughts.transactions, thoughts.commits_per_second
            );
        }
    }
    if weighs {
        let [key, index] = memory(&places, rows)?.map(|bytes| bytes as f64 / f64::from(rows));
        println!(
            "\nBytes of memory per row: {key:.0} with a primary key, {index:.0} with an index instead: {:.2} of it.",
            key / index
        );
    }
    Ok(())
}
