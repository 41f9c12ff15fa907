//! The keys of a mapping, asked for one after the other.
//!
//! What a reader asks for is what there is: keys that nobody asked for are mistakes, and are told with the one that was probably
//! meant. A value of another kind than asked for is a problem, and as good as absent. `primaryKey` is `primary_key`, as in Cube.

use crate::report::{Place, Report};
use crate::text::yaml::{Key, Node, Value};

/// A mapping that is being read.
pub struct Fields<'a> {
    /// What it describes, for messages: "cube `orders`".
    what: String,
    place: Place,
    entries: Vec<Entry<'a>>,
    known: Vec<&'static str>,
}

struct Entry<'a> {
    key: &'a Key,
    /// The key with underscores.
    name: String,
    value: &'a Node,
    asked: Asked,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Yes,
    No,
}

/// A text, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    pub place: Place,
    pub text: String,
}

impl<'a> Fields<'a> {
    /// The keys of a node that should be a mapping; a problem if it is none.
    pub fn new(node: &'a Node, what: impl Into<String>, report: &mut Report) -> Option<Fields<'a>> {
        let what = what.into();
        let Value::Map(entries) = &node.value else {
            report.problem(&node.place, format!("{what} is a mapping, and here is {}", node.kind()));
            return None;
        };
        // A key without a value is as if it were not there.
        let entries = entries.iter().filter(|(_, value)| !matches!(value.value, Value::Null));
        let entries =
            entries.map(|(key, value)| Entry { key, name: snake(&key.name), value, asked: Asked::No }).collect();
        Some(Fields { what, place: node.place.clone(), entries, known: Vec::new() })
    }

    /// As [`Fields::new`], but a key without a value is a problem: what restricts must not be lost.
    pub fn complete(node: &'a Node, what: impl Into<String>, report: &mut Report) -> Option<Fields<'a>> {
        let fields = Fields::new(node, what, report)?;
        if let Value::Map(entries) = &node.value {
            for (key, value) in entries {
                if matches!(value.value, Value::Null) {
                    report.problem(&key.place, format!("`{}` of {} has no value", key.name, fields.what));
                }
            }
        }
        Some(fields)
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What the mapping describes, once that is known better than before.
    pub fn rename(&mut self, what: impl Into<String>) {
        self.what = what.into();
    }

    /// The value of a key, whatever it is.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Node> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let entry = self.entries.iter_mut().find(|entry| entry.name == key)?;
        entry.asked = Asked::Yes;
        Some(entry.value)
    }

    /// A text. A number is none: `"1"` and `1` differ.
    pub fn text(&mut self, key: &'static str, report: &mut Report) -> Option<Text> {
        let node = self.value(key)?;
        match &node.value {
            Value::Text(text) => Some(Text { place: node.place.clone(), text: text.clone() }),
            _ => self.mismatch(key, "a text", node, report),
        }
    }

    /// A text that has to be there.
    pub fn required(&mut self, key: &'static str, report: &mut Report) -> Option<Text> {
        if self.entries.iter().all(|entry| entry.name != key) {
            self.known.push(key);
            report.problem(&self.place, format!("{} has no `{key}`", self.what));
            return None;
        }
        self.text(key, report)
    }

    pub fn flag(&mut self, key: &'static str, report: &mut Report) -> Option<bool> {
        let node = self.value(key)?;
        match &node.value {
            Value::Bool(flag) => Some(*flag),
            _ => self.mismatch(key, "true or false", node, report),
        }
    }

    /// One of some words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)], report: &mut Report) -> Option<T> {
        let word = self.text(key, report)?;
        self.meant(key, &word, words, report)
    }

    /// One of some words, which has to be there.
    pub fn required_word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)], report: &mut Report) -> Option<T> {
        let word = self.required(key, report)?;
        self.meant(key, &word, words, report)
    }

    /// The items of a list; none if the key is not there.
    pub fn list(&mut self, key: &'static str, report: &mut Report) -> &'a [Node] {
        match self.value(key).map(|node| (node, &node.value)) {
            None => &[],
            Some((_, Value::List(items))) => items,
            Some((node, _)) => self.mismatch(key, "a list", node, report).unwrap_or_default(),
        }
    }

    /// A list of texts; one text is a list of one.
    pub fn texts(&mut self, key: &'static str, report: &mut Report) -> Option<Vec<Text>> {
        let node = self.value(key)?;
        let text = |node: &Node| match &node.value {
            Value::Text(text) => Some(Text { place: node.place.clone(), text: text.clone() }),
            _ => None,
        };
        let texts = match &node.value {
            Value::List(items) => items.iter().map(text).collect(),
            _ => text(node).map(|text| vec![text]),
        };
        texts.or_else(|| self.mismatch(key, "a list of texts", node, report))
    }

    /// Keys that have no effect, and why that is right.
    pub fn without_effect(&mut self, keys: &[&'static str], why: &str, report: &mut Report) {
        for key in keys {
            if let Some(node) = self.value(key) {
                report.notice(&node.place, format!("`{key}` has no effect: {why}"));
            }
        }
    }

    /// Keys of Cube's that would change answers and are not supported, unless they say no.
    pub fn unsupported(&mut self, keys: &[&'static str], instead: &str, report: &mut Report) {
        for key in keys {
            let node = self.value(key).filter(|node| !matches!(node.value, Value::Bool(false)));
            if let Some(node) = node {
                report.problem_with_hint(&node.place, format!("`{key}` is not supported"), instead);
            }
        }
    }

    /// Says which keys nobody asked for. To be called when all that there is has been asked for.
    pub fn end(self, report: &mut Report) {
        for entry in self.entries.iter().filter(|entry| entry.asked == Asked::No) {
            let (what, key) = (format!("key of {}", self.what), entry.key);
            report.unknown(&key.place, &what, &key.name, self.known.iter().copied());
        }
    }

    fn meant<T: Copy>(&self, key: &str, word: &Text, words: &[(&str, T)], report: &mut Report) -> Option<T> {
        let meant = words.iter().find(|(known, _)| *known == word.text);
        if meant.is_none() {
            let what = format!("`{key}` of {}", self.what);
            report.unknown(&word.place, &what, &word.text, words.iter().map(|(known, _)| *known));
        }
        meant.map(|(_, meant)| *meant)
    }

    fn mismatch<T>(&self, key: &str, wanted: &str, node: &Node, report: &mut Report) -> Option<T> {
        report.problem(&node.place, format!("`{key}` of {} is {wanted}, and here is {}", self.what, node.kind()));
        None
    }
}

/// A key with underscores before what were capitals.
pub fn snake(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::yaml::read;
    use std::sync::Arc;

    fn problems(text: &str, ask: impl FnOnce(&mut Fields<'_>, &mut Report)) -> Vec<String> {
        let mut report = Report::default();
        let node = read(&Arc::from("a.yml"), text, &mut report).expect("it is YAML");
        let mut fields = Fields::new(&node, "a thing", &mut report).expect("it is a mapping");
        ask(&mut fields, &mut report);
        fields.end(&mut report);
        report.problems.iter().chain(&report.notices).map(ToString::to_string).collect()
    }

    #[test]
    fn what_nobody_asked_for_is_a_mistake() {
        let found = problems("name: a\ntite: b\n", |fields, report| {
            assert_eq!(fields.required("name", report).map(|text| text.text).as_deref(), Some("a"));
            assert_eq!(fields.text("title", report), None);
        });
        assert_eq!(found, ["a.yml:2:1: unknown key of a thing `tite` (did you mean `title`?)"]);
    }

    #[test]
    fn a_value_has_to_be_what_was_asked_for() {
        let found = problems("a: 1\nb: yes\nc: {}\nd: [x, 1]\ne: tru\n", |fields, report| {
            assert_eq!(fields.text("a", report), None);
            assert_eq!(fields.flag("b", report), None);
            assert!(fields.list("c", report).is_empty());
            assert_eq!(fields.texts("d", report), None);
            assert_eq!(fields.word("e", &[("true", 1), ("false", 0)], report), None);
            assert_eq!(fields.required("f", report), None);
        });
        let expected = [
            "a.yml:1:4: `a` of a thing is a text, and here is a number",
            "a.yml:2:4: `b` of a thing is true or false, and here is a text",
            "a.yml:3:4: `c` of a thing is a list, and here is a mapping",
            "a.yml:4:4: `d` of a thing is a list of texts, and here is a list",
            "a.yml:5:4: unknown `e` of a thing `tru` (did you mean `true`?)",
            "a.yml:1:1: a thing has no `f`",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_has_no_effect_is_a_notice_and_what_is_not_supported_a_problem() {
        let found = problems("a: 1\nb: true\nc: false\n", |fields, report| {
            fields.without_effect(&["a"], "answers are fresh", report);
            fields.unsupported(&["b", "c"], "leave it out", report);
        });
        let expected =
            ["a.yml:2:4: `b` is not supported (leave it out)", "a.yml:1:4: `a` has no effect: answers are fresh"];
        assert_eq!(found, expected);
    }
}
