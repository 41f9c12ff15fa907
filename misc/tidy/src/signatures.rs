//! The rule about functions that other files call: they take no `bool` and no tuple.
//!
//! At a call `f(plan, true, (a, b))` says nothing of what is true and what a and b are: an enum or a struct has names for both.
//! Functions that are there are let off by `arguments src/CRATE FUNCTIONS # why`, at most so many of a crate.

use crate::Finding;
use crate::exceptions::Exceptions;
use crate::sources::product_code;
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Runs the rule over every crate of the product.
pub(crate) fn check(tree: &Tree, exceptions: &Exceptions, findings: &mut Vec<Finding>) {
    let mut counts = BTreeMap::new();
    for (name, ..) in tree.crates() {
        let folder = format!("src/{name}");
        let files =
            tree.files().filter(|(path, _)| path.starts_with(&format!("{folder}/src/")) && path.ends_with(".rs"));
        let named: Vec<String> = files
            .flat_map(|(path, text)| {
                nameless(product_code(text)).into_iter().map(move |name| format!("{path}: {name}"))
            })
            .collect();
        if named.len() > exceptions.arguments_max(&folder) {
            let count = named.len();
            let message = format!("{count} functions take a bool or a tuple from others: {}", named.join(", "));
            findings.push(Finding::new(&folder, 0, message));
        }
        counts.insert(folder, named.len());
    }
    exceptions.check_arguments(|folder| counts.get(folder).copied().unwrap_or(0), findings);
}

/// The functions with any `pub` that take a `bool` or a tuple, by name.
fn nameless(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        if !line.starts_with("pub") {
            continue;
        }
        let rest = &code[at + "fn ".len()..];
        let Some(end) = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')) else { continue };
        if parameters(&rest[end..]).is_some_and(|parameters| parameters.iter().any(|parameter| has_no_name(parameter)))
        {
            found.push(&rest[..end]);
        }
    }
    found
}

/// Whether values of a parameter's type say nothing at a call.
fn has_no_name(parameter: &str) -> bool {
    let Some((_, ty)) = parameter.rsplit_once(": ") else { return false };
    let ty = ty.trim();
    ty == "bool" || (ty.starts_with('(') && ty != "()")
}

/// The parameters of a function of which `rest` is what follows its name.
fn parameters(rest: &str) -> Option<Vec<&str>> {
    let (mut depth, mut angles, mut start, mut before) = (0, 0, None, ' ');
    let mut found = Vec::new();
    for (at, c) in rest.char_indices() {
        match c {
            '<' => angles += 1,
            '>' if before != '-' && before != '=' => angles -= 1,
            '(' | '[' => {
                depth += 1;
                if depth == 1 && angles == 0 && start.is_none() {
                    start = Some(at + 1);
                }
            }
            ')' | ']' => {
                depth -= 1;
                if let (0, 0, Some(from)) = (depth, angles, start) {
                    found.push(rest[from..at].trim());
                    return Some(found);
                }
            }
            ',' if depth == 1 && angles == 0 => {
                found.push(rest[start?..at].trim());
                start = Some(at + 1);
            }
            '{' | ';' if depth == 0 => return None,
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{nameless, parameters};

    #[test]
    fn parameters_are_told_apart() {
        let rest = "<F: Fn(u8) -> (u8, bool)>(&self, a: Vec<(u8, u8)>, b: [u8; 2],\n    c: F,\n) -> bool {";
        assert_eq!(parameters(rest), Some(vec!["&self", "a: Vec<(u8, u8)>", "b: [u8; 2]", "c: F", ""]));
        assert_eq!(parameters("() {"), Some(vec![""]));
    }

    #[test]
    fn what_has_no_name_at_a_call_is_found() {
        let code = "pub fn a(x: bool) {}\npub(crate) async fn b(\n    &self,\n    (x, y): (u8, u8),\n) {}\nfn c(x: bool) {}\n\
                    pub fn d(x: Option<bool>, f: impl Fn(bool) -> (u8, u8)) -> bool {}\npub const fn e(x: ()) {}\n";
        assert_eq!(nameless(code), ["a", "b"]);
    }
}
