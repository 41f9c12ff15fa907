//! What the background thread is asked to do.

use crate::shard::Shards;
use crate::shard_id::ShardId;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the background thread sleeps when nobody wakes it. Then it looks after the log and the garbage.
const IDLE_PERIOD: Duration = Duration::from_secs(1);

/// What the background thread is asked to do.
#[derive(Debug)]
pub(crate) struct Background {
    requests: Mutex<Requests>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Requests {
    is_stopping: bool,
    /// Housekeeping is due.
    is_due: bool,
    shards: BTreeSet<ShardId>,
}

impl Background {
    /// With requests for what a restart found in need of it.
    pub(crate) fn new(shards: &Shards) -> Background {
        let worth = shards.by_id.iter().filter(|(_, shard)| shard.is_worth_compacting());
        let requests = Requests { is_stopping: false, is_due: false, shards: worth.map(|(id, _)| *id).collect() };
        Background { requests: Mutex::new(requests), wake: Condvar::new() }
    }

    /// Asks for `shard` to be compacted.
    pub(crate) fn request(&self, shard: ShardId) {
        if self.requests.lock().shards.insert(shard) {
            self.wake.notify_one();
        }
    }

    /// Asks for housekeeping, in the midst of a compaction, too.
    pub(crate) fn request_housekeeping(&self) {
        self.requests.lock().is_due = true;
        self.wake.notify_one();
    }

    /// Whether somebody has asked for it since the last time.
    pub(super) fn is_housekeeping_due(&self) -> bool {
        std::mem::take(&mut self.requests.lock().is_due)
    }

    /// Waits for work, though not for ever. `None`: stop.
    pub(super) fn next(&self) -> Option<BTreeSet<ShardId>> {
        self.rest(IDLE_PERIOD);
        let mut requests = self.requests.lock();
        requests.is_due = false;
        (!requests.is_stopping).then(|| std::mem::take(&mut requests.shards))
    }

    /// Waits for so long, unless something is asked for.
    pub(super) fn rest(&self, duration: Duration) {
        let mut requests = self.requests.lock();
        if requests.shards.is_empty() && !requests.is_stopping && !requests.is_due {
            self.wake.wait_for(&mut requests, duration);
        }
    }

    /// Whether nothing is asked for.
    pub(super) fn is_idle(&self) -> bool {
        let requests = self.requests.lock();
        !requests.is_stopping && requests.shards.is_empty()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.requests.lock().is_stopping
    }

    pub(super) fn stop(&self) {
        self.requests.lock().is_stopping = true;
        self.wake.notify_one();
    }
}
