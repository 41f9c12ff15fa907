//! Cubes: where rows come from, and what can be asked of them.

use crate::model::dimension::{Dimension, KeyPart};
use crate::model::fragment::{Fragment, Path, read_paths};
use crate::model::measure::Measure;
use crate::model::member::{Described, Segment, Visibility, described};
use crate::model::policy::Policy;
use crate::model::rollup::PreAggregation;
use crate::model::title::title_of;
use crate::report::{Place, Report};
use crate::text::fields::Fields;
use crate::text::yaml::Node;
use sqlparser::ast::{Expr, Query};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Cube {
    pub described: Described,
    pub source: Source,
    pub dimensions: Vec<Dimension>,
    pub measures: Vec<Measure>,
    pub segments: Vec<Segment>,
    pub joins: Vec<Join>,
    pub hierarchies: Vec<Hierarchy>,
    pub pre_aggregations: Vec<PreAggregation>,
    pub policies: Vec<Policy>,
}

/// Where a cube's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A relation, by its name.
    Table(Fragment<Expr>),
    Query(Fragment<Query>),
}

/// How rows of another cube belong to those of this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The other cube.
    pub cube: String,
    pub relationship: Relationship,
    pub sql: Fragment<Expr>,
    pub place: Place,
}

/// How many rows of the cube belong to how many of the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relationship {
    ManyToOne,
    OneToMany,
    OneToOne,
}

/// Dimensions from the widest to the narrowest, for clients that drill.
#[derive(Clone, Debug, PartialEq)]
pub struct Hierarchy {
    pub name: String,
    pub title: String,
    pub visibility: Visibility,
    pub levels: Vec<(Place, Path)>,
    pub place: Place,
}

const RELATIONSHIPS: [(&str, Relationship); 12] = [
    ("many_to_one", Relationship::ManyToOne),
    ("one_to_many", Relationship::OneToMany),
    ("one_to_one", Relationship::OneToOne),
    ("manyToOne", Relationship::ManyToOne),
    ("oneToMany", Relationship::OneToMany),
    ("oneToOne", Relationship::OneToOne),
    ("belongs_to", Relationship::ManyToOne),
    ("has_many", Relationship::OneToMany),
    ("has_one", Relationship::OneToOne),
    ("belongsTo", Relationship::ManyToOne),
    ("hasMany", Relationship::OneToMany),
    ("hasOne", Relationship::OneToOne),
];

impl Cube {
    pub fn read(node: &Node, report: &mut Report) -> Option<Cube> {
        let mut fields = Fields::new(node, "a cube", report)?;
        let described = described(&mut fields, "cube", Visibility::Public, report);
        // It has done what it is for.
        fields.value("extends");
        let source = read_source(&mut fields, report);
        let dimensions = read_all(&mut fields, "dimensions", Dimension::read, report);
        let measures = read_all(&mut fields, "measures", Measure::read, report);
        let segments = read_all(&mut fields, "segments", Segment::read, report);
        let joins = read_all(&mut fields, "joins", Join::read, report);
        let hierarchies = read_all(&mut fields, "hierarchies", Hierarchy::read, report);
        let pre_aggregations = read_all(&mut fields, "pre_aggregations", PreAggregation::read, report);
        let policies = read_all(&mut fields, "access_policy", Policy::read, report);
        fields.without_effect(&["refresh_key"], "answers are always fresh", report);
        fields.without_effect(&["data_source"], "there is one database", report);
        fields.without_effect(&["sql_alias", "rewrite_queries"], "nobody sees the SQL that Cube would write", report);
        fields.unsupported(&["calendar", "context_members"], "leave it out", report);
        fields.end(report);
        let (described, source) = (described?, source?);
        let cube =
            Cube { described, source, dimensions, measures, segments, joins, hierarchies, pre_aggregations, policies };
        once("a member", cube.members().map(|member| (member.name.as_str(), &member.place)), report);
        once("a join to", cube.joins.iter().map(|join| (join.cube.as_str(), &join.place)), report);
        let names = cube.pre_aggregations.iter().map(|known| (known.name.as_str(), &known.place));
        once("a pre-aggregation", names, report);
        for known in &cube.pre_aggregations {
            once("an index", known.indexes.iter().map(|index| (index.name.as_str(), &index.place)), report);
        }
        for dimension in &cube.dimensions {
            let names = dimension.granularities.iter().map(|known| (known.name.as_str(), &known.place));
            once("a granularity", names, report);
        }
        once("a hierarchy", cube.hierarchies.iter().map(|known| (known.name.as_str(), &known.place)), report);
        Some(cube)
    }

    pub fn name(&self) -> &str {
        &self.described.name
    }

    pub fn dimension(&self, name: &str) -> Option<&Dimension> {
        self.dimensions.iter().find(|dimension| dimension.described.name == name)
    }

    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.described.name == name)
    }

    pub fn segment(&self, name: &str) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.described.name == name)
    }

    /// What a row is known by, if the model says so.
    pub fn primary_key(&self) -> impl Iterator<Item = &Dimension> {
        self.dimensions.iter().filter(|dimension| dimension.key == KeyPart::Primary)
    }

    /// What all members have, in the order of the model: dimensions, measures, segments.
    pub fn members(&self) -> impl Iterator<Item = &Described> {
        let dimensions = self.dimensions.iter().map(|dimension| &dimension.described);
        let measures = self.measures.iter().map(|measure| &measure.described);
        dimensions.chain(measures).chain(self.segments.iter().map(|segment| &segment.described))
    }
}

/// Says which names are there twice.
fn once<'a>(what: &str, names: impl Iterator<Item = (&'a str, &'a Place)>, report: &mut Report) {
    let mut seen = BTreeMap::new();
    for (name, place) in names {
        if let Some(known) = seen.insert(name, place) {
            report.problem(place, format!("there is {what} `{name}` already, at {known}"));
        }
    }
}

/// The items of a list that can be read.
pub fn read_all<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    read: impl Fn(&Node, &mut Report) -> Option<T>,
    report: &mut Report,
) -> Vec<T> {
    fields.list(key, report).iter().filter_map(|item| read(item, report)).collect()
}

fn read_source(fields: &mut Fields<'_>, report: &mut Report) -> Option<Source> {
    match (fields.text("sql_table", report), fields.text("sql", report)) {
        (Some(table), None) => {
            let name = Fragment::expression(&table, report)?;
            let is_relation = matches!(*name.tree, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            if !is_relation || !name.references.is_empty() {
                let hint = "write `sql` for a query";
                report.problem_with_hint(&table.place, format!("`{}` is no name of a relation", table.text), hint);
                return None;
            }
            Some(Source::Table(name))
        }
        (None, Some(query)) => Fragment::query(&query, report).map(Source::Query),
        (Some(_), Some(query)) => {
            report.problem(&query.place, "a cube has `sql_table` or `sql`, and not both");
            None
        }
        (None, None) => {
            report.problem(fields.place(), "a cube has `sql_table` or `sql`, and here is neither");
            None
        }
    }
}

impl Join {
    fn read(node: &Node, report: &mut Report) -> Option<Join> {
        let mut fields = Fields::new(node, "a join", report)?;
        let name = fields.required("name", report);
        let relationship = fields.required_word("relationship", &RELATIONSHIPS, report);
        let sql = fields.required("sql", report).and_then(|sql| Fragment::expression(&sql, report));
        fields.end(report);
        let name = name?;
        Some(Join { cube: name.text, relationship: relationship?, sql: sql?, place: name.place })
    }
}

impl Hierarchy {
    fn read(node: &Node, report: &mut Report) -> Option<Hierarchy> {
        let mut fields = Fields::new(node, "a hierarchy", report)?;
        let name = fields.required("name", report)?;
        let title = fields.text("title", report).map_or_else(|| title_of(&name.text), |title| title.text);
        let is_hidden = fields.flag("public", report) == Some(false);
        let levels = read_paths(&mut fields, "levels", report);
        fields.end(report);
        let visibility = if is_hidden { Visibility::Hidden } else { Visibility::Public };
        Some(Hierarchy { name: name.text, title, visibility, levels, place: name.place })
    }
}
