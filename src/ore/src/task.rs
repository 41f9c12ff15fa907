//! Named tokio tasks that end when their handle goes away.
//!
//! A bare `tokio::spawn` detaches: the task outlives whoever wanted it, and its panic is found in nobody's log.
//! Tasks started here are aborted when the [`JoinHandle`] is dropped, so that ownership of a handle is ownership
//! of the work, and a panic is logged with the task's name.
//!
//! A task that may go on for long without an await is started with [`spawn_apart`]: it has a thread of its own, so that the operating
//! system shares the processors out between it and everything else, and nothing waits behind it.
//!
//! A task whose death would leave the process giving wrong or no answers (who accepts connections, who keeps the lease) is started
//! with [`spawn_critical`]: its panic aborts the process, and the supervisor restarts it from durable state.
//!
//! # Invariants
//! * A task ends no later than its handle, unless the handle was given up through [`JoinHandle::detach`].

use crate::panic::{OnPanic, report_panic};
use crate::until::until;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinError;

/// The owner's end of a task: awaits its result, and aborts it when dropped.
#[derive(Debug)]
#[must_use = "dropping the handle aborts the task; keep it, or say `detach()`"]
pub struct JoinHandle<T> {
    name: &'static str,
    /// `None` only after `detach`, which consumes the handle.
    inner: Option<tokio::task::JoinHandle<T>>,
    /// Of a task with a thread of its own, which the runtime cannot abort: it ends when this is dropped, and goes on when something
    /// is sent.
    stop: Mutex<Option<oneshot::Sender<()>>>,
}

/// Starts `future` on the current tokio runtime.
///
/// # Panics
/// Outside of a runtime.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_on(&Handle::current(), name, future)
}

/// Starts `future` on the runtime behind `runtime`, from any thread.
pub fn spawn_on<F>(runtime: &Handle, name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let inner = runtime.spawn(watched(name, OnPanic::EndTask, future));
    JoinHandle { name, inner: Some(inner), stop: Mutex::default() }
}

/// Starts `future` on the runtime behind `runtime`; should it panic, the process aborts.
pub fn spawn_critical<F>(runtime: &Handle, name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let inner = runtime.spawn(watched(name, OnPanic::EndProcess, future));
    JoinHandle { name, inner: Some(inner), stop: Mutex::default() }
}

/// Starts `future` on a thread that does nothing else meanwhile, one of the blocking threads of the runtime behind `runtime`, whose
/// timers it has. One such task may wait for another, so the runtime has to have room for as many as there can be. Aborting ends the
/// task at its next await, as it does any; awaited after that, it looks as if it had panicked.
pub fn spawn_apart<F>(runtime: &Handle, name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (stop, stopped) = oneshot::channel();
    let timers = runtime.clone();
    let inner = runtime.spawn_blocking(move || {
        // Whoever has started the thread may stay on one core.
        crate::thread::roam();
        let stopped = async {
            if stopped.await.is_ok() {
                pending().await
            }
        };
        let work = until(watched(name, OnPanic::EndTask, future), stopped);
        timers.block_on(work).unwrap_or_else(|()| resume_unwind(Box::new("aborted")))
    });
    JoinHandle { name, inner: Some(inner), stop: Mutex::new(Some(stop)) }
}

impl<T> JoinHandle<T> {
    /// The name the task was started under.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Asks the task to end at its next await. The handle may still be awaited.
    pub fn abort(&self) {
        *self.stop.lock() = None;
        if let Some(inner) = &self.inner {
            inner.abort();
        }
    }

    /// Whether the task has ended, in whichever way.
    pub fn is_finished(&self) -> bool {
        self.inner.as_ref().is_none_or(tokio::task::JoinHandle::is_finished)
    }

    /// Gives up ownership: the task runs until it returns, or until the runtime ends.
    pub fn detach(mut self) {
        self.inner = None;
        if let Some(stop) = self.stop.lock().take() {
            // One that has ended does not listen.
            let _ended = stop.send(());
        }
    }
}

impl<T> Future for JoinHandle<T> {
    /// The task's result; an error if it panicked or was aborted.
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.inner.as_mut().expect("only `detach` empties the handle, and it consumes it");
        Pin::new(inner).poll(cx)
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Runs `future`, and reports its panic by name before letting it go on (or ending the process).
///
/// The panic is caught where the future is polled, not seen by a guard on drop: a guard would also fire when a
/// task is dropped because somebody else is unwinding.
async fn watched<F: Future>(name: &'static str, on_panic: OnPanic, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(payload) => report_panic("task", name, on_panic, payload),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_hands_back_its_result() {
        let handle = spawn("answer", async { 42 });
        assert_eq!(handle.name(), "answer");
        assert_eq!(handle.await.expect("the task neither panics nor is aborted"), 42);
    }

    #[tokio::test]
    async fn dropping_the_handle_ends_the_task() {
        let (tx, rx) = oneshot::channel::<()>();
        let handle = spawn("forever", async move {
            let _held = tx;
            pending::<()>().await;
        });
        drop(handle);
        // The sender is dropped with the task, unsent.
        assert!(rx.await.is_err());
    }

    #[tokio::test]
    async fn a_detached_task_runs_on() {
        let (tx, rx) = oneshot::channel();
        let (go, wait) = oneshot::channel::<()>();
        spawn("detached", async move {
            wait.await.expect("the test sends");
            tx.send(7).expect("the test receives");
        })
        .detach();
        go.send(()).expect("the task waits");
        assert_eq!(rx.await, Ok(7));
    }

    #[tokio::test]
    async fn a_task_apart_holds_nobody_up() {
        let runtime = Handle::current();
        let (tx, rx) = std::sync::mpsc::channel();
        let apart = spawn_apart(&runtime, "apart", async move { rx.recv().expect("the test sends") });
        assert_eq!(spawn("beside", async { 1 }).await.expect("the only worker is free"), 1);
        tx.send(7).expect("the task receives");
        assert_eq!(apart.await.expect("it neither panics nor is aborted"), 7);
    }

    #[tokio::test]
    async fn dropping_the_handle_ends_a_task_apart_and_detaching_does_not() {
        let runtime = Handle::current();
        let held = |rx: Option<oneshot::Receiver<()>>| {
            let (tx, ended) = oneshot::channel::<()>();
            let task = spawn_apart(&runtime, "apart", async move {
                let _held = tx;
                match rx {
                    Some(rx) => rx.await.expect("the test sends"),
                    None => pending().await,
                }
            });
            (task, ended)
        };
        let (task, ended) = held(None);
        drop(task);
        assert!(ended.await.is_err(), "dropped with the task");
        let (go, wait) = oneshot::channel();
        let (task, mut ended) = held(Some(wait));
        task.detach();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        assert!(ended.try_recv() == Err(oneshot::error::TryRecvError::Empty), "it goes on");
        go.send(()).expect("it waits");
        assert!(ended.await.is_err(), "it has come to its end");
        let error = spawn_apart(&runtime, "faulty", async { panic!("on purpose") }).await.expect_err("it panics");
        assert!(error.is_panic());
    }

    #[tokio::test]
    async fn a_panic_ends_only_its_task() {
        let error = spawn("faulty", async { panic!("on purpose") }).await.expect_err("it panics");
        assert!(error.is_panic());
        assert_eq!(spawn("fine", async { 1 }).await.expect("a task of its own"), 1);
    }

    #[test]
    fn a_critical_panic_ends_the_process() {
        const CHILD: &str = "GLIMPSE_ORE_CRITICAL_CHILD";
        if std::env::var_os(CHILD).is_some() {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
            let _ = runtime
                .block_on(async { spawn_critical(&Handle::current(), "fatal", async { panic!("on purpose") }).await });
            std::process::exit(0);
        }
        let status = std::process::Command::new(std::env::current_exe().expect("a test has a binary"))
            .args(["--exact", "task::tests::a_critical_panic_ends_the_process"])
            .env(CHILD, "1")
            .output()
            .expect("the test binary runs")
            .status;
        assert!(!status.success());
        assert_eq!(status.code(), None, "ended by a signal, not by an exit code: {status}");
    }
}
