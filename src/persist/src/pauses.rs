//! The pauses between attempts at a store that others share, and what is logged meanwhile.

use std::error::Error;
use std::time::{Duration, Instant};

use rand::Rng;

/// The first pause between two attempts, and the longest. Each is twice the one before, less up to half by chance, so that
/// processes that lost their store together do not come back together.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How often a wait for the store is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// What went wrong, with all of its causes; those that were told already are left out.
pub fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// The attempts at one thing.
pub(crate) struct Pauses {
    what: &'static str,
    patience: Duration,
    started: Instant,
    pause: Duration,
    logged: Option<Instant>,
}

impl Pauses {
    /// No attempt was made yet; `patience` begins now.
    pub(crate) fn new(what: &'static str, patience: Duration) -> Pauses {
        Pauses { what, patience, started: Instant::now(), pause: PAUSE_MIN, logged: None }
    }

    /// How long to pause after a failure that may pass; `None` if there is no patience left.
    pub(crate) fn next(&mut self, error: &dyn Error) -> Option<Duration> {
        if self.started.elapsed().saturating_add(self.pause) >= self.patience {
            return None;
        }
        if self.logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
            self.logged = Some(Instant::now());
            let (what, error, waited_ms) = (self.what, in_full(error), self.started.elapsed().as_millis());
            tracing::warn!(what, error, waited_ms, "waiting for the shared store");
        }
        let jittered = self.pause.mul_f64(rand::rng().random_range(0.5..1.0));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Some(jittered)
    }

    /// There was an answer.
    pub(crate) fn end(self) {
        if self.logged.is_some() {
            let (what, waited_ms) = (self.what, self.started.elapsed().as_millis());
            tracing::info!(what, waited_ms, "the shared store answers again");
        }
    }
}
