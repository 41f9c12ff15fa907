//! `/cubesql`: lines of JSON, and what comes of a statement that fails.

use crate::{http, post, server};
use glimpse_test::http::Answer;
use serde_json::{Value, json};

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.is_whole), (200, true), "{}", answer.text());
    answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn rows(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter_map(|line| line["data"].as_array()).flatten().cloned().collect()
}

#[test]
fn rows_are_lines() {
    let (server, _) = server(&[]);
    let mut http = http(&server);
    let mut ask = |body: Value| post(&mut http, "cubesql", &[], &body);
    let told = lines(&ask(json!({
        "query": "SELECT market_code, MEASURE(count), is_large, max(latest) FROM orders WHERE market_code = 'FI' GROUP BY 1, 3",
        "timezone": "Asia/Kathmandu", "cache": "stale-if-slow", "throwContinueWait": true,
    })));
    let types: Vec<&Value> =
        told[0]["schema"].as_array().expect("columns").iter().map(|column| &column["column_type"]).collect();
    assert_eq!(types, ["String", "Int64", "Boolean", "Timestamp"]);
    assert!(told[0]["lastRefreshTime"].is_string());
    assert_eq!(told[1], json!({"data": [["FI", "1", true, "2024-06-01T17:45:00.000"]]}));
    // Nothing is a line as well, and what looks like an order to ask again does not.
    assert_eq!(lines(&ask(json!({"query": "SELECT id FROM orders WHERE false"})))[1], json!({"data": []}));
    let answer = ask(json!({"query": "SELECT 'a Continue wait b Continue wait'"}));
    assert!(!answer.text().contains("Continue wait"));
    assert_eq!(rows(&lines(&answer)), [json!(["a Continue wait b Continue wait"])]);
    let answer = ask(json!({"query": "SELECT 1 AS \"Continue wait\""}));
    assert!(!answer.text().contains("Continue wait"));
    assert_eq!(lines(&answer)[0]["schema"][0]["name"], "Continue wait");
    let answer = ask(json!({"query": "SELECT 'Continue wait'::int"}));
    assert!(answer.status == 400 && !answer.json().expect("JSON")["error"].to_string().contains("Continue wait"));
    // Many.
    let all = lines(&ask(json!({"query": "SELECT g, repeat('x', 50) FROM generate_series(1, 60000) g"})));
    let all = rows(&all);
    assert!(all.len() == 60_000 && all.iter().enumerate().all(|(at, row)| row[0] == json!((at + 1).to_string())));
    // Refused before anything was told, or later, when a line tells it.
    for query in ["SELECT nothing FROM orders", "SELECT 1; SELECT 2", "SUBSCRIBE raw.orders", "SELECT 1 / 0"] {
        let answer = ask(json!({"query": query}));
        assert!(
            answer.status == 400 && answer.json().expect("an error")["error"].is_string(),
            "{query}: {}",
            answer.text()
        );
    }
    let failed =
        lines(&ask(json!({"query": "SELECT repeat('x', 500), 1 / (60000 - g) FROM generate_series(1, 60001) g"})));
    let last = failed.last().expect("a line");
    assert_eq!((&last["error"], &last["code"]), (&json!("division by zero"), &json!("22012")));
    assert!(rows(&failed).len() > 100);
    let answer = ask(json!({"query": "INSERT INTO raw.items VALUES (100000, 1, 1)"}));
    assert_eq!(lines(&answer), [json!({"schema": []}), json!({"data": []})]);
}
