//! Reads a query in Cube's JSON. What is not known there is refused, as in Cube: a key that does nothing would be an answer to another
//! question.

use crate::query::dates::{Clock, Range};
use crate::query::error::QueryError;
use crate::query::filter::Filter;
use crate::query::{Direction, Format, Key, Limit, Limits, Name, Query, Request, Rows, TimeDimension, Total, is_word};
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde_json::{Map, Value};

/// Keys of a query. Where an answer is cached is nobody's question here, since it is always fresh.
const KEYS: [&str; 16] = [
    "measures",
    "dimensions",
    "timeDimensions",
    "filters",
    "segments",
    "order",
    "limit",
    "offset",
    "timezone",
    "total",
    "ungrouped",
    "responseFormat",
    "cache",
    "cacheMode",
    "renewQuery",
    "joinHints",
];
const CACHE_MODES: [&str; 4] = ["stale-if-slow", "stale-while-revalidate", "must-revalidate", "no-cache"];

/// Each is a query of its own.
const COMPARED_MAX: usize = 100;

/// A time dimension and the ranges to compare, if there are any.
type Compared = (TimeDimension, Vec<Range>);

impl Query {
    /// What a request asks. `now` is what is relative to, and without it nothing is; `limits` are the door's.
    pub fn read(value: &Value, now: Option<DateTime<Utc>>, limits: Limits) -> Result<Request, QueryError> {
        let query = match value {
            Value::Object(query) => query,
            Value::Array(_) => {
                return Err(QueryError::invalid("Data blending is not supported: send one query at a time"));
            }
            _ => return Err(QueryError::form("a query is an object")),
        };
        if let Some(key) = query.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(QueryError::form(format!("\"{key}\" is not allowed")));
        }
        if query.get("joinHints").is_some_and(|hints| hints.as_array().is_none_or(|hints| !hints.is_empty())) {
            return Err(QueryError::invalid("\"joinHints\" is not supported: ask a view"));
        }
        for key in ["cache", "cacheMode"] {
            if query.get(key).is_some_and(|mode| mode.as_str().is_none_or(|mode| !CACHE_MODES.contains(&mode))) {
                return Err(QueryError::form(format!("\"{key}\" must be one of [{}]", CACHE_MODES.join(", "))));
            }
        }
        read_flag(query, "renewQuery")?;
        let zone = read_zone(query)?;
        let clock = Clock { now, zone };
        let (dimensions, buckets) = read_dimensions(query)?;
        let mut compared: Vec<Compared> = items(query, "timeDimensions")?
            .iter()
            .map(|item| read_time_dimension(item, clock))
            .collect::<Result<_, _>>()?;
        let is_new = |bucket: &TimeDimension| {
            let is_it = |(known, _): &Compared| {
                (&known.dimension, &known.granularity) == (&bucket.dimension, &bucket.granularity)
            };
            !compared.iter().any(is_it)
        };
        let buckets: Vec<TimeDimension> = buckets.into_iter().filter(is_new).collect();
        compared.extend(buckets.into_iter().map(|bucket| (bucket, Vec::new())));
        let time_dimensions = compared.iter().map(|(dimension, _)| dimension.clone()).collect();
        let filters =
            items(query, "filters")?.iter().map(|item| Filter::read(item, clock)).collect::<Result<_, _>>()?;
        let mut read = Query {
            measures: read_names(query, "measures")?,
            dimensions,
            time_dimensions,
            filters,
            segments: read_names(query, "segments")?,
            order: Vec::new(),
            limit: read_limit(query, limits)?,
            offset: read_number(query, "offset")?.unwrap_or(0),
            zone,
            rows: if read_flag(query, "ungrouped")? { Rows::Ungrouped } else { Rows::Grouped },
            total: if read_flag(query, "total")? { Total::Asked } else { Total::NotAsked },
            format: read_format(query)?,
        };
        read.shows_something()?;
        // As in Cube, what is not asked for is no order.
        let asked = read_order(query)?.map(|order| order.into_iter().filter(|(key, _)| read.shows(key)).collect());
        read.order = asked.unwrap_or_else(|| read.default_order());
        read.for_each_range(compared)
    }

    /// Whether a key is a column of the result.
    fn shows(&self, key: &Key) -> bool {
        let is_bucket = |of: &TimeDimension| {
            of.dimension == key.name
                && of.granularity.is_some()
                && (key.granularity.is_none() || key.granularity == of.granularity)
        };
        let is_plain = key.granularity.is_none();
        (is_plain && (self.measures.contains(&key.name) || self.dimensions.contains(&key.name)))
            || self.time_dimensions.iter().any(is_bucket)
    }

    fn shows_something(&self) -> Result<(), QueryError> {
        let has_bucket = self.time_dimensions.iter().any(|dimension| dimension.granularity.is_some());
        if self.measures.is_empty() && self.dimensions.is_empty() && !has_bucket {
            return Err(QueryError::invalid(
                "Query should contain either measures, dimensions or timeDimensions with granularities in order to be valid",
            ));
        }
        Ok(())
    }

    /// By the first bucket of time; else by the first measure, the largest first, if there are groups; else by the first dimension.
    fn default_order(&self) -> Vec<(Key, Direction)> {
        let bucket = self.time_dimensions.iter().find(|dimension| dimension.granularity.is_some());
        let key = |name: &Name| Key { name: name.clone(), granularity: None };
        match (bucket, self.measures.first(), self.dimensions.first()) {
            (Some(bucket), ..) => {
                let key = Key { name: bucket.dimension.clone(), granularity: bucket.granularity.clone() };
                vec![(key, Direction::Ascending)]
            }
            (None, Some(measure), Some(_)) => vec![(key(measure), Direction::Descending)],
            (None, None, Some(dimension)) => vec![(key(dimension), Direction::Ascending)],
            (None, _, None) => Vec::new(),
        }
    }

    /// The query for each of the ranges that are compared.
    fn for_each_range(self, compared: Vec<Compared>) -> Result<Request, QueryError> {
        let mut with_ranges = compared.into_iter().enumerate().filter(|(_, (_, ranges))| !ranges.is_empty());
        let Some((at, (_, ranges))) = with_ranges.next() else { return Ok(Request::Regular(self)) };
        if with_ranges.next().is_some() {
            return Err(QueryError::invalid("compareDateRange can only exist for one timeDimension"));
        }
        let queries = ranges.into_iter().map(|range| {
            let mut query = self.clone();
            query.time_dimensions[at].range = Some(range);
            query
        });
        Ok(Request::CompareDateRange(queries.collect()))
    }
}

/// A list, which is empty if it is not there.
fn items<'a>(query: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], QueryError> {
    match query.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(QueryError::form(format!("\"{key}\" must be an array"))),
    }
}

fn read_names(query: &Map<String, Value>, key: &str) -> Result<Vec<Name>, QueryError> {
    let names = items(query, key)?.iter().map(|item| item.as_str().and_then(Name::new));
    let names: Option<Vec<Name>> = names.collect();
    let names = names.ok_or_else(|| QueryError::form(format!("\"{key}\" must be names of members, cube.member")))?;
    Ok(each_once(names))
}

/// Who asks for something twice gets it once: a row has each name once.
fn each_once<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut once = Vec::with_capacity(all.len());
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// Dimensions, and those with a granularity behind their name, which are time dimensions.
fn read_dimensions(query: &Map<String, Value>) -> Result<(Vec<Name>, Vec<TimeDimension>), QueryError> {
    let (mut plain, mut buckets) = (Vec::new(), Vec::new());
    for item in items(query, "dimensions")? {
        match item.as_str().and_then(key) {
            Some(Key { name, granularity: None }) => plain.push(name),
            Some(Key { name, granularity }) => {
                buckets.push(TimeDimension { dimension: name, granularity, range: None })
            }
            None => return Err(QueryError::form("\"dimensions\" must be names of members, cube.member")),
        }
    }
    Ok((each_once(plain), each_once(buckets)))
}

/// `cube.member` or `cube.member.granularity`.
fn key(text: &str) -> Option<Key> {
    match text.match_indices('.').nth(1) {
        None => Some(Key { name: Name::new(text)?, granularity: None }),
        Some((at, _)) => {
            // The granularity is a name as well.
            let granularity = Name::new(&format!("_{}", &text[at..]))?.member;
            Some(Key { name: Name::new(&text[..at])?, granularity: Some(granularity) })
        }
    }
}

fn read_time_dimension(value: &Value, clock: Clock) -> Result<Compared, QueryError> {
    let Value::Object(fields) = value else { return Err(QueryError::form("a time dimension is an object")) };
    let known = ["dimension", "granularity", "dateRange", "compareDateRange"];
    if let Some(other) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(QueryError::form(format!("\"{other}\" is not allowed in a time dimension")));
    }
    let dimension = fields.get("dimension").and_then(Value::as_str).and_then(Name::new);
    let dimension = dimension.ok_or_else(|| QueryError::form("a time dimension has a \"dimension\""))?;
    let granularity = match fields.get("granularity") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) if is_word(name) => Some(name.clone()),
        Some(_) => return Err(QueryError::form("\"granularity\" must be a name")),
    };
    let present = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let ranges = match (present("dateRange"), present("compareDateRange")) {
        (Some(_), Some(_)) => {
            return Err(QueryError::form("\"dateRange\" and \"compareDateRange\" exclude each other"));
        }
        (None, None) => (None, Vec::new()),
        (Some(range), None) => (Some(read_range(range, clock)?), Vec::new()),
        (None, Some(Value::Array(ranges))) if ranges.len() > COMPARED_MAX => {
            return Err(QueryError::invalid(format!("compareDateRange compares {COMPARED_MAX} ranges at most")));
        }
        (None, Some(Value::Array(ranges))) if !ranges.is_empty() => {
            (None, ranges.iter().map(|range| read_range(range, clock)).collect::<Result<_, _>>()?)
        }
        (None, Some(_)) => return Err(QueryError::form("\"compareDateRange\" must be an array of ranges")),
    };
    Ok((TimeDimension { dimension, granularity, range: ranges.0 }, ranges.1))
}

fn read_range(value: &Value, clock: Clock) -> Result<Range, QueryError> {
    match value {
        Value::String(words) => Range::in_words(words, clock),
        Value::Array(ends) => {
            let ends: Option<Vec<&str>> = ends.iter().map(Value::as_str).collect();
            Range::between(&ends.ok_or_else(|| QueryError::form("dates are strings"))?)
        }
        _ => Err(QueryError::form("a range of dates is a string or an array")),
    }
}

/// None if the query says nothing; an empty order is one.
fn read_order(query: &Map<String, Value>) -> Result<Option<Vec<(Key, Direction)>>, QueryError> {
    let wrong = || QueryError::form("\"order\" must name members, each with \"asc\" or \"desc\"");
    let entry = |name: &str, direction: &Value| {
        let direction = match direction.as_str() {
            Some("asc") => Direction::Ascending,
            Some("desc") => Direction::Descending,
            _ => return Err(wrong()),
        };
        Ok((key(name).ok_or_else(wrong)?, direction))
    };
    match query.get("order") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(order)) => {
            order.iter().map(|(name, direction)| entry(name, direction)).collect::<Result<_, _>>().map(Some)
        }
        Some(Value::Array(order)) => {
            let entries = order.iter().map(|item| match item.as_array().map(Vec::as_slice) {
                Some([Value::String(name), direction]) => entry(name, direction),
                _ => Err(wrong()),
            });
            entries.collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(wrong()),
    }
}

fn read_limit(query: &Map<String, Value>, limits: Limits) -> Result<Limit, QueryError> {
    match read_number(query, "limit")? {
        None => Ok(Limit::Default(limits.default.min(limits.max).or(limits.default).or(limits.max))),
        Some(limit) if limits.max.is_some_and(|max| limit > max) => {
            Err(QueryError::invalid("The query limit has been exceeded."))
        }
        Some(limit) => Ok(Limit::Asked(limit)),
    }
}

fn read_number(query: &Map<String, Value>, key: &str) -> Result<Option<u64>, QueryError> {
    match query.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            // PostgreSQL's largest.
            let number = value.as_u64().filter(|number| i64::try_from(*number).is_ok());
            let number =
                number.ok_or_else(|| QueryError::form(format!("\"{key}\" must be a whole number, not negative")))?;
            Ok(Some(number))
        }
    }
}

fn read_flag(query: &Map<String, Value>, key: &str) -> Result<bool, QueryError> {
    match query.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(QueryError::form(format!("\"{key}\" must be a boolean"))),
    }
}

fn read_zone(query: &Map<String, Value>) -> Result<Tz, QueryError> {
    match query.get("timezone") {
        None | Some(Value::Null) => Ok(Tz::UTC),
        Some(value) => {
            let named =
                |name: &str| chrono_tz::TZ_VARIANTS.into_iter().find(|zone| zone.name().eq_ignore_ascii_case(name));
            let zone = value.as_str().and_then(|name| name.parse().ok().or_else(|| named(name)));
            zone.ok_or_else(|| QueryError::form(format!("\"timezone\" must be a valid IANA time zone, got {value}")))
        }
    }
}

fn read_format(query: &Map<String, Value>) -> Result<Format, QueryError> {
    match query.get("responseFormat").map(Value::as_str) {
        None | Some(Some("default")) => Ok(Format::Objects),
        Some(Some("compact")) => Ok(Format::Compact),
        Some(Some("columnar")) => Ok(Format::Columnar),
        Some(_) => Err(QueryError::form("\"responseFormat\" must be one of [default, compact, columnar]")),
    }
}
