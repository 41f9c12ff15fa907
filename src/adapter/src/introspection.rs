//! What is stored and maintained, as it is now: for the relations of `mz_internal` and `mz_introspection`, and for metrics.

use crate::shared::Shared;
use catalog::builtin::history::Execution;
use catalog::builtin::introspection::{Arrangement, CollectionStatus, Hydration, Live, LockStatus, SessionStatus};
use committer::published::Published;
use compute_client::index::IndexHandle;
use compute_client::progress::Hydrating;
use engine::session::Position;
use repr::{GlobalId, Timestamp};
use std::sync::Arc;

/// What is going on now.
pub(crate) struct Now<'a> {
    /// The server.
    pub(crate) shared: &'a Shared,
    /// The catalog of whoever asks.
    pub(crate) published: &'a Published,
}

impl Live for Now<'_> {
    fn collections(&self) -> Vec<CollectionStatus> {
        let read_ts = self.shared.oracle.known_ts();
        let tables = self.published.tables.keys().map(|id| table(self.shared, *id, read_ts));
        tables.chain(self.published.started().map(|index| maintained(self.shared, &index.handle, read_ts))).collect()
    }

    fn sessions(&self) -> Vec<SessionStatus> {
        self.shared.sessions.lock().iter().map(|(id, session)| session.activity.status(*id)).collect()
    }

    fn position(&self, sequence: GlobalId) -> Option<Position> {
        self.published.sequences.get(&sequence).map(|sequence| sequence.position())
    }

    fn locks(&self) -> Vec<LockStatus> {
        self.shared.locks.status()
    }

    fn executions(&self) -> Vec<Arc<Execution>> {
        self.shared.history.executions()
    }
}

/// A table shows every write that was acknowledged.
fn table(shared: &Shared, id: GlobalId, read_ts: Timestamp) -> CollectionStatus {
    let since = shared.persist.shard_stats(id.into()).map_or(0, |stats| stats.since);
    CollectionStatus { id, since, upper: read_ts + 1, lag_us: Some(0), arrangement: None }
}

/// An index or a materialized view.
pub(crate) fn maintained(shared: &Shared, handle: &IndexHandle, read_ts: Timestamp) -> CollectionStatus {
    let (record_count, byte_count) = handle.size();
    let Hydrating { rows_total, rows_read, bytes_total, bytes_read, took } = handle.progress().now();
    let arrangement = Arrangement {
        is_hydrated: handle.is_hydrated() && !handle.is_seeded(),
        record_count,
        batch_count: handle.slots().iter().map(|slot| slot.load().oks.len()).sum(),
        byte_count,
        hydration: Hydration {
            rows_total,
            rows_read,
            bytes_total,
            bytes_read,
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        },
        memory_used: handle
            .stopped()
            // What is little is not asked for.
            .map_or_else(|| handle.allowance().used().max(byte_count), |stopped| stopped.used),
        memory_allowed: handle.stopped().map_or_else(|| handle.allowance().limit(), |stopped| stopped.refused.limit),
        error: handle.check().err().map(|error| error.to_string()),
    };
    let published = handle.upper();
    // A worker hears of a time only when there was a write: without one, what it has published holds for later times, too.
    let (upper, lag_us) = match published {
        0 => (0, None),
        _ if handle.all_complete(read_ts) => (published.max(read_ts + 1), Some(0)),
        _ => (published, Some(shared.clock.now_us().saturating_sub(published))),
    };
    CollectionStatus { id: handle.id, since: handle.since(), upper, lag_us, arrangement: Some(arrangement) }
}
