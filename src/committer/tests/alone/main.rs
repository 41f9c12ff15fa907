//! The committer without sessions, workers and threads of its own: one thing after the other ([`steps`]), and anything in any order
//! ([`world`]). What it stands on is simulated below the traits of the crates whose it is: stores ([`disk`]), workers ([`workers`]), what
//! runs beside ([`jobs`]), and time; everything else is what the server runs.

mod choices;
mod disk;
mod jobs;
mod model;
mod process;
mod requests;
mod steps;
mod workers;
mod world;

use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use world::Tally;

/// Worlds of a run, and of a long one.
const SEEDS: u64 = 500;
const SEEDS_LONG: u64 = 10_000;
/// Mistakes that are found.
const MISTAKES: [&str; 5] = [
    "raised-before-durable",
    "acknowledged-before-raised",
    "keys-unclaimed",
    "transactions-hold-nothing",
    "far-future",
];

/// All, or the one that `ALONE_SEED` says.
fn seeds() -> Range<u64> {
    let only = std::env::var("ALONE_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    let count = if std::env::var_os("GLIMPSE_TEST_LONG").is_some() { SEEDS_LONG } else { SEEDS };
    only.map_or(0..count, |seed| seed..seed + 1)
}

/// Ends a run in which a world has failed.
struct EndOfAll<'a>(&'a AtomicU64);

impl Drop for EndOfAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(u64::MAX / 2, Ordering::Relaxed);
        }
    }
}

/// What happens in the worlds of these seeds, each on one thread; as many at once as there are cores. Panics if one fails.
fn happen_all(seeds: &Range<u64>) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let some = || {
        let (_end, mut tally) = (EndOfAll(&next), Tally::new());
        while let seed = next.fetch_add(1, Ordering::Relaxed)
            && seeds.contains(&seed)
        {
            world::happen(seed).into_iter().for_each(|(what, count)| *tally.entry(what).or_default() += count);
        }
        tally
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(some)).collect();
        let mut all = Tally::new();
        for tally in threads.into_iter().map(|thread| thread.join().expect("no world fails")) {
            tally.into_iter().for_each(|(what, count)| *all.entry(what).or_default() += count);
        }
        all
    })
}

#[test]
fn whatever_happens_what_was_answered_is_so() {
    let all = happen_all(&seeds());
    println!("{} worlds: {all:?}", seeds().count());
    if seeds().count() > 1 {
        let has_happened = |what: &&str| all.get(*what).is_some_and(|count| *count > 10);
        let all_kinds = [
            "committed",
            "conflicts",
            "duplicates",
            "failed",
            "keys looked up",
            "followed",
            "processes died",
            "processes stopped",
            "unanswered, and there",
            "unanswered, and not there",
            "views that show the run before",
            "asked again",
            "not done twice",
        ];
        assert!(all_kinds.iter().all(has_happened), "a part of what may happen does not");
    }
}

/// The same with a mistake on purpose fails: a checker that has never failed proves nothing.
#[test]
fn mistakes_on_purpose_are_found() {
    for mistake in MISTAKES {
        let mut run = Command::new(std::env::current_exe().expect("this program"));
        run.args(["--exact", "whatever_happens_what_was_answered_is_so"]).env("GLIMPSE_BUG", mistake);
        let found = run.env("RUST_BACKTRACE", "0").env_remove("ALONE_SEED").output().expect("it runs");
        let said = String::from_utf8_lossy(&found.stdout) + String::from_utf8_lossy(&found.stderr);
        assert!(!found.status.success() && said.contains("seed "), "{mistake} is not found: {said}");
    }
}
