//! The data directory: who may use it, and that it is one of ours.
//!
//! Layout: `lock` (held with `flock` for as long as the process serves the directory, with the holder's process id
//! inside), `glimpse-data` (marks the directory and its format version), `consensus.db` and its companions, `journal`
//! (what was committed and is not in that database yet), `witness` (what the two are known to hold together), `blobs/`.
//!
//! # Invariants
//! * The lock is taken before anything else is read or written. The kernel drops it with the process, however that
//!   ends, so that no lock is ever stale.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bugs::Bug;

use crate::blob::sync_path;
use crate::encoding::check_format;
use crate::error::PersistError;

/// The version of the layout described above.
const LAYOUT_FORMAT: u64 = 2;
/// The version that has no witness, or none yet: a directory has it until its first start has come so far.
const UNWITNESSED_FORMAT: u64 = 1;

const LOCK_NAME: &str = "lock";
const MARKER_NAME: &str = "glimpse-data";
const MARKER_PREFIX: &str = "Glimpse data directory, format ";

/// A data directory that this process has to itself.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    is_witnessed: bool,
    /// Holds the lock; closing it lets go.
    _lock: File,
}

impl DataDir {
    /// Locks `path`, creating it if need be.
    pub(crate) fn open(path: &Path) -> Result<DataDir, PersistError> {
        let io = |error| PersistError::io("opening the data directory", error);
        fs::create_dir_all(path).map_err(io)?;
        refuse_foreign(path)?;
        let lock = lock(path)?;
        let marker = path.join(MARKER_NAME);
        let format = match fs::read(&marker) {
            Ok(text) => format_of(path, &text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                mark(path, UNWITNESSED_FORMAT)?;
                UNWITNESSED_FORMAT
            }
            Err(error) => return Err(io(error)),
        };
        let dir = DataDir { path: path.to_owned(), is_witnessed: format > UNWITNESSED_FORMAT, _lock: lock };
        dir.sync()?;
        Ok(dir)
    }

    /// Whether a start has left a witness in it.
    pub(crate) fn is_witnessed(&self) -> bool {
        self.is_witnessed
    }

    /// From here on there is a witness, or something is wrong.
    pub(crate) fn set_witnessed(&mut self) -> Result<(), PersistError> {
        // The witness's name is durable before it is relied upon.
        self.sync()?;
        mark(&self.path, LAYOUT_FORMAT)?;
        self.is_witnessed = true;
        self.sync()
    }

    /// Makes the names of the files in it durable, and its own.
    pub(crate) fn sync(&self) -> Result<(), PersistError> {
        sync_path(&self.path).map_err(|error| PersistError::io("syncing the data directory", error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn consensus(&self) -> PathBuf {
        self.path.join("consensus.db")
    }
}

/// A directory without our marker must be empty, or hold only what a crash during its creation left.
fn refuse_foreign(path: &Path) -> Result<(), PersistError> {
    if path.join(MARKER_NAME).exists() {
        return Ok(());
    }
    let io = |error| PersistError::io("opening the data directory", error);
    for entry in fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let is_ours = ["lock", "glimpse-data.tmp", "lost+found"].iter().any(|ours| name == *ours);
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

/// Writes the marker.
fn mark(path: &Path, format: u64) -> Result<(), PersistError> {
    let io = |error| PersistError::io("marking the data directory", error);
    let temporary = path.join("glimpse-data.tmp");
    let mut file = File::create(&temporary).map_err(io)?;
    writeln!(file, "{MARKER_PREFIX}{format}").map_err(io)?;
    file.sync_all().map_err(io)?;
    fs::rename(&temporary, path.join(MARKER_NAME)).map_err(io)
}

/// The format that a marker tells.
fn format_of(path: &Path, text: &[u8]) -> Result<u64, PersistError> {
    let line = str::from_utf8(text).ok().and_then(|text| text.strip_suffix('\n'));
    let version = line.and_then(|line| line.strip_prefix(MARKER_PREFIX)).and_then(|rest| rest.parse().ok());
    let damaged = || PersistError::corrupt(path.join(MARKER_NAME).display().to_string(), "its text is not ours");
    let version = version.ok_or_else(damaged)?;
    if version < UNWITNESSED_FORMAT {
        return Err(damaged());
    }
    check_format("data directory", version, LAYOUT_FORMAT).map(|()| version)
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
        fs::write(dir.path().join(MARKER_NAME), "Glimpse data directory, format 3\n").expect("writable");
        assert!(matches!(DataDir::open(dir.path()), Err(PersistError::FormatVersion { found: 3, .. })));
    }
}
