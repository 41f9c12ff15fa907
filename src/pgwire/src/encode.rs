//! Backend messages, appended to the connection's one write buffer.
//!
//! A message is its type, a length that is filled in when the body is known, and the body. Rows have a file of their
//! own, [`rows`]. Strings that end with NUL on the wire lose what NULs they contain, and are cut at
//! [`STRING_BYTES_MAX`], so that no message of this file can outgrow its length field.

pub mod rows;

use crate::error::WireError;
use crate::formats::Format;
use adapter::response::RowsTag;
use adapter::status::Status;
use bytes::BufMut;
use repr::sqlstate::SqlState;
use repr::subject::{Part, Subject};
use std::io::Write;

/// Far more than any name or message needs, and far less than a length field holds.
const STRING_BYTES_MAX: usize = 1 << 20;

/// The newest protocol that is spoken here, 3.0, as a startup packet names it.
pub(crate) const PROTOCOL_NEWEST: u32 = 3 << 16;

/// An error or notice, taken apart.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) severity: &'a str,
    pub(crate) sqlstate: SqlState,
    pub(crate) message: &'a str,
    pub(crate) detail: Option<&'a str>,
    pub(crate) hint: Option<&'a str>,
    pub(crate) position: Option<usize>,
    pub(crate) context: Option<&'a str>,
    pub(crate) subject: Option<&'a Subject>,
    pub(crate) routine: Option<&'a str>,
}

/// Appends a message whose body `body` writes.
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u8(tag);
    out.put_i32(0);
    body(out);
    let length = u32::try_from(out.len() - start - 1).expect("strings are cut short of what a length holds");
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

fn string(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(STRING_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for part in text[..end].split('\0') {
        out.put_slice(part.as_bytes());
    }
    out.put_u8(0);
}

/// AuthenticationOk.
pub(crate) fn authentication_ok(out: &mut Vec<u8>) {
    out.put_slice(b"R\0\0\0\x08\0\0\0\0");
}

/// AuthenticationCleartextPassword.
pub(crate) fn authentication_cleartext_password(out: &mut Vec<u8>) {
    out.put_slice(b"R\0\0\0\x08\0\0\0\x03");
}

/// AuthenticationSASL: the mechanisms, the best first.
pub(crate) fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    message(out, b'R', |out| {
        out.put_u32(10);
        mechanisms.iter().for_each(|mechanism| string(out, mechanism));
        out.put_u8(0);
    });
}

/// AuthenticationSASLContinue.
pub(crate) fn authentication_sasl_continue(out: &mut Vec<u8>, data: &str) {
    message(out, b'R', |out| {
        out.put_u32(11);
        out.put_slice(data.as_bytes());
    });
}

/// AuthenticationSASLFinal.
pub(crate) fn authentication_sasl_final(out: &mut Vec<u8>, data: &str) {
    message(out, b'R', |out| {
        out.put_u32(12);
        out.put_slice(data.as_bytes());
    });
}

/// NegotiateProtocolVersion: the newest version spoken here, and the options not recognised.
pub(crate) fn negotiate_protocol_version(out: &mut Vec<u8>, unknown_options: &[String]) {
    message(out, b'v', |out| {
        out.put_u32(PROTOCOL_NEWEST);
        out.put_u32(u32::try_from(unknown_options.len()).expect("a startup packet holds few options"));
        unknown_options.iter().for_each(|option| string(out, option));
    });
}

/// ParameterStatus.
pub(crate) fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        string(out, name);
        string(out, value);
    });
}

/// BackendKeyData.
pub(crate) fn backend_key_data(out: &mut Vec<u8>, connection_id: u32, secret: u32) {
    message(out, b'K', |out| {
        out.put_u32(connection_id);
        out.put_u32(secret);
    });
}

/// ReadyForQuery.
pub(crate) fn ready_for_query(out: &mut Vec<u8>, status: Status) {
    let status = match status {
        Status::Idle => b'I',
        Status::InBlock => b'T',
        Status::Failed => b'E',
    };
    out.put_slice(&[b'Z', 0, 0, 0, 5, status]);
}

/// How much of the connection an error takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// A statement.
    Error,
    /// The connection.
    Fatal,
}

/// ErrorResponse.
pub(crate) fn error_response(out: &mut Vec<u8>, severity: Severity, error: &WireError) {
    let (detail, hint, context) = (error.detail(), error.hint(), error.context());
    let report = Report {
        severity: match severity {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        },
        sqlstate: error.sqlstate(),
        message: &error.to_string(),
        detail: detail.as_deref(),
        hint: hint.as_deref(),
        position: error.position(),
        context: context.as_deref(),
        subject: error.subject(),
        routine: error.routine(),
    };
    message(out, b'E', |out| fields(out, &report));
}

/// NoticeResponse.
pub(crate) fn notice_response(out: &mut Vec<u8>, report: &Report<'_>) {
    message(out, b'N', |out| fields(out, report));
}

fn fields(out: &mut Vec<u8>, report: &Report<'_>) {
    let mut field = |code: u8, text: &str| {
        out.put_u8(code);
        string(out, text);
    };
    field(b'S', report.severity);
    field(b'V', report.severity);
    field(b'C', report.sqlstate.code());
    field(b'M', report.message);
    for (code, text) in [(b'D', report.detail), (b'H', report.hint), (b'W', report.context), (b'R', report.routine)] {
        if let Some(text) = text {
            field(code, text);
        }
    }
    if let Some(position) = report.position {
        field(b'P', &position.to_string());
    }
    if let Some(subject) = report.subject {
        field(b's', &subject.schema);
        field(b't', &subject.table);
        match &subject.part {
            Part::Column(name) => field(b'c', name),
            Part::Constraint(name) => field(b'n', name),
        }
    }
    out.put_u8(0);
}

/// CommandComplete with a whole tag.
pub(crate) fn command_complete(out: &mut Vec<u8>, tag: impl std::fmt::Display) {
    message(out, b'C', |out| {
        write!(out.writer(), "{tag}").expect("a buffer takes everything");
        out.put_u8(0);
    });
}

/// CommandComplete after rows, with or without their number.
pub(crate) fn rows_complete(out: &mut Vec<u8>, tag: RowsTag, row_count: usize) {
    message(out, b'C', |out| {
        out.put_slice(tag.text().as_bytes());
        if tag.has_count() {
            out.put_u8(b' ');
            out.put_slice(itoa::Buffer::new().format(row_count).as_bytes());
        }
        out.put_u8(0);
    });
}

/// ParseComplete.
pub(crate) fn parse_complete(out: &mut Vec<u8>) {
    out.put_slice(b"1\0\0\0\x04");
}

/// BindComplete.
pub(crate) fn bind_complete(out: &mut Vec<u8>) {
    out.put_slice(b"2\0\0\0\x04");
}

/// CloseComplete.
pub(crate) fn close_complete(out: &mut Vec<u8>) {
    out.put_slice(b"3\0\0\0\x04");
}

/// NoData.
pub(crate) fn no_data(out: &mut Vec<u8>) {
    out.put_slice(b"n\0\0\0\x04");
}

/// PortalSuspended.
pub(crate) fn portal_suspended(out: &mut Vec<u8>) {
    out.put_slice(b"s\0\0\0\x04");
}

/// EmptyQueryResponse.
pub(crate) fn empty_query_response(out: &mut Vec<u8>) {
    out.put_slice(b"I\0\0\0\x04");
}

/// CopyDone.
pub(crate) fn copy_done(out: &mut Vec<u8>) {
    out.put_slice(b"c\0\0\0\x04");
}

/// ParameterDescription.
pub(crate) fn parameter_description(out: &mut Vec<u8>, oids: &[u32]) {
    message(out, b't', |out| {
        // Parse refuses more than fit.
        out.put_u16(u16::try_from(oids.len()).unwrap_or(u16::MAX));
        oids.iter().take(usize::from(u16::MAX)).for_each(|&oid| out.put_u32(oid));
    });
}

/// CopyInResponse: one format throughout.
pub(crate) fn copy_in_response(out: &mut Vec<u8>, column_count: usize, format: Format) {
    copy_response(out, b'G', column_count, format);
}

/// CopyOutResponse: one format throughout.
pub(crate) fn copy_out_response(out: &mut Vec<u8>, column_count: usize, format: Format) {
    copy_response(out, b'H', column_count, format);
}

fn copy_response(out: &mut Vec<u8>, tag: u8, column_count: usize, format: Format) {
    let code = u8::from(format == Format::Binary);
    message(out, tag, |out| {
        let count = u16::try_from(column_count).unwrap_or(u16::MAX);
        out.put_u8(code);
        out.put_u16(count);
        (0..count).for_each(|_| out.put_i16(code.into()));
    });
}

#[cfg(test)]
mod tests {
    use super::{
        Severity, command_complete, error_response, negotiate_protocol_version, parameter_description, string,
    };
    use crate::codec::FrameError;
    use crate::error::WireError;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out.to_vec()
    }

    #[test]
    fn errors_carry_severity_code_and_message() {
        let bytes = written(|out| error_response(out, Severity::Fatal, &WireError::Frame(FrameError::Type(b'x'))));
        let body = b"SFATAL\0VFATAL\0C08P01\0Minvalid frontend message type 120\0\0";
        assert_eq!(bytes[0], b'E');
        assert_eq!(bytes[1..5], u32::try_from(body.len() + 4).expect("short").to_be_bytes());
        assert_eq!(&bytes[5..], body);
    }

    #[test]
    fn strings_end_at_their_one_nul() {
        assert_eq!(written(|out| string(out, "a\0b")), b"ab\0");
        let long = "é".repeat(1 << 20);
        assert_eq!(written(|out| string(out, &long)).len(), (1 << 20) + 1);
    }

    #[test]
    fn small_messages() {
        assert_eq!(written(|out| command_complete(out, "SELECT 1")), b"C\0\0\0\x0dSELECT 1\0");
        assert_eq!(written(|out| parameter_description(out, &[23])), b"t\0\0\0\x0a\0\x01\0\0\0\x17");
        let unknown = ["_pq_.x".to_owned()];
        let expected = b"v\0\0\0\x13\0\x03\0\0\0\0\0\x01_pq_.x\0";
        assert_eq!(written(|out| negotiate_protocol_version(out, &unknown)), expected);
    }
}
