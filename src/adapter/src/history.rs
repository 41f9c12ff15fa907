//! What was run: a sample of the server's statements, the newest of them, for `mz_recent_activity_log`.
//!
//! 1. Each session draws how many statements pass before it notes one, so that most of them cost it a decrement.
//! 2. A statement whose turn it is is put into the server's history when it begins: it is seen while it runs.
//! 3. How it is answered is noted where that is decided, and how it ended where its last message is written.
//!
//! `statement_logging_sample_rate` is a session's own, `statement_logging_max_sample_rate` the server's: of the statements
//! whose turn it is, so many are left out that the smaller of the two is met.
//!
//! # Invariants
//! - Passwords are not kept: of a statement that may have one, there is its name.
//! - What is kept is bounded, in number and in bytes.

use catalog::builtin::history::Execution;
use parking_lot::Mutex;
use rand::Rng;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most statements that are kept.
const EXECUTIONS_MAX: usize = 10_000;
/// The most memory that they take, about.
const BYTES_MAX: usize = 16 << 20;

/// The server's history, the oldest first.
#[derive(Default)]
pub(crate) struct History {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    executions: VecDeque<Arc<Execution>>,
    bytes: usize,
}

impl History {
    /// Keeps another one, and of the oldest as many less as there are too many.
    pub(crate) fn push(&self, execution: Arc<Execution>) {
        let mut kept = self.kept.lock();
        kept.bytes += execution.bytes();
        kept.executions.push_back(execution);
        while kept.bytes > BYTES_MAX || kept.executions.len() > EXECUTIONS_MAX {
            let Some(oldest) = kept.executions.pop_front() else { break };
            kept.bytes -= oldest.bytes();
        }
    }

    /// All that there is.
    pub(crate) fn executions(&self) -> Vec<Arc<Execution>> {
        self.kept.lock().executions.iter().map(Arc::clone).collect()
    }
}

/// A session's part in it.
pub(crate) struct Sampling {
    /// The share of statements that are noted.
    pub(crate) rate: f64,
    /// How many statements pass before the next one is.
    passing: u64,
    /// What is being run, if it is noted.
    pub(crate) current: Option<Arc<Execution>>,
    /// What the client called itself when it came.
    pub(crate) first_application_name: String,
}

impl Sampling {
    /// Of a session that begins.
    pub(crate) fn new(application_name: &str) -> Sampling {
        let first_application_name = application_name.to_owned();
        Sampling { rate: 0.0, passing: u64::MAX, current: None, first_application_name }
    }

    /// Changes the share of statements that are noted.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        if rate != self.rate {
            self.rate = rate;
            self.draw();
        }
    }

    /// Whether the statement that begins now is to be noted.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        match self.passing.checked_sub(1) {
            Some(left) => {
                self.passing = left;
                false
            }
            None => {
                self.draw();
                true
            }
        }
    }

    /// How many statements pass before one is noted, if each is noted with the same chance.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
    fn draw(&mut self) {
        let chance: f64 = rand::rng().random_range(f64::MIN_POSITIVE..1.0);
        self.passing = match self.rate {
            rate if rate <= 0.0 => u64::MAX,
            rate if rate >= 1.0 => 0,
            rate => (chance.ln() / (1.0 - rate).ln()) as u64,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::Sampling;

    fn noted(rate: f64, statements: u32) -> u32 {
        let mut sampling = Sampling::new("");
        sampling.set_rate(rate);
        (0..statements).map(|_| u32::from(sampling.is_due())).sum()
    }

    #[test]
    fn as_many_are_noted_as_the_rate_says() {
        assert_eq!(noted(0.0, 10_000), 0);
        assert_eq!(noted(1.0, 10_000), 10_000);
        // Seven standard deviations and more.
        let half = noted(0.5, 10_000);
        assert!((4_600..5_400).contains(&half), "{half}");
        let few = noted(0.01, 100_000);
        assert!((750..1_250).contains(&few), "{few}");
    }
}
