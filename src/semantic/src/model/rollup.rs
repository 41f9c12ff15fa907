//! Pre-aggregations as they are declared: what is to be kept, grouped by what.
//!
//! Most of what Cube's users write here says when to build what, where and in how many parts. A view that is maintained is always
//! complete, so those keys have no effect.

use crate::model::fragment::{Path, is_name, read_path, read_paths};
use crate::report::{Place, Report};
use crate::text::fields::{Fields, Text};
use crate::text::yaml::{Node, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct PreAggregation {
    pub name: String,
    pub place: Place,
    pub kind: PreAggregationKind,
    pub indexes: Vec<Index>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PreAggregationKind {
    /// The rows of the cube's own `sql`.
    OriginalSql,
    Rollup(Rollup),
}

/// Measures for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollup {
    pub measures: Vec<(Place, Path)>,
    pub dimensions: Vec<(Place, Path)>,
    pub segments: Vec<(Place, Path)>,
    /// Each with its granularity.
    pub time_dimensions: Vec<(Place, Path, Text)>,
}

/// An index over some columns of a pre-aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    pub name: String,
    pub columns: Vec<(Place, Path)>,
    pub place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    OriginalSql,
    Rollup,
    RollupJoin,
    Unsupported,
}

const KINDS: [(&str, Kind); 5] = [
    ("rollup", Kind::Rollup),
    ("original_sql", Kind::OriginalSql),
    ("rollup_join", Kind::RollupJoin),
    ("rollup_lambda", Kind::Unsupported),
    ("auto_rollup", Kind::Unsupported),
];

/// When to build what, where, in how many parts.
const BUILDING: [&str; 18] = [
    "refresh_key",
    "partition_granularity",
    "build_range_start",
    "build_range_end",
    "refresh_range_start",
    "refresh_range_end",
    "external",
    "scheduled_refresh",
    "use_original_sql_pre_aggregations",
    "sql_alias",
    "read_only",
    "stream_offset",
    "output_column_types",
    "unique_key_columns",
    "allow_non_strict_date_range_match",
    "union_with_source_data",
    "rollups",
    "rollup_references",
];

impl PreAggregation {
    pub fn read(node: &Node, report: &mut Report) -> Option<PreAggregation> {
        let mut fields = Fields::new(node, "a pre-aggregation", report)?;
        let name = fields.required("name", report)?;
        fields.rename(format!("pre-aggregation `{}`", name.text));
        let kind = fields.word("type", &KINDS, report).unwrap_or(Kind::Rollup);
        let mut both = |key, older| {
            let mut paths = read_paths(&mut fields, key, report);
            paths.extend(read_paths(&mut fields, older, report));
            paths
        };
        let measures = both("measures", "measure_references");
        let dimensions = both("dimensions", "dimension_references");
        let segments = both("segments", "segment_references");
        let time_dimensions = read_time_dimensions(&mut fields, kind, report);
        let rollup = Rollup { measures, dimensions, segments, time_dimensions };
        let indexes = fields.list("indexes", report);
        let indexes = indexes.iter().filter_map(|item| Index::read(item, report)).collect();
        let why = "a pre-aggregation is a maintained view, always complete and fresh";
        fields.without_effect(&BUILDING, why, report);
        fields.end(report);
        if !is_name(&name.text) {
            report.problem(&name.place, format!("`{}` is no name: letters, digits and underscores", name.text));
            return None;
        }
        let is_empty = rollup.measures.is_empty() && rollup.dimensions.is_empty() && rollup.time_dimensions.is_empty();
        let kind = match kind {
            Kind::Unsupported => {
                let hint = "write a `rollup`: it is always fresh, and needs no union with its source";
                report.problem_with_hint(&node.place, "pre-aggregations of this type are not supported", hint);
                return None;
            }
            Kind::OriginalSql if !(is_empty && rollup.segments.is_empty()) => {
                report.problem(&node.place, "an `original_sql` keeps the rows of its cube, and no members");
                return None;
            }
            Kind::OriginalSql => PreAggregationKind::OriginalSql,
            // Members of several cubes are joined whether somebody says so or not.
            Kind::Rollup | Kind::RollupJoin if is_empty => {
                report.problem(&node.place, "a rollup has `measures`, `dimensions` or a `time_dimension`");
                return None;
            }
            Kind::Rollup | Kind::RollupJoin => PreAggregationKind::Rollup(rollup),
        };
        Some(PreAggregation { name: name.text, place: name.place, kind, indexes })
    }
}

/// `time_dimension` with its `granularity`, or the list `time_dimensions`.
fn read_time_dimensions(fields: &mut Fields<'_>, kind: Kind, report: &mut Report) -> Vec<(Place, Path, Text)> {
    let mut found = Vec::new();
    let (newer, older) = (fields.text("time_dimension", report), fields.text("time_dimension_reference", report));
    match (newer.or(older), fields.text("granularity", report)) {
        // All of its rows are kept.
        (Some(_), None) if kind == Kind::OriginalSql => {}
        (Some(dimension), Some(granularity)) => {
            found.extend(read_path(&dimension, report).map(|(place, path)| (place, path, granularity)));
        }
        (Some(at), None) => report.problem(&at.place, "a `time_dimension` of a rollup has a `granularity` beside it"),
        (None, Some(at)) => report.problem(&at.place, "a `granularity` has a `time_dimension` beside it"),
        (None, None) => {}
    }
    for item in fields.list("time_dimensions", report) {
        let Some(mut fields) = Fields::new(item, "a time dimension", report) else { continue };
        let dimension = fields.required("dimension", report).and_then(|text| read_path(&text, report));
        let granularity = fields.required("granularity", report);
        fields.end(report);
        found.extend(dimension.zip(granularity).map(|((place, path), granularity)| (place, path, granularity)));
    }
    found
}

impl Index {
    fn read(node: &Node, report: &mut Report) -> Option<Index> {
        let mut fields = Fields::new(node, "an index", report)?;
        let name = fields.required("name", report)?;
        if let Some(node) = fields.value("type")
            && !matches!(&node.value, Value::Text(text) if text == "regular" || text == "aggregate")
        {
            report.problem(&node.place, "an index is `regular` or `aggregate`, and either is one here");
        }
        fields.unsupported(&["sql"], "write `columns`", report);
        let columns = read_paths(&mut fields, "columns", report);
        fields.end(report);
        if columns.is_empty() {
            report.problem(&node.place, format!("index `{}` has no `columns`", name.text));
            return None;
        }
        Some(Index { name: name.text, columns, place: name.place })
    }
}
