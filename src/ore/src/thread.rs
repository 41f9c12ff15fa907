//! Named operating-system threads.
//!
//! Timely workers and other work that must never await run on threads of their own. A thread cannot be aborted:
//! whoever starts one also gives it a way to be told to stop (a closed channel, a flag), and joins it. Names are
//! cut to 15 bytes by Linux; put what tells two threads apart first.
//!
//! # Invariants
//! * A panic is logged with the thread's name before it reaches whoever joins.
//! * A thread runs on any core, whatever core the one that started it stays on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SendError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::panic::{OnPanic, log_panic, report_panic};

/// Starts a thread called `name`. Dropping the handle lets the thread run on.
///
/// # Panics
/// If the operating system refuses another thread.
pub fn spawn<F, T>(name: impl Into<String>, f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start(name.into(), OnPanic::EndTask, f)
}

/// Starts a thread called `name`; should it panic, the process aborts.
///
/// # Panics
/// If the operating system refuses another thread.
pub fn spawn_critical<F, T>(name: impl Into<String>, f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start(name.into(), OnPanic::EndProcess, f)
}

fn start<F, T>(name: String, on_panic: OnPanic, f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let watched = {
        let name = name.clone();
        move || {
            roam();
            match catch_unwind(AssertUnwindSafe(f)) {
                Ok(value) => value,
                Err(payload) => report_panic("thread", &name, on_panic, payload),
            }
        }
    };
    Builder::new().name(name).spawn(watched).expect("the operating system has room for another thread")
}

/// How long a thread of [`apart`] waits for more to do.
const IDLE_FOR: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

/// The threads of [`apart`] that wait, by number.
static IDLE: Mutex<Vec<(u64, Sender<Job>)>> = Mutex::new(Vec::new());
static NEXT_APART: AtomicU64 = AtomicU64::new(0);

/// Does `job` on a thread that does nothing else meanwhile: one that has become idle a moment ago, or a new one. There is no limit, as
/// one job may wait for another.
///
/// # Panics
/// If the operating system refuses another thread.
pub fn apart(job: impl FnOnce() + Send + 'static) {
    let mut job: Job = Box::new(job);
    loop {
        let Some((_, idle)) = IDLE.lock().pop() else {
            drop(spawn("apart", move || work_apart(job)));
            return;
        };
        match idle.send(job) {
            Ok(()) => return,
            Err(SendError(back)) => job = back,
        }
    }
}

fn work_apart(first: Job) {
    let (number, (more, jobs)) = (NEXT_APART.fetch_add(1, Ordering::Relaxed), channel());
    let mut job = first;
    loop {
        job();
        IDLE.lock().push((number, more.clone()));
        job = match jobs.recv_timeout(IDLE_FOR) {
            Ok(next) => next,
            Err(_) => {
                let mut idle = IDLE.lock();
                if let Some(at) = idle.iter().position(|(waiting, _)| *waiting == number) {
                    idle.remove(at);
                    return;
                }
                drop(idle);
                // Whoever took it from there is about to send.
                match jobs.recv() {
                    Ok(next) => next,
                    Err(_) => return,
                }
            }
        };
    }
}

/// The result of `f`; `None` if it panicked, which is logged under `name`. For a step of a thread that goes on without it.
pub fn survive<T>(name: &str, f: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(f));
    outcome.inspect_err(|payload| log_panic("step", name, OnPanic::EndTask, payload.as_ref())).ok()
}

/// The calling thread.
const HERE: Pid = Pid::from_raw(0);

/// The cores that this process may use; known once the first thread stays on one of them.
static CORES: OnceLock<CpuSet> = OnceLock::new();

/// The cores that the calling thread may use, in order.
pub fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(HERE)?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
}

/// Lets the calling thread run on one core only.
pub fn stay_on(core: usize) -> io::Result<()> {
    let all = sched_getaffinity(HERE)?;
    CORES.get_or_init(|| all);
    let mut one = CpuSet::new();
    one.set(core)?;
    Ok(sched_setaffinity(HERE, &one)?)
}

/// Lets the calling thread run on all cores again, which it does not by itself if one that stays on a core has started it.
pub fn roam() {
    if let Some(all) = CORES.get()
        && let Err(error) = sched_setaffinity(HERE, all)
    {
        tracing::warn!(%error, "a thread cannot leave its core");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    #[test]
    fn jobs_apart_run_at_once_and_one_after_the_other_on_one_thread() {
        let meet = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let meet = Arc::clone(&meet);
            apart(move || {
                meet.wait();
            });
        }
        meet.wait();
        let (tx, rx) = channel();
        let here = || {
            let tx = tx.clone();
            apart(move || tx.send(std::thread::current().id()).expect("the test receives"));
            rx.recv().expect("the job sends")
        };
        let first = here();
        let reused = (0..1_000).any(|_| here() == first);
        assert!(reused, "a thread that has nothing to do is taken again");
    }

    #[test]
    fn a_step_that_panics_is_survived() {
        assert_eq!(survive("fine", || 1), Some(1));
        assert_eq!(survive("faulty", || panic!("on purpose")), None::<()>);
    }

    #[test]
    fn a_thread_that_stays_on_a_core_starts_threads_that_do_not() {
        let all = cores().expect("the system tells");
        let last = *all.last().expect("there is a core");
        let (stayed, started) = spawn("stays", move || {
            stay_on(last).expect("the system permits it");
            (cores(), spawn("started", cores).join().expect("it does not panic"))
        })
        .join()
        .expect("it does not panic");
        assert_eq!(stayed.expect("the system tells"), [last]);
        assert_eq!(started.expect("the system tells"), all);
        assert_eq!(cores().expect("the system tells"), all);
    }

    #[test]
    fn a_thread_carries_its_name_and_hands_back_its_result() {
        let handle = spawn("worker-0", || std::thread::current().name().map(str::to_owned));
        assert_eq!(handle.join().expect("the thread does not panic").as_deref(), Some("worker-0"));
    }

    #[test]
    fn a_panic_reaches_whoever_joins() {
        let payload = spawn("faulty", || panic!("on purpose")).join().expect_err("it panics");
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
    }
}
