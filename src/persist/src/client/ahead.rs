//! Large batches that are written before they are committed, on the thread of whoever wants to commit them: the committer, and all who
//! wait behind it, then wait for a reference to become durable and not for the bytes.

use crate::blob::BlobLease;
use crate::client::PersistClient;
use crate::consensus::{BatchRow, Payload};
use crate::encoding::{BlobRef, estimate_encoded_bytes};
use crate::error::PersistError;
use crate::inner::INLINE_BYTES_MAX;
use crate::output::with_payload;
use crate::shard_id::ShardId;
use arrow::datatypes::DataType;
use columns::{GROUP_ROWS, Shape};
use ore::thread::spawn;
use repr::{Diff, Timestamp, Updates};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

/// Updates from which on they become another file.
const FILE_ROWS_MIN: usize = 2 * GROUP_ROWS;

/// Durable blobs of updates that nobody has committed. Dropped before they are, the blobs go; should the process die before, the next open
/// removes them.
#[derive(Debug)]
pub struct Blobs {
    shard: ShardId,
    written: Vec<(BatchRow<()>, Arc<BlobLease>)>,
    is_committed: AtomicBool,
}

impl Drop for Blobs {
    fn drop(&mut self) {
        if !*self.is_committed.get_mut() {
            self.written.iter().for_each(|(_, lease)| lease.mark_obsolete());
        }
    }
}

/// Updates whose blobs are durable already.
#[derive(Debug)]
pub struct Ahead {
    pub(crate) shard: ShardId,
    pub(crate) updates: Arc<Updates>,
    blobs: Vec<Blobs>,
}

impl Ahead {
    /// What these blobs of a shard have together.
    pub fn new(shard: ShardId, updates: Arc<Updates>, blobs: Vec<Blobs>) -> Ahead {
        assert!(blobs.iter().all(|of| of.shard == shard), "blobs of another shard than {shard}");
        let rows = blobs.iter().flat_map(|of| &of.written).map(|(row, _)| row.rows).sum::<Diff>();
        debug_assert_eq!(updates.iter().map(|(_, diff)| diff).sum::<Diff>(), rows, "other updates than were written");
        Ahead { shard, updates, blobs }
    }

    /// The batches of a commit at `ts`. From here on the blobs are the commit's.
    pub(crate) fn commit(&self, ts: Timestamp) -> impl Iterator<Item = (BatchRow<Vec<u8>>, BlobRef)> {
        self.blobs.iter().for_each(|of| of.is_committed.store(true, Ordering::Release));
        self.blobs.iter().flat_map(|of| &of.written).map(move |(row, lease)| {
            let blob = lease.blob.at(ts);
            let payload = Payload::Blob(blob.encode_framed());
            (BatchRow { ts_max: ts, ..with_payload(row.clone(), payload) }, blob)
        })
    }

    /// Whether these are its updates.
    pub(crate) fn is(&self, updates: &Arc<Updates>) -> bool {
        Arc::ptr_eq(&self.updates, updates)
    }
}

impl PersistClient {
    /// Whether updates are so many that [`PersistClient::write_ahead`] writes them.
    pub fn is_large(updates: &Updates) -> bool {
        estimate_encoded_bytes(updates.len(), updates.bytes()) > INLINE_BYTES_MAX
    }

    /// Writes blobs of updates of a shard that are about to be committed, and waits until they are durable. The shard need not exist
    /// yet. Rows of these types are kept by column, where that can be.
    pub fn write_ahead(
        &self,
        shard: ShardId,
        types: Option<&[DataType]>,
        updates: Arc<Updates>,
    ) -> Result<Ahead, PersistError> {
        let shape = self.shape_of(shard, types);
        // A file each, from what is next to each other: files are read whatever of their rows is between those of others.
        let files = match &shape {
            Some(_) => available_parallelism().map_or(1, usize::from).min(updates.len() / FILE_ROWS_MIN).max(1),
            None => 1,
        };
        let rows = updates.len().div_ceil(files).max(1);
        let write = |start: usize| {
            let (client, shape, updates) = (self.clone(), shape.clone(), Arc::clone(&updates));
            move || {
                let order = (start..updates.len().min(start + rows)).map(|at| updates.get(at)).collect();
                client.write_blobs(shard, shape, order)
            }
        };
        let others: Vec<_> =
            (rows..updates.len()).step_by(rows).map(|start| spawn("write-ahead", write(start))).collect();
        let mut written = vec![write(0)()];
        for other in others {
            written.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        Ok(Ahead::new(shard, updates, written.into_iter().collect::<Result<_, _>>()?))
    }

    /// The same of a part of them, in pieces: a file.
    pub fn write_run(
        &self,
        shard: ShardId,
        types: Option<&[DataType]>,
        run: &[Updates],
    ) -> Result<Blobs, PersistError> {
        let order = run.iter().flat_map(Updates::iter).collect();
        self.write_blobs(shard, self.shape_of(shard, types), order)
    }

    fn shape_of(&self, shard: ShardId, types: Option<&[DataType]>) -> Option<Arc<Shape>> {
        types.and_then(Shape::new).map(Arc::new).or_else(|| self.inner.shape(shard))
    }

    fn write_blobs(
        &self,
        shard: ShardId,
        shape: Option<Arc<Shape>>,
        order: Vec<(&[u8], Diff)>,
    ) -> Result<Blobs, PersistError> {
        // Those that were given up before.
        self.inner.blobs.collect_garbage();
        let written = self.inner.sorted(shard, shape, 0, order)?.finish_blobs()?;
        Ok(Blobs { shard, written, is_committed: AtomicBool::new(false) })
    }
}
