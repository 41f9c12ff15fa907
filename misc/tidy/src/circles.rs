//! The rule about files of one crate: they form no circles.
//!
//! A file uses another if it names it by `crate::`, `super::` or `self::`, in a `use` or where it is needed. Files that use each
//! other, over however many others, can only be read, tested and moved together. Parent and child do not count: a
//! module's file may hand on what is below it, and what is below may use what is declared above.

use crate::Finding;
use crate::sources::product_code;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Modules by path within their crate (`a::b`; the root is empty), each with those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Runs the rule over every crate of the product.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (name, ..) in tree.crates() {
        let folder = format!("src/{name}");
        for circle in circles(&uses(tree, &format!("{folder}/src/"))) {
            findings.push(Finding::new(&folder, 0, format!("files in a circle: {}", circle.join(", "))));
        }
    }
}

/// Who uses whom among the files of a folder, parents and children left out.
fn uses(tree: &Tree, folder: &str) -> Uses {
    let files = tree.files().filter_map(|(path, text)| Some((module_of(path.strip_prefix(folder)?)?, text)));
    let files: BTreeMap<String, &str> = files.collect();
    let is_above = |above: &str, below: &str| above.is_empty() || below.starts_with(&format!("{above}::"));
    let uses_of = |(module, text): (&String, &&str)| {
        let named = paths(product_code(text)).into_iter().filter_map(|path| absolute(module, &path));
        let used = named.filter_map(|path| declared_in(&path, &files));
        let used = used.filter(|used| used != module && !is_above(used, module) && !is_above(module, used));
        (module.clone(), used.collect())
    };
    files.iter().map(uses_of).collect()
}

/// The module that a file is: `a/b.rs` is `a::b`.
fn module_of(path: &str) -> Option<String> {
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    Some(if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") })
}

/// A path from the crate's root.
fn absolute(module: &str, path: &str) -> Option<String> {
    let mut segments: Vec<&str> = module.split("::").filter(|segment| !segment.is_empty()).collect();
    for segment in path.split("::") {
        match segment {
            "crate" => segments.clear(),
            "self" | "" | "*" => {}
            "super" => drop(segments.pop()?),
            segment => segments.push(segment),
        }
    }
    Some(segments.join("::"))
}

/// The file that declares what a path names: the longest beginning of the path that is a file.
fn declared_in(path: &str, files: &BTreeMap<String, &str>) -> Option<String> {
    let mut module = path;
    while !files.contains_key(module) {
        module = module.rsplit_once("::").map_or("", |(parent, _)| parent);
        if module.is_empty() {
            break;
        }
    }
    files.contains_key(module).then(|| module.to_owned())
}

/// Paths that begin with `crate`, `super` or `self`; groups in braces are taken apart.
fn paths(code: &str) -> Vec<String> {
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // The middle of a longer path, or of a longer word.
            if !before.is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c)) {
                take_apart("", &code[at..], &mut found);
            }
        }
    }
    found
}

/// Adds the path that `rest` begins with, or those of a group, after `prefix`; gives what comes after.
fn take_apart<'a>(prefix: &str, rest: &'a str, found: &mut Vec<String>) -> &'a str {
    let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:*".contains(c))).unwrap_or(rest.len());
    let (path, mut rest) = rest.split_at(end);
    let path = format!("{prefix}{path}");
    if !(path.ends_with("::") && rest.starts_with('{')) {
        found.push(path);
        return rest;
    }
    while rest.starts_with(['{', ',']) {
        rest = rest[1..].trim_start();
        if !rest.starts_with('}') {
            rest = take_apart(&path, rest, found).trim_start();
        }
        // A name of its own, up to the next of the group.
        rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
    }
    rest.get(1..).unwrap_or_default()
}

/// The circles: sets of at least two modules, each of which reaches all others of its set.
fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|module| (module, reach(module, uses))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, reaches) in &reached {
        if reaches.contains(module) {
            let around = reaches.iter().filter(|other| reached[*other].contains(module));
            circles.insert(around.map(|other| (*other).clone()).collect());
        }
    }
    circles.into_iter().collect()
}

/// All that a module uses, directly or through others.
fn reach<'u>(module: &String, uses: &'u Uses) -> BTreeSet<&'u String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = uses[module].iter().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(&uses[next]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rule says about the files of a crate.
    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        let files: Vec<(String, &str)> = files.iter().map(|(path, text)| (format!("src/ore/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        check(&Tree::of(&files), &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    const MANIFEST: (&str, &str) = ("Cargo.toml", "");

    #[test]
    fn circles_are_found_however_they_are_spelled() {
        for (a, b) in [
            ("use crate::b::B;\n", "use crate::a::A;\n"),
            ("use super::b::B;\n", "fn f() -> crate::a::A {}\n"),
            ("use crate::{c::C, b::{self, B}};\n", "use crate::a;\n"),
            ("pub(crate) use crate::{\n    c::C as D,\n    b::*,\n};\n", "let a = super::a::make();\n"),
        ] {
            let files = [MANIFEST, ("src/lib.rs", ""), ("src/a.rs", a), ("src/b.rs", b), ("src/c.rs", "")];
            assert_eq!(messages(&files), ["files in a circle: a, b"], "{a}{b}");
        }
        let three = [
            MANIFEST,
            ("src/a.rs", "use crate::b::c::C;\n"),
            ("src/b/c.rs", "use super::super::d::D;\n"),
            ("src/d.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(messages(&three), ["files in a circle: a, b::c, d"]);
    }

    #[test]
    fn parents_comments_tests_and_other_crates_are_no_circle() {
        for (a, b) in [
            ("use crate::b::B;\n", "use repr::a::A;\n"),
            ("use crate::b::B;\n", "// crate::a::A\n"),
            ("use crate::b::B;\n", "\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
            ("use crate::b::B;\n", "let a = my_crate::a::A;\nlet b = $crate::a::A;\n"),
        ] {
            let files = [MANIFEST, ("src/a.rs", a), ("src/b.rs", b)];
            assert_eq!(messages(&files), [""; 0], "{a}{b}");
        }
        let parent = [MANIFEST, ("src/a.rs", "use self::b::B;\n"), ("src/a/b.rs", "use super::A;\nuse crate::a::C;\n")];
        assert_eq!(messages(&parent), [""; 0]);
    }
}
