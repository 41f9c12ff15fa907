//! Sorted updates on their way to where they are kept: in memory while they are few, in blobs from then on.
//!
//! Where the shape of the rows is known, what adds rows goes to a file of columns and what removes rows beside it, to a batch of its
//! own: a file of columns says what there was, and nothing of what has gone.

use crate::blob::{BlobLease, BlobWriter};
use crate::consensus::{BatchRow, Payload};
use crate::encoding::{PartBuilder, length_to_u64};
use crate::error::PersistError;
use crate::inner::{INLINE_BYTES_MAX, Inner, PART_BYTES};
use crate::shard::Location;
use crate::shard_id::ShardId;
use columns::{GROUP_BYTES, GROUP_ROWS, Shape};
use repr::{Diff, Timestamp};
use std::sync::Arc;

/// Updates being written.
pub(crate) struct Output<'a> {
    /// Everything, or, where rows are kept by column, what adds them.
    main: Sink<'a>,
    /// What removes rows that are kept by column.
    removals: Option<Sink<'a>>,
}

/// A batch that was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) row: BatchRow<Vec<u8>>,
    pub(crate) location: Location,
}

/// One batch being written.
struct Sink<'a> {
    inner: &'a Inner,
    shard: ShardId,
    shape: Option<Arc<Shape>>,
    seq: u64,
    part: PartBuilder,
    writer: Option<BlobWriter>,
    ts_max: Timestamp,
    rows: Diff,
    update_count: u64,
    bytes: u64,
}

impl<'a> Output<'a> {
    /// Updates of a shard, whose rows are of this shape.
    pub(crate) fn new(inner: &'a Inner, shard: ShardId, shape: Option<Arc<Shape>>) -> Output<'a> {
        let removals = shape.is_some().then(|| Sink::new(inner, shard, None));
        Output { main: Sink::new(inner, shard, shape), removals }
    }

    /// Adds an update, whose row is none below those before.
    pub(crate) fn push(&mut self, row: &[u8], ts: Timestamp, diff: Diff) -> Result<(), PersistError> {
        match &mut self.removals {
            None => self.main.push(row, ts, diff),
            Some(removals) if diff < 0 => removals.push(row, ts, diff),
            Some(_) => (0..diff).try_for_each(|_| self.main.push(row, ts, 1)),
        }
    }

    /// The batches, in blobs that are durable or, if they are small, inline.
    pub(crate) fn finish(mut self) -> Result<Vec<Written>, PersistError> {
        if let Some(removals) = self.removals.take() {
            if self.main.is_small() && removals.is_small() {
                self.main.take(removals);
            } else {
                return Ok(self.main.finish()?.into_iter().chain(removals.finish()?).collect());
            }
        }
        Ok(self.main.finish()?.into_iter().collect())
    }

    /// The same, all of it in blobs.
    pub(crate) fn finish_blobs(self) -> Result<Vec<(BatchRow<()>, Arc<BlobLease>)>, PersistError> {
        let sinks = [Some(self.main), self.removals].into_iter().flatten();
        sinks.filter(|sink| sink.update_count > 0).map(Sink::finish_blob).collect()
    }
}

impl<'a> Sink<'a> {
    fn new(inner: &'a Inner, shard: ShardId, shape: Option<Arc<Shape>>) -> Sink<'a> {
        let (seq, part) = (inner.allocate_seq(), PartBuilder::default());
        Sink { inner, shard, shape, seq, part, writer: None, ts_max: 0, rows: 0, update_count: 0, bytes: 0 }
    }

    fn push(&mut self, row: &[u8], ts: Timestamp, diff: Diff) -> Result<(), PersistError> {
        self.part.push(row, ts, diff);
        self.ts_max = self.ts_max.max(ts);
        self.rows += diff;
        self.update_count += 1;
        self.bytes += length_to_u64(row.len());
        let is_full = match self.shape {
            Some(_) => self.part.len() >= GROUP_ROWS || self.part.encoded_bytes_estimate() >= GROUP_BYTES,
            None => self.part.encoded_bytes_estimate() >= PART_BYTES,
        };
        if is_full { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), PersistError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let key = self.inner.blob_key(self.shard, self.seq);
                none.insert(self.inner.blobs.create(key, self.shard, self.shape.as_ref())?)
            }
        };
        writer.write(std::mem::take(&mut self.part))
    }

    /// Whether it need not be a blob.
    fn is_small(&self) -> bool {
        self.writer.is_none() && self.part.encoded_bytes_estimate() <= INLINE_BYTES_MAX
    }

    /// Takes what another has, both being small: inline batches need not be sorted.
    fn take(&mut self, other: Sink<'_>) {
        self.part.append(other.part);
        self.ts_max = self.ts_max.max(other.ts_max);
        self.rows += other.rows;
        self.update_count += other.update_count;
        self.bytes += other.bytes;
    }

    fn finish(self) -> Result<Option<Written>, PersistError> {
        if self.update_count == 0 {
            return Ok(None);
        }
        if !self.is_small() {
            let (row, lease) = self.finish_blob()?;
            let payload = Payload::Blob(lease.blob.encode_framed());
            return Ok(Some(Written { row: with_payload(row, payload), location: Location::Blob(lease) }));
        }
        let row = self.row();
        let payload = Payload::Inline(self.part.encode(self.shard));
        Ok(Some(Written { row: with_payload(row, payload), location: Location::Inline }))
    }

    fn finish_blob(mut self) -> Result<(BatchRow<()>, Arc<BlobLease>), PersistError> {
        if !self.part.is_empty() {
            self.write()?;
        }
        let writer = self.writer.take().expect("what is not empty was written");
        let lease = self.inner.blobs.finish(writer)?;
        Ok((self.row(), lease))
    }

    fn row(&self) -> BatchRow<()> {
        let Sink { seq, shard, ts_max, rows, update_count, bytes, .. } = *self;
        BatchRow { seq, shard, ts_max, rows, update_count, bytes, payload: Payload::Inline(()) }
    }
}

/// The batch, with its updates.
pub(crate) fn with_payload<P, Q>(row: BatchRow<P>, payload: Payload<Q>) -> BatchRow<Q> {
    let BatchRow { seq, shard, ts_max, rows, update_count, bytes, .. } = row;
    BatchRow { seq, shard, ts_max, rows, update_count, bytes, payload }
}
