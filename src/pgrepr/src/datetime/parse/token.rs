//! Cuts the text of a date or time into tokens.
//!
//! What a run of characters is depends on its first character and on the one behind it: digits before `:` are a clock
//! time, digits before `-`, `/` or `.` a date, a sign before digits an offset, letters a word (which may be a zone's
//! name, with `/` and `_` in it).

/// A piece of the text. Words are in lower case except for the names of zones, whose case does not matter.
#[derive(Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// Digits, perhaps with a fraction.
    Number(&'a str),
    /// The parts of a date, between its separators.
    Date(Vec<&'a str>),
    /// `03:04:05.678`
    Time(&'a str),
    /// `+02:30`
    Offset(&'a str),
    /// Letters.
    Word(&'a str),
}

/// The longest text that is looked at, as in PostgreSQL.
const TEXT_BYTES_MAX: usize = 128;

/// The tokens, or `None` where there is a character that no date or time contains.
pub(crate) fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    if text.len() > TEXT_BYTES_MAX || !text.is_ascii() {
        return None;
    }
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | b',' => at += 1,
            b'0'..=b'9' => {
                at = skip(bytes, at, u8::is_ascii_digit);
                match bytes.get(at) {
                    Some(b':') => {
                        at = skip(bytes, at, |byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
                        tokens.push(Token::Time(&text[start..at]));
                    }
                    Some(separator @ (b'-' | b'/' | b'.')) => {
                        let separator = *separator;
                        at = dated(bytes, at, separator);
                        let parts: Vec<&str> = text[start..at].split(char::from(separator)).collect();
                        match (parts.len(), separator) {
                            // Two parts around a point are a number.
                            (2, b'.') => tokens.push(Token::Number(&text[start..at])),
                            _ => tokens.push(Token::Date(parts)),
                        }
                    }
                    _ => tokens.push(Token::Number(&text[start..at])),
                }
            }
            b'+' | b'-' => {
                at += 1;
                match bytes.get(at) {
                    Some(b'0'..=b'9') => {
                        at = skip(bytes, at, |byte| byte.is_ascii_digit() || *byte == b':');
                        tokens.push(Token::Offset(&text[start..at]));
                    }
                    Some(b'a'..=b'z' | b'A'..=b'Z') => {
                        at = skip(bytes, at, u8::is_ascii_alphabetic);
                        tokens.push(Token::Word(special(&text[start..at])?));
                    }
                    _ => return None,
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' => {
                at = skip(bytes, at, u8::is_ascii_alphabetic);
                let month = crate::datetime::parse::month_named(&text[start..at].to_ascii_lowercase()).is_some();
                match bytes.get(at) {
                    Some(separator @ (b'-' | b'/' | b'.')) if month => {
                        at = dated(bytes, at, *separator);
                        tokens.push(Token::Date(text[start..at].split(char::from(*separator)).collect()));
                    }
                    Some(b'/' | b'_') => {
                        at = skip(bytes, at, |b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+'));
                        tokens.push(Token::Word(&text[start..at]));
                    }
                    // `PST8PDT`; a single letter before digits is the `T` of ISO 8601 or the `J` of a Julian day.
                    Some(b'0'..=b'9') if at - start > 2 && !month => {
                        at = skip(bytes, at, u8::is_ascii_alphanumeric);
                        tokens.push(Token::Word(&text[start..at]));
                    }
                    Some(b'.') => {
                        tokens.push(Token::Word(known(&text[start..at])));
                        at += 1;
                    }
                    _ => tokens.push(Token::Word(known(&text[start..at]))),
                }
            }
            _ => return None,
        }
    }
    Some(tokens)
}

fn skip(bytes: &[u8], from: usize, accept: impl Fn(&u8) -> bool) -> usize {
    from + bytes[from..].iter().take_while(|byte| accept(byte)).count()
}

/// The end of a date whose first separator is at `from`: digits or letters, and perhaps a third part.
fn dated(bytes: &[u8], from: usize, separator: u8) -> usize {
    let second = skip(bytes, from + 1, u8::is_ascii_digit);
    let second = if second == from + 1 { skip(bytes, second, u8::is_ascii_alphabetic) } else { second };
    match bytes.get(second) {
        Some(next) if *next == separator => skip(bytes, second + 1, u8::is_ascii_digit),
        _ => second,
    }
}

fn special(text: &str) -> Option<&'static str> {
    match (text.as_bytes()[0], text[1..].to_ascii_lowercase().as_str()) {
        (b'-', "infinity" | "inf") => Some("-infinity"),
        (b'+', "infinity" | "inf") => Some("infinity"),
        _ => None,
    }
}

/// The word in lower case if it is one that is matched, else as it is.
fn known(word: &str) -> &str {
    const WORDS: &[&str] = &[
        "t",
        "z",
        "j",
        "jd",
        "julian",
        "ad",
        "bc",
        "am",
        "pm",
        "at",
        "on",
        "dst",
        "allballs",
        "infinity",
        "epoch",
        "now",
        "today",
        "tomorrow",
        "yesterday",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sun",
        "mon",
        "tue",
        "tues",
        "wed",
        "wednes",
        "weds",
        "thu",
        "thur",
        "thurs",
        "fri",
        "sat",
    ];
    if word.eq_ignore_ascii_case("inf") {
        return "infinity";
    }
    WORDS.iter().find(|known| known.eq_ignore_ascii_case(word)).copied().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn cuts() {
        assert_eq!(
            tokens("2020-01-02T03:04:05.6+02"),
            Some(vec![
                Token::Date(vec!["2020", "01", "02"]),
                Token::Word("t"),
                Token::Time("03:04:05.6"),
                Token::Offset("+02")
            ])
        );
        assert_eq!(tokens("8-Jan-1999"), Some(vec![Token::Date(vec!["8", "Jan", "1999"])]));
        assert_eq!(tokens("1 America/New_York"), Some(vec![Token::Number("1"), Token::Word("America/New_York")]));
        assert_eq!(tokens("-infinity"), Some(vec![Token::Word("-infinity")]));
        assert_eq!(tokens("ä"), None);
        assert_eq!(tokens("1;2"), None);
    }
}
