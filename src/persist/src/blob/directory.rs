//! Objects as files of a directory, synced.
//!
//! An object is written under a temporary name, synced, renamed and its directory synced: a name is that of a whole object.
//! Plain files and `fsync`, because the file system store of `object_store` cannot sync in the version that the query
//! engine pins.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::blob::store::{Object, ObjectStore, Upload};
use crate::error::PersistError;

/// What is written before it is synced, although there is more to come: the file system writes out what others have written together
/// with what a commit waits for.
const SYNCED_BYTES: usize = 2 << 20;

/// What a name ends with until the object is whole.
const TEMPORARY: &str = ".tmp";

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    root: PathBuf,
}

/// Dropped unfinished, it takes its temporary file with it; should the process die before, the next open does.
#[derive(Debug)]
struct FileUpload {
    temporary: PathBuf,
    path: PathBuf,
    file: File,
    unsynced_bytes: usize,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    length: u64,
}

impl Directory {
    /// The objects below `root`, which is made if need be, durably.
    pub(crate) fn open(root: &Path) -> Result<Directory, PersistError> {
        let io = |error| PersistError::io("opening the directory of blobs", error);
        fs::create_dir_all(root).map_err(io)?;
        sync_path(root).map_err(io)?;
        Ok(Directory { root: root.to_owned() })
    }
}

impl ObjectStore for Directory {
    fn address(&self) -> String {
        self.root.display().to_string()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, PersistError> {
        let mut names = Vec::new();
        let listed = list(&self.root.join(prefix), prefix, &mut names);
        listed.map_err(|error| PersistError::io("listing blobs", error))?;
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Box<dyn Upload>, PersistError> {
        let io = |error| PersistError::io("creating a blob", error);
        let path = self.root.join(name);
        let dir = path.parent().expect("it is below the root");
        if !dir.is_dir() {
            fs::create_dir_all(dir).map_err(io)?;
            sync_path(dir).map_err(io)?;
        }
        let temporary = self.root.join(format!("{name}{TEMPORARY}"));
        let file = File::create(&temporary).map_err(io)?;
        Ok(Box::new(FileUpload { temporary, path, file, unsynced_bytes: 0 }))
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn Object>>, PersistError> {
        let opened = File::open(self.root.join(name)).and_then(|file| {
            let length = file.metadata()?.len();
            Ok(OpenFile { file, length })
        });
        match opened {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PersistError::io("opening a blob", error)),
        }
    }

    fn delete(&self, name: &str) -> Result<(), PersistError> {
        match fs::remove_file(self.root.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(PersistError::io("removing a blob", error)),
            _ => Ok(()),
        }
    }

    fn forget_unfinished(&self, prefix: &str) -> Result<(), PersistError> {
        let mut unfinished = self.list(prefix)?.into_iter().filter(|name| name.ends_with(TEMPORARY));
        unfinished.try_for_each(|name| self.delete(&name))
    }
}

fn list(dir: &Path, prefix: &str, names: &mut Vec<String>) -> std::io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), &format!("{name}/"), names)?,
            false => names.push(name),
        }
    }
    Ok(())
}

impl Upload for FileUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), PersistError> {
        let io = |error| PersistError::io("writing a blob", error);
        for bytes in bytes.chunks(SYNCED_BYTES) {
            self.file.write_all(bytes).map_err(io)?;
            self.unsynced_bytes += bytes.len();
            if self.unsynced_bytes >= SYNCED_BYTES {
                self.unsynced_bytes = 0;
                self.file.sync_data().map_err(io)?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), PersistError> {
        let io = |error| PersistError::io("syncing a blob", error);
        self.file.sync_all().map_err(io)?;
        fs::rename(&self.temporary, &self.path).map_err(io)?;
        sync_dir(self.path.parent().expect("it is in a directory")).map_err(io)
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        // After the rename there is nothing under this name any more.
        if fs::remove_file(&self.temporary).is_ok() {
            tracing::warn!(blob = %self.path.display(), "an unfinished blob was removed");
        }
    }
}

impl Object for OpenFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&mut self, offset: u64, length: usize) -> Result<Bytes, PersistError> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| PersistError::io("reading a blob", error))?;
        Ok(Bytes::from(bytes))
    }
}

/// Makes the names of the files in a directory durable, and its own.
pub(crate) fn sync_path(dir: &Path) -> std::io::Result<()> {
    sync_dir(dir)?;
    match dir.canonicalize()?.parent().map_or(Ok(()), sync_dir) {
        // A directory that we may not open is one that we did not just create ours in.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Makes creations and renames in `dir` durable.
fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::store::contract;

    #[test]
    fn passes_the_contract() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        contract(&|| Box::new(Directory::open(&dir.path().join("a/b")).expect("it opens")));
    }
}
