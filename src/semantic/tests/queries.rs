//! Queries in Cube's JSON: what they ask, and what is refused.

use glimpse_semantic::query::dates::printed;
use glimpse_semantic::query::{Condition, Direction, Filter, Limit, Limits, Placement, Query, Request, Rows};
use serde_json::{Value, json};

const LIMITS: Limits = Limits { default: Some(10_000), max: Some(50_000) };

fn read(query: &Value) -> Result<Request, String> {
    let now = "2024-03-13T05:06:07.890Z".parse().expect("a time");
    Query::read(query, Some(now), LIMITS).map_err(|error| error.to_string())
}

fn regular(query: &Value) -> Query {
    match read(query) {
        Ok(Request::Regular(query)) => query,
        other => panic!("{query}: {other:?}"),
    }
}

fn order(query: &Value) -> Vec<(String, Direction)> {
    regular(query).order.into_iter().map(|(key, direction)| (key.to_string(), direction)).collect()
}

#[test]
fn what_is_left_out_is_said() {
    let query = regular(&json!({"measures": ["o.n"], "renewQuery": true, "cache": "no-cache"}));
    assert_eq!((query.limit, query.offset, query.zone.name()), (Limit::Default(Some(10_000)), 0, "UTC"));
    assert_eq!((query.rows, query.order.len()), (Rows::Grouped, 0));
    assert_eq!(regular(&json!({"measures": ["o.n"], "timezone": "america/new_york"})).zone.name(), "America/New_York");
    let query = regular(&json!({"dimensions": ["o.a", "o.at.month"], "limit": 50_000, "ungrouped": true}));
    assert_eq!((query.limit, query.rows), (Limit::Asked(50_000), Rows::Ungrouped));
    assert_eq!((query.dimensions.len(), query.time_dimensions[0].granularity.as_deref()), (1, Some("month")));
}

#[test]
fn the_default_order_is_cubes() {
    let (asc, desc) = (Direction::Ascending, Direction::Descending);
    let at = json!({"dimension": "o.at", "granularity": "day"});
    let cases = [
        (json!({"measures": ["o.n"], "dimensions": ["o.a"], "timeDimensions": [at]}), vec![("o.at.day", asc)]),
        (json!({"measures": ["o.n", "o.m"], "dimensions": ["o.a"]}), vec![("o.n", desc)]),
        (json!({"dimensions": ["o.a", "o.b"]}), vec![("o.a", asc)]),
        (json!({"measures": ["o.n"], "timeDimensions": [{"dimension": "o.at", "dateRange": "today"}]}), vec![]),
        (json!({"measures": ["o.n"], "dimensions": ["o.a"], "order": {}}), vec![]),
        (json!({"measures": ["o.n"], "dimensions": ["o.a"], "order": []}), vec![]),
        (
            json!({"dimensions": ["o.a", "o.b"], "order": {"o.b": "desc", "o.a": "asc"}}),
            vec![("o.b", desc), ("o.a", asc)],
        ),
        // What is not asked for is no order.
        (
            json!({"dimensions": ["o.a", "o.at.day"], "order": [["o.at.day", "asc"], ["o.at", "asc"], ["o.b", "asc"], ["o.at.month", "asc"]]}),
            vec![("o.at.day", asc), ("o.at", asc)],
        ),
    ];
    for (query, expected) in cases {
        let expected: Vec<(String, Direction)> = expected.into_iter().map(|(key, way)| (key.to_owned(), way)).collect();
        assert_eq!(order(&query), expected, "{query}");
    }
}

#[test]
fn ranges_are_two_local_times() {
    let query = regular(&json!({
        "measures": ["o.n"], "timezone": "America/Los_Angeles",
        "timeDimensions": [{"dimension": "o.at", "granularity": "day", "dateRange": ["2024-01-01", "2024-01-31"]},
                           {"dimension": "o.until", "dateRange": "today"}],
    }));
    let ranges: Vec<[String; 2]> = query
        .time_dimensions
        .iter()
        .filter_map(|dimension| dimension.range)
        .map(|range| [printed(range.from), printed(range.last)])
        .collect();
    // Five in the morning in Greenwich is the evening before in Los Angeles.
    let expected = [
        ["2024-01-01T00:00:00.000", "2024-01-31T23:59:59.999"],
        ["2024-03-12T00:00:00.000", "2024-03-12T23:59:59.999"],
    ];
    assert_eq!(ranges, expected);
}

#[test]
fn ranges_that_are_compared_are_queries_of_their_own() {
    let request = read(&json!({
        "measures": ["o.n"],
        "timeDimensions": [{"dimension": "o.at", "granularity": "day", "compareDateRange": ["this week", ["2024-01-01", "2024-01-07"]]}],
    }));
    let Ok(Request::CompareDateRange(queries)) = request else { panic!("{request:?}") };
    let from: Vec<String> =
        queries.iter().filter_map(|query| query.time_dimensions[0].range).map(|range| printed(range.from)).collect();
    assert_eq!(from, ["2024-03-11T00:00:00.000", "2024-01-01T00:00:00.000"]);
}

fn condition(operator: &str, values: &Value) -> Result<Condition, String> {
    let filter = json!({"member": "o.a", "operator": operator, "values": values});
    match read(&json!({"measures": ["o.n"], "filters": [filter]}))? {
        Request::Regular(query) => match &query.filters[..] {
            [Filter::Member(name, condition)] if name.to_string() == "o.a" => Ok(condition.clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn operators_are_conditions() {
    let text = |text: &str| Some(text.to_owned());
    let both = json!(["a", null, 1, true]);
    let values = vec![text("a"), None, text("1"), text("true")];
    assert_eq!(condition("equals", &both), Ok(Condition::Equals(values.clone())));
    assert_eq!(condition("in", &both), Ok(Condition::Equals(values.clone())));
    assert_eq!(condition("notIn", &both), Ok(Condition::NotEquals(values)));
    let contains = Condition::Contains(vec!["50%_".to_owned()], Placement::End);
    assert_eq!(condition("endsWith", &json!(["50%_"])), Ok(contains));
    assert_eq!(condition("lte", &json!([7])), Ok(Condition::LessOrEqual("7".to_owned())));
    assert_eq!(condition("set", &json!([])), Ok(Condition::IsSet));
    let time = |text: &str| text.parse().expect("a time");
    let first = time("2024-01-05T00:00:00");
    let last = time("2024-01-05T23:59:59.999");
    let next = time("2024-01-06T00:00:00");
    let date = json!(["2024-01-05"]);
    assert_eq!(condition("beforeDate", &date), Ok(Condition::Before(first)));
    assert_eq!(condition("beforeOrOnDate", &date), Ok(Condition::UpTo(last)));
    assert_eq!(condition("afterDate", &date), Ok(Condition::After(last)));
    assert_eq!(condition("afterOrOnDate", &date), Ok(Condition::From(first)));
    let is_day = |condition: &Condition| matches!(condition, Condition::In(range) if range.from == first && range.until() == next);
    for operator in ["onTheDate", "inDateRange"] {
        assert!(condition(operator, &date).as_ref().is_ok_and(is_day), "{operator}");
    }
    assert!(matches!(condition("notInDateRange", &json!(["last week"])), Ok(Condition::NotIn(_))));
}

#[test]
fn what_is_not_understood_is_refused() {
    let with = |key: &str, value: Value| {
        let mut query = json!({"measures": ["o.n"]});
        query[key] = value;
        query
    };
    let filter = |value: Value| with("filters", json!([value]));
    let cases = [
        (
            json!({}),
            "Query should contain either measures, dimensions or timeDimensions with granularities in order to be valid",
        ),
        (json!({"timeDimensions": [{"dimension": "o.at", "dateRange": "today"}]}), "Query should contain either"),
        (json!([{"measures": ["o.n"]}]), "Data blending is not supported"),
        (json!("x"), "Invalid query format"),
        (with("limt", json!(1)), "Invalid query format: \"limt\" is not allowed"),
        (with("subqueryJoins", json!([])), "\"subqueryJoins\" is not allowed"),
        (with("joinHints", json!([["a", "b"]])), "\"joinHints\" is not supported"),
        (with("limit", json!(-1)), "\"limit\" must be a whole number"),
        (with("limit", json!("10")), "\"limit\" must be a whole number"),
        (with("limit", json!(50_001)), "The query limit has been exceeded."),
        (with("offset", json!(1.5)), "\"offset\" must be a whole number"),
        (with("offset", json!(u64::MAX)), "\"offset\" must be a whole number"),
        (with("timezone", json!("Mars/Base")), "must be a valid IANA time zone"),
        (with("dimensions", json!(["a"])), "\"dimensions\" must be names of members"),
        (with("dimensions", json!(["a.b.c.d"])), "\"dimensions\" must be names of members"),
        (with("measures", json!([{"expression": []}])), "\"measures\" must be names of members"),
        (with("order", json!([["o.n", "up"]])), "\"order\" must name members"),
        (with("cache", json!("often")), "\"cache\" must be one of"),
        (with("responseFormat", json!("xml")), "\"responseFormat\" must be one of"),
        (
            with("timeDimensions", json!([{"dimension": "o.at", "dateRange": "some day"}])),
            "Can't parse date: 'some day'",
        ),
        (with("timeDimensions", json!([{"dimension": "o.at", "range": "today"}])), "\"range\" is not allowed"),
        (
            with("timeDimensions", json!([{"dimension": "o.at", "dateRange": "today", "compareDateRange": ["today"]}])),
            "exclude each other",
        ),
        (filter(json!({"member": "o.a"})), "Operator required for filter"),
        (
            filter(json!({"member": "o.a", "operator": "like", "values": ["x"]})),
            "Operator like not supported for filter",
        ),
        (with("timeDimensions", json!([{"dimension": "o.at", "granularity": ""}])), "\"granularity\" must be a name"),
        (
            with("timeDimensions", json!([{"dimension": "o.at", "dateRange": "next 9000 years"}])),
            "Can't parse date: 'next 9000 years'",
        ),
        (filter(json!({"member": "o.a", "operator": "equals", "values": []})), "Values required for filter"),
        (filter(json!({"member": "o.a", "operator": "gt", "values": [1, 2]})), "one value is compared with"),
        (filter(json!({"member": "o.a", "operator": "contains", "values": [null]})), "null is nothing to compare with"),
        (filter(json!({"member": "o.a", "operator": "inDateRange", "values": ["a", "b", "c"]})), "one or two dates"),
        (
            with("timeDimensions", json!([{"dimension": "o.at", "compareDateRange": vec!["today"; 101]}])),
            "compareDateRange compares 100 ranges at most",
        ),
        (filter(json!({"member": "o.a", "operator": "afterDate", "values": ["+262142-12-31"]})), "Can't parse date"),
        (filter(json!({"or": []})), "\"or\" is empty"),
        (filter(json!({"or": [{"member": "o.a", "operator": "set"}], "and": []})), "is not allowed beside"),
        (filter(json!({"operator": "set"})), "a filter has a \"member\""),
    ];
    for (query, message) in cases {
        let error = read(&query).expect_err("it is refused");
        assert!(error.contains(message), "{query}: {error}");
    }
}

#[test]
fn what_is_written_is_the_query_that_was_read() {
    let all = json!({
        "measures": ["o.n", "o.m"], "dimensions": ["o.a", "o.at.week"], "segments": ["o.s"], "timezone": "Europe/Berlin",
        "timeDimensions": [{"dimension": "o.at", "granularity": "day", "dateRange": "last 7 days"},
                           {"dimension": "o.until", "dateRange": ["2024-01-01", "2024-01-31T06:00:00.123"]}],
        "filters": [
            {"or": [{"member": "o.a", "operator": "equals", "values": ["x", null, 1.50, true]},
                    {"and": [{"member": "o.b", "operator": "notIn", "values": ["y"]},
                             {"dimension": "o.c", "operator": "set"}, {"member": "o.c", "operator": "notSet", "values": []}]}]},
            {"member": "o.a", "operator": "contains", "values": ["50%_", "\\"]},
            {"member": "o.a", "operator": "startsWith", "values": ["a"]}, {"member": "o.a", "operator": "endsWith", "values": ["a"]},
            {"member": "o.a", "operator": "notContains", "values": ["a"]},
            {"member": "o.a", "operator": "notStartsWith", "values": ["a"]}, {"member": "o.a", "operator": "notEndsWith", "values": ["a"]},
            {"member": "o.n", "operator": "gt", "values": [1]}, {"member": "o.n", "operator": "gte", "values": ["2"]},
            {"member": "o.n", "operator": "lt", "values": [3]}, {"member": "o.n", "operator": "lte", "values": [1e3]},
            {"member": "o.at", "operator": "inDateRange", "values": ["this month"]},
            {"member": "o.at", "operator": "notInDateRange", "values": ["2024-01-01T00:00:00Z", "2024-02-01"]},
            {"member": "o.at", "operator": "onTheDate", "values": ["yesterday"]},
            {"member": "o.at", "operator": "beforeDate", "values": ["today"]},
            {"member": "o.at", "operator": "beforeOrOnDate", "values": ["2024-01-31T10:11:12.345"]},
            {"member": "o.at", "operator": "afterDate", "values": ["last week"]},
            {"member": "o.at", "operator": "afterOrOnDate", "values": ["2024-01-31"]},
            {"member": "o.n", "operator": "measureFilter"},
        ],
        "order": [["o.m", "desc"], ["o.at.day", "asc"]], "limit": 7, "offset": 3, "total": true, "responseFormat": "compact",
    });
    let query = regular(&all);
    let written = Value::Object(query.json());
    // Nothing of it is relative.
    let again = Query::read(&written, None, Limits { default: None, max: None });
    assert_eq!(again, Ok(Request::Regular(query.clone())), "{written}");
    let normalized = query.normalized();
    assert_eq!(normalized["order"], json!([{"id": "o.m", "desc": true}, {"id": "o.at", "desc": false}]));
    assert_eq!((&normalized["limit"], &normalized["rowLimit"]), (&json!(7), &json!(7)));
    let week = ["2024-03-06T00:00:00.000", "2024-03-12T23:59:59.999"];
    assert_eq!(normalized["timeDimensions"][0]["dateRange"], json!(week));
    assert_eq!(normalized["filters"][0]["or"][0]["values"], json!(["x", null, "1.5", "true"]));
    let short = regular(&json!({"measures": ["o.n"], "ungrouped": true}));
    let written = Value::Object(short.json());
    let again = Query::read(&written, None, Limits { default: None, max: None });
    assert_eq!(again, Ok(Request::Regular(Query { limit: Limit::Asked(10_000), ..short })));
}
