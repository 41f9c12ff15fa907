//! One-dimensional arrays as text: `{1,NULL,"a b"}`.
//!
//! Only the syntax is here; the values between the commas are read and printed by their own type.

use crate::error::PgReprError;
use crate::numeric::is_space;
use bytes::BufMut;
use repr::sqlstate::SqlState;

/// Prints an array; `put` prints the item at an index and says whether it is NULL (and then prints nothing).
///
/// An item is printed in place and quoted afterwards only where it needs to be.
pub(crate) fn encode_text(count: usize, mut put: impl FnMut(usize, &mut Vec<u8>) -> Item, out: &mut Vec<u8>) {
    out.put_u8(b'{');
    for i in 0..count {
        if i > 0 {
            out.put_u8(b',');
        }
        let start = out.len();
        match put(i, out) {
            Item::Null => out.put_slice(b"NULL"),
            Item::Value if needs_quotes(&out[start..]) => quote(start, out),
            Item::Value | Item::Nested => {}
        }
    }
    out.put_u8(b'}');
}

/// What was printed for an item.
pub(crate) enum Item {
    Null,
    Value,
    /// An array of its own, which is never quoted.
    Nested,
}

fn needs_quotes(text: &[u8]) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case(b"null")
        || text
            .iter()
            .any(|byte| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c))
}

fn quote(start: usize, out: &mut Vec<u8>) {
    let text = out[start..].to_vec();
    out.truncate(start);
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(byte);
    }
    out.put_u8(b'"');
}

/// The error for an array of arrays.
pub(crate) fn multidimensional() -> PgReprError {
    PgReprError::unsupported("arrays of more than one dimension are not supported")
}

/// The items of an array's text; `None` is NULL.
pub(crate) fn decode_text(text: &str) -> Result<Vec<Option<String>>, PgReprError> {
    let malformed = |detail: &str| {
        PgReprError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
            .with_detail(detail)
    };
    let trimmed = text.trim_start_matches(is_space);
    let body = match trimmed.as_bytes().first() {
        Some(b'{') => &trimmed[1..],
        Some(b'[') => return Err(PgReprError::unsupported("array subscripts in array literals are not supported")),
        _ => return Err(malformed("Array value must start with \"{\" or dimension information.")),
    };
    let mut items = Vec::new();
    let mut chars = body.char_indices().peekable();
    loop {
        while chars.next_if(|(_, c)| is_space(*c)).is_some() {}
        let mut item = String::new();
        let (mut quoted, mut escaped) = (false, false);
        // How much of the item stays when trailing blanks are dropped: what was quoted or escaped stays.
        let mut kept = 0;
        let end = loop {
            let Some((at, c)) = chars.next() else { return Err(malformed("Unexpected end of input.")) };
            match c {
                '"' if quoted || kept > 0 => return Err(malformed("Unexpected array element.")),
                '"' => {
                    quoted = true;
                    read_quoted(&mut chars, &mut item).ok_or_else(|| malformed("Unexpected end of input."))?;
                    kept = item.len();
                }
                '{' if quoted || kept > 0 => return Err(malformed("Unexpected \"{\" character.")),
                '{' => return Err(multidimensional()),
                ',' | '}' => break (at, c),
                '\\' if quoted => return Err(malformed("Unexpected \"\\\" character.")),
                '\\' => {
                    escaped = true;
                    let (_, c) = chars.next().ok_or_else(|| malformed("Unexpected end of input."))?;
                    item.push(c);
                    kept = item.len();
                }
                c if is_space(c) => item.push(c),
                _ if quoted => return Err(malformed("Unexpected array element.")),
                c => {
                    item.push(c);
                    kept = item.len();
                }
            }
        };
        let bare = kept == 0 && !quoted;
        if bare && !(end.1 == '}' && items.is_empty()) {
            return Err(malformed(if end.1 == ',' {
                "Unexpected \",\" character."
            } else {
                "Unexpected \"}\" character."
            }));
        }
        item.truncate(kept);
        if !bare {
            items.push(if !quoted && !escaped && item.eq_ignore_ascii_case("null") { None } else { Some(item) });
        }
        if end.1 == '}' {
            let rest = &body[end.0 + 1..];
            return if rest.chars().all(is_space) {
                Ok(items)
            } else {
                Err(malformed("Junk after closing right brace."))
            };
        }
    }
}

fn read_quoted(chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>, item: &mut String) -> Option<()> {
    loop {
        match chars.next()?.1 {
            '"' => return Some(()),
            '\\' => item.push(chars.next()?.1),
            c => item.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::decode_text;

    #[test]
    fn items() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(decode_text("{}"), Ok(vec![]));
        assert_eq!(
            decode_text(" { 1 , null,\"a \\\"b\" , c d } "),
            Ok(vec![some("1"), None, some("a \"b"), some("c d")])
        );
        assert_eq!(decode_text("{\"\",\"NULL\"}"), Ok(vec![some(""), some("NULL")]));
        assert_eq!(decode_text("{\\NULL,nu\\ll,NULL}"), Ok(vec![some("NULL"), some("null"), None]));
        for text in ["", "1", "{", "{1", "{1,}", "{,1}", "{1}x", "{\"a}", "{\"a\"b}", "{a\"b\"}", "{\"a\"\\b}"] {
            assert_eq!(decode_text(text).expect_err(text).sqlstate.code(), "22P02", "{text}");
        }
        assert_eq!(decode_text("{{1}}").expect_err("two dimensions").sqlstate.code(), "0A000");
    }
}
