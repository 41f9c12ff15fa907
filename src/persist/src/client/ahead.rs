//! Large batches that are written before they are committed, on the thread of whoever wants to commit them: the committer, and all who
//! wait behind it, then wait for a reference to become durable and not for the bytes.

use crate::blob::BlobLease;
use crate::client::PersistClient;
use crate::encoding::{BlobRef, estimate_encoded_bytes};
use crate::error::PersistError;
use crate::inner::INLINE_BYTES_MAX;
use crate::shard_id::ShardId;
use repr::{Timestamp, Updates};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Updates whose blob is durable already. Dropped before they are committed, the blob goes; should the process die before, the next
/// open removes it.
#[derive(Debug)]
pub struct Ahead {
    pub(crate) shard: ShardId,
    pub(crate) updates: Arc<Updates>,
    lease: Arc<BlobLease>,
    is_committed: AtomicBool,
}

impl Ahead {
    /// The reference to the blob for a commit at `ts`. From here on the blob is the commit's.
    pub(crate) fn commit(&self, ts: Timestamp) -> BlobRef {
        self.is_committed.store(true, Ordering::Release);
        self.lease.blob.at(ts)
    }

    /// Whether these are its updates.
    pub(crate) fn is(&self, updates: &Arc<Updates>) -> bool {
        Arc::ptr_eq(&self.updates, updates)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if !*self.is_committed.get_mut() {
            self.lease.mark_obsolete();
        }
    }
}

impl PersistClient {
    /// Whether updates are so many that [`PersistClient::write_ahead`] writes them.
    pub fn is_large(updates: &Updates) -> bool {
        estimate_encoded_bytes(updates.len(), updates.bytes()) > INLINE_BYTES_MAX
    }

    /// Writes a blob of updates of a shard that are about to be committed, and waits until it is durable. The shard need not exist
    /// yet.
    pub fn write_ahead(&self, shard: ShardId, updates: Arc<Updates>) -> Result<Ahead, PersistError> {
        // Those that were given up before.
        self.inner.blobs.collect_garbage();
        let seq = self.inner.allocate_seq();
        let lease = self.inner.write_sorted_blob(shard, seq, 0, std::slice::from_ref(&updates))?;
        Ok(Ahead { shard, updates, lease, is_committed: AtomicBool::new(false) })
    }
}
