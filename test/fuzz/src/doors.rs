//! What the doors of HTTP and Flight are fuzzed with: requests, streams of Arrow and messages that are right.

use arrow::array::{ArrayRef, Int32Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::Int32Type;
use arrow_flight::FlightData;
use arrow_flight::sql::{
    CommandGetSqlInfo, CommandGetTables, CommandPreparedStatementQuery, CommandStatementIngest, CommandStatementQuery,
    ProstMessageExt, TicketStatementQuery,
};
use arrow_ipc::writer::StreamWriter;
use prost::Message;
use std::sync::Arc;

/// What requests are made of.
pub const HTTP_WORDS: &[&str] = &[
    "GET /api/sql HTTP/1.1\r\n",
    "POST /api/sql HTTP/1.1\r\n",
    "POST /api/copy?table=t HTTP/1.1\r\n",
    "GET /api/experimental/sql HTTP/1.1\r\n",
    "Host: localhost\r\n",
    "Content-Length: 9\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Authorization: Basic YTpi\r\n",
    "Origin: https://example.com\r\n",
    "Accept-Encoding: zstd, gzip\r\n",
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    "Expect: 100-continue\r\n",
    "\r\n\r\n",
    "0\r\n\r\n",
    "\r\n",
    "\0",
];
/// What bodies of requests, and lines of objects, are made of.
pub const JSON_WORDS: &[&str] = &[
    "{\"query\":\"",
    "\"queries\":[",
    "\"params\":",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\u0000",
    "\\ud800",
    "1e999",
    "null",
    "\\n",
    "\n",
    "?options=",
];
/// What is shown is made of.
pub const SHOWN_WORDS: &[&str] =
    &["Basic ", "Bearer ", "glimpse.", ".", "YTpi", "\0", "{\"database\":", "\"options\":", "null", "1e5", "[]", "}"];

/// Bodies of `POST /api/sql`.
pub fn http_requests() -> Vec<Vec<u8>> {
    [
        r#"{"query":"SELECT 1; SELECT 2"}"#,
        r#"{"queries":[{"query":"SELECT $1, $2","params":["x",null]},{"query":"SELECT 3"}]}"#,
        r#"{"queries":[{"query":"é","params":[1.10,true,{"a":[1]}]}]}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// A line, and an address.
pub fn http_lines() -> Vec<Vec<u8>> {
    ["{\"a\":\"x\",\"b\":{\"y\":[1.50,null]},\"c\":[1,null],\"d\":[{},\"z\"]}\n/api/sql?options=%7B%22cluster%22%3A%22c%22%7D", "{\"a\":null}\n/"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

/// What a client shows.
pub fn shown() -> Vec<Vec<u8>> {
    [
        "Basic YTpi\0{\"database\": \"d\", \"statement_timeout\": 5}",
        "Bearer a.b.c\0{}",
        "bearer glimpse.YQ.99999999999.eA\0",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn batch() -> RecordBatch {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))),
        ("b", Arc::new(StringArray::from(vec![Some("x"), Some(""), None]))),
        ("c", Arc::new(lists)),
        ("d", Arc::new(TimestampMicrosecondArray::from(vec![0, -1, i64::MAX]))),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

/// The size of pieces, and a stream.
pub fn arrow() -> Vec<Vec<u8>> {
    let batch = batch();
    [1, 7, 255]
        .map(|size| {
            let mut writer = StreamWriter::try_new(vec![size], &batch.schema()).expect("memory takes it");
            writer.write(&batch).expect("memory takes it");
            writer.finish().expect("memory takes it");
            writer.into_inner().expect("memory takes it")
        })
        .to_vec()
}

/// Conversations by HTTP/1.1.
pub fn http_conversations() -> Vec<Vec<u8>> {
    let body = r#"{"query":"SELECT 1"}"#;
    [
        format!("POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
        "GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n".repeat(2),
        "POST /api/copy?table=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1,2\n\r\n0\r\n\r\n".to_owned(),
        "GET /api/experimental/sql HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\u{1}\u{1}a".to_owned(),
        "POST /api/webhook/a/b/c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Commands, tickets and handles.
pub fn flight_commands() -> Vec<Vec<u8>> {
    let query = "SELECT 1".to_owned();
    let statement = CommandStatementQuery { query: query.clone(), transaction_id: Some("0123456789abcdef".into()) };
    // As the server makes them: a text, and a number of sixteen bytes.
    let handle = [&b"\x0a\x08SELECT 1\x1a\x10"[..], &[7; 16]].concat();
    let prepared = CommandPreparedStatementQuery { prepared_statement_handle: handle.clone().into() };
    let tables = CommandGetTables { table_types: vec!["TABLE".to_owned()], include_schema: true, ..Default::default() };
    vec![
        statement.as_any().encode_to_vec(),
        prepared.as_any().encode_to_vec(),
        TicketStatementQuery { statement_handle: handle.clone().into() }.as_any().encode_to_vec(),
        tables.as_any().encode_to_vec(),
        CommandGetSqlInfo { info: vec![0, 1, 500] }.as_any().encode_to_vec(),
        CommandStatementIngest { table: "t".to_owned(), ..Default::default() }.as_any().encode_to_vec(),
        handle,
        query.into_bytes(),
        b"glimpse.YQ.99999999999.eA".to_vec(),
    ]
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Conversations by gRPC: the head of a call, and a message.
pub fn flight_conversations() -> Vec<Vec<u8>> {
    // Literals that are not kept, without Huffman's code.
    let field = |name: &str, value: &str| {
        let length = |text: &str| u8::try_from(text.len()).expect("it is short");
        [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
    };
    let call = |method: &str, messages: &[Vec<u8>]| {
        let head = [
            field(":method", "POST"),
            field(":scheme", "http"),
            field(":authority", "localhost"),
            field(":path", &format!("/arrow.flight.protocol.FlightService/{method}")),
            field("content-type", "application/grpc"),
            field("te", "trailers"),
        ];
        let body: Vec<u8> = messages
            .iter()
            .flat_map(|message| {
                let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
                [&[0], &length[..], message].concat()
            })
            .collect();
        [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
            &frame(4, 0, 0, &[]),
            &frame(1, 4, 1, &head.concat()),
            &frame(0, 1, 1, &body),
        ]
        .concat()
    };
    let descriptor = |command: Vec<u8>| arrow_flight::FlightDescriptor::new_cmd(command);
    let commands = flight_commands();
    let data = arrow_flight::utils::batches_to_flight_data(&batch().schema(), vec![batch()]).expect("messages");
    let put: Vec<Vec<u8>> = data
        .into_iter()
        .map(|message| {
            FlightData { flight_descriptor: Some(descriptor(commands[5].clone())), ..message }.encode_to_vec()
        })
        .collect();
    vec![
        call("GetFlightInfo", &[descriptor(commands[0].clone()).encode_to_vec()]),
        call("DoGet", &[arrow_flight::Ticket { ticket: commands[2].clone().into() }.encode_to_vec()]),
        call("DoPut", &put),
        call("DoAction", &[arrow_flight::Action::new("BeginTransaction", commands[0].clone()).encode_to_vec()]),
        call("Handshake", &[Vec::new()]),
    ]
}
