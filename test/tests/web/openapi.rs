//! `/api/openapi.json`: each route that it has is called, and answers as it says.

use crate::{JSON, http, results, start};
use glimpse_test::http::{Answer, Http};
use glimpse_test::server::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// A request for a route. A route that nobody has thought of has none.
fn call(http: &mut Http, method: &str, path: &str) -> Answer {
    let (path, headers, body): (&str, &[(&str, &str)], &[u8]) = match (method, path) {
        ("post", "/api/sql") => (path, &[JSON], b"{\"query\": \"SELECT 1\"}"),
        ("get", "/api/subscribe") => ("/api/subscribe?query=SUBSCRIBE%20t%20UP%20TO%20mz_now()%2B1", &[], b""),
        ("post", "/api/copy") => ("/api/copy?table=t", &[("Content-Type", "text/csv")], b"a\n1\n"),
        ("post", "/api/webhook/{database}/{schema}/{name}") => ("/api/webhook/materialize/public/hook", &[], b"x"),
        ("get", "/api/experimental/sql") => (path, &UPGRADE, b""),
        ("get", "/cubejs-api/v1/ws" | "/") => (path, &UPGRADE, b""),
        ("get", "/cubejs-api/v1/load" | "/cubejs-api/v1/subscribe") => {
            ("/cubejs-api/v1/load?query=%7B%22measures%22:%5B%22c.n%22%5D%7D", &[], b"")
        }
        ("get", "/cubejs-api/v1/dry-run" | "/cubejs-api/v1/sql") => {
            ("/cubejs-api/v1/sql?query=%7B%22measures%22:%5B%22c.n%22%5D%7D", &[], b"")
        }
        ("post", "/cubejs-api/v1/meta") => (path, &[JSON], b"{}"),
        ("post", "/cubejs-api/v1/cubesql") => (path, &[JSON], b"{\"query\": \"SELECT 1\"}"),
        ("post", path) if path.starts_with("/cubejs-api/v1/") => {
            (path, &[JSON], b"{\"query\": {\"measures\": [\"c.n\"]}}")
        }
        ("get", "/cubejs-api/v1/meta" | "/livez" | "/readyz") => (path, &[], b""),
        ("get", "/prof/cpu") => ("/prof/cpu?seconds=1", &[], b""),
        ("get", "/api/openapi.json" | "/api/livez" | "/api/readyz" | "/metrics") => (path, &[], b""),
        _ => panic!("nothing is known of {method} {path}"),
    };
    let method = method.to_uppercase();
    http.send(&method, path, headers, body).expect("it is sent");
    if headers == UPGRADE { http.head().expect("a head") } else { http.answer().expect("an answer") }
}

/// What `of` gives while the server has something to do.
fn busy<T>(server: &Server, of: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut http = http(server);
            while !is_over.load(Ordering::Relaxed) {
                results(&mut http, "SELECT sum(x) FROM generate_series(1, 1000000) AS x");
            }
        });
        let given = catch_unwind(AssertUnwindSafe(of));
        is_over.store(true, Ordering::Relaxed);
        given.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn document(http: &mut Http) -> Value {
    let answer = http.ask("GET", "/api/openapi.json", &[], b"").expect("an answer");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    answer.json().expect("JSON")
}

#[test]
fn routes_are_as_they_are_told() {
    let server = start();
    let mut own = http(&server);
    results(
        &mut own,
        "CREATE TABLE t (a int); CREATE INDEX ON t (a); CREATE SOURCE hook FROM WEBHOOK BODY FORMAT TEXT; CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_table: t, measures: [{name: n, type: count}]}]$$",
    );
    let mut told = Vec::new();
    for addr in [server.http_addr(), server.internal_http_addr()] {
        let document = document(&mut Http::connect(addr).expect("a connection"));
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{document}");
        let mut routes = BTreeSet::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("methods") {
                assert!(operation["summary"].is_string(), "{method} {path}");
                let called = || call(&mut Http::connect(addr).expect("a connection"), method, path);
                let answer = if path == "/prof/cpu" { busy(&server, called) } else { called() };
                let status = answer.status.to_string();
                let told = &operation["responses"][&status];
                assert!(told.is_object() && answer.status < 300, "{method} {path}: {status}: {}", answer.text());
                if let (Some(forms), Some(form)) = (told["content"].as_object(), answer.header("content-type")) {
                    let form = form.split(';').next().unwrap_or_default();
                    assert!(forms.contains_key(form), "{method} {path}: {form}");
                }
                routes.insert(format!("{method} {path}"));
            }
        }
        told.push(routes);
    }
    // Operators have some more.
    assert!(told[0].is_subset(&told[1]) && told[1].len() == told[0].len() + 2, "{told:?}");
}

#[test]
fn one_address_does_not_have_all_of_the_server() {
    let server = Server::start_with(&["--http-requests-per-address=2"]).expect("the server starts");
    let mut own = http(&server);
    results(&mut own, "CREATE TABLE t (a int); CREATE INDEX ON t (a)");
    let follow = || {
        let mut http = http(&server);
        let headers = [JSON, ("Accept", "application/x-ndjson")];
        http.send("POST", "/api/sql", &headers, b"{\"query\": \"SUBSCRIBE t\"}").expect("it is sent");
        assert_eq!(http.head().expect("a head").status, 200);
        http
    };
    let ask = |http: &mut Http| http.ask("GET", "/api/openapi.json", &[], b"").expect("an answer");
    let (one, _two) = (follow(), follow());
    let refused = ask(&mut own);
    assert_eq!(refused.status, 429, "both are under way");
    assert_eq!(refused.json().expect("an error")["error"]["code"], "53300");
    // Health is told all the same, and operators are let in.
    assert_eq!(own.ask("GET", "/api/livez", &[], b"").expect("an answer").status, 200);
    let mut operator = Http::connect(server.internal_http_addr()).expect("a connection");
    assert_eq!(results(&mut operator, "SELECT 1")[0]["rows"], serde_json::json!([["1"]]));
    drop(one);
    crate::eventually("one has gone", || ask(&mut own).status == 200);
}
