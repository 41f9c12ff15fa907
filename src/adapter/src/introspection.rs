//! What is stored and maintained, as it is now: for the relations of `mz_internal` and `mz_introspection`, and for metrics.

use crate::client::{Published, Shared};
use catalog::builtin::introspection::{Arrangement, CollectionStatus};
use compute_client::index::IndexHandle;
use repr::{GlobalId, Timestamp};

/// Every table, index and materialized view.
pub(crate) fn collections(shared: &Shared, published: &Published) -> Vec<CollectionStatus> {
    let read_ts = shared.oracle.known_ts();
    let tables = published.tables.keys().map(|id| table(shared, *id, read_ts));
    let indexes = published.indexes.values().flatten();
    tables.chain(indexes.map(|index| maintained(shared, &index.handle, read_ts))).collect()
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
