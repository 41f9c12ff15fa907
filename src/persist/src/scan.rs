//! The rows of a shard at one time, for who wants some of their columns and no order.
//!
//! Two kinds of rows are found. Those that are kept as rows, which are few or old, are merged, as a snapshot does it. Those that are
//! kept by column come a row group at a time, and no two of them are compared: what has gone of them was found while the others were
//! merged, because what is removed is always kept as a row. So the others come first; a row of which the merge says that it is there
//! less often than not at all is looked for in the files of columns, and so many of its copies there are left out. If it is in none,
//! the shard is corrupt.
//!
//! # Invariants
//! * Memory is bounded by the inline batches, a part per blob of parts, and the positions of what has gone.

use crate::blob::BlobLease;
use crate::blob::columnar::Source;
use crate::encoding::Part;
use crate::error::PersistError;
use crate::inner::Inner;
use crate::merge::{History, Merge, Stretch};
use crate::shard::{Batch, Location, Removed};
use crate::shard_id::ShardId;
use crate::snapshot::{BATCH_BYTES, BATCH_ROWS_MAX, Batches};
use arrow::array::ArrayRef;
use columns::{File, Finder};
use parking_lot::Mutex;
use repr::{Diff, Timestamp, Updates};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Successive rows of a part that are copied, so that few of them do not hold all of it.
const FEW: usize = 8;

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
    files: Vec<FileScan>,
    /// What has gone from the files, if somebody has found that out before; otherwise the batches for which it is being found out, if
    /// others may want to know.
    known: Known,
    /// The file and the row group that come next.
    next: (usize, usize),
}

#[derive(Debug)]
enum Known {
    Already,
    ToTell(Vec<u64>),
    No,
}

/// A file of columns, being read.
#[derive(Debug)]
struct FileScan {
    lease: Arc<BlobLease>,
    file: Arc<File>,
    source: Arc<Mutex<Source>>,
    finder: Finder,
    /// What has gone of each row group.
    removed: Arc<[Vec<u32>]>,
    /// The same, while it is being found out.
    finding: Vec<Vec<u32>>,
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
        let Batches { list, payloads } = Batches::list(inner, shard, as_of, |_| true)?;
        let (columns, rows): (Vec<Batch>, Vec<Batch>) = list.into_iter().partition(Batch::is_columns);
        let file = |batch: &Batch| match &batch.location {
            Location::Blob(lease) => FileScan::open(lease, shard),
            Location::Inline => unreachable!("it is a file of columns"),
        };
        let mut files =
            columns.iter().map(file).collect::<Result<Vec<_>, _>>().map_err(|error| inner.explained(error))?;
        let known = if files.is_empty()
            || rows.is_empty()
            || columns.iter().chain(&rows).any(|batch| batch.ts_max > as_of)
        {
            Known::No
        } else {
            let seqs: Vec<u64> = columns.iter().chain(&rows).map(|batch| batch.seq).collect();
            match inner.shards.lock().by_id.get(&shard).and_then(|state| state.removed(&seqs)) {
                Some(removed) => {
                    files.iter_mut().zip(removed.iter()).for_each(|(file, removed)| file.removed = Arc::clone(removed));
                    Known::Already
                }
                None => Known::ToTell(seqs),
            }
        };
        let merge = Merge::new(shard, &rows, payloads).map_err(|error| inner.explained(error))?;
        Ok(ShardScan {
            owner: Arc::downgrade(inner),
            shard,
            as_of,
            merge,
            history: History::default(),
            left: None,
            copies: 0,
            is_merged: false,
            files,
            known,
            next: (0, 0),
        })
    }

    /// The next rows, each as often as it is there; `None` after the last.
    pub fn next_rows(&mut self) -> Result<Option<Scanned>, PersistError> {
        let next = self.find_next();
        if next.is_err() {
            (self.is_merged, self.copies, self.next) = (true, 0, (self.files.len(), 0));
        }
        next.map_err(|error| match self.owner.upgrade() {
            Some(owner) => owner.explained(error),
            None => error,
        })
    }

    fn find_next(&mut self) -> Result<Option<Scanned>, PersistError> {
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
                self.tell();
            }
        }
        if !rows.is_empty() {
            return Ok(Some(Scanned::Rows(rows)));
        }
        while let (at, group) = self.next
            && let Some(file) = self.files.get(at)
        {
            self.next = if group + 1 < file.file.groups().len() { (at, group + 1) } else { (at + 1, 0) };
            if let Some(rows) = file.group(self.shard, group, self.as_of)? {
                return Ok(Some(Scanned::Columns(rows)));
            }
        }
        Ok(None)
    }

    /// Leaves out so many copies of the current row.
    fn remove(&mut self, mut copies: u64) -> Result<(), PersistError> {
        if matches!(self.known, Known::Already) {
            return Ok(());
        }
        for file in &mut self.files {
            if copies > 0 {
                copies -= file.remove(self.shard, &self.history.row, copies, self.as_of)?;
            }
        }
        if copies > 0 {
            let detail = "a row is there less often than not at all";
            return Err(PersistError::corrupt(format!("shard {}", self.shard), detail));
        }
        Ok(())
    }

    /// What has gone from the files is known now.
    fn tell(&mut self) {
        if matches!(self.known, Known::Already) {
            return;
        }
        self.files.iter_mut().for_each(|file| file.removed = std::mem::take(&mut file.finding).into());
        if let Known::ToTell(seqs) = std::mem::replace(&mut self.known, Known::No)
            && let Some(owner) = self.owner.upgrade()
            && let Some(state) = owner.shards.lock().by_id.get_mut(&self.shard)
        {
            let removed = self.files.iter().map(|file| Arc::clone(&file.removed)).collect();
            state.note_removed(Removed { seqs, files: removed });
        }
    }
}

impl FileScan {
    fn open(lease: &Arc<BlobLease>, shard: ShardId) -> Result<FileScan, PersistError> {
        let (file, source) = lease.open_columns(shard)?;
        let finding = vec![Vec::new(); file.groups().len()];
        let (finder, source) = (Finder::new(Arc::clone(&file)), Arc::new(Mutex::new(source)));
        Ok(FileScan { lease: Arc::clone(lease), file, source, finder, removed: Arc::default(), finding })
    }

    /// Leaves out copies of a row, as many as there are up to a number; returns how many.
    fn remove(&mut self, shard: ShardId, row: &[u8], most: u64, as_of: Timestamp) -> Result<u64, PersistError> {
        let found = self.finder.find(&mut *self.source.lock(), row);
        let found = found.map_err(|failure| self.lease.failed(shard, failure))?;
        let visible = found.into_iter().filter(|found| found.time.saturating_add(self.lease.blob.time) <= as_of);
        let mut count = 0;
        for found in visible.take(usize::try_from(most).unwrap_or(usize::MAX)) {
            self.finding[found.group].push(u32::try_from(found.row).expect("a group has few rows"));
            count += 1;
        }
        Ok(count)
    }

    /// What is there of a row group; `None` if that is nothing.
    fn group(&self, shard: ShardId, group: usize, as_of: Timestamp) -> Result<Option<ColumnRows>, PersistError> {
        let (of, later) = (&self.file.groups()[group], self.lease.blob.time);
        let is_there = |ts: Timestamp| ts.saturating_add(later) <= as_of;
        let removed = self.removed.get(group).map_or(&[][..], Vec::as_slice);
        let visible = if is_there(*of.times.end()) {
            (!removed.is_empty()).then(|| without(0..of.rows, removed))
        } else if is_there(*of.times.start()) {
            let times = self.file.times(&mut *self.source.lock(), group);
            let times = times.map_err(|failure| self.lease.failed(shard, failure))?;
            Some(without((0..of.rows).filter(|at| is_there(times[*at])), removed))
        } else {
            Some(Vec::new())
        };
        let len = visible.as_ref().map_or(of.rows, Vec::len);
        let (lease, file, source) = (Arc::clone(&self.lease), Arc::clone(&self.file), Arc::clone(&self.source));
        Ok((len > 0).then_some(ColumnRows { lease, shard, file, source, group, visible, len }))
    }
}

/// The positions that are not among those that were removed. All ascend.
fn without(all: impl Iterator<Item = usize>, removed: &[u32]) -> Vec<usize> {
    let mut removed = removed.iter().map(|at| *at as usize).peekable();
    let is_left = |at: &usize| {
        while removed.next_if(|gone| gone < at).is_some() {}
        removed.peek() != Some(at)
    };
    all.filter(is_left).collect()
}

/// Rows of a row group, of which nothing was read yet.
pub struct ColumnRows {
    lease: Arc<BlobLease>,
    shard: ShardId,
    file: Arc<File>,
    source: Arc<Mutex<Source>>,
    group: usize,
    /// Where they are, unless these are all of the group.
    visible: Option<Vec<usize>>,
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

    /// Some columns, in their order: of all rows, or of those at these positions, which ascend.
    pub fn columns(&self, columns: &BTreeSet<usize>, rows: Option<&[usize]>) -> Result<Vec<ArrayRef>, PersistError> {
        let among_visible: Vec<usize>;
        let at = match (&self.visible, rows) {
            (Some(visible), Some(rows)) => {
                among_visible = rows.iter().map(|row| visible[*row]).collect();
                Some(among_visible.as_slice())
            }
            (visible, rows) => rows.or(visible.as_deref()),
        };
        let chunks = self.file.read(&mut *self.source.lock(), self.group, columns);
        let decoded = chunks.and_then(|chunks| Ok(self.file.decode(&chunks, columns, at)?));
        decoded.map_err(|failure| self.lease.failed(self.shard, failure))
    }

    /// All of them, as rows.
    pub fn rows(&self) -> Result<Updates, PersistError> {
        let failed = |failure| self.lease.failed(self.shard, failure);
        let pieces = self.file.rows(&mut *self.source.lock(), self.group).map_err(failed)?;
        let mut visible = self.visible.as_ref().map(|visible| visible.iter().copied().peekable());
        let (mut rows, mut at) = (Updates::new(), 0);
        for piece in pieces {
            for row in piece.map_err(|error| failed(error.into()))?.rows.iter() {
                if visible.as_mut().is_none_or(|visible| visible.next_if_eq(&at).is_some()) {
                    rows.push(row.data(), 1);
                }
                at += 1;
            }
        }
        Ok(rows)
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
