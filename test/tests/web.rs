//! SQL by HTTP: what is answered, by whom it may be asked, and what happens when either side breaks off.

mod web {
    mod attacks;
    mod bearer;
    mod copy;
    mod events;
    mod large;
    mod once;
    mod openapi;
    mod webhook;
    mod websocket;
}

use std::io::Read;
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use glimpse_test::http::{Answer, Http};
use glimpse_test::secured::Secured;
use glimpse_test::server::Server;
use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A server of ours, whatever is tested otherwise: nobody else has this door.
fn start() -> Server {
    Server::start().expect("the server starts")
}

fn admin(server: &Server) -> Wire {
    Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session starts")
}

fn http(server: &Server) -> Http {
    Http::connect(server.http_addr()).expect("a connection")
}

/// The results of statements of one text.
fn results(http: &mut Http, query: &str) -> Value {
    of(&http.sql(&json!({ "query": query })).expect(query))
}

fn of(answer: &Answer) -> Value {
    assert_eq!((answer.status, answer.is_whole), (200, true), "{}", answer.text());
    answer.json().expect("it is JSON")["results"].clone()
}

/// What each result is: its tag, or its SQLSTATE.
fn ends(results: &Value) -> Vec<String> {
    let end = |result: &Value| {
        let end = result.get("ok").or(result.get("tag")).unwrap_or(&result["error"]["code"]);
        end.as_str().expect("a result has an end").to_owned()
    };
    results.as_array().expect("there are results").iter().map(end).collect()
}

/// Waits until something holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn results_are_as_documented() {
    let server = start();
    let mut http = http(&server);
    let all = results(
        &mut http,
        "SELECT 1 AS a, 'x'::varchar(3) AS b; CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)",
    );
    let columns = json!({ "columns": [
        { "name": "a", "type_oid": 23, "type_len": 4, "type_mod": -1 },
        { "name": "b", "type_oid": 1043, "type_len": -1, "type_mod": 7 },
    ] });
    let expected = json!([
        { "desc": columns, "rows": [["1", "x"]], "tag": "SELECT 1", "notices": [] },
        { "ok": "CREATE TABLE", "notices": [] },
        { "ok": "INSERT 0 2", "notices": [] },
    ]);
    assert_eq!(all, expected);
    assert_eq!(results(&mut http, ""), json!([]));
    assert_eq!(
        results(&mut http, "DROP TABLE IF EXISTS nobody")[0]["notices"],
        json!([
            { "message": "table \"nobody\" does not exist, skipping", "code": "00000", "severity": "notice" }
        ])
    );
    assert_eq!(ends(&results(&mut http, "UPDATE t SET a = 3 RETURNING a")), ["UPDATE 2"]);
    let error = results(&mut http, "SELECT nosuch FROM t");
    assert_eq!(
        error[0]["error"],
        json!({ "message": "column \"nosuch\" does not exist", "code": "42703", "position": 8 })
    );
    let error = results(&mut http, "SUBSCRIBE t");
    assert_eq!(ends(&error), ["0A000"]);
    let error = results(&mut http, "COPY t TO STDOUT");
    assert_eq!(ends(&error), ["0A000"]);

    // Statements with values, as text; whatever else JSON has is taken as it stands there.
    let queries = br#"{ "queries": [
        { "query": "INSERT INTO t VALUES ($1), ($2)", "params": ["100", null] },
        { "query": "SELECT $1::numeric, $2::jsonb, $3::bool, $4", "params": [1.15, { "b": [1] }, true, "x"] },
        { "query": "SELECT count(*) FROM t" }
    ] }"#;
    let all = of(&http.ask("POST", "/api/sql", &[JSON], queries).expect("an answer"));
    assert_eq!(ends(&all), ["INSERT 0 2", "SELECT 1", "SELECT 1"]);
    assert_eq!(all[1]["rows"], json!([["1.15", { "b": [1] }, true, "x"]]));
    assert_eq!(all[2]["rows"], json!([["4"]]));
    for (query, params, sqlstate) in [
        ("SELECT $1", json!([]), "42601"),
        ("SELECT 1", json!(["1"]), "42601"),
        ("SELECT $1::int", json!(["x"]), "22P02"),
        ("SELECT 1; SELECT 2", json!([]), "42601"),
    ] {
        let answer = http.sql(&json!({ "queries": [{ "query": query, "params": params }] })).expect(query);
        assert_eq!(ends(&of(&answer)), [sqlstate], "{query}");
    }
}

#[test]
fn values_are_those_of_the_postgres_door() {
    let server = start();
    let (mut http, mut wire) = (http(&server), admin(&server));
    let queries = [
        "SELECT 1::int2, 2::int4, 9223372036854775807::int8, 'NaN'::float8, 1e300::float8, 0.1::float4, 1.500::numeric(9,3)",
        "SELECT 1e-30::numeric, 12345678901234567890123456789012345678.9::numeric, 4294967295::oid",
        "SELECT 'x'::text, ''::varchar, 'ab'::char(4), 'n'::name, 'c'::\"char\", E'quote\" back\\\\ tab\\t line\\n é 🎉'",
        "SELECT '\\xdeadbeef'::bytea, '0f0e0d0c-0b0a-0908-0706-050403020100'::uuid",
        "SELECT '2024-02-29'::date, '23:59:59.999999'::time, '2024-02-29 12:00:00.000001'::timestamp, '4714-11-24 BC'::date",
        "SELECT '2024-02-29 12:00+02'::timestamptz, '1 year 2 days 00:00:03.5'::interval, 'infinity'::timestamp",
        "SELECT 'pg_class'::regclass, 'int4'::regtype, row(1, 'a b'), NULL::int, '1 2'::int2vector",
        "SELECT x, x * 1.5, 'row ' || x FROM generate_series(1, 100) x ORDER BY x",
    ];
    for query in queries {
        let expected = wire.rows(query).expect(query);
        let expected: Vec<Value> = expected.iter().map(|row| json!(row)).collect();
        assert_eq!(results(&mut http, query)[0]["rows"], json!(expected), "{query}");
    }
    let special = "SELECT true, false, '[1, {\"a\": 1.10}]'::jsonb, E'{\"a\":\\n 12345678901234567890.5}'::json, \
                   array[1, null, 3], array[true], array['a\"b', 'NULL'], 'null'::jsonb, '{}'::int[]";
    let answer = http.sql(&json!({ "query": special })).expect("an answer");
    let expected = r#"[[true,false,[1, {"a": 1.10}],{"a":  12345678901234567890.5},["1",null,"3"],[true],["a\"b","NULL"],null,[]]]"#;
    assert!(answer.text().contains(expected), "{}", answer.text());
}

/// The answer of one statement in another form.
fn accepting(http: &mut Http, accept: &str, query: &str) -> Answer {
    let body = json!({ "query": query }).to_string();
    http.ask("POST", "/api/sql", &[JSON, ("Accept", accept)], body.as_bytes()).expect(query)
}

#[test]
fn rows_come_as_lines_and_as_csv() {
    let server = start();
    let (mut http, mut wire) = (http(&server), admin(&server));
    let query = "SELECT x AS n, CASE x % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE E'a \"b\", c\n' || x END AS t, x % 2 = 0 AS b, \
                 ARRAY[x, NULL] AS l FROM generate_series(1, 5000) x ORDER BY x";
    let lines = accepting(&mut http, "application/x-ndjson", query);
    assert_eq!((lines.status, lines.header("content-type")), (200, Some("application/x-ndjson")));
    let rows = results(&mut http, query)[0]["rows"].clone();
    let rows = rows.as_array().expect("there are rows");
    let text = lines.text();
    assert_eq!(text.lines().count(), rows.len());
    for (line, row) in text.lines().zip(rows) {
        let line: Value = serde_json::from_str(line).expect("a line is an object");
        assert_eq!(line, json!({ "n": row[0], "t": row[1], "b": row[2], "l": row[3] }));
    }
    // CSV is what COPY writes.
    let csv = accepting(&mut http, "text/csv", query);
    let copied = wire.query(&format!("COPY ({query}) TO STDOUT (FORMAT csv, HEADER)")).expect("it is copied");
    let copied: Vec<u8> =
        copied.iter().filter(|message| message.tag == b'd').flat_map(|message| message.body.clone()).collect();
    assert!(
        csv.body == copied,
        "{}",
        csv.text()
            .lines()
            .zip(String::from_utf8_lossy(&copied).lines())
            .find(|(a, b)| a != b)
            .map_or_else(String::new, |(a, b)| format!("{a}, not {b}"))
    );
    // What has no rows has a tag; what fails before the first row a status.
    for accept in ["application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream"] {
        let done = accepting(&mut http, accept, "CREATE TEMPORARY TABLE t (a int)");
        assert_eq!((done.status, done.header("command-tag"), done.body.len()), (200, Some("CREATE TABLE"), 0));
        for (query, status, sqlstate) in [
            ("SELECT 1 / (SELECT 0)", 400, "22012"),
            ("SELECT nosuch", 400, "42703"),
            ("SELECT 1; SELECT 2", 400, "42601"),
            ("COPY (SELECT 1) TO STDOUT", 400, "0A000"),
        ] {
            let answer = accepting(&mut http, accept, query);
            assert_eq!(
                (answer.status, answer.json().expect("an error")["error"]["code"].as_str()),
                (status, Some(sqlstate))
            );
        }
        let broken = accepting(
            &mut self::http(&server),
            accept,
            "SELECT x, 1 / (x - 500000) FROM generate_series(1, 1000000) x",
        );
        assert_eq!((broken.status, broken.is_whole), (200, false), "{accept}");
    }
    assert_eq!(
        accepting(&mut http, "application/x-ndjson", "SELECT 1 AS a, 2 AS a").json().expect("an error")["error"]["code"],
        "42701"
    );
    assert_eq!(accepting(&mut http, "text/csv", "SELECT 1 AS a, 2 AS a").text(), "a,a\n1,2\n");
    assert_eq!(accepting(&mut http, "text/html", "SELECT 1").status, 406);
    assert_eq!(accepting(&mut http, "*/*", "SELECT 1").header("content-type"), Some("application/json"));
    // What cannot be told did not happen, and what is not ended is said.
    results(&mut http, "CREATE TABLE told (a int)");
    let twice = accepting(&mut http, "application/x-ndjson", "INSERT INTO told VALUES (1) RETURNING a, a");
    assert_eq!((twice.status, twice.json().expect("an error")["error"]["code"].as_str()), (400, Some("42701")));
    assert_eq!(ends(&results(&mut http, "SELECT * FROM told")), ["SELECT 0"]);
    assert_eq!(accepting(&mut http, "text/csv", "INSERT INTO told VALUES (1) RETURNING a").text(), "a\n1\n");
    assert_eq!(ends(&results(&mut http, "SELECT * FROM told")), ["SELECT 1"]);
    assert_eq!(accepting(&mut http, "text/csv", "BEGIN").json().expect("an error")["error"]["code"], "25001");
    let params = json!({ "queries": [{ "query": "SELECT $1::int + 1 AS a", "params": ["41"] }] }).to_string();
    let answer = http.ask("POST", "/api/sql", &[JSON, ("Accept", "text/csv")], params.as_bytes()).expect("an answer");
    assert_eq!(answer.text(), "a\n42\n");
}

#[test]
fn rows_come_as_arrow() {
    const ROWS: i64 = 100_000;
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (a int8, b text, c numeric(9,2), d uuid, e jsonb, f timestamptz)");
    results(
        &mut http,
        &format!(
            "INSERT INTO t SELECT x, 'row ' || x, x / 4.0, '00000000-0000-0000-0000-000000000001', '{{}}', 'epoch' FROM generate_series(1, {ROWS}) x"
        ),
    );
    for index in ["SELECT 1", "CREATE INDEX t_a ON t (a)"] {
        results(&mut http, index);
        let answer = accepting(&mut http, "application/vnd.apache.arrow.stream", "SELECT * FROM t WHERE a >= 0");
        assert_eq!((answer.status, answer.is_whole), (200, true));
        let reader = arrow_ipc::reader::StreamReader::try_new(&answer.body[..], None).expect("a stream");
        let types: Vec<String> = reader.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
        let expected = ["Int64", "Utf8", "Decimal128(9, 2)", "FixedSizeBinary(16)", "Utf8", "Timestamp(µs, \"UTC\")"];
        assert_eq!(types, expected);
        let extension = |at: usize| reader.schema().field(at).metadata().get("ARROW:extension:name").cloned();
        assert_eq!((extension(3).as_deref(), extension(4).as_deref()), (Some("arrow.uuid"), Some("arrow.json")));
        let (mut count, mut sum) = (0, 0);
        for batch in reader {
            let batch = batch.expect("a batch");
            let bytes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().expect("a size"));
            assert!(bytes.sum::<usize>() <= 2 << 20, "a batch is no larger than what every client takes");
            let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0));
            let texts = arrow::array::AsArray::as_string::<i32>(batch.column(1));
            for (number, text) in numbers.values().iter().zip(texts) {
                (count, sum) = (count + 1, sum + number);
                assert_eq!(text, Some(format!("row {number}").as_str()));
            }
        }
        assert_eq!((count, sum), (ROWS, ROWS * (ROWS + 1) / 2));
    }
    let none =
        accepting(&mut http, "application/vnd.apache.arrow.stream", "SELECT a, ARRAY[b] AS l FROM t WHERE false");
    let reader = arrow_ipc::reader::StreamReader::try_new(&none.body[..], None).expect("a stream");
    assert_eq!((reader.schema().fields().len(), reader.count()), (2, 0));
}

#[test]
fn changes_come_line_by_line() {
    let server = start();
    let (mut http, mut other) = (http(&server), http(&server));
    results(&mut other, "CREATE TABLE t (a int)");
    results(&mut other, "INSERT INTO t VALUES (1)");
    let body = json!({ "query": "SUBSCRIBE t" }).to_string();
    http.send("POST", "/api/sql", &[JSON, ("Accept", "application/x-ndjson")], body.as_bytes()).expect("it is sent");
    let mut lines = http.lines().expect("an answer");
    let mut change = || {
        let line: Value = serde_json::from_str(&lines.next().expect("it goes on").expect("a line")).expect("an object");
        (line["a"].clone(), line["mz_diff"].clone())
    };
    assert_eq!(change(), (json!("1"), json!("1")));
    results(&mut other, "INSERT INTO t VALUES (2)");
    assert_eq!(change(), (json!("2"), json!("1")));
    results(&mut other, "DELETE FROM t WHERE a = 1");
    assert_eq!(change(), (json!("1"), json!("-1")));
    for accept in ["text/csv", "application/vnd.apache.arrow.stream"] {
        assert_eq!(accepting(&mut other, accept, "SUBSCRIBE t").json().expect("an error")["error"]["code"], "0A000");
    }
}

#[test]
fn a_request_is_a_transaction_of_its_own() {
    let server = start();
    let mut http = http(&server);
    let mut all = |query: &str| ends(&results(&mut http, query));
    all("CREATE TABLE t (a int PRIMARY KEY)");
    assert_eq!(all("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"), ["INSERT 0 1", "23505"]);
    assert_eq!(all("SELECT * FROM t"), ["SELECT 0"], "all of it is undone");
    assert_eq!(all("SELECT 1; SELECT 1 / 0; SELECT 2"), ["SELECT 1", "22012"], "nothing is run behind an error");
    assert_eq!(all("BEGIN; INSERT INTO t VALUES (2)"), ["BEGIN", "INSERT 0 1", "25001"], "it says what becomes of it");
    assert_eq!(all("SELECT * FROM t"), ["SELECT 0"]);
    assert_eq!(
        all("BEGIN; INSERT INTO t VALUES (2); COMMIT; SELECT 1 / 0"),
        ["BEGIN", "INSERT 0 1", "COMMIT", "22012"]
    );
    assert_eq!(all("SELECT * FROM t"), ["SELECT 1"]);
    let queries = |http: &mut Http, queries: &[&str]| {
        let queries: Vec<Value> = queries.iter().map(|query| json!({ "query": query })).collect();
        ends(&of(&http.sql(&json!({ "queries": queries })).expect("an answer")))
    };
    let one = queries(&mut http, &["INSERT INTO t VALUES (3)", "SELECT 1 / 0"]);
    assert_eq!(one, ["INSERT 0 1", "22012"]);
    let one = queries(&mut http, &["INSERT INTO t VALUES (4)", "INSERT INTO t VALUES (5)"]);
    assert_eq!(one, ["INSERT 0 1", "INSERT 0 1"]);
    assert_eq!(results(&mut http, "SELECT a FROM t ORDER BY a")[0]["rows"], json!([["2"], ["4"], ["5"]]));
}

#[test]
fn requests_of_a_connection_share_plans_and_nothing_else() {
    let server = start();
    let mut http = http(&server);
    let pid = |http: &mut Http| results(http, "SELECT pg_backend_pid()")[0]["rows"][0][0].clone();
    results(&mut http, "CREATE SEQUENCE s");
    let first = pid(&mut http);
    results(&mut http, "SELECT 1 / (SELECT 0)");
    assert_eq!(pid(&mut http), first, "a session is kept, for its plans");
    results(&mut http, "CREATE ROLE other");
    assert_ne!(pid(&mut http), first, "who may come in may be another one now");
    for leaves in [
        "SET search_path = pg_catalog",
        "CREATE TEMPORARY TABLE mine (a int)",
        "SELECT set_config('my.name', 'x', false)",
        "PREPARE mine AS SELECT 1",
        "SELECT pg_advisory_lock(1)",
        "BEGIN",
        "SELECT nextval('s')",
    ] {
        let before = pid(&mut http);
        results(&mut http, leaves);
        assert_ne!(pid(&mut http), before, "{leaves}");
    }
    let seen = "SHOW search_path; SELECT to_regclass('mine') IS NULL, current_setting('my.name', true) IS NULL";
    let seen = results(&mut http, seen);
    assert_eq!((&seen[0]["rows"], &seen[1]["rows"]), (&json!([["public"]]), &json!([[true, true]])));
    assert_eq!(ends(&results(&mut http, "EXECUTE mine")), ["26000"]);
    assert_eq!(
        results(&mut http, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")[0]["rows"],
        json!([["0"]])
    );

    // What a request asks for its session is its own as well.
    let options =
        json!({ "search_path": "x", "application_name": "me", "statement_timeout": 1000, "database": "materialize" });
    let encoded: String = options.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let path = format!("/api/sql?options={encoded}");
    let body = json!({ "query": "SHOW search_path; SHOW application_name; SELECT pg_sleep(100)" }).to_string();
    let with = of(&http.ask("POST", &path, &[JSON], body.as_bytes()).expect("an answer"));
    assert_eq!((&with[0]["rows"], &with[1]["rows"]), (&json!([["x"]]), &json!([["me"]])));
    assert_eq!(with[2]["error"]["code"], "57014");
    assert_eq!(results(&mut http, "SHOW search_path")[0]["rows"], json!([["public"]]));
    for (options, status) in
        [("%7B%22nosuch%22%3A%221%22%7D", 400), ("x", 400), ("%7B%22database%22%3A%22no%22%7D", 400)]
    {
        let answer =
            http.ask("POST", &format!("/api/sql?options={options}"), &[JSON], b"{\"query\":\"\"}").expect("an answer");
        assert_eq!(answer.status, status, "{options}: {}", answer.text());
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let server = start();
    let mut http = http(&server);
    let statement = b"{\"query\":\"SELECT 1\"}";
    for (method, path, headers, body, status) in [
        ("GET", "/api/sql", &[JSON][..], &b""[..], 405),
        ("POST", "/api/nosuch", &[JSON], statement, 404),
        ("POST", "/api/sql?nosuch=1", &[JSON], statement, 400),
        ("POST", "/api/sql", &[], statement, 415),
        ("POST", "/api/sql", &[("Content-Type", "text/plain")], statement, 415),
        ("POST", "/api/sql", &[("Content-Type", "application/x-www-form-urlencoded")], statement, 415),
        ("POST", "/api/sql", &[JSON, JSON], statement, 400),
        ("POST", "/api/sql", &[("Content-Type", "application/json; charset=utf-8")], statement, 200),
        ("POST", "/api/sql", &[JSON], b"", 400),
        ("POST", "/api/sql", &[JSON], b"SELECT 1", 400),
        ("POST", "/api/sql", &[JSON], b"{\"query\":\"SELECT 1\",\"cluster\":\"c\"}", 400),
        ("POST", "/api/sql", &[JSON], b"{\"query\":\"\xff\"}", 400),
        ("POST", "/api/sql", &[JSON], b"{\"query\":\"SELECT 'a\\u0000b'\"}", 400),
    ] {
        let answer = http.ask(method, path, headers, body).expect("an answer");
        assert_eq!(
            answer.status,
            status,
            "{method} {path} {headers:?} {}: {}",
            String::from_utf8_lossy(body),
            answer.text()
        );
        if status != 200 && status != 404 && status != 405 {
            let error = answer.json().expect("an error is JSON");
            assert_eq!(error["error"]["code"], "08P01", "{error}");
        }
    }
    // A body that breaks off would look whole.
    let mut old = self::http(&server);
    let request = "POST /api/sql HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"query\":\"SELECT 1\"}";
    std::io::Write::write_all(old.stream(), request.as_bytes()).expect("it is sent");
    assert_eq!(old.answer().expect("an answer").status, 505);
    // The largest body that is read is that of the largest message; a server may be told to read less.
    let small = Server::start_with(&["--request-bytes-max=100000"]).expect("the server starts");
    let long = |bytes: usize| format!("{{\"query\":\"SELECT length('{}')\"}}", "x".repeat(bytes));
    let answer = Http::connect(small.http_addr()).expect("a connection").ask(
        "POST",
        "/api/sql",
        &[JSON],
        long(90_000).as_bytes(),
    );
    assert_eq!(of(&answer.expect("an answer"))[0]["rows"], json!([["90000"]]));
    let answer = Http::connect(small.http_addr()).expect("a connection").ask(
        "POST",
        "/api/sql",
        &[JSON],
        long(110_000).as_bytes(),
    );
    assert_eq!(answer.expect("an answer").status, 413);
}

#[test]
fn pages_of_strangers_do_not_act_for_who_is_trusted() {
    let server = Server::start_with(&["--http-allowed-origin=https://friend.example"]).expect("the server starts");
    let mut http = http(&server);
    let own = format!("http://{}", server.http_addr());
    let own_host = server.http_addr().to_string();
    for (headers, status) in [
        (&[("Origin", own.as_str()), ("Host", own_host.as_str())][..], 200),
        (&[("Origin", "https://friend.example")], 200),
        (&[("Host", "friend.example")], 200),
        (&[("Host", "LOCALHOST")], 200),
        (&[("Host", "127.0.0.1")], 200),
        (&[("Origin", "http://evil.example")], 403),
        (&[("Origin", "null")], 403),
        (&[("Origin", "http://friend.example")], 403),
        (&[("Origin", "https://friend.example.evil.example")], 403),
        (&[("Origin", own.as_str())], 403),
        // A name that the stranger had point to us: page and server are of one origin then.
        (&[("Origin", "http://evil.example"), ("Host", "evil.example")], 403),
        (&[("Host", "evil.example")], 403),
        (&[("Host", "localhost.evil.example")], 403),
    ] {
        let headers: Vec<_> = headers.iter().copied().chain([JSON]).collect();
        let answer = http.ask("POST", "/api/sql", &headers, b"{\"query\":\"SELECT 1\"}").expect("an answer");
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.text());
    }
}

#[test]
fn browsers_are_told_whose_pages_may_ask() {
    let server = Server::start_with(&["--http-allowed-origin=https://friend.example"]).expect("the server starts");
    let mut http = http(&server);
    for (origin, allowed) in
        [("https://friend.example", Some("https://friend.example")), ("https://evil.example", None)]
    {
        let asks = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization,content-type"),
        ];
        let preflight = http.ask("OPTIONS", "/api/sql", &asks, b"").expect("an answer");
        assert_eq!(
            (preflight.status, preflight.header("access-control-allow-origin")),
            (200, allowed),
            "{preflight:?}"
        );
        let answer =
            http.ask("POST", "/api/sql", &[JSON, ("Origin", origin)], b"{\"query\":\"SELECT 1\"}").expect("an answer");
        assert_eq!(answer.header("access-control-allow-origin"), allowed, "{answer:?}");
    }
}

#[test]
fn answers_are_compressed_for_who_takes_that() {
    let server = start();
    let mut http = http(&server);
    let body = json!({ "query": "SELECT x, 'the same' FROM generate_series(1, 100000) x" }).to_string();
    let mut length = |coding: &str| {
        let headers = [JSON, ("Accept-Encoding", coding)];
        let answer = http.ask("POST", "/api/sql", &headers, body.as_bytes()).expect("an answer");
        assert_eq!((answer.status, answer.is_whole), (200, true));
        (answer.header("content-encoding").map(str::to_owned), answer.body.len())
    };
    let (plain, gzip, zstd) = (length("identity"), length("gzip"), length("zstd, gzip;q=0.5"));
    assert_eq!([plain.0.as_deref(), gzip.0.as_deref(), zstd.0.as_deref()], [None, Some("gzip"), Some("zstd")]);
    assert!(gzip.1 * 3 < plain.1 && zstd.1 * 3 < plain.1, "{} {} {}", plain.1, gzip.1, zstd.1);
    let refused = http.ask("POST", "/api/sql", &[JSON, ("Content-Encoding", "gzip")], b"").expect("an answer");
    assert_eq!(refused.status, 415);
}

#[test]
fn who_comes_in_shows_what_the_rules_ask_for() {
    let rules = "host all alice all scram-sha-256\nhost all bob all reject\nhostssl all all all password\nhost all carol all trust\n";
    let secured = Secured::start(Some(rules)).expect("the server starts");
    let Target::Glimpse(server) = &secured.target else { return };
    let mut admin = admin(server);
    for role in ["alice", "bob", "carol"] {
        admin.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'open sésame:'")).expect("the role is made");
    }
    let basic = |user: &str, password: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let body = b"{\"query\":\"SELECT current_user\"}";
    let ask = |http: &mut Http, authorization: &str| {
        let headers = [JSON, ("Authorization", authorization)];
        http.ask("POST", "/api/sql", &headers, body).expect("an answer")
    };
    let mut http = http(server);
    for (authorization, status) in [
        (basic("alice", "open sésame:"), 200),
        (basic("alice", "open sésame:"), 200),
        (basic("alice", "open sesame:"), 401),
        (basic("alice", ""), 401),
        (basic("bob", "open sésame:"), 403),
        (basic("carol", ""), 200),
        (basic("carol", "whatever"), 200),
        (basic("dave", "x"), 403),
        (basic("mz_system", ""), 403),
        ("Basic".to_owned(), 400),
        ("Basic !".to_owned(), 400),
        ("Bearer x".to_owned(), 401),
        (basic("alice", "open sésame:"), 200),
    ] {
        let answer = ask(&mut http, &authorization);
        assert_eq!(answer.status, status, "{authorization}: {}", answer.text());
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
        if status == 200 && authorization == basic("alice", "open sésame:") {
            assert_eq!(of(&answer)[0]["rows"], json!([["alice"]]));
        }
    }
    let answer = http.sql(&json!({ "query": "SELECT 1" })).expect("an answer");
    assert_eq!(answer.status, 403, "nobody is materialize, whom no rule lets in: {}", answer.text());
    // A password is another one's, or another one.
    admin.execute("ALTER ROLE alice PASSWORD 'other'").expect("it is changed");
    assert_eq!(ask(&mut http, &basic("alice", "open sésame:")).status, 401, "nor by who has shown it before");
    assert_eq!(ask(&mut http, &basic("carol", "")).status, 200);
    admin.execute("ALTER ROLE carol NOLOGIN").expect("it is changed");
    assert_eq!(ask(&mut http, &basic("carol", "")).status, 403, "although there was a session");
    let mut fresh = self::http(server);
    assert_eq!(ask(&mut fresh, &basic("alice", "open sésame:")).status, 401);
    assert_eq!(ask(&mut fresh, &basic("alice", "other")).status, 200);
    assert!(!server.log().contains("sésame"), "passwords are not logged");
    // The system user is trusted at its own port.
    let mut internal = Http::connect(server.internal_http_addr()).expect("a connection");
    assert_eq!(results(&mut internal, "SELECT current_user")[0]["rows"], json!([["mz_system"]]));
}

/// Base64 of a text.

#[test]
fn what_fails_when_part_has_left_is_no_answer() {
    let server = start();
    let mut http = http(&server);
    let answer =
        http.sql(&json!({ "query": "SELECT x, 1 / (x - 500000) FROM generate_series(1, 1000000) x" })).expect("a head");
    assert_eq!((answer.status, answer.is_whole), (200, false), "it breaks off");
    assert!(answer.body.len() > 100_000, "{} bytes", answer.body.len());
    assert!(http.sql(&json!({ "query": "SELECT 1" })).is_err(), "so does the connection");
    // While nothing has left, the error takes the place of the result.
    let mut http = self::http(&server);
    let failed = results(&mut http, "SELECT 1; SELECT x, 1 / (x - 5) FROM generate_series(1, 10) x");
    assert_eq!(ends(&failed), ["SELECT 1", "22012"]);
    // What is whole stays it, also before what fails.
    let many = "SELECT x FROM generate_series(1, 100000) x; SELECT 1 / 0";
    assert_eq!(ends(&results(&mut http, many)), ["SELECT 100000", "22012"]);
}

#[test]
fn large_rows_come_whole() {
    const BYTES: usize = 20_000_000;
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (a int, b text, c bytea)");
    results(
        &mut http,
        &format!("INSERT INTO t SELECT x, repeat('é', {BYTES} / 2), '\\x00ff' FROM generate_series(1, 2) x"),
    );
    for index in ["SELECT 1", "CREATE INDEX t_a ON t (a)"] {
        results(&mut http, index);
        for query in ["SELECT b, a FROM t WHERE a = 1", "SELECT b || '' AS b, a FROM t WHERE a = 1"] {
            let rows = results(&mut http, query)[0]["rows"].clone();
            assert_eq!(rows[0][0].as_str().map(str::len), Some(BYTES), "{query}");
            assert_eq!((&rows[0][1], rows.as_array().map(Vec::len)), (&json!("1"), Some(1)));
        }
        let rows = results(&mut http, "SELECT a, c, b FROM t WHERE a >= 0 ORDER BY a")[0]["rows"].clone();
        assert_eq!(
            (&rows[1][0], &rows[1][1], rows[1][2].as_str().map(str::len)),
            (&json!("2"), &json!("\\x00ff"), Some(BYTES))
        );
    }
}

#[test]
fn who_hangs_up_ends_what_was_asked_for() {
    let server = start();
    let mut admin = admin(&server);
    let running = |admin: &mut Wire| {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series(%) b%' AND pid <> pg_backend_pid()";
        admin.rows(count).expect("a count")[0][0].clone().expect("a number") != "0"
    };
    for query in [
        // Of which nothing has left yet, and of which something has and is not read.
        "SELECT count(*) FROM generate_series(1, 40000000) a, generate_series(1, 40000000) b WHERE a + b < 0",
        "SELECT * FROM generate_series(1, 40000000) a, generate_series(1, 40000000) b",
    ] {
        let mut http = http(&server);
        let request = json!({ "query": query }).to_string();
        http.send("POST", "/api/sql", &[JSON], request.as_bytes()).expect("it is sent");
        eventually("the query runs", || running(&mut admin));
        drop(http);
        eventually("the query ends", || !running(&mut admin));
    }
}

#[test]
fn who_does_not_read_can_be_ended() {
    let server = start();
    let (mut stuck, mut admin) = (http(&server), admin(&server));
    let query = "SELECT repeat('x', 1000) AS x FROM generate_series(1, 3000000)";
    let body = json!({ "query": query }).to_string();
    let headers = [JSON, ("Accept", "application/x-ndjson")];
    stuck.send("POST", "/api/sql", &headers, body.as_bytes()).expect("it is sent");
    // Until there is no room for more.
    let (mut room, mut before) = (vec![0; 16 << 20], 0);
    eventually("the client's window is full", || {
        std::thread::sleep(Duration::from_millis(300));
        let there = stuck.stream().peek(&mut room).expect("the connection is open");
        there > 0 && std::mem::replace(&mut before, there) == there
    });
    let find = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT repeat%' AND state = 'active'";
    let pid = admin.rows(find).expect("sessions")[0][0].clone().expect("a number");
    admin.rows(&format!("SELECT pg_terminate_backend({pid})")).expect("it is told to end");
    eventually("the session ends", || admin.rows(find).expect("sessions").is_empty());
    assert!(!stuck.answer().expect("part of an answer").is_whole);
}

#[test]
fn results_take_no_memory_that_is_not_read() {
    const ROWS: u64 = 1_000_000;
    let server = start();
    let rows = glimpse_test::amount(ROWS);
    let mut wire = admin(&server);
    wire.execute("CREATE TABLE t (x int, y text)").expect("the table is made");
    let fill = format!("INSERT INTO t SELECT x, repeat('y', 100) FROM generate_series(1, {rows}) x");
    wire.execute(&fill).expect("it is filled");
    wire.execute("GRANT SELECT ON t TO materialize").expect("it may be read");
    wire.rows("SELECT count(y) FROM t").expect("it is read");
    let before = server.peak_bytes().expect("a peak");
    let query = json!({ "query": "SELECT * FROM t" }).to_string();
    let mut one = http(&server);
    one.send("POST", "/api/sql", &[JSON], query.as_bytes()).expect("it is sent");
    // Nobody reads for a while.
    let mut first = [0; 1000];
    one.stream().read_exact(&mut first).expect("it begins");
    std::thread::sleep(Duration::from_millis(500));
    let mut count = 1000_u64;
    let mut buffer = vec![0; 1 << 20];
    while count < rows * 110 {
        let read = one.stream().read(&mut buffer).expect("it goes on");
        assert!(read > 0, "{count} bytes");
        count += read as u64;
    }
    let grown = server.peak_bytes().expect("a peak").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more for an answer of {count}");
}
