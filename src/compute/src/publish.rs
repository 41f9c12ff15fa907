//! Shows an arrangement to its readers.
//!
//! After each step that completed a time or merged batches, the worker collects the trace's batches and stores them in the
//! index's slot. Collecting clones a handful of `Arc`s; nothing is copied.
//!
//! # Invariants
//! - The trace handles that are read here follow the compaction frontier (see `worker`): a handle that stood still would
//!   pin every batch that it publishes.

use crate::render::Trace;
use arrangement::snapshot::Snapshot;
use arrangement::spine::{RowBatch, RowSpine};
use compute_client::queue::Sealed;
use differential_dataflow::operators::arrange::TraceReplayInstruction;
use differential_dataflow::trace::TraceReader;
use repr::Timestamp;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use timely::progress::Antichain;
use timely::scheduling::Activator;
use timely::worker::Worker;

/// The least time at which a trace may still receive updates.
pub fn upper(trace: &mut Trace) -> Timestamp {
    let mut upper = Antichain::new();
    trace.read_upper(&mut upper);
    upper.as_option().copied().unwrap_or(Timestamp::MAX)
}

/// The number of spans, which tells whether a merge has completed.
pub fn span_count(trace: &Trace) -> usize {
    let mut count = 0;
    trace.map_spans(|_| count += 1);
    count
}

/// Gives each batch that a trace takes, in the moment in which the trace has it.
pub struct Listener {
    queue: Queue,
    kind: fn(RowBatch) -> Sealed,
}

type Queue = Rc<(Activator, RefCell<VecDeque<TraceReplayInstruction<RowSpine>>>)>;

impl Listener {
    /// Listens to a trace from its beginning.
    pub fn new(worker: &Worker, trace: &mut Trace, kind: fn(RowBatch) -> Sealed) -> Listener {
        let activator = worker.activator_for(Rc::clone(&trace.operator().address));
        Listener { queue: trace.new_listener(activator), kind }
    }

    /// The batches that came since the last call.
    pub fn take(&self) -> impl Iterator<Item = Sealed> {
        let (kind, instructions) = (self.kind, self.queue.1.take());
        instructions.into_iter().filter_map(move |instruction| match instruction {
            TraceReplayInstruction::Span(span, _) => span.inner.map(kind),
            TraceReplayInstruction::Frontier(_) => None,
        })
    }
}

/// What readers shall see.
pub fn snapshot(oks: &Trace, errs: Option<&Trace>, since: Timestamp, upper: Timestamp) -> Snapshot {
    Snapshot::new(batches(oks), errs.map(batches).unwrap_or_default(), since, upper)
}

fn batches(trace: &Trace) -> Vec<RowBatch> {
    let mut batches = Vec::new();
    trace.map_spans(|span| batches.extend(span.inner.clone()));
    batches
}
