//! Dimensions: columns to group and filter by.

use crate::model::fragment::{Fragment, is_name};
use crate::model::interval::{Interval, Unit};
use crate::model::member::{Described, Visibility, described};
use crate::model::title::title_of;
use crate::report::{Place, Report};
use crate::text::fields::Fields;
use crate::text::yaml::{Node, Value};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use sqlparser::ast::Expr;

#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub described: Described,
    pub kind: DimensionKind,
    pub value: DimensionValue,
    pub key: KeyPart,
    /// Buckets of time of the model's own.
    pub granularities: Vec<Granularity>,
    /// How clients print it.
    pub format: Option<serde_json::Value>,
    pub currency: Option<String>,
    /// Whether clients may offer the values that there are.
    pub suggestions: Suggestions,
    pub order: Option<Direction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimensionKind {
    Text,
    Number,
    Boolean,
    Time,
}

/// Whether it is in the primary key of its cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart {
    Primary,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suggestions {
    Offered,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DimensionValue {
    Sql(Fragment<Expr>),
    /// The label of the first condition that holds.
    Case {
        whens: Vec<(Fragment<Expr>, Label)>,
        otherwise: Option<Label>,
    },
    /// A measure of another cube, for each row of this one.
    SubQuery(Fragment<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    Text(String),
    Sql(Fragment<Expr>),
}

/// A bucket of time of the model's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Granularity {
    pub name: String,
    pub title: String,
    pub interval: Interval,
    pub origin: Origin,
    pub place: Place,
}

/// Where buckets are counted from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A local time.
    At(NaiveDateTime),
    /// So much after the beginning of the unit that the interval divides.
    Offset(Option<Interval>),
}

const KINDS: [(&str, Option<DimensionKind>); 6] = [
    ("string", Some(DimensionKind::Text)),
    ("number", Some(DimensionKind::Number)),
    ("boolean", Some(DimensionKind::Boolean)),
    ("time", Some(DimensionKind::Time)),
    ("geo", None),
    ("switch", None),
];

impl Dimension {
    pub fn read(node: &Node, report: &mut Report) -> Option<Dimension> {
        let mut fields = Fields::new(node, "a dimension", report)?;
        let is_key = fields.flag("primary_key", report) == Some(true);
        // As in Cube: nobody looks at keys who did not ask for them.
        let visibility = if is_key { Visibility::Hidden } else { Visibility::Public };
        let described = described(&mut fields, "dimension", visibility, report);
        let kind = fields.required_word("type", &KINDS, report);
        let value = match kind {
            Some(None) => {
                report.problem(fields.place(), "dimensions of type `geo` and `switch` are not supported");
                return None;
            }
            _ => read_value(&mut fields, report),
        };
        let granularities = fields.list("granularities", report);
        let granularities = granularities.iter().filter_map(|item| Granularity::read(item, report)).collect::<Vec<_>>();
        let format = fields.value("format").map(Node::json);
        let currency = fields.text("currency", report).map(|currency| currency.text.to_uppercase());
        let suggests = fields.flag("suggest_filter_values", report) != Some(false);
        let order = fields.word("order", &[("asc", Direction::Ascending), ("desc", Direction::Descending)], report);
        fields.without_effect(&["links", "aliases", "enable_suggestions"], "it is for Cube's own pages", report);
        fields.unsupported(&["propagate_filters_to_sub_query"], "it changes what the sub-query counts", report);
        fields.unsupported(&["multi_stage", "add_group_by", "filter", "time_shift"], "write a view", report);
        fields.unsupported(&["mask"], "leave the member out by `member_level`", report);
        fields.unsupported(&["key", "values", "values_as_segments", "field_type"], "leave it out", report);
        if let (Some(first), Some(Some(kind))) = (granularities.first(), kind)
            && kind != DimensionKind::Time
        {
            report.problem(&first.place, "only dimensions of type `time` have granularities");
        }
        fields.end(report);
        Some(Dimension {
            described: described?,
            kind: kind.flatten()?,
            value: value?,
            key: if is_key { KeyPart::Primary } else { KeyPart::None },
            granularities,
            format,
            currency,
            suggestions: if suggests { Suggestions::Offered } else { Suggestions::None },
            order,
        })
    }

    /// The granularity of the model's own of this name.
    pub fn granularity(&self, name: &str) -> Option<&Granularity> {
        self.granularities.iter().find(|granularity| granularity.name == name)
    }
}

impl DimensionValue {
    /// All SQL in it.
    pub fn fragments(&self) -> Vec<&Fragment<Expr>> {
        match self {
            DimensionValue::Sql(sql) | DimensionValue::SubQuery(sql) => vec![sql],
            DimensionValue::Case { whens, otherwise } => {
                let labels = whens.iter().map(|(_, label)| label).chain(otherwise);
                let labels = labels.filter_map(|label| match label {
                    Label::Sql(sql) => Some(sql),
                    Label::Text(_) => None,
                });
                whens.iter().map(|(when, _)| when).chain(labels).collect()
            }
        }
    }
}

/// `sql` or `case`, and what `sql` is.
fn read_value(fields: &mut Fields<'_>, report: &mut Report) -> Option<DimensionValue> {
    let is_sub_query = fields.flag("sub_query", report) == Some(true);
    let (sql, case) = (fields.text("sql", report), fields.value("case"));
    match (sql, case) {
        (Some(sql), None) => {
            let fragment = Fragment::expression(&sql, report)?;
            Some(if is_sub_query { DimensionValue::SubQuery(fragment) } else { DimensionValue::Sql(fragment) })
        }
        (None, Some(case)) => read_case(case, report),
        (Some(_), Some(case)) => {
            report.problem(&case.place, "a dimension has `sql` or `case`, and not both");
            None
        }
        (None, None) => {
            report.problem(fields.place(), "a dimension has `sql` or `case`, and here is neither");
            None
        }
    }
}

fn read_case(node: &Node, report: &mut Report) -> Option<DimensionValue> {
    let mut fields = Fields::new(node, "`case`", report)?;
    fields.unsupported(&["switch"], "write conditions", report);
    let mut whens = Vec::new();
    for item in fields.list("when", report) {
        let mut when = Fields::new(item, "a `when` of `case`", report)?;
        let sql = when.required("sql", report).and_then(|sql| Fragment::expression(&sql, report));
        let label = read_label(&mut when, report);
        when.end(report);
        whens.extend(sql.zip(label));
    }
    let otherwise = fields.value("else").and_then(|node| {
        let mut fields = Fields::new(node, "`else` of `case`", report)?;
        let label = read_label(&mut fields, report);
        fields.end(report);
        label
    });
    fields.end(report);
    if whens.is_empty() {
        report.problem(&node.place, "`case` has no `when`");
        return None;
    }
    Some(DimensionValue::Case { whens, otherwise })
}

fn read_label(fields: &mut Fields<'_>, report: &mut Report) -> Option<Label> {
    let Some(node) = fields.value("label") else {
        report.problem(fields.place(), "a condition of `case` has no `label`");
        return None;
    };
    match &node.value {
        Value::Text(text) => Some(Label::Text(text.clone())),
        _ => {
            let mut fields = Fields::new(node, "`label`", report)?;
            let sql = fields.required("sql", report).and_then(|sql| Fragment::expression(&sql, report));
            fields.end(report);
            sql.map(Label::Sql)
        }
    }
}

/// `2024`, `2024-01`, `2024-01-01`, or a time of a day.
fn parse_origin(text: &str) -> Option<NaiveDateTime> {
    let day = match text.len() {
        4 => format!("{text}-01-01"),
        7 => format!("{text}-01"),
        _ => text.to_owned(),
    };
    let date = NaiveDate::parse_from_str(&day, "%Y-%m-%d").ok().map(|date| date.and_time(NaiveTime::MIN));
    let forms = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let time = text.strip_suffix('Z').unwrap_or(text);
    date.or_else(|| forms.iter().find_map(|form| NaiveDateTime::parse_from_str(time, form).ok()))
}

impl Granularity {
    fn read(node: &Node, report: &mut Report) -> Option<Granularity> {
        let mut fields = Fields::new(node, "a granularity", report)?;
        let name = fields.required("name", report)?;
        let title = fields.text("title", report);
        let interval = fields.required("interval", report);
        let (origin, offset) = (fields.text("origin", report), fields.text("offset", report));
        fields.unsupported(&["sql"], "write a dimension", report);
        fields.end(report);
        if !is_name(&name.text) || Unit::named(&name.text).is_some() {
            report.problem(&name.place, format!("`{}` is no name for a granularity", name.text));
            return None;
        }
        let interval = interval?;
        let Some(length) = Interval::parse(&interval.text).filter(Interval::is_positive) else {
            report.problem_with_hint(
                &interval.place,
                format!("`{}` is no interval", interval.text),
                "write `2 weeks` or `1 hour 30 minutes`",
            );
            return None;
        };
        let offset = match &offset {
            None => None,
            Some(text) => Some(Interval::parse(&text.text).or_else(|| {
                report.problem(&text.place, format!("`{}` is no interval", text.text));
                None
            })?),
        };
        let origin = match (origin, offset) {
            (Some(origin), None) => match parse_origin(&origin.text) {
                Some(at) => Origin::At(at),
                None => {
                    report.problem_with_hint(
                        &origin.place,
                        format!("`{}` is no date", origin.text),
                        "write `2024-01-01` or `2024-01-01T06:00:00`",
                    );
                    return None;
                }
            },
            (Some(origin), Some(_)) => {
                report.problem(&origin.place, "a granularity has `origin` or `offset`, and not both");
                return None;
            }
            (None, offset) if length.divides_its_parent() => Origin::Offset(offset),
            (None, _) => {
                let hint = "give an `origin`: a date from which buckets are counted";
                report.problem_with_hint(
                    &interval.place,
                    format!("`{}` does not divide a longer unit", interval.text),
                    hint,
                );
                return None;
            }
        };
        let title = title.map_or_else(|| title_of(&name.text), |title| title.text);
        Some(Granularity { name: name.text, title, interval: length, origin, place: name.place })
    }
}
