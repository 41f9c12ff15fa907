//! Filters of a query.

use crate::operator::Operator;
use crate::query::Name;
use crate::query::dates::{Clock, Range, printed};
use crate::query::error::QueryError;
use chrono::NaiveDateTime;
use serde_json::{Map, Value};
use std::fmt;

/// A condition on members.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// At least one.
    And(Vec<Filter>),
    /// At least one.
    Or(Vec<Filter>),
    Member(Name, Condition),
}

/// What is said of a member's value. What is NULL passes only where it is said so.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// One of them; NULL if one of them is. Nothing is one of none.
    Equals(Vec<Option<String>>),
    /// None of them; NULL passes unless one of them is.
    NotEquals(Vec<Option<String>>),
    /// One of them is in the text, whatever its case.
    Contains(Vec<String>, Placement),
    /// None of them is; NULL passes.
    NotContains(Vec<String>, Placement),
    Greater(String),
    GreaterOrEqual(String),
    Less(String),
    LessOrEqual(String),
    IsSet,
    IsNotSet,
    In(Range),
    /// NULL passes.
    NotIn(Range),
    /// Before the beginning of a day, or before a time.
    Before(NaiveDateTime),
    /// Until the end of a day, or at that time or before.
    UpTo(NaiveDateTime),
    /// After the end of a day, or after a time.
    After(NaiveDateTime),
    /// Not of a measure's value, but of rows: it is one of those that the measure counts, by its own filters.
    Counted,
    /// From the beginning of a day on, or at that time or later.
    From(NaiveDateTime),
}

/// Where in a text another one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    Anywhere,
    Start,
    End,
}

impl Filter {
    /// The members that it is about.
    pub fn names(&self) -> Vec<&Name> {
        match self {
            Filter::And(filters) | Filter::Or(filters) => filters.iter().flat_map(Filter::names).collect(),
            Filter::Member(name, _) => vec![name],
        }
    }

    /// A filter in Cube's JSON.
    pub fn read(value: &Value, clock: Clock) -> Result<Filter, QueryError> {
        let Value::Object(filter) = value else { return Err(QueryError::form("a filter is an object")) };
        for (key, join) in [("and", Filter::And as fn(Vec<Filter>) -> Filter), ("or", Filter::Or)] {
            let Some(items) = filter.get(key) else { continue };
            if let Some(other) = filter.keys().find(|other| *other != key) {
                return Err(QueryError::form(format!("\"{other}\" is not allowed beside \"{key}\"")));
            }
            let Value::Array(items) = items else {
                return Err(QueryError::form(format!("\"{key}\" must be an array")));
            };
            if items.is_empty() {
                return Err(QueryError::form(format!("\"{key}\" is empty")));
            }
            return Ok(join(items.iter().map(|item| Filter::read(item, clock)).collect::<Result<_, _>>()?));
        }
        read_member(filter, value, clock)
    }
}

fn read_member(filter: &Map<String, Value>, whole: &Value, clock: Clock) -> Result<Filter, QueryError> {
    let known = ["member", "dimension", "operator", "values"];
    if let Some(other) = filter.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(QueryError::form(format!("\"{other}\" is not allowed in a filter")));
    }
    let name = match (filter.get("member"), filter.get("dimension")) {
        (Some(Value::String(name)), None) | (None, Some(Value::String(name))) => Name::new(name),
        _ => None,
    };
    let name = name.ok_or_else(|| QueryError::form(format!("a filter has a \"member\": {whole}")))?;
    let Some(Value::String(operator)) = filter.get("operator") else {
        return Err(QueryError::invalid(format!("Operator required for filter: {whole}")));
    };
    let Some(kind) = Operator::named(operator) else {
        return Err(QueryError::invalid(format!("Operator {operator} not supported for filter: {whole}")));
    };
    let values = match filter.get("values") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(read_value).collect::<Result<Vec<_>, _>>()?,
        Some(_) => return Err(QueryError::form("\"values\" must be an array")),
    };
    if values.is_empty() && !kind.is_unary() {
        return Err(QueryError::invalid(format!("Values required for filter: {whole}")));
    }
    Ok(Filter::Member(name, Condition::new(kind, values, clock, whole)?))
}

/// A value as text: what it is compared with decides what it is.
fn read_value(value: &Value) -> Result<Option<String>, QueryError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Bool(_) | Value::Number(_) => Ok(Some(value.to_string())),
        Value::Array(_) | Value::Object(_) => Err(QueryError::form(format!("{value} is no value of a filter"))),
    }
}

impl Condition {
    /// What an operator says with some values; `whole` is for errors.
    pub fn new(
        operator: Operator,
        values: Vec<Option<String>>,
        clock: Clock,
        whole: &dyn fmt::Display,
    ) -> Result<Condition, QueryError> {
        let texts = |values: Vec<Option<String>>| {
            let texts: Option<Vec<String>> = values.into_iter().collect();
            texts.ok_or_else(|| QueryError::invalid(format!("null is nothing to compare with: {whole}")))
        };
        let one = |values: Vec<Option<String>>| match texts(values)?.as_slice() {
            [one] => Ok(one.clone()),
            _ => Err(QueryError::invalid(format!("one value is compared with: {whole}"))),
        };
        let range = |values: Vec<Option<String>>| match texts(values)?.as_slice() {
            [words] => Range::in_words(words, clock),
            ends => Range::between_instants(&ends.iter().map(String::as_str).collect::<Vec<_>>(), clock.zone),
        };
        // A date is a day: before it is before its beginning, and after it after its end.
        let day = |values: Vec<Option<String>>| {
            let text = one(values)?;
            Range::between_instants(&[&text], clock.zone).or_else(|_| Range::in_words(&text, clock))
        };
        Ok(match operator {
            Operator::Equals => Condition::Equals(values),
            Operator::NotEquals => Condition::NotEquals(values),
            Operator::Contains => Condition::Contains(texts(values)?, Placement::Anywhere),
            Operator::NotContains => Condition::NotContains(texts(values)?, Placement::Anywhere),
            Operator::StartsWith => Condition::Contains(texts(values)?, Placement::Start),
            Operator::NotStartsWith => Condition::NotContains(texts(values)?, Placement::Start),
            Operator::EndsWith => Condition::Contains(texts(values)?, Placement::End),
            Operator::NotEndsWith => Condition::NotContains(texts(values)?, Placement::End),
            Operator::Gt => Condition::Greater(one(values)?),
            Operator::Gte => Condition::GreaterOrEqual(one(values)?),
            Operator::Lt => Condition::Less(one(values)?),
            Operator::Lte => Condition::LessOrEqual(one(values)?),
            Operator::Set => Condition::IsSet,
            Operator::NotSet => Condition::IsNotSet,
            Operator::InDateRange => Condition::In(range(values)?),
            Operator::NotInDateRange => Condition::NotIn(range(values)?),
            Operator::BeforeDate => Condition::Before(day(values)?.from),
            Operator::BeforeOrOnDate => Condition::UpTo(day(values)?.last),
            Operator::AfterDate => Condition::After(day(values)?.last),
            Operator::AfterOrOnDate => Condition::From(day(values)?.from),
            Operator::MeasureFilter => Condition::Counted,
        })
    }

    /// The operator and the values that say it; nothing in them is relative.
    pub(super) fn told(&self) -> (Operator, Vec<Option<String>>) {
        let texts = |texts: &[String]| texts.iter().cloned().map(Some).collect();
        let text = |text: &String| vec![Some(text.clone())];
        let time = |time: &NaiveDateTime| vec![Some(printed(*time))];
        let range = |range: &Range| vec![Some(printed(range.from)), Some(printed(range.last))];
        match self {
            Condition::Equals(values) => (Operator::Equals, values.clone()),
            Condition::NotEquals(values) => (Operator::NotEquals, values.clone()),
            Condition::Contains(values, Placement::Anywhere) => (Operator::Contains, texts(values)),
            Condition::Contains(values, Placement::Start) => (Operator::StartsWith, texts(values)),
            Condition::Contains(values, Placement::End) => (Operator::EndsWith, texts(values)),
            Condition::NotContains(values, Placement::Anywhere) => (Operator::NotContains, texts(values)),
            Condition::NotContains(values, Placement::Start) => (Operator::NotStartsWith, texts(values)),
            Condition::NotContains(values, Placement::End) => (Operator::NotEndsWith, texts(values)),
            Condition::Greater(value) => (Operator::Gt, text(value)),
            Condition::GreaterOrEqual(value) => (Operator::Gte, text(value)),
            Condition::Less(value) => (Operator::Lt, text(value)),
            Condition::LessOrEqual(value) => (Operator::Lte, text(value)),
            Condition::IsSet => (Operator::Set, Vec::new()),
            Condition::IsNotSet => (Operator::NotSet, Vec::new()),
            Condition::In(within) => (Operator::InDateRange, range(within)),
            Condition::NotIn(within) => (Operator::NotInDateRange, range(within)),
            Condition::Before(at) => (Operator::BeforeDate, time(at)),
            Condition::UpTo(at) => (Operator::BeforeOrOnDate, time(at)),
            Condition::After(at) => (Operator::AfterDate, time(at)),
            Condition::From(at) => (Operator::AfterOrOnDate, time(at)),
            Condition::Counted => (Operator::MeasureFilter, Vec::new()),
        }
    }
}
