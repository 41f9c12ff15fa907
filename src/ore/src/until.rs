//! Work that a signal may end, at next to no cost while it does not.
//!
//! `select!` polls the signal whenever the work is polled. For a connection that is every message of its client, and
//! looking at a signal that is shared takes a lock. Here the signal has a waker of its own, and is polled again only after
//! that waker was called.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The signal's waker: notes that it was called, and wakes the task.
struct Bell {
    rang: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// Runs `work` until it is done (`Ok`) or, if that comes first, `signal` is (`Err`).
///
/// # Cancellation
/// As safe to drop as `work`; a signal drops it at the await it has come to.
pub async fn until<T, S>(work: impl Future<Output = T>, signal: impl Future<Output = S>) -> Result<T, S> {
    let (mut work, mut signal) = (pin!(work), pin!(signal));
    let mut bell: Option<Arc<Bell>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        let bell = match &bell {
            Some(bell) if bell.task.will_wake(cx.waker()) => {
                if !bell.rang.load(Ordering::Acquire) {
                    return Poll::Pending;
                }
                bell.rang.swap(false, Ordering::AcqRel);
                bell
            }
            _ => bell.insert(Arc::new(Bell { rang: AtomicBool::new(false), task: cx.waker().clone() })),
        };
        let waker = Waker::from(Arc::clone(bell));
        signal.as_mut().poll(&mut Context::from_waker(&waker)).map(Err)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::until;
    use std::cell::Cell;
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn whichever_is_first_decides() {
        assert_eq!(until(async { 1 }, pending::<()>()).await, Ok(1));
        assert_eq!(until(pending::<()>(), async { 2 }).await, Err(2));
        assert_eq!(until(async { 1 }, async { 2 }).await, Ok(1), "work that is done is done");
    }

    #[tokio::test]
    async fn a_signal_ends_work_that_waits() {
        let (tx, rx) = oneshot::channel();
        let sender = tokio::spawn(async move { tx.send(7) });
        assert_eq!(until(pending::<()>(), rx).await, Err(Ok(7)));
        assert_eq!(sender.await.expect("the task runs"), Ok(()));
    }

    #[tokio::test]
    async fn a_signal_ends_work_that_never_waits_for_long() {
        let (tx, rx) = oneshot::channel();
        let mut tx = Some(tx);
        let mut turns = 0;
        let busy = async {
            loop {
                turns += 1;
                if turns == 100 {
                    tx.take().expect("sent once").send(()).expect("it is listened to");
                }
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(until(busy, rx).await, Err::<(), _>(Ok(())));
    }

    #[test]
    fn the_signal_is_polled_only_when_it_has_something_to_say_or_the_task_has_moved() {
        let (polls, kept) = (Cell::new(0), Cell::new(None));
        let signal = poll_fn(|cx| {
            polls.set(polls.get() + 1);
            kept.set(Some(cx.waker().clone()));
            Poll::<()>::Pending
        });
        let mut all = pin!(until(pending::<()>(), signal));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(all.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(polls.get(), 1);
        kept.take().expect("it was polled").wake();
        for _ in 0..3 {
            assert!(all.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(polls.get(), 2);
        let other = another_waker();
        assert!(all.as_mut().poll(&mut Context::from_waker(&other)).is_pending());
        assert_eq!(polls.get(), 3);
    }

    /// A waker that is not the other one.
    fn another_waker() -> Waker {
        struct Other;
        impl std::task::Wake for Other {
            fn wake(self: std::sync::Arc<Self>) {}
        }
        Waker::from(std::sync::Arc::new(Other))
    }
}
