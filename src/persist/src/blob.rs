//! Blobs: immutable files for batches that are too large for consensus.
//!
//! A blob is written under a temporary name, synced, renamed and its directory synced, all before the transaction
//! that refers to it; so a reference that was committed names a complete file. What no transaction refers to is an
//! orphan of a crash, removed when the directory is opened.
//!
//! Plain files and `fsync`, because the file system store of `object_store` cannot sync in the version that the
//! query engine pins. The surface (put whole, read a range, delete, list) is what an object store offers.
//!
//! # Invariants
//! * A blob is never changed after its rename, and its name is never used again (it holds the epoch).
//! * A blob is deleted only after the last [`BlobLease`] is gone and consensus no longer refers to it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::encoding::{BATCH_FORMAT, BLOB_MAGIC, BlobRef, Part, check_format, length_to_u64};
use crate::error::PersistError;
use crate::shard::ShardId;

/// Magic and format version.
const HEADER_BYTES: usize = BLOB_MAGIC.len() + 4;

/// The directory of blobs.
#[derive(Debug)]
pub(crate) struct BlobStore {
    dir: PathBuf,
    garbage: Arc<Mutex<Vec<String>>>,
}

/// Keeps one blob readable. Held by the shard it belongs to and by every snapshot that reads it.
#[derive(Debug)]
pub(crate) struct BlobLease {
    pub(crate) blob: BlobRef,
    path: PathBuf,
    /// Set once consensus no longer refers to the blob; the last holder then leaves it to the collector.
    obsolete: AtomicBool,
    garbage: Arc<Mutex<Vec<String>>>,
}

/// A blob being written. Dropped unfinished, it takes its temporary file with it; should the process die before, the
/// next open does.
#[derive(Debug)]
pub(crate) struct BlobWriter {
    key: String,
    temporary: PathBuf,
    path: PathBuf,
    file: File,
    part_lengths: Vec<u64>,
}

/// Reads the parts of one blob from first to last.
#[derive(Debug)]
pub(crate) struct BlobReader {
    lease: Arc<BlobLease>,
    file: File,
    next_part: usize,
    offset: u64,
}

impl BlobStore {
    /// Opens the directory, which exists, and removes what `referenced` does not name.
    pub(crate) fn open(dir: PathBuf, referenced: &HashSet<String>) -> Result<BlobStore, PersistError> {
        let entries = fs::read_dir(&dir).map_err(|error| PersistError::io("listing blobs", error))?;
        for entry in entries {
            let entry = entry.map_err(|error| PersistError::io("listing blobs", error))?;
            let name = entry.file_name();
            let is_referenced = name.to_str().is_some_and(|name| referenced.contains(name));
            if !is_referenced {
                tracing::info!(blob = ?name, "removing an orphan blob");
                fs::remove_file(entry.path()).map_err(|error| PersistError::io("removing an orphan blob", error))?;
            }
        }
        Ok(BlobStore { dir, garbage: Arc::default() })
    }

    /// Starts a blob. Its bytes reach the disk in [`BlobStore::finish`].
    pub(crate) fn create(&self, key: String) -> Result<BlobWriter, PersistError> {
        let path = self.dir.join(&key);
        let temporary = self.dir.join(format!("{key}.tmp"));
        let mut file = File::create(&temporary).map_err(|error| PersistError::io("creating a blob", error))?;
        let mut header = [0; HEADER_BYTES];
        header[..BLOB_MAGIC.len()].copy_from_slice(BLOB_MAGIC);
        header[BLOB_MAGIC.len()..].copy_from_slice(&BATCH_FORMAT.to_le_bytes());
        file.write_all(&header).map_err(|error| PersistError::io("writing a blob", error))?;
        Ok(BlobWriter { key, temporary, path, file, part_lengths: Vec::new() })
    }

    /// Makes a written blob durable under its name.
    pub(crate) fn finish(&self, mut writer: BlobWriter) -> Result<Arc<BlobLease>, PersistError> {
        let io = |error| PersistError::io("syncing a blob", error);
        writer.file.sync_all().map_err(io)?;
        fs::rename(&writer.temporary, &writer.path).map_err(io)?;
        sync_dir(&self.dir).map_err(io)?;
        let key = std::mem::take(&mut writer.key);
        Ok(self.lease(BlobRef::new(key, std::mem::take(&mut writer.part_lengths))))
    }

    /// A lease on a blob that consensus refers to.
    pub(crate) fn lease(&self, blob: BlobRef) -> Arc<BlobLease> {
        let path = self.dir.join(&blob.key);
        Arc::new(BlobLease { blob, path, obsolete: AtomicBool::new(false), garbage: Arc::clone(&self.garbage) })
    }

    /// Deletes the blobs that became unreachable since the last call. A failure leaves an orphan, removed at the
    /// next open, and is only worth a line in the log.
    pub(crate) fn collect_garbage(&self) {
        let garbage = std::mem::take(&mut *self.garbage.lock());
        for key in garbage {
            if let Err(error) = fs::remove_file(self.dir.join(&key)) {
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

    /// Opens the blob, checking header and length.
    pub(crate) fn read(self: &Arc<BlobLease>) -> Result<BlobReader, PersistError> {
        let corrupt = |detail: String| PersistError::corrupt(format!("blob {}", self.blob.key), detail);
        let io = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => corrupt("the file is missing".to_owned()),
            _ => PersistError::io("opening a blob", error),
        };
        let file = File::open(&self.path).map_err(io)?;
        let found = file.metadata().map_err(io)?.len();
        let header_bytes = length_to_u64(HEADER_BYTES);
        let expected = header_bytes + self.blob.part_lengths.iter().sum::<u64>();
        if found != expected {
            return Err(corrupt(format!("it is {found} bytes long instead of {expected}")));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(io)?;
        let (magic, version) = header.split_at(BLOB_MAGIC.len());
        if magic != BLOB_MAGIC {
            return Err(corrupt("it does not begin as a blob does".to_owned()));
        }
        let version = u32::from_le_bytes(version.try_into().expect("the header ends in four bytes"));
        check_format("blob", u64::from(version), u64::from(BATCH_FORMAT))?;
        Ok(BlobReader { lease: Arc::clone(self), file, next_part: 0, offset: header_bytes })
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
    /// Appends one encoded part.
    pub(crate) fn write_part(&mut self, part: &[u8]) -> Result<(), PersistError> {
        self.file.write_all(part).map_err(|error| PersistError::io("writing a blob", error))?;
        self.part_lengths.push(length_to_u64(part.len()));
        Ok(())
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // After the rename there is nothing under this name any more.
        if fs::remove_file(&self.temporary).is_ok() {
            tracing::warn!(blob = self.key, "an unfinished blob was removed");
        }
    }
}

impl BlobReader {
    /// The next part, or `None` after the last.
    pub(crate) fn next_part(&mut self, shard: ShardId) -> Result<Option<Part>, PersistError> {
        let Some(length) = self.lease.blob.part_lengths.get(self.next_part).copied() else { return Ok(None) };
        let corrupt = |detail: String| PersistError::corrupt(format!("blob {}", self.lease.blob.key), detail);
        let bytes = usize::try_from(length).map_err(|_| corrupt("a part is longer than memory".to_owned()))?;
        let mut part = vec![0; bytes];
        self.file.read_exact_at(&mut part, self.offset).map_err(|error| PersistError::io("reading a blob", error))?;
        self.next_part += 1;
        self.offset += length;
        match Part::decode(shard, Bytes::from(part)) {
            Err(PersistError::Corrupt { detail, .. }) => {
                Err(corrupt(format!("part {} is damaged: {detail}", self.next_part - 1)))
            }
            decoded => decoded.map(Some),
        }
    }
}

/// Makes creations and renames in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::PartBuilder;

    fn store(dir: &Path) -> BlobStore {
        BlobStore::open(dir.to_owned(), &HashSet::new()).expect("the directory exists")
    }

    fn write(store: &BlobStore, key: &str) -> Arc<BlobLease> {
        let mut writer = store.create(key.to_owned()).expect("it is writable");
        for row in [b"a", b"b"] {
            let mut part = PartBuilder::default();
            part.push(row, 3, 1);
            writer.write_part(&part.encode(ShardId(1))).expect("it is writable");
        }
        store.finish(writer).expect("it is writable")
    }

    #[test]
    fn an_obsolete_blob_outlives_its_readers_only() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = store(dir.path());
        let lease = write(&store, "x");
        let mut reader = lease.read().expect("it was just written");
        lease.mark_obsolete();
        drop(lease);
        store.collect_garbage();
        assert!(dir.path().join("x").exists());
        for row in [b"a", b"b"] {
            let part = reader.next_part(ShardId(1)).expect("intact").expect("two parts");
            assert_eq!((part.row(0), part.ts(0), part.diff(0)), (row.as_slice(), 3, 1));
        }
        assert!(reader.next_part(ShardId(1)).expect("intact").is_none());
        drop(reader);
        store.collect_garbage();
        assert!(!dir.path().join("x").exists());
    }

    #[test]
    fn a_torn_blob_is_refused_by_name() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = store(dir.path());
        let lease = write(&store, "x");
        let path = dir.path().join("x");
        let intact = fs::read(&path).expect("it was just written");

        fs::write(&path, &intact[..intact.len() - 1]).expect("writable");
        let error = lease.read().expect_err("it is short");
        assert!(error.to_string().starts_with("blob x is corrupt: it is "), "{error}");

        let mut damaged = intact.clone();
        *damaged.last_mut().expect("not empty") ^= 1;
        fs::write(&path, &damaged).expect("writable");
        let mut reader = lease.read().expect("header and length are right");
        assert!(reader.next_part(ShardId(1)).is_ok());
        let error = reader.next_part(ShardId(1)).expect_err("a bit is wrong");
        assert!(error.to_string().contains("part 1 is damaged"), "{error}");

        fs::remove_file(&path).expect("it exists");
        assert!(lease.read().expect_err("it is gone").to_string().contains("missing"));
    }

    #[test]
    fn orphans_are_removed_at_open() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let first = store(dir.path());
        write(&first, "kept");
        write(&first, "orphan");
        std::mem::forget(first.create("torn".to_owned()).expect("writable"));
        BlobStore::open(dir.path().to_owned(), &HashSet::from(["kept".to_owned()])).expect("it opens");
        let left: Vec<_> =
            fs::read_dir(dir.path()).expect("listable").map(|entry| entry.expect("listable").file_name()).collect();
        assert_eq!(left, ["kept"]);
    }
}
