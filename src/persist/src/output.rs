//! Sorted updates on their way to where they are kept: in memory while they are few, in blobs from then on.
//!
//! Where the shape of the rows is known, what adds rows goes to a file of columns, which says what there was and nothing of what has
//! gone. Of what removes rows it is said beside it at which positions these stand, in that file or in others; what stands nowhere is
//! kept as rows.

use crate::blob::{BlobLease, BlobWriter};
use crate::consensus::{BatchRow, Payload};
use crate::encoding::{PartBuilder, length_to_u64};
use crate::error::PersistError;
use crate::files::Placing;
use crate::inner::{INLINE_BYTES_MAX, Inner, PART_BYTES};
use crate::removals::{Gone, Removals};
use crate::shard::Location;
use crate::shard_id::ShardId;
use columns::{GROUP_BYTES, GROUP_ROWS, Shape};
use repr::{Diff, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;

/// About what a position takes in a list.
const REMOVAL_BYTES: u64 = 4;

/// Updates being written.
pub(crate) struct Output<'a> {
    /// Everything, or, where rows are kept by column, what adds them.
    main: Sink<'a>,
    /// Where rows are kept by column: what removes rows that stand in no file.
    removals: Option<Sink<'a>>,
    /// What has gone of the file that is being written, and of others, by their batches.
    own: Vec<Gone>,
    placed: HashMap<u64, Vec<Gone>>,
    /// The same, as it was known before.
    known: Removals,
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
        Output {
            main: Sink::new(inner, shard, shape),
            removals,
            own: Vec::new(),
            placed: HashMap::new(),
            known: Removals::default(),
        }
    }

    /// What has gone of files that stay, as lists have said that are merged.
    pub(crate) fn keep(&mut self, removals: &Removals, stays: impl Fn(u64) -> bool) {
        self.known.add(removals, stays);
    }

    /// Adds an update, whose row is none below those before.
    pub(crate) fn push(&mut self, row: &[u8], ts: Timestamp, diff: Diff) -> Result<(), PersistError> {
        match &mut self.removals {
            None => self.main.push(row, ts, diff),
            Some(removals) if diff < 0 => removals.push(row, ts, diff),
            Some(_) => (0..diff).try_for_each(|_| self.main.push(row, ts, 1)),
        }
    }

    /// Adds rows that ascend, each once: of those that begin them, as many as there are whole row groups of, from where they stand. Returns how
    /// many.
    pub(crate) fn push_groups(&mut self, rows: &[(&[u8], Diff)], ts: Timestamp) -> Result<usize, PersistError> {
        if self.removals.is_none() || rows.len() < GROUP_ROWS || rows.iter().any(|(_, diff)| *diff != 1) {
            return Ok(0);
        }
        let mut begun = 0;
        while let Some(end) = group_end(&rows[begun..]) {
            self.main.push_group(&rows[begun..begun + end], ts)?;
            begun += end;
        }
        Ok(begun)
    }

    /// Adds everything that happened to a row, which is above those before: times ascend. What is removed is looked for in files that
    /// stay.
    pub(crate) fn push_history(
        &mut self,
        row: &[u8],
        changes: &[(Timestamp, Diff)],
        files: &mut Placing,
    ) -> Result<(), PersistError> {
        if self.removals.is_none() || changes.iter().all(|(_, diff)| *diff > 0) {
            return changes.iter().try_for_each(|(ts, diff)| self.push(row, *ts, *diff));
        }
        let mut copies: Vec<Gone> = Vec::new();
        for (ts, diff) in changes {
            for at in (self.main.update_count..).take(usize::try_from(*diff).unwrap_or(0)) {
                copies.push(Gone { at, ts: *ts });
                self.main.push(row, *ts, 1)?;
            }
        }
        let mut copies = copies.into_iter().peekable();
        for (ts, diff) in changes {
            for _ in *diff..0 {
                if let Some(own) = copies.next_if(|copy| copy.ts <= *ts) {
                    self.own.push(Gone { at: own.at, ts: *ts });
                } else if let Some((file, at)) = files.take(row, *ts)? {
                    self.placed.entry(file).or_default().push(Gone { at, ts: *ts });
                } else {
                    self.push(row, *ts, -1)?;
                }
            }
        }
        Ok(())
    }

    /// The batches, in blobs that are durable or, if they are small, inline.
    pub(crate) fn finish(mut self) -> Result<Vec<Written>, PersistError> {
        let mut written = Vec::new();
        // What was small enough stays inline, whatever is put to it: a file of columns only adds rows.
        let is_inline = self.main.is_small();
        if is_inline {
            self.main.append_removals(&std::mem::take(&mut self.own));
        }
        self.known.add_to(self.main.seq, &self.own);
        self.placed.iter().for_each(|(file, gone)| self.known.add_to(*file, gone));
        written.extend(self.main.inner.write_removals(self.main.shard, &self.known)?);
        match self.removals.take() {
            Some(removals) if is_inline && removals.is_small() => self.main.take(removals),
            Some(removals) => {
                let is_inline = removals.is_small();
                written.extend(removals.finish(is_inline)?);
            }
            None => {}
        }
        written.extend(self.main.finish(is_inline)?);
        Ok(written)
    }

    /// The same, all of it in blobs.
    pub(crate) fn finish_blobs(self) -> Result<Vec<(BatchRow<()>, Arc<BlobLease>)>, PersistError> {
        let sinks = [Some(self.main), self.removals].into_iter().flatten();
        sinks.filter(|sink| sink.update_count > 0).map(Sink::finish_blob).collect()
    }
}

/// Where the row group ends that begins these rows, if they go on until then.
fn group_end(rows: &[(&[u8], Diff)]) -> Option<usize> {
    let mut bytes = 0;
    (1..).zip(rows).find_map(|(count, (row, _))| {
        bytes += row.len();
        (count >= GROUP_ROWS || bytes >= GROUP_BYTES).then_some(count)
    })
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

    /// Adds a row group.
    fn push_group(&mut self, rows: &[(&[u8], Diff)], ts: Timestamp) -> Result<(), PersistError> {
        assert!(self.part.is_empty(), "the rows before those of a group are in groups");
        let group: Vec<&[u8]> = rows.iter().map(|(row, _)| *row).collect();
        self.writer()?.write_group(&group, &vec![ts; group.len()])?;
        self.ts_max = self.ts_max.max(ts);
        self.rows += Diff::try_from(group.len()).expect("a group is small");
        self.update_count += length_to_u64(group.len());
        self.bytes += group.iter().map(|row| length_to_u64(row.len())).sum::<u64>();
        Ok(())
    }

    fn write(&mut self) -> Result<(), PersistError> {
        let part = std::mem::take(&mut self.part);
        self.writer()?.write(part)
    }

    fn writer(&mut self) -> Result<&mut BlobWriter, PersistError> {
        let created = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let key = self.inner.blob_key(self.shard, self.seq);
                self.inner.blobs.create(key, self.shard, self.shape.as_ref())?
            }
        };
        Ok(self.writer.insert(created))
    }

    /// Whether it need not be a blob.
    fn is_small(&self) -> bool {
        self.writer.is_none() && self.part.encoded_bytes_estimate() <= INLINE_BYTES_MAX
    }

    /// Says of rows of the only part, which is not sorted then, that they have gone.
    fn append_removals(&mut self, gone: &[Gone]) {
        if gone.is_empty() {
            return;
        }
        let part = std::mem::take(&mut self.part).into_part();
        (0..part.len()).for_each(|at| self.part.push(part.row(at), part.ts(at), part.diff(at)));
        for gone in gone {
            let row = part.row(usize::try_from(gone.at).expect("the part is in memory"));
            self.part.push(row, gone.ts, -1);
            self.ts_max = self.ts_max.max(gone.ts);
            self.rows -= 1;
            self.update_count += 1;
            self.bytes += length_to_u64(row.len());
        }
    }

    /// Takes what another has, both being small: inline batches need not be sorted.
    fn take(&mut self, other: Sink<'_>) {
        self.part.append(other.part);
        self.ts_max = self.ts_max.max(other.ts_max);
        self.rows += other.rows;
        self.update_count += other.update_count;
        self.bytes += other.bytes;
    }

    fn finish(self, is_inline: bool) -> Result<Option<Written>, PersistError> {
        if self.update_count == 0 {
            return Ok(None);
        }
        if !is_inline {
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

impl Inner {
    /// Makes a list of what has gone of files of columns a batch, if there is anything in it.
    fn write_removals(&self, shard: ShardId, removals: &Removals) -> Result<Option<Written>, PersistError> {
        let count = removals.len();
        if count == 0 {
            return Ok(None);
        }
        let seq = self.allocate_seq();
        let lease = self.blobs.put_removals(self.blob_key(shard, seq), shard, removals)?;
        let row = BatchRow {
            seq,
            shard,
            ts_max: removals.ts_max(),
            rows: -Diff::try_from(count).expect("fewer than rows"),
            update_count: length_to_u64(count),
            bytes: length_to_u64(count).saturating_mul(REMOVAL_BYTES),
            payload: Payload::Blob(lease.blob.encode_framed()),
        };
        Ok(Some(Written { row, location: Location::Blob(lease) }))
    }
}

/// The batch, with its updates.
pub(crate) fn with_payload<P, Q>(row: BatchRow<P>, payload: Payload<Q>) -> BatchRow<Q> {
    let BatchRow { seq, shard, ts_max, rows, update_count, bytes, .. } = row;
    BatchRow { seq, shard, ts_max, rows, update_count, bytes, payload }
}
