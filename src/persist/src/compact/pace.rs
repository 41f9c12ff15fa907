//! The pace of work that nobody waits for: all of a core that nobody else wants, and a small part of one that somebody does.
//!
//! Whether somebody else wants the core is known from how long this thread has had to wait for one, which the system counts. Where it
//! does not, the work goes on.

use super::requests::Background;
use ore::thread::waited;
use std::time::{Duration, Instant};

/// How long it works before it looks.
const SLICE: Duration = Duration::from_millis(5);

/// Who has waited for more than this part of a slice was not alone.
const WAITED_PART: u32 = 8;

/// How much longer than a slice it rests then, and how long at the most.
const REST: u32 = 8;
const REST_MAX: Duration = Duration::from_secs(1);

/// A slice of work.
pub(super) struct Pace {
    begun: Instant,
    /// How long the thread had waited by then, ever.
    waited: Option<Duration>,
}

impl Pace {
    /// Begins to work.
    pub(super) fn begin() -> Pace {
        Pace { begun: Instant::now(), waited: waited() }
    }

    /// Rests, if it has worked for a slice that was not its alone, until something is asked for.
    pub(super) fn rest(&mut self, background: &Background) {
        let took = self.begun.elapsed();
        if took < SLICE {
            return;
        }
        let waited = waited().zip(self.waited).map(|(now, before)| now.saturating_sub(before));
        if waited.is_some_and(|waited| waited > took / WAITED_PART) {
            background.rest((took * REST).min(REST_MAX));
        }
        *self = Pace::begin();
    }
}
