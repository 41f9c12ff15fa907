//! The rows of a shard at one time, for who wants some of their columns and no order.
//!
//! Two kinds of rows are found. Those that are kept as rows, which are few or old, are merged, as a snapshot does it. Those that are
//! kept by column come a row group at a time, and no two of them are compared: what has gone of them is known by position, from
//! compaction, or is kept as a row since then. So what is kept as rows comes first; a row of which the merge says that it is there
//! less often than not at all is looked for in the files of columns, and so many of its copies there are left out. If it is in none,
//! the shard is corrupt. Where a row stands is remembered for the next scan.
//!
//! # Invariants
//! * Memory is bounded by the inline batches, a part per blob of parts, and the positions of what has gone.

use crate::blob::columnar::Failure;
use crate::encoding::Part;
use crate::error::PersistError;
use crate::files::{ColumnFile, Opened, removals};
use crate::inner::Inner;
use crate::merge::{History, Merge, Stretch};
use crate::removals::Removals;
use crate::shard::{Batch, LookedUp};
use crate::shard_id::ShardId;
use crate::snapshot::{BATCH_BYTES, BATCH_ROWS_MAX, Batches};
use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use columns::file::{RowsOf, Wanted};
use columns::find::Found;
use columns::{Cache, File};
use repr::{Diff, Timestamp, Updates};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

/// Successive rows of a part that are copied, so that few of them do not hold all of it.
const FEW: usize = 8;

/// Rows of a shard of which it is remembered where they stand, and bytes and places of such a row, at the most.
const LOOKED_UP_MAX: usize = 1_024;
const LOOKED_UP_BYTES: usize = 4_096;
const LOOKED_UP_PLACES: usize = 64;

/// Parts that are held for a batch at the most.
const HELD_MAX: usize = 16;

/// A scan in progress. After an error it is over. Dropping it releases what it kept from being deleted.
#[derive(Debug)]
pub struct ShardScan {
    /// Whose it is, if that is still open.
    owner: Weak<Inner>,
    shard: ShardId,
    as_of: Timestamp,
    /// Of what is kept as rows.
    merge: Merge,
    history: History,
    /// What was not given yet of a stretch.
    left: Option<Stretch>,
    /// How many copies of the current row were not given yet.
    copies: Diff,
    is_merged: bool,
    files: Vec<ColumnFile>,
    /// By file and row group: the positions of what has gone.
    removed: Vec<Vec<Vec<u32>>>,
    looked_up: Arc<LookedUp>,
    cache: Option<Arc<Cache>>,
    /// By file: which of its row groups are wanted, if somebody has said.
    wanted: Vec<Option<Vec<bool>>>,
    /// The file and the row group that come next.
    next: (usize, usize),
}

/// Rows that a scan has found.
#[derive(Debug)]
pub enum Scanned {
    /// Kept as rows.
    Rows(SnapshotRows),
    /// Kept by column.
    Columns(ColumnRows),
}

impl ShardScan {
    /// Begins a scan. See [`crate::PersistClient::scan`].
    pub(crate) fn open(inner: &Arc<Inner>, shard: ShardId, as_of: Timestamp) -> Result<ShardScan, PersistError> {
        let batches = Batches::list(inner, shard, as_of)?;
        ShardScan::over(inner, shard, as_of, batches).map_err(|error| inner.explained(error))
    }

    fn over(
        inner: &Arc<Inner>,
        shard: ShardId,
        as_of: Timestamp,
        Batches { list, payloads }: Batches,
    ) -> Result<ShardScan, PersistError> {
        let files = ColumnFile::open_all(shard, &list, &removals(shard, &list)?)?;
        let seqs = files.iter().map(|file| file.seq).collect();
        let looked_up = inner.shards.lock().by_id.get_mut(&shard).map(|state| state.looked_up(seqs));
        let rows: Vec<Batch> = list.into_iter().filter(|batch| !batch.is_columns()).collect();
        Ok(ShardScan {
            owner: Arc::downgrade(inner),
            shard,
            as_of,
            merge: Merge::new(shard, &rows, payloads, &Removals::default(), as_of)?,
            history: History::default(),
            left: None,
            copies: 0,
            is_merged: false,
            removed: Vec::new(),
            files,
            looked_up: looked_up.unwrap_or_default(),
            cache: inner.cache.get().cloned(),
            wanted: Vec::new(),
            next: (0, 0),
        })
    }

    /// Leaves out row groups of which nothing is wanted: those for which `wanted` says so of their file. How many these are, of how
    /// many.
    pub fn only(&mut self, mut wanted: impl FnMut(&File) -> Option<Vec<bool>>) -> (usize, usize) {
        let groups = |file: &ColumnFile| file.of.file.groups().len();
        self.wanted =
            self.files.iter().map(|file| wanted(&file.of.file).filter(|all| all.len() == groups(file))).collect();
        let left_out = self.wanted.iter().flatten().flatten().filter(|is_wanted| !**is_wanted).count();
        (left_out, self.files.iter().map(groups).sum())
    }

    /// The next rows, each as often as it is there; `None` after the last.
    pub fn next_rows(&mut self) -> Result<Option<Scanned>, PersistError> {
        let next = self.find_next();
        if next.is_err() {
            (self.is_merged, self.copies, self.next) = (true, 0, (self.files.len(), 0));
        }
        next.map_err(|error| self.explained(error))
    }

    /// What an error means, if anybody knows any more.
    pub(crate) fn explained(&self, error: PersistError) -> PersistError {
        match self.owner.upgrade() {
            Some(owner) => owner.explained(error),
            None => error,
        }
    }

    /// The number of row groups of all its files.
    pub(crate) fn group_count(&self) -> usize {
        self.files.iter().map(|file| file.of.file.groups().len()).sum()
    }

    fn find_next(&mut self) -> Result<Option<Scanned>, PersistError> {
        if self.removed.len() < self.files.len() {
            // Not before somebody reads: who wants to know how many rows there are does not.
            self.removed = self.files.iter().map(|file| file.gone_by(self.as_of)).collect();
        }
        let mut rows = SnapshotRows::default();
        while (self.copies > 0 || !self.is_merged) && !rows.is_full() {
            if self.copies > 0 {
                rows.push_own(&self.history.row);
                self.copies -= 1;
            } else if let Some(stretch) = self.left.take().or_else(|| self.merge.next_stretch()) {
                self.left = take_visible(self.as_of, stretch, &mut rows);
            } else if self.merge.next_row(&mut self.history)? {
                let visible = self.history.changes.iter().filter(|(ts, _)| *ts <= self.as_of);
                self.copies = visible.map(|(_, diff)| diff).sum();
                if self.copies < 0 {
                    let gone = std::mem::take(&mut self.copies).unsigned_abs();
                    self.remove(gone)?;
                }
            } else {
                self.is_merged = true;
                self.removed.iter_mut().flatten().for_each(|removed| removed.sort_unstable());
            }
        }
        if !rows.is_empty() {
            return Ok(Some(Scanned::Rows(rows)));
        }
        while let (at, group) = self.next
            && let Some(file) = self.files.get(at)
        {
            self.next = if group + 1 < file.of.file.groups().len() { (at, group + 1) } else { (at + 1, 0) };
            if let Some(Some(wanted)) = self.wanted.get(at)
                && !wanted[group]
            {
                continue;
            }
            if let Some((mask, len)) = visible(file, group, &self.removed[at][group], self.as_of)? {
                let (of, cache, at) = (Arc::clone(&file.of), self.cache.clone(), OnceLock::new());
                return Ok(Some(Scanned::Columns(ColumnRows { of, cache, group, mask, at, len })));
            }
        }
        Ok(None)
    }

    /// Leaves out so many copies of the current row.
    fn remove(&mut self, mut copies: u64) -> Result<(), PersistError> {
        let places = self.places()?;
        for ((file, removed), found) in self.files.iter().zip(&mut self.removed).zip(places.iter()) {
            for found in found {
                let at = file.position(found);
                let is_there = found.time.saturating_add(file.base()) <= self.as_of
                    && file.gone_at(at).is_none_or(|gone| gone > self.as_of);
                if copies > 0 && is_there {
                    removed[found.group].push(u32::try_from(found.row).expect("a group has few rows"));
                    copies -= 1;
                }
            }
        }
        if copies > 0 {
            let detail = "a row is there less often than not at all";
            return Err(PersistError::corrupt(format!("shard {}", self.shard), detail));
        }
        Ok(())
    }

    /// By file: where the current row stands.
    fn places(&mut self) -> Result<Arc<[Vec<Found>]>, PersistError> {
        let row = self.history.row.as_slice();
        if let Some(known) = self.looked_up.places.lock().get(row) {
            return Ok(Arc::clone(known));
        }
        let found = self.files.iter_mut().map(|file| file.find(row)).collect::<Result<Arc<[_]>, _>>()?;
        let mut places = self.looked_up.places.lock();
        let is_small = row.len() <= LOOKED_UP_BYTES && found.iter().map(Vec::len).sum::<usize>() <= LOOKED_UP_PLACES;
        let is_room = places.len() < LOOKED_UP_MAX && is_small;
        if is_room && self.looked_up.files.len() == found.len() {
            places.insert(row.into(), Arc::clone(&found));
        }
        Ok(found)
    }
}

/// Which rows of a row group are there, unless these are all, and how many they are; `None` if there are none.
fn visible(
    of: &ColumnFile,
    group: usize,
    removed: &[u32],
    as_of: Timestamp,
) -> Result<Option<(Option<BooleanArray>, usize)>, PersistError> {
    let facts = &of.of.file.groups()[group];
    let is_there = |ts: Timestamp| ts.saturating_add(of.base()) <= as_of;
    if !is_there(*facts.times.start()) {
        return Ok(None);
    }
    let mut mask = BooleanBufferBuilder::new(facts.rows);
    if is_there(*facts.times.end()) {
        if removed.is_empty() {
            return Ok(Some((None, facts.rows)));
        }
        mask.append_n(facts.rows, true);
    } else {
        let times = of.of.read(|file, source| file.times(source, group))?;
        times.into_iter().for_each(|ts| mask.append(is_there(ts)));
    }
    removed.iter().for_each(|at| mask.set_bit(*at as usize, false));
    let mask = BooleanArray::new(mask.finish(), None);
    let len = mask.true_count();
    Ok((len > 0).then_some((Some(mask), len)))
}

/// Rows of a row group, of which nothing was read yet.
pub struct ColumnRows {
    of: Arc<Opened>,
    cache: Option<Arc<Cache>>,
    group: usize,
    /// Which they are, unless these are all of the group.
    mask: Option<BooleanArray>,
    /// Where they are, if somebody had to know.
    at: OnceLock<Vec<usize>>,
    len: usize,
}

impl ColumnRows {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Some columns as they are kept, and where in them its rows are, unless all are; `None` if most have gone.
    #[expect(clippy::type_complexity, reason = "columns, and a mask over them")]
    pub fn kept(
        &self,
        columns: &BTreeSet<usize>,
    ) -> Result<Option<(Vec<ArrayRef>, Option<BooleanArray>)>, PersistError> {
        match &self.mask {
            Some(mask) if self.len <= mask.len() / 2 => Ok(None),
            mask => Ok(Some((self.read(columns, Wanted::All)?, mask.clone()))),
        }
    }

    /// The same columns of some of the rows, by where they are in what is kept so.
    pub fn kept_some(&self, columns: &BTreeSet<usize>, places: Wanted<'_>) -> Result<Vec<ArrayRef>, PersistError> {
        self.read(columns, places)
    }

    /// Some columns, in their order: of all rows, or of those at these positions, which ascend.
    pub fn columns(&self, columns: &BTreeSet<usize>, rows: Option<&[usize]>) -> Result<Vec<ArrayRef>, PersistError> {
        let among_all: Vec<usize>;
        let wanted = match (&self.mask, rows) {
            (None, None) => Wanted::All,
            (None, Some(rows)) => Wanted::At(rows),
            (Some(mask), None) => Wanted::Where(0, mask),
            (Some(mask), Some(rows)) => {
                let at = self.at.get_or_init(|| mask.values().set_indices().collect());
                among_all = rows.iter().map(|row| at[*row]).collect();
                Wanted::At(&among_all)
            }
        };
        self.read(columns, wanted)
    }

    fn read(&self, columns: &BTreeSet<usize>, wanted: Wanted<'_>) -> Result<Vec<ArrayRef>, PersistError> {
        // The others who read the file wait for its bytes, not for what is made of them.
        let read = |missing: &BTreeSet<usize>| self.of.file.read(&mut *self.of.source(), self.group, missing);
        self.of.explained(self.of.file.columns(self.group, columns, wanted, self.cache.as_deref(), read))
    }

    /// All of them, as rows.
    pub fn rows(&self) -> Result<Updates, PersistError> {
        let mut rows = Updates::new();
        self.pieces(None)?.try_for_each(|piece| piece.map(|piece| rows.extend(&piece)))?;
        Ok(rows)
    }

    /// The same, some at a time, none of which are none; with NULL in all columns but these.
    pub(crate) fn pieces(&self, columns: Option<&Arc<BTreeSet<usize>>>) -> Result<Pieces<'_>, PersistError> {
        let left = self.of.read(|file, source| file.rows(source, self.group, columns))?;
        Ok(Pieces { rows: self, at: 0, left })
    }
}

/// See [`ColumnRows::pieces`].
pub(crate) struct Pieces<'a> {
    rows: &'a ColumnRows,
    /// How many rows of the group were read.
    at: usize,
    left: RowsOf,
}

impl Iterator for Pieces<'_> {
    type Item = Result<Updates, PersistError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ColumnRows { of, mask, .. } = self.rows;
        loop {
            let parts =
                of.explained(self.left.next()?.and_then(columns::file::Piece::into_parts).map_err(Failure::from));
            let (ends, rows, _) = match parts {
                Ok(parts) => parts,
                Err(error) => return Some(Err(error)),
            };
            let (start, all) = (self.at, Updates::once_each(ends, rows));
            self.at += all.len();
            let updates = match mask {
                None => all,
                Some(mask) => {
                    all.iter().enumerate().filter(|(at, _)| mask.value(start + at)).map(|(_, row)| row).collect()
                }
            };
            if !updates.is_empty() {
                return Some(Ok(updates));
            }
        }
    }
}

impl fmt::Debug for ColumnRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnRows").field("group", &self.group).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Some rows of a shard, each as often as it is there. Those that were read from a blob are still where they were read to.
#[derive(Debug, Default)]
pub struct SnapshotRows {
    pieces: Vec<Piece>,
    /// Rows of which more had to be known than one part says.
    own: Updates,
    len: usize,
    bytes: usize,
    /// How often a part is held for some of its rows.
    held: usize,
}

#[derive(Debug)]
enum Piece {
    Read(Arc<Part>, Range<usize>),
    Own(Range<usize>),
}

impl SnapshotRows {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| {
            let (read, own) = match piece {
                Piece::Read(part, range) => (Some(range.clone().map(|at| part.row(at))), None),
                Piece::Own(range) => (None, Some(range.clone().map(|at| self.own.get(at).0))),
            };
            read.into_iter().flatten().chain(own.into_iter().flatten())
        })
    }

    fn is_full(&self) -> bool {
        self.len >= BATCH_ROWS_MAX || self.bytes >= BATCH_BYTES || self.held >= HELD_MAX
    }

    fn push_read(&mut self, part: &Arc<Part>, range: Range<usize>) {
        if range.len() < FEW {
            return range.for_each(|at| self.push_own(part.row(at)));
        }
        self.len += range.len();
        self.bytes += part.byte_count(&range);
        match self.pieces.last_mut() {
            Some(Piece::Read(last, before)) if Arc::ptr_eq(last, part) && before.end == range.start => {
                before.end = range.end;
            }
            _ => {
                self.pieces.push(Piece::Read(Arc::clone(part), range));
                self.held += 1;
            }
        }
    }

    fn push_own(&mut self, row: &[u8]) {
        let at = self.own.len();
        self.own.push(row, 1);
        self.len += 1;
        self.bytes += row.len();
        match self.pieces.last_mut() {
            Some(Piece::Own(before)) => before.end = at + 1,
            _ => self.pieces.push(Piece::Own(at..at + 1)),
        }
    }
}

/// Takes what can be seen of a stretch, until there is enough; what is left of the stretch then.
fn take_visible(as_of: Timestamp, Stretch { part, range }: Stretch, rows: &mut SnapshotRows) -> Option<Stretch> {
    let Range { mut start, end } = range;
    let is_visible = |at: usize| part.ts(at) <= as_of;
    while start < end && !rows.is_full() {
        let room = start..end.min(start + BATCH_ROWS_MAX - rows.len());
        match part.uniform_ts() {
            Some(ts) if ts > as_of => return None,
            Some(_) => {
                start = room.end;
                rows.push_read(&part, room);
            }
            None => {
                let first = room.clone().find(|at| is_visible(*at)).unwrap_or(room.end);
                start = (first..room.end).find(|at| !is_visible(*at)).unwrap_or(room.end);
                if first < start {
                    rows.push_read(&part, first..start);
                }
            }
        }
    }
    (start < end).then_some(Stretch { part, range: start..end })
}
