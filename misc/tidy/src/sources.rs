//! The rules about files.
//!
//! 1. Every Rust file opens with a `//!` header.
//! 2. Nothing is left for later: no marker comments, no placeholder macros.
//! 3. A source file has at most 800 lines, and no file allows itself unsafe code, but for those on the list.
//! 4. No file names a folder of somebody's machine.
//! 5. The code of pure crates asks no clock and does no I/O; sockets belong to the doors.
//! 6. `adapter` and `committer` never name `compute`; tasks and threads start through `ore`; no crate re-exports another.
//!
//! Rules 5 and 6 look at the code alone: not at comments, and not at what follows `#[cfg(test)]`.

use crate::Finding;
use crate::exceptions::Exceptions;
use crate::layers::{self, PURE_CRATES};
use crate::tree::{Tree, crate_of};

/// The wall, in lines.
const LINES_MAX: usize = 800;

/// Spelled in halves, or this file would find itself.
const LEFT_FOR_LATER: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!"), concat!("unimple", "mented!")];

/// Folders that exist on somebody's machine only; spelled in halves as well.
const MACHINE_FOLDERS: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Use", "rs/")];

/// What allows unsafe code.
const ALLOW_UNSAFE: &str = concat!("allow(unsafe", "_code");

/// What the code of a pure crate does not say.
const IMPURE: [&str; 5] = ["std::fs::", "std::net::", "std::thread::", "SystemTime::now", "Instant::now"];

/// What only the doors, and the crate that joins them, say; the last also whoever asks stores elsewhere.
const SOCKETS: [&str; 3] = ["TcpListener", "UnixListener", "TcpStream"];

/// Starting something without a name or an owner.
const BARE_SPAWNS: [&str; 3] = ["tokio::spawn(", "tokio::task::spawn(", "std::thread::spawn("];

/// Runs every rule about files.
pub(crate) fn check(tree: &Tree, exceptions: &Exceptions, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files() {
        if is_source(path) {
            check_source(path, text, exceptions, findings);
        }
        if path.ends_with(".rs") {
            check_rust(path, text, exceptions, findings);
        }
        for (line, _) in lines_where(text, names_machine_folder) {
            findings.push(Finding::new(path, line, "names a folder of somebody's machine"));
        }
    }
    let lines_of = |file: &str| tree.text(file).map_or(0, |text| text.lines().count());
    let is_unsafe = |file: &str| tree.text(file).is_some_and(|text| text.contains(ALLOW_UNSAFE));
    exceptions.check_needed(LINES_MAX, lines_of, is_unsafe, findings);
}

/// What holds for every language: nothing left for later, and no file beyond the wall.
fn check_source(path: &str, text: &str, exceptions: &Exceptions, findings: &mut Vec<Finding>) {
    for marker in LEFT_FOR_LATER {
        for (line, _) in lines_where(text, |line| has_word(line, marker)) {
            findings.push(Finding::new(path, line, format!("{marker} is not merged: do it, or open an issue")));
        }
    }
    let (count, limit) = (text.lines().count(), exceptions.lines_max(path, LINES_MAX));
    if count > limit {
        findings.push(Finding::new(
            path,
            0,
            format!("{count} lines, more than {limit}: one file answers one question"),
        ));
    }
}

/// What holds for Rust.
fn check_rust(path: &str, text: &str, exceptions: &Exceptions, findings: &mut Vec<Finding>) {
    if !text.starts_with("//!") {
        findings.push(Finding::new(path, 1, "no header: open with `//!`, saying what the file is, why, and how"));
    }
    if !exceptions.may_be_unsafe(path) {
        for (line, _) in lines_where(text, |line| line.contains(ALLOW_UNSAFE)) {
            findings.push(Finding::new(
                path,
                line,
                "allows unsafe code without being listed in misc/tidy/exceptions.txt",
            ));
        }
    }
    if let Some(name) = crate_of(path)
        && path.starts_with(&format!("src/{name}/src/"))
    {
        check_code(name, path, product_code(text), findings);
    }
}

/// What holds for the code of one crate of the product.
fn check_code(name: &str, path: &str, code: &str, findings: &mut Vec<Finding>) {
    let mut forbid = |words: &[&str], message: &str| {
        for word in words {
            for (line, _) in lines_where(code, |line| !is_comment(line) && has_word(line, word)) {
                findings.push(Finding::new(path, line, format!("{message}: {word}")));
            }
        }
    };
    if PURE_CRATES.contains(&name) {
        forbid(&IMPURE, &format!("{name} has no I/O, no clock and no threads"));
    }
    let sockets = match name {
        "door" | "environmentd" => &SOCKETS[..0],
        name if layers::is_door(name) => &SOCKETS[..0],
        "persist" => &SOCKETS[..2],
        _ => &SOCKETS[..],
    };
    forbid(sockets, "only the doors open sockets");
    if name != "ore" {
        forbid(&BARE_SPAWNS, "start it by name, through ore::task or ore::thread");
    }
    if matches!(name, "adapter" | "committer") {
        // A module of that name in another crate is not the crate.
        let names_crate = |line: &str| !is_comment(line) && has_word(&line.replace("::compute::", "::"), "compute::");
        for (line, _) in lines_where(code, names_crate) {
            findings.push(Finding::new(path, line, format!("{name} never names compute")));
        }
    }
    for (line, text) in lines_where(code, |line| line.trim_start().starts_with("pub use ")) {
        let target = text.trim_start().trim_start_matches("pub use ");
        let source = target.split("::").next().unwrap_or_default();
        let source = source.replace('_', "-");
        if layers::is_ours(&source) && source != name {
            findings.push(Finding::new(path, line, format!("re-exports {source}: whoever needs it depends on it")));
        }
    }
}

/// Files with comments and a reader: code and scripts, not documents or recorded answers.
fn is_source(path: &str) -> bool {
    let script = !path.rsplit('/').next().unwrap_or(path).contains('.')
        && (path.starts_with("bin/") || path.starts_with(".ci/"));
    script || [".rs", ".py", ".go", ".sh", ".proto"].iter().any(|ending| path.ends_with(ending))
}

/// The part of a file that goes into the product: all before its unit tests, which stand last.
pub(crate) fn product_code(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text)
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Lines, counted from one, for which `holds`.
fn lines_where(text: &str, holds: impl Fn(&str) -> bool) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(move |(_, line)| holds(line)).map(|(index, line)| (index + 1, line))
}

/// Whether `word` stands in `line` and is not the end of a longer name, nor, if it ends in a letter, its beginning.
fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back().is_some_and(is_name);
        let after = line[start + word.len()..].chars().next().is_some_and(is_name);
        !(before || after && word.ends_with(is_name))
    })
}

/// Whether a path on the line starts in one of the folders: a folder of that name further down is nobody's machine.
fn names_machine_folder(line: &str) -> bool {
    MACHINE_FOLDERS.iter().any(|folder| {
        line.match_indices(folder).any(|(start, _)| {
            let before = line[..start].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}/*".contains(c))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rules say about one file.
    fn messages(path: &str, text: &str, list: &str) -> Vec<String> {
        let (exceptions, mut findings) = Exceptions::parse("list", list);
        check(&Tree::of(&[(path, text)]), &exceptions, &mut findings);
        findings.into_iter().map(|finding| format!("{}: {}", finding.line, finding.message)).collect()
    }

    /// The only finding about one file, if there is one.
    fn message(path: &str, text: &str) -> Option<String> {
        let mut found = messages(path, text, "");
        assert!(found.len() <= 1, "{found:?}");
        found.pop()
    }

    #[test]
    fn a_rust_file_has_a_header() {
        assert_eq!(message("src/ore/src/a.rs", "//! A.\n"), None);
        assert!(message("src/ore/src/a.rs", "use std::fmt;\n").is_some());
        assert!(message("test/src/a.rs", "").is_some());
        assert_eq!(message("misc/a.py", "import os\n"), None);
    }

    #[test]
    fn nothing_is_left_for_later() {
        for marker in LEFT_FOR_LATER {
            let text = format!("//! A.\n// {marker}(me) later\n");
            assert!(message("src/ore/src/a.rs", &text).is_some_and(|m| m.starts_with("2: ")), "{marker}");
            assert!(message("bin/run", &format!("# {marker} later\n")).is_some(), "{marker}");
            assert_eq!(message("doc/style.md", &format!("{marker} is not merged\n")), None);
            assert_eq!(message("src/ore/src/a.rs", &format!("//! MY_{marker}\n")), None);
        }
    }

    #[test]
    fn a_file_ends_before_the_wall() {
        let text = "//! A.\n".repeat(LINES_MAX);
        assert_eq!(message("src/ore/src/a.rs", &text), None);
        let longer = "//! A.\n".repeat(LINES_MAX + 1);
        assert!(message("src/ore/src/a.rs", &longer).is_some_and(|m| m.contains("801 lines")));
        assert_eq!(messages("a.rs", &longer, "lines a.rs 801 # why\n"), [""; 0]);
        assert_eq!(messages("a.rs", &text, "lines a.rs 801 # why\n"), ["1: a.rs has 800 lines: drop its exception"]);
    }

    #[test]
    fn unsafe_code_is_listed() {
        let text = format!("//! A.\n#[{ALLOW_UNSAFE}, reason = \"mmap\")]\n");
        assert!(message("src/ore/src/a.rs", &text).is_some());
        assert_eq!(messages("a.rs", &text, "unsafe a.rs # why\n"), [""; 0]);
        assert_eq!(messages("a.rs", "//! A.\n", "unsafe a.rs # why\n").len(), 1);
    }

    #[test]
    fn no_machine_is_named() {
        for folder in MACHINE_FOLDERS {
            for line in
                [format!("cd {folder}x"), format!("\"{folder}x\""), format!("path={folder}x"), folder.to_owned()]
            {
                assert!(message("doc/a.md", &line).is_some(), "{line}");
            }
            for line in [format!("bench{folder}x"), format!("$HOME{folder}x"), format!("${{HOME}}{folder}")] {
                assert_eq!(message("doc/a.md", &line), None, "{line}");
            }
        }
    }

    #[test]
    fn pure_crates_ask_no_clock_and_do_no_io() {
        let text = "//! A.\nlet now = std::time::SystemTime::now();\n";
        assert!(message("src/sql/src/a.rs", text).is_some());
        assert_eq!(message("src/ore/src/a.rs", text), None);
        assert_eq!(message("src/sql/src/a.rs", "//! A.\n// never Instant::now\n"), None);
        let tested = "//! A.\n\n#[cfg(test)]\nmod tests {\n    let text = std::fs::read(path);\n}\n";
        assert_eq!(message("src/sql/src/a.rs", tested), None);
        assert_eq!(message("src/sql/tests/a.rs", "//! A.\nstd::fs::read(path);\n"), None);
    }

    #[test]
    fn sockets_belong_to_the_doors() {
        let text = "//! A.\nlet socket: TcpStream = open();\n";
        assert!(message("src/adapter/src/a.rs", text).is_some());
        assert_eq!(message("src/pgwire/src/a.rs", text), None);
    }

    #[test]
    fn adapter_never_names_compute() {
        assert!(message("src/adapter/src/a.rs", "//! A.\nuse compute::worker::Worker;\n").is_some());
        assert_eq!(message("src/adapter/src/a.rs", "//! A.\nuse compute_client::peek::Peek;\nx.compute();\n"), None);
        assert_eq!(message("src/adapter/src/a.rs", "//! Published by `compute::publish`.\n"), None);
        assert_eq!(message("src/adapter/src/a.rs", "//! A.\narrow::compute::cast(a, b);\n"), None);
        assert_eq!(message("src/environmentd/src/a.rs", "//! A.\nuse compute::worker::Worker;\n"), None);
    }

    #[test]
    fn tasks_and_threads_have_names() {
        for call in BARE_SPAWNS {
            let text = format!("//! A.\n{call}work);\n");
            assert!(message("src/pgwire/src/a.rs", &text).is_some(), "{call}");
            assert_eq!(message("test/src/a.rs", &text), None, "{call}");
        }
        assert_eq!(message("src/pgwire/src/a.rs", "//! A.\nore::thread::spawn(\"io\", work);\n"), None);
    }

    #[test]
    fn no_crate_re_exports_another() {
        assert!(message("src/adapter/src/a.rs", "//! A.\npub use repr::Row;\n").is_some());
        assert_eq!(message("src/adapter/src/a.rs", "//! A.\npub use client::Client;\nuse repr::Row;\n"), None);
        // A module of one's own that shares its name with no other crate is fine, and so is one's own name.
        assert_eq!(message("src/repr/src/a.rs", "//! A.\npub use repr::Row;\n"), None);
    }
}
