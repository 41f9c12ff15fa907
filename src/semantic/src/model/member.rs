//! What every member of a cube has: a name, how it is called, whether clients see it; and segments, which have nothing else but
//! a condition.

use crate::model::fragment::{Fragment, is_itself, is_name};
use crate::model::title::title_of;
use crate::report::{Place, Report};
use crate::text::fields::{Fields, Text};
use crate::text::yaml::Node;
use sqlparser::ast::Expr;

#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub name: String,
    /// The given one, or the one that the name has by itself.
    pub title: String,
    pub description: Option<String>,
    pub visibility: Visibility,
    /// Whatever the model's author wants clients to know.
    pub meta: Option<serde_json::Value>,
    pub place: Place,
}

/// Whether clients see it; what they do not see is still there for other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Public,
    Hidden,
}

/// A condition with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub described: Described,
    pub sql: Fragment<Expr>,
}

impl Segment {
    pub fn read(node: &Node, report: &mut Report) -> Option<Segment> {
        let mut fields = Fields::new(node, "a segment", report)?;
        let described = described(&mut fields, "segment", Visibility::Public, report);
        let sql = fields.required("sql", report).and_then(|sql| Fragment::expression(&sql, report));
        fields.without_effect(&["aliases"], "it is for Cube's own pages", report);
        fields.end(report);
        Some(Segment { described: described?, sql: sql? })
    }
}

/// The keys that cubes, views and members share. `what` is what they describe; `visibility` is theirs if they do not say.
pub fn described(
    fields: &mut Fields<'_>,
    what: &str,
    visibility: Visibility,
    report: &mut Report,
) -> Option<Described> {
    let name = fields.required("name", report).filter(|name| is_good_name(name, report));
    if let Some(name) = &name {
        fields.rename(format!("{what} `{}`", name.text));
    }
    let title = fields.text("title", report);
    let description = fields.text("description", report).map(|text| text.text);
    let (public, shown) = (fields.flag("public", report), fields.flag("shown", report));
    let visibility = match public.or(shown) {
        Some(true) => Visibility::Public,
        Some(false) => Visibility::Hidden,
        None => visibility,
    };
    let meta = fields.value("meta").map(Node::json);
    let name = name?;
    let title = title.map_or_else(|| title_of(&name.text), |title| title.text);
    Some(Described { name: name.text, title, description, visibility, meta, place: name.place })
}

fn is_good_name(name: &Text, report: &mut Report) -> bool {
    let is_good = is_name(&name.text) && !is_itself(&name.text);
    if !is_good {
        report.problem(&name.place, format!("`{}` is no name: letters, digits and underscores", name.text));
    }
    is_good
}
