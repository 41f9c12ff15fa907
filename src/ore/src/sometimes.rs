//! Randomly takes the road less travelled, in builds that test.
//!
//! A fast path that always answers leaves its slow path untested, and a cache that always hits leaves the miss
//! untested. Such code asks `sometimes(5)` and, when told so, behaves as if the fast path did not apply; both
//! paths then meet every test. Release builds (no debug assertions) compile the question away.
//!
//! `GLIMPSE_SOMETIMES_SEED` fixes the generator. The order of threads stays the scheduler's, so that a seed
//! replays a single-threaded run exactly and any other run only in kind. `GLIMPSE_SOMETIMES=never` is for tests of what holds on
//! the fast path alone.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The seed that all threads derive theirs from; logged, so that a failed run can be repeated.
static PROCESS_SEED: LazyLock<u64> = LazyLock::new(|| {
    let seed =
        std::env::var("GLIMPSE_SOMETIMES_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    tracing::info!(GLIMPSE_SOMETIMES_SEED = seed, "fast paths are skipped at random in this build");
    seed
});

static IS_NEVER: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("GLIMPSE_SOMETIMES").is_some_and(|value| value == "never"));

/// Ordinal of the next thread that asks, so that threads draw different sequences.
static NEXT_THREAD: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static GENERATOR: RefCell<SmallRng> = RefCell::new(SmallRng::seed_from_u64(
        PROCESS_SEED.wrapping_add(NEXT_THREAD.fetch_add(1, Ordering::Relaxed)),
    ));
}

/// True in about `percent` of 100 calls; always false in release builds.
pub fn sometimes(percent: u8) -> bool {
    cfg!(debug_assertions)
        && !*IS_NEVER
        && GENERATOR.with_borrow_mut(|generator| generator.random_range(0..100) < percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_at_zero_and_always_at_a_hundred() {
        for _ in 0..1000 {
            assert!(!sometimes(0));
            assert_eq!(sometimes(100), cfg!(debug_assertions));
        }
    }

    #[test]
    fn both_roads_are_taken() {
        let taken = (0..10_000).filter(|_| sometimes(50)).count();
        // Twenty standard deviations wide, so that no seed fails it.
        assert!(!cfg!(debug_assertions) || (4_000..6_000).contains(&taken), "{taken} of 10000, seed {}", *PROCESS_SEED);
    }
}
