//! The list of files let off, which may only shrink.
//!
//! Each line of the list is `lines PATH CEILING # why`, `unsafe PATH # why` or `arguments src/CRATE FUNCTIONS # why`. A ratchet:
//! when a file gets shorter its ceiling has to follow, and an entry that nothing needs any more has to go.

use crate::Finding;
use std::collections::BTreeMap;

/// How far below its ceiling a file may be before the ceiling has to follow, in lines. Loose enough that a change
/// need not touch the list each time.
const SLACK_LINES: usize = 50;

/// Who is let off what.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    path: String,
    /// Line of the list, and the ceiling in lines, by file.
    long: BTreeMap<String, (usize, usize)>,
    /// Line of the list, and how many functions may take a `bool` or a tuple, by a crate's folder.
    arguments: BTreeMap<String, (usize, usize)>,
    /// Line of the list, by file.
    with_unsafe: BTreeMap<String, usize>,
}

impl Exceptions {
    /// Reads the list; what cannot be read or gives no reason is a finding.
    pub(crate) fn parse(path: &str, text: &str) -> (Exceptions, Vec<Finding>) {
        let mut exceptions = Exceptions { path: path.to_owned(), ..Exceptions::default() };
        let mut findings = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (entry, reason) = line.split_once('#').unwrap_or((line, ""));
            let words: Vec<&str> = entry.split_whitespace().collect();
            let known = match words.as_slice() {
                [] => continue,
                ["unsafe", file] => exceptions.with_unsafe.insert((*file).to_owned(), index + 1).is_none(),
                ["lines", file, ceiling] => ceiling
                    .parse()
                    .is_ok_and(|ceiling| exceptions.long.insert((*file).to_owned(), (index + 1, ceiling)).is_none()),
                ["arguments", folder, ceiling] => ceiling.parse().is_ok_and(|ceiling| {
                    exceptions.arguments.insert((*folder).to_owned(), (index + 1, ceiling)).is_none()
                }),
                _ => false,
            };
            if !known {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    "not `lines PATH CEILING # why`, `unsafe PATH # why` or `arguments src/CRATE FUNCTIONS # why`, or twice",
                ));
            } else if reason.trim().is_empty() {
                findings.push(Finding::new(path, index + 1, "an exception says why, after a `#`"));
            }
        }
        (exceptions, findings)
    }

    /// The most lines that `file` may have, `limit` being everybody's.
    pub(crate) fn lines_max(&self, file: &str, limit: usize) -> usize {
        self.long.get(file).map_or(limit, |(_, ceiling)| *ceiling)
    }

    /// Whether `file` may allow itself unsafe code.
    pub(crate) fn may_be_unsafe(&self, file: &str) -> bool {
        self.with_unsafe.contains_key(file)
    }

    /// How many functions of the crate in `folder` may take a `bool` or a tuple.
    pub(crate) fn arguments_max(&self, folder: &str) -> usize {
        self.arguments.get(folder).map_or(0, |(_, ceiling)| *ceiling)
    }

    /// Entries for what is gone. `count` says how many such functions a crate's folder has now.
    pub(crate) fn check_arguments(&self, count: impl Fn(&str) -> usize, findings: &mut Vec<Finding>) {
        let noun = "functions that take a bool or a tuple";
        for (folder, (line, ceiling)) in &self.arguments {
            let message = match count(folder) {
                0 => format!("{folder} has no {noun}: drop its exception"),
                count if count < *ceiling => format!("{folder} has {count} {noun}: lower its ceiling"),
                _ => continue,
            };
            findings.push(Finding::new(&self.path, *line, message));
        }
    }

    /// Entries that nothing needs any more. `lines_of` and `is_unsafe` say how files are now.
    pub(crate) fn check_needed(
        &self,
        limit: usize,
        lines_of: impl Fn(&str) -> usize,
        is_unsafe: impl Fn(&str) -> bool,
        findings: &mut Vec<Finding>,
    ) {
        for (file, (line, ceiling)) in &self.long {
            let count = lines_of(file);
            if count <= limit {
                findings.push(Finding::new(&self.path, *line, format!("{file} has {count} lines: drop its exception")));
            } else if count + SLACK_LINES < *ceiling {
                findings.push(Finding::new(&self.path, *line, format!("{file} has {count} lines: lower its ceiling")));
            }
        }
        for (file, line) in &self.with_unsafe {
            if !is_unsafe(file) {
                findings.push(Finding::new(
                    &self.path,
                    *line,
                    format!("{file} allows no unsafe code: drop its exception"),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_lets_off_what_it_names() {
        let (list, findings) = Exceptions::parse("list", "# head\n\nlines a.rs 900 # why\nunsafe b.rs # why\n");
        assert_eq!(findings, []);
        assert_eq!((list.lines_max("a.rs", 800), list.lines_max("b.rs", 800)), (900, 800));
        assert_eq!((list.may_be_unsafe("a.rs"), list.may_be_unsafe("b.rs")), (false, true));
    }

    #[test]
    fn a_bad_line_is_found() {
        let text = "lines a.rs 900\nlines a.rs many # why\nwaste c.rs # why\nunsafe b.rs # why\nunsafe b.rs # why\n";
        let (_, findings) = Exceptions::parse("list", text);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2, 3, 5]);
    }

    #[test]
    fn the_list_only_shrinks() {
        let text = "lines fits.rs 900 # w\nlines shrunk.rs 2000 # w\nlines full.rs 900 # w\nunsafe safe.rs # w\n";
        let (list, _) = Exceptions::parse("list", text);
        let mut findings = Vec::new();
        let lines_of = |file: &str| if file == "fits.rs" { 10 } else { 890 };
        list.check_needed(800, lines_of, |_| false, &mut findings);
        let mut lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        lines.sort_unstable();
        assert_eq!(lines, [1, 2, 4], "{findings:?}");
    }
}
