//! Blobs that are files of columns, as this crate's other parts want them.

use crate::blob::BlobLease;
use crate::blob::store::Object;
use crate::encoding::{Part, PartBuilder, length_to_u64};
use crate::error::PersistError;
use crate::removals::Gone;
use crate::shard_id::ShardId;
use bytes::Bytes;
use columns::file::RowsOf;
use columns::{Fetch, File};
use repr::Timestamp;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

/// The bytes of a blob.
#[derive(Debug)]
pub(crate) struct Source(Box<dyn Object>);

/// Why something of a file cannot be had.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store does not give it.
    Store(PersistError),
    /// It is not what was written.
    File(columns::Error),
}

impl From<columns::Error> for Failure {
    fn from(error: columns::Error) -> Failure {
        Failure::File(error)
    }
}

impl Fetch for Source {
    type Error = Failure;

    fn fetch(&mut self, offset: u64, length: usize) -> Result<Bytes, Failure> {
        self.0.read(offset, length).map_err(Failure::Store)
    }
}

impl BlobLease {
    /// What is known of the file of a blob, which belongs to `shard`, and its bytes.
    pub(crate) fn open_columns(&self, shard: ShardId) -> Result<(Arc<File>, Source), PersistError> {
        let columns = self.blob.columns.as_ref().ok_or_else(|| self.corrupt(shard, &"it is no file of columns"))?;
        let mut object = self.open(shard, columns.length)?;
        if let Some(file) = self.file.get() {
            return Ok((Arc::clone(file), Source(object)));
        }
        let tail = usize::try_from(columns.tail).ok().zip(columns.length.checked_sub(columns.tail));
        let (tail, start) = tail.ok_or_else(|| self.corrupt(shard, &"its end is longer than it is"))?;
        let tail = object.read(start, tail)?;
        if crc32fast::hash(&tail) != columns.checksum {
            return Err(self.corrupt(shard, &"the checksum of its end does not match"));
        }
        let file = File::open(tail, columns.length).map_err(|error| self.failed(shard, Failure::File(error)))?;
        Ok((Arc::clone(self.file.get_or_init(|| Arc::new(file))), Source(object)))
    }

    /// What a failure means of a blob that belongs to `shard`.
    pub(crate) fn failed(&self, shard: ShardId, failure: Failure) -> PersistError {
        match failure {
            Failure::Store(error) => error,
            Failure::File(columns::Error::Version { found, supported }) => {
                PersistError::FormatVersion { what: "columns", found, supported }
            }
            Failure::File(error) => self.corrupt(shard, &error),
        }
    }
}

/// What it means that rows cannot be kept by column.
pub(crate) fn unfit(shard: ShardId, error: &columns::Error) -> PersistError {
    PersistError::corrupt(format!("shard {shard}"), format!("rows that are to be kept by column: {error}"))
}

/// The rows of a blob from first to last, in parts.
#[derive(Debug)]
pub(crate) struct Rows {
    file: Arc<File>,
    source: Source,
    /// How many row groups were begun.
    begun: usize,
    current: Option<RowsOf>,
    /// The position of the next row.
    at: u64,
    /// Those that have gone, from there on; until when they are left out.
    gone: Peekable<IntoIter<Gone>>,
    horizon: Timestamp,
}

impl Rows {
    pub(crate) fn open(
        lease: &BlobLease,
        shard: ShardId,
        gone: &[Gone],
        horizon: Timestamp,
    ) -> Result<Rows, PersistError> {
        let (file, source) = lease.open_columns(shard)?;
        let gone = Vec::from(gone).into_iter().peekable();
        Ok(Rows { file, source, begun: 0, current: None, at: 0, gone, horizon })
    }

    /// The next part, or `None` after the last.
    pub(crate) fn next_part(&mut self, lease: &BlobLease, shard: ShardId) -> Result<Option<Part>, PersistError> {
        self.advance(lease.blob.time).map_err(|failure| lease.failed(shard, failure))
    }

    fn advance(&mut self, base: Timestamp) -> Result<Option<Part>, Failure> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(Iterator::next) {
                let part = self.left(Part::of_columns(piece?, base)?);
                if part.len() > 0 {
                    return Ok(Some(part));
                }
            } else if self.begun < self.file.groups().len() {
                self.current = Some(self.file.rows(&mut self.source, self.begun, None)?);
                self.begun += 1;
            } else {
                return Ok(None);
            }
        }
    }

    /// What is left of the next rows.
    fn left(&mut self, part: Part) -> Part {
        let start = self.at;
        self.at += length_to_u64(part.len());
        if self.gone.peek().is_none_or(|gone| gone.at >= self.at) {
            return part;
        }
        let mut left = PartBuilder::default();
        for (at, index) in (start..).zip(0..part.len()) {
            match self.gone.next_if(|gone| gone.at == at) {
                Some(gone) if gone.ts <= self.horizon => {}
                gone => {
                    left.push(part.row(index), part.ts(index), 1);
                    if let Some(gone) = gone {
                        left.push(part.row(index), gone.ts, -1);
                    }
                }
            }
        }
        left.into_part()
    }
}
