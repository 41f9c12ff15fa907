//! What ends a statement or a connection, and how it is told to the client.
//!
//! One enum for both: `?` carries any failure up to the loop in `connection`, which asks two questions. Is there
//! anybody left to tell ([`WireError::is_silent`])? Does the session go on ([`WireError::is_fatal`])?

use crate::codec::FrameError;
use crate::message::DecodeError;
use adapter::error::AdapterError;
use door::scram::Refused;
use pgrepr::copy::reader::CopyError;
use pgrepr::error::PgReprError;
use repr::sqlstate::SqlState;
use repr::subject::Subject;
use std::io;

/// A failure of a statement, of a connection, or of the client's command of the protocol.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The session refused or failed to do something.
    #[error(transparent)]
    Session(#[from] AdapterError),
    /// The bytes are not framed as messages.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message is not what its type says, or a string in it is not UTF-8.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The stream is sound, but this message has no place here.
    #[error("{0}")]
    Protocol(String),
    /// A startup packet that cannot be accepted.
    #[error("{message}")]
    Startup {
        /// The class of the error.
        sqlstate: SqlState,
        /// What is wrong with it.
        message: String,
    },
    /// The user is not who it claims to be, or does not exist: nobody can tell which.
    #[error("password authentication failed for user \"{user}\"")]
    Password {
        /// The name that was claimed.
        user: String,
    },
    /// A request larger than the server takes.
    #[error("request of {bytes} bytes is larger than the limit of {bytes_max} bytes")]
    RequestTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A row or value that no message can hold.
    #[error("result is larger than a message of the protocol can be")]
    ResultTooLarge,
    /// COPY data that is not in the format it claims to be in.
    #[error("{error}")]
    Copy {
        /// What is wrong, and in which line.
        #[source]
        error: Box<CopyError>,
        /// The table that was to be filled.
        table: String,
    },
    /// The client gave up its COPY.
    #[error("COPY from stdin failed: {0}")]
    CopyFailed(String),
    /// Something the protocol has and this server does not.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The server is stopping, or somebody ended this session.
    #[error("terminating connection due to administrator command")]
    Shutdown,
    /// The peer did not finish its handshake in time.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// The peer said goodbye, or hung up between two messages.
    #[error("the client closed the connection")]
    Closed,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Refused> for WireError {
    fn from(Refused { sqlstate, message }: Refused) -> WireError {
        WireError::Startup { sqlstate, message }
    }
}

impl From<PgReprError> for WireError {
    fn from(error: PgReprError) -> WireError {
        WireError::Session(error.into())
    }
}

impl WireError {
    /// The class of the error.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            WireError::Session(error) => error.sqlstate(),
            WireError::Decode(DecodeError::Encoding(_)) => SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            WireError::Frame(_) | WireError::Decode(DecodeError::Malformed(_)) | WireError::Protocol(_) => {
                SqlState::PROTOCOL_VIOLATION
            }
            WireError::Startup { sqlstate, .. } => *sqlstate,
            WireError::Password { .. } => SqlState::INVALID_PASSWORD,
            WireError::RequestTooLarge { .. } | WireError::ResultTooLarge => SqlState::PROGRAM_LIMIT_EXCEEDED,
            WireError::Copy { error, .. } => error.sqlstate,
            WireError::CopyFailed(_) => SqlState::QUERY_CANCELED,
            WireError::Unsupported(_) => SqlState::FEATURE_NOT_SUPPORTED,
            WireError::Shutdown => SqlState::ADMIN_SHUTDOWN,
            WireError::HandshakeTimeout | WireError::Closed | WireError::Io(_) => SqlState::CONNECTION_FAILURE,
        }
    }

    /// More about what went wrong.
    pub fn detail(&self) -> Option<String> {
        match self {
            WireError::Session(error) => error.detail(),
            _ => None,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            WireError::Session(error) => error.hint(),
            WireError::Copy { error, .. } => error.hint.map(str::to_owned),
            _ => None,
        }
    }

    /// Where in the statement's text, in characters from 1.
    pub fn position(&self) -> Option<usize> {
        match self {
            WireError::Session(error) => error.position(),
            _ => None,
        }
    }

    /// What was being done.
    pub fn context(&self) -> Option<String> {
        match self {
            WireError::Session(error) => error.context(),
            WireError::Copy { error, table } => Some(format!("COPY {table}, line {}", error.line)),
            _ => None,
        }
    }

    /// What of a table it is about.
    pub fn subject(&self) -> Option<&Subject> {
        match self {
            WireError::Session(error) => error.subject(),
            _ => None,
        }
    }

    /// PostgreSQL's name for the place in the source, where clients go by it.
    pub fn routine(&self) -> Option<&'static str> {
        match self {
            WireError::Session(error) => error.routine(),
            _ => None,
        }
    }

    /// Whether the connection ends.
    pub fn is_fatal(&self) -> bool {
        match self {
            WireError::Session(error) => error.is_fatal(),
            WireError::Frame(_)
            | WireError::Decode(DecodeError::Malformed(_))
            | WireError::Startup { .. }
            | WireError::Password { .. }
            | WireError::Shutdown
            | WireError::HandshakeTimeout
            | WireError::Closed
            | WireError::Io(_) => true,
            WireError::Decode(DecodeError::Encoding(_))
            | WireError::Protocol(_)
            | WireError::RequestTooLarge { .. }
            | WireError::ResultTooLarge
            | WireError::Copy { .. }
            | WireError::CopyFailed(_)
            | WireError::Unsupported(_) => false,
        }
    }

    /// Whether there is nobody to tell.
    pub fn is_silent(&self) -> bool {
        matches!(self, WireError::Closed | WireError::Io(_) | WireError::HandshakeTimeout)
    }

    /// Whether the client may still be sending, so that it would lose our last words to a reset.
    pub fn needs_linger(&self) -> bool {
        matches!(self, WireError::Frame(_) | WireError::Decode(_) | WireError::Startup { .. })
    }
}
