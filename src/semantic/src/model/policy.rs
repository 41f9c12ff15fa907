//! Access policies: which rows and members whom a group lets see.

use crate::model::fragment::{Path, read_path};
use crate::operator::{OPERATORS, Operator};
use crate::query::dates::Range;
use crate::report::{Place, Report};
use crate::text::fields::{Fields, Text};
use crate::text::yaml::{Node, Value};
use chrono_tz::Tz;

/// What members of a group may see.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub place: Place,
    /// `*` is everybody.
    pub groups: Vec<String>,
    pub members: MemberLevel,
    pub rows: RowLevel,
}

/// Which members.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberLevel {
    pub includes: Includes,
    pub excludes: Vec<Text>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Includes {
    All,
    Named(Vec<Text>),
}

/// Which rows.
#[derive(Clone, Debug, PartialEq)]
pub enum RowLevel {
    All,
    /// Those that pass all of them.
    Where(Vec<RowFilter>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum RowFilter {
    Member { place: Place, member: Path, operator: Operator, values: Vec<PolicyValue> },
    And(Vec<RowFilter>),
    Or(Vec<RowFilter>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum PolicyValue {
    Null,
    Text(String),
    /// What the security context says under these names; what it has not is nothing, which no row equals.
    Claim(Path),
}

impl Policy {
    pub fn read(node: &Node, report: &mut Report) -> Option<Policy> {
        let mut fields = Fields::complete(node, "an access policy", report)?;
        let (group, groups) = (fields.texts("group", report), fields.texts("groups", report));
        let members = fields.value("member_level").map(|node| MemberLevel::read(node, report));
        let rows = fields.value("row_level").map(|node| RowLevel::read(node, report));
        fields.unsupported(&["role"], "write `group`", report);
        fields.unsupported(&["conditions"], "write a `row_level` filter", report);
        fields.unsupported(&["member_masking"], "leave members out by `member_level`", report);
        fields.end(report);
        let groups = match (group, groups) {
            (Some(groups), None) | (None, Some(groups)) => groups.into_iter().map(|group| group.text).collect(),
            _ => {
                report.problem(&node.place, "an access policy has `group` or `groups`");
                return None;
            }
        };
        let everything = MemberLevel { includes: Includes::All, excludes: Vec::new() };
        let (members, rows) = (members.unwrap_or(Some(everything))?, rows.unwrap_or(Some(RowLevel::All))?);
        Some(Policy { place: node.place.clone(), groups, members, rows })
    }
}

impl MemberLevel {
    fn read(node: &Node, report: &mut Report) -> Option<MemberLevel> {
        let mut fields = Fields::complete(node, "`member_level`", report)?;
        let (includes, excludes) = (fields.texts("includes", report), fields.texts("excludes", report));
        fields.end(report);
        let is_all = |names: &[Text]| names.iter().any(|name| name.text == "*");
        let includes = match includes {
            None => Includes::All,
            Some(names) if is_all(&names) => Includes::All,
            Some(names) => Includes::Named(names),
        };
        let excludes = excludes.unwrap_or_default();
        Some(match is_all(&excludes) {
            true => MemberLevel { includes: Includes::Named(Vec::new()), excludes: Vec::new() },
            false => MemberLevel { includes, excludes },
        })
    }
}

impl RowLevel {
    fn read(node: &Node, report: &mut Report) -> Option<RowLevel> {
        let mut fields = Fields::complete(node, "`row_level`", report)?;
        let allows_all = fields.flag("allow_all", report) == Some(true);
        let has_filters = fields.value("filters").is_some();
        let items = fields.list("filters", report);
        let filters: Option<Vec<RowFilter>> = items.iter().map(|item| RowFilter::read(item, report)).collect();
        fields.end(report);
        if allows_all == has_filters {
            report.problem(&node.place, "`row_level` has `filters`, or `allow_all: true`");
            return None;
        }
        Some(if allows_all { RowLevel::All } else { RowLevel::Where(filters?) })
    }
}

impl RowFilter {
    fn read(node: &Node, report: &mut Report) -> Option<RowFilter> {
        let mut fields = Fields::complete(node, "a filter", report)?;
        for (key, join) in [("and", RowFilter::And as fn(Vec<RowFilter>) -> RowFilter), ("or", RowFilter::Or)] {
            if fields.value(key).is_some() {
                let items = fields.list(key, report);
                fields.end(report);
                let filters: Option<Vec<RowFilter>> = items.iter().map(|item| RowFilter::read(item, report)).collect();
                return filters.map(join);
            }
        }
        let member = fields.required("member", report).and_then(|text| read_path(&text, report));
        let operator = fields.required_word("operator", &OPERATORS, report);
        let values: Option<Vec<PolicyValue>> = match fields.value("values") {
            None => Some(Vec::new()),
            Some(Node { value: Value::List(items), .. }) => items.iter().map(|item| read_value(item, report)).collect(),
            // What is no list is an expression, with braces or without.
            Some(item) => match &item.value {
                Value::Text(text) if claim(text).is_some() => claim(text).map(|claim| vec![PolicyValue::Claim(claim)]),
                _ => read_value(item, report).map(|value| vec![value]),
            },
        };
        fields.end(report);
        let ((place, member), operator, values) = (member?, operator?, values?);
        if operator.is_unary() != values.is_empty() {
            let message = if values.is_empty() {
                "a filter of this operator has `values`"
            } else {
                "a filter of this operator has no `values`"
            };
            report.problem(&node.place, message);
            return None;
        }
        let is_date = |text: &String| Range::between_instants(&[text], Tz::UTC).is_ok();
        let mut texts = values.iter().filter_map(|value| match value {
            PolicyValue::Text(text) => Some(text),
            PolicyValue::Null | PolicyValue::Claim(_) => None,
        });
        if operator.is_of_dates() && !texts.all(is_date) {
            let hint = "a policy holds at any time: write `2024-01-31`, not `today`";
            report.problem_with_hint(&node.place, "a value of this operator is no date", hint);
            return None;
        }
        Some(RowFilter::Member { place, member, operator, values })
    }
}

/// A value, or what the security context says: `{ security_context.tenant }`.
fn read_value(node: &Node, report: &mut Report) -> Option<PolicyValue> {
    match &node.value {
        Value::Null => Some(PolicyValue::Null),
        Value::Bool(flag) => Some(PolicyValue::Text(flag.to_string())),
        Value::Number(number) => Some(PolicyValue::Text(number.to_string())),
        Value::Text(text) => {
            if !text.contains(['{', '}']) {
                return Some(PolicyValue::Text(text.clone()));
            }
            let inside = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let claim = inside.and_then(claim);
            if claim.is_none() {
                let hint = "write `{ security_context.name }` and nothing beside it";
                report.problem_with_hint(&node.place, format!("`{text}` is no value of the security context"), hint);
            }
            claim.map(PolicyValue::Claim)
        }
        Value::List(_) | Value::Map(_) => {
            report.problem(&node.place, format!("a value of a filter, and here is {}", node.kind()));
            None
        }
    }
}

/// The names of a claim: what comes after `security_context`.
fn claim(text: &str) -> Option<Path> {
    match Path::new(text)?.0.split_first() {
        Some((first, rest)) if is_context(first) && !rest.is_empty() => Some(Path(rest.to_vec())),
        _ => None,
    }
}

fn is_context(name: &str) -> bool {
    ["security_context", "securityContext", "SECURITY_CONTEXT"].contains(&name)
}
