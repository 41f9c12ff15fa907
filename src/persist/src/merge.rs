//! Merges the batches of a shard into one sorted stream.
//!
//! Inline batches are small and few, so they are sorted together in memory. Blobs are sorted already and are read
//! part by part. What comes out is one row at a time, with all of its times and diffs: a snapshot adds up those that
//! it can see, compaction moves them forward and keeps what is left.
//!
//! # Invariants
//! * Memory is bounded by the inline batches plus one part per blob, whatever the size of the shard.

use crate::blob::BlobReader;
use crate::encoding::{Part, PartBuilder};
use crate::error::PersistError;
use crate::shard::{Batch, Location};
use crate::shard_id::ShardId;
use bytes::Bytes;
use repr::{Diff, Timestamp};

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Never empty ones: a run leaves when it has nothing left.
    runs: Vec<Run>,
}

/// A sorted sequence of updates.
#[derive(Debug)]
struct Run {
    part: Part,
    index: usize,
    rest: Option<BlobReader>,
}

/// One row with everything that happened to it. Reused from row to row.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) row: Vec<u8>,
    pub(crate) changes: Vec<(Timestamp, Diff)>,
}

impl Merge {
    /// Merges `batches`; `payloads` are the contents of the inline ones among them, in the same order.
    pub(crate) fn new(shard: ShardId, batches: &[Batch], payloads: Vec<Vec<u8>>) -> Result<Merge, PersistError> {
        let inline = payloads
            .into_iter()
            .map(|payload| Part::decode(shard, Bytes::from(payload)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut merge = Merge { runs: Vec::new() };
        merge.add(Run { part: sort(&inline), index: 0, rest: None })?;
        for batch in batches {
            if let Location::Blob(lease) = &batch.location {
                merge.add(Run { part: Part::default(), index: 0, rest: Some(lease.read(shard)?) })?;
            }
        }
        Ok(merge)
    }

    /// Moves on to the next row, in the order of the rows' bytes. False at the end.
    pub(crate) fn next_row(&mut self, history: &mut History) -> Result<bool, PersistError> {
        history.row.clear();
        history.changes.clear();
        let Some(least) = self.runs.iter().map(Run::row).min() else { return Ok(false) };
        history.row.extend_from_slice(least);
        let mut index = 0;
        while index < self.runs.len() {
            let run = &mut self.runs[index];
            let mut has_more = true;
            while has_more && run.row() == history.row {
                history.changes.push((run.part.ts(run.index), run.part.diff(run.index)));
                run.index += 1;
                has_more = run.refill()?;
            }
            if has_more {
                index += 1;
            } else {
                self.runs.swap_remove(index);
            }
        }
        Ok(true)
    }

    fn add(&mut self, mut run: Run) -> Result<(), PersistError> {
        if run.refill()? {
            self.runs.push(run);
        }
        Ok(())
    }
}

impl Run {
    fn row(&self) -> &[u8] {
        self.part.row(self.index)
    }

    /// Makes sure that there is a current update. False at the end.
    fn refill(&mut self) -> Result<bool, PersistError> {
        while self.index == self.part.len() {
            let Some(rest) = &mut self.rest else { return Ok(false) };
            let Some(part) = rest.next_part()? else { return Ok(false) };
            self.part = part;
            self.index = 0;
        }
        Ok(true)
    }
}

/// One sorted part out of several unsorted ones.
fn sort(parts: &[Part]) -> Part {
    let mut order: Vec<(usize, usize)> =
        parts.iter().enumerate().flat_map(|(p, part)| (0..part.len()).map(move |i| (p, i))).collect();
    order.sort_by(|a, b| parts[a.0].row(a.1).cmp(parts[b.0].row(b.1)));
    let mut sorted = PartBuilder::default();
    for (p, i) in order {
        let part = &parts[p];
        sorted.push(part.row(i), part.ts(i), part.diff(i));
    }
    sorted.into_part()
}
