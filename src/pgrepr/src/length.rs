//! The length limits of varchar(n), char(n) and name.
//!
//! Assignment refuses text that is too long (unless only blanks are lost); an explicit cast cuts it. Both pad char(n).

use crate::error::PgReprError;
use repr::sqlstate::SqlState;
use repr::types::PgType;
use std::borrow::Cow;

/// The longest identifier, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// What happens to text that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthRule {
    /// Assignment to a column: 22001.
    Assign,
    /// `CAST` or `::`: cut.
    Cast,
}

/// Brings text within the limit of its type; other types' text passes as it is.
pub fn fit_text<'a>(ty: &PgType, text: &'a str, rule: LengthRule) -> Result<Cow<'a, str>, PgReprError> {
    match ty {
        PgType::Varchar(Some(limit)) => cut(text, *limit, "character varying", rule).map(Cow::Borrowed),
        PgType::Bpchar(Some(limit)) => Ok(padded(cut(text, *limit, "character", rule)?, *limit)),
        PgType::Name => Ok(Cow::Borrowed(cut_bytes(text, NAME_BYTES_MAX))),
        PgType::Char => Ok(Cow::Borrowed(cut_bytes(text, text.chars().next().map_or(0, char::len_utf8)))),
        _ => Ok(Cow::Borrowed(text)),
    }
}

/// The text with blanks behind it, up to so many characters.
pub fn padded(text: &str, length: u32) -> Cow<'_, str> {
    let missing = usize::try_from(length).unwrap_or(0).saturating_sub(text.chars().count());
    if missing == 0 {
        return Cow::Borrowed(text);
    }
    let mut padded = String::with_capacity(text.len() + missing);
    padded.push_str(text);
    padded.extend(std::iter::repeat_n(' ', missing));
    Cow::Owned(padded)
}

/// What a char(n) of at most `length` characters is padded to, whatever blanks it ends with now. A longer one stays longer.
pub fn repadded(text: &str, length: u32) -> Cow<'_, str> {
    padded(text.trim_end_matches(' '), length)
}

fn cut<'a>(text: &'a str, limit: u32, name: &str, rule: LengthRule) -> Result<&'a str, PgReprError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if text.len() <= limit {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(limit) else { return Ok(text) };
    if rule == LengthRule::Assign && text[end..].bytes().any(|byte| byte != b' ') {
        return Err(PgReprError::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {name}({limit})"),
        ));
    }
    Ok(&text[..end])
}

fn cut_bytes(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::{LengthRule, fit_text};
    use repr::types::PgType;

    #[test]
    fn limits() {
        let varchar = PgType::Varchar(Some(3));
        assert_eq!(fit_text(&varchar, "äöü", LengthRule::Assign).as_deref(), Ok("äöü"));
        assert_eq!(fit_text(&varchar, "abc  ", LengthRule::Assign).as_deref(), Ok("abc"));
        assert_eq!(fit_text(&varchar, "äöüß", LengthRule::Cast).as_deref(), Ok("äöü"));
        let error = fit_text(&varchar, "abcd", LengthRule::Assign).expect_err("too long");
        assert_eq!(error.message, "value too long for type character varying(3)");
        assert_eq!(error.sqlstate.code(), "22001");
        assert_eq!(fit_text(&PgType::Bpchar(Some(4)), "ä", LengthRule::Assign).as_deref(), Ok("ä   "));
        let long = "ä".repeat(40);
        assert_eq!(fit_text(&PgType::Name, &long, LengthRule::Assign).map(|name| name.len()), Ok(62));
    }
}
