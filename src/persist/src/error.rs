//! What can go wrong with durable state, and whether the write that failed may have landed all the same.

use crate::shard_id::ShardId;
use ore::exit::Exit;
use repr::Timestamp;
use repr::sqlstate::SqlState;
use std::path::Path;

/// A failure of this crate. See [`PersistError::is_indeterminate`] before answering for a failed commit.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// Another process serves this data directory.
    #[error("data directory {dir} is in use by process {holder}")]
    InUse {
        /// The data directory.
        dir: String,
        /// The process id that the holder left in the lock file, or `unknown`.
        holder: String,
    },
    /// The directory exists, is not empty and is not ours.
    #[error("{dir} is neither empty nor a Glimpse data directory")]
    NotADataDirectory {
        /// The directory.
        dir: String,
    },
    /// The blobs do not belong to the consensus store.
    #[error("{dir} does not hold the blobs of this consensus store")]
    OtherStore {
        /// Where they are.
        dir: String,
    },
    /// Something durable was written by a newer version of this software, or is older than any this one knows.
    #[error("{what} has format version {found}, this version reads {supported}")]
    FormatVersion {
        /// Which durable thing.
        what: &'static str,
        /// The version found.
        found: u64,
        /// The newest version that can be read.
        supported: u64,
    },
    /// A newer process has taken over the data directory; this one must not write any more.
    #[error("fenced: the data directory was opened by a newer process (epoch {current}, this process has {ours})")]
    Fenced {
        /// The epoch that this process holds.
        ours: u64,
        /// The epoch found in the store.
        current: u64,
    },
    /// The commit is not after everything that was committed or promised before. Nothing was written.
    #[error("timestamp {ts} is below the upper {upper}")]
    UpperMismatch {
        /// The timestamp of the commit.
        ts: Timestamp,
        /// The earliest timestamp that a commit may have.
        upper: Timestamp,
    },
    /// The shard was not created, or was dropped.
    #[error("shard {0} does not exist")]
    UnknownShard(ShardId),
    /// The shard exists already.
    #[error("shard {0} exists already")]
    DuplicateShard(ShardId),
    /// The shard is not readable at this time.
    #[error("shard {shard} is readable on [{since}, {upper}), not at {as_of}")]
    AsOfOutOfRange {
        /// The shard.
        shard: ShardId,
        /// The time asked for.
        as_of: Timestamp,
        /// The earliest readable time.
        since: Timestamp,
        /// The first time that is not readable yet.
        upper: Timestamp,
    },
    /// Bytes that were durable are not what was written.
    #[error("{what} is corrupt: {detail}")]
    Corrupt {
        /// Which durable thing.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A data directory is not what it is known to have been when its last process ended. Nothing in it was changed.
    #[error(
        "{file} is not as this data directory is known to have left it: {detail}. Restore the directory from a copy; or start \
         once with --accept-loss, to go on with what is there"
    )]
    Loss {
        /// The file.
        file: String,
        /// What differs, and by how much.
        detail: String,
    },
    /// No space is left. The write certainly failed.
    #[error("no space left on device")]
    DiskFull {
        /// What the store said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The write certainly failed, and so may everything after it.
    #[error("storage failed: {context}")]
    Determinate {
        /// What was being done.
        context: &'static str,
        /// What the store said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The write may or may not have landed; only reopening the data directory tells.
    #[error("storage failed, and the write may or may not have landed: {context}")]
    Indeterminate {
        /// What was being done.
        context: &'static str,
        /// What the store said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The URL of a shared store cannot be used.
    #[error("the store's URL cannot be used: {detail}")]
    StoreUrl {
        /// What is wrong with it; without the URL, which may hold a password.
        detail: String,
    },
    /// The shared store cannot be reached, or did not answer in time. What was asked of it may or may not have been done;
    /// asking again may help.
    #[error("the shared store cannot be reached")]
    Unreachable {
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An earlier commit ended indeterminately; until the directory is reopened nobody knows what it holds, so
    /// nothing more is written. Nor is it after a close.
    #[error("writes are refused since an earlier write ended indeterminately, or the server stops")]
    Poisoned,
}

impl PersistError {
    /// True if the failed write may have landed. It must not be reported as failed before it was read back.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, PersistError::Indeterminate { .. })
    }

    /// True if what is durable cannot be read, and will not be if it is tried again.
    pub fn is_damage(&self) -> bool {
        matches!(self, PersistError::Corrupt { .. } | PersistError::Loss { .. } | PersistError::FormatVersion { .. })
    }

    /// How a process ends that cannot go on with this.
    pub fn exit(&self) -> Exit {
        match self {
            PersistError::Fenced { .. } => Exit::Replaced,
            _ => Exit::StorageFailed,
        }
    }

    /// The code a client sees.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            PersistError::DiskFull { .. } => SqlState::DISK_FULL,
            PersistError::Determinate { .. }
            | PersistError::Indeterminate { .. }
            | PersistError::Unreachable { .. }
            | PersistError::Poisoned => SqlState::IO_ERROR,
            PersistError::Corrupt { .. } | PersistError::Loss { .. } => SqlState::DATA_CORRUPTED,
            PersistError::Fenced { .. } | PersistError::InUse { .. } => SqlState::CANNOT_CONNECT_NOW,
            PersistError::NotADataDirectory { .. }
            | PersistError::FormatVersion { .. }
            | PersistError::OtherStore { .. }
            | PersistError::StoreUrl { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            PersistError::UpperMismatch { .. }
            | PersistError::UnknownShard(_)
            | PersistError::DuplicateShard(_)
            | PersistError::AsOfOutOfRange { .. } => SqlState::INTERNAL_ERROR,
        }
    }

    /// A failure of the file system that certainly left nothing behind that counts.
    pub(crate) fn io(context: &'static str, source: std::io::Error) -> PersistError {
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                PersistError::DiskFull { source: source.into() }
            }
            _ => PersistError::Determinate { context, source: source.into() },
        }
    }

    /// A failure after which what was written may or may not be there.
    pub(crate) fn indeterminate(context: &'static str, source: std::io::Error) -> PersistError {
        PersistError::Indeterminate { context, source: source.into() }
    }

    /// A difference found in `file` at start.
    pub(crate) fn loss(file: &Path, detail: impl Into<String>) -> PersistError {
        PersistError::Loss { file: file.display().to_string(), detail: detail.into() }
    }

    /// Damage found in `what`.
    pub(crate) fn corrupt(what: impl Into<String>, detail: impl Into<String>) -> PersistError {
        PersistError::Corrupt { what: what.into(), detail: detail.into() }
    }
}
