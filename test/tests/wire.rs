//! Raw sockets: startup, odd framing, malformed and oversized messages, cancellation, bad input.
//!
//! Well-formed conversations are in `pgtest/`; here is what no driver would send. After everything that a session is
//! allowed to survive it must answer `SELECT 1`; what ends a session must end that session only.

use std::io::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use glimpse_test::target::Target;
use glimpse_test::wire::message::{ErrorFields, Message};
use glimpse_test::wire::{Wire, frontend};

/// The server that these tests share. Its handshake deadline is short, for the tests of slow clients.
fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| Target::start_with(&["--handshake-timeout=2s"]).expect("the server starts"))
}

fn session() -> Wire {
    target().admin().expect("a session starts")
}

/// The session still works.
fn assert_alive(wire: &mut Wire) {
    let rows = wire.rows("SELECT 1").expect("the session goes on");
    assert_eq!(rows, [[Some("1".to_owned())]]);
}

/// A new session works: the server survived.
fn assert_server_alive() {
    assert_alive(&mut session());
}

fn render(messages: &[Message]) -> Vec<String> {
    messages.iter().filter(|message| message.tag != b'S').map(Message::render).collect()
}

fn first_error(messages: &[Message]) -> Option<ErrorFields> {
    messages.iter().find_map(Message::error)
}

fn assert_sqlstate(wire: &mut Wire, sql: &str, expected: &str) {
    let code = wire.sqlstate(sql).expect("the server answers");
    assert_eq!(code.as_deref(), Some(expected), "{}", &sql[..sql.len().min(200)]);
    assert_alive(wire);
}

/// Writes from another thread while this one reads: large exchanges would block otherwise.
fn send_while_reading(wire: &mut Wire, bytes: Vec<u8>) -> Vec<Message> {
    let mut writer = wire.try_clone_stream().expect("the socket has a second handle");
    // The server may refuse before it has read everything, so a failed write is no failure.
    let thread = std::thread::spawn(move || drop(writer.write_all(&bytes)));
    let messages = wire.until_ready().expect("the server answers");
    thread.join().expect("the writer does not panic");
    messages
}

#[test]
fn startup_reports_what_drivers_expect() {
    let wire = session();
    for name in [
        "server_version",
        "server_encoding",
        "client_encoding",
        "DateStyle",
        "TimeZone",
        "integer_datetimes",
        "standard_conforming_strings",
    ] {
        assert!(wire.parameters.contains_key(name), "no ParameterStatus for {name}");
    }
    assert_eq!(wire.parameters["client_encoding"], "UTF8");
    assert_eq!(wire.parameters["integer_datetimes"], "on");
    if target().is_glimpse() {
        assert!(wire.parameters.contains_key("mz_version"), "drivers of Materialize read mz_version");
    }
    assert!(wire.cancel_key.is_some(), "BackendKeyData has a process id and a secret");
}

/// The requests for encryption that the target cannot serve. The referee may be built with GSSAPI and say G.
fn requests() -> Vec<Vec<u8>> {
    let mut requests = vec![frontend::ssl_request()];
    if target().is_glimpse() {
        requests.push(frontend::gssenc_request());
    }
    requests
}

#[test]
fn encryption_requests_are_refused_and_startup_goes_on() {
    for request in requests() {
        let mut wire = Wire::connect(target().addr()).expect("connect");
        wire.send(&request).expect("send");
        assert_eq!(wire.receive_bytes(1).expect("one byte"), b"N");
        wire.send(&frontend::startup(&[("user", "materialize"), ("database", "materialize")])).expect("send");
        wire.finish_startup().expect("the session starts");
        assert_alive(&mut wire);
    }
}

#[test]
fn both_encryption_requests_in_turn_are_refused() {
    let mut wire = Wire::connect(target().addr()).expect("connect");
    for request in requests() {
        wire.send(&request).expect("send");
        assert_eq!(wire.receive_bytes(1).expect("one byte"), b"N");
    }
    wire.send(&frontend::startup(&[("user", "materialize"), ("database", "materialize")])).expect("send");
    wire.finish_startup().expect("the session starts");
}

#[test]
fn plaintext_behind_an_ssl_request_is_never_taken_as_encrypted() {
    // CVE-2021-23214: bytes that arrive with SSLRequest must not be read as if they came through TLS. A server that
    // says N may go on in plaintext or hang up; it must not say S.
    let mut wire = Wire::connect(target().addr()).expect("connect");
    let startup = frontend::startup(&[("user", "materialize"), ("database", "materialize")]);
    wire.send(&[frontend::ssl_request(), startup].concat()).expect("send");
    match wire.receive_bytes(1) {
        Ok(answer) => assert_ne!(answer, b"S", "the server has no certificate"),
        Err(_closed) => {}
    }
    assert_server_alive();
}

#[test]
fn bytes_may_arrive_one_at_a_time() {
    let mut wire = Wire::connect(target().addr()).expect("connect");
    for byte in frontend::startup(&[("user", "materialize"), ("database", "materialize")]) {
        wire.send(&[byte]).expect("send");
    }
    wire.finish_startup().expect("the session starts");
    let messages = [
        frontend::parse("", "SELECT $1::int4 + 1", &[]),
        frontend::bind("", "", &[], &[Some(b"41")], &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    for byte in messages.concat() {
        wire.send(&[byte]).expect("send");
    }
    let answer = render(&wire.until_ready().expect("the server answers"));
    assert_eq!(answer[2], "DataRow \"42\"");
}

#[test]
fn oversized_and_malformed_startups_are_refused() {
    let huge = frontend::startup(&[("user", &"x".repeat(20_000))]);
    let bad: [&[u8]; 6] = [
        &huge,
        &[0, 0, 0, 0, 0, 3, 0, 0],
        &[0, 0, 0, 7, 0, 3, 0],
        &[0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0],
        &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    for bytes in bad {
        let mut wire = Wire::connect(target().addr()).expect("connect");
        // The server may hang up while we still write.
        let _ = wire.send(bytes);
        let messages = wire.until_closed().expect("the server closes the connection");
        for message in &messages {
            assert_eq!(message.tag, b'E', "nothing but an error before the end: {}", message.render());
        }
    }
    assert_server_alive();
}

#[test]
fn unknown_protocols_and_parameters_at_startup() {
    // Protocol 2.0 is refused.
    let mut wire = Wire::connect(target().addr()).expect("connect");
    wire.send(&frontend::untagged(&0x0002_0000_u32.to_be_bytes())).expect("send");
    let messages = wire.until_closed().expect("the server closes the connection");
    assert!(messages.iter().all(|message| message.tag == b'E'));
    // A newer minor version is negotiated down.
    let mut wire = Wire::connect(target().addr()).expect("connect");
    let mut startup = frontend::startup(&[("user", "materialize"), ("database", "materialize"), ("_pq_.nosuch", "1")]);
    startup[7] = 9;
    wire.send(&startup).expect("send");
    let messages = wire.finish_startup().expect("the session starts");
    assert_eq!(messages[0].tag, b'v', "NegotiateProtocolVersion comes first");
    assert_alive(&mut wire);
    // A startup without a user.
    let mut wire = Wire::connect(target().addr()).expect("connect");
    wire.send(&frontend::startup(&[("database", "materialize")])).expect("send");
    let error = first_error(&wire.until_closed().expect("the server closes the connection"));
    assert_eq!(error.expect("an error").code, "28000");
}

#[test]
fn unknown_databases_and_roles_are_refused_by_name() {
    for (user, database, code) in [("materialize", "nosuch_database", "3D000"), ("nosuch_role", "materialize", "28000")]
    {
        let mut wire = Wire::connect(target().addr()).expect("connect");
        wire.send(&frontend::startup(&[("user", user), ("database", database)])).expect("send");
        let error = first_error(&wire.until_closed().expect("the server closes the connection"));
        let error = error.expect("an error");
        assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", code));
    }
}

#[test]
fn a_slow_handshake_is_cut_off() {
    // Three clients that stop at different points; one deadline covers the whole handshake.
    let partial = frontend::startup(&[("user", "materialize")])[..9].to_vec();
    for opening in [Vec::new(), partial, frontend::ssl_request()] {
        let mut wire = Wire::connect(target().addr()).expect("connect");
        wire.send(&opening).expect("send");
        if opening == frontend::ssl_request() {
            assert_eq!(wire.receive_bytes(1).expect("one byte"), b"N");
        }
        wire.until_closed().expect("the server closes the connection before our read times out");
    }
    // A client that keeps sending single bytes must not extend the deadline.
    let mut wire = Wire::connect(target().addr()).expect("connect");
    let mut writer = wire.try_clone_stream().expect("the socket has a second handle");
    let drip = std::thread::spawn(move || {
        let start = Instant::now();
        let startup = frontend::startup(&[("user", &"x".repeat(5_000))]);
        for byte in startup {
            if writer.write_all(&[byte]).is_err() || start.elapsed() > Duration::from_secs(50) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    wire.until_closed().expect("the server closes the connection before our read times out");
    drip.join().expect("the writer does not panic");
    assert_server_alive();
}

#[test]
fn idle_and_half_open_connections_do_no_harm() {
    let idle: Vec<Wire> = (0..50).map(|_| session()).collect();
    let half_open: Vec<Wire> = (0..50).map(|_| Wire::connect(target().addr()).expect("connect")).collect();
    assert_server_alive();
    drop(half_open);
    for mut wire in idle {
        assert_alive(&mut wire);
    }
}

#[test]
fn malformed_frames_end_that_connection_alone() {
    let mut bystander = session();
    let short_bind = frontend::frame(b'B', b"\0\0\0\x01");
    let frames: [(&str, Vec<u8>); 7] = [
        ("an unknown type", frontend::frame(b'~', b"")),
        ("a length of zero", vec![b'Q', 0, 0, 0, 0]),
        ("a length below four", vec![b'Q', 0, 0, 0, 3, 0]),
        ("a negative length", vec![b'Q', 0xff, 0xff, 0xff, 0xff]),
        ("a length of 2 GiB - 1", vec![b'Q', 0x7f, 0xff, 0xff, 0xff, b'S']),
        ("a Sync that pretends to be huge", vec![b'S', 0x40, 0, 0, 0]),
        ("a zero byte as type", vec![0, 0, 0, 0, 4]),
    ];
    for (name, bytes) in frames {
        let mut wire = session();
        wire.send(&bytes).expect("send");
        let messages = wire.until_closed().expect("the server closes the connection");
        // The referee hangs up without a word on some of them.
        if target().is_glimpse() {
            let error = first_error(&messages).unwrap_or_else(|| panic!("{name}: no error"));
            assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "08P01"), "{name}");
        }
        assert_alive(&mut bystander);
    }
    // A frame of the right length with a body that ends early is an error of the message: the session goes on or ends.
    for frame in
        [short_bind, frontend::frame(b'Q', b"no terminator"), frontend::frame(b'P', b"x"), frontend::frame(b'E', b"\0")]
    {
        let mut wire = session();
        wire.send(&[frame, frontend::sync()].concat()).expect("send");
        let messages = wire.until_ready().or_else(|_| wire.until_closed()).expect("an answer or the end");
        if let Some(error) = first_error(&messages) {
            assert!(["08P01", "26000"].contains(&error.code.as_str()), "{error}");
        }
        assert!(messages.iter().all(|message| message.tag != b'D'), "no rows come of a malformed message");
    }
    assert_alive(&mut bystander);
}

/// CVE-2015-0244: what stands in the middle of a message that fails is never read as a message of its own.
#[test]
fn the_rest_of_a_message_that_fails_is_not_run() {
    let mut wire = session();
    wire.execute("CREATE TABLE desync (id int4)").expect("the table is made");
    let inner = frontend::query("INSERT INTO desync VALUES (1)");
    // Values of 2 GiB, counts of what is not there, strings that do not end, and rows that are none.
    for attack in [
        frontend::frame(b'B', &[b"\0\0\0\0\0\x01\x7f\xff\xff\xff", &inner[..]].concat()),
        frontend::frame(b'B', &[b"\0\0\xff\xff", &inner[..]].concat()),
        frontend::frame(b'P', &[b"\0SELECT 1\0\xff\xff", &inner[..]].concat()),
        frontend::frame(b'E', &[b"\0", &inner[..]].concat()),
        frontend::frame(b'Q', &[b"\0", &inner[..]].concat()),
        [frontend::query("COPY desync FROM STDIN"), frontend::copy_data(&[b"no number\n", &inner[..]].concat())]
            .concat(),
        [frontend::query("COPY desync FROM STDIN (FORMAT binary)"), frontend::copy_data(&inner)].concat(),
    ] {
        let mut victim = session();
        victim.send(&[attack, frontend::sync()].concat()).expect("send");
        victim.shutdown_write().expect("shutdown");
        let messages = victim.until_closed().expect("the server closes the connection");
        assert!(first_error(&messages).is_some(), "no error: {messages:?}");
        assert!(messages.iter().all(|message| message.command_tag().is_none()), "something was run: {messages:?}");
    }
    assert_eq!(wire.rows("SELECT count(*) FROM desync").expect("the count"), [[Some("0".to_owned())]]);
    wire.execute("DROP TABLE desync").expect("the table goes");
}

#[test]
fn a_number_of_rows_is_no_promise() {
    // As a capacity, -1 would be all of the memory.
    let mut wire = session();
    for rows_max in [-1, i32::MIN, i32::MAX, 0] {
        let messages = [
            frontend::parse("", "SELECT g FROM generate_series(1, 1000) g(g)", &[]),
            frontend::bind("", "", &[], &[], &[]),
            frontend::execute("", rows_max),
            frontend::sync(),
        ];
        wire.send(&messages.concat()).expect("send");
        let messages = wire.until_ready().expect("the server answers");
        assert_eq!(first_error(&messages), None, "{rows_max}");
        assert_eq!(messages.iter().filter(|message| message.tag == b'D').count(), 1000, "{rows_max}");
    }
    assert_alive(&mut wire);
}

#[test]
fn negative_lengths_of_fields_are_refused() {
    // CVE-2026-4427: only -1 means NULL.
    let mut wire = session();
    let mut body = b"\0\0".to_vec();
    body.extend([0, 0, 0, 1]);
    body.extend((-2_i32).to_be_bytes());
    body.extend([0, 0]);
    let messages = [frontend::parse("", "SELECT $1::text", &[]), frontend::frame(b'B', &body), frontend::sync()];
    wire.send(&messages.concat()).expect("send");
    let messages = wire.until_ready().or_else(|_| wire.until_closed()).expect("an answer or the end");
    let error = first_error(&messages).expect("an error");
    assert_eq!(error.code, "08P01");
    // An item of an array, and a field of a row of COPY.
    let mut wire = session();
    let array = b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\xff\xff\xff\xfe";
    let bind = frontend::bind("", "", &[1], &[Some(array)], &[]);
    wire.send(&[frontend::parse("", "SELECT $1::int4[]", &[]), bind, frontend::sync()].concat()).expect("send");
    let error = first_error(&wire.until_ready().expect("the server answers")).expect("an error");
    assert!(["22P03", "08P01"].contains(&error.code.as_str()), "{error}");
    wire.execute("CREATE TABLE negative (id int4)").expect("the table is made");
    let row = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\xff\xff\xff\xfe";
    let copy = frontend::query("COPY negative FROM STDIN (FORMAT binary)");
    wire.send(&[copy, frontend::copy_data(row), frontend::copy_done()].concat()).expect("send");
    let error = first_error(&wire.until_ready().expect("the server answers")).expect("an error");
    assert_eq!(error.code, "22P04");
    wire.execute("DROP TABLE negative").expect("the table goes");
    assert_server_alive();
}

#[test]
fn pipelines_skip_to_sync_after_an_error() {
    let mut wire = session();
    let one = |sql: &str| {
        [frontend::parse("", sql, &[]), frontend::bind("", "", &[], &[], &[]), frontend::execute("", 0)].concat()
    };
    let mut bytes = Vec::new();
    for group in 0..10 {
        for index in 0..50 {
            let fails = group % 2 == 1 && index == 25;
            bytes.extend(one(&if fails {
                "SELECT 1/0".to_owned()
            } else {
                format!("SELECT {group} * 1000 + {index}")
            }));
        }
        bytes.extend(frontend::sync());
    }
    wire.send(&bytes).expect("send");
    for group in 0..10 {
        let messages = wire.until_ready().expect("the server answers");
        let rows = messages.iter().filter(|message| message.tag == b'D').count();
        let errors: Vec<String> = messages.iter().filter_map(Message::error).map(|error| error.code).collect();
        if group % 2 == 1 {
            assert_eq!((rows, errors), (25, vec!["22012".to_owned()]), "group {group}");
        } else {
            assert_eq!((rows, errors), (50, vec![]), "group {group}");
        }
    }
    assert_alive(&mut wire);
}

/// Results, and for each of their columns the relation and the number there that RowDescription has to name. What is no column
/// of a relation has neither.
const ORIGINS: [(&str, &[&str]); 27] = [
    ("SELECT * FROM origin_t", &["origin_t.1", "origin_t.2", "origin_t.3"]),
    (
        "SELECT c AS x, a, a + 1, 1, 'x', (SELECT a FROM origin_t LIMIT 1) FROM origin_t z",
        &["origin_t.3", "origin_t.1", "", "", "", ""],
    ),
    (
        "SELECT c, origin_t.a FROM origin_t WHERE a > 0 ORDER BY b DESC, a LIMIT 1 OFFSET 0",
        &["origin_t.3", "origin_t.1"],
    ),
    ("SELECT DISTINCT b FROM origin_t ORDER BY b", &["origin_t.2"]),
    ("SELECT DISTINCT c FROM origin_t", &["origin_t.3"]),
    ("SELECT DISTINCT ON (b) b, a FROM origin_t ORDER BY b, a", &["origin_t.2", "origin_t.1"]),
    ("SELECT b, count(*), max(a) FROM origin_t GROUP BY b HAVING count(*) > 0", &["origin_t.2", "", ""]),
    ("SELECT b, a, count(*) FROM origin_t GROUP BY ROLLUP (b, a)", &["origin_t.2", "origin_t.1", ""]),
    ("SELECT a, row_number() OVER (ORDER BY a) FROM origin_t", &["origin_t.1", ""]),
    ("SELECT a, generate_series(1, 2) FROM origin_t", &["origin_t.1", ""]),
    ("SELECT u.y, t.b FROM origin_t t JOIN origin_u u ON u.x = t.a", &["origin_u.2", "origin_t.2"]),
    ("SELECT u.y, t.b FROM origin_t t LEFT JOIN origin_u u ON u.x = t.a, origin_u w", &["origin_u.2", "origin_t.2"]),
    ("SELECT * FROM origin_t JOIN origin_w USING (a)", &["origin_t.1", "origin_t.2", "origin_t.3", "origin_w.2"]),
    ("SELECT a FROM origin_t FULL JOIN origin_w USING (a)", &[""]),
    ("SELECT s.q, s.r FROM (SELECT a AS q, a * 2 AS r FROM origin_t) s", &["origin_t.1", ""]),
    ("WITH s AS (SELECT b, a FROM origin_t) SELECT a, b FROM s", &["origin_t.1", "origin_t.2"]),
    ("SELECT l.x FROM origin_t t, LATERAL (SELECT t.b AS x) l", &["origin_t.2"]),
    ("SELECT a FROM origin_t UNION SELECT x FROM origin_u", &[""]),
    ("SELECT a FROM origin_t UNION ALL SELECT x FROM origin_u ORDER BY a", &[""]),
    ("SELECT a FROM origin_t INTERSECT SELECT x FROM origin_u", &[""]),
    ("SELECT c FROM origin_t EXCEPT SELECT 1.5", &[""]),
    ("SELECT s.a FROM (SELECT a FROM origin_t EXCEPT SELECT 7) s", &[""]),
    ("SELECT n, origin_v.k FROM origin_v", &["origin_v.1", "origin_v.2"]),
    ("SELECT s.k FROM (SELECT * FROM origin_v) s", &["origin_v.2"]),
    ("SELECT m FROM origin_m", &["origin_m.1"]),
    ("TABLE origin_u", &["origin_u.1", "origin_u.2"]),
    ("UPDATE origin_t SET b = b RETURNING a, b, a + 1", &["origin_t.1", "origin_t.2", ""]),
];

#[test]
fn columns_of_results_say_which_columns_of_relations_they_are() {
    let mut wire = session();
    for sql in [
        "CREATE TABLE origin_t (a int4, b text, c numeric)",
        "CREATE TABLE origin_u (x int4, y text)",
        "CREATE TABLE origin_w (a int4, d text)",
        "INSERT INTO origin_t VALUES (1, 'one', 1.5)",
        "INSERT INTO origin_u VALUES (1, 'one')",
        "CREATE VIEW origin_v AS SELECT b AS n, a AS k FROM origin_t",
        "CREATE MATERIALIZED VIEW origin_m AS SELECT a AS m FROM origin_t",
    ] {
        wire.execute(sql).expect(sql);
    }
    let oids = wire.rows("SELECT oid, relname FROM pg_class WHERE relname LIKE 'origin\\__'").expect("there are oids");
    let name = |oid: u32| {
        let row = oids.iter().find(|row| row[0].as_deref() == Some(oid.to_string().as_str()));
        row.and_then(|row| row[1].clone()).unwrap_or_else(|| oid.to_string())
    };
    let described = |messages: &[Message]| -> Vec<String> {
        let columns = messages.iter().find(|message| message.tag == b'T').map(Message::columns);
        let origin = |column: glimpse_test::wire::message::Column| match (column.relation, column.number) {
            (0, 0) => String::new(),
            (relation, number) => format!("{}.{number}", name(relation)),
        };
        columns.into_iter().flatten().map(origin).collect()
    };
    for (sql, expected) in ORIGINS {
        let messages = wire.query(sql).expect("the server answers");
        assert_eq!(described(&messages), expected, "{sql}: {:?}", render(&messages));
        // The same of a statement, and of a portal whose results are binary.
        for describe in [
            frontend::describe(b'S', ""),
            [frontend::bind("", "", &[], &[], &[1]), frontend::describe(b'P', "")].concat(),
        ] {
            wire.send(&[frontend::parse("", sql, &[]), describe, frontend::sync()].concat()).expect("send");
            assert_eq!(described(&wire.until_ready().expect("the server answers")), expected, "{sql}");
        }
    }
}

#[test]
fn an_error_without_sync_waits_for_it() {
    let mut wire = session();
    wire.send(&[frontend::parse("", "SELECT nosuch", &[]), frontend::query("SELECT 1"), frontend::flush()].concat())
        .expect("send");
    assert_eq!(wire.receive().expect("an error").error().expect("an error").code, "42703");
    // The Query was skipped: what comes now is the answer to Sync.
    wire.send(&frontend::sync()).expect("send");
    assert_eq!(render(&[wire.receive().expect("ReadyForQuery")]), ["ReadyForQuery I"]);
    assert_alive(&mut wire);
}

#[test]
fn hundreds_of_simple_queries_in_one_write() {
    let mut wire = session();
    let bytes: Vec<u8> = (0..500).flat_map(|index| frontend::query(&format!("SELECT {index}"))).collect();
    wire.send(&bytes).expect("send");
    for index in 0..500 {
        let messages = wire.until_ready().expect("the server answers");
        assert_eq!(messages[1].row_text(), [Some(index.to_string())]);
    }
}

#[test]
fn a_long_query_can_be_cancelled() {
    // A query that is over before the cancel arrives would hide a broken cancel, so this one runs for minutes.
    cancelled(
        "SELECT sum(a.x * b.x % 7) FROM generate_series(1, 100000) a(x) CROSS JOIN generate_series(1, 1000000) b(x)",
    );
}

#[test]
fn a_sleeping_query_can_be_cancelled() {
    cancelled("SELECT pg_sleep(100000)");
}

/// It counts from the first message, though none of them takes long.
#[test]
fn a_timeout_ends_what_is_prepared_too_slowly() {
    let mut wire = session();
    wire.query("SET statement_timeout = '500ms'").expect("an answer");
    wire.send(&[frontend::parse("slow", "SELECT $1::int4", &[]), frontend::flush()].concat()).expect("send");
    // The client's own slowness.
    std::thread::sleep(Duration::from_secs(1));
    wire.send(&[frontend::describe(b'S', "slow"), frontend::sync()].concat()).expect("send");
    let messages = wire.until_ready().expect("the server answers");
    assert_eq!(first_error(&messages).expect("an error").code, "57014");
    let messages = wire.query("SELECT 1").expect("the session goes on");
    assert!(first_error(&messages).is_none(), "the next statement has a time of its own");
}

#[test]
fn sleeping_queries_hold_up_nobody() {
    let sleeping: Vec<Wire> = (0..40)
        .map(|_| {
            let mut wire = session();
            wire.send(&frontend::query("SELECT pg_sleep(100000)")).expect("send");
            wire
        })
        .collect();
    let mut wire = session();
    let messages = wire.query("SELECT count(*) FROM generate_series(1, 1000) a(x) WHERE x % 2 = 0").expect("an answer");
    assert_eq!(messages[1].row_text(), [Some("500".to_owned())]);
    drop(sleeping);
}

fn cancelled(endless: &str) {
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut wire = session();
    let key = wire.cancel_key.expect("BackendKeyData");
    wire.send(&frontend::query(endless)).expect("send");
    let was_answered = std::sync::Arc::clone(&is_over);
    let cancel = std::thread::spawn(move || {
        // The query may not have begun when a cancel arrives, so cancels go on until the answer is there.
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(100));
            let mut wire = Wire::connect(target().admin_addr()).expect("connect");
            if wire.send(&frontend::cancel_request(key)).is_err() {
                break;
            }
            drop(wire.until_closed());
            if was_answered.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
        }
    });
    let messages = wire.until_ready().expect("the server answers");
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(first_error(&messages).expect("an error").code, "57014");
    cancel.join().expect("the cancelling thread does not panic");
    // A late cancel may hit the next statement; the session survives that too.
    let _ = wire.query("SELECT 1").expect("the session goes on");
    assert_alive(&mut wire);
}

#[test]
fn a_wrong_cancel_key_cancels_nothing() {
    let mut wire = session();
    let mut key = wire.cancel_key.expect("BackendKeyData");
    key[7] ^= 1;
    let mut cancel = Wire::connect(target().admin_addr()).expect("connect");
    cancel.send(&frontend::cancel_request(key)).expect("send");
    assert!(cancel.until_closed().expect("the server closes the connection").is_empty(), "no answer to a cancel");
    assert_alive(&mut wire);
}

#[test]
fn terminate_closes_the_socket() {
    let mut wire = session();
    wire.send(&frontend::terminate()).expect("send");
    assert!(wire.until_closed().expect("the server closes the connection").is_empty());
    // A client that just goes away, in the middle of a message and of a transaction.
    let mut wire = session();
    wire.execute("BEGIN").expect("the transaction begins");
    wire.send(&frontend::query("SELECT 1")[..4]).expect("send");
    wire.shutdown_write().expect("shutdown");
    drop(wire.until_closed());
    assert_server_alive();
}

#[test]
fn bad_statements_get_their_sqlstate_and_the_session_goes_on() {
    let mut wire = session();
    for (sql, code) in [
        ("SELECT * FROM nosuch", "42P01"),
        ("SELECT 1 + 'x'", "22P02"),
        ("SELECT 2147483647 + 1", "22003"),
        ("SELECT 1/0", "22012"),
        ("SELECT 'open", "42601"),
        ("SELECT \"open", "42601"),
        ("SELECT $$open", "42601"),
        ("/* open", "42601"),
        ("SELEC 1", "42601"),
    ] {
        assert_sqlstate(&mut wire, sql, code);
    }
}

#[test]
fn invalid_utf8_is_refused_everywhere() {
    let mut wire = session();
    let bodies: [&[u8]; 3] = [b"SELECT '\xff\xfe'\0", b"SELECT '\xc0\x80'\0", b"\xff\0"];
    for body in bodies {
        wire.send(&frontend::frame(b'Q', body)).expect("send");
        let messages = wire.until_ready().expect("the server answers");
        assert_eq!(first_error(&messages).expect("an error").code, "22021");
        assert_alive(&mut wire);
    }
    for formats in [&[0_u16][..], &[1]] {
        let bind = frontend::bind("", "", formats, &[Some(b"\xff")], &[]);
        wire.send(
            &[frontend::parse("", "SELECT $1::text", &[]), bind, frontend::execute("", 0), frontend::sync()].concat(),
        )
        .expect("send");
        let messages = wire.until_ready().expect("the server answers");
        assert_eq!(first_error(&messages).expect("an error").code, "22021");
        assert_alive(&mut wire);
    }
    // A NUL inside a text value.
    let bind = frontend::bind("", "", &[1], &[Some(b"a\0b")], &[]);
    wire.send(
        &[frontend::parse("", "SELECT $1::text", &[]), bind, frontend::execute("", 0), frontend::sync()].concat(),
    )
    .expect("send");
    let messages = wire.until_ready().expect("the server answers");
    assert_eq!(first_error(&messages).expect("an error").code, "22021");
    assert_alive(&mut wire);
}

#[test]
fn ten_thousand_parentheses_are_refused_or_answered() {
    let mut wire = session();
    for (open, close) in
        [("(", ")"), ("-(", ")"), ("abs(", ")"), ("(SELECT ", ")"), ("CASE WHEN true THEN ", " END"), ("ARRAY[", "]")]
    {
        let sql = format!("SELECT {}1{}", open.repeat(10_000), close.repeat(10_000));
        let code = wire.sqlstate(&sql).expect("the server answers");
        if let Some(code) = code {
            // statement_too_complex, or the syntax error of a form that does not nest.
            assert!(["54001", "54000", "42601", "22000", "0A000"].contains(&code.as_str()), "{open}: {code}");
        }
        assert_alive(&mut wire);
    }
    let sql = format!("SELECT 1{}", " + 1".repeat(10_000));
    if let Some(code) = wire.sqlstate(&sql).expect("the server answers") {
        assert_eq!(code, "54001");
    }
    let sql = format!("SELECT true{}", " AND true".repeat(10_000));
    if let Some(code) = wire.sqlstate(&sql).expect("the server answers") {
        assert_eq!(code, "54001");
    }
    assert_alive(&mut wire);
}

#[test]
fn thousands_of_statements_in_one_query() {
    let mut wire = session();
    let count = usize::try_from(glimpse_test::amount(5_000)).expect("it fits");
    let bytes = frontend::query(&"SELECT 1;".repeat(count));
    let messages = send_while_reading(&mut wire, bytes);
    match first_error(&messages) {
        None => assert_eq!(messages.iter().filter(|message| message.tag == b'D').count(), count),
        Some(error) => assert!(["54000", "54001"].contains(&error.code.as_str()), "{error}"),
    }
    assert_alive(&mut wire);
    let messages = send_while_reading(&mut wire, frontend::query(&";".repeat(count)));
    assert_eq!(first_error(&messages), None);
    assert_alive(&mut wire);
}

#[test]
fn a_string_of_64_mib() {
    let mut wire = session();
    let size = 64 * 1024 * 1024;
    let text = "x".repeat(size);
    // As a literal, and as a parameter: answered, or refused as too large with the session going on.
    let messages = send_while_reading(&mut wire, frontend::query(&format!("SELECT length('{text}')")));
    check_big(&messages, size);
    assert_alive(&mut wire);
    let bytes = [
        frontend::parse("", "SELECT length($1::text)", &[]),
        frontend::bind("", "", &[], &[Some(text.as_bytes())], &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    let messages = send_while_reading(&mut wire, bytes.concat());
    check_big(&messages, size);
    assert_alive(&mut wire);
}

fn check_big(messages: &[Message], size: usize) {
    match first_error(messages) {
        Some(error) => assert!(["54000", "53200", "08P01"].contains(&error.code.as_str()), "{error}"),
        None => {
            let row = messages.iter().find(|message| message.tag == b'D').expect("a row");
            assert_eq!(row.row_text(), [Some(size.to_string())]);
        }
    }
}

#[test]
fn the_most_parameters_that_fit() {
    let mut wire = session();
    let count = 65_535;
    let list: Vec<String> = (1..=count).map(|index| format!("${index}::int4")).collect();
    let sql = format!("SELECT 70000 IN ({})", list.join(","));
    let values: Vec<String> = (1..=count).map(|index| index.to_string()).collect();
    let values: Vec<frontend::Value<'_>> = values.iter().map(|value| Some(value.as_bytes())).collect();
    let bytes = [
        frontend::parse("", &sql, &[]),
        frontend::bind("", "", &[], &values, &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    let messages = send_while_reading(&mut wire, bytes.concat());
    assert_eq!(first_error(&messages), None);
    let row = messages.iter().find(|message| message.tag == b'D').expect("a row");
    assert_eq!(row.row_text(), [Some("f".to_owned())]);
    assert_alive(&mut wire);
    // One more than the protocol can say: only the text can name it, and no Bind can give it a value.
    for sql in
        ["SELECT $65536::int4", "SELECT $4294967296::int4", "SELECT $99999999999999999999::int4", "SELECT $0::int4"]
    {
        wire.send(&[frontend::parse("", sql, &[]), frontend::describe(b'S', ""), frontend::sync()].concat())
            .expect("send");
        wire.until_ready().expect("the server answers");
    }
    assert_alive(&mut wire);
}

#[test]
fn wide_rows_and_many_rows_arrive_whole() {
    let mut wire = session();
    let columns: Vec<String> = (0..1_600).map(|index| format!("{index} AS c{index}")).collect();
    let rows = wire.rows(&format!("SELECT {}", columns.join(", "))).expect("a wide row");
    assert_eq!(rows[0].len(), 1_600);
    assert_eq!(rows[0][1_599].as_deref(), Some("1599"));
    let rows = wire.rows("SELECT g, repeat('x', 100) FROM generate_series(1, 50000) g(g)").expect("many rows");
    assert_eq!(rows.len(), 50_000);
    assert!(rows.iter().enumerate().all(|(index, row)| row[0] == Some((index + 1).to_string())));
    let rows = wire.rows("SELECT repeat('y', 5000000)").expect("a long value");
    assert_eq!(rows[0][0].as_ref().map(String::len), Some(5_000_000));
}

#[test]
fn a_client_that_does_not_read_stops_nobody_else() {
    let mut lazy = session();
    lazy.send(&frontend::query("SELECT g, repeat('x', 1000) FROM generate_series(1, 200000) g(g)")).expect("send");
    for _ in 0..20 {
        assert_server_alive();
    }
    let messages = lazy.until_ready().expect("the rows are still there");
    assert_eq!(messages.iter().filter(|message| message.tag == b'D').count(), 200_000);
}

#[test]
fn copy_in_is_left_cleanly() {
    let mut wire = session();
    wire.execute("CREATE TABLE copy_abort (id int4)").expect("the table is made");
    // A client that dies inside COPY leaves nothing behind.
    let mut dying = session();
    dying
        .send(&[frontend::query("COPY copy_abort FROM STDIN"), frontend::copy_data(b"1\n2\n")].concat())
        .expect("send");
    assert_eq!(dying.receive().expect("CopyInResponse").tag, b'G');
    dying.shutdown_write().expect("shutdown");
    drop(dying.until_closed());
    // A query in place of CopyData ends the COPY with an error.
    let mut wrong = session();
    wrong.send(&frontend::query("COPY copy_abort FROM STDIN")).expect("send");
    assert_eq!(wrong.receive().expect("CopyInResponse").tag, b'G');
    wrong.send(&frontend::query("SELECT 1")).expect("send");
    let messages = wrong.until_ready().expect("the server answers");
    assert_eq!(first_error(&messages).expect("an error").code, "08P01");
    assert_eq!(wire.rows("SELECT count(*) FROM copy_abort").expect("the count"), [[Some("0".to_owned())]]);
    // Many rows in odd pieces.
    let text: String = (0..20_000).map(|index| format!("{index}\n")).collect();
    let mut bytes = frontend::query("COPY copy_abort FROM STDIN");
    for piece in text.as_bytes().chunks(777) {
        bytes.extend(frontend::copy_data(piece));
    }
    bytes.extend(frontend::copy_done());
    let messages = send_while_reading(&mut wire, bytes);
    assert_eq!(first_error(&messages), None);
    let sum = wire.rows("SELECT count(*), sum(id) FROM copy_abort").expect("the sum");
    assert_eq!(sum, [[Some("20000".to_owned()), Some("199990000".to_owned())]]);
    wire.execute("DROP TABLE copy_abort").expect("the table goes");
}
