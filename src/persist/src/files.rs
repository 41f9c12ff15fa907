//! The files of columns of a shard, as those see them who read them or look for rows in them.

use crate::blob::BlobLease;
use crate::blob::columnar::{Failure, Source};
use crate::error::PersistError;
use crate::removals::{Gone, Removals};
use crate::shard::{Batch, Location};
use crate::shard_id::ShardId;
use columns::find::Found;
use columns::{File, Finder, Group};
use parking_lot::{Mutex, MutexGuard};
use repr::Timestamp;
use std::sync::Arc;

/// A file of columns that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    lease: Arc<BlobLease>,
    shard: ShardId,
    pub(crate) file: Arc<File>,
    source: Mutex<Source>,
}

/// A file of columns, with what has gone of it.
#[derive(Debug)]
pub(crate) struct ColumnFile {
    /// The batch that it is.
    pub(crate) seq: u64,
    pub(crate) of: Arc<Opened>,
    pub(crate) gone: Arc<Vec<Gone>>,
    finder: Finder,
}

impl Opened {
    /// Reads of the file what `read` reads.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Arc<File>, &mut Source) -> Result<T, Failure>,
    ) -> Result<T, PersistError> {
        self.explained(read(&self.file, &mut self.source.lock()))
    }

    /// The bytes of the file, for as long as they are read.
    pub(crate) fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock()
    }

    /// What a failure means.
    pub(crate) fn explained<T>(&self, result: Result<T, Failure>) -> Result<T, PersistError> {
        result.map_err(|failure| self.lease.failed(self.shard, failure))
    }
}

/// What all of these batches say that has gone of files of columns.
pub(crate) fn removals<'b>(
    shard: ShardId,
    batches: impl IntoIterator<Item = &'b Batch>,
) -> Result<Removals, PersistError> {
    let mut all = Removals::default();
    for batch in batches {
        if let Location::Blob(lease) = &batch.location
            && lease.is_removals()
        {
            all.add(&*lease.removals(shard)?, |_| true);
        }
    }
    Ok(all)
}

impl ColumnFile {
    /// Those among some batches, of which `removals` have gone.
    pub(crate) fn open_all(
        shard: ShardId,
        batches: &[Batch],
        removals: &Removals,
    ) -> Result<Vec<ColumnFile>, PersistError> {
        let open = |batch: &Batch| match &batch.location {
            Location::Blob(lease) if lease.is_columns() => Some(ColumnFile::open(shard, batch.seq, lease, removals)),
            _ => None,
        };
        batches.iter().filter_map(open).collect()
    }

    fn open(shard: ShardId, seq: u64, lease: &Arc<BlobLease>, removals: &Removals) -> Result<ColumnFile, PersistError> {
        let (file, source) = lease.open_columns(shard)?;
        let (finder, gone) = (Finder::new(Arc::clone(&file)), removals.of_file(seq));
        let of = Arc::new(Opened { lease: Arc::clone(lease), shard, file, source: Mutex::new(source) });
        Ok(ColumnFile { seq, of, gone, finder })
    }

    /// What is to be added to the times that stand in the file.
    pub(crate) fn base(&self) -> Timestamp {
        self.of.lease.blob.time
    }

    /// All places of a row, which is not below the one that was looked for last.
    pub(crate) fn find(&mut self, row: &[u8]) -> Result<Vec<Found>, PersistError> {
        let finder = &mut self.finder;
        self.of.read(|_, source| finder.find(source, row))
    }

    /// The position of a place.
    pub(crate) fn position(&self, found: &Found) -> u64 {
        self.of.file.groups()[found.group].start + found.row as u64
    }

    /// The rows that have gone, and when.
    pub(crate) fn gone_rows(&self) -> Result<Vec<(Vec<u8>, Timestamp)>, PersistError> {
        let mut rows = Vec::with_capacity(self.gone.len());
        for (group, of) in self.of.file.groups().iter().enumerate() {
            let end = of.start + of.rows as u64;
            let within = |at: u64| self.gone.partition_point(|gone| gone.at < at);
            let gone = &self.gone[within(of.start)..within(end)];
            if gone.is_empty() {
                continue;
            }
            let at: Vec<usize> = gone.iter().map(|gone| usize_of(gone.at - of.start)).collect();
            let piece = self.of.read(|file, source| file.rows_at(source, group, &at))?;
            rows.extend(piece.rows.iter().zip(gone).map(|(row, gone)| (row.data().to_vec(), gone.ts)));
        }
        Ok(rows)
    }

    /// By row group: the positions in it of what had gone by a time.
    pub(crate) fn gone_by(&self, as_of: Timestamp) -> Vec<Vec<u32>> {
        let mut gone = self.gone.iter().peekable();
        let of_group = |of: &Group| {
            let mut rows = Vec::new();
            while let Some(next) = gone.next_if(|gone| gone.at < of.start + of.rows as u64) {
                if next.ts <= as_of {
                    rows.push(u32::try_from(next.at - of.start).expect("a group has few rows"));
                }
            }
            rows
        };
        self.of.file.groups().iter().map(of_group).collect()
    }

    /// When the row at a position went, if it has.
    pub(crate) fn gone_at(&self, at: u64) -> Option<Timestamp> {
        self.gone.binary_search_by_key(&at, |gone| gone.at).ok().map(|index| self.gone[index].ts)
    }
}

fn usize_of(at: u64) -> usize {
    usize::try_from(at).expect("a group has few rows")
}

/// Finds out where rows stand that have gone, in files that stay as they are.
#[derive(Debug)]
pub(crate) struct Placing {
    files: Vec<ColumnFile>,
    /// The row that was looked for last, and where of it a copy is left: the file, the position, and since when it is there.
    row: Vec<u8>,
    left: Vec<(usize, u64, Timestamp)>,
}

impl Placing {
    pub(crate) fn new(files: Vec<ColumnFile>) -> Placing {
        Placing { files, row: Vec::new(), left: Vec::new() }
    }

    /// Takes a copy of a row that was there at a time, if there is one: the file, and the position. Rows ascend.
    pub(crate) fn take(&mut self, row: &[u8], ts: Timestamp) -> Result<Option<(u64, u64)>, PersistError> {
        if self.row != row {
            self.row.clear();
            self.row.extend_from_slice(row);
            self.left.clear();
            for (index, file) in self.files.iter_mut().enumerate() {
                for found in file.find(row)? {
                    let at = file.position(&found);
                    if file.gone_at(at).is_none() {
                        self.left.push((index, at, found.time.saturating_add(file.base())));
                    }
                }
            }
        }
        let place = self.left.iter().position(|(_, _, since)| *since <= ts);
        Ok(place.map(|place| {
            let (file, at, _) = self.left.swap_remove(place);
            (self.files[file].seq, at)
        }))
    }
}
