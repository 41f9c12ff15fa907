//! How many ad hoc statements compute at once.
//!
//! A statement of the ad hoc engine takes a core and memory for as long as it computes. Many at once finish later, every one of them,
//! and need the memory of all. So only so many have a *turn*; who comes when none is free waits in the order of coming, as long as its
//! timeout lets it, and `pg_stat_activity` shows that it does.
//!
//! # Invariants
//! - Who waits for something else, its client, a lock, time, keeps no turn for longer than [`PATIENCE`], and takes another one, behind
//!   those who wait, when it goes on. So no statement waits for a turn of one that waits for it.
//! - Who computes for longer than [`SLICE`] lets those who wait go first: statements without end hold up nobody for good.

use crate::activity::Activity;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// How long a statement with a turn may wait for something else before others have the turn.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long a statement computes while others wait.
const SLICE: Duration = Duration::from_millis(100);

/// The turns of a server.
#[derive(Clone)]
pub(crate) struct Admission {
    turns: Arc<Semaphore>,
    /// How many wait for one.
    waiting: Arc<AtomicUsize>,
}

impl Admission {
    /// So many turns.
    pub(crate) fn new(turns: usize) -> Admission {
        Admission { turns: Arc::new(Semaphore::new(turns)), waiting: Arc::default() }
    }

    /// Waits for a turn, in the order of coming, for a statement of the session that does this.
    ///
    /// # Cancellation
    /// Safe to drop: its place goes.
    pub(crate) async fn enter(&self, activity: &Arc<Activity>) -> Turn {
        let (admission, activity) = (self.clone(), Arc::clone(activity));
        let mut turn = Turn { admission, activity, permit: None, since: Instant::now() };
        turn.take().await;
        turn
    }
}

/// A statement's turn.
pub(crate) struct Turn {
    admission: Admission,
    activity: Arc<Activity>,
    permit: Option<OwnedSemaphorePermit>,
    /// When it was taken.
    since: Instant,
}

impl Turn {
    async fn take(&mut self) {
        let turns = Arc::clone(&self.admission.turns);
        self.permit = match Arc::clone(&turns).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                let _seen = (self.activity.waits_for_turn(), Counted::one(&self.admission.waiting));
                Some(turns.acquire_owned().await.expect("nobody ends the turns"))
            }
        };
        self.since = Instant::now();
    }

    /// Lets those who wait go first.
    async fn go_behind(&mut self) {
        self.permit = None;
        // Whoever waits was handed it in that moment.
        self.take().await;
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() >= SLICE && self.admission.waiting.load(Ordering::Relaxed) > 0
    }

    /// Does something of which a part may be to wait; the turn is others' meanwhile, if that takes its time.
    ///
    /// # Cancellation
    /// As the work.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if self.is_over() {
                self.go_behind().await;
            }
            match (Attentive { work: work.as_mut(), turn: self, idle_since: None, alarm: None }).await {
                Noticed::Done(done) => return done,
                Noticed::Over => {}
                Noticed::Idle => {
                    self.permit = None;
                    let done = work.await;
                    self.take().await;
                    return done;
                }
            }
        }
    }
}

/// One more, until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one(of: &Arc<AtomicUsize>) -> Counted {
        of.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(of))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What comes of work that is watched.
enum Noticed<T> {
    Done(T),
    /// Nothing has come of it for [`PATIENCE`]: it waits for something.
    Idle,
    /// It computes, and its turn is over.
    Over,
}

/// Work in a turn. What computes, however long, and gives others a chance now and then, is polled again at once.
struct Attentive<'w, F> {
    work: Pin<&'w mut F>,
    turn: &'w Turn,
    /// When it was last found to have nothing to do.
    idle_since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Attentive<'_, F> {
    type Output = Noticed<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Noticed<F::Output>> {
        let was_idle = self.idle_since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if let Poll::Ready(done) = self.work.as_mut().poll(cx) {
            return Poll::Ready(Noticed::Done(done));
        }
        if was_idle {
            return Poll::Ready(Noticed::Idle);
        }
        if self.turn.is_over() {
            return Poll::Ready(Noticed::Over);
        }
        self.idle_since = Some(Instant::now());
        let wake_at = tokio::time::Instant::now() + PATIENCE;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(wake_at)));
        alarm.as_mut().reset(wake_at);
        // It wakes this task; whether it has come is seen by the clock.
        let _pending = alarm.as_mut().poll(cx);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tokio::sync::oneshot;

    fn admission(turns: usize) -> (Admission, Arc<Activity>) {
        (Admission::new(turns), Arc::new(Activity::for_tests()))
    }

    #[tokio::test]
    async fn turns_are_taken_in_the_order_of_coming() {
        let (admission, activity) = admission(1);
        let first = admission.enter(&activity).await;
        let (mut second, mut third) = (pin!(admission.enter(&activity)), pin!(admission.enter(&activity)));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert!(activity.status(1).is_waiting_for_turn);
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "the second came before");
        drop(second.await);
        drop(third.await);
        assert!(!activity.status(1).is_waiting_for_turn);
    }

    #[tokio::test]
    async fn who_waits_for_something_else_keeps_no_turn() {
        let (admission, activity) = admission(1);
        let (go, gone) = oneshot::channel::<()>();
        let mut first = admission.enter(&activity).await;
        let waits = async {
            first.during(gone).await.expect("somebody lets it go on");
            first
        };
        let other = async {
            // The first one waits for this one.
            let turn = admission.enter(&activity).await;
            go.send(()).expect("it waits");
            drop(turn);
        };
        let (first, ()) = tokio::join!(waits, other);
        assert!(first.permit.is_some(), "it has a turn again");
        assert!(admission.enter(&activity).now_or_never().is_none());
    }

    /// Computes for ever, and gives others a chance now and then.
    async fn endless() {
        loop {
            std::thread::sleep(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_has_no_end_lets_those_who_wait_go_first() {
        let (admission, activity) = admission(1);
        let mut turn = admission.enter(&activity).await;
        let endless = async {
            turn.during(endless()).await;
        };
        let others = async {
            for _ in 0..2 {
                let mut other = admission.enter(&activity).await;
                // It keeps its turn until it is done, though the endless one waits.
                other.during(async { std::thread::sleep(Duration::from_millis(5)) }).await;
            }
        };
        tokio::select! {
            () = endless => panic!("it has no end"),
            () = others => {}
        }
    }

    #[tokio::test]
    async fn nobody_is_disturbed_while_nobody_waits() {
        let (admission, activity) = admission(1);
        let mut turn = admission.enter(&activity).await;
        let work = async {
            let began = Instant::now();
            while began.elapsed() < 2 * SLICE {
                std::thread::sleep(Duration::from_millis(1));
                tokio::task::yield_now().await;
            }
        };
        let since = turn.since;
        turn.during(work).await;
        assert!(turn.since == since && turn.permit.is_some(), "it was one turn");
    }
}
