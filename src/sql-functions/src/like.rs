//! LIKE: a pattern is taken apart once, for all values that it is held against.
//!
//! Between two `%` there is a part that has to be found somewhere, each after the one before it; the first it can be found is always a
//! right place. Before the first `%` and after the last one there is a part that has to stand there. Parts are of texts, which are
//! looked for as bytes, since in UTF-8 no character begins within another one, and of characters that may be any.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use engine::error::SqlError;
use memchr::memmem::Finder;
use repr::sqlstate::SqlState;
use std::sync::Arc;

/// A pattern.
pub(crate) struct Like {
    /// What values begin with.
    first: Part,
    /// What comes after that, in this order.
    middle: Vec<Part>,
    /// What they end with; without a `%` the first part is all there is.
    last: Option<Part>,
}

/// What stands between two `%`.
#[derive(Default)]
struct Part {
    pieces: Vec<Piece>,
    /// Looks for the first piece, if that is a text.
    finder: Option<Finder<'static>>,
}

enum Piece {
    Text(String),
    /// Any character.
    One,
}

impl Like {
    /// Takes a pattern apart. Error 22025 if its last character is the one that escapes the next.
    pub(crate) fn new(pattern: &str, escape: Option<char>) -> Result<Like, SqlError> {
        let mut parts = vec![Part::default()];
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let part = parts.last_mut().expect("there is always one");
            match c {
                c if Some(c) == escape => part.push(chars.next().ok_or_else(ends_with_escape)?),
                '%' => parts.push(Part::default()),
                '_' => part.pieces.push(Piece::One),
                c => part.push(c),
            }
        }
        let last = if parts.len() > 1 { parts.pop() } else { None };
        let mut middle = parts.split_off(1);
        middle.retain(|part| !part.pieces.is_empty());
        for part in &mut middle {
            if let Some(Piece::Text(text)) = part.pieces.first() {
                part.finder = Some(Finder::new(text).into_owned());
            }
        }
        Ok(Like { first: parts.pop().unwrap_or_default(), middle, last })
    }

    /// Whether a value is like the pattern.
    pub(crate) fn matches(&self, value: &str) -> bool {
        let Some(mut at) = self.first.after(value, 0) else { return false };
        let Some(last) = &self.last else { return at == value.len() };
        let Some(end) = last.before(value) else { return false };
        for part in &self.middle {
            match part.find(value, at) {
                Some(after) => at = after,
                None => return false,
            }
        }
        at <= end
    }
}

impl Part {
    fn push(&mut self, c: char) {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push(c),
            _ => self.pieces.push(Piece::Text(c.to_string())),
        }
    }

    /// Where it ends if it stands here.
    fn after(&self, value: &str, at: usize) -> Option<usize> {
        self.pieces.iter().try_fold(at, |at, piece| match piece {
            Piece::Text(text) => value.as_bytes()[at..].starts_with(text.as_bytes()).then_some(at + text.len()),
            Piece::One => value[at..].chars().next().map(|c| at + c.len_utf8()),
        })
    }

    /// Where it begins if it stands at the end.
    fn before(&self, value: &str) -> Option<usize> {
        self.pieces.iter().rev().try_fold(value.len(), |end, piece| match piece {
            Piece::Text(text) => value.as_bytes()[..end].ends_with(text.as_bytes()).then(|| end - text.len()),
            Piece::One => value[..end].chars().next_back().map(|c| end - c.len_utf8()),
        })
    }

    /// Where it ends at the first place from here on.
    fn find(&self, value: &str, mut from: usize) -> Option<usize> {
        let Some(finder) = &self.finder else {
            let starts = || value[from..].char_indices().map(|(at, _)| from + at);
            return starts().find_map(|start| self.after(value, start));
        };
        while let Some(found) = finder.find(&value.as_bytes()[from..]) {
            let start = from + found;
            if let Some(end) = self.after(value, start) {
                return Some(end);
            }
            from = start + value[start..].chars().next().map_or(1, char::len_utf8);
        }
        None
    }
}

fn ends_with_escape() -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// Which texts of a column are like a constant pattern with the usual escape character.
pub(crate) fn by_column(args: &[ColumnarValue], _of: &DataType) -> Result<Option<ArrayRef>, SqlError> {
    let [ColumnarValue::Array(values), ColumnarValue::Scalar(ScalarValue::Utf8View(Some(pattern)))] = args else {
        return Ok(None);
    };
    let Some(values) = values.as_string_view_opt() else { return Ok(None) };
    // What is wrong with a pattern is only said where there is a text.
    let Ok(like) = Like::new(pattern, Some('\\')) else { return Ok(None) };
    // What lies under a NULL is a text, too.
    let matching = BooleanBuffer::collect_bool(values.len(), |at| like.matches(values.value(at)));
    Ok(Some(Arc::new(BooleanArray::new(matching, values.nulls().cloned()))))
}

#[cfg(test)]
mod tests {
    use super::{Like, by_column};
    use arrow::array::{Array, AsArray, StringViewArray};
    use arrow::datatypes::DataType;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::ColumnarValue;
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
    use std::sync::Arc;

    /// By the definition: what is left of the pattern against what is left of the value.
    fn is_like(value: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => value.is_empty(),
            ['%', rest @ ..] => (0..=value.len()).any(|skipped| is_like(&value[skipped..], rest)),
            ['_', rest @ ..] => !value.is_empty() && is_like(&value[1..], rest),
            ['\\', c, rest @ ..] | [c, rest @ ..] => value.first() == Some(c) && is_like(&value[1..], rest),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn values_are_like_patterns_by_the_definition(value in "[abä%_]{0,9}", pattern in r"([abä%_]|\\[ab%_\\]){0,7}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let like = Like::new(&pattern, Some('\\')).expect("nothing is escaped in vain");
            prop_assert_eq!(like.matches(&value), is_like(&chars(&value), &chars(&pattern)));
        }
    }

    #[test]
    fn no_pattern_ends_with_what_escapes() {
        assert!(Like::new("a\\", Some('\\')).is_err());
        assert!(Like::new("a\\\\", Some('\\')).is_ok());
        assert!(Like::new("a\\", None).is_ok_and(|like| like.matches("a\\")));
        assert!(Like::new("a#%", Some('#')).is_ok_and(|like| like.matches("a%") && !like.matches("ab")));
    }

    #[test]
    fn columns_keep_their_nulls() {
        let values = StringViewArray::from(vec![Some("special requests"), None, Some("requests special"), Some("")]);
        let pattern = |text: &str| ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.to_owned())));
        let column = ColumnarValue::Array(Arc::new(values));
        let found =
            by_column(&[column.clone(), pattern("%special%requests%")], &DataType::Boolean).expect("it is a pattern");
        let found = found.expect("it is a column and a constant");
        assert_eq!(found.as_boolean().iter().collect::<Vec<_>>(), [Some(true), None, Some(false), Some(false)]);
        assert_eq!(found.null_count(), 1);
        assert!(by_column(&[pattern("a"), column.clone()], &DataType::Boolean).expect("nothing is wrong").is_none());
        assert!(by_column(&[column, pattern("a\\")], &DataType::Boolean).expect("the other body says it").is_none());
    }
}
