//! What packets before a session may be, and how they are refused.

use crate::error::WireError;
use crate::message::DecodeError;
use repr::sqlstate::SqlState;

/// The largest packet that is read from somebody who has not introduced himself; Postgres's bound.
pub(crate) const PACKET_BYTES_MAX: usize = 10_000;

pub(crate) fn malformed(error: DecodeError) -> WireError {
    match error {
        DecodeError::Malformed(_) => refusal("invalid startup packet layout"),
        DecodeError::Encoding(_) => {
            WireError::Startup { sqlstate: SqlState::CHARACTER_NOT_IN_REPERTOIRE, message: error.to_string() }
        }
    }
}

pub(crate) fn refusal(message: &str) -> WireError {
    WireError::Startup { sqlstate: SqlState::PROTOCOL_VIOLATION, message: message.to_owned() }
}
