//! Measures: what is computed for each group.

use crate::model::fragment::{Fragment, Path, read_paths};
use crate::model::interval::Interval;
use crate::model::member::{Described, Visibility, described};
use crate::report::{Place, Report};
use crate::text::fields::{Fields, Text};
use crate::text::yaml::Node;
use sqlparser::ast::Expr;

#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    pub described: Described,
    pub kind: MeasureKind,
    /// Only a `count` may have none: it counts rows.
    pub sql: Option<Fragment<Expr>>,
    /// Only rows that pass all of them count.
    pub filters: Vec<Fragment<Expr>>,
    pub rolling_window: Option<RollingWindow>,
    /// How clients print it.
    pub format: Option<serde_json::Value>,
    pub currency: Option<String>,
    /// What a client shows when somebody asks what is behind a number.
    pub drill_members: Vec<(Place, Path)>,
}

/// An aggregate of its `sql`, or an expression over other measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureKind {
    Count,
    CountDistinct,
    /// Counted exactly: a sketch forgets nothing that is taken back.
    CountDistinctApprox,
    Sum,
    Avg,
    Min,
    Max,
    Number,
    Text,
    Boolean,
    Time,
}

/// Which rows around a bucket count for it.
#[derive(Clone, Debug, PartialEq)]
pub enum RollingWindow {
    /// From `trailing` before to `leading` after the start or the end of each bucket.
    Fixed { trailing: Option<Bound>, leading: Option<Bound>, from: WindowEnd },
    /// From the beginning of the bucket of this granularity: a unit of time, or one of the time dimension's own.
    ToDate(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Unbounded,
    Interval(Interval),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEnd {
    Start,
    End,
}

const KINDS: [(&str, Option<MeasureKind>); 13] = [
    ("count", Some(MeasureKind::Count)),
    ("count_distinct", Some(MeasureKind::CountDistinct)),
    ("count_distinct_approx", Some(MeasureKind::CountDistinctApprox)),
    ("sum", Some(MeasureKind::Sum)),
    ("avg", Some(MeasureKind::Avg)),
    ("min", Some(MeasureKind::Min)),
    ("max", Some(MeasureKind::Max)),
    ("number", Some(MeasureKind::Number)),
    ("string", Some(MeasureKind::Text)),
    ("boolean", Some(MeasureKind::Boolean)),
    ("time", Some(MeasureKind::Time)),
    ("number_agg", None),
    ("rank", None),
];

/// What only measures of several stages have.
const MULTI_STAGE: [&str; 9] =
    ["multi_stage", "group_by", "reduce_by", "add_group_by", "filter", "grain", "case", "time_shift", "order_by"];

impl MeasureKind {
    /// Whether it is an aggregate of rows, and no expression over measures.
    pub fn is_aggregate(self) -> bool {
        !matches!(self, MeasureKind::Number | MeasureKind::Text | MeasureKind::Boolean | MeasureKind::Time)
    }
}

impl Measure {
    pub fn read(node: &Node, report: &mut Report) -> Option<Measure> {
        let mut fields = Fields::new(node, "a measure", report)?;
        let mut described = described(&mut fields, "measure", Visibility::Public, report);
        if fields.flag("visible", report) == Some(false)
            && let Some(described) = &mut described
        {
            described.visibility = Visibility::Hidden;
        }
        let kind = fields.required_word("type", &KINDS, report);
        if kind == Some(None) {
            report.problem(fields.place(), "measures of type `number_agg` and `rank` are not supported");
        }
        let sql = fields.text("sql", report);
        let has_sql = sql.is_some();
        let sql = sql.map(|sql| Fragment::expression(&sql, report));
        if !has_sql && kind.flatten().is_some_and(|kind| kind != MeasureKind::Count) {
            report.problem(fields.place(), "a measure has `sql`, unless it is a `count`");
        }
        let filters = read_filters(&mut fields, report);
        let rolling_window = fields.value("rolling_window").map(|node| read_window(node, report));
        let format = fields.value("format").map(Node::json);
        let currency = fields.text("currency", report).map(|currency| currency.text.to_uppercase());
        let drill_members = read_paths(&mut fields, "drill_members", report);
        fields.without_effect(&["aliases", "drill_filters", "cumulative"], "it is for Cube's own pages", report);
        fields.unsupported(&MULTI_STAGE, "measures of several stages: write a view over a grouped query", report);
        fields.unsupported(&["mask"], "leave the member out by `member_level`", report);
        fields.end(report);
        let kind = kind??;
        if !kind.is_aggregate() && (!filters.is_empty() || rolling_window.is_some()) {
            let place = &described.as_ref()?.place;
            report.problem(place, "`filters` and `rolling_window` are for measures that are aggregates");
            return None;
        }
        let (sql, rolling_window) = (transposed(sql)?, transposed(rolling_window)?);
        Some(Measure { described: described?, kind, sql, filters, rolling_window, format, currency, drill_members })
    }
}

/// None only if there was something and it could not be read.
fn transposed<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    read.map_or(Some(None), |read| read.map(Some))
}

fn read_filters(fields: &mut Fields<'_>, report: &mut Report) -> Vec<Fragment<Expr>> {
    let filters = fields.list("filters", report).iter().filter_map(|item| {
        let mut filter = Fields::new(item, "a filter", report)?;
        let sql = filter.required("sql", report).and_then(|sql| Fragment::expression(&sql, report));
        filter.end(report);
        sql
    });
    filters.collect()
}

fn read_window(node: &Node, report: &mut Report) -> Option<RollingWindow> {
    const TYPES: [(&str, Option<Option<&str>>); 5] = [
        ("fixed", None),
        ("to_date", Some(None)),
        ("year_to_date", Some(Some("year"))),
        ("quarter_to_date", Some(Some("quarter"))),
        ("month_to_date", Some(Some("month"))),
    ];
    let mut fields = Fields::new(node, "a rolling window", report)?;
    let kind = fields.word("type", &TYPES, report).unwrap_or(None);
    let window = match kind {
        None => {
            let (trailing, leading) = (fields.text("trailing", report), fields.text("leading", report));
            let ends = [("start", WindowEnd::Start), ("end", WindowEnd::End)];
            let from = fields.word("offset", &ends, report).unwrap_or(WindowEnd::End);
            let trailing = transposed(trailing.map(|bound| read_bound(&bound, report)));
            let leading = transposed(leading.map(|bound| read_bound(&bound, report)));
            trailing.zip(leading).map(|(trailing, leading)| RollingWindow::Fixed { trailing, leading, from })
        }
        Some(Some(unit)) => Some(RollingWindow::ToDate(unit.to_owned())),
        Some(None) => fields.required("granularity", report).map(|granularity| RollingWindow::ToDate(granularity.text)),
    };
    fields.end(report);
    window
}

fn read_bound(text: &Text, report: &mut Report) -> Option<Bound> {
    if text.text == "unbounded" {
        return Some(Bound::Unbounded);
    }
    let interval = Interval::parse(&text.text);
    if interval.is_none() {
        let hint = "write `unbounded`, `7 days`, `1 month`";
        report.problem_with_hint(&text.place, format!("`{}` is no interval", text.text), hint);
    }
    interval.map(Bound::Interval)
}
