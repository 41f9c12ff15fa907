//! What the workers of an index hand to who follows it, in the same moment in which they publish it.
//!
//! # Invariants
//! - A queue holds no more bytes than it may. One that would is emptied, and its tail fails from then on.

use arrangement::spine::RowBatch;
use parking_lot::Mutex;
use repr::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

/// A batch that an arrangement has completed.
#[derive(Clone)]
pub enum Sealed {
    /// Rows.
    Oks(RowBatch),
    /// Errors.
    Errs(RowBatch),
}

/// What the workers of an index have handed to one follower and it has not taken.
pub(crate) struct Queue {
    bytes_max: usize,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    published: VecDeque<Published>,
    bytes: usize,
    is_overrun: bool,
}

/// One publication: the worker, its upper afterwards, and what is new.
type Published = (usize, Timestamp, Arc<[Sealed]>);

impl Queue {
    /// A queue without anything in it, which holds so many bytes at the most.
    pub(crate) fn new(bytes_max: usize) -> Queue {
        Queue { bytes_max, state: Mutex::default() }
    }

    /// Takes a publication, unless there is too much already.
    pub(crate) fn push(&self, worker: usize, upper: Timestamp, sealed: &Arc<[Sealed]>) {
        let mut state = self.state.lock();
        if state.is_overrun {
            return;
        }
        state.bytes += bytes(sealed);
        if state.bytes > self.bytes_max {
            *state = QueueState { is_overrun: true, ..QueueState::default() };
        } else {
            state.published.push_back((worker, upper, Arc::clone(sealed)));
        }
    }

    /// Whether a [`Queue::take`] would give something.
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.state.lock();
        state.is_overrun || !state.published.is_empty()
    }

    /// What was handed over since the last time; `None` once it was too much.
    pub(crate) fn take(&self) -> Option<VecDeque<Published>> {
        let mut state = self.state.lock();
        state.bytes = 0;
        (!state.is_overrun).then(|| std::mem::take(&mut state.published))
    }
}

fn bytes(sealed: &[Sealed]) -> usize {
    let of = |sealed: &Sealed| match sealed {
        Sealed::Oks(batch) | Sealed::Errs(batch) => batch.byte_count(),
    };
    sealed.iter().map(of).sum::<usize>() + size_of::<Published>()
}
