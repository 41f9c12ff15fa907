//! What is stored and maintained, as it is now: for the relations of `mz_internal` and `mz_introspection`, and for metrics.

use crate::client::{Published, Shared};
use catalog::builtin::history::Execution;
use catalog::builtin::introspection::{Arrangement, CollectionStatus, Live, LockStatus, SessionStatus};
use compute_client::index::IndexHandle;
use repr::{GlobalId, Timestamp};
use sql::plan::sequence::Position;
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
        let indexes = self.published.indexes.values().flatten();
        tables.chain(indexes.map(|index| maintained(self.shared, &index.handle, read_ts))).collect()
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
    let mut arrangement = Arrangement {
        is_hydrated: handle.is_hydrated() && !handle.is_seeded(),
        record_count: 0,
        batch_count: 0,
        byte_count: 0,
    };
    for slot in handle.slots() {
        let snapshot = slot.load();
        arrangement.record_count += snapshot.update_count();
        arrangement.batch_count += snapshot.oks.len();
        arrangement.byte_count += snapshot.byte_count();
    }
    let published = handle.upper();
    // A worker hears of a time only when there was a write: without one, what it has published holds for later times, too.
    let (upper, lag_us) = match published {
        0 => (0, None),
        _ if handle.all_complete(read_ts) => (published.max(read_ts + 1), Some(0)),
        _ => (published, Some(shared.clock.now_us().saturating_sub(published))),
    };
    CollectionStatus { id: handle.id, since: handle.since(), upper, lag_us, arrangement: Some(arrangement) }
}
