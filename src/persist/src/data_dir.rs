//! The data directory: who may use it, and that it is one of ours.
//!
//! Layout: `lock` (held with `flock` for as long as the process serves the directory, with the holder's process id
//! inside), `glimpse-data` (marks the directory and its format version), `consensus.db` and its companions, `blobs/`.
//!
//! If the consensus store is elsewhere, processes share a directory that has blobs alone, and a marker `glimpse-blobs` that says
//! of which store: whoever opens it removes what the store does not refer to. Such a directory is not locked. What its
//! former owner still does there harms nobody: a name of a blob holds the epoch, and no blob of an earlier epoch is
//! referred to any more unless it was when the new one began.
//!
//! # Invariants
//! * The lock is taken before anything else is read or written. The kernel drops it with the process, however that
//!   ends, so that no lock is ever stale.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bugs::Bug;

use crate::blob::sync_dir;
use crate::encoding::check_format;
use crate::error::PersistError;

/// The version of the layout described above.
const LAYOUT_FORMAT: u64 = 1;

const LOCK_NAME: &str = "lock";
const MARKER_NAME: &str = "glimpse-data";
const SHARED_MARKER_NAME: &str = "glimpse-blobs";
const SHARED_MARKER_PREFIX: &str = "Glimpse blobs, format ";
const MARKER_PREFIX: &str = "Glimpse data directory, format ";

/// A data directory.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Holds the lock, if this process has the directory to itself; closing it lets go.
    _lock: Option<File>,
}

impl DataDir {
    /// Locks `path`, creating it if need be.
    pub(crate) fn open(path: &Path) -> Result<DataDir, PersistError> {
        let io = |error| PersistError::io("opening the data directory", error);
        fs::create_dir_all(path).map_err(io)?;
        refuse_foreign(path)?;
        let lock = lock(path)?;
        let marker = path.join(MARKER_NAME);
        match fs::read_to_string(&marker) {
            Ok(text) => check_marker(path, &text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                write_marker(path, MARKER_NAME, &format!("{MARKER_PREFIX}{LAYOUT_FORMAT}")).map_err(io)?;
            }
            Err(error) => return Err(io(error)),
        }
        let dir = DataDir { path: path.to_owned(), _lock: Some(lock) };
        fs::create_dir_all(dir.blobs()).map_err(io)?;
        dir.sync()?;
        Ok(dir)
    }

    /// Opens the directory of the blobs of `store`, creating it if need be and if the store `may_be_new`.
    pub(crate) fn open_shared(path: &Path, store: u64, may_be_new: bool) -> Result<DataDir, PersistError> {
        let io = |error| PersistError::io("opening the directory of blobs", error);
        fs::create_dir_all(path).map_err(io)?;
        let expected = format!("{SHARED_MARKER_PREFIX}{LAYOUT_FORMAT}, store {store:016x}");
        match fs::read_to_string(path.join(SHARED_MARKER_NAME)) {
            Ok(found) if found.trim_end() == expected => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && may_be_new => {
                refuse_foreign(path)?;
                if path.join(MARKER_NAME).exists() {
                    return Err(PersistError::OtherStore { dir: path.display().to_string() });
                }
                write_marker(path, SHARED_MARKER_NAME, &expected).map_err(io)?;
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
            _ => return Err(PersistError::OtherStore { dir: path.display().to_string() }),
        }
        let dir = DataDir { path: path.to_owned(), _lock: None };
        fs::create_dir_all(dir.blobs()).map_err(io)?;
        dir.sync()?;
        Ok(dir)
    }

    /// Makes the names of the files in it durable, and its own.
    pub(crate) fn sync(&self) -> Result<(), PersistError> {
        let io = |error| PersistError::io("syncing the data directory", error);
        sync_dir(&self.path).map_err(io)?;
        let absolute = self.path.canonicalize().map_err(io)?;
        match absolute.parent().map_or(Ok(()), sync_dir) {
            // A directory that we may not open is one that we did not just create ours in.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced.map_err(io),
        }
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    pub(crate) fn consensus(&self) -> PathBuf {
        self.path.join("consensus.db")
    }
}

/// Durable except for its name.
fn write_marker(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let temporary = dir.join(format!("{name}.tmp"));
    let mut file = File::create(&temporary)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join(name))
}

/// A directory without our marker must be empty, or hold only what a crash during its creation left.
fn refuse_foreign(path: &Path) -> Result<(), PersistError> {
    if path.join(MARKER_NAME).exists() {
        return Ok(());
    }
    let io = |error| PersistError::io("opening the data directory", error);
    for entry in fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let is_ours = ["lock", "glimpse-data.tmp", "glimpse-blobs.tmp", "lost+found"].iter().any(|ours| name == *ours);
        if !is_ours {
            return Err(PersistError::NotADataDirectory { dir: path.display().to_string() });
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, PersistError> {
    let io = |error| PersistError::io("locking the data directory", error);
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path.join(LOCK_NAME)).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) if bugs::is(Bug::FenceLost) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Who holds it is a courtesy; that it is held is certain.
            let holder = match file.read_to_string(&mut holder) {
                Ok(_) if !holder.trim().is_empty() => holder.trim().to_owned(),
                _ => "unknown".to_owned(),
            };
            return Err(PersistError::InUse { dir: path.display().to_string(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    file.set_len(0).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

fn check_marker(path: &Path, text: &str) -> Result<(), PersistError> {
    let version = text.strip_prefix(MARKER_PREFIX).and_then(|rest| rest.trim().parse().ok());
    match version {
        Some(version) => check_format("data directory", version, LAYOUT_FORMAT),
        None => Err(PersistError::corrupt(path.join(MARKER_NAME).display().to_string(), "its text is not ours")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_opener_learns_who_holds_the_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let held = DataDir::open(dir.path()).expect("nobody holds it");
        let error = DataDir::open(dir.path()).expect_err("it is held");
        let expected = format!("is in use by process {}", std::process::id());
        assert!(error.to_string().ends_with(&expected), "{error}");
        drop(held);
        DataDir::open(dir.path()).expect("the holder is gone");
    }

    #[test]
    fn foreign_and_future_directories_are_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("thesis.txt"), "precious").expect("writable");
        assert!(matches!(DataDir::open(dir.path()), Err(PersistError::NotADataDirectory { .. })));
        fs::remove_file(dir.path().join("thesis.txt")).expect("it exists");
        drop(DataDir::open(dir.path()).expect("empty now"));
        fs::write(dir.path().join(MARKER_NAME), "Glimpse data directory, format 2\n").expect("writable");
        assert!(matches!(DataDir::open(dir.path()), Err(PersistError::FormatVersion { found: 2, .. })));
    }
}
