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
use arrangement::spine::RowBatch;
use differential_dataflow::trace::TraceReader;
use repr::Timestamp;
use timely::progress::Antichain;

/// The least time at which a trace may still receive updates.
pub fn upper(trace: &mut Trace) -> Timestamp {
    let mut upper = Antichain::new();
    trace.read_upper(&mut upper);
    upper.as_option().copied().unwrap_or(Timestamp::MAX)
}

/// The number of batches, which tells whether a merge has completed.
pub fn batch_count(trace: &Trace) -> usize {
    let mut count = 0;
    trace.map_batches(|_| count += 1);
    count
}

/// What readers shall see.
pub fn snapshot(oks: &Trace, errs: Option<&Trace>, since: Timestamp, upper: Timestamp) -> Snapshot {
    Snapshot::new(batches(oks), errs.map(batches).unwrap_or_default(), since, upper)
}

fn batches(trace: &Trace) -> Vec<RowBatch> {
    let mut batches = Vec::new();
    trace.map_batches(|batch| {
        if batch.updates > 0 {
            batches.push(batch.clone());
        }
    });
    batches
}
