//! The WebSocket of Cube's API: answers by their messages' names, and queries that are answered again when their result has changed.

use crate::{ok, post, server};
use glimpse_test::server::Server;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::Duration;
use tungstenite::Message;

pub(crate) struct Socket(tungstenite::WebSocket<TcpStream>);

impl Socket {
    fn open(server: &Server, path: &str) -> Socket {
        let stream = TcpStream::connect(server.http_addr()).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is set");
        let (socket, _) =
            tungstenite::client(format!("ws://{}{path}", server.http_addr()), stream).expect("it is opened");
        Socket(socket)
    }

    pub(crate) fn greeted(server: &Server, token: &str) -> Socket {
        let mut socket = Socket::open(server, "/cubejs-api/v1/ws");
        socket.send(&json!({"authorization": token}));
        assert_eq!(socket.next(), json!({"handshake": true}));
        socket
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).expect("it is sent");
    }

    /// The next message, but for those that say that one is over.
    pub(crate) fn next(&mut self) -> Value {
        loop {
            let message = self.any();
            if message.get("messageProcessedId").is_none() {
                return message;
            }
        }
    }

    fn any(&mut self) -> Value {
        loop {
            match self.0.read().expect("a message") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Close(frame) => {
                    panic!("it was closed: {frame:?}");
                }
                _ => {}
            }
        }
    }

    /// The answer to a message, which says that it is over.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        let answer = self.next();
        assert_eq!(answer["messageId"], *id, "{answer}");
        assert_eq!(self.any(), json!({"messageProcessedId": id}));
        answer
    }

    /// The error that is told of what is followed: its status and SQLSTATE.
    pub(crate) fn error(&mut self, id: u64) -> (u64, String) {
        let answer = self.next();
        assert_eq!(answer["messageId"], json!(id), "{answer}");
        let code = answer["message"]["code"].as_str().unwrap_or_else(|| panic!("no error: {answer}"));
        (answer["status"].as_u64().expect("a status"), code.to_owned())
    }

    fn count(&mut self, id: u64) -> String {
        let answer = self.next();
        assert_eq!((&answer["messageId"], &answer["status"]), (&json!(id), &json!(200)), "{answer}");
        answer["message"]["results"][0]["data"][0]["orders.count"].as_str().expect("a count").to_owned()
    }
}

pub(crate) fn asked(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"messageId": id.into(), "requestId": "r-span-1", "method": method, "params": params})
}

fn counting(market: &str) -> Value {
    let filter = json!({"member": "orders.market_code", "operator": "equals", "values": [market]});
    json!({"query": {"measures": ["orders.count"], "filters": [filter]}, "queryType": "multi"})
}

#[test]
fn messages_are_answered_by_their_names() {
    let (server, _) = server(&[]);
    let mut http = crate::http(&server);
    // As Cube's transport connects, which asks for nothing but the root.
    let mut socket = Socket::open(&server, "/");
    socket.send(&json!({"authorization": ""}));
    assert_eq!(socket.next(), json!({"handshake": true}));
    for (method, params) in [
        (
            "load",
            json!({"query": {"measures": ["orders.count"], "dimensions": ["orders.market_code"]}, "queryType": "multi"}),
        ),
        ("load", json!({"query": {"dimensions": ["orders.id"], "limit": 50_000}})),
        ("meta", json!({})),
        ("dry-run", json!({"query": {"measures": ["orders.count"]}})),
        ("sql", json!({"query": {"measures": ["orders.count"]}})),
    ] {
        socket.send(&asked("m1", method, params.clone()));
        let mut answer = socket.answer(&json!("m1"));
        let mut expected = ok(&post(&mut http, method, &[], &params));
        for result in [&mut answer["message"], &mut expected] {
            // The time is another one.
            for result in [&mut *result].into_iter().map(|result| match result.get("results") {
                Some(_) => &mut result["results"][0],
                None => result,
            }) {
                if result.get("lastRefreshTime").is_some() {
                    result["lastRefreshTime"] = Value::Null;
                }
            }
        }
        assert_eq!((&answer["status"], &answer["message"]), (&json!(200), &expected), "{method}");
    }
    for (message, status) in [
        (asked(1, "load", json!({"query": {"measures": ["orders.foo"]}})), 400),
        (asked(2, "load", json!({"query": {"measures": ["orders.count"]}, "x": 1})), 400),
        (asked(3, "subscribe", json!({"query": {"measures": ["orders.foo"]}})), 400),
        (asked(4, "drop", json!({})), 400),
        (asked(5, "meta", json!({"extended": true})), 400),
    ] {
        socket.send(&message);
        let answer = socket.answer(&message["messageId"]);
        assert_eq!((&answer["status"], answer["message"]["error"].is_string()), (&json!(status), true), "{answer}");
    }
    for wrong in
        ["{}", "x", "[]", r#"{"messageId": {}, "method": "meta"}"#, r#"{"messageId": 1, "method": "meta", "y": 1}"#]
    {
        socket.0.send(Message::text(wrong)).expect("it is sent");
        assert_eq!(socket.next()["status"], json!(400), "{wrong}");
    }
    // Who is not let in is told, and may try again: Cube's client opens another socket as soon as one is closed.
    let mut stranger = Socket::open(&server, "/cubejs-api/v1/ws");
    for _ in 0..3 {
        stranger.send(&json!({"authorization": "x.y.z"}));
        assert_eq!(stranger.next()["status"], json!(403));
        stranger.send(&asked(7, "meta", json!({})));
        let refused = stranger.next();
        assert_eq!((&refused["messageId"], &refused["status"]), (&json!(7), &json!(403)));
    }
    stranger.send(&json!({"authorization": ""}));
    assert_eq!(stranger.next(), json!({"handshake": true}));
}

#[test]
fn a_result_is_told_again_when_it_has_changed() {
    let (server, mut wire) = server(&["--cube-subscriptions-max=3"]);
    let mut write = |sql: &str| wire.execute(sql).expect("it is written");
    let mut socket = Socket::greeted(&server, "undefined");
    socket.send(&asked(1, "subscribe", counting("new")));
    assert_eq!(socket.count(1), "0");
    write("INSERT INTO raw.orders (id, market_code) VALUES (5001, 'new')");
    assert_eq!(socket.count(1), "1");
    // What changes nothing for it is not told: the next is about the last.
    for id in 5002..5010 {
        write(&format!("INSERT INTO raw.orders (id, market_code) VALUES ({id}, 'elsewhere')"));
    }
    // Asked again, as clients do, nothing is begun anew.
    socket.send(&asked(1, "subscribe", counting("new")));
    write("UPDATE raw.orders SET market_code = 'new' WHERE id < 4 OR id > 5004");
    assert_eq!(socket.count(1), "9");
    write("DELETE FROM raw.orders WHERE market_code = 'new'");
    assert_eq!(socket.count(1), "0");
    // Others beside it, up to a limit; what is not wanted any more makes room.
    socket.send(&asked(2, "subscribe", counting("SE")));
    socket.count(2);
    let ranges = json!({"query": {
        "measures": ["orders.count"],
        "timeDimensions": [{"dimension": "orders.updated_at", "compareDateRange": ["last 7 days", ["2031-01-01", "2031-01-31"]]}],
    }, "queryType": "multi"});
    socket.send(&asked(3, "subscribe", ranges));
    assert_eq!(
        socket.next()["message"]["results"][1]["data"],
        json!([{"orders.count": "0", "compareDateRange": "2031-01-01T00:00:00.000 - 2031-01-31T23:59:59.999"}])
    );
    socket.send(&asked(4, "subscribe", counting("AT")));
    let refused = socket.answer(&json!(4));
    assert_eq!((&refused["message"]["code"], &refused["status"]), (&json!("53400"), &json!(503)), "{refused}");
    write("INSERT INTO raw.orders (id, market_code, updated_at) VALUES (6001, 'x', '2031-01-05 00:00+00')");
    let told = socket.next();
    assert_eq!(
        (&told["messageId"], &told["message"]["results"][1]["data"][0]["orders.count"]),
        (&json!(3), &json!("1"))
    );
    // The same name for another query is that one.
    socket.send(&asked(2, "subscribe", counting("FI")));
    assert_eq!(socket.count(2), "1");
    socket.send(&json!({"unsubscribe": 2}));
    eventually(|| {
        socket.send(&asked(5, "subscribe", counting("AT")));
        let answer = socket.next();
        let is_there = answer["status"] == json!(200);
        if !is_there {
            socket.next();
        }
        is_there
    });
    write("UPDATE raw.orders SET market_code = 'SE' WHERE market_code = 'AT'");
    assert_eq!(socket.count(5), "0");
    // A limit that was asked for is followed as such; a total is that of all.
    drop(socket);
    let mut socket = roomy(&server);
    let total = json!({"query": {"dimensions": ["orders.id"], "limit": 1, "order": {"orders.id": "asc"}, "total": true}, "queryType": "multi"});
    socket.send(&asked(1, "subscribe", total));
    let before = socket.next()["message"]["results"][0]["total"].as_i64().expect("a number");
    write("INSERT INTO raw.orders (id) VALUES (7001)");
    assert_eq!(socket.next()["message"]["results"][0]["total"], json!(before + 1));
}

/// A socket whose subscription has room: those of one that has gone end a moment later.
fn roomy(server: &Server) -> Socket {
    let mut socket = Socket::greeted(server, "");
    eventually(|| {
        socket.send(&asked(99, "subscribe", counting("SE")));
        let is_there = socket.next()["status"] == json!(200);
        match is_there {
            true => socket.send(&json!({"unsubscribe": 99})),
            false => drop(socket.next()),
        }
        is_there
    });
    socket
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "it did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the model says is followed as the rows are; while it cannot be followed, that is said once.
#[test]
fn what_is_followed_follows_its_model() {
    let (server, mut wire) = server(&[]);
    let mut socket = Socket::greeted(&server, "");
    socket.send(&asked(1, "subscribe", counting("SE")));
    let before: u64 = socket.count(1).parse().expect("a number");
    let model = |table: &str| {
        format!("AS $${}$$", crate::MODEL.replace("sql_table: raw.orders", &format!("sql_table: {table}")))
    };
    wire.execute("CREATE TABLE raw.others AS SELECT * FROM raw.orders WHERE id < 3").expect("a table");
    wire.execute(&format!("ALTER SEMANTIC MODEL reference {}", model("raw.others"))).expect("it is changed");
    assert_eq!(socket.count(1), "0");
    wire.execute("INSERT INTO raw.others (id, market_code) VALUES (1000, 'SE')").expect("a row");
    assert_eq!(socket.count(1), "1");
    // A table that has nothing to do with it is no news.
    wire.execute("CREATE TABLE raw.nothing (a int); DROP SEMANTIC MODEL reference").expect("it is dropped");
    assert_eq!(socket.error(1), (400, "42P01".to_owned()));
    wire.execute(&format!("CREATE SEMANTIC MODEL reference {}", model("raw.orders"))).expect("it is back");
    assert_eq!(socket.count(1), before.to_string());
    socket.send(&asked(2, "meta", json!({})));
    assert_eq!(socket.answer(&json!(2))["message"]["cubes"].as_array().map(Vec::len), Some(5));
}

/// A row of which nothing can be computed is an error, and none any more once it is gone.
#[test]
fn what_is_followed_outlives_an_error() {
    let (server, mut wire) = server(&[]);
    let model = "cubes: [{name: c, sql_table: raw.items, dimensions: [{name: share, sql: 100 / quantity, type: number}], measures: [{name: n, type: count}]}]";
    wire.execute("DELETE FROM raw.items WHERE quantity = 0").expect("rows go");
    wire.execute(&format!("CREATE SEMANTIC MODEL shares AS $${model}$$")).expect("a model");
    let mut socket = Socket::greeted(&server, "");
    let query =
        json!({"measures": ["c.n"], "filters": [{"member": "c.share", "operator": "equals", "values": ["100"]}]});
    socket.send(&asked(1, "subscribe", json!({"query": query, "queryType": "multi"})));
    let told =
        |socket: &mut Socket| socket.next()["message"]["results"][0]["data"][0]["c.n"].as_str().map(str::to_owned);
    let before = told(&mut socket);
    assert!(before.is_some());
    wire.execute("INSERT INTO raw.items VALUES (9001, 1, 0)").expect("a row");
    assert_eq!(socket.error(1), (400, "22012".to_owned()));
    wire.execute("DELETE FROM raw.items WHERE id = 9001").expect("it goes");
    assert_eq!(told(&mut socket), before);
}
