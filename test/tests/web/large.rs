//! A result of any size comes whole: by the Postgres protocol, in each form that HTTP has, and over the WebSocket.

use crate::web::websocket::Socket;
use crate::{JSON, admin, http, start};
use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use glimpse_test::http::Http;
use glimpse_test::server::Server;
use glimpse_test::wire::frontend;
use serde_json::json;

/// Rows of a kilobyte and some each: 140 MB of them, or a gigabyte.
fn count() -> i32 {
    if glimpse_test::is_long() { 1_000_000 } else { 135_000 }
}

fn query() -> String {
    format!("SELECT i, repeat(lpad(i::text, 8, '0'), 128) AS x FROM generate_series(1, {}) i", count())
}

/// What stands in a row beside its number.
fn value(row: i32) -> String {
    format!("{row:08}").repeat(128)
}

fn asked(server: &Server, accept: &str) -> Http {
    let mut http = http(server);
    let request = json!({ "query": query() }).to_string();
    http.send("POST", "/api/sql", &[JSON, ("Accept", accept)], request.as_bytes()).expect("it is sent");
    http
}

/// Compares all lines of an answer.
fn lines(server: &Server, accept: &str, head: Option<&str>, line: impl Fn(i32) -> String) {
    let mut lines = asked(server, accept).lines().expect("it is answered").map(|line| line.expect("it goes on"));
    assert_eq!(head.map(|_| lines.next().expect("a head")).as_deref(), head, "{accept}");
    let mut row = 0;
    for came in lines {
        row += 1;
        assert!(came == line(row), "row {row} of {accept}: {came:.40}");
    }
    assert_eq!(row, count(), "{accept}");
}

#[test]
fn a_gigabyte_comes_whole() {
    let server = start();
    // By the Postgres protocol.
    let mut wire = admin(&server);
    wire.send(&frontend::query(&query())).expect("it is sent");
    let mut row = 0;
    loop {
        let message = wire.receive().expect("it goes on");
        match message.tag {
            b'D' => {
                row += 1;
                assert!(message.row_text() == [Some(row.to_string()), Some(value(row))], "row {row}");
            }
            b'Z' => break,
            tag => assert!(matches!(tag, b'T' | b'C'), "{message:?}"),
        }
    }
    assert_eq!(row, count());

    // By HTTP.
    lines(&server, "application/x-ndjson", None, |row| format!("{{\"i\":\"{row}\",\"x\":\"{}\"}}", value(row)));
    lines(&server, "text/csv", Some("i,x"), |row| format!("{row},{}", value(row)));
    let answer = asked(&server, "application/json").answer().expect("it is answered");
    assert_eq!((answer.status, answer.is_whole), (200, true));
    let begins = answer.body.windows(8).position(|bytes| bytes == b"\"rows\":[").expect("there are rows");
    let mut rest = &answer.body[begins + 8..];
    for row in 1..=count() {
        let expected = format!("{}[\"{row}\",\"{}\"]", if row > 1 { "," } else { "" }, value(row));
        rest = rest.strip_prefix(expected.as_bytes()).unwrap_or_else(|| panic!("row {row} is another"));
    }
    let end = format!("],\"tag\":\"SELECT {}\",\"notices\":[]}}]}}\n", count());
    assert_eq!(String::from_utf8_lossy(rest), end);
    drop(answer);
    let answer = asked(&server, "application/vnd.apache.arrow.stream").answer().expect("it is answered");
    assert_eq!((answer.status, answer.is_whole), (200, true));
    let mut row = 0;
    for batch in arrow_ipc::reader::StreamReader::try_new(&answer.body[..], None).expect("a stream") {
        let batch = batch.expect("a batch");
        let (numbers, values) = (batch.column(0).as_primitive::<Int32Type>(), batch.column(1).as_string::<i32>());
        for at in 0..batch.num_rows() {
            row += 1;
            assert!((numbers.value(at), values.value(at)) == (row, &value(row)), "row {row}");
        }
    }
    assert_eq!(row, count());
    drop(answer);

    // And over the WebSocket.
    let mut socket = Socket::start(&server);
    socket.send(&json!({ "query": query() }));
    let mut row = 0;
    loop {
        let (kind, payload) = socket.next().expect("it goes on");
        match kind.as_str() {
            Some("Row") => {
                row += 1;
                assert!(payload == json!([row.to_string(), value(row)]), "row {row}");
            }
            Some("ReadyForQuery") => break,
            _ => assert_ne!(kind, "Error", "{payload}"),
        }
    }
    assert_eq!(row, count());
}
