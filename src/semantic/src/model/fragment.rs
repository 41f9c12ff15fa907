//! Pieces of SQL in a model, with references in braces: `{CUBE}.amount`, `{status} = 'paid'`, `{users.city}`.
//!
//! 1. What is in braces becomes an identifier that stands for the reference: [`marker`]. Braces in SQL's own quotes and comments are
//!    text, and so are those behind a backslash, which goes.
//! 2. The result is parsed once, as SQL. From there on a piece is a syntax tree, and nothing makes a text of it again.
//!
//! `FILTER_PARAMS` and `FILTER_GROUP`, by which a model of Cube's pushes filters into itself, are `true`: the planner pushes filters
//! wherever they are right.

use crate::report::{Place, Report};
use crate::text::fields::{Fields, Text};
use sql_syntax::parser;
use sqlparser::ast as sp;

/// An expression, or a query, and what it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment<T> {
    pub place: Place,
    /// As it was written.
    pub text: String,
    /// Where the n-th reference stands there is the identifier [`marker`]`(n)`.
    pub tree: Box<T>,
    pub references: Vec<Path>,
}

/// Names with points between them, as they stand in braces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<String>);

/// What begins the identifiers that stand for references: a character for private use, which no SQL has.
const MARK: char = '\u{e000}';

/// The identifier that stands for a reference.
pub fn marker(index: usize) -> String {
    format!("{MARK}{index}")
}

/// Which reference an identifier stands for.
pub fn marked(name: &str) -> Option<usize> {
    name.strip_prefix(MARK)?.parse().ok()
}

/// Whether a name is that by which a cube calls itself.
pub fn is_itself(name: &str) -> bool {
    ["CUBE", "TABLE"].contains(&name)
}

impl Fragment<sp::Expr> {
    /// An expression; None, and a problem, if it is none.
    pub fn expression(text: &Text, report: &mut Report) -> Option<Fragment<sp::Expr>> {
        parsed(text, |sql| parser::parse_expr(sql).map(Box::new), report)
    }
}

impl Fragment<sp::Query> {
    /// A query; None, and a problem, if it is none. A semicolon at its end is no part of it.
    pub fn query(text: &Text, report: &mut Report) -> Option<Fragment<sp::Query>> {
        let trimmed = text.text.trim_end().trim_end_matches(';').to_owned();
        parsed(&Text { place: text.place.clone(), text: trimmed }, parser::parse_query, report)
    }
}

impl Path {
    /// Names with points between them; None if it is something else.
    pub fn new(text: &str) -> Option<Path> {
        let names: Vec<String> = text.split('.').map(|name| name.trim().to_owned()).collect();
        names.iter().all(|name| is_name(name)).then_some(Path(names))
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// A list of references to members, with braces or without.
pub fn read_paths(fields: &mut Fields<'_>, key: &'static str, report: &mut Report) -> Vec<(Place, Path)> {
    let texts = fields.texts(key, report).unwrap_or_default();
    texts.into_iter().filter_map(|text| read_path(&text, report)).collect()
}

/// A reference to a member, with braces or without.
pub fn read_path(text: &Text, report: &mut Report) -> Option<(Place, Path)> {
    let trimmed = text.text.trim();
    let inside = trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(trimmed);
    let path = Path::new(inside);
    if path.is_none() {
        report.problem(&text.place, format!("`{}` is no reference to a member", text.text));
    }
    path.map(|path| (text.place.clone(), path))
}

/// Whether cubes and members may have this name.
pub fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.starts_with(is_letter) && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

fn parsed<T>(
    text: &Text,
    parse: impl FnOnce(&str) -> Result<Box<T>, engine::error::SqlError>,
    report: &mut Report,
) -> Option<Fragment<T>> {
    let (sql, references) = cut(text, report)?;
    match parse(&sql) {
        Ok(tree) => Some(Fragment { place: text.place.clone(), text: text.text.clone(), tree, references }),
        Err(error) => {
            report.problem(&text.place, error.to_string());
            None
        }
    }
}

/// The SQL of a text, with identifiers for its references.
fn cut(text: &Text, report: &mut Report) -> Option<(String, Vec<Path>)> {
    let (mut sql, mut references) = (String::with_capacity(text.text.len()), Vec::new());
    let mut rest = text.text.as_str();
    if rest.contains(MARK) {
        report.problem(&text.place, "U+E000 is not a character of SQL here");
        return None;
    }
    while let Some(letter) = rest.chars().next() {
        if let Some(quoted) = quoted(rest, sql.chars().next_back()) {
            sql += &quoted.replace("\\{", "{").replace("\\}", "}");
            rest = &rest[quoted.len()..];
        } else if let Some(brace) = ["\\{", "\\}"].iter().find(|brace| rest.starts_with(**brace)) {
            sql += &brace[1..];
            rest = &rest[brace.len()..];
        } else if letter == '{' {
            let end = closing(rest).or_else(|| {
                report.problem(&text.place, "a brace is opened and not closed");
                None
            })?;
            let inside = rest[1..end].trim();
            sql += &replaced(inside, text, &mut references, report)?;
            rest = &rest[end + 1..];
        } else {
            sql.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    Some((sql, references))
}

/// What stands in the SQL for what is in braces.
fn replaced(inside: &str, text: &Text, references: &mut Vec<Path>, report: &mut Report) -> Option<String> {
    let first = inside.split(['.', '(']).next().unwrap_or_default().trim();
    let (message, hint) = match first {
        "FILTER_PARAMS" | "FILTER_GROUP" => return Some("true".to_owned()),
        "SECURITY_CONTEXT" | "security_context" | "securityContext" => {
            (format!("`{{{inside}}}` is not supported in SQL"), "write an `access_policy` with `row_level`")
        }
        "SQL_UTILS" => (format!("`{{{inside}}}` is not supported"), "write `column AT TIME ZONE 'zone'`"),
        _ => match Path::new(inside) {
            Some(path) => {
                let index = references.iter().position(|known| *known == path).unwrap_or_else(|| {
                    references.push(path);
                    references.len() - 1
                });
                return Some(format!("\"{}\"", marker(index)));
            }
            None => (
                format!("`{{{inside}}}` is no reference"),
                "write {CUBE}, {member}, {cube.member}; braces that are text stand in quotes",
            ),
        },
    };
    report.problem_with_hint(&text.place, message, hint);
    None
}

/// What SQL quotes at the beginning of a text: a literal, an identifier, a comment, up to its end or the end of the text. `before` is the
/// character before it.
fn quoted(text: &str, before: Option<char>) -> Option<&str> {
    if text.starts_with("/*") {
        return Some(&text[..comment(text)]);
    }
    if text.starts_with('\'') && matches!(before, Some('e' | 'E')) {
        return Some(&text[..escaped(text)]);
    }
    let ends_at = |open: &str, close: &str| {
        let inside = text.strip_prefix(open)?;
        Some(&text[..inside.find(close).map_or(text.len(), |end| open.len() + end + close.len())])
    };
    // A quote that is doubled ends one literal and begins the next.
    let simple = ends_at("'", "'").or_else(|| ends_at("\"", "\"")).or_else(|| ends_at("--", "\n"));
    simple.or_else(|| {
        let tag = &text[1..text.strip_prefix('$')?.find('$')? + 1];
        (tag.is_empty() || is_name(tag)).then(|| ends_at(&format!("${tag}$"), &format!("${tag}$")))?
    })
}

/// How long the comment at the beginning of a text is; there may be comments in it.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(next) = text[at..].find(['/', '*']) {
        at += next;
        match text.get(at..at + 2) {
            Some("/*") => (depth, at) = (depth + 1, at + 2),
            Some("*/") if depth == 1 => return at + 2,
            Some("*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

/// How long the literal with backslashes at the beginning of a text is.
fn escaped(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return at + 1,
            '\\' => {
                letters.next();
            }
            _ => {}
        }
    }
    text.len()
}

/// Where the brace at the beginning of a text is closed.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(letter),
            (None, '{') => depth += 1,
            (None, '}') if depth == 1 => return Some(index),
            (None, '}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn cut_of(text: &str) -> Result<(String, Vec<String>), String> {
        let mut report = Report::default();
        let text = Text { place: Place::file(&Arc::from("a.yml")), text: text.to_owned() };
        match cut(&text, &mut report) {
            Some((sql, references)) => Ok((sql, references.iter().map(ToString::to_string).collect())),
            None => Err(report.problems.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn references_become_identifiers() {
        let cases = [
            ("{CUBE}.amount", r#""@0".amount"#, vec!["CUBE"]),
            ("{a} + { b.c } * {a}", r#""@0" + "@1" * "@0""#, vec!["a", "b.c"]),
            (
                "x = '{a}' AND \"{b}\" = $${c}$$ -- {d}\n/* {e} */",
                "x = '{a}' AND \"{b}\" = $${c}$$ -- {d}\n/* {e} */",
                vec![],
            ),
            ("'it''s {a}' || {b}", r#"'it''s {a}' || "@0""#, vec!["b"]),
            (r"E'\'{a}' || {b}", r#"E'\'{a}' || "@0""#, vec!["b"]),
            ("/* /* */ {a} */ {b}", r#"/* /* */ {a} */ "@0""#, vec!["b"]),
            (r"'\{1,2\}'::int[] || \{", "'{1,2}'::int[] || {", vec![]),
            ("{FILTER_PARAMS.orders.at.filter('created_at')} AND a", "true AND a", vec![]),
            ("{FILTER_GROUP(FILTER_PARAMS.o.a.filter((x) => `${x} } `))}", "true", vec![]),
            ("$1 + {a}", r#"$1 + "@0""#, vec!["a"]),
            ("\"{0}\" + {ä", "", vec![]),
        ];
        for (text, sql, references) in cases {
            let references = references.into_iter().map(str::to_owned).collect();
            match cut_of(text) {
                Ok(cut) => assert_eq!(cut, (sql.replace('@', "\u{e000}"), references), "{text}"),
                Err(_) => assert_eq!(sql, "", "{text}"),
            }
        }
    }

    #[test]
    fn what_is_no_reference_is_a_problem() {
        assert_eq!(cut_of("{a"), Err("a.yml: a brace is opened and not closed".to_owned()));
        assert!(cut_of("{1 + 2}").is_err_and(|error| error.contains("`{1 + 2}` is no reference")));
        assert!(cut_of("{SECURITY_CONTEXT.tenant.filter('t')}").is_err_and(|error| error.contains("access_policy")));
        assert!(cut_of("{orders.sql()}").is_err_and(|error| error.contains("no reference")));
    }

    #[test]
    fn what_is_no_sql_is_a_problem() {
        let mut report = Report::default();
        let text = Text { place: Place::file(&Arc::from("a.yml")), text: "{CUBE}.a +".to_owned() };
        assert_eq!(Fragment::expression(&text, &mut report), None);
        assert_eq!(report.problems[0].to_string(), "a.yml: syntax error at end of input");
    }
}
