//! Callers who share calls to a store, the workers who call it, and a writer who moves its time.
//!
//! Left out: calls that fail. Waiting is done as `tokio`'s `Notify` does it: a permit that is given while there is one is lost.

use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

use crate::shuttled::tickets::{Done, Tickets};

/// What could be done in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// As the product does it.
    None,
    /// The call begins before it is noted for whom.
    CalledBeforeNoted,
    /// A caller wakes a worker before it has taken its ticket.
    WokenBeforeTicket,
}

const CALLERS: usize = 3;
const QUESTIONS: usize = 2;
const WORKERS: usize = 2;
const WRITES: u64 = 3;

struct Shared {
    tickets: Tickets,
    permit: Mutex<bool>,
    permitted: Condvar,
    done: Mutex<Done<()>>,
    answered: Condvar,
    /// The time in the store.
    stored: AtomicU64,
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

impl Shared {
    fn notify_one(&self) {
        *self.permit.lock().expect("nobody panics with it") = true;
        self.permitted.notify_one();
    }

    fn notified(&self) {
        let mut permit = self.permit.lock().expect("nobody panics with it");
        while !*permit {
            permit = self.permitted.wait(permit).expect("nobody panics with it");
        }
        *permit = false;
    }
}

/// Takes so many random orders; what fails is printed so that it can be replayed.
///
/// # Panics
/// If an answer is older than what was acknowledged before the question, or all wait for each other.
pub fn check(mistake: Mistake, seed: u64, orders: usize) {
    shuttle::check_random_with_seed(move || run(mistake), seed, orders);
}

fn run(mistake: Mistake) {
    let shared = Arc::new(Shared {
        tickets: Tickets::new(),
        permit: Mutex::new(false),
        permitted: Condvar::new(),
        done: Mutex::new(Done::new()),
        answered: Condvar::new(),
        stored: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let spawn = |work: fn(&Shared, Mistake)| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || work(&shared, mistake))
    };
    let workers: Vec<_> = (0..WORKERS).map(|_| spawn(work)).collect();
    let mut askers: Vec<_> = (0..CALLERS).map(|_| spawn(ask)).collect();
    askers.push(spawn(write));
    for asker in askers {
        asker.join().expect("it does not panic");
    }
    shared.is_over.store(true, Ordering::SeqCst);
    for worker in workers {
        shared.notify_one();
        worker.join().expect("it does not panic");
    }
}

fn write(shared: &Shared, _mistake: Mistake) {
    for ts in 1..=WRITES {
        shared.stored.store(ts, Ordering::SeqCst);
        shared.acknowledged.store(ts, Ordering::SeqCst);
    }
}

fn ask(shared: &Shared, mistake: Mistake) {
    for _ in 0..QUESTIONS {
        let known = shared.acknowledged.load(Ordering::SeqCst);
        let ticket = if mistake == Mistake::WokenBeforeTicket {
            shared.notify_one();
            shared.tickets.take()
        } else {
            let ticket = shared.tickets.take();
            shared.notify_one();
            ticket
        };
        let mut done = shared.done.lock().expect("nobody panics with it");
        let answer = loop {
            if let Some(answer) = done.answer(ticket) {
                break answer.expect("no call fails");
            }
            done = shared.answered.wait(done).expect("nobody panics with it");
        };
        assert!(answer >= known, "asked after {known} was acknowledged, told {answer}");
    }
}

fn work(shared: &Shared, mistake: Mistake) {
    loop {
        shared.notified();
        if shared.is_over.load(Ordering::SeqCst) {
            // The permit is for whoever ends next.
            shared.notify_one();
            return;
        }
        let call = || shared.stored.load(Ordering::SeqCst);
        let too_early = (mistake == Mistake::CalledBeforeNoted).then(call);
        let Some(begun) = shared.tickets.begin() else { continue };
        assert!(begun.new > 0, "a call is for somebody");
        let ts = too_early.unwrap_or_else(call);
        shared.done.lock().expect("nobody panics with it").note(begun.noted, Ok(ts));
        shared.answered.notify_all();
    }
}
