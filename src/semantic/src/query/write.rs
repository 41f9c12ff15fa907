//! A query as Cube's JSON in which nothing is relative and nothing is left out: [`Query::read`] makes the same query of it.

use crate::query::dates::printed;
use crate::query::{Direction, Filter, Format, Limit, Query, Rows, TimeDimension, Total};
use serde_json::{Map, Value, json};

impl Query {
    /// The query, as it can be asked again at any time.
    pub fn json(&self) -> Map<String, Value> {
        let order = self.order.iter().map(|(key, direction)| json!([key.to_string(), word(*direction)]));
        let order = Value::Array(order.collect());
        self.told(order)
    }

    /// The query, as Cube's clients are told of it.
    pub fn normalized(&self) -> Map<String, Value> {
        let desc = |direction: Direction| direction == Direction::Descending;
        let order =
            self.order.iter().map(|(key, direction)| json!({"id": key.name.to_string(), "desc": desc(*direction)}));
        let mut told = self.told(Value::Array(order.collect()));
        if let Some(limit) = told.get("limit").cloned() {
            told.insert("rowLimit".to_owned(), limit);
        }
        told
    }

    /// What it is ordered by, by name, which for Cube's clients is a dimension's also where that is cut off.
    pub fn order_by_name(&self) -> Map<String, Value> {
        self.order.iter().map(|(key, direction)| (key.name.to_string(), json!(word(*direction)))).collect()
    }

    fn told(&self, order: Value) -> Map<String, Value> {
        let names = |names: &[super::Name]| Value::Array(names.iter().map(|name| json!(name.to_string())).collect());
        let times = self.time_dimensions.iter().map(time_dimension).collect();
        let mut told = Map::new();
        let mut put = |key: &str, value: Value| told.insert(key.to_owned(), value);
        put("measures", names(&self.measures));
        put("dimensions", names(&self.dimensions));
        put("timeDimensions", Value::Array(times));
        put("filters", Value::Array(self.filters.iter().map(filter).collect()));
        put("segments", names(&self.segments));
        put("order", order);
        if let Limit::Asked(limit) | Limit::Default(Some(limit)) = self.limit {
            put("limit", json!(limit));
        }
        if self.offset > 0 {
            put("offset", json!(self.offset));
        }
        put("timezone", json!(self.zone.name()));
        if self.rows == Rows::Ungrouped {
            put("ungrouped", json!(true));
        }
        if self.total == Total::Asked {
            put("total", json!(true));
        }
        match self.format {
            Format::Objects => {}
            Format::Compact => drop(put("responseFormat", json!("compact"))),
            Format::Columnar => drop(put("responseFormat", json!("columnar"))),
        }
        told
    }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Ascending => "asc",
        Direction::Descending => "desc",
    }
}

fn time_dimension(of: &TimeDimension) -> Value {
    let mut told = Map::new();
    told.insert("dimension".to_owned(), json!(of.dimension.to_string()));
    if let Some(granularity) = &of.granularity {
        told.insert("granularity".to_owned(), json!(granularity));
    }
    if let Some(range) = &of.range {
        told.insert("dateRange".to_owned(), json!([printed(range.from), printed(range.last)]));
    }
    Value::Object(told)
}

fn filter(filter: &Filter) -> Value {
    let all = |filters: &[Filter]| Value::Array(filters.iter().map(self::filter).collect());
    match filter {
        Filter::And(filters) => json!({"and": all(filters)}),
        Filter::Or(filters) => json!({"or": all(filters)}),
        Filter::Member(name, condition) => {
            let (operator, values) = condition.told();
            let mut told = Map::new();
            told.insert("member".to_owned(), json!(name.to_string()));
            told.insert("operator".to_owned(), json!(operator.name()));
            if !operator.is_unary() {
                told.insert("values".to_owned(), json!(values));
            }
            Value::Object(told)
        }
    }
}
