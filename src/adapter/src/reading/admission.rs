//! How many ad hoc statements compute at once.
//!
//! A statement of the ad hoc engine takes a core and memory for as long as it computes. Many at once finish later, every one of them,
//! and need the memory of all. So only so many have a *turn*; who comes when none is free waits in the order of coming, as long as its
//! timeout lets it, and `pg_stat_activity` shows that it does. What reads none of the users' relations and calls nothing that may take
//! long needs no turn.
//!
//! A turn is not known to all of a plan: the inputs of a UNION ALL, and the partitions of a query that has several, are computed by
//! tasks of their own, which go on when their statement has none. One query at a time has several (`engine/partitions.rs`).
//!
//! # Invariants
//! - Who waits for something else, its client, a lock, time, has no turn after [`PATIENCE`], and takes another one, behind those who
//!   wait, before it goes on. So no statement waits for a turn of one that waits for it.
//! - Who computes for longer than [`SLICE`] lets those who wait go first, wherever its computation can be interrupted: statements
//!   without end hold up nobody for good.
//! - When nobody wants a statement's rows any more its turn is over, also in the midst of a step that nothing interrupts.

use crate::activity::Activity;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
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

    /// What a statement of the session that does this has a turn by, once it has entered.
    pub(crate) fn turn(&self, activity: &Arc<Activity>) -> Turn {
        let (admission, activity) = (self.clone(), Arc::clone(activity));
        Turn { admission, activity, slot: Slot::default(), since: Instant::now() }
    }
}

/// A statement's turn.
pub(crate) struct Turn {
    admission: Admission,
    activity: Arc<Activity>,
    slot: Slot,
    /// When it was taken.
    since: Instant,
}

/// Where a turn is, so that it can be taken from a statement that nobody wants any more.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Held>>);

#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Permit(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit),
    /// Nor will there be anything.
    Over,
}

impl Slot {
    fn put(&self, permit: OwnedSemaphorePermit) {
        let mut held = self.0.lock();
        if !matches!(*held, Held::Over) {
            *held = Held::Permit(permit);
        }
    }

    fn leave(&self) {
        let mut held = self.0.lock();
        if matches!(*held, Held::Permit(_)) {
            *held = Held::Nothing;
        }
    }

    fn is_held(&self) -> bool {
        matches!(*self.0.lock(), Held::Permit(_))
    }
}

/// As long as this is there, somebody wants a statement's rows.
pub(crate) struct Wanted(Slot);

impl Drop for Wanted {
    fn drop(&mut self) {
        *self.0.0.lock() = Held::Over;
    }
}

impl Turn {
    /// Says that somebody wants its rows, until the result is dropped: the turn is over then.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted(self.slot.clone())
    }

    /// Waits for a turn, in the order of coming, if it has none.
    ///
    /// # Cancellation
    /// Safe to drop: its place goes.
    pub(crate) async fn enter(&mut self) {
        if self.slot.is_held() {
            return;
        }
        let turns = Arc::clone(&self.admission.turns);
        self.slot.put(match Arc::clone(&turns).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _seen = (self.activity.waits_for_turn(), Counted::one(&self.admission.waiting));
                turns.acquire_owned().await.expect("nobody ends the turns")
            }
        });
        self.since = Instant::now();
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() >= SLICE && self.admission.waiting.load(Ordering::Relaxed) > 0
    }

    /// Does something of which a part may be to wait; the turn is others' meanwhile, if that takes its time.
    ///
    /// # Cancellation
    /// As the work.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let (mut work, wakes) = (pin!(work), Arc::new(Wakes::new()));
        loop {
            if self.is_over() {
                // Whoever waits is handed it in that moment.
                self.slot.leave();
                self.enter().await;
            }
            match (Attentive { work: work.as_mut(), turn: self, wakes: &wakes, alarm: None }).await {
                Noticed::Done(done) => return done,
                Noticed::Over => {}
                Noticed::Idle => {
                    self.slot.leave();
                    wakes.wait().await;
                    self.enter().await;
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

/// Whether work was woken since it was polled last, and who is to poll it. By this, and not by when it is polled, one that waits is told
/// from one that computes and gives others a chance: its thread may be busy with these for as long as it likes.
struct Wakes {
    is_woken: AtomicBool,
    whoever_polls: AtomicWaker,
}

impl Wakes {
    /// Of work that was not polled yet.
    fn new() -> Wakes {
        Wakes { is_woken: AtomicBool::new(true), whoever_polls: AtomicWaker::new() }
    }

    /// Waits until the work was woken.
    async fn wait(&self) {
        poll_fn(|cx| {
            self.whoever_polls.register(cx.waker());
            match self.is_woken.load(Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.whoever_polls.wake();
    }
}

/// What comes of work that is watched.
enum Noticed<T> {
    Done(T),
    /// Nothing has woken it for [`PATIENCE`]: it waits for something.
    Idle,
    /// It computes, and its turn is over.
    Over,
}

/// Work in a turn.
struct Attentive<'w, F> {
    work: Pin<&'w mut F>,
    turn: &'w Turn,
    wakes: &'w Arc<Wakes>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Attentive<'_, F> {
    type Output = Noticed<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Noticed<F::Output>> {
        self.wakes.whoever_polls.register(cx.waker());
        if self.wakes.is_woken.swap(false, Ordering::AcqRel) {
            let waker = Waker::from(Arc::clone(self.wakes));
            if let Poll::Ready(done) = self.work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(Noticed::Done(done));
            }
            if self.turn.is_over() {
                return Poll::Ready(Noticed::Over);
            }
            self.alarm = None;
        }
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        match alarm.as_mut().poll(cx) {
            Poll::Ready(()) if !self.wakes.is_woken.load(Ordering::Acquire) => Poll::Ready(Noticed::Idle),
            Poll::Ready(()) => {
                // Woken in that moment.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use ore::abandon::{at_every_poll, polled};
    use tokio::sync::oneshot;

    fn admission(turns: usize) -> (Admission, Arc<Activity>) {
        (Admission::new(turns), Arc::new(Activity::for_tests()))
    }

    async fn entered(admission: &Admission, activity: &Arc<Activity>) -> Turn {
        let mut turn = admission.turn(activity);
        turn.enter().await;
        turn
    }

    /// Computes in steps of so many milliseconds, and gives others a chance after each.
    async fn computing(steps: usize, milliseconds: u64) {
        for _ in 0..steps {
            std::thread::sleep(Duration::from_millis(milliseconds));
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn turns_are_taken_in_the_order_of_coming() {
        let (admission, activity) = admission(1);
        let first = entered(&admission, &activity).await;
        let (mut second, mut third) = (pin!(entered(&admission, &activity)), pin!(entered(&admission, &activity)));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert!(activity.status(1).is_waiting_for_turn);
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "the second came before");
        drop(second.await);
        drop(third.await);
        assert!(!activity.status(1).is_waiting_for_turn);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_no_trace() {
        let polls = at_every_poll(5, |times| {
            let (admission, activity) = admission(1);
            let mut first = entered(&admission, &activity).now_or_never();
            assert!(first.is_some());
            let is_done = polled(entered(&admission, &activity), times, || first = None).is_some();
            drop(first);
            assert!(!activity.status(1).is_waiting_for_turn, "given up after {times} polls");
            assert!(entered(&admission, &activity).now_or_never().is_some(), "given up after {times} polls");
            is_done
        });
        assert_eq!(polls, 2, "it is polled, has to wait, and is let in");
    }

    #[tokio::test]
    async fn who_waits_for_something_else_keeps_no_turn() {
        let (admission, activity) = admission(1);
        let (go, gone) = oneshot::channel::<()>();
        let mut first = entered(&admission, &activity).await;
        let waits = async {
            first.during(gone).await.expect("somebody lets it go on");
            first
        };
        let other = async {
            // The first one waits for this one.
            let turn = entered(&admission, &activity).await;
            go.send(()).expect("it waits");
            drop(turn);
        };
        let (first, ()) = tokio::join!(waits, other);
        assert!(first.slot.is_held(), "it has a turn again");
        assert!(entered(&admission, &activity).now_or_never().is_none());
    }

    /// All on one thread: while one computes, others are not polled, and wait for nothing.
    #[tokio::test]
    async fn who_is_polled_late_because_others_compute_keeps_its_turn() {
        let (admission, activity) = admission(2);
        let (mut first, mut second) = (entered(&admission, &activity).await, entered(&admission, &activity).await);
        let two = async {
            // Long steps, and all of it within a slice.
            tokio::join!(first.during(computing(2, 25)), second.during(computing(1, 25)));
            drop((first, second));
        };
        let mut third = pin!(entered(&admission, &activity));
        tokio::select! {
            biased;
            _ = third.as_mut() => panic!("a turn was given away"),
            () = two => {}
        }
        drop(third.await);
    }

    #[tokio::test]
    async fn what_has_no_end_lets_those_who_wait_go_first() {
        let (admission, activity) = admission(1);
        let mut turn = entered(&admission, &activity).await;
        let endless = async {
            turn.during(computing(usize::MAX, 1)).await;
        };
        let others = async {
            for _ in 0..2 {
                let mut other = entered(&admission, &activity).await;
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
        let mut turn = entered(&admission, &activity).await;
        let since = turn.since;
        turn.during(computing(200, 1)).await;
        assert!(turn.since == since && turn.slot.is_held(), "it was one turn");
    }

    #[tokio::test]
    async fn a_turn_is_over_when_nobody_wants_what_comes_of_it() {
        let (admission, activity) = admission(1);
        let mut turn = admission.turn(&activity);
        let wanted = turn.wanted();
        turn.enter().await;
        assert!(entered(&admission, &activity).now_or_never().is_none());
        // It is in a step that nothing interrupts, and does not know.
        drop(wanted);
        drop(entered(&admission, &activity).now_or_never().expect("the turn is free"));
        turn.enter().await;
        assert!(!turn.slot.is_held(), "it gets no other one");
    }
}
