//! Views: members of several cubes under one name, for clients to choose from.

use crate::model::cube::read_all;
use crate::model::fragment::{Path, is_name, read_path};
use crate::model::member::{Described, Visibility, described};
use crate::model::policy::Policy;
use crate::report::{Place, Report};
use crate::text::fields::{Fields, Text};
use crate::text::yaml::{Node, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub described: Described,
    /// The first one is where joins begin.
    pub parts: Vec<Part>,
    pub policies: Vec<Policy>,
}

/// Members of the cube at the end of a path of joins.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub place: Place,
    pub path: Path,
    pub includes: Members,
    pub excludes: Vec<Text>,
    /// What comes before the names of its members, with an underscore between.
    pub prefix: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Members {
    All,
    Named(Vec<Included>),
}

/// A member, and what of it the view says anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Included {
    pub name: Text,
    pub alias: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub format: Option<serde_json::Value>,
    pub meta: Option<serde_json::Value>,
}

impl View {
    pub fn read(node: &Node, report: &mut Report) -> Option<View> {
        let mut fields = Fields::new(node, "a view", report)?;
        let described = described(&mut fields, "view", Visibility::Public, report);
        // It has done what it is for.
        fields.value("extends");
        let parts = read_all(&mut fields, "cubes", Part::read, report);
        let policies = read_all(&mut fields, "access_policy", Policy::read, report);
        fields.without_effect(
            &["folders", "view_group", "view_groups"],
            "clients here list members as they are",
            report,
        );
        fields.without_effect(&["refresh_key", "data_source", "sql_alias"], "answers are always fresh", report);
        fields.unsupported(&["default_filters"], "write an `access_policy`, or filter in the query", report);
        fields.unsupported(&["measures", "dimensions", "segments", "joins"], "write them in a cube", report);
        fields.unsupported(&["pre_aggregations", "hierarchies"], "write them in a cube", report);
        if parts.is_empty() {
            report.problem(&node.place, "a view has `cubes`");
        }
        fields.end(report);
        Some(View { described: described?, parts, policies })
    }

    pub fn name(&self) -> &str {
        &self.described.name
    }
}

impl Part {
    fn read(node: &Node, report: &mut Report) -> Option<Part> {
        let mut fields = Fields::new(node, "a cube of a view", report)?;
        let path = fields.required("join_path", report).and_then(|text| read_path(&text, report));
        let includes = match fields.value("includes") {
            None => {
                report.problem(&node.place, "a cube of a view has `includes`");
                None
            }
            Some(Node { value: Value::Text(text), .. }) if text == "*" => Some(Members::All),
            Some(Node { value: Value::List(items), .. }) => {
                let items: Option<Vec<Included>> = items.iter().map(|item| Included::read(item, report)).collect();
                items.map(Members::Named)
            }
            Some(other) => {
                report.problem(&other.place, format!("`includes` is \"*\" or a list, and here is {}", other.kind()));
                None
            }
        };
        let excludes = fields.texts("excludes", report).unwrap_or_default();
        let (has_prefix, alias) = (fields.flag("prefix", report) == Some(true), fields.text("alias", report));
        fields.unsupported(&["split"], "write a view for each cube", report);
        fields.end(report);
        let (place, path) = path?;
        let last = path.0.last().cloned().unwrap_or_default();
        let prefix = has_prefix.then(|| alias.map_or(last, |alias| alias.text));
        Some(Part { place, path, includes: includes?, excludes, prefix })
    }
}

impl Included {
    fn read(node: &Node, report: &mut Report) -> Option<Included> {
        let plain = |text: &str| Included {
            name: Text { place: node.place.clone(), text: text.to_owned() },
            alias: None,
            title: None,
            description: None,
            format: None,
            meta: None,
        };
        if let Value::Text(text) = &node.value {
            return Some(plain(text));
        }
        let mut fields = Fields::new(node, "a member of a view", report)?;
        let name = fields.required("name", report);
        let alias = fields.text("alias", report);
        if let Some(alias) = alias.as_ref().filter(|alias| !is_name(&alias.text)) {
            report.problem(&alias.place, format!("`{}` is no name: letters, digits and underscores", alias.text));
        }
        let title = fields.text("title", report).map(|title| title.text);
        let description = fields.text("description", report).map(|description| description.text);
        let (format, meta) = (fields.value("format").map(Node::json), fields.value("meta").map(Node::json));
        fields.end(report);
        Some(Included { name: name?, alias: alias.map(|alias| alias.text), title, description, format, meta })
    }
}
