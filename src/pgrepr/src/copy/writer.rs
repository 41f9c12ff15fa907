//! Puts fields together into lines of COPY output.

use super::CopyOptions;
use bytes::BufMut;

/// Writes what stands before the field at `index`.
pub fn separator(out: &mut Vec<u8>, index: usize, syntax: &CopyOptions) {
    if index > 0 {
        out.put_u8(syntax.delimiter);
    }
}

/// Which field of a line it is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// From 0.
    pub at: usize,
    /// Of how many.
    pub count: usize,
}

/// Writes the field at a place of a line; `None` is NULL.
pub fn field(out: &mut Vec<u8>, value: Option<&[u8]>, Place { at, count }: Place, syntax: &CopyOptions) {
    match value {
        None => out.put_slice(syntax.null.as_bytes()),
        Some(value) if syntax.is_csv() => {
            // A value that would read as NULL, or a lone one that would read as the end of the data, is quoted too.
            let is_ambiguous = value == syntax.null.as_bytes() || (count == 1 && value == b"\\.");
            csv_field(out, value, is_ambiguous || syntax.forced(at).quote, syntax);
        }
        Some(value) => text_field(out, value, syntax.delimiter),
    }
}

fn text_field(out: &mut Vec<u8>, value: &[u8], delimiter: u8) {
    for &byte in value {
        let escaped = match byte {
            b'\\' => b'\\',
            0x08 => b'b',
            0x0C => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0B => b'v',
            byte if byte == delimiter => delimiter,
            byte => {
                out.put_u8(byte);
                continue;
            }
        };
        out.put_slice(&[b'\\', escaped]);
    }
}

fn csv_field(out: &mut Vec<u8>, value: &[u8], must_quote: bool, syntax: &CopyOptions) {
    let is_special = |byte: &u8| *byte == syntax.delimiter || *byte == syntax.quote || *byte == b'\n' || *byte == b'\r';
    if !must_quote && !value.iter().any(is_special) {
        out.put_slice(value);
        return;
    }
    out.put_u8(syntax.quote);
    for &byte in value {
        if byte == syntax.quote || byte == syntax.escape {
            out.put_u8(syntax.escape);
        }
        out.put_u8(byte);
    }
    out.put_u8(syntax.quote);
}

#[cfg(test)]
mod tests {
    use super::{Place, field};
    use crate::copy::{CopyFormat, CopyOptions, ForcedField};

    fn text() -> CopyOptions {
        CopyOptions::new(CopyFormat::Text)
    }

    fn csv() -> CopyOptions {
        CopyOptions::new(CopyFormat::Csv)
    }

    #[test]
    fn fields_are_escaped_as_their_format_asks() {
        let show = |syntax, value: Option<&str>, field_count| {
            let mut out = Vec::new();
            field(&mut out, value.map(str::as_bytes), Place { at: 0, count: field_count }, &syntax);
            String::from_utf8(out.to_vec()).expect("text")
        };
        assert_eq!(show(text(), Some("a\tb\\c\nd"), 2), "a\\tb\\\\c\\nd");
        assert_eq!(show(text(), None, 2), "\\N");
        assert_eq!(show(csv(), Some("a\"b,c"), 2), "\"a\"\"b,c\"");
        assert_eq!(show(csv(), Some(""), 2), "\"\"");
        assert_eq!(show(csv(), None, 2), "");
        assert_eq!(show(csv(), Some("\\."), 1), "\"\\.\"");
        assert_eq!(show(csv(), Some("\\."), 2), "\\.");
        let quoted = || CopyOptions { fields: vec![ForcedField { quote: true, ..ForcedField::default() }], ..csv() };
        assert_eq!(show(quoted(), Some("7"), 2), "\"7\"");
        assert_eq!(show(quoted(), None, 2), "");
    }
}
