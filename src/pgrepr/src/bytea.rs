//! bytea and uuid as text.

use crate::error::PgReprError;
use crate::numeric::is_space;
use crate::options::ByteaOutput;
use bytes::BufMut;
use repr::sqlstate::SqlState;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Prints a bytea.
pub fn encode_bytea(bytes: &[u8], output: ByteaOutput, out: &mut Vec<u8>) {
    match output {
        ByteaOutput::Hex => {
            out.reserve(2 + bytes.len() * 2);
            out.put_slice(b"\\x");
            for byte in bytes {
                put_hex(*byte, out);
            }
        }
        ByteaOutput::Escape => {
            for byte in bytes {
                match byte {
                    b'\\' => out.put_slice(b"\\\\"),
                    0x20..=0x7e => out.put_u8(*byte),
                    _ => out.put_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
                }
            }
        }
    }
}

fn put_hex(byte: u8, out: &mut Vec<u8>) {
    out.put_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Prints a uuid: 8-4-4-4-12 digits.
pub fn encode_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.put_u8(b'-');
        }
        put_hex(*byte, out);
    }
}

/// Reads a bytea in hex or escape form.
pub fn decode_bytea(text: &str) -> Result<Vec<u8>, PgReprError> {
    match text.strip_prefix("\\x") {
        Some(digits) => decode_hex(digits),
        None => decode_escape(text.as_bytes()),
    }
}

fn decode_hex(text: &str) -> Result<Vec<u8>, PgReprError> {
    let invalid = |message: String| PgReprError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high: Option<u8> = None;
    for c in text.chars() {
        // Spaces may separate bytes but not the digits of one.
        if high.is_none() && matches!(c, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = c
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
            .ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))?;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    if high.is_some() {
        return Err(invalid("invalid hexadecimal data: odd number of digits".to_owned()));
    }
    Ok(bytes)
}

fn decode_escape(text: &[u8]) -> Result<Vec<u8>, PgReprError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            (b'\\', _) => {
                return Err(PgReprError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            (byte, tail) => {
                bytes.push(*byte);
                tail
            }
        };
    }
    Ok(bytes)
}

/// Reads a uuid: 32 digits, a hyphen allowed after each group of four, braces allowed around it all.
pub fn decode_uuid(text: &str) -> Result<[u8; 16], PgReprError> {
    let invalid = || PgReprError::invalid_text("uuid", text);
    let inner = text.trim_matches(is_space);
    let inner = match inner.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(invalid)?,
        None => inner,
    };
    let mut bytes = [0_u8; 16];
    let mut rest = inner.as_bytes();
    for (i, byte) in bytes.iter_mut().enumerate() {
        let [high, low, tail @ ..] = rest else { return Err(invalid()) };
        *byte = hex_digit(*high).ok_or_else(invalid)? << 4 | hex_digit(*low).ok_or_else(invalid)?;
        rest = match tail {
            [b'-', tail @ ..] if i % 2 == 1 && i < 15 => tail,
            tail => tail,
        };
    }
    if rest.is_empty() { Ok(bytes) } else { Err(invalid()) }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::{decode_bytea, decode_uuid, encode_bytea};
    use crate::options::ByteaOutput;

    #[test]
    fn bytea_forms() {
        assert_eq!(decode_bytea("\\x0aFF"), Ok(vec![10, 255]));
        assert_eq!(decode_bytea("\\x 0a ff "), Ok(vec![10, 255]));
        assert_eq!(decode_bytea("a\\\\\\001"), Ok(vec![b'a', b'\\', 1]));
        assert_eq!(decode_bytea("\\x0"), Err(decode_bytea("\\x0").expect_err("odd")));
        assert!(decode_bytea("\\9").is_err());
        let mut out = Vec::new();
        encode_bytea(b"a\\\x01\xff", ByteaOutput::Escape, &mut out);
        assert_eq!(&out[..], b"a\\\\\\001\\377");
    }

    #[test]
    fn uuid_forms() {
        let expected = decode_uuid("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        assert!(expected.is_ok());
        assert_eq!(decode_uuid("{A0EEBC999C0B4EF8BB6D6BB9BD380A11}"), expected);
        assert_eq!(decode_uuid("a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11"), expected);
        assert!(decode_uuid("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1").is_err());
        assert!(decode_uuid("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-").is_err());
        assert!(decode_uuid("").is_err());
    }
}
