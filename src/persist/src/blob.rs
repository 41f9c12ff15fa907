//! Blobs: immutable objects for batches that are too large for consensus.
//!
//! A blob is durable under its name before the transaction that refers to it; so a reference that was committed names a whole
//! object. What no transaction refers to is an orphan of a crash, removed when the store is opened. Where blobs are, in a
//! directory, in a bucket or in memory, is [`store`]'s concern.
//!
//! Several processes reach a shared store, and one that was replaced may not know yet. So the name of a blob begins with the
//! epoch of its writer, and whoever opens the store removes orphans of earlier epochs only: a blob of a later one may be
//! referred to by a transaction that it has not seen.
//!
//! # Invariants
//! * A blob is never changed, and its name is never used again.
//! * A blob is deleted only after the last [`BlobLease`] is gone and consensus no longer refers to it.

mod claim;
pub(crate) mod columnar;
mod directory;
pub mod memory;
mod s3;
pub mod store;

use columns::Shape;
use parking_lot::Mutex;
use repr::Timestamp;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) use crate::blob::claim::claim;
use crate::blob::directory::Directory;
pub(crate) use crate::blob::directory::sync_path;
use crate::blob::s3::Bucket;
use crate::blob::store::{Object, ObjectStore, Upload};
use crate::encoding::{BATCH_FORMAT, BLOB_MAGIC, BlobRef, Part, PartBuilder, check_format, length_to_u64};
use crate::error::PersistError;
use crate::removals::{Gone, Removals};
use crate::shard_id::ShardId;

/// Magic and format version.
const HEADER_BYTES: usize = BLOB_MAGIC.len() + 4;

/// Where in a store the blobs are.
const BLOBS: &str = "blobs/";

/// Opens the store of a `file://` or `s3://` URL. Waits up to `patience` for one that does not answer; an answer may take up
/// to `timeout` to begin.
pub fn open(url: &str, timeout: Duration, patience: Duration) -> Result<Box<dyn ObjectStore>, PersistError> {
    let unusable = |detail: &str| PersistError::StoreUrl { detail: detail.to_owned() };
    match url.split_once("://") {
        Some(("s3", _)) => Ok(Box::new(Bucket::open(url, timeout, patience)?)),
        Some(("file", path)) if path.starts_with('/') => directory(Path::new(path)),
        Some(("file", _)) => Err(unusable("a file:// URL has the whole path, from /")),
        _ => Err(unusable("it begins with neither file:// nor s3://")),
    }
}

/// The store in a directory.
pub fn directory(path: &Path) -> Result<Box<dyn ObjectStore>, PersistError> {
    Ok(Box::new(Directory::open(path)?))
}

/// The blobs of a store.
#[derive(Debug)]
pub(crate) struct BlobStore {
    store: Arc<dyn ObjectStore>,
    garbage: Arc<Mutex<Vec<String>>>,
}

/// Keeps one blob readable. Held by the shard it belongs to and by every snapshot that reads it.
#[derive(Debug)]
pub(crate) struct BlobLease {
    pub(crate) blob: BlobRef,
    store: Arc<dyn ObjectStore>,
    /// Of columns: what is known of the file, once somebody has read that.
    file: OnceLock<Arc<columns::File>>,
    /// Of a list of removals: the list, likewise.
    removals: OnceLock<Arc<Removals>>,
    /// Set once consensus no longer refers to the blob; the last holder then leaves it to the collector.
    obsolete: AtomicBool,
    garbage: Arc<Mutex<Vec<String>>>,
}

/// A blob being written. Dropped unfinished, it leaves nothing; should the process die before, the next open does.
#[derive(Debug)]
pub(crate) struct BlobWriter {
    key: String,
    shard: ShardId,
    upload: Box<dyn Upload>,
    contents: Written,
}

/// What a blob is made of.
#[derive(Debug)]
enum Written {
    /// Parts of these lengths.
    Parts(Vec<u64>),
    Columns(Box<columns::Writer>),
}

/// Reads the updates of one blob from first to last.
#[derive(Debug)]
pub(crate) struct BlobReader {
    lease: Arc<BlobLease>,
    shard: ShardId,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    Parts { object: Box<dyn Object>, next: usize, offset: u64 },
    Columns(columnar::Rows),
}

/// The name of the blob of a batch.
pub(crate) fn key(epoch: u64, shard: ShardId, seq: u64) -> String {
    format!("{epoch:08}-{:016x}-{seq:016x}", shard.0)
}

/// The epoch of the process that wrote a blob.
fn epoch_of(key: &str) -> Option<u64> {
    key.split_once('-')?.0.parse().ok()
}

impl BlobStore {
    /// The blobs of `store`, of which those are removed that earlier epochs than `epoch` wrote and `referenced` does not name.
    pub(crate) fn open(
        store: Box<dyn ObjectStore>,
        epoch: u64,
        referenced: &HashSet<String>,
    ) -> Result<BlobStore, PersistError> {
        store.forget_unfinished(BLOBS)?;
        for name in store.list(BLOBS)? {
            let key = name.strip_prefix(BLOBS).unwrap_or(&name);
            if !referenced.contains(key) && epoch_of(key).is_some_and(|of| of < epoch) {
                tracing::info!(blob = key, "removing an orphan blob");
                store.delete(&name)?;
            }
        }
        Ok(BlobStore { store: store.into(), garbage: Arc::default() })
    }

    /// Starts a blob, by column if the shape of the rows is given. It is durable after [`BlobStore::finish`].
    pub(crate) fn create(
        &self,
        key: String,
        shard: ShardId,
        shape: Option<&Arc<Shape>>,
    ) -> Result<BlobWriter, PersistError> {
        let mut upload = self.store.create(&format!("{BLOBS}{key}"))?;
        let contents = match shape {
            Some(shape) => {
                let writer = columns::Writer::new(Arc::clone(shape));
                Written::Columns(Box::new(writer.map_err(|error| columnar::unfit(shard, &error))?))
            }
            None => {
                let mut header = [0; HEADER_BYTES];
                header[..BLOB_MAGIC.len()].copy_from_slice(BLOB_MAGIC);
                header[BLOB_MAGIC.len()..].copy_from_slice(&BATCH_FORMAT.to_le_bytes());
                upload.write(&header)?;
                Written::Parts(Vec::new())
            }
        };
        Ok(BlobWriter { key, shard, upload, contents })
    }

    /// Makes a written blob durable under its name.
    pub(crate) fn finish(&self, writer: BlobWriter) -> Result<Arc<BlobLease>, PersistError> {
        let BlobWriter { key, shard, mut upload, contents } = writer;
        let blob = match contents {
            Written::Parts(lengths) => BlobRef::new(key, lengths),
            Written::Columns(writer) => {
                let (bytes, tail) = writer.finish().map_err(|error| columnar::unfit(shard, &error))?;
                upload.write(&bytes)?;
                BlobRef::to_columns(key, tail)
            }
        };
        upload.finish()?;
        Ok(self.lease(blob))
    }

    /// Makes a list of removals durable.
    pub(crate) fn put_removals(
        &self,
        key: String,
        shard: ShardId,
        removals: &Removals,
    ) -> Result<Arc<BlobLease>, PersistError> {
        let mut writer = self.create(key, shard, None)?;
        let bytes = removals.encode(shard);
        writer.upload.write(&bytes)?;
        writer.upload.finish()?;
        Ok(self.lease(BlobRef::to_removals(writer.key, length_to_u64(bytes.len()))))
    }

    /// A lease on a blob that consensus refers to.
    pub(crate) fn lease(&self, blob: BlobRef) -> Arc<BlobLease> {
        let (store, garbage) = (Arc::clone(&self.store), Arc::clone(&self.garbage));
        Arc::new(BlobLease {
            blob,
            store,
            file: OnceLock::new(),
            removals: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            garbage,
        })
    }

    /// Deletes the blobs that became unreachable since the last call. A failure leaves an orphan, removed at the
    /// next open, and is only worth a line in the log.
    pub(crate) fn collect_garbage(&self) {
        let garbage = std::mem::take(&mut *self.garbage.lock());
        for key in garbage {
            if let Err(error) = self.store.delete(&format!("{BLOBS}{key}")) {
                tracing::warn!(blob = key, %error, "an obsolete blob cannot be removed");
            }
        }
    }
}

impl BlobLease {
    /// Consensus refers to the blob no longer: it goes when the last lease goes.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Whether the blob is a file of columns.
    pub(crate) fn is_columns(&self) -> bool {
        self.blob.columns.is_some()
    }

    /// Whether the blob is a list of what has gone of files of columns.
    pub(crate) fn is_removals(&self) -> bool {
        self.blob.is_removals
    }

    /// The list that the blob is, which belongs to `shard`.
    pub(crate) fn removals(&self, shard: ShardId) -> Result<Arc<Removals>, PersistError> {
        if let Some(known) = self.removals.get() {
            return Ok(Arc::clone(known));
        }
        let [length] = *self.blob.part_lengths.as_slice() else {
            return Err(self.corrupt(shard, &"it is no list of removals"));
        };
        let (mut object, start) = self.open_parts(shard)?;
        let length = usize::try_from(length).map_err(|_| self.corrupt(shard, &"it is longer than memory"))?;
        let removals = match Removals::decode(shard, object.read(start, length)?) {
            Err(PersistError::Corrupt { detail, .. }) => return Err(self.corrupt(shard, &detail)),
            decoded => decoded?,
        };
        Ok(Arc::clone(self.removals.get_or_init(|| Arc::new(removals))))
    }

    /// Opens the blob, which belongs to `shard`, checking that it is as it was left. Of a file of columns, these rows have gone: up to
    /// the horizon they are left out, afterwards it is said of them that they have.
    pub(crate) fn read(
        self: &Arc<BlobLease>,
        shard: ShardId,
        gone: &[Gone],
        horizon: Timestamp,
    ) -> Result<BlobReader, PersistError> {
        let contents = match self.is_columns() {
            true => Contents::Columns(columnar::Rows::open(self, shard, gone, horizon)?),
            false => {
                let (object, offset) = self.open_parts(shard)?;
                Contents::Parts { object, next: 0, offset }
            }
        };
        Ok(BlobReader { lease: Arc::clone(self), shard, contents })
    }

    /// Opens a blob of parts; where the first of them begins.
    fn open_parts(&self, shard: ShardId) -> Result<(Box<dyn Object>, u64), PersistError> {
        let corrupt = |detail: &dyn fmt::Display| self.corrupt(shard, detail);
        let header_bytes = length_to_u64(HEADER_BYTES);
        let mut object = self.open(shard, header_bytes + self.blob.part_lengths.iter().sum::<u64>())?;
        let header = object.read(0, HEADER_BYTES)?;
        let (magic, version) = header.split_at(BLOB_MAGIC.len());
        if magic != BLOB_MAGIC {
            return Err(corrupt(&"it does not begin as a blob does"));
        }
        let version = u32::from_le_bytes(version.try_into().expect("the header ends in four bytes"));
        check_format("blob", u64::from(version), u64::from(BATCH_FORMAT))?;
        Ok((object, header_bytes))
    }

    /// Opens the object, which is so long.
    fn open(&self, shard: ShardId, expected: u64) -> Result<Box<dyn Object>, PersistError> {
        let object = self.store.open(&format!("{BLOBS}{}", self.blob.key))?;
        let object = object.ok_or_else(|| self.corrupt(shard, &"it is missing"))?;
        match object.length() {
            found if found == expected => Ok(object),
            found => Err(self.corrupt(shard, &format_args!("it is {found} bytes long instead of {expected}"))),
        }
    }

    fn corrupt(&self, shard: ShardId, detail: &dyn fmt::Display) -> PersistError {
        PersistError::corrupt(format!("shard {shard}"), format!("blob {}: {detail}", self.blob.key))
    }
}

impl Drop for BlobLease {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.garbage.lock().push(std::mem::take(&mut self.blob.key));
        }
    }
}

impl BlobWriter {
    /// Appends updates: a part, or a row group of a file of columns, which adds each of its rows once.
    pub(crate) fn write(&mut self, updates: PartBuilder) -> Result<(), PersistError> {
        match &mut self.contents {
            Written::Parts(lengths) => {
                let bytes = updates.encode(self.shard);
                lengths.push(length_to_u64(bytes.len()));
                self.upload.write(&bytes)
            }
            Written::Columns(_) => {
                let part = updates.into_part();
                assert!(part.only_adds(), "a file of columns says of no row that it has gone");
                let (rows, times): (Vec<&[u8]>, Vec<Timestamp>) =
                    (0..part.len()).map(|at| (part.row(at), part.ts(at))).unzip();
                self.write_group(&rows, &times)
            }
        }
    }

    /// Appends a row group to a file of columns.
    pub(crate) fn write_group(&mut self, rows: &[&[u8]], times: &[Timestamp]) -> Result<(), PersistError> {
        let Written::Columns(writer) = &mut self.contents else { panic!("{} is no file of columns", self.key) };
        let bytes = writer.write(rows, times).map_err(|error| columnar::unfit(self.shard, &error))?;
        self.upload.write(&bytes)
    }
}

impl BlobReader {
    /// The next part, or `None` after the last.
    pub(crate) fn next_part(&mut self) -> Result<Option<Part>, PersistError> {
        let (lease, shard) = (&self.lease, self.shard);
        match &mut self.contents {
            Contents::Columns(rows) => rows.next_part(lease, shard),
            Contents::Parts { object, next, offset } => {
                let Some(length) = lease.blob.part_lengths.get(*next).copied() else { return Ok(None) };
                let too_long = || lease.corrupt(shard, &"a part is longer than memory");
                let bytes = object.read(*offset, usize::try_from(length).map_err(|_| too_long())?)?;
                let part = *next;
                *next += 1;
                *offset += length;
                match Part::decode(shard, bytes) {
                    Err(PersistError::Corrupt { detail, .. }) => {
                        Err(lease.corrupt(shard, &format_args!("part {part} is damaged: {detail}")))
                    }
                    decoded => Ok(Some(decoded?.later(lease.blob.time))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SHARD: ShardId = ShardId(1);

    fn store(dir: &Path, epoch: u64, referenced: &[&str]) -> BlobStore {
        let referenced = referenced.iter().map(|key| (*key).to_owned()).collect();
        BlobStore::open(directory(dir).expect("it exists"), epoch, &referenced).expect("it opens")
    }

    fn write(store: &BlobStore, key: &str) -> Arc<BlobLease> {
        let mut writer = store.create(key.to_owned(), SHARD, None).expect("it is writable");
        for row in [b"a", b"b"] {
            let mut part = PartBuilder::default();
            part.push(row, 3, 1);
            writer.write(part).expect("it is writable");
        }
        store.finish(writer).expect("it is writable")
    }

    #[test]
    fn an_obsolete_blob_outlives_its_readers_only() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = store(dir.path(), 1, &[]);
        let lease = write(&store, "x");
        let mut reader = lease.read(SHARD, &[], 0).expect("it was just written");
        lease.mark_obsolete();
        drop(lease);
        store.collect_garbage();
        assert!(dir.path().join("blobs/x").exists());
        for row in [b"a", b"b"] {
            let part = reader.next_part().expect("intact").expect("two parts");
            assert_eq!((part.row(0), part.ts(0), part.diff(0)), (row.as_slice(), 3, 1));
        }
        assert!(reader.next_part().expect("intact").is_none());
        drop(reader);
        store.collect_garbage();
        assert!(!dir.path().join("blobs/x").exists());
    }

    #[test]
    fn a_torn_blob_is_refused_and_its_shard_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = store(dir.path(), 1, &[]);
        let lease = write(&store, "x");
        let path = dir.path().join("blobs/x");
        let intact = fs::read(&path).expect("it was just written");
        let begin = format!("shard {SHARD} is corrupt: blob x: ");

        fs::write(&path, &intact[..intact.len() - 1]).expect("writable");
        let error = lease.read(SHARD, &[], 0).expect_err("it is short");
        assert!(error.to_string().starts_with(&format!("{begin}it is ")), "{error}");

        let mut damaged = intact.clone();
        *damaged.last_mut().expect("not empty") ^= 1;
        fs::write(&path, &damaged).expect("writable");
        let mut reader = lease.read(SHARD, &[], 0).expect("header and length are right");
        assert!(reader.next_part().is_ok());
        let error = reader.next_part().expect_err("a bit is wrong");
        assert!(error.to_string().starts_with(&format!("{begin}part 1 is damaged")), "{error}");

        let mut newer = intact.clone();
        newer[BLOB_MAGIC.len()] += 1;
        fs::write(&path, &newer).expect("writable");
        let error = lease.read(SHARD, &[], 0).expect_err("it is from the future");
        assert_eq!(error.to_string(), "blob has format version 2, this version reads 1");

        fs::remove_file(&path).expect("it exists");
        let error = lease.read(SHARD, &[], 0).expect_err("it is gone");
        assert_eq!(error.to_string(), format!("{begin}it is missing"));
    }

    #[test]
    fn orphans_of_earlier_epochs_are_removed_at_open() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let first = store(dir.path(), 1, &[]);
        let names = [key(1, SHARD, 1), key(1, SHARD, 2), key(2, SHARD, 3), key(3, SHARD, 4)];
        names.iter().for_each(|name| drop(write(&first, name)));
        std::mem::forget(first.create(key(1, SHARD, 5), SHARD, None).expect("writable"));
        // Of epoch 2 or later may be what we have not seen: somebody may have replaced us already.
        let second = store(dir.path(), 2, &[&names[0]]);
        let mut left = second.store.list("").expect("listable");
        left.sort();
        assert_eq!(left, [&names[0], &names[2], &names[3]].map(|name| format!("blobs/{name}")));
    }

    #[test]
    fn a_url_of_neither_kind_is_refused() {
        let second = Duration::from_secs(1);
        for url in ["http://h/b", "file://relative", "nonsense", "/tmp"] {
            let error = open(url, second, second).expect_err("it cannot be used");
            assert!(matches!(error, PersistError::StoreUrl { .. }), "{url}: {error}");
        }
    }
}
