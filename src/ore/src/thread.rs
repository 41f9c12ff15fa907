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
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::Duration;

use crate::panic::{OnPanic, log_panic, report_panic};

/// How much less of a core a thread gets that gives way: a tenth of what another one does, of this process or any other, that wants all of
/// it. With two thirds (2), or a third (5), one in a hundred point reads from 16 connections took 2 to 4 ms beside a stream of queries. Where
/// tests run, servers share the cores with each other and with what waits for their answers: two thirds there.
const NICENESS: i32 = if cfg!(debug_assertions) { 2 } else { 10 };

/// From here on this thread, and those that it starts, get a core after those of the process that have not said so. Where the system
/// does not let it, nothing changes.
pub fn give_way() {
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::warn!("a thread cannot give way: {error}");
    }
}

/// How long this thread has been ready and had no core, since it began; `None` where the system does not say.
pub fn waited() -> Option<Duration> {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    counted.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

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

/// Work that takes long, or waits: one that nobody awaits.
pub type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs jobs beside whoever starts them.
pub trait Beside: Send + Sync {
    /// Starts a job.
    fn start(&self, name: String, job: Job);
}

/// Runs each job on a thread of its own. The job may block there.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnThreads;

impl Beside for OwnThreads {
    fn start(&self, name: String, job: Job) {
        drop(spawn(name, || run(job)));
    }
}

/// Runs a job on this thread. Unlike the executors of libraries this one lets a job block on futures of its own.
fn run(mut job: Job) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while job.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}

/// Wakes a thread that waits for what its job waits for.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The result of `f`; should it panic, the process aborts. For a step on somebody else's thread of what may not stop half-way.
pub fn critical<T>(name: &str, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| report_panic("step", name, OnPanic::EndProcess, payload))
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
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_job_waits_and_blocks_on_its_own_thread() {
        let (say, said) = std::sync::mpsc::channel();
        let (go, gone) = tokio::sync::oneshot::channel();
        let job = async move {
            let first = gone.await;
            // What it calls may wait in its own way.
            let second = futures::executor::block_on(async { 2 });
            say.send((first, second)).expect("somebody listens");
        };
        OwnThreads.start("job".to_owned(), Box::pin(job));
        assert!(said.recv_timeout(Duration::from_millis(20)).is_err(), "it waits");
        go.send(1).expect("it waits");
        assert_eq!(said.recv(), Ok((Ok(1), 2)));
    }

    #[test]
    fn a_thread_gives_way_alone() {
        let priority = || rustix::process::getpriority_process(None).expect("it has one");
        let before = priority();
        let given = spawn("polite", move || {
            give_way();
            (priority(), spawn("child", priority).join().expect("it ends"))
        });
        let expected = (before + NICENESS).min(19);
        assert_eq!(given.join().expect("it ends"), (expected, expected));
        assert_eq!(priority(), before);
    }

    #[test]
    fn a_thread_knows_that_it_has_waited() {
        // The system may not say.
        let Some(before) = waited() else { return };
        assert!(waited() >= Some(before));
        // Of one more than there are cores one has to wait.
        let somebody_has = Arc::new(AtomicBool::new(false));
        let busy = || {
            let somebody_has = Arc::clone(&somebody_has);
            move || {
                let before = waited();
                while !somebody_has.load(Ordering::Relaxed) {
                    somebody_has.fetch_or(waited() > before, Ordering::Relaxed);
                }
            }
        };
        let count = cores().expect("the system tells").len() + 1;
        let threads: Vec<_> = (0..count).map(|_| spawn("busy", busy())).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
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
