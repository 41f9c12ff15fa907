//! The one test that every oracle passes.
//!
//! Public, so that an implementation elsewhere can be held to it. Panics where a law of the crate's header is broken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use repr::Timestamp;

use crate::TimestampOracle;

/// How many times each thread does its part. Small enough for a store that takes milliseconds per call.
const ROUNDS: usize = 500;

/// Checks all laws but the one on the clock. `open` opens an oracle on the same durable state each time; the one
/// before was dropped.
pub fn check<O: TimestampOracle>(open: impl Fn() -> O) {
    let oracle = open();
    one_caller(&oracle);
    many_callers(&oracle);
    let (read, written) = (oracle.read_ts(), oracle.write_ts().expect("the clock is right"));
    oracle.apply_write(written);
    drop(oracle);
    let restarted = open();
    assert!(restarted.read_ts() >= written, "law 5: {} < {written}", restarted.read_ts());
    assert!(restarted.write_ts().expect("the clock is right") > read.max(written), "law 5");
}

fn one_caller(oracle: &impl TimestampOracle) {
    let mut latest = oracle.read_ts();
    for round in 0..ROUNDS {
        let ts = oracle.write_ts().expect("the clock is right");
        assert!(ts > latest, "law 1: {ts} <= {latest}");
        assert!(oracle.read_ts() < ts, "law 3: {ts} was not applied yet");
        latest = ts;
        if round % 3 != 0 {
            oracle.apply_write(ts);
            assert_eq!(oracle.read_ts(), ts, "laws 2 and 4");
        }
    }
    let before = oracle.read_ts();
    oracle.apply_write(before.saturating_sub(1));
    assert_eq!(oracle.read_ts(), before, "law 3: it went back");
}

/// Writers and readers side by side. `acknowledged` is what the rest of the world knows.
fn many_callers(oracle: &impl TimestampOracle) {
    let acknowledged = AtomicU64::new(oracle.read_ts());
    let is_over = AtomicBool::new(false);
    let write = || {
        let mut own = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let seen = acknowledged.load(Ordering::SeqCst).max(oracle.read_ts());
            let ts = oracle.write_ts().expect("the clock is right");
            assert!(ts > seen, "law 1: {ts} <= {seen}");
            oracle.apply_write(ts);
            acknowledged.fetch_max(ts, Ordering::SeqCst);
            own.push(ts);
        }
        own
    };
    let read = || {
        let mut latest: Timestamp = 0;
        while !is_over.load(Ordering::SeqCst) {
            let known = acknowledged.load(Ordering::SeqCst);
            let ts = oracle.read_ts();
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
