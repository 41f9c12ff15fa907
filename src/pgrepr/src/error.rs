//! What can be wrong with a value that a client sent.
//!
//! The messages, codes and details are PostgreSQL's, so that drivers and people who match on them keep working.

use crate::utf8::InvalidText;
use repr::sqlstate::SqlState;

/// A value that could not be read (or, for a binary array beyond 2 GiB, written).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PgReprError {
    /// The class of the error.
    pub sqlstate: SqlState,
    /// One lower-case clause, as PostgreSQL words it.
    pub message: String,
    /// What exactly is wrong, where PostgreSQL says it.
    pub detail: Option<String>,
    /// What to do about it, where PostgreSQL says it.
    pub hint: Option<String>,
}

impl PgReprError {
    /// An error without detail or hint.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> PgReprError {
        PgReprError { sqlstate, message: message.into(), detail: None, hint: None }
    }

    /// The class of the error.
    pub fn sqlstate(&self) -> SqlState {
        self.sqlstate
    }

    /// What exactly is wrong.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> PgReprError {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> PgReprError {
        self.hint = Some(hint.into());
        self
    }

    /// 22P02: the text is not a value of the type.
    pub fn invalid_text(type_name: &str, text: &str) -> PgReprError {
        PgReprError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        )
    }

    /// 22023: the text is not a value of the setting.
    pub(crate) fn invalid_setting(name: &str, value: &str) -> PgReprError {
        PgReprError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{name}\": \"{value}\""),
        )
    }

    /// 22003: a number that its type cannot hold.
    pub fn out_of_range(type_name: &str, text: &str) -> PgReprError {
        PgReprError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {type_name}"),
        )
    }

    /// 22P03: the bytes are not a value of the type.
    pub fn invalid_binary(message: impl Into<String>) -> PgReprError {
        PgReprError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    }

    /// 0A000: valid, and not supported.
    pub fn unsupported(message: impl Into<String>) -> PgReprError {
        PgReprError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }
}

impl From<InvalidText> for PgReprError {
    fn from(error: InvalidText) -> PgReprError {
        PgReprError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, error.to_string())
    }
}
