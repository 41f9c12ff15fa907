//! The one test that every oracle passes.
//!
//! Public, so that an implementation elsewhere can be held to it. Panics where a law of the crate's header is broken.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use futures::executor::block_on;
use repr::Timestamp;

use crate::TimestampOracle;

/// How many times each thread does its part. Small enough for a store that takes milliseconds per call.
const ROUNDS: usize = 500;

/// Checks all laws but the one on the clock. `open` opens an oracle on the same durable state each time; `end` has ended the
/// one before.
pub fn check<O: TimestampOracle>(open: impl Fn() -> O, end: impl Fn(O)) {
    let oracle = open();
    one_caller(&oracle);
    many_callers(&oracle);
    let (read, written) = (read_ts(&oracle), write_ts(&oracle));
    apply_write(&oracle, written);
    end(oracle);
    let restarted = open();
    let first = read_ts(&restarted);
    assert!(first >= written, "law 5: {first} < {written}");
    assert!(write_ts(&restarted) > read.max(written), "law 5");
    end(restarted);
}

/// The time from wherever the oracle has it, by turns from memory if it may and from where it is kept.
fn read_ts(oracle: &impl TimestampOracle) -> Timestamp {
    thread_local! {
        static FROM_MEMORY: Cell<bool> = const { Cell::new(false) };
    }
    let fast = if FROM_MEMORY.replace(!FROM_MEMORY.get()) { oracle.read_ts_fast() } else { None };
    fast.unwrap_or_else(|| block_on(oracle.read_ts()).expect("the store answers"))
}

fn write_ts(oracle: &impl TimestampOracle) -> Timestamp {
    oracle.write_ts().expect("the clock is right and the store answers")
}

fn apply_write(oracle: &impl TimestampOracle, ts: Timestamp) {
    oracle.apply_write(ts).expect("the store answers");
}

fn one_caller(oracle: &impl TimestampOracle) {
    let mut latest = read_ts(oracle);
    for round in 0..ROUNDS {
        let ts = write_ts(oracle);
        assert!(ts > latest, "law 1: {ts} <= {latest}");
        assert!(read_ts(oracle) < ts, "law 3: {ts} was not applied yet");
        latest = ts;
        if round % 3 != 0 {
            apply_write(oracle, ts);
            assert_eq!(read_ts(oracle), ts, "laws 2 and 4");
            assert!(oracle.known_ts() <= ts, "known is what was applied");
        }
    }
    let before = read_ts(oracle);
    apply_write(oracle, before.saturating_sub(1));
    assert_eq!(read_ts(oracle), before, "law 3: it went back");
}

/// Writers and readers side by side. `acknowledged` is what the rest of the world knows.
fn many_callers(oracle: &impl TimestampOracle) {
    let acknowledged = AtomicU64::new(read_ts(oracle));
    let is_over = AtomicBool::new(false);
    let write = || {
        let mut own = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let seen = acknowledged.load(Ordering::SeqCst).max(read_ts(oracle));
            let ts = write_ts(oracle);
            assert!(ts > seen, "law 1: {ts} <= {seen}");
            apply_write(oracle, ts);
            acknowledged.fetch_max(ts, Ordering::SeqCst);
            own.push(ts);
        }
        own
    };
    let read = || {
        let mut latest: Timestamp = 0;
        while !is_over.load(Ordering::SeqCst) {
            let known = acknowledged.load(Ordering::SeqCst);
            let ts = read_ts(oracle);
            assert!(ts >= known, "law 2: {ts} < {known}");
            assert!(ts >= latest, "law 3: {ts} < {latest}");
            latest = ts;
            thread::yield_now();
        }
    };
    let mut all: Vec<Timestamp> = thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
        let writers: Vec<_> = (0..3).map(|_| scope.spawn(write)).collect();
        let written = writers.into_iter().flat_map(|writer| writer.join().expect("no law was broken")).collect();
        is_over.store(true, Ordering::SeqCst);
        readers.into_iter().for_each(|reader| reader.join().expect("no law was broken"));
        written
    });
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "law 1: two writes got the same timestamp");
}
