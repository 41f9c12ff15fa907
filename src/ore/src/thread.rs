//! Named operating-system threads.
//!
//! Timely workers and other work that must never await run on threads of their own. A thread cannot be aborted:
//! whoever starts one also gives it a way to be told to stop (a closed channel, a flag), and joins it. Names are
//! cut to 15 bytes by Linux; put what tells two threads apart first.
//!
//! # Invariants
//! * A panic is logged with the thread's name before it reaches whoever joins.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

use crate::task::{OnPanic, report_panic};

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
        move || match catch_unwind(AssertUnwindSafe(f)) {
            Ok(value) => value,
            Err(payload) => report_panic("thread", &name, on_panic, payload),
        }
    };
    Builder::new().name(name).spawn(watched).expect("the operating system has room for another thread")
}

#[cfg(test)]
mod tests {
    use super::*;

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
