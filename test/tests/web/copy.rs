//! Loading rows: every form gives the rows that the Postgres door gives, all of them or none, and an error says in which row it is.

use crate::{JSON, accepting, http, of, results, start};
use glimpse_test::http::{Answer, Http};
use serde_json::{Value, json};

const TYPES: &str =
    "b boolean, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(12,3), big numeric, t text, c varchar(5),
    by bytea, u uuid, d date, tm time, ts timestamp, tz timestamptz, iv interval, j jsonb, a int4[], ta text[]";

const VALUES: &str = "(true, -1, 2, 9223372036854775807, 1.5, '1e300', 123456789.125, 12345678901234567890.5, 'é \"x\"', 'abc', '\\x00ff',
    '11111111-2222-3333-4444-555555555555', '0044-03-15', '23:59:59.999999', '2026-01-02 03:04:05.000006',
    '2026-01-02 03:04:05+02', '1 mon 2 days 00:00:03', '{\"k\": [1, 2.50, \"\\\"\"]}', '{1,NULL,3}', '{a,\"b,\\\"c\",NULL,\"\"}'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (false, 0, 0, 0, 'NaN', '-Infinity', 0, 0, '', '', '', '00000000-0000-0000-0000-000000000000', 'epoch', '00:00', 'epoch', 'epoch', '0',
    'null', '{}', '{}')";

fn copy(http: &mut Http, table: &str, form: &str, body: &[u8]) -> Answer {
    let table: String = table.bytes().map(|byte| format!("%{byte:02X}")).collect();
    http.ask("POST", &format!("/api/copy?table={table}"), &[("Content-Type", form)], body).expect("an answer")
}

fn copied(http: &mut Http, table: &str, form: &str, body: &[u8]) -> String {
    of(&copy(http, table, form, body))[0]["ok"].as_str().expect("a tag").to_owned()
}

/// The SQLSTATE of what is refused, and where.
fn refused(http: &mut Http, table: &str, form: &str, body: &[u8]) -> (String, String) {
    let answer = copy(http, table, form, body);
    assert!(answer.status >= 400, "{}", answer.text());
    let error = answer.json().expect("an error")["error"].clone();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (text("code"), text("context"))
}

fn rows(http: &mut Http, query: &str) -> Value {
    results(http, query)[0]["rows"].clone()
}

#[test]
fn what_is_read_in_any_form_is_taken_in_it() {
    let server = start();
    let mut http = http(&server);
    let made = results(&mut http, &format!("CREATE TABLE source ({TYPES}); INSERT INTO source VALUES {VALUES}"));
    assert_eq!(made[1]["ok"], "INSERT 0 3", "{made}");
    let expected = rows(&mut http, "SELECT * FROM source ORDER BY i8, b");
    for (number, form) in ["text/csv", "application/x-ndjson", "application/vnd.apache.arrow.stream"].iter().enumerate()
    {
        let target = format!("target{number}");
        results(&mut http, &format!("CREATE TABLE {target} ({TYPES})"));
        let body = accepting(&mut http, form, "SELECT * FROM source").body;
        assert_eq!(copied(&mut http, &target, form, &body), "COPY 3", "{form}");
        let found = rows(&mut http, &format!("SELECT * FROM {target} ORDER BY i8, b"));
        assert_eq!(found, expected, "{form}");
        // The two nulls of jsonb look alike in lines of JSON, in both directions.
        let nulls = rows(&mut http, &format!("SELECT count(*) FROM {target} WHERE j IS NULL"));
        assert_eq!(nulls, json!([[if *form == "application/x-ndjson" { "2" } else { "1" }]]), "{form}");
    }
}

#[test]
fn columns_are_named_by_the_rows_or_by_the_table() {
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (a int DEFAULT 7, \"B c\" text, z text)");
    let csv = "text/csv";
    assert_eq!(copied(&mut http, "t", csv, b"\"B c\",a\nx,1\n\"two\nlines\",2"), "COPY 2");
    assert_eq!(copied(&mut http, "public.t(z)", csv, b"whatever\nq\n"), "COPY 1");
    assert_eq!(copied(&mut http, "t(a, z)", "text/csv; header=absent", b"5,\n"), "COPY 1");
    assert_eq!(copied(&mut http, "t", "application/jsonl", b"{\"z\":\"j\"}\n\n{}\r\n{\"z\":null}"), "COPY 3");
    assert_eq!(copied(&mut http, "t", csv, b"a\n"), "COPY 0");
    assert_eq!(copied(&mut http, "t", "application/x-ndjson", b""), "COPY 0");
    let expected = json!([
        ["1", "x", null],
        ["2", "two\nlines", null],
        ["5", null, null],
        ["7", null, "j"],
        ["7", null, "q"],
        ["7", null, null],
        ["7", null, null],
    ]);
    assert_eq!(rows(&mut http, "SELECT * FROM t ORDER BY a, \"B c\", z"), expected);
}

#[test]
fn a_row_that_is_wrong_is_named_and_none_is_taken() {
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, CHECK (a < 100))");
    let csv = "text/csv";
    let lines = "application/x-ndjson";
    for (form, body, sqlstate, context) in [
        (csv, "a,b\n1,x\ny,x\n", "22P02", "COPY t, line 3, column a: \"y\""),
        (csv, "a,b\n1,x\n2\n", "22P04", "COPY t, line 3"),
        (csv, "a,b\n1,x\n2,\n", "23502", "COPY t, line 3"),
        (csv, "a,b\n1,x\n\"2,x\n", "22P04", "COPY t, line 4"),
        (csv, "a,b\n1,x\n1,y\n", "23505", "COPY t, line 3"),
        (csv, "a,b\n1,x\n200,y\n", "23514", "COPY t, line 3"),
        (csv, "a,nosuch\n1,x\n", "42703", ""),
        (lines, "{\"a\":1,\"b\":\"x\"}\n{\"a\":2.5,\"b\":\"x\"}", "22P02", "COPY t, line 2, column a: \"2.5\""),
        (lines, "{\"a\":1,\"b\":\"x\"}\n\n{\"a\":", "22P04", "COPY t, line 3"),
        (lines, "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"c\":\"x\"}", "22P04", "COPY t, line 2"),
        (lines, "{\"a\":1,\"b\":\"x\\u0000\"}", "22021", "COPY t, line 1"),
        ("application/vnd.apache.arrow.stream", "a,b\n1,x\n", "22P04", ""),
        ("application/vnd.apache.parquet", "PAR1aaaaaaaaaaaaaaaaaaaaPAR1", "22P04", ""),
    ] {
        let found = refused(&mut http, "t", form, body.as_bytes());
        assert_eq!(found, (sqlstate.to_owned(), context.to_owned()), "{form} {body}");
        http = crate::http(&server);
    }
    assert_eq!(rows(&mut http, "SELECT count(*) FROM t"), json!([["0"]]));
    // An Arrow stream that breaks off is none.
    let body = accepting(&mut http, "application/vnd.apache.arrow.stream", "SELECT 1 AS a, 'x' AS b").body;
    for end in [1, 8, body.len() / 2, body.len() - 9] {
        let (sqlstate, _) = refused(&mut http, "t", "application/vnd.apache.arrow.stream", &body[..end]);
        assert_eq!(sqlstate, "22P04", "{end} of {} bytes", body.len());
    }
    assert_eq!(copied(&mut http, "t", "application/vnd.apache.arrow.stream", &body), "COPY 1");

    for (table, form, status) in [
        ("t", "text/plain", 415),
        ("t; DROP TABLE t", csv, 400),
        ("t TO STDOUT --", csv, 400),
        ("(SELECT 1)", csv, 400),
        ("nobody", csv, 400),
        ("mz_tables", csv, 403),
    ] {
        assert_eq!(copy(&mut http, table, form, b"a\n1\n").status, status, "{table} as {form}");
        http = crate::http(&server);
    }
    assert_eq!(http.ask("POST", "/api/copy", &[JSON], b"").expect("an answer").status, 400);
    results(&mut http, "CREATE ROLE guest LOGIN");
    // base64 of guest:
    let headers = [("Content-Type", csv), ("Authorization", "Basic Z3Vlc3Q6")];
    assert_eq!(http.ask("POST", "/api/copy?table=t", &headers, b"a,b\n9,x\n").expect("an answer").status, 403);
}

#[test]
fn who_is_refused_hears_so_behind_a_body_of_megabytes() {
    let server = start();
    let mut http = http(&server);
    let body = "a\n".to_owned() + &"1234567\n".repeat(1 << 20);
    assert_eq!(refused(&mut http, "nosuch", "text/csv", body.as_bytes()).0, "42P01");
    assert_eq!(rows(&mut http, "SELECT 1"), json!([["1"]]), "the connection goes on");
}
