//! Ad hoc queries beside PostgreSQL, DuckDB and stock DataFusion. `bin/bench adhoc` builds and runs it.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use benches::adhoc::{Line, Options, Rivals, queries};
use benches::arguments::Places;
use benches::machine::Machine;
use clap::Parser;

/// Starts Glimpse and a PostgreSQL, loads TPC-H into both, and compares its queries.
#[derive(Parser)]
struct Arguments {
    /// count, filtered, total, q01 to q22.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// 1 has six million rows in the largest table.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Runs of each query; figures are medians.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Give the servers' tables their primary keys before they are loaded.
    #[arg(long)]
    keys: bool,
    /// A Python that has DuckDB, or DataFusion, or both; what it has not is left out.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Run all once more after one row of a hundred of the largest table was changed and another removed, and again a minute later.
    #[arg(long)]
    churn: bool,
    #[command(flatten)]
    places: Places,
}

fn main() -> Result<()> {
    let Arguments { only, scale, rounds, keys, python, churn, places } = Arguments::parse();
    for name in &only {
        ensure!(queries().any(|(known, _)| known == name), "there is no query named {name}");
    }
    println!("{}\n", Machine::inspect(&places.work_dir)?.line());
    let (mut rivals, loaded) = Rivals::start(Options { only, scale, rounds, keys, python, places })?;
    println!(
        "COPY of all tables at scale {scale}: {:.1} s, PostgreSQL {:.1} s, with VACUUM ANALYZE {:.1} s. \
         Blobs take {:.0} MB, PostgreSQL's tables {:.0} MB.\n",
        loaded.glimpse,
        loaded.postgres,
        loaded.analyzed,
        loaded.glimpse_bytes as f64 / 1e6,
        loaded.postgres_bytes as f64 / 1e6,
    );
    compare(&mut rivals)?;
    if churn {
        rivals.churn()?;
        println!("\nAfter one row of a hundred of lineitem was changed and another removed:\n");
        compare(&mut rivals)?;
        std::thread::sleep(Duration::from_secs(60));
        println!("\nA minute later:\n");
        compare(&mut rivals)?;
    }
    Ok(())
}

/// Prints what each query takes.
fn compare(rivals: &mut Rivals) -> Result<()> {
    println!(
        "| query | Glimpse ms | PG ms | DuckDB ms | DataFusion ms | PG / Glimpse | Glimpse / DuckDB | Glimpse / DataFusion |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let selected: Vec<_> = queries().filter(|(name, _)| rivals.selects(name)).collect();
    let mut lines = Vec::new();
    for query in selected {
        let line = rivals.compare(query)?;
        let or_none = |value: Option<f64>, digits: usize| value.map_or_else(String::new, |v| format!("{v:.digits$}"));
        println!(
            "| {} | {:.1} | {} | {} | {} | {} | {} | {} |",
            line.name,
            line.glimpse,
            line.postgres.map_or_else(|| "> 60 s".to_owned(), |ms| format!("{ms:.1}")),
            or_none(line.duckdb, 1),
            or_none(line.datafusion, 1),
            or_none(line.postgres.map(|ms| ms / line.glimpse), 2),
            or_none(line.duckdb.map(|ms| line.glimpse / ms), 1),
            or_none(line.datafusion.map(|ms| line.glimpse / ms), 2),
        );
        lines.push(line);
    }
    let tpch = || lines.iter().filter(|line| line.name.starts_with('q'));
    let over = |ratio: &dyn Fn(&Line) -> Option<f64>| mean(tpch().filter_map(ratio));
    println!(
        "\nGeometric means over TPC-H: PostgreSQL / Glimpse {:.2}, Glimpse / DuckDB {:.2}, Glimpse / DataFusion {:.2}.",
        over(&|line| Some(line.postgres? / line.glimpse)),
        over(&|line| Some(line.glimpse / line.duckdb?)),
        over(&|line| Some(line.glimpse / line.datafusion?)),
    );
    Ok(())
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}
