//! `extends`: a cube that is another one, and more.
//!
//! A cube is put together from the mappings that describe it, before anything else is read: its own keys come before those of the
//! cube that it extends, and lists of things with names are joined by name. What is read afterwards knows nothing of it. Which lists
//! are joined, and how, is as Cube does it.

use crate::model::declared::Declared;
use crate::report::Report;
use crate::text::fields::{Text, snake};
use crate::text::yaml::{Key, Node, Value};
use std::collections::BTreeMap;

/// Lists whose items have names: an item of one's own takes the place of the base's of its name.
const NAMED: [&str; 6] = ["measures", "dimensions", "segments", "joins", "pre_aggregations", "hierarchies"];
/// Lists to which one's own items are added.
const ADDED: [&str; 3] = ["cubes", "access_policy", "folders"];
/// A source of one's own takes the place of the base's, of whichever kind.
const SOURCES: [&str; 2] = ["sql", "sql_table"];

/// A cube that extends one that extends another, and so on.
const DEPTH_MAX: usize = 64;
/// Items of lists in all cubes together, those of bases again in each cube that extends them.
const ITEMS_MAX: usize = 500_000;

/// The mappings of all cubes (or of all views), each with what it extends.
pub(super) fn put_together(declared: &[Declared<'_>], report: &mut Report) -> Vec<Node> {
    let by_name = declared.iter().map(|cube| (cube.name.text.as_str(), cube)).collect();
    let mut together = Together { by_name, whole: BTreeMap::new(), below: Vec::new(), items: 0 };
    for cube in declared {
        together.whole(cube, report);
    }
    let whole = &mut together.whole;
    declared.iter().filter_map(|cube| whole.remove(cube.name.text.as_str())).collect()
}

struct Together<'a, 'd> {
    by_name: BTreeMap<&'a str, &'a Declared<'d>>,
    whole: BTreeMap<&'a str, Node>,
    /// The cubes that wait for what they extend, the outermost first.
    below: Vec<&'a str>,
    items: usize,
}

impl<'a> Together<'a, '_> {
    fn whole(&mut self, cube: &'a Declared<'_>, report: &mut Report) {
        let name = cube.name.text.as_str();
        if self.whole.contains_key(name) {
            return;
        }
        let base = cube.extends.as_ref().and_then(|extends| self.base(cube, extends, report));
        let node = match base {
            Some(base) => merged(cube.node, base),
            None => cube.node.clone(),
        };
        self.items += items(&node);
        self.whole.insert(name, node);
    }

    /// The mapping of what a cube extends, if there is one that can be put together.
    fn base(&mut self, cube: &'a Declared<'_>, extends: &Text, report: &mut Report) -> Option<Node> {
        let Some(base) = self.by_name.get(extends.text.as_str()).copied() else {
            report.unknown(&extends.place, "cube or view to extend", &extends.text, self.by_name.keys().copied());
            return None;
        };
        self.below.push(&cube.name.text);
        let problem = if self.below.contains(&base.name.text.as_str()) {
            Some(format!("`{}` extends itself", base.name.text))
        } else if self.below.len() > DEPTH_MAX {
            Some(format!("more than {DEPTH_MAX} cubes that extend each other"))
        } else if self.items > ITEMS_MAX {
            Some(format!("more than {ITEMS_MAX} members, with those of what cubes extend"))
        } else {
            self.whole(base, report);
            None
        };
        self.below.pop();
        match problem {
            Some(problem) => {
                report.problem(&extends.place, problem);
                None
            }
            None => self.whole.get(base.name.text.as_str()).cloned(),
        }
    }
}

/// The keys of both, one's own before those of the base. A key of one's own without a value is none.
fn merged(own: &Node, base: Node) -> Node {
    let (Value::Map(own_entries), Value::Map(base_entries)) = (&own.value, base.value) else { return own.clone() };
    let is_there = |(_, value): &&(Key, Node)| !matches!(value.value, Value::Null);
    let mut entries: Vec<(Key, Node)> = own_entries.iter().filter(is_there).cloned().collect();
    let has_source = entries.iter().any(|(key, _)| SOURCES.contains(&snake(&key.name).as_str()));
    for (key, value) in base_entries {
        let name = snake(&key.name);
        match entries.iter_mut().find(|(known, _)| snake(&known.name) == name) {
            Some((_, own)) if NAMED.contains(&name.as_str()) || ADDED.contains(&name.as_str()) => {
                *own = joined(own, value)
            }
            Some(_) => {}
            None if has_source && SOURCES.contains(&name.as_str()) => {}
            None => entries.push((key, value)),
        }
    }
    Node { place: own.place.clone(), value: Value::Map(entries) }
}

/// The items of the base, each in its place, or in that place one's own item of its name; then one's own others.
fn joined(own: &Node, base: Node) -> Node {
    let (Value::List(own_items), Value::List(base_items)) = (&own.value, base.value) else { return own.clone() };
    let mut own_items: Vec<Option<&Node>> = own_items.iter().map(Some).collect();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, item) in own_items.iter().enumerate() {
        // Of two with one name the cube will be told.
        if let Some(name) = item.and_then(name) {
            places.entry(name).or_insert(at);
        }
    }
    let mut items = Vec::with_capacity(own_items.len() + base_items.len());
    for base_item in base_items {
        let place = name(&base_item).and_then(|name| places.get(name));
        let own_item = place.and_then(|place| own_items[*place].take());
        items.push(own_item.cloned().unwrap_or(base_item));
    }
    items.extend(own_items.into_iter().flatten().cloned());
    Node { place: own.place.clone(), value: Value::List(items) }
}

fn items(node: &Node) -> usize {
    let Value::Map(entries) = &node.value else { return 0 };
    let lists = entries.iter().map(|(_, value)| match &value.value {
        Value::List(items) => items.len(),
        _ => 0,
    });
    lists.sum()
}

fn name(item: &Node) -> Option<&str> {
    let Value::Map(entries) = &item.value else { return None };
    entries.iter().find_map(|(key, value)| match &value.value {
        Value::Text(text) if key.name == "name" => Some(text.as_str()),
        _ => None,
    })
}
