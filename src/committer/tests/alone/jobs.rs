//! What runs beside the committer: nothing moves unless it is told to.

use ore::thread::{Beside, Job};
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Waker};

/// See the module. Each clone has the same jobs.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Mutex<Vec<(String, Job)>>>);

impl Beside for Jobs {
    fn start(&self, name: String, job: Job) {
        self.0.lock().push((name, job));
    }
}

impl Jobs {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// What they are called.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    /// None of them goes on.
    pub(crate) fn clear(&self) {
        // What they let go may start others.
        while let Some(job) = { self.0.lock().pop() } {
            drop(job);
        }
    }

    /// Lets one go on; whether it has come to its end. It may start others.
    pub(crate) fn go_on(&self, at: usize) -> bool {
        let (name, mut job) = self.0.lock().remove(at);
        let is_over = job.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !is_over {
            self.0.lock().insert(at, (name, job));
        }
        is_over
    }

    /// Lets all go on in their order, again and again until none comes to its end any more.
    pub(crate) fn go_on_all(&self) {
        let mut at = 0;
        while at < self.count() {
            at = if self.go_on(at) { 0 } else { at + 1 };
        }
    }
}
