//! Who sends half of something, too much of it, or does not read: whoever else is there does not notice, and it comes to an end.

use crate::{JSON, admin, eventually, http, of, results, start};
use glimpse_test::http::{Answer, Http};
use glimpse_test::server::Server;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Whether a server has closed a connection, as far as that is known by now.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let closed = loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    stream.set_nonblocking(false).expect("a socket");
    closed
}

fn works(server: &Server) {
    assert_eq!(results(&mut http(server), "SELECT 1 AS one")[0]["rows"], json!([["1"]]));
}

/// Bytes of memory that a server has now.
fn resident(server: &Server) -> u64 {
    let memory = "SELECT pg_backend_pid()";
    admin(server).rows(memory).expect("it answers");
    server.resident_bytes().expect("the system knows")
}

#[test]
fn half_a_request_is_not_waited_for_long() {
    let server = start();
    let halves: [&[u8]; 5] = [
        b"",
        b"POST /api/sql HT",
        b"POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Ty",
        b"POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"query\":",
        b"POST /api/copy?table=t HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n1,",
    ];
    let mut open: Vec<TcpStream> = (0..200)
        .map(|at| {
            let mut stream = TcpStream::connect(server.http_addr()).expect("a connection");
            stream.write_all(halves[at % halves.len()]).expect("it is taken");
            stream
        })
        .collect();
    works(&server);
    eventually("that they are closed", || {
        open.retain_mut(|stream| !is_closed(stream));
        open.is_empty()
    });
    works(&server);
}

#[test]
fn a_crowd_leaves_room_for_others() {
    let server = start();
    works(&server);
    // So many that a thread each would be too many; but other tests need files as well, and the server may have no more than we.
    let limits = std::fs::read_to_string("/proc/self/limits").expect("the system knows");
    let files =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
    let count = files.map_or(500, |files: usize| files / 2).min(10_000);
    let connect = |_| TcpStream::connect(server.http_addr()).expect("a connection");
    let mut crowd: Vec<TcpStream> = (0..count).map(connect).collect();
    works(&server);
    for stream in crowd.iter_mut().step_by(2) {
        stream.write_all(b"POST /api/sql HTTP/1.1\r\nHost: localhost\r\n").expect("it is taken");
    }
    works(&server);
    eprintln!("{} connections", crowd.len());
}

#[test]
fn who_does_not_read_a_gigabyte_has_little_of_it_in_memory() {
    let server = start();
    admin(&server).execute("CREATE TABLE t (a int)").expect("it is made");
    let gigabyte =
        json!({ "query": "SELECT i, repeat('x', 1000) AS x FROM generate_series(1, 1000000) i" }).to_string();
    let before = resident(&server);
    let accepted = ["application/json", "text/csv", "application/x-ndjson", "application/vnd.apache.arrow.stream"];
    let mut slow: Vec<Http> = accepted
        .iter()
        .cycle()
        .take(16)
        .map(|accept| {
            let mut http = http(&server);
            http.send("POST", "/api/sql", &[JSON, ("Accept", accept)], gigabyte.as_bytes()).expect("it is taken");
            assert_eq!(http.head().expect("it begins").status, 200);
            http
        })
        .collect();
    // Somebody else has all of it meanwhile.
    let mut quick = http(&server);
    quick.send("POST", "/api/sql", &[JSON, ("Accept", accepted[3])], gigabyte.as_bytes()).expect("it is taken");
    assert_eq!(quick.head().expect("it begins").status, 200);
    let (mut left, mut piece) = (1_000_000_000_usize, vec![0; 1 << 20]);
    while left > 0 {
        let read = quick.stream().read(&mut piece).expect("it goes on");
        assert!(read > 0, "{left} bytes are missing");
        left = left.saturating_sub(read);
    }
    drop(quick);
    let grown = resident(&server).saturating_sub(before) >> 20;
    assert!(grown < 400, "{grown} MiB for sixteen who do not read");
    works(&server);
    // And the slow ones can still go on, or go.
    let mut piece = [0; 1 << 16];
    for http in &mut slow {
        http.stream().read_exact(&mut piece).expect("it goes on");
    }
    drop(slow);
    let is_over = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%repeat%'";
    let mut admin = admin(&server);
    eventually("that they are given up", || admin.rows(is_over).expect("a count")[0][0].as_deref() == Some("1"));
}

#[test]
fn nothing_unpacks_to_more_than_was_sent() {
    let server = start();
    admin(&server).execute("CREATE TABLE t (a text)").expect("it is made");
    for coding in ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x"] {
        let headers = [JSON, ("Content-Encoding", coding)];
        let answer = http(&server).ask("POST", "/api/sql", &headers, &[0x1f, 0x8b, 8, 0]).expect("an answer");
        assert_eq!(answer.status, 415, "{coding}");
        let headers = [("Content-Type", "text/csv"), ("Content-Encoding", coding)];
        let answer = http(&server).ask("POST", "/api/copy?table=t", &headers, b"x").expect("an answer");
        assert_eq!(answer.status, 415, "{coding}");
    }
    works(&server);
}

#[test]
fn nothing_that_is_sent_becomes_a_header() {
    let server = start();
    let mut http = http(&server);
    let headers = |answer: &Answer| -> Vec<String> { answer.headers.iter().map(|(name, _)| name.clone()).collect() };
    let plain = http.sql(&json!({ "query": "SELECT 1" })).expect("an answer");
    let option = "%7B%22application_name%22%3A%22a%5Cr%5Cnx-evil%3A%201%22%7D";
    let body = json!({ "query": "SELECT 'a\r\nx-evil: 1' AS \"b\r\nx-evil: 2\"" }).to_string();
    for path in [format!("/api/sql?options={option}"), "/api/sql?options=%7B%7D%0d%0ax-evil:%201".to_owned()] {
        let answer = http.ask("POST", &path, &[JSON], body.as_bytes()).expect("an answer");
        assert!(answer.header("x-evil").is_none(), "{path}: {:?}", answer.headers);
        if answer.status == 200 {
            assert_eq!(headers(&answer), headers(&plain));
        }
    }
    let csv = [JSON, ("Accept", "text/csv")];
    let answer = http.ask("POST", "/api/sql", &csv, body.as_bytes()).expect("an answer");
    assert!(answer.is_whole && answer.header("x-evil").is_none());
    // Two lengths, a length and chunks, a header that is folded: who is in between might read another request.
    for smuggled in [
        "POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        "POST /api/sql HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        "POST /api/sql HTTP/1.1\r\nHost : localhost\r\n\r\n",
    ] {
        let mut http = Http::connect(server.http_addr()).expect("a connection");
        http.stream().write_all(smuggled.as_bytes()).expect("it is taken");
        let answer = http.head().expect("an answer");
        assert!((400..500).contains(&answer.status), "{smuggled}: {}", answer.status);
    }
    let again = of(&http.sql(&json!({ "query": "SELECT 1" })).expect("an answer"));
    assert_eq!(again[0]["tag"], "SELECT 1");
}
