//! The WebSocket: a session's requests and answers, what it follows, and who may open one.

use std::time::Duration;

use crate::{admin, eventually, http, results, start};
use glimpse_test::secured::Secured;
use glimpse_test::server::Server;
use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::WebSocketConfig;

/// A WebSocket whose client has said who it is, and its key.
pub(crate) struct Socket {
    socket: tungstenite::WebSocket<std::net::TcpStream>,
    key: Value,
}

type Opened = Result<tungstenite::WebSocket<std::net::TcpStream>, u16>;

/// Opens a WebSocket with these headers; or the status with which that is refused.
fn open(server: &Server, headers: &[(&'static str, &str)]) -> Opened {
    let addr = server.http_addr();
    let mut request = format!("ws://{addr}/api/experimental/sql").into_client_request().expect("a request");
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a value"));
    }
    let stream = std::net::TcpStream::connect(addr).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is set");
    let any_size = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    match tungstenite::client::client_with_config(request, stream, Some(any_size)) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

impl Socket {
    pub(crate) fn start(server: &Server) -> Socket {
        let mut socket = Socket { socket: open(server, &[]).expect("it is opened"), key: Value::Null };
        let greeting = socket.ask(&json!({ "user": "materialize", "password": "" }));
        let names: Vec<&Value> = greeting.iter().map(|(kind, _)| kind).collect();
        assert!(names.iter().any(|name| *name == "ParameterStatus"), "{greeting:?}");
        let key = greeting.iter().find(|(kind, _)| kind == "BackendKeyData").expect("there is a key");
        socket.key = key.1.clone();
        socket
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.socket.send(tungstenite::Message::text(message.to_string())).expect("it is sent");
    }

    /// The next message: its type and what it says. Errors: the socket was closed, with a code and a reason.
    pub(crate) fn next(&mut self) -> Result<(Value, Value), (u16, String)> {
        loop {
            match self.socket.read() {
                Ok(tungstenite::Message::Text(text)) => {
                    let message: Value = serde_json::from_str(&text).expect("it is JSON");
                    return Ok((message["type"].clone(), message["payload"].clone()));
                }
                Ok(tungstenite::Message::Close(Some(frame))) => {
                    return Err((frame.code.into(), frame.reason.to_string()));
                }
                Ok(_) => {}
                Err(error) => return Err((0, error.to_string())),
            }
        }
    }

    /// What answers a message, ReadyForQuery at the end.
    fn ask(&mut self, message: &Value) -> Vec<(Value, Value)> {
        self.send(message);
        self.answer()
    }

    fn answer(&mut self) -> Vec<(Value, Value)> {
        let mut all = Vec::new();
        loop {
            let message = self.next().expect("it goes on");
            let is_last = message.0 == "ReadyForQuery";
            all.push(message);
            if is_last {
                return all;
            }
        }
    }

    /// What answers statements, in short: tags and SQLSTATEs, and where the transaction stands.
    fn ends(&mut self, query: &str) -> Vec<String> {
        let answers = self.ask(&json!({ "query": query }));
        let ends = answers.iter().filter_map(|(kind, payload)| match kind.as_str()? {
            "CommandComplete" | "ReadyForQuery" => payload.as_str(),
            "Error" => payload["code"].as_str(),
            _ => None,
        });
        ends.map(str::to_owned).collect()
    }
}

#[test]
fn a_websocket_answers_as_documented() {
    let server = start();
    let mut socket = Socket::start(&server);
    let answers = socket.ask(&json!({ "query": "select 1,2; values (4), (5)" }));
    let column = |name: &str| json!({ "name": name, "type_oid": 23, "type_len": 4, "type_mod": -1 });
    let starting = || (json!("CommandStarting"), json!({ "has_rows": true, "is_streaming": false }));
    let expected = [
        starting(),
        (json!("Rows"), json!({ "columns": [column("?column?"), column("?column?")] })),
        (json!("Row"), json!(["1", "2"])),
        (json!("CommandComplete"), json!("SELECT 1")),
        starting(),
        (json!("Rows"), json!({ "columns": [column("column1")] })),
        (json!("Row"), json!(["4"])),
        (json!("Row"), json!(["5"])),
        (json!("CommandComplete"), json!("SELECT 2")),
        (json!("ReadyForQuery"), json!("I")),
    ];
    assert_eq!(answers, expected);
    // It is a session: what a request leaves is there for the next.
    assert_eq!(socket.ends("CREATE TEMPORARY TABLE mine (a int PRIMARY KEY)"), ["CREATE TABLE", "I"]);
    assert_eq!(socket.ends("BEGIN; INSERT INTO mine VALUES (1)"), ["BEGIN", "INSERT 0 1", "T"]);
    assert_eq!(socket.ends("INSERT INTO mine VALUES (2)"), ["INSERT 0 1", "T"]);
    assert_eq!(socket.ends("COMMIT"), ["COMMIT", "I"]);
    assert_eq!(socket.ends("SELECT * FROM mine"), ["SELECT 2", "I"]);
    assert_eq!(socket.ends("BEGIN; SELECT nosuch; SELECT 1"), ["BEGIN", "42703", "E"]);
    assert_eq!(socket.ends("SELECT 1"), ["25P02", "E"]);
    assert_eq!(socket.ends("ROLLBACK"), ["ROLLBACK", "I"]);
    assert_eq!(socket.ends(""), ["I"]);
    let set = socket.ask(&json!({ "query": "SET application_name = 'me'" }));
    assert!(set.contains(&(json!("ParameterStatus"), json!({ "name": "application_name", "value": "me" }))), "{set:?}");
    let notice = socket.ask(&json!({ "query": "DROP TABLE IF EXISTS nobody" }));
    assert!(notice.iter().any(|(kind, payload)| kind == "Notice" && payload["severity"] == "notice"), "{notice:?}");
    let error = socket.ask(&json!({ "query": "SELECT nosuch" }));
    assert_eq!(
        error[0],
        (json!("Error"), json!({ "message": "column \"nosuch\" does not exist", "code": "42703", "position": 8 }))
    );
    let queries = json!({ "queries": [
        { "query": "INSERT INTO mine VALUES ($1)", "params": ["7"] },
        { "query": "SELECT a FROM mine WHERE a = $1", "params": ["7"] },
    ] });
    let answers = socket.ask(&queries);
    assert!(answers.contains(&(json!("Row"), json!(["7"]))), "{answers:?}");
    // What is no request is an error, and the next is one again.
    for message in [json!("SELECT 1"), json!({ "query": 1 }), json!({ "query": "SELECT 1", "more": 1 })] {
        let answers = socket.ask(&message);
        assert_eq!((&answers[0].0, &answers[0].1["code"]), (&json!("Error"), &json!("08P01")), "{message}");
    }
    // Requests may come ahead.
    for x in 0..50 {
        socket.send(&json!({ "query": format!("SELECT {x}") }));
    }
    for x in 0..50 {
        assert!(socket.answer().contains(&(json!("Row"), json!([x.to_string()]))), "{x}");
    }
    // Many rows, and a large one.
    let many =
        socket.ask(&json!({ "query": "SELECT x FROM generate_series(1, 20000) x; SELECT repeat('x', 20000000)" }));
    assert_eq!(many.iter().filter(|(kind, _)| kind == "Row").count(), 20_001);
    assert!(many.iter().any(|(_, payload)| payload[0].as_str().is_some_and(|text| text.len() == 20_000_000)));
}

#[test]
fn a_websocket_follows_changes_until_that_is_cancelled() {
    let server = start();
    let (mut socket, mut other) = (Socket::start(&server), http(&server));
    results(&mut other, "CREATE TABLE t (a int)");
    results(&mut other, "INSERT INTO t VALUES (1)");
    socket.send(&json!({ "query": "SUBSCRIBE t" }));
    assert_eq!(socket.next(), Ok((json!("CommandStarting"), json!({ "has_rows": true, "is_streaming": true }))));
    assert_eq!(socket.next().expect("a shape").0, "Rows");
    let change = |socket: &mut Socket| {
        let (kind, payload) = socket.next().expect("a change");
        assert_eq!(kind, "Row");
        (payload[1].clone(), payload[2].clone())
    };
    assert_eq!(change(&mut socket), (json!("1"), json!("1")));
    results(&mut other, "INSERT INTO t VALUES (2)");
    assert_eq!(change(&mut socket), (json!("1"), json!("2")));
    let key = |name: &str| u32::try_from(socket.key[name].as_u64().expect("a number")).expect("it fits");
    let mut wire = Wire::connect(server.sql_addr()).expect("a connection");
    let key = [key("conn_id"), key("secret_key")].map(u32::to_be_bytes).concat().try_into().expect("eight bytes");
    wire.send(&glimpse_test::wire::frontend::cancel_request(key)).expect("it is sent");
    let answers = socket.answer();
    assert_eq!((&answers[0].0, &answers[0].1["code"]), (&json!("Error"), &json!("57014")));
    // Who hangs up ends what it follows.
    let mut admin = admin(&server);
    let mut sessions = || {
        admin.rows("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%SUBSCRIBE%' AND state = 'active' AND pid <> pg_backend_pid()").expect("a count")[0][0].clone()
    };
    socket.send(&json!({ "query": "SUBSCRIBE t" }));
    eventually("it follows", || sessions().as_deref() == Some("1"));
    drop(socket);
    eventually("it ends", || sessions().as_deref() == Some("0"));
}

#[test]
fn a_websocket_is_opened_for_who_may_come_in() {
    let secured = Secured::start(Some("host all alice all scram-sha-256\nhost all carol all trust\n"))
        .expect("the server starts");
    let Target::Glimpse(server) = &secured.target else { return };
    let mut admin = admin(server);
    for role in ["alice", "carol"] {
        admin.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'sesame'")).expect("the role is made");
    }
    assert_eq!(open(server, &[("Origin", "http://evil.example")]).err(), Some(403));
    let own = format!("http://{}", server.http_addr());
    let begin = |introduction: &Value, headers: &[(&'static str, &str)]| {
        let mut socket = Socket { socket: open(server, headers).expect("it is opened"), key: Value::Null };
        socket.send(introduction);
        socket.next().map(|(kind, _)| kind)
    };
    let welcome = Ok(json!("ParameterStatus"));
    assert_eq!(begin(&json!({ "user": "alice", "password": "sesame" }), &[("Origin", &own)]), welcome);
    assert_eq!(begin(&json!({ "user": "carol" }), &[]), welcome);
    assert_eq!(begin(&json!({ "user": "carol", "options": { "search_path": "x" } }), &[]), welcome);
    for introduction in [
        json!({ "user": "alice", "password": "wrong" }),
        json!({ "user": "alice" }),
        json!({ "user": "bob", "password": "sesame" }),
        json!({ "user": "carol", "options": { "nosuch": "x" } }),
        json!({ "user": "carol", "options": [] }),
        json!({ "query": "SELECT 1" }),
        json!({ "token": "x" }),
        json!("x"),
    ] {
        assert_eq!(begin(&introduction, &[]).expect_err("it is closed").0, 1008, "{introduction}");
    }
    // A goodbye is answered.
    let mut socket = open(server, &[]).expect("it is opened");
    socket.send(tungstenite::Message::text(json!({ "user": "carol" }).to_string())).expect("it is sent");
    socket.close(None).expect("it is sent");
    let last = std::iter::from_fn(|| socket.read().ok()).last().expect("something comes");
    assert!(last.is_close(), "{last}");
    // Too large a message, before and after one is known.
    let large = json!({ "user": "carol", "password": "x".repeat(5 << 20) });
    let mut socket = open(server, &[]).expect("it is opened");
    let _closed = socket.send(tungstenite::Message::text(large.to_string()));
    assert!(socket.read().map_or(true, |message| message.is_close()));
}
