//! Files for what operators put aside when there is no more memory for them.
//!
//! Sorts, groups and joins by sorted keys are told by the account of memory that there is no more, write what they have into a file, and
//! read it again in the end. The files have no names: whatever ends the process, nothing of them is left. They leave a reserve of the disk
//! free, which what is to stay needs; beyond it a query fails with 53100. A query that can tell the order of its rows puts nothing aside: what
//! it reads twice would come in two orders, if one of the two fits.

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use engine::error::SqlError;
use futures::Stream;
use repr::sqlstate::SqlState;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are written before the disk is looked at again.
const LOOKED_AT: u64 = 16 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 128 << 10;

/// Where files are put, and how much of the disk is not for them.
#[derive(Clone, Debug)]
pub struct Spill {
    directory: PathBuf,
    /// A part of the disk, in percent.
    reserve: u8,
}

impl Spill {
    /// In a directory that is there, of whose disk so many percent stay free.
    pub fn new(directory: PathBuf, reserve: u8) -> Spill {
        Spill { directory, reserve }
    }

    /// Whether there is room. Errors: 53100, 58030.
    fn check(&self) -> io::Result<()> {
        let disk = rustix::fs::statvfs(&self.directory)?;
        if u128::from(disk.f_bavail) * 100 > u128::from(disk.f_blocks) * u128::from(self.reserve) {
            return Ok(());
        }
        let detail =
            format!("Of the disk below {} less than {} percent is free.", self.directory.display(), self.reserve);
        let error =
            SqlError::new(SqlState::DISK_FULL, "out of memory, and of room on disk for what does not fit in it");
        Err(io::Error::other(error.with_detail(detail)))
    }
}

impl TempFileFactory for Spill {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        self.check()?;
        let file = Arc::new(tempfile::tempfile_in(&self.directory)?);
        Ok(Arc::new(Spilled { spill: self.clone(), file, written: Arc::default() }))
    }
}

/// A file without a name. It goes with the last who writes or reads it.
#[derive(Clone)]
struct Spilled {
    spill: Spill,
    file: Arc<File>,
    written: Arc<AtomicU64>,
}

impl SpillFile for Spilled {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn size(&self) -> Option<u64> {
        Some(self.written.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let file = Arc::clone(&self.file);
        let pieces = futures::stream::try_unfold((file, 0), |(file, at)| async move {
            let mut piece = vec![0; READ_BYTES];
            let length = file.read_at(&mut piece, at)?;
            piece.truncate(length);
            Ok::<_, DataFusionError>((length > 0).then(|| (Bytes::from(piece), (file, at + length as u64))))
        });
        Ok(Box::pin(pieces))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl io::Write for Spilled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.written.load(Ordering::Relaxed);
        let length = self.file.write_at(bytes, before)?;
        let after = self.written.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
        if before / LOOKED_AT != after / LOOKED_AT {
            self.spill.check()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Spilled {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
