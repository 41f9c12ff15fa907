//! Texts as clients send them: UTF-8 without NUL.

use std::str::from_utf8;

/// Bytes that are no text; holds those that are to be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid byte sequence for encoding \"UTF8\": {}", hex(.0))]
pub struct InvalidText(pub Vec<u8>);

/// The text that these bytes are.
pub fn text(bytes: &[u8]) -> Result<&str, InvalidText> {
    match from_utf8(bytes) {
        Ok(text) if memchr::memchr(0, bytes).is_none() => Ok(text),
        Ok(_) => Err(InvalidText(vec![0])),
        Err(error) => {
            let rest = &bytes[error.valid_up_to()..];
            let length = sequence_length(rest.first().copied().unwrap_or_default()).min(rest.len());
            Err(InvalidText(rest[..length].to_vec()))
        }
    }
}

/// How many bytes a UTF-8 sequence that starts with `first` means to have.
fn sequence_length(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(" ")
}
