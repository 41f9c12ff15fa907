//! An owner that answers from memory, the beat that keeps its lease, and a successor.
//!
//! Left out: the owner's own writes, which only raise what it answers; clocks of different speeds, for which the margin is. The
//! clock is one word that the successor's wait moves on: every other thread may find it before or after.

use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::loomed::lease::Lease;
use crate::loomed::word::Word;

/// What could be done in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// As the product does it.
    None,
    /// A beat is trusted from its answer on, and not from when it was asked for.
    TrustedFromAnswer,
    /// The successor answers as soon as the timeline is its.
    NotWaitedFor,
    /// A beat is not refused for its epoch.
    BeatOfAnyEpoch,
    /// The owner answers with the lease or without.
    LeaseIgnored,
}

/// How the successor comes to own the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// It waits for a whole term without a beat.
    Patient,
    /// It takes the timeline and then waits for the term.
    TakesOver,
}

const TERM: Duration = Duration::from_nanos(10);
/// The time that the owner knows, and that which its successor acknowledges.
const OLD_TS: u64 = 1;
const NEW_TS: u64 = 2;

struct Row {
    epoch: u64,
    beat: u64,
}

struct World {
    word: Word,
    lease: Lease,
    row: Mutex<Row>,
    clock: AtomicU64,
    acknowledged: AtomicU64,
}

impl World {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.load(Ordering::SeqCst))
    }

    fn wait_for_a_term(&self) {
        self.clock.fetch_add(u64::try_from(TERM.as_nanos()).expect("it is short"), Ordering::SeqCst);
    }
}

/// Goes through every order.
///
/// # Panics
/// If the owner answers a question that was asked after the successor's acknowledgement, with a time from before it.
pub fn check(successor: Successor, mistake: Mistake) {
    loom::model(move || {
        let world = Arc::new(World {
            word: Word::new(OLD_TS),
            lease: Lease::new(),
            row: Mutex::new(Row { epoch: 1, beat: 0 }),
            clock: AtomicU64::new(100),
            acknowledged: AtomicU64::new(OLD_TS),
        });
        world.lease.extend(world.now(), TERM);
        let keeper = Arc::clone(&world);
        let keeper = thread::spawn(move || beat(&keeper, mistake));
        let other = Arc::clone(&world);
        let other = thread::spawn(move || succeed(&other, successor, mistake));
        answer(&world, mistake);
        keeper.join().expect("it does not panic");
        other.join().expect("it does not panic");
    });
}

fn answer(world: &World, mistake: Mistake) {
    let known = world.acknowledged.load(Ordering::SeqCst);
    let ts = world.word.get();
    if world.lease.holds(world.now()) || mistake == Mistake::LeaseIgnored {
        assert!(ts >= known, "asked after {known} was acknowledged, the owner says {ts}");
    }
}

fn beat(world: &World, mistake: Mistake) {
    let asked = world.now();
    let succeeded = {
        let mut row = world.row.lock().expect("nobody panics with it");
        let is_ours = row.epoch == 1 || mistake == Mistake::BeatOfAnyEpoch;
        row.beat += u64::from(is_ours);
        is_ours
    };
    if succeeded {
        let from = if mistake == Mistake::TrustedFromAnswer { world.now() } else { asked };
        world.lease.extend(from, TERM);
    } else {
        world.lease.end();
    }
}

fn succeed(world: &World, successor: Successor, mistake: Mistake) {
    let wait = || {
        if mistake != Mistake::NotWaitedFor {
            world.wait_for_a_term();
        }
    };
    let row = || world.row.lock().expect("nobody panics with it");
    match successor {
        Successor::Patient => {
            let seen = row().beat;
            wait();
            let mut row = row();
            if row.beat != seen {
                // The owner lives, and the wait would begin again.
                return;
            }
            row.epoch += 1;
        }
        Successor::TakesOver => {
            row().epoch += 1;
            wait();
        }
    }
    world.acknowledged.store(NEW_TS, Ordering::SeqCst);
}
