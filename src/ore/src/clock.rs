//! The clock that everything asks for the time, so that a test can be its hands.
//!
//! Two readings, which must not be mixed: [`Clock::now_us`] is wall-clock time, which may step backwards when the
//! machine's clock is set (the timestamp oracle makes it monotonic), and [`Clock::monotonic`] only measures
//! distances inside this process. A [`Clock`] is cheap to clone and reads the system unless it came from
//! [`ManualClock`], whose readings change only when the test says so, and when somebody waits by it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Zero of [`Clock::monotonic`]: the first time that any clock of this process was asked.
static PROCESS_START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A source of time: the system's, or a test's.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<ManualState>),
}

/// Readings of a manual clock. Written by the test that owns the [`ManualClock`], read by everybody.
#[derive(Debug)]
struct ManualState {
    now_us: AtomicU64,
    monotonic_us: AtomicU64,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        Clock(Source::System)
    }

    /// Wall-clock time, in microseconds since the Unix epoch. May step backwards; 0 before the epoch.
    pub fn now_us(&self) -> u64 {
        match &self.0 {
            Source::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                // Half a million years fit.
                since_epoch.as_micros() as u64
            }
            Source::Manual(state) => state.now_us.load(Ordering::Acquire),
        }
    }

    /// Time since a fixed moment of this process. Never steps backwards; comparable between clones only.
    pub fn monotonic(&self) -> Duration {
        match &self.0 {
            Source::System => PROCESS_START.elapsed(),
            Source::Manual(state) => Duration::from_micros(state.monotonic_us.load(Ordering::Acquire)),
        }
    }

    /// How long a thread has to sleep for `wait` to pass: not at all by a manual clock, which has come that much further then.
    pub fn sleep_for(&self, wait: Duration) -> Duration {
        match &self.0 {
            Source::System => wait,
            Source::Manual(state) => {
                ManualClock(Arc::clone(state)).advance(wait);
                Duration::ZERO
            }
        }
    }
}

/// The hands of a clock that a test moves.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<ManualState>);

impl ManualClock {
    /// A clock that stands at `now_us` microseconds since the epoch, with zero elapsed.
    pub fn new(now_us: u64) -> ManualClock {
        ManualClock(Arc::new(ManualState { now_us: AtomicU64::new(now_us), monotonic_us: AtomicU64::new(0) }))
    }

    /// A clock that shows what these hands say.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(Arc::clone(&self.0)))
    }

    /// Lets time pass: both readings advance.
    pub fn advance(&self, by: Duration) {
        let by_us = by.as_micros() as u64;
        self.0.now_us.fetch_add(by_us, Ordering::AcqRel);
        self.0.monotonic_us.fetch_add(by_us, Ordering::AcqRel);
    }

    /// Sets the wall clock, backwards if need be, as an administrator or NTP would. No time passes.
    pub fn set_now_us(&self, now_us: u64) {
        self.0.now_us.store(now_us, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_reads_microseconds() {
        let clock = Clock::system();
        // 2020-01-01 and 2200-01-01, in microseconds: another unit would be a factor of a thousand off.
        assert!((1_577_836_800_000_000..7_258_118_400_000_000).contains(&clock.now_us()));
        let before = clock.monotonic();
        assert!(clock.monotonic() >= before);
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let hands = ManualClock::new(1_000);
        let clock = hands.clock();
        assert_eq!((clock.now_us(), clock.monotonic()), (1_000, Duration::ZERO));
        hands.advance(Duration::from_millis(2));
        assert_eq!((clock.now_us(), clock.monotonic()), (3_000, Duration::from_millis(2)));
        hands.set_now_us(500);
        assert_eq!((clock.now_us(), clock.monotonic()), (500, Duration::from_millis(2)));
    }

    #[test]
    fn who_waits_by_a_manual_clock_moves_it_instead() {
        let clock = ManualClock::new(1_000).clock();
        assert_eq!(clock.sleep_for(Duration::from_secs(1)), Duration::ZERO);
        assert_eq!((clock.now_us(), clock.monotonic()), (1_001_000, Duration::from_secs(1)));
        assert_eq!(Clock::system().sleep_for(Duration::from_secs(1)), Duration::from_secs(1));
    }
}
