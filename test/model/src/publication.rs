//! A write, the worker that maintains an index over it, and a reader.
//!
//! Left out: what is in a snapshot. The slot is a word that is stored with release and loaded with acquire order, which is what
//! `arc_swap` promises; a snapshot up to and with the write's time has its row.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::loomed::clock::CollectionClock;
use crate::loomed::word::Word;

/// What could be done in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// As the product does it.
    None,
    /// The word is raised before the table's clock is.
    RaisedBeforeClock,
    /// The write is acknowledged before the word is raised.
    AcknowledgedBeforeRaised,
    /// The reader looks at the clock before it asks for the time.
    ClockSeenBeforeTime,
}

/// The time of the write. Before it there was nothing, and the index was complete.
const WRITE_TS: u64 = 1;

struct Shared {
    /// From which write timestamps are taken.
    last: Word,
    word: Word,
    clock: CollectionClock,
    /// The upper of the published snapshot.
    slot: AtomicU64,
    /// What the committer has fed to the worker.
    fed: AtomicU64,
    acknowledged: AtomicU64,
}

/// Goes through every order.
///
/// # Panics
/// If a read misses a write that was acknowledged before, or one at or below its own time.
pub fn check(mistake: Mistake) {
    loom::model(move || {
        let shared = Arc::new(Shared {
            last: Word::new(0),
            word: Word::new(0),
            clock: CollectionClock::default(),
            slot: AtomicU64::new(WRITE_TS),
            fed: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
        });
        let committer = Arc::clone(&shared);
        let committer = thread::spawn(move || commit(&committer, mistake));
        let worker = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            if worker.fed.load(Ordering::Acquire) == WRITE_TS {
                worker.slot.store(WRITE_TS + 1, Ordering::Release);
            }
        });
        read(&shared, mistake);
        committer.join().expect("it does not panic");
        worker.join().expect("it does not panic");
        assert!(shared.word.get() == WRITE_TS, "the write is applied in the end");
    });
}

fn commit(shared: &Shared, mistake: Mistake) {
    let ts = shared.last.step(|last| Some(last + 1)).expect("there is a next time");
    let note = || shared.clock.advance(ts);
    let feed = || shared.fed.store(ts, Ordering::Release);
    let raise = || shared.word.raise(ts);
    let acknowledge = || shared.acknowledged.store(ts, Ordering::Release);
    match mistake {
        Mistake::RaisedBeforeClock => {
            raise();
            note();
            feed();
            acknowledge();
        }
        Mistake::AcknowledgedBeforeRaised => {
            note();
            feed();
            acknowledge();
            raise();
        }
        Mistake::None | Mistake::ClockSeenBeforeTime => {
            note();
            feed();
            raise();
            acknowledge();
        }
    }
}

fn read(shared: &Shared, mistake: Mistake) {
    let known = shared.acknowledged.load(Ordering::Acquire);
    let seen_before = shared.clock.last_write();
    let as_of = shared.word.get();
    let upper = shared.slot.load(Ordering::Acquire);
    let last_write = if mistake == Mistake::ClockSeenBeforeTime { seen_before } else { shared.clock.last_write() };
    assert!(as_of >= known, "asked after {known} was acknowledged, the oracle says {as_of}");
    let is_complete = upper > as_of || last_write < upper;
    let has_row = upper > WRITE_TS;
    assert!(
        !is_complete || as_of < WRITE_TS || has_row,
        "a read as of {as_of} finds nothing in a snapshot below {upper}"
    );
}
