//! Runs a target on one input after another.
//!
//! Executions are on a thread with the stack that the server's threads have. One that panics is caught and told with what
//! repeats it; one that takes longer than [`TIME_MAX`] ends the process, because nothing else ends a loop. One that overflows
//! the stack ends it without a word; `--from` and `--executions` of `bin/fuzz` find it by halving.

use crate::Target;
use crate::mutate::Mutator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What one execution may take; a server that is asked this is as good as stopped.
pub const TIME_MAX: Duration = Duration::from_secs(30);
/// What tokio's and our own threads have.
const STACK_BYTES: usize = 2 << 20;
/// How often it is looked whether an execution goes on.
const LOOK: Duration = Duration::from_millis(20);

/// What a run did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Executions.
    pub executions: u64,
    /// How long all took.
    pub took: Duration,
    /// How long the slowest took, and its number.
    pub slowest: (Duration, u64),
}

/// An execution that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its number.
    pub number: u64,
    /// Its input.
    pub input: Vec<u8>,
    /// What the target panicked with.
    pub message: String,
}

/// Runs the inputs with the numbers from `first` on, as many as were asked for or until one fails, or time is up.
pub fn run(
    target: Target,
    seed: u64,
    first: u64,
    executions: u64,
    until: Option<Instant>,
) -> Result<Report, Box<Failure>> {
    let mutator = Mutator::new((target.seeds)(), target.words, target.grain);
    let at = Arc::new(AtomicU64::new(first));
    let watched = Arc::clone(&at);
    let thread = std::thread::Builder::new().name(target.name.to_owned()).stack_size(STACK_BYTES);
    let running = thread.spawn(move || {
        let (start, mut slowest) = (Instant::now(), (Duration::ZERO, first));
        let mut begun = start;
        for number in first..first.saturating_add(executions) {
            watched.store(number, Ordering::Relaxed);
            let input = mutator.input(seed, number);
            if let Err(message) = execute(target, &input) {
                return Err(Box::new(Failure { number, input, message }));
            }
            let now = Instant::now();
            slowest = slowest.max((now - begun, number));
            begun = now;
            if until.is_some_and(|until| now > until) {
                let executions = number - first + 1;
                return Ok(Report { executions, took: start.elapsed(), slowest });
            }
        }
        Ok(Report { executions, took: start.elapsed(), slowest })
    });
    let running = running.expect("a thread can be started");
    let (mut seen, mut since) = (first, Instant::now());
    while !running.is_finished() {
        std::thread::sleep(LOOK);
        let now = at.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() > TIME_MAX && !running.is_finished() {
            eprintln!("{}: execution {now} of seed {seed} takes longer than {TIME_MAX:?}", target.name);
            std::process::exit(3);
        }
    }
    running.join().expect("panics were caught")
}

/// Runs one input. Error: what the target panicked with.
pub fn execute(target: Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
    })
}
