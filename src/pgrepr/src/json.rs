//! json and jsonb as text.
//!
//! A json is checked and kept as it was written. A jsonb is stored as its canonical text: keys ordered by length and
//! then by bytes, the last of equal keys, one blank behind `:` and `,`, escapes resolved, numbers written out as
//! numeric prints them. Two texts of equal jsonb differ in the zeros at the ends of numbers alone, which are shown and do not
//! count: [`order`] says when documents are equal.
//!
//! One recursive-descent parser serves both: it builds a small tree, which json throws away.
//!
//! # Invariants
//! - Nesting is bounded by [`DEPTH_MAX`], so no document exhausts the stack.
//! - A number of few bytes that stands for many digits is bounded by [`NUMBER_DIGITS_MAX`].

pub mod order;

use crate::error::PgReprError;
use repr::sqlstate::SqlState;
use std::fmt::Write as _;

/// How deep arrays and objects may nest.
pub const DEPTH_MAX: usize = 1_000;
/// How many digits a jsonb number may have when its exponent is written out.
pub const NUMBER_DIGITS_MAX: i64 = 16_383;

/// PostgreSQL's code for an escape that text cannot hold.
const UNTRANSLATABLE_CHARACTER: SqlState = SqlState("22P05");

/// Checks that the text is JSON.
pub fn check_json(text: &str) -> Result<(), PgReprError> {
    Parser { text, at: 0, depth: 0, mode: Mode::Json }.document().map(|_| ())
}

/// The canonical text of a jsonb.
pub fn canonical_jsonb(text: &str) -> Result<String, PgReprError> {
    let node = Parser { text, at: 0, depth: 0, mode: Mode::Jsonb }.document()?;
    let mut out = String::with_capacity(text.len());
    print(&node, &mut out);
    Ok(out)
}

/// Appends `text` as a JSON string, quoted and escaped as PostgreSQL does.
pub fn quote_json(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String"),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Json,
    Jsonb,
}

enum Node {
    /// A number or literal, as it prints.
    Plain(String),
    /// A string, unescaped.
    Text(String),
    Array(Vec<Node>),
    /// Ordered, without duplicates.
    Object(Vec<(String, Node)>),
}

fn print(node: &Node, out: &mut String) {
    match node {
        Node::Plain(text) => out.push_str(text),
        Node::Text(text) => quote_json(text, out),
        Node::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                print(item, out);
            }
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                quote_json(key, out);
                out.push_str(": ");
                print(value, out);
            }
            out.push('}');
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    mode: Mode,
}

impl<'a> Parser<'a> {
    fn document(mut self) -> Result<Node, PgReprError> {
        let node = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(node),
            Some(_) => Err(self.expected("end of input")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Node, PgReprError> {
        self.skip_space();
        match self.peek() {
            None => Err(self.ended()),
            Some(b'{') => self.nested(Parser::object),
            Some(b'[') => self.nested(Parser::array),
            Some(b'"') => self.string().map(Node::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Node::Plain),
            Some(b']' | b'}' | b',' | b':') => Err(self.expected("JSON value")),
            Some(_) => match self.word() {
                word @ ("true" | "false" | "null") => {
                    self.at += word.len();
                    Ok(Node::Plain(word.to_owned()))
                }
                word => Err(self.bad_token(word)),
            },
        }
    }

    fn nested(
        &mut self,
        parse: impl FnOnce(&mut Parser<'a>) -> Result<Node, PgReprError>,
    ) -> Result<Node, PgReprError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(PgReprError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_detail(format!("JSON values may nest {DEPTH_MAX} levels deep.")));
        }
        self.at += 1;
        let node = parse(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn array(&mut self) -> Result<Node, PgReprError> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::Array(items));
                }
                None => return Err(self.ended()),
                Some(_) => return Err(self.expected("\",\" or \"]\"")),
            }
        }
    }

    fn object(&mut self) -> Result<Node, PgReprError> {
        let mut members: Vec<(String, Node)> = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(members));
        }
        loop {
            self.skip_space();
            let key = match self.peek() {
                None => return Err(self.ended()),
                Some(b'"') => self.string()?,
                Some(_) if members.is_empty() => return Err(self.expected("string or \"}\"")),
                Some(_) => return Err(self.expected("string")),
            };
            self.skip_space();
            match self.peek() {
                None => return Err(self.ended()),
                Some(b':') => self.at += 1,
                Some(_) => return Err(self.expected("\":\"")),
            }
            let value = self.value()?;
            members.push((key, value));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Node::Object(ordered(members)));
                }
                None => return Err(self.ended()),
                Some(_) => return Err(self.expected("\",\" or \"}\"")),
            }
        }
    }

    fn string(&mut self) -> Result<String, PgReprError> {
        let token_start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)).count();
            out.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                None => return Err(self.bad_token(&self.text[token_start..])),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out, token_start)?;
                }
                Some(control) => {
                    return Err(syntax().with_detail(format!("Character with value 0x{control:02x} must be escaped.")));
                }
            }
        }
    }

    fn escape(&mut self, out: &mut String, token_start: usize) -> Result<(), PgReprError> {
        let Some(c) = self.text[self.at..].chars().next() else {
            return Err(self.bad_token(&self.text[token_start..]));
        };
        self.at += c.len_utf8();
        out.push(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unicode_escape()?,
            _ => return Err(syntax().with_detail(format!("Escape sequence \"\\{c}\" is invalid."))),
        });
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<char, PgReprError> {
        let first = self.four_digits()?;
        // json keeps the escape as it was written, whatever it means.
        if self.mode == Mode::Json {
            return Ok(char::from_u32(first).unwrap_or('\u{fffd}'));
        }
        if first == 0 {
            return Err(PgReprError::new(UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
                .with_detail("\\u0000 cannot be converted to text."));
        }
        let code = match first {
            0xd800..=0xdbff => {
                let rest = &self.text.as_bytes()[self.at..];
                if !rest.starts_with(b"\\u") {
                    return Err(syntax().with_detail("Unicode low surrogate must follow a high surrogate."));
                }
                self.at += 2;
                match self.four_digits()? {
                    second @ 0xdc00..=0xdfff => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    0xd800..=0xdbff => {
                        return Err(syntax().with_detail("Unicode high surrogate must not follow a high surrogate."));
                    }
                    _ => return Err(syntax().with_detail("Unicode low surrogate must follow a high surrogate.")),
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| syntax().with_detail("Unicode low surrogate must follow a high surrogate."))
    }

    fn four_digits(&mut self) -> Result<u32, PgReprError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit =
                digit.ok_or_else(|| syntax().with_detail("\"\\u\" must be followed by four hexadecimal digits."))?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<String, PgReprError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = start + usize::from(bytes[start] == b'-');
        let whole = digits(end);
        let mut valid = whole > 0 && !(whole > 1 && bytes[end] == b'0');
        end += whole;
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            valid &= fraction > 0;
            end += 1 + fraction;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            end += 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end);
            valid &= exponent > 0;
            end += exponent;
        }
        let trailing = self.text[end..].chars().take_while(|c| is_word(*c)).map(char::len_utf8).sum::<usize>();
        if !valid || trailing > 0 {
            return Err(self.bad_token(&self.text[start..end + trailing]));
        }
        self.at = end;
        match self.mode {
            Mode::Json => Ok(String::new()),
            Mode::Jsonb => written_out(&self.text[start..end]),
        }
    }

    /// The run of letters, digits and the like at the current place; one character if there is none.
    fn word(&self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let end = if end == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { end };
        &rest[..end]
    }

    fn bad_token(&self, token: &str) -> PgReprError {
        syntax().with_detail(format!("Token \"{token}\" is invalid."))
    }

    fn ended(&self) -> PgReprError {
        syntax().with_detail("The input string ended unexpectedly.")
    }

    /// The next token is not one that may stand here, or not a token at all.
    fn expected(&self, what: &str) -> PgReprError {
        let found = match self.peek() {
            Some(b'"') => {
                let rest = &self.text[self.at..];
                let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
                &rest[..end]
            }
            Some(b'0'..=b'9' | b'{' | b'}' | b'[' | b']' | b',' | b':') => self.word(),
            _ => match self.word() {
                word @ ("true" | "false" | "null") => word,
                word => return self.bad_token(word),
            },
        };
        syntax().with_detail(format!("Expected {what}, but found \"{found}\"."))
    }
}

/// Characters that PostgreSQL's lexer takes as one bad token.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

fn syntax() -> PgReprError {
    PgReprError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
}

/// Keys by length, then by bytes; of equal keys the last.
fn ordered(mut members: Vec<(String, Node)>) -> Vec<(String, Node)> {
    // Stable, so that among equal keys the order of writing remains; reversed, so that the last one is kept.
    members.reverse();
    members.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes())));
    members.dedup_by(|(later, _), (kept, _)| later == kept);
    members
}

/// A JSON number as numeric prints it: no exponent, the digits after the point that were written.
fn written_out(number: &str) -> Result<String, PgReprError> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        None if number != "-0" && !number.starts_with("-0.") => return Ok(number.to_owned()),
        None => (number, "0"),
        Some(parts) => parts,
    };
    let overflow = || PgReprError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    let exponent: i64 = exponent.parse().map_err(|_| overflow())?;
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    // The value is DIGITS without its last `scale` ones, then the point.
    let scale = i64::try_from(fraction.len()).map_err(|_| overflow())?.checked_sub(exponent).ok_or_else(overflow)?;
    if scale.abs() > NUMBER_DIGITS_MAX {
        return Err(overflow());
    }
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let (whole, fraction) = match usize::try_from(scale) {
        Err(_) => (format!("{digits}{}", zeros(-scale)), String::new()),
        Ok(scale) if scale < digits.len() => {
            (digits[..digits.len() - scale].to_owned(), digits[digits.len() - scale..].to_owned())
        }
        Ok(scale) => ("0".to_owned(), format!("{}{digits}", "0".repeat(scale - digits.len()))),
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let zero = whole == "0" && fraction.bytes().all(|digit| digit == b'0');
    let sign = if negative && !zero { "-" } else { "" };
    Ok(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::{canonical_jsonb, check_json};

    #[test]
    fn canonical_form() {
        let cases = [
            (r#"{"bb":1,"a":2,"bb":3}"#, r#"{"a": 2, "bb": 3}"#),
            ("[1,2 , 3]", "[1, 2, 3]"),
            (r#" "\u00e4\u0001\/" "#, r#""ä\u0001/""#),
            ("1e3", "1000"),
            ("1.50", "1.50"),
            ("1.5E-3", "0.0015"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("12.5e1", "125"),
            (r#""\ud83d\ude00""#, "\"😀\""),
            ("{}", "{}"),
            ("[]", "[]"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical_jsonb(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refusals() {
        for text in ["", "{", "[1,]", "{\"a\"}", "01", "1.", "tru", "\"a", "\"\\x\"", "1 2", "\"\n\""] {
            let error = check_json(text).expect_err(text);
            assert_eq!(error.sqlstate.code(), "22P02", "{text}");
            assert!(error.detail.is_some(), "{text}");
        }
        assert!(check_json(r#""\u0000""#).is_ok());
        assert_eq!(canonical_jsonb(r#""\u0000""#).expect_err("no NUL").sqlstate.code(), "22P05");
        assert_eq!(check_json(&"[".repeat(100_000)).expect_err("deep").sqlstate.code(), "54001");
        assert_eq!(canonical_jsonb("1e999999999").expect_err("huge").sqlstate.code(), "22003");
    }
}
