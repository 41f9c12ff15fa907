//! `bin/fuzz`: targets for as many executions, or as long, as one likes.
#![allow(clippy::print_stdout, reason = "it reports to whoever runs it")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use glimpse_fuzz::drive::{self, Report};
use glimpse_fuzz::mutate::Mutator;
use glimpse_fuzz::{TARGETS, Target};

/// Feeds what reads the bytes of strangers with bytes that are nearly right.
#[derive(Debug, Parser)]
#[command(name = "bin/fuzz")]
struct Options {
    /// Only this target; may be given more than once
    #[arg(long)]
    only: Vec<String>,
    /// Executions of each target
    #[arg(long, default_value_t = 1_000_000)]
    executions: u64,
    /// For each target, no longer than so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// The seed; chosen and printed if it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// The number of the first execution
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print the input of the first execution instead
    #[arg(long)]
    show: bool,
    /// Run the bytes of a file instead
    #[arg(long)]
    input: Option<PathBuf>,
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Target>> {
    let find = |name: &String| {
        let known = || TARGETS.map(|target| target.name).join(", ");
        TARGETS.into_iter().find(|target| target.name == name).with_context(|| format!("{name} is none of {}", known()))
    };
    if names.is_empty() { Ok(TARGETS.to_vec()) } else { names.iter().map(find).collect() }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let targets = chosen(&options.only)?;
    let seed = options.seed.unwrap_or_else(rand::random);
    if options.show || options.input.is_some() {
        let [target] = targets[..] else { bail!("--show and --input are for one target: say --only NAME") };
        let Some(path) = &options.input else {
            let input = Mutator::new((target.seeds)(), target.words, target.grain).input(seed, options.from);
            println!("{}", input.escape_ascii());
            return Ok(ExitCode::SUCCESS);
        };
        (target.run)(&std::fs::read(path).with_context(|| path.display().to_string())?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut failures = 0;
    for target in targets {
        let until = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        match drive::run(target, seed, options.from, options.executions, until) {
            Ok(Report { executions, took, slowest: (slowest, number) }) => println!(
                "{}: {executions} executions in {:.1} s, seed {seed}; the slowest, {number}, took {:.1} ms",
                target.name,
                took.as_secs_f64(),
                slowest.as_secs_f64() * 1000.0,
            ),
            Err(failure) => {
                failures += 1;
                println!(
                    "{}: FAILED: {}\n  input: {}\n  again: bin/fuzz --only {} --seed {seed} --from {} --executions 1",
                    target.name,
                    failure.message,
                    failure.input.escape_ascii(),
                    target.name,
                    failure.number,
                );
            }
        }
    }
    println!("{failures} failures");
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
