//! Merges the batches of a shard into one sorted stream.
//!
//! Inline batches are small and few, so they are sorted together in memory. Blobs are sorted already and are read
//! part by part. What comes out is one row at a time, with all of its times and diffs: a snapshot adds up those that
//! it can see, compaction moves them forward and keeps what is left. Most rows of most shards are in one run only and
//! were added once; whoever only wants to know which rows there are takes a *stretch* of such rows at a time.
//!
//! # Invariants
//! * Memory is bounded by the inline batches plus one part per blob, whatever the size of the shard.

use crate::blob::BlobReader;
use crate::encoding::{Part, PartBuilder};
use crate::error::PersistError;
use crate::removals::Removals;
use crate::shard::{Batch, Location};
use crate::shard_id::ShardId;
use bytes::Bytes;
use repr::{Diff, Timestamp};
use std::ops::Range;
use std::sync::Arc;

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Never empty ones: a run leaves when it has nothing left.
    runs: Vec<Run>,
}

/// A sorted sequence of updates.
#[derive(Debug)]
struct Run {
    part: Arc<Part>,
    index: usize,
    rest: Option<BlobReader>,
}

/// Successive updates of a run, each of which adds its row once. No other update is about any of their rows.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) part: Arc<Part>,
    pub(crate) range: Range<usize>,
}

/// One row with everything that happened to it. Reused from row to row.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) row: Vec<u8>,
    pub(crate) changes: Vec<(Timestamp, Diff)>,
}

impl Merge {
    /// Merges `batches`; `payloads` are the contents of the inline ones among them, in the same order. Of files of columns `removals`
    /// have gone: up to the horizon these rows are left out.
    pub(crate) fn new(
        shard: ShardId,
        batches: &[Batch],
        payloads: Vec<Vec<u8>>,
        removals: &Removals,
        horizon: Timestamp,
    ) -> Result<Merge, PersistError> {
        let inline = payloads
            .into_iter()
            .map(|payload| Part::decode(shard, Bytes::from(payload)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut merge = Merge { runs: Vec::new() };
        merge.add(Run { part: Arc::new(sort(&inline)), index: 0, rest: None })?;
        for batch in batches {
            if let Location::Blob(lease) = &batch.location
                && !lease.is_removals()
            {
                let rest = Some(lease.read(shard, &removals.of_file(batch.seq), horizon)?);
                merge.add(Run { part: Arc::default(), index: 0, rest })?;
            }
        }
        Ok(merge)
    }

    /// Moves past the rows that come next in one run only; `None` if the next row is not of that kind, or there is none.
    pub(crate) fn next_stretch(&mut self) -> Option<Stretch> {
        let (mut first, mut bound) = (0, None);
        for (at, run) in self.runs.iter().enumerate().skip(1) {
            let row = run.row();
            if row < self.runs[first].row() {
                (first, bound) = (at, Some(self.runs[first].row()));
            } else if bound.is_none_or(|bound| row < bound) {
                bound = Some(row);
            }
        }
        let run = self.runs.get(first)?;
        let (start, end) = (run.index, run.alone(bound));
        if start == end {
            return None;
        }
        let run = &mut self.runs[first];
        run.index = end;
        Some(Stretch { part: Arc::clone(&run.part), range: start..end })
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

    /// Where the updates from here on end that are below `bound`, and do nothing but add rows which no others are about. The last
    /// row of a part is not among them: the next part may say more of it.
    fn alone(&self, bound: Option<&[u8]>) -> usize {
        let (start, part) = (self.index, &*self.part);
        if !part.only_adds() {
            return start;
        }
        let last = part.len() - 1;
        let is_below = |at: usize| bound.is_none_or(|bound| part.row(at) < bound);
        // Twice as far each time, then in between.
        let (mut low, mut step) = (start, 1);
        while low + step < last && is_below(low + step) {
            low += step;
            step *= 2;
        }
        let (mut end, mut high) = (low, last.min(low + step));
        while end < high {
            let middle = end + (high - end) / 2;
            match is_below(middle) {
                true => end = middle + 1,
                false => high = middle,
            }
        }
        while end > start && part.row(end - 1) == part.row(last) {
            end -= 1;
        }
        end
    }

    /// Makes sure that there is a current update. False at the end.
    fn refill(&mut self) -> Result<bool, PersistError> {
        while self.index == self.part.len() {
            let Some(rest) = &mut self.rest else { return Ok(false) };
            let Some(part) = rest.next_part()? else { return Ok(false) };
            self.part = Arc::new(part);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::BlobStore;
    use crate::blob::memory::MemoryObjects;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use std::collections::{BTreeMap, HashSet};

    const SHARD: ShardId = ShardId(1);

    proptest! {
        #[test]
        fn stretches_and_single_rows_are_what_is_there(
            // Rows, times and diffs of each run; and how many updates a part has.
            runs in prop::collection::vec(
                (prop::collection::vec((0_u8..40, 0_u64..3, any::<bool>()), 1..40), any::<bool>(), 1_usize..9), 1..5),
            rows_first in any::<bool>()) {
            let store = BlobStore::open(Box::new(MemoryObjects::default()), 1, &HashSet::new()).expect("new");
            let (mut there, mut batches): (BTreeMap<Vec<u8>, Vec<(Timestamp, Diff)>>, _) = (BTreeMap::new(), Vec::new());
            for (seq, (mut updates, removes, part_len)) in (0..).zip(runs) {
                updates.sort_unstable();
                let mut writer = store.create(format!("{seq}"), SHARD, None).expect("writable");
                for updates in updates.chunks(part_len) {
                    let mut part = PartBuilder::default();
                    for (row, ts, is_removed) in updates {
                        let diff = if removes && *is_removed { -1 } else { 1 };
                        part.push(&[*row], *ts, diff);
                        there.entry(vec![*row]).or_default().push((*ts, diff));
                    }
                    writer.write(part).expect("writable");
                }
                let location = Location::Blob(store.finish(writer).expect("writable"));
                batches.push(Batch { seq, ts_max: 0, rows: 0, update_count: 0, bytes: 0, location });
            }
            let mut merge = Merge::new(SHARD, &batches, Vec::new(), &Removals::default(), 0).expect("intact");
            let (mut found, mut history) = (Vec::new(), History::default());
            loop {
                let stretch = if rows_first && found.len() % 2 == 0 { None } else { merge.next_stretch() };
                if let Some(Stretch { part, range }) = stretch {
                    prop_assert!(!range.is_empty());
                    let mut rows: Vec<_> = range.map(|at| (part.row(at).to_vec(), (part.ts(at), part.diff(at)))).collect();
                    prop_assert!(rows.iter().all(|(_, (_, diff))| *diff == 1));
                    // A stretch says everything of its rows.
                    while let Some((row, first)) = rows.first().cloned() {
                        let of_row = rows.iter().take_while(|(other, _)| *other == row).count();
                        let changes = rows.drain(..of_row).map(|(_, change)| change).collect::<Vec<_>>();
                        prop_assert_eq!(changes[0], first);
                        found.push((row, changes));
                    }
                } else if merge.next_row(&mut history).expect("intact") {
                    found.push((history.row.clone(), history.changes.clone()));
                } else {
                    break;
                }
            }
            prop_assert!(found.is_sorted_by(|one, other| one.0 < other.0), "each row once, in order");
            found.iter_mut().for_each(|(_, changes)| changes.sort_unstable());
            there.values_mut().for_each(|changes| changes.sort_unstable());
            prop_assert_eq!(found, there.into_iter().collect::<Vec<_>>());
        }
    }
}
