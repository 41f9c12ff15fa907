//! YAML as a tree of which every node knows its place.

use crate::report::{Place, Report};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Location, Spanned};
use std::fmt;
use std::sync::Arc;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    pub place: Place,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; no key is there twice.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping, and where it stands.
#[derive(Clone, Debug)]
pub struct Key {
    pub place: Place,
    pub name: String,
}

/// Reads a file that is one YAML document. An empty one is `Value::Null`.
///
/// What is no YAML, has a key twice, or unfolds to more than anybody writes, is a problem of the report.
pub fn read(file: &Arc<str>, text: &str, report: &mut Report) -> Option<Node> {
    // `no` and `on` are words.
    let options = serde_saphyr::options! { strict_booleans: true };
    match serde_saphyr::from_str_with_options::<Raw>(text, options) {
        Ok(raw) => Some(raw.placed(file)),
        Err(error) => {
            let mut error = error.without_snippet();
            let place = error.location().map_or_else(|| Place::file(file), |location| place(file, location));
            while let Error::AliasError { error: inner, .. } = error {
                error = inner.without_snippet();
            }
            let message = match error {
                Error::DuplicateMappingKey { key: Some(key), .. } => format!("key `{key}` is there twice"),
                Error::Budget { .. } => {
                    "more than a file of a model may hold, or aliases that unfold to more".to_owned()
                }
                // The message repeats the place.
                _ => error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
            };
            report.problem(&place, message);
            None
        }
    }
}

impl Node {
    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// As JSON: what `meta` keeps for whoever asks.
    pub fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(flag) => (*flag).into(),
            Value::Number(number) => serde_json::Value::Number(number.clone()),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Node::json).collect(),
            Value::Map(entries) => entries.iter().map(|(key, value)| (key.name.clone(), value.json())).collect(),
        }
    }
}

/// A node as serde gives it: with places that do not know their file.
struct Raw {
    location: Location,
    value: RawValue,
}

enum RawValue {
    Scalar(Value),
    List(Vec<Raw>),
    Map(Vec<(Spanned<String>, Raw)>),
}

impl Raw {
    fn placed(self, file: &Arc<str>) -> Node {
        let value = match self.value {
            RawValue::Scalar(value) => value,
            RawValue::List(items) => Value::List(items.into_iter().map(|item| item.placed(file)).collect()),
            RawValue::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| {
                    (Key { place: place(file, key.referenced), name: key.value }, value.placed(file))
                });
                Value::Map(entries.collect())
            }
        };
        Node { place: place(file, self.location), value }
    }
}

fn place(file: &Arc<str>, location: Location) -> Place {
    Place { file: Arc::clone(file), line: location.line(), column: location.column() }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        let spanned = Spanned::<RawValue>::deserialize(deserializer)?;
        Ok(Raw { location: spanned.referenced, value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawValue, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(Value::Null))
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<RawValue, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawValue, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(Value::Bool(flag)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(Value::Number(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(Value::Number(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RawValue, E> {
        // What is not finite has no number in JSON.
        let value = serde_json::Number::from_f64(number).map_or_else(|| Value::Text(number.to_string()), Value::Number);
        Ok(RawValue::Scalar(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(Value::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Raw>()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawValue, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry::<Spanned<String>, Raw>()? {
            map.push(entry);
        }
        Ok(RawValue::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let mut report = Report::default();
        assert!(read(&Arc::from("a.yml"), text, &mut report).is_none(), "{text}");
        report.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_tree_has_places() {
        let text = "cubes:\n  - name: orders\n    public: false\n    meta: {a: 1.5, b: [x, ~]}\n";
        let mut report = Report::default();
        let node = read(&Arc::from("a.yml"), text, &mut report).expect("it is YAML");
        assert_eq!(
            node.json().to_string(),
            r#"{"cubes":[{"name":"orders","public":false,"meta":{"a":1.5,"b":["x",null]}}]}"#
        );
        let Value::Map(entries) = &node.value else { panic!("a mapping") };
        let Value::List(cubes) = &entries[0].1.value else { panic!("a list") };
        let Value::Map(cube) = &cubes[0].value else { panic!("a mapping") };
        assert_eq!(cube[1].0.place.to_string(), "a.yml:3:5");
        assert_eq!(cube[1].1.place.to_string(), "a.yml:3:13");
    }

    #[test]
    fn what_is_no_yaml_is_a_problem_with_its_place() {
        assert!(
            problem("cubes:\n  - name: a\n   b: c\n").starts_with("a.yml:3:"),
            "{}",
            problem("cubes:\n  - name: a\n   b: c\n")
        );
        assert_eq!(problem("a: 1\nb: 2\na: 3\n"), "a.yml:3:1: key `a` is there twice");
    }

    #[test]
    fn aliases_do_not_unfold_for_ever() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let below = vec![format!("*a{}", level - 1); 10].join(", ");
            text += &format!("a{level}: &a{level} [{below}]\n");
        }
        assert!(problem(&text).contains("aliases that unfold"), "{}", problem(&text));
    }
}
