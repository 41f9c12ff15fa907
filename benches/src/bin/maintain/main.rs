//! The rate of maintenance by itself: the dataflow that a view is rendered to, and the same query written by hand as a
//! differential dataflow program, fed with the same rows and the same stream of changes.
//!
//! Neither side sees SQL or a disk while it is measured. Both take one batch of changes as of one timestamp, and a batch is
//! done when the arranged result is complete up to it. Ours is fed and waited for as the server does it, through the
//! controller and the published snapshots. The two take turns, round by round, and must show the same rows in the end.

#![allow(clippy::print_stdout, reason = "the table on standard output is what this program is for")]

mod by_hand;
mod programs;
mod rendered;
mod stream;
mod typed;

use anyhow::{Context, Result, ensure};
use benches::machine::Machine;
use benches::procfs::status_bytes;
use by_hand::ByHand;
use clap::Parser;
use rendered::{Rendered, View};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stream::Stream;
use tpch::Data;

// As in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures how fast views are maintained, against programs written by hand.
#[derive(Parser)]
struct Arguments {
    /// TPC-H's scale factor.
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// Numbers of queries. Those without a program are measured alone.
    #[arg(long, value_delimiter = ',', default_value = "1,3,5,18")]
    queries: Vec<u8>,
    /// Changed rows of one timestamp.
    #[arg(long, default_value_t = 1_000)]
    batch: usize,
    /// Batches of one round.
    #[arg(long, default_value_t = 50)]
    batches: usize,
    /// Rounds; figures are medians. One more comes before them.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Timely workers, on both sides.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// The seed of the changes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave the programs written by hand out.
    #[arg(long)]
    alone: bool,
    /// Print what each view is maintained by.
    #[arg(long)]
    explain: bool,
    /// Also write everything to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What is measured of one side.
#[derive(Default)]
struct Side {
    build_seconds: f64,
    resident_bytes: u64,
    /// Changed rows per second, by round.
    rates: Vec<f64>,
    /// How long each batch took.
    batch_seconds: Vec<f64>,
}

struct Outcome {
    query: u8,
    rows: usize,
    ours: Side,
    by_hand: Option<Side>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.rounds > 0 && arguments.batches > 0 && arguments.workers > 0, "nothing to measure");
    let machine = Machine::inspect(&std::env::temp_dir())?;
    println!("{}\n", machine.line());
    println!(
        "scale {}, {} changes per timestamp, {} x {} timestamps, {} workers\n",
        arguments.scale, arguments.batch, arguments.rounds, arguments.batches, arguments.workers
    );
    let data = Data::generate(arguments.scale);
    println!(
        "| query | build s | by hand | MB | by hand | changes/s | by hand | ratio | batch p50 ms | by hand | p99 ms |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut outcomes = Vec::new();
    for query in &arguments.queries {
        let outcome = measure(&arguments, &data, *query).with_context(|| format!("query {query}"))?;
        println!("{}", outcome.line());
        outcomes.push(outcome.to_json());
    }
    if let Some(path) = &arguments.json {
        let settings = json!({
            "scale": arguments.scale, "batch": arguments.batch, "batches": arguments.batches,
            "rounds": arguments.rounds, "workers": arguments.workers, "seed": arguments.seed,
        });
        let all = json!({ "machine": machine.to_json(), "settings": settings, "queries": outcomes });
        std::fs::write(path, format!("{all:#}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn measure(arguments: &Arguments, data: &Data, query: u8) -> Result<Outcome> {
    let view = View::of_query(query)?;
    if arguments.explain {
        println!("{}\n", view.plan());
    }
    let batches = arguments.batches * (arguments.rounds + 1);
    let stream = Stream::new(data.clone(), &view, arguments.seed, arguments.batch, batches)?;
    let mut outcome = Outcome { query, rows: 0, ours: Side::default(), by_hand: None };
    let mut hand = None;
    if !arguments.alone && programs::ALL.contains(&query) {
        let mut side = Side::default();
        let program = side.built(|| ByHand::start(query, arguments.workers, &stream.typed_rows))?;
        (hand, outcome.by_hand) = (Some(program), Some(side));
    }
    let mut ours = outcome.ours.built(|| Rendered::start(view, arguments.workers, &stream.rows))?;
    compare(&mut ours, hand.as_mut(), "before the changes")?;
    for round in 0..=arguments.rounds {
        let steps = round * arguments.batches..(round + 1) * arguments.batches;
        // The first round warms up.
        let is_measured = round > 0;
        if let (Some(program), Some(side)) = (&mut hand, &mut outcome.by_hand) {
            side.round(is_measured, arguments.batch, steps.clone(), |step| program.apply(&stream.typed_batches[step]))?;
        }
        outcome.ours.round(is_measured, arguments.batch, steps, |step| ours.apply(&stream.batches[step]))?;
    }
    outcome.rows = compare(&mut ours, hand.as_mut(), "after the changes")?;
    Ok(outcome)
}

/// Both sides must show the same rows. Returns how many.
fn compare(ours: &mut Rendered, hand: Option<&mut ByHand>, when: &str) -> Result<usize> {
    let rows = ours.rows()?;
    if let Some(hand) = hand {
        let (columns, expected) = hand.rows()?;
        let mut found: Vec<Vec<String>> =
            rows.iter().map(|row| columns.iter().map(|at| row[*at].clone()).collect()).collect();
        found.sort();
        ensure!(found == expected, "{when} the view has\n{found:?}\nand the program written by hand\n{expected:?}");
        ensure!(!found.is_empty(), "{when} there are no rows to compare");
    }
    Ok(rows.len())
}

impl Side {
    fn built<T>(&mut self, build: impl FnOnce() -> Result<T>) -> Result<T> {
        let resident = || status_bytes(std::process::id(), "VmRSS");
        let (before, start) = (resident()?, Instant::now());
        let built = build()?;
        self.build_seconds = start.elapsed().as_secs_f64();
        self.resident_bytes = resident()?.saturating_sub(before);
        Ok(built)
    }

    fn round(
        &mut self,
        is_measured: bool,
        batch: usize,
        steps: std::ops::Range<usize>,
        mut apply: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let count = steps.len() * batch;
        let mut total = Duration::ZERO;
        for step in steps {
            let start = Instant::now();
            apply(step)?;
            let took = start.elapsed();
            total += took;
            if is_measured {
                self.batch_seconds.push(took.as_secs_f64());
            }
        }
        if is_measured {
            self.rates.push(count as f64 / total.as_secs_f64());
        }
        Ok(())
    }

    fn rate(&self) -> f64 {
        quantile(&self.rates, 0.5)
    }

    fn to_json(&self) -> Value {
        json!({
            "build_seconds": self.build_seconds,
            "resident_bytes": self.resident_bytes,
            "changes_per_second": self.rate(),
            "rounds": self.rates,
            "batch_p50_seconds": quantile(&self.batch_seconds, 0.5),
            "batch_p99_seconds": quantile(&self.batch_seconds, 0.99),
        })
    }
}

impl Outcome {
    /// The median of the rounds' ratios.
    fn ratio(&self) -> Option<f64> {
        let by_hand = self.by_hand.as_ref()?;
        let ratios: Vec<f64> = self.ours.rates.iter().zip(&by_hand.rates).map(|(ours, limit)| ours / limit).collect();
        Some(quantile(&ratios, 0.5))
    }

    fn line(&self) -> String {
        let hand = |show: &dyn Fn(&Side) -> String| self.by_hand.as_ref().map_or_else(|| "-".to_owned(), show);
        let ms = |side: &Side, q: f64| format!("{:.2}", quantile(&side.batch_seconds, q) * 1e3);
        let mb = |side: &Side| format!("{:.0}", side.resident_bytes as f64 / 1e6);
        format!(
            "| {} | {:.2} | {} | {} | {} | {:.0} | {} | {} | {} | {} | {} |",
            self.query,
            self.ours.build_seconds,
            hand(&|side| format!("{:.2}", side.build_seconds)),
            mb(&self.ours),
            hand(&mb),
            self.ours.rate(),
            hand(&|side| format!("{:.0}", side.rate())),
            self.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            ms(&self.ours, 0.5),
            hand(&|side| ms(side, 0.5)),
            ms(&self.ours, 0.99),
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "query": self.query,
            "rows": self.rows,
            "ours": self.ours.to_json(),
            "by_hand": self.by_hand.as_ref().map(Side::to_json),
            "ratio": self.ratio(),
        })
    }
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * q).round() as usize).copied().unwrap_or(f64::NAN)
}
