//! `extends`: a cube that is another one, and more.
//!
//! A cube is put together from the mappings that describe it, before anything else is read: its own keys come before those of the
//! cube that it extends, and lists of things with names are joined by name. What is read afterwards knows nothing of it. Which lists
//! are joined, and how, is as Cube does it.

use crate::model::declared::Declared;
use crate::report::Report;
use crate::text::yaml::{Key, Node, Value};
use std::collections::BTreeMap;

/// Lists whose items have names: an item of one's own takes the place of the base's of its name.
const NAMED: [&str; 6] = ["measures", "dimensions", "segments", "joins", "pre_aggregations", "hierarchies"];
/// Lists to which one's own items are added.
const ADDED: [&str; 3] = ["cubes", "access_policy", "folders"];
/// A source of one's own takes the place of the base's, of whichever kind.
const SOURCES: [&str; 2] = ["sql", "sql_table"];

/// The mappings of all cubes (or of all views), each with what it extends.
pub(super) fn put_together(declared: &[Declared<'_>], report: &mut Report) -> Vec<Node> {
    let by_name: BTreeMap<&str, &Declared<'_>> = declared.iter().map(|cube| (cube.name.text.as_str(), cube)).collect();
    declared.iter().map(|cube| whole(cube, &by_name, &mut Vec::new(), report)).collect()
}

fn whole<'a>(
    cube: &'a Declared<'_>,
    by_name: &BTreeMap<&str, &'a Declared<'_>>,
    below: &mut Vec<&'a str>,
    report: &mut Report,
) -> Node {
    let Some(extends) = &cube.extends else { return cube.node.clone() };
    let Some(base) = by_name.get(extends.text.as_str()) else {
        report.unknown(&extends.place, "cube to extend", &extends.text, by_name.keys().copied());
        return cube.node.clone();
    };
    below.push(&cube.name.text);
    if below.contains(&base.name.text.as_str()) {
        // Said once, at the cube that comes first in the circle.
        if below.iter().all(|name| *name >= cube.name.text.as_str()) {
            report.problem(&extends.place, format!("cube `{}` extends itself", cube.name.text));
        }
        below.pop();
        return cube.node.clone();
    }
    let base = whole(base, by_name, below, report);
    below.pop();
    merged(cube.node, base)
}

/// The keys of both, one's own before those of the base.
fn merged(own: &Node, base: Node) -> Node {
    let (Value::Map(own_entries), Value::Map(base_entries)) = (&own.value, base.value) else { return own.clone() };
    let mut entries: Vec<(Key, Node)> = own_entries.clone();
    let has_source = own_entries.iter().any(|(key, _)| SOURCES.contains(&key.name.as_str()));
    for (key, value) in base_entries {
        let name = key.name.as_str();
        match entries.iter_mut().find(|(known, _)| known.name == name) {
            Some((_, own)) if NAMED.contains(&name) || ADDED.contains(&name) => *own = joined(own, value),
            Some(_) => {}
            None if has_source && SOURCES.contains(&name) => {}
            None => entries.push((key, value)),
        }
    }
    Node { place: own.place.clone(), value: Value::Map(entries) }
}

/// The items of the base but for those of whose name there is one of one's own, and then one's own.
fn joined(own: &Node, base: Node) -> Node {
    let (Value::List(own_items), Value::List(base_items)) = (&own.value, base.value) else { return own.clone() };
    let is_replaced = |item: &Node| name(item).is_some_and(|base| own_items.iter().any(|own| name(own) == Some(base)));
    let kept = base_items.into_iter().filter(|item| !is_replaced(item));
    Node { place: own.place.clone(), value: Value::List(kept.chain(own_items.iter().cloned()).collect()) }
}

fn name(item: &Node) -> Option<&str> {
    let Value::Map(entries) = &item.value else { return None };
    entries.iter().find_map(|(key, value)| match &value.value {
        Value::Text(text) if key.name == "name" => Some(text.as_str()),
        _ => None,
    })
}
