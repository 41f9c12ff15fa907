//! LIKE, SIMILAR TO and regular expressions.
//!
//! Postgres's expressions are run by a linear-time engine, which has no back-references and no look-around: those are
//! refused by name. It prefers the first alternative that matches where Postgres prefers the longest match: that shows in
//! what `regexp_replace` and the like cut out, not in whether a value matches. Compiled patterns are kept per thread, because most calls repeat one pattern over a column.

use super::call::Call;
use super::lengths::check_length;
use super::library::Library;
use super::like::Like;
use super::{int, new_text, text};
use engine::error::SqlError;
use regex::{Regex, RegexBuilder};
use repr::Datum;
use repr::sqlstate::SqlState;
use std::cell::RefCell;
use std::collections::HashMap;

/// Patterns that a thread keeps compiled.
const PATTERNS_MAX: usize = 64;

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    library.add("like(text, text) bool", |_, a| like(text(a, 0), text(a, 1), Some('\\'), false));
    library.has_column_body(crate::like::by_column);
    library.add("like(text, text, text) bool", |_, a| like(text(a, 0), text(a, 1), escape(text(a, 2))?, false));
    library.add("ilike(text, text) bool", |_, a| like(text(a, 0), text(a, 1), Some('\\'), true));
    library.add("ilike(text, text, text) bool", |_, a| like(text(a, 0), text(a, 1), escape(text(a, 2))?, true));
    library.add("similar_to(text, text) bool !long", |_, a| similar(text(a, 0), text(a, 1), Some('\\')));
    library.add("similar_to(text, text, text) bool !long", |_, a| similar(text(a, 0), text(a, 1), escape(text(a, 2))?));
    library.add("regex_match(text, text) bool !long", |_, a| matches(text(a, 0), text(a, 1), ""));
    library.add("regex_imatch(text, text) bool !long", |_, a| matches(text(a, 0), text(a, 1), "i"));
    library.add("regexp_like(text, text) bool !long", |_, a| matches(text(a, 0), text(a, 1), ""));
    library.add("regexp_like(text, text, text) bool !long", |_, a| {
        not_global("regexp_like", text(a, 2))?;
        matches(text(a, 0), text(a, 1), text(a, 2))
    });
    library.add("regexp_replace(text, text, text) text !long", |_, a| replace(a, "", 1, 1));
    library.add("regexp_replace(text, text, text, text) text !long", |_, a| {
        replace(a, text(a, 3), 1, if text(a, 3).contains('g') { 0 } else { 1 })
    });
    library.add("regexp_replace(text, text, text, int4) text !long", |_, a| replace(a, "", start(a, 3)?, 1));
    library.add("regexp_replace(text, text, text, int4, int4) text !long", |_, a| {
        replace(a, "", start(a, 3)?, at_least(a, 4, "n", 0)?)
    });
    library.add("regexp_replace(text, text, text, int4, int4, text) text !long", |_, a| {
        replace(a, text(a, 5), start(a, 3)?, at_least(a, 4, "n", 0)?)
    });
    library.add("regexp_match(text, text) text[] !long", |_, a| captures(text(a, 0), text(a, 1), ""));
    library.add("regexp_match(text, text, text) text[] !long", |_, a| captures(text(a, 0), text(a, 1), text(a, 2)));
    library.add("regexp_matches(text, text) setof text[] !long", |_, a| all_captures(text(a, 0), text(a, 1), ""));
    library.add("regexp_matches(text, text, text) setof text[] !long", |_, a| {
        all_captures(text(a, 0), text(a, 1), text(a, 2))
    });
    for args in ["", ", int4", ", int4, text"] {
        library.add(&format!("regexp_count(text, text{args}) int4 !long"), |_, a| count(a));
    }
    library.add("regexp_split_to_array(text, text) text[] !long", |_, a| split(text(a, 0), text(a, 1), ""));
    library
        .add("regexp_split_to_array(text, text, text) text[] !long", |_, a| split(text(a, 0), text(a, 1), text(a, 2)));
    library.add("regexp_split_to_table(text, text) setof text !long", |_, a| split(text(a, 0), text(a, 1), ""));
    library.add("regexp_split_to_table(text, text, text) setof text !long", |_, a| {
        split(text(a, 0), text(a, 1), text(a, 2))
    });
    library.add("substring(text, text) text !long", |_, a| substring(text(a, 0), text(a, 1)));
    for args in [
        "",
        ", int4",
        ", int4, int4",
        ", int4, int4, int4",
        ", int4, int4, int4, text",
        ", int4, int4, int4, text, int4",
    ] {
        library.add(&format!("regexp_instr(text, text{args}) int4 !long"), |_, a| position(a));
    }
    for args in ["", ", int4", ", int4, int4", ", int4, int4, text", ", int4, int4, text, int4"] {
        library.add(&format!("regexp_substr(text, text{args}) text !long"), |_, a| substr(a));
    }
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

fn like(value: &str, pattern: &str, escape: Option<char>, fold: bool) -> Result<Datum<'static>, SqlError> {
    Ok(Datum::Bool(match fold {
        true => Like::new(&pattern.to_lowercase(), escape)?.matches(&value.to_lowercase()),
        false => Like::new(pattern, escape)?.matches(value),
    }))
}

fn similar(value: &str, pattern: &str, escape: Option<char>) -> Result<Datum<'static>, SqlError> {
    let mut out = String::from("^(?:");
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            // At the end it stands for nothing, as in Postgres.
            if let Some(next) = chars.next() {
                out.push_str(&regex::escape(&next.to_string()));
            }
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
fn with_regex<T>(pattern: &str, flags: &str, run: impl FnOnce(&Regex) -> Result<T, SqlError>) -> Result<T, SqlError> {
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

/// Postgres's letters for the ways in which a pattern is read.
#[derive(Clone, Copy, Default)]
struct Flags {
    insensitive: bool,
    /// `.` and negated classes stop at line ends.
    partial: bool,
    /// `^` and `$` match at line ends.
    multi_line: bool,
    expanded: bool,
    literal: bool,
}

impl Flags {
    fn apply(&mut self, letters: &str) -> Result<(), char> {
        for letter in letters.chars() {
            match letter {
                'i' => self.insensitive = true,
                'c' => self.insensitive = false,
                'g' | 'e' => {}
                's' => (self.partial, self.multi_line) = (false, false),
                'n' | 'm' => (self.partial, self.multi_line) = (true, true),
                'p' => (self.partial, self.multi_line) = (true, false),
                'w' => (self.partial, self.multi_line) = (false, true),
                't' => self.expanded = false,
                'x' => self.expanded = true,
                'q' => self.literal = true,
                other => return Err(other),
            }
        }
        Ok(())
    }
}

fn invalid(reason: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}

fn compile(pattern: &str, letters: &str) -> Result<Regex, SqlError> {
    let mut flags = Flags::default();
    flags.apply(letters).map_err(|letter| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid regular expression option: \"{letter}\""))
    })?;
    let mut body = pattern.strip_prefix("***:").unwrap_or(pattern);
    if let Some(literal) = pattern.strip_prefix("***=") {
        (body, flags.literal) = (literal, true);
    }
    if !flags.literal
        && let Some(rest) = body.strip_prefix("(?")
        && rest.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        let (embedded, after) = rest.split_once(')').ok_or_else(|| invalid("invalid embedded option"))?;
        flags.apply(embedded).map_err(|_| invalid("invalid embedded option"))?;
        body = after;
    }
    let translated = if flags.literal { regex::escape(body) } else { translate(body, flags.partial)? };
    RegexBuilder::new(&translated)
        .case_insensitive(flags.insensitive)
        .dot_matches_new_line(!flags.partial)
        .multi_line(flags.multi_line)
        .ignore_whitespace(flags.expanded && !flags.literal)
        .build()
        .map_err(|error| invalid(&reason(&error.to_string())))
}

/// The engine's complaint in Postgres's words.
fn reason(complaint: &str) -> String {
    let last = complaint.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let known = [
        ("unclosed group", "parentheses () not balanced"),
        ("unopened group", "parentheses () not balanced"),
        ("unclosed character class", "brackets [] not balanced"),
        ("repetition operator missing expression", "quantifier operand invalid"),
        ("invalid repetition count range", "invalid repetition count(s)"),
        ("unclosed counted repetition", "invalid repetition count(s)"),
        ("repetition quantifier expects a valid decimal", "invalid repetition count(s)"),
        ("invalid character class range", "invalid character range"),
        ("ASCII class not found", "invalid character class"),
        ("unrecognized escape sequence", "invalid escape \\ sequence"),
        ("incomplete escape sequence", "invalid escape \\ sequence"),
        ("exceeds size limit", "regular expression is too complex"),
    ];
    known.iter().find(|(ours, _)| last.contains(ours)).map_or(last, |(_, theirs)| theirs).to_owned()
}

/// From Postgres's advanced expressions to the engine's syntax.
fn translate(body: &str, partial: bool) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut rest = body;
    // Whether a quantifier would stand after another, which the engine takes and Postgres does not.
    let mut quantified = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let was_quantified = std::mem::take(&mut quantified);
        match c {
            '\\' => rest = translate_escape(rest, &mut out)?,
            '[' => rest = translate_class(rest, partial, &mut out)?,
            '(' if rest.starts_with("?=") || rest.starts_with("?!") || rest.starts_with("?<") => {
                return Err(SqlError::unsupported("look-around in a regular expression"));
            }
            '(' if rest.starts_with('?') && !rest.starts_with("?:") => {
                return Err(invalid("quantifier operand invalid"));
            }
            '(' if rest.starts_with("?:") => {
                out.push_str("(?:");
                rest = &rest[2..];
            }
            '{' if !rest.starts_with(|c: char| c.is_ascii_digit()) => out.push_str("\\{"),
            '*' | '+' | '?' | '{' => {
                if was_quantified {
                    return Err(invalid("quantifier operand invalid"));
                }
                out.push(c);
                if c == '{' {
                    let end = rest.find('}').ok_or_else(|| invalid("braces {} not balanced"))?;
                    let (bounds, after) = rest.split_at(end + 1);
                    if bounds.split(['}', ',']).any(|n| n.parse::<u32>().is_ok_and(|n| n > 255)) {
                        return Err(invalid("invalid repetition count(s)"));
                    }
                    out.push_str(bounds);
                    rest = after;
                }
                if let Some(after) = rest.strip_prefix('?') {
                    out.push('?');
                    rest = after;
                }
                quantified = true;
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

/// What follows a backslash outside brackets; gives what is left.
fn translate_escape<'p>(rest: &'p str, out: &mut String) -> Result<&'p str, SqlError> {
    let c = rest.chars().next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
    match c {
        'y' => out.push_str("\\b"),
        'Y' => out.push_str("\\B"),
        'm' => out.push_str("\\b{start}"),
        'M' => out.push_str("\\b{end}"),
        'Z' => out.push_str("\\z"),
        'b' => out.push_str("\\x08"),
        'B' => out.push_str("\\\\"),
        'e' => out.push_str("\\x1B"),
        'A' | 'a' | 'd' | 'D' | 'f' | 'n' | 'r' | 's' | 'S' | 't' | 'u' | 'U' | 'v' | 'w' | 'W' | 'x' => {
            out.push('\\');
            out.push(c);
        }
        '0' => out.push_str("\\x00"),
        '1'..='9' => {
            return Err(SqlError::unsupported(format!("the back-reference \\{c} in a regular expression")));
        }
        c if c.is_ascii_alphanumeric() => return Err(invalid("invalid escape \\ sequence")),
        c => out.push_str(&regex::escape(&c.to_string())),
    }
    Ok(&rest[c.len_utf8()..])
}

/// The named classes of characters that both Postgres and the engine know.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// A bracket expression after its opening bracket; gives what is left.
fn translate_class<'p>(mut rest: &'p str, partial: bool, out: &mut String) -> Result<&'p str, SqlError> {
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        if partial {
            out.push_str("\\n");
        }
        rest = after;
    }
    // A closing bracket right after the opening one stands for itself.
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            ']' => {
                out.push(']');
                return Ok(rest);
            }
            '\\' => match rest.chars().next() {
                Some(c) if "dDsSwW".contains(c) => {
                    out.push('\\');
                    out.push(c);
                    rest = &rest[1..];
                }
                _ => rest = translate_escape(rest, out)?,
            },
            '[' if rest.starts_with(':') => {
                let end = rest[1..].find(":]").map(|at| at + 1).ok_or_else(|| invalid("brackets [] not balanced"))?;
                if !CLASSES.contains(&&rest[1..end]) {
                    return Err(invalid("invalid character class"));
                }
                out.push('[');
                out.push_str(&rest[..end + 2]);
                rest = &rest[end + 2..];
            }
            '[' if rest.starts_with('.') || rest.starts_with('=') => {
                return Err(SqlError::unsupported("a collating element in a regular expression"));
            }
            // A bracket, and the engine's operators on sets, which are doubled.
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '-' if rest.starts_with('-') => out.push_str("\\-"),
            // In the engine's expanded syntax blanks count only when escaped, also in brackets.
            ' ' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    Err(invalid("brackets [] not balanced"))
}

/// Every match as Postgres finds them: an empty one also right after a longer one, which the engine would skip.
fn each_match<'v>(regex: &Regex, value: &'v str, run: impl FnMut(&regex::Captures<'v>) -> bool) {
    each_match_from(0, regex, value, run);
}

/// The same from a place in bytes on.
fn each_match_from<'v>(
    mut from: usize,
    regex: &Regex,
    value: &'v str,
    mut run: impl FnMut(&regex::Captures<'v>) -> bool,
) {
    while from <= value.len() {
        let Some(found) = regex.captures_at(value, from) else { return };
        let Some(whole) = found.get(0) else { return };
        from = whole.end();
        if whole.is_empty() {
            from += value[from..].chars().next().map_or(1, char::len_utf8);
        }
        if !run(&found) {
            return;
        }
    }
}

fn matches(value: &str, pattern: &str, flags: &str) -> Result<Datum<'static>, SqlError> {
    with_regex(pattern, flags, |regex| Ok(Datum::Bool(regex.is_match(value))))
}

/// An optional number, which stands at `i`, and is not below `least`.
fn at_least(a: &[Datum<'_>], i: usize, name: &str, least: i64) -> Result<i64, SqlError> {
    match a.get(i) {
        None => Ok(least.max(1)),
        Some(_) if int(a, i) >= least => Ok(int(a, i)),
        Some(_) => {
            let message = format!("invalid value for parameter \"{name}\": {}", int(a, i));
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// From which character on is searched, counted from 1.
fn start(a: &[Datum<'_>], i: usize) -> Result<i64, SqlError> {
    at_least(a, i, "start", 1)
}

/// Where that character is in bytes; behind everything if there are not so many.
fn offset(value: &str, start: i64) -> usize {
    let before = usize::try_from(start - 1).unwrap_or(usize::MAX);
    match value.char_indices().nth(before) {
        Some((at, _)) => at,
        None if value.chars().count() == before => value.len(),
        None => value.len() + 1,
    }
}

fn not_global(function: &str, flags: &str) -> Result<(), SqlError> {
    if !flags.contains('g') {
        return Ok(());
    }
    let message = format!("{function}() does not support the \"global\" option");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// An optional text.
fn optional<'a>(a: &'a [Datum<'_>], i: usize) -> &'a str {
    if a.len() > i { text(a, i) } else { "" }
}

/// `regexp_count(value, pattern, start, flags)`.
fn count(a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let (start, flags) = (start(a, 2)?, optional(a, 3));
    not_global("regexp_count", flags)?;
    with_regex(text(a, 1), flags, |regex| {
        let mut count = 0;
        each_match_from(offset(text(a, 0), start), regex, text(a, 0), |_| {
            count += 1;
            true
        });
        Ok(Datum::Int4(count))
    })
}

/// The place in bytes of a group of the n-th match, of which 0 is all of it.
fn nth_match(a: &[Datum<'_>], n: i64, flags: &str, group: i64) -> Result<Option<std::ops::Range<usize>>, SqlError> {
    let start = start(a, 2)?;
    with_regex(text(a, 1), flags, |regex| {
        // Without any group the whole match is the first.
        let group = if regex.captures_len() == 1 && group == 1 { 0 } else { group };
        let (mut found, mut seen) = (None, 0);
        each_match_from(offset(text(a, 0), start), regex, text(a, 0), |captures| {
            seen += 1;
            if seen == n {
                let group = usize::try_from(group).ok().and_then(|group| captures.get(group));
                found = group.map(|group| group.range());
            }
            seen < n
        });
        Ok(found)
    })
}

/// `regexp_instr(value, pattern, start, n, end, flags, group)`.
fn position(a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    start(a, 2)?;
    let n = at_least(a, 3, "n", 1)?;
    let end = match a.len() {
        ..5 => 0,
        _ => at_least(a, 4, "endoption", 0)?,
    };
    if end > 1 {
        let message = format!("invalid value for parameter \"endoption\": {end}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let flags = optional(a, 5);
    let group = if a.len() > 6 { at_least(a, 6, "subexpr", 0)? } else { 0 };
    not_global("regexp_instr", flags)?;
    let place = nth_match(a, n, flags, group)?.map(|range| if end == 1 { range.end } else { range.start });
    Ok(Datum::Int4(place.map_or(0, |at| text(a, 0)[..at].chars().count() as i32 + 1)))
}

/// `regexp_substr(value, pattern, start, n, flags, group)`.
fn substr(a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    start(a, 2)?;
    let (n, flags) = (at_least(a, 3, "n", 1)?, optional(a, 4));
    let group = if a.len() > 5 { at_least(a, 5, "subexpr", 0)? } else { 0 };
    not_global("regexp_substr", flags)?;
    Ok(nth_match(a, n, flags, group)?.map_or(Datum::Null, |range| new_text(&text(a, 0)[range])))
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

/// The groups of each match; only the first without the flag `g`.
fn all_captures(value: &str, pattern: &str, flags: &str) -> Result<Datum<'static>, SqlError> {
    with_regex(pattern, flags, |regex| {
        let mut rows = Vec::new();
        each_match(regex, value, |found| {
            let from = if found.len() > 1 { 1 } else { 0 };
            let groups =
                (from..found.len()).map(|i| found.get(i).map_or(Datum::Null, |group| new_text(group.as_str())));
            rows.push(Datum::List(groups.collect()));
            flags.contains('g')
        });
        Ok(Datum::List(rows))
    })
}

/// The text between matches. An empty match at either end, or right after another match, does not split.
fn split(value: &str, pattern: &str, flags: &str) -> Result<Datum<'static>, SqlError> {
    if flags.contains('g') {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "regexp_split_to_array() does not support the \"global\" option",
        ));
    }
    with_regex(pattern, flags, |regex| {
        let (mut parts, mut end) = (Vec::new(), 0);
        each_match(regex, value, |found| {
            if let Some(whole) = found.get(0)
                && whole.start() < value.len()
                && whole.end() > end
            {
                parts.push(new_text(&value[end..whole.start()]));
                end = whole.end();
            }
            true
        });
        parts.push(new_text(&value[end..]));
        Ok(Datum::List(parts))
    })
}

/// Replaces the n-th match from a character on, and all of them if `n` is 0. `\1` … `\9` and `\&` in the replacement stand for
/// groups and the match.
fn replace(a: &[Datum<'_>], flags: &str, start: i64, n: i64) -> Result<Datum<'static>, SqlError> {
    let (value, pattern, replacement) = (text(a, 0), text(a, 1), text(a, 2));
    with_regex(pattern, flags, |regex| {
        let mut out = String::new();
        let (mut end, mut seen) = (0, 0);
        let mut checked = Ok(());
        each_match_from(offset(value, start), regex, value, |found| {
            let Some(whole) = found.get(0) else { return false };
            seen += 1;
            if seen < n {
                return true;
            }
            out.push_str(&value[end..whole.start()]);
            let mut chars = replacement.chars();
            while let Some(c) = chars.next() {
                if c != '\\' {
                    out.push(c);
                    continue;
                }
                checked = check_length(out.len() as i64);
                if checked.is_err() {
                    return false;
                }
                match chars.next() {
                    Some('&') => out.push_str(whole.as_str()),
                    Some(d @ '1'..='9') => {
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
            checked = check_length(out.len() as i64);
            n == 0 && checked.is_ok()
        });
        checked?;
        out.push_str(&value[end..]);
        Ok(new_text(out))
    })
}

#[cfg(test)]
mod tests {
    use super::{matches, replace, split};
    use repr::Datum;
    use repr::sqlstate::SqlState;

    fn texts(items: &[&str]) -> Datum<'static> {
        Datum::List(items.iter().map(|item| super::new_text(*item)).collect())
    }

    #[test]
    fn expressions_as_postgresql_15_reads_them() {
        let is_match = |value: &str, pattern: &str| matches(value, pattern, "") == Ok(Datum::Bool(true));
        assert!(is_match("pg_class", "^(pg_class)$"));
        assert!(is_match("a b", r"\mb\M") && !is_match("ab", r"\yb"));
        assert!(is_match("[", "[[]") && is_match("]", "[]]") && is_match("a", "[[:alpha:]]"));
        assert!(is_match("ABC", "(?i)abc") && is_match("a{", "a{") && is_match("<", r"\<"));
        assert!(is_match("a\nb", "a.b") && matches("a\nb", "a.b", "n") == Ok(Datum::Bool(false)));
        let cases = [
            ("(", "parentheses () not balanced"),
            ("a)", "parentheses () not balanced"),
            ("[", "brackets [] not balanced"),
            ("*", "quantifier operand invalid"),
            ("a**", "quantifier operand invalid"),
            ("a{2,1}", "invalid repetition count(s)"),
            ("\\", r"invalid escape \ sequence"),
            (r"\q", r"invalid escape \ sequence"),
            ("[b-a]", "invalid character range"),
            ("[[:foo:]]", "invalid character class"),
        ];
        for (pattern, reason) in cases {
            let error = matches("a", pattern, "").expect_err(pattern);
            assert_eq!(error.message, format!("invalid regular expression: {reason}"), "{pattern}");
            assert_eq!(error.sqlstate, SqlState::INVALID_REGULAR_EXPRESSION);
        }
    }

    #[test]
    fn empty_matches_as_postgresql_15_finds_them() {
        let args = ["abc", "b*", "X"].map(super::new_text);
        assert_eq!(replace(&args, "g", 1, 0), Ok(super::new_text("XaXXcX")));
        assert_eq!(split("abc", "b*", ""), Ok(texts(&["a", "c"])));
        assert_eq!(split("abc", "", ""), Ok(texts(&["a", "b", "c"])));
    }
}
