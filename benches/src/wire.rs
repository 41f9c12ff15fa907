//! Postgres protocol bytes: frontend messages written, backend messages read.
//!
//! Only what the load generator sends. Each function appends one message to a buffer, so that a whole pipeline leaves in
//! one write.

use anyhow::{Result, bail, ensure};

/// Type OID of `int4`, declared in Parse.
pub const INT4_OID: u32 = 23;
/// Type OID of `text`, declared in Parse.
pub const TEXT_OID: u32 = 25;

/// The format code of parameters and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Human-readable text, code 0.
    Text,
    /// The type's binary representation, code 1.
    Binary,
}

impl Format {
    fn code(self) -> u16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// Appends a message: its tag, its length, and what `body` writes.
pub fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = u32::try_from(out.len() - at).expect("our messages are far below 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// SSLRequest: eight bytes, the last four of them the code 80877103.
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Appends the startup packet, which has no tag.
pub fn startup(out: &mut Vec<u8>, user: &str, database: &str) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&196_608u32.to_be_bytes());
    for text in ["user", user, "database", database, "application_name", "bench"] {
        c_string(out, text);
    }
    out.push(0);
    let length = u32::try_from(out.len() - at).expect("a startup packet is short");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a simple Query whose text `sql` writes.
pub fn query(out: &mut Vec<u8>, sql: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'Q', |out| {
        sql(out);
        out.push(0);
    });
}

/// Appends Parse of a named statement with declared parameter types.
pub fn parse(out: &mut Vec<u8>, name: &str, sql: &str, types: &[u32]) {
    message(out, b'P', |out| {
        c_string(out, name);
        c_string(out, sql);
        short(out, types.len());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// Appends Bind of the unnamed portal to a named statement; parameters and results all have one format.
pub fn bind(out: &mut Vec<u8>, statement: &str, format: Format, parameters: &[&[u8]]) {
    message(out, b'B', |out| {
        out.push(0);
        c_string(out, statement);
        short(out, 1);
        out.extend_from_slice(&format.code().to_be_bytes());
        short(out, parameters.len());
        for parameter in parameters {
            let length = u32::try_from(parameter.len()).expect("parameters are short");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(parameter);
        }
        short(out, 1);
        out.extend_from_slice(&format.code().to_be_bytes());
    });
}

/// Appends Describe of the unnamed portal.
pub fn describe_portal(out: &mut Vec<u8>) {
    message(out, b'D', |out| out.extend_from_slice(b"P\0"));
}

/// Appends Execute of the unnamed portal, all rows.
pub fn execute(out: &mut Vec<u8>) {
    message(out, b'E', |out| out.extend_from_slice(&[0; 5]));
}

/// Appends Sync.
pub fn sync(out: &mut Vec<u8>) {
    message(out, b'S', |_| ());
}

/// Appends CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(data));
}

/// Appends CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    message(out, b'c', |_| ());
}

/// The two fields of a DataRow that has two columns, neither of them NULL.
pub fn two_columns(body: &[u8]) -> Result<(&[u8], &[u8])> {
    let (columns, rest) = split(body, 2)?;
    ensure!(columns == [0, 2], "a row of {} columns, not two", columns[1]);
    let (first, rest) = field(rest)?;
    let (second, rest) = field(rest)?;
    ensure!(rest.is_empty(), "{} bytes after the last field", rest.len());
    Ok((first, second))
}

/// All fields of a DataRow as text.
pub fn text_columns(body: &[u8]) -> Result<Vec<Option<String>>> {
    let (columns, mut rest) = split(body, 2)?;
    let count = u16::from_be_bytes([columns[0], columns[1]]);
    let mut fields = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        if rest.starts_with(&[0xff; 4]) {
            rest = &rest[4..];
            fields.push(None);
        } else {
            let (value, after) = field(rest)?;
            rest = after;
            fields.push(Some(String::from_utf8_lossy(value).into_owned()));
        }
    }
    Ok(fields)
}

/// The severity, code and message of an ErrorResponse, for a person.
pub fn error_text(body: &[u8]) -> String {
    let mut text = String::new();
    for part in body.split(|byte| *byte == 0).filter(|part| !part.is_empty()) {
        if matches!(part[0], b'S' | b'C' | b'M' | b'D') {
            text.push_str(&String::from_utf8_lossy(&part[1..]));
            text.push(' ');
        }
    }
    text.trim_end().to_owned()
}

fn field(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let (length, rest) = split(bytes, 4)?;
    let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
    match usize::try_from(length) {
        Ok(length) => split(rest, length),
        Err(_) => bail!("a NULL where a value must be"),
    }
}

fn split(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8])> {
    ensure!(bytes.len() >= at, "a row ends early");
    Ok(bytes.split_at(at))
}

fn c_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn short(out: &mut Vec<u8>, value: usize) {
    let value = u16::try_from(value).expect("counts are small");
    out.extend_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_framed() {
        let mut out = Vec::new();
        query(&mut out, |out| out.extend_from_slice(b"select 1"));
        assert_eq!(out, b"Q\0\0\0\x0dselect 1\0");
    }

    #[test]
    fn rows_are_taken_apart() {
        let row = b"\0\x02\0\0\0\x01a\0\0\0\x02bc";
        let (first, second) = two_columns(row).expect("a valid row");
        assert_eq!((first, second), (&b"a"[..], &b"bc"[..]));
        assert!(two_columns(&row[..row.len() - 1]).is_err());
        assert!(two_columns(b"\0\x02\0\0\0\x01a\xff\xff\xff\xff").is_err());
        let texts = text_columns(b"\0\x02\0\0\0\x01a\xff\xff\xff\xff").expect("a valid row");
        assert_eq!(texts, [Some("a".to_owned()), None]);
    }

    #[test]
    fn errors_read_well() {
        assert_eq!(error_text(b"SERROR\0C42P01\0Mno such table\0\0"), "ERROR 42P01 no such table");
    }
}
