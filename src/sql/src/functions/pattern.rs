//! LIKE, SIMILAR TO and regular expressions.
//!
//! Postgres's expressions are run by a linear-time engine, which has no back-references and no look-around: those are
//! refused by name. Compiled patterns are kept per thread, because most calls repeat one pattern over a column.

use super::registry::Library;
use super::row::Call;
use super::{new_text, text};
use crate::error::SqlError;
use regex::{Regex, RegexBuilder};
use repr::Datum;
use repr::sqlstate::SqlState;
use std::cell::RefCell;
use std::collections::HashMap;

/// Patterns that a thread keeps compiled.
const PATTERNS_MAX: usize = 64;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("like(text, text) bool", |_, a| like(text(a, 0), text(a, 1), Some('\\'), false));
    library.add("like(text, text, text) bool", |_, a| like(text(a, 0), text(a, 1), escape(text(a, 2))?, false));
    library.add("ilike(text, text) bool", |_, a| like(text(a, 0), text(a, 1), Some('\\'), true));
    library.add("ilike(text, text, text) bool", |_, a| like(text(a, 0), text(a, 1), escape(text(a, 2))?, true));
    library.add("similar_to(text, text) bool", |_, a| similar(text(a, 0), text(a, 1), Some('\\')));
    library.add("similar_to(text, text, text) bool", |_, a| similar(text(a, 0), text(a, 1), escape(text(a, 2))?));
    library.add("regex_match(text, text) bool", |_, a| matches(text(a, 0), text(a, 1), ""));
    library.add("regex_imatch(text, text) bool", |_, a| matches(text(a, 0), text(a, 1), "i"));
    library.add("regexp_like(text, text) bool", |_, a| matches(text(a, 0), text(a, 1), ""));
    library.add("regexp_like(text, text, text) bool", |_, a| matches(text(a, 0), text(a, 1), text(a, 2)));
    library.add("regexp_replace(text, text, text) text", |_, a| replace(text(a, 0), text(a, 1), text(a, 2), ""));
    library.add("regexp_replace(text, text, text, text) text", |_, a| {
        replace(text(a, 0), text(a, 1), text(a, 2), text(a, 3))
    });
    library.add("regexp_match(text, text) text[]", |_, a| captures(text(a, 0), text(a, 1), ""));
    library.add("regexp_match(text, text, text) text[]", |_, a| captures(text(a, 0), text(a, 1), text(a, 2)));
    library.add("regexp_count(text, text) int4", |_, a| {
        with_regex(text(a, 1), "", |regex| Ok(Datum::Int4(regex.find_iter(text(a, 0)).count() as i32)))
    });
    library.add("regexp_split_to_array(text, text) text[]", |_, a| split(text(a, 0), text(a, 1), ""));
    library.add("regexp_split_to_array(text, text, text) text[]", |_, a| split(text(a, 0), text(a, 1), text(a, 2)));
    library.add("regexp_split_to_table(text, text) setof text", |_, a| split(text(a, 0), text(a, 1), ""));
    library.add("substring(text, text) text", |_, a| substring(text(a, 0), text(a, 1)));
    library.add("regexp_instr(text, text) int4", |_, a| {
        with_regex(text(a, 1), "", |regex| {
            let at = regex.find(text(a, 0)).map_or(0, |found| text(a, 0)[..found.start()].chars().count() as i32 + 1);
            Ok(Datum::Int4(at))
        })
    });
    library.add("like_escape(text, text) text", like_escape);
}

fn like_escape(_: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let escape = escape(text(a, 1))?;
    let mut out = String::new();
    let mut chars = text(a, 0).chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            out.push('\\');
            out.extend(chars.next());
        } else if c == '\\' {
            out.push_str("\\\\");
        } else {
            out.push(c);
        }
    }
    Ok(new_text(out))
}

/// The escape character: none for the empty string.
fn escape(text: &str) -> Result<Option<char>, SqlError> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        _ => Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character.")),
    }
}

/// `%` and `_`, matched by backtracking to the last `%` only, which is linear in practice and quadratic at worst.
fn like(value: &str, pattern: &str, escape: Option<char>, fold: bool) -> Result<Datum<'static>, SqlError> {
    if fold {
        return like_chars(&value.to_lowercase(), &pattern.to_lowercase(), escape).map(Datum::Bool);
    }
    like_chars(value, pattern, escape).map(Datum::Bool)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Literal(char),
    One,
    Many,
}

fn like_chars(value: &str, pattern: &str, escape: Option<char>) -> Result<bool, SqlError> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        tokens.push(if Some(c) == escape {
            match chars.next() {
                Some(c) => Token::Literal(c),
                None => {
                    return Err(SqlError::new(
                        SqlState::INVALID_ESCAPE_SEQUENCE,
                        "LIKE pattern must not end with escape character",
                    ));
                }
            }
        } else if c == '%' {
            Token::Many
        } else if c == '_' {
            Token::One
        } else {
            Token::Literal(c)
        });
    }
    let value: Vec<char> = value.chars().collect();
    let (mut v, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while v < value.len() {
        match tokens.get(t) {
            Some(Token::Many) => {
                retry = Some((v, t));
                t += 1;
                continue;
            }
            Some(Token::One) => {
                (v, t) = (v + 1, t + 1);
                continue;
            }
            Some(Token::Literal(c)) if *c == value[v] => {
                (v, t) = (v + 1, t + 1);
                continue;
            }
            _ => {}
        }
        match retry {
            Some((from, star)) => {
                retry = Some((from + 1, star));
                (v, t) = (from + 1, star + 1);
            }
            None => return Ok(false),
        }
    }
    Ok(tokens[t..].iter().all(|token| *token == Token::Many))
}

fn similar(value: &str, pattern: &str, escape: Option<char>) -> Result<Datum<'static>, SqlError> {
    let mut out = String::from("^(?:");
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            let next = chars.next().ok_or_else(|| {
                SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "pattern must not end with escape character")
            })?;
            out.push_str(&regex::escape(&next.to_string()));
        } else if in_class {
            in_class = c != ']';
            out.push(c);
        } else {
            match c {
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '[' => {
                    in_class = true;
                    out.push('[');
                }
                '(' => out.push_str("(?:"),
                ')' | '|' | '*' | '+' | '?' | '{' | '}' => out.push(c),
                c => out.push_str(&regex::escape(&c.to_string())),
            }
        }
    }
    out.push_str(")$");
    matches(value, &out, "")
}

thread_local! {
    static COMPILED: RefCell<HashMap<(String, String), Regex>> = RefCell::new(HashMap::new());
}

/// Runs with the compiled pattern. Flags are Postgres's: `i`, `c`, `s`, `n`, `m`, `x`, and `g` where it applies.
fn with_regex<T>(
    pattern: &str,
    flags: &str,
    run: impl FnOnce(&Regex) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    COMPILED.with_borrow_mut(|compiled| {
        let key = (pattern.to_owned(), flags.to_owned());
        if !compiled.contains_key(&key) {
            if compiled.len() >= PATTERNS_MAX {
                compiled.clear();
            }
            compiled.insert(key.clone(), compile(pattern, flags)?);
        }
        match compiled.get(&key) {
            Some(regex) => run(regex),
            None => Err(SqlError::internal("a pattern was just compiled")),
        }
    })
}

fn compile(pattern: &str, flags: &str) -> Result<Regex, SqlError> {
    let mut builder_flags = (false, true, false, false);
    for flag in flags.chars() {
        match flag {
            'i' => builder_flags.0 = true,
            'c' => builder_flags.0 = false,
            's' | 'g' => {}
            'n' | 'm' => {
                builder_flags.1 = false;
                builder_flags.2 = true;
            }
            'x' => builder_flags.3 = true,
            other => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid regular expression option: \"{other}\""),
                ));
            }
        }
    }
    let translated = translate(pattern)?;
    let (insensitive, dot_newline, multi_line, expanded) = builder_flags;
    RegexBuilder::new(&translated)
        .case_insensitive(insensitive)
        .dot_matches_new_line(dot_newline)
        .multi_line(multi_line)
        .ignore_whitespace(expanded)
        .build()
        .map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
        })
}

/// From Postgres's advanced expressions to the engine's syntax.
fn translate(pattern: &str) -> Result<String, SqlError> {
    let (prefix, body) = match pattern.strip_prefix("(?") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_alphabetic()) => match rest.split_once(')') {
            Some((options, body)) if options.chars().all(|c| c == 'i') => ("(?i)", body),
            _ => return Err(SqlError::unsupported("embedded options in a regular expression")),
        },
        _ => ("", pattern.strip_prefix("***:").unwrap_or(pattern)),
    };
    if let Some(literal) = pattern.strip_prefix("***=") {
        return Ok(regex::escape(literal));
    }
    let mut out = String::from(prefix);
    let mut chars = body.chars().peekable();
    let mut class_depth = 0;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('y') => out.push_str("\\b"),
                Some('Y') => out.push_str("\\B"),
                Some('m') => out.push_str("\\b{start}"),
                Some('M') => out.push_str("\\b{end}"),
                Some('Z') => out.push_str("\\z"),
                Some(d @ '1'..='9') if class_depth == 0 => {
                    return Err(SqlError::unsupported(format!("the back-reference \\{d} in a regular expression")));
                }
                Some(c) => {
                    out.push('\\');
                    out.push(c);
                }
                None => {
                    return Err(SqlError::new(
                        SqlState::INVALID_REGULAR_EXPRESSION,
                        "invalid regular expression: invalid escape \\ sequence",
                    ));
                }
            },
            '(' if class_depth == 0 && chars.peek() == Some(&'?') => {
                let ahead: String = chars.clone().take(3).collect();
                if ahead.starts_with("?=") || ahead.starts_with("?!") || ahead.starts_with("?<") {
                    return Err(SqlError::unsupported("look-around in a regular expression"));
                }
                out.push('(');
            }
            '[' => {
                class_depth += 1;
                out.push('[');
                if class_depth == 1 {
                    // A bracket right after the opening one stands for itself.
                    if chars.peek() == Some(&'^') {
                        out.extend(chars.next());
                    }
                    if chars.peek() == Some(&']') {
                        chars.next();
                        out.push_str("\\]");
                    }
                }
            }
            ']' if class_depth > 0 => {
                class_depth -= 1;
                out.push(']');
            }
            '&' | '~' | '-' if class_depth > 0 && chars.peek() == Some(&c) => {
                // Doubled, these are set operators of the engine.
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn matches(value: &str, pattern: &str, flags: &str) -> Result<Datum<'static>, SqlError> {
    with_regex(pattern, flags, |regex| Ok(Datum::Bool(regex.is_match(value))))
}

fn captures(value: &str, pattern: &str, flags: &str) -> Result<Datum<'static>, SqlError> {
    if flags.contains('g') {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "regexp_match() does not support the \"global\" option",
        )
        .with_hint("Use the regexp_matches function instead."));
    }
    with_regex(pattern, flags, |regex| {
        let Some(found) = regex.captures(value) else { return Ok(Datum::Null) };
        let from = if found.len() > 1 { 1 } else { 0 };
        let groups = (from..found.len()).map(|i| found.get(i).map_or(Datum::Null, |group| new_text(group.as_str())));
        Ok(Datum::List(groups.collect()))
    })
}

fn substring(value: &str, pattern: &str) -> Result<Datum<'static>, SqlError> {
    with_regex(pattern, "", |regex| {
        let Some(found) = regex.captures(value) else { return Ok(Datum::Null) };
        let group = if found.len() > 1 { found.get(1) } else { found.get(0) };
        Ok(group.map_or(Datum::Null, |group| new_text(group.as_str())))
    })
}

fn split(value: &str, pattern: &str, flags: &str) -> Result<Datum<'static>, SqlError> {
    with_regex(pattern, flags, |regex| {
        if regex.is_match("") {
            return Err(SqlError::unsupported("splitting by a regular expression that matches nothing"));
        }
        Ok(Datum::List(regex.split(value).map(new_text).collect()))
    })
}

/// `\1` … `\9` and `\&` in the replacement stand for groups and the match.
fn replace(value: &str, pattern: &str, replacement: &str, flags: &str) -> Result<Datum<'static>, SqlError> {
    with_regex(pattern, flags, |regex| {
        let mut out = String::new();
        let mut end = 0;
        for found in regex.captures_iter(value) {
            let Some(whole) = found.get(0) else { continue };
            out.push_str(&value[end..whole.start()]);
            let mut chars = replacement.chars();
            while let Some(c) = chars.next() {
                if c != '\\' {
                    out.push(c);
                    continue;
                }
                match chars.next() {
                    Some('&') => out.push_str(whole.as_str()),
                    Some(d) if d.is_ascii_digit() => {
                        let group = d.to_digit(10).unwrap_or(0) as usize;
                        out.push_str(found.get(group).map_or("", |group| group.as_str()));
                    }
                    Some('\\') => out.push('\\'),
                    Some(other) => {
                        out.push('\\');
                        out.push(other);
                    }
                    None => out.push('\\'),
                }
            }
            end = whole.end();
            if !flags.contains('g') {
                break;
            }
        }
        out.push_str(&value[end..]);
        Ok(new_text(out))
    })
}

#[cfg(test)]
mod tests {
    use super::like_chars;

    #[test]
    fn like_backtracks() {
        assert_eq!(like_chars("abcabd", "%ab_", Some('\\')), Ok(true));
        assert_eq!(like_chars("abc", "a\\%c", Some('\\')), Ok(false));
        assert_eq!(like_chars("a%c", "a\\%c", Some('\\')), Ok(true));
        assert_eq!(like_chars("", "%", Some('\\')), Ok(true));
        assert!(like_chars("a", "a\\", Some('\\')).is_err());
    }
}
