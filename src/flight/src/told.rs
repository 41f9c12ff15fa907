//! Errors, as gRPC has them. The one table of which SQLSTATE is which code is [`code_of`].

use adapter::error::AdapterError;
use door::shown::Refused;
use repr::sqlstate::SqlState;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Bytes of a message, which travels in a header.
const MESSAGE_BYTES_MAX: usize = 3 << 10;

/// An error: its text, with its SQLSTATE, which also is the metadata `sqlstate`, and below it detail and hint. The metadata `position` is the
/// 1-based character of the statement.
pub(crate) fn told(error: &AdapterError) -> Status {
    let mut message = format!("{error} (SQLSTATE {})", error.sqlstate().code());
    for (name, text) in [("DETAIL", error.detail()), ("HINT", error.hint()), ("CONTEXT", error.context())] {
        if let Some(text) = text {
            message.push_str(&format!("\n{name}: {text}"));
        }
    }
    let mut metadata = sqlstate(error.sqlstate());
    if let Some(position) = error.position() {
        metadata.insert("position", MetadataValue::from(position as u64));
    }
    Status::with_metadata(code_of(error.sqlstate()), cut(message), metadata)
}

/// An error that has no more than this.
pub(crate) fn refused(sqlstate: SqlState, message: impl Into<String>) -> Status {
    told(&AdapterError::new(sqlstate, message))
}

/// A call that cannot be read.
pub(crate) fn malformed(message: impl Into<String>) -> Status {
    refused(SqlState::PROTOCOL_VIOLATION, message)
}

/// Who is not let in.
pub(crate) fn kept_out(why: &Refused) -> Status {
    let (state, message) = why.told();
    let code = match why {
        Refused::Malformed(_) => Code::InvalidArgument,
        Refused::Wrong(_) => Code::Unauthenticated,
        Refused::Denied(_) => Code::PermissionDenied,
        Refused::Failed(error) => return told(error),
    };
    Status::with_metadata(code, format!("{message} (SQLSTATE {})", state.code()), sqlstate(state))
}

fn sqlstate(state: SqlState) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert("sqlstate", MetadataValue::from_static(state.code()));
    metadata
}

fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    message
}

/// The code that says best what a SQLSTATE does.
fn code_of(sqlstate: SqlState) -> Code {
    let code = sqlstate.code();
    match code {
        "57014" => Code::Cancelled,
        "28000" | "42501" => Code::PermissionDenied,
        "42P01" | "42704" | "42883" | "3D000" | "3F000" | "26000" => Code::NotFound,
        "42P07" | "42P06" | "42P04" | "42710" | "23505" => Code::AlreadyExists,
        _ => match &code[..2] {
            "0A" => Code::Unimplemented,
            "22" | "26" | "34" | "42" => Code::InvalidArgument,
            "08" if sqlstate == SqlState::PROTOCOL_VIOLATION => Code::InvalidArgument,
            "08" | "57" => Code::Unavailable,
            "23" | "25" | "2B" | "3B" | "55" => Code::FailedPrecondition,
            "28" => Code::Unauthenticated,
            "40" => Code::Aborted,
            "53" | "54" => Code::ResourceExhausted,
            _ => Code::Internal,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_all_that_is_known_of_it() {
        let error = AdapterError::with_hint(SqlState::UNDEFINED_TABLE, "relation \"é\" does not exist", "Make it.");
        let status = told(&error);
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.message(), "relation \"é\" does not exist (SQLSTATE 42P01)\nHINT: Make it.");
        assert_eq!(status.metadata().get("sqlstate").and_then(|value| value.to_str().ok()), Some("42P01"));
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        for extra in 0..4 {
            let status = refused(SqlState::SYNTAX_ERROR, "x".repeat(extra) + &"é€".repeat(MESSAGE_BYTES_MAX));
            assert!(status.message().len() <= MESSAGE_BYTES_MAX + '…'.len_utf8() && status.message().ends_with('…'));
        }
    }
}
