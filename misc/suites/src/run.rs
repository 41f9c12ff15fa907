//! Runs suites, several at once, the longest first (the shortest, where the first failure ends it): most of them wait for
//! servers, disks and clients most of the time.
//!
//! A suite's programs run one after the other, in processes of their own, with what they print in one log per suite. A suite
//! that takes many times its budget hangs: it is ended, and has failed.

use std::fs::File;
use std::io::ErrorKind;
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
/// The exit code of libtest where a test has failed.
const LIBTEST_FAILED: i32 = 101;
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
    // A file of its own, in which nothing that outlived an earlier run still writes.
    if let Err(error) = std::fs::remove_file(&outcome.log)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error).with_context(|| format!("remove {}", outcome.log.display()));
    }
    let out = File::create_new(&outcome.log).with_context(|| format!("create {}", outcome.log.display()))?;
    for program in &suite.programs {
        let start = usize::try_from(out.metadata()?.len())?;
        let ended = Running::start(program, built, &out, options)?.wait(deadline)?;
        // What tests print need not be UTF-8.
        let printed = std::fs::read(&outcome.log)?;
        outcome.add(program, ended, &String::from_utf8_lossy(&printed[start..]), !options.filters.is_empty());
        if ended.is_none() {
            break;
        }
    }
    outcome.took = started.elapsed();
    Ok(outcome)
}

/// A test program that runs, in a process group of its own.
struct Running {
    child: Child,
    /// Ends the group when this runner ends before the program has: a shell at the end of a pipe that only the runner holds.
    watchdog: Child,
}

impl Running {
    /// Starts a test program as cargo does: in its package's folder.
    fn start(program: &Program, built: &Built, out: &File, options: &Options) -> Result<Running> {
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
        command.stdout(out.try_clone()?).stderr(out.try_clone()?);
        Running::spawn(command).with_context(|| format!("start {}", executable.display()))
    }

    fn spawn(mut command: Command) -> Result<Running> {
        let child = command.process_group(0).stdin(Stdio::null()).spawn()?;
        let watchdog = Command::new("sh")
            .args(["-c", r#"read -r _; kill -s KILL -- "-$1""#, "watchdog", &child.id().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { child, watchdog })
    }

    /// `None` if the program was ended at the deadline, with everything that it had started.
    fn wait(mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        let ended = loop {
            if let Some(status) = self.child.try_wait()? {
                // What the program has started cleans up behind it.
                self.watchdog.kill()?;
                break Some(status);
            }
            if Instant::now() > deadline {
                drop(self.watchdog.stdin.take());
                self.child.wait()?;
                break None;
            }
            std::thread::sleep(POLL);
        };
        self.watchdog.wait()?;
        Ok(ended)
    }
}

impl Outcome {
    /// Adds what a program did: how it ended, and what it printed. A program that did not say that its tests passed has failed,
    /// and so has one without tests, unless they were filtered.
    fn add(&mut self, program: &Program, ended: Option<ExitStatus>, log: &str, filtered: bool) {
        let (failed_before, mut results, mut ran) = (self.failed.len(), 0, 0);
        for line in log.lines() {
            if let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
                self.failed.push(test.to_owned());
            } else if let Some(result) = line.strip_prefix("test result: ") {
                results += 1;
                self.passed += number_before(result, " passed");
                ran += number_before(result, " passed") + number_before(result, " failed");
            } else if line.starts_with("SKIPPED") && !self.skipped.iter().any(|known| known == line) {
                self.skipped.push(line.to_owned());
            }
        }
        let names_failures = self.failed.len() > failed_before;
        let what = match ended {
            None => "hung and was ended; what the suite has behind it was not run".to_owned(),
            Some(status) if status.success() && results == 0 => "ended without a result".to_owned(),
            Some(status) if status.success() && ran == 0 && !filtered => "ran no test".to_owned(),
            Some(status) if status.success() && !names_failures => return,
            Some(status) if status.code() == Some(LIBTEST_FAILED) && names_failures && results > 0 => return,
            Some(status) => format!("ended with {status}"),
        };
        self.failed.push(format!("{}:{} {what}", program.package, program.target));
    }
}

fn number_before(text: &str, word: &str) -> usize {
    let number = text.split(word).next().and_then(|before| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn added(code: i32, log: &str, filtered: bool) -> Outcome {
        let program = Program { package: "p".to_owned(), target: "t".to_owned(), is_unit: false };
        let mut outcome = Outcome::default();
        outcome.add(&program, Some(ExitStatus::from_raw(code)), log, filtered);
        outcome
    }

    const PASSED: &str =
        "test result: ok. 41 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.02s\n";
    const FAILED: &str = "test a::b ... ok\ntest c ... FAILED\n\
        test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n";
    const EXIT_101: i32 = 101 << 8;
    const KILLED: i32 = 9;

    #[test]
    fn verdicts_are_read() {
        let outcome = added(EXIT_101, &format!("running 2 tests\nSKIPPED: no go\nSKIPPED: no go\n{FAILED}"), false);
        assert_eq!((outcome.passed, &outcome.failed[..]), (1, &["c".to_owned()][..]));
        assert_eq!(outcome.skipped, ["SKIPPED: no go"]);
        let outcome = added(0, PASSED, false);
        assert_eq!((outcome.passed, &outcome.failed[..]), (41, &[][..]));
    }

    #[test]
    fn what_is_no_verdict_is_a_failure() {
        let none = PASSED.replace("41", "0");
        for (code, log, filtered, failed) in [
            (0, "test a ... ok\n", false, &["p:t ended without a result"][..]),
            (0, &none, false, &["p:t ran no test"]),
            (0, &none, true, &[]),
            (EXIT_101, PASSED, false, &["p:t ended with exit status: 101"]),
            (KILLED, "test c ... FAILED\n", false, &["c", "p:t ended with signal: 9 (SIGKILL)"]),
            (EXIT_101, "test c ... FAILED\n", false, &["c", "p:t ended with exit status: 101"]),
        ] {
            assert_eq!(added(code, log, filtered).failed, failed, "{code} {log}");
        }
    }

    fn is_gone(group: u32) -> bool {
        let mut kill = Command::new("kill");
        !kill.args(["-0", "--", &format!("-{group}")]).stderr(Stdio::null()).status().unwrap().success()
    }

    fn with_child() -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]);
        Running::spawn(command).unwrap()
    }

    fn wait_until_gone(group: u32) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_gone(group) {
            assert!(Instant::now() < deadline, "the group {group} is still there");
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let running = with_child();
        let group = running.child.id();
        assert!(running.wait(Instant::now()).unwrap().is_none());
        wait_until_gone(group);
    }

    #[test]
    fn a_program_ends_with_its_runner() {
        let Running { mut child, mut watchdog } = with_child();
        // What happens to the pipe when the runner is killed.
        drop(watchdog.stdin.take());
        child.wait().unwrap();
        watchdog.wait().unwrap();
        wait_until_gone(child.id());
    }
}
