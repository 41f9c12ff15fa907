//! Runs suites, several at once, the longest first (the shortest, where the first failure ends it): most of them wait for
//! servers, disks and clients most of the time.
//!
//! A suite's programs run one after the other, in processes of their own, with what they print in one log per suite. A suite
//! that takes many times its budget hangs: it is ended, and has failed.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::build::Built;
use crate::map::{Program, Suite};
use crate::options::Options;
use crate::report;
use crate::select::Chosen;

/// How many times its budget a suite may take before it counts as hung; more on a machine that is slow or busy.
const HUNG_FACTOR: u64 = 20;
/// What any suite may take.
const HUNG_SECONDS_MIN: u64 = 600;
/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(20);

/// How a suite ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) budget: u64,
    pub(crate) took: Duration,
    pub(crate) passed: usize,
    /// Names of tests, or a sentence where a program failed without naming one.
    pub(crate) failed: Vec<String>,
    /// Lines in which tests say why they were left out.
    pub(crate) skipped: Vec<String>,
    pub(crate) log: PathBuf,
}

/// Runs what was chosen and prints a line for each suite as it ends.
pub(crate) fn run(chosen: &[Chosen<'_>], built: &Built, logs: &Path, options: &Options) -> Result<Vec<Outcome>> {
    std::fs::create_dir_all(logs).with_context(|| format!("create {}", logs.display()))?;
    let mut queue: Vec<&Suite> = chosen.iter().map(|chosen| chosen.suite).collect();
    queue.sort_by_key(|suite| suite.budget);
    if options.fail_fast {
        queue.reverse();
    }
    let (queue, outcomes) = (Mutex::new(queue), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        loop {
            let Some(suite) = queue.lock().ok().and_then(|mut queue| queue.pop()) else { return Ok(()) };
            let outcome = run_suite(suite, built, logs, options)?;
            report::outcome(&outcome);
            if options.fail_fast && !outcome.failed.is_empty() {
                queue.lock().map(|mut queue| queue.clear()).unwrap_or_default();
            }
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes.push(outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("the runner panicked")))
    })?;
    Ok(outcomes.into_inner().unwrap_or_default())
}

fn run_suite(suite: &Suite, built: &Built, logs: &Path, options: &Options) -> Result<Outcome> {
    let started = Instant::now();
    let long = if options.long { 100 } else { 1 };
    let deadline = started + Duration::from_secs(HUNG_SECONDS_MIN.max(suite.budget * HUNG_FACTOR) * long);
    let log = logs.join(format!("{}.log", suite.name.replace('/', "-")));
    let mut outcome = Outcome { name: suite.name.clone(), budget: suite.budget, log, ..Outcome::default() };
    let out = File::create(&outcome.log).with_context(|| format!("create {}", outcome.log.display()))?;
    let mut ended_badly = Vec::new();
    for program in &suite.programs {
        let child = spawn(program, built, &out, options)?;
        match wait(child, deadline)? {
            Some(status) if status.success() => {}
            Some(status) => ended_badly.push(format!("{}:{} ended with {status}", program.package, program.target)),
            None => ended_badly.push(format!("{}:{} hung and was ended", program.package, program.target)),
        }
    }
    // What tests print need not be UTF-8.
    read_log(&String::from_utf8_lossy(&std::fs::read(&outcome.log)?), &mut outcome);
    if outcome.failed.is_empty() {
        outcome.failed = ended_badly;
    }
    outcome.took = started.elapsed();
    Ok(outcome)
}

/// Starts a test program as cargo does: in its package's folder.
fn spawn(program: &Program, built: &Built, out: &File, options: &Options) -> Result<Child> {
    let (executable, folder) = built.programs.get(program).context("what was chosen was built")?;
    let mut command = Command::new(executable);
    command.arg("--show-output").args(&options.filters).current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    if options.long {
        command.env("GLIMPSE_TEST_LONG", "1");
    }
    // The environment that misc/prepare.sh makes, unless another one was named.
    let python = std::env::var_os("GLIMPSE_CLIENTS").map(|clients| Path::new(&clients).join("python/bin/python"));
    if let Some(python) = python.filter(|python| python.exists() && std::env::var_os("GLIMPSE_PYTHON").is_none()) {
        command.env("GLIMPSE_PYTHON", python);
    }
    // A group of its own, so that a program that hangs ends with everything it has started.
    command.process_group(0).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out.try_clone()?);
    command.spawn().with_context(|| format!("start {}", executable.display()))
}

/// `None` if the program was ended at the deadline.
fn wait(mut child: Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status().context("run kill")?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Reads the verdicts of libtest.
fn read_log(log: &str, outcome: &mut Outcome) {
    for line in log.lines() {
        if let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            outcome.failed.push(test.to_owned());
        } else if let Some(result) = line.strip_prefix("test result: ") {
            outcome.passed += number_before(result, " passed");
        } else if line.starts_with("SKIPPED") && !outcome.skipped.iter().any(|known| known == line) {
            outcome.skipped.push(line.to_owned());
        }
    }
}

fn number_before(text: &str, word: &str) -> usize {
    let number = text.split(word).next().and_then(|before| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        let mut outcome = Outcome::default();
        read_log(
            "running 2 tests\ntest a::b ... ok\ntest c ... FAILED\nSKIPPED: no go\nSKIPPED: no go\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.02s\n\
             test result: ok. 41 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n",
            &mut outcome,
        );
        assert_eq!((outcome.passed, &outcome.failed[..]), (42, &["c".to_owned()][..]));
        assert_eq!(outcome.skipped, ["SKIPPED: no go"]);
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]).process_group(0);
        let child = command.spawn().unwrap();
        let group = child.id();
        assert!(wait(child, Instant::now()).unwrap().is_none());
        let gone = || {
            !Command::new("kill")
                .args(["-0", "--", &format!("-{group}")])
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !gone() {
            assert!(Instant::now() < deadline, "the group {group} is still there");
            std::thread::sleep(POLL);
        }
    }
}
