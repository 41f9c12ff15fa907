//! What can go wrong between a reader and the workers.

use ore::memory::Refused;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp};
use std::sync::Arc;

/// An error of a peek or of a command to the workers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ComputeError {
    /// A row that the index was to hold could not be computed; reads fail until that row is gone.
    #[error("{message}")]
    Evaluation {
        /// The SQLSTATE of the evaluation error.
        sqlstate: SqlState,
        /// Its message.
        message: String,
    },
    /// The snapshot no longer covers the time asked for.
    #[error("index {id} is readable from {since}, not at {as_of}")]
    SinceAdvanced {
        /// The index.
        id: GlobalId,
        /// Where it is readable from.
        since: Timestamp,
        /// The time asked for.
        as_of: Timestamp,
    },
    /// A row has a negative multiplicity, which only a bug can cause.
    #[error("index {0} holds a row with a negative multiplicity")]
    NegativeMultiplicity(GlobalId),
    /// The index was dropped while it was read.
    #[error("index {0} was dropped")]
    Dropped(GlobalId),
    /// What the index is made of cannot be read.
    #[error("{message}")]
    Unreadable {
        /// The SQLSTATE of what went wrong.
        sqlstate: SqlState,
        /// What went wrong.
        message: String,
    },
    /// It was stopped, as it asked for more memory than its cluster has.
    #[error("{0}")]
    OutOfMemory(Arc<Stopped>),
    /// A follower of the index left too much untaken.
    #[error("the client reads too slowly: changes were dropped rather than kept for it")]
    TooSlow(GlobalId),
    /// The expression engine failed.
    #[error("{0}")]
    Engine(String),
    /// The workers of a cluster are gone.
    #[error("the workers of cluster {0} are gone")]
    WorkersGone(String),
}

/// What was stopped for want of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{name}\" was stopped when it used {used} bytes of memory: {} had {} of the {} bytes that it may have",
    .refused.share, .refused.used, .refused.limit
)]
pub struct Stopped {
    /// The index or view that wanted the memory.
    pub name: String,
    /// The bytes that it had.
    pub used: usize,
    /// What had no more.
    pub refused: Refused,
}

impl ComputeError {
    /// The SQLSTATE a client sees.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            ComputeError::Evaluation { sqlstate, .. } | ComputeError::Unreadable { sqlstate, .. } => *sqlstate,
            ComputeError::SinceAdvanced { .. } => SqlState::SERIALIZATION_FAILURE,
            ComputeError::Dropped(_) => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            ComputeError::OutOfMemory(_) => SqlState::OUT_OF_MEMORY,
            ComputeError::TooSlow(_) => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            ComputeError::NegativeMultiplicity(_) | ComputeError::Engine(_) | ComputeError::WorkersGone(_) => {
                SqlState::INTERNAL_ERROR
            }
        }
    }
}

/// Encodes an evaluation error as a row of an error collection: the SQLSTATE's five bytes, then the message.
pub fn encode_error(error: datafusion::error::DataFusionError) -> Vec<u8> {
    let error = engine::error::SqlError::from(error);
    [error.sqlstate.code().as_bytes(), error.message.as_bytes()].concat()
}

/// The inverse of [`encode_error`].
pub fn decode_error(row: &[u8]) -> ComputeError {
    let (code, message) = row.split_at(row.len().min(5));
    ComputeError::Evaluation {
        sqlstate: SqlState::from_code(code).unwrap_or(SqlState::INTERNAL_ERROR),
        message: String::from_utf8_lossy(message).into_owned(),
    }
}
