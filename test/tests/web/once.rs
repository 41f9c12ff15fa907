//! `Idempotency-Key`: what was carried out is carried out once, and answered the same again, also after the server was killed.

use crate::{JSON, http, of, results, start};
use glimpse_test::http::{Answer, Http};
use glimpse_test::server::Server;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

fn ask(http: &mut Http, key: &str, query: &str) -> Answer {
    asked(http, key, &[], &json!({ "query": query }))
}

fn asked(http: &mut Http, key: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let headers = [&[JSON, ("Idempotency-Key", key)], headers].concat();
    http.ask("POST", "/api/sql", &headers, body.to_string().as_bytes()).expect("an answer")
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

fn code(answer: &Answer) -> (u16, String) {
    let error = answer.json().expect("an error")["error"]["code"].clone();
    (answer.status, error.as_str().unwrap_or_default().to_owned())
}

fn count(http: &mut Http, table: &str) -> u64 {
    let count = results(http, &format!("SELECT count(*) FROM {table}"))[0]["rows"][0][0].clone();
    count.as_str().and_then(|count| count.parse().ok()).expect("a number")
}

#[test]
fn a_request_with_a_key_is_carried_out_once() {
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (id serial PRIMARY KEY, a int UNIQUE)");
    let query = "INSERT INTO t (a) VALUES (1) RETURNING id, a; INSERT INTO t (a) VALUES (2), (3)";
    let first = ask(&mut http, "k1", query);
    assert_eq!((first.status, is_replayed(&first)), (200, false));
    assert_eq!(of(&first)[0]["rows"], json!([["1", "1"]]), "{}", first.text());
    for _ in 0..2 {
        let again = ask(&mut http, "k1", query);
        assert_eq!((again.status, is_replayed(&again)), (200, true));
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("content-type"), first.header("content-type"));
    }
    assert_eq!(count(&mut http, "t"), 3);
    // A key is of one request.
    let (status, sqlstate) = code(&ask(&mut http, "k1", "INSERT INTO t (a) VALUES (4)"));
    assert_eq!((status, sqlstate.as_str()), (422, "22023"));
    // The tag is kept with rows' forms.
    let csv = [("Accept", "text/csv")];
    let body = json!({ "queries": [{ "query": "INSERT INTO t (a) VALUES ($1)", "params": ["5"] }] });
    for replayed in [false, true] {
        let answer = asked(&mut http, "k2", &csv, &body);
        assert_eq!((answer.header("command-tag"), is_replayed(&answer)), (Some("INSERT 0 1"), replayed));
    }
    // A change of the catalog is one as well, and what reads only.
    for query in ["CREATE TABLE u AS SELECT 1 AS a", "SELECT count(*), random() FROM t"] {
        let [first, again] = [0, 1].map(|_| ask(&mut http, query.split(' ').next().unwrap_or_default(), query));
        assert_eq!((first.status, is_replayed(&again)), (200, true), "{}", again.text());
        assert_eq!(first.body, again.body);
    }
    assert_eq!((count(&mut http, "t"), count(&mut http, "u")), (4, 1));
}

#[test]
fn what_failed_may_be_tried_again() {
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let query = "INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)";
    let failed = ask(&mut http, "k", query);
    let failed = failed.json().expect("results");
    assert_eq!(failed["results"][1]["error"]["code"], "23505", "{failed}");
    assert_eq!(count(&mut http, "t"), 1);
    results(&mut http, "DELETE FROM t");
    let answer = ask(&mut http, "k", query);
    assert!(!is_replayed(&answer) && of(&answer)[1]["ok"] == "INSERT 0 1", "{}", answer.text());
    assert_eq!(count(&mut http, "t"), 2);
    // What only the commit finds out, and what is too much to be kept.
    results(&mut http, "CREATE TABLE c (a int REFERENCES t DEFERRABLE INITIALLY DEFERRED)");
    assert_eq!(code(&ask(&mut http, "k2", "INSERT INTO c VALUES (9)")), (409, "23503".to_owned()));
    let long = "INSERT INTO c VALUES (1); SELECT repeat('x', 100000)";
    assert_eq!(code(&ask(&mut http, "k3", long)), (400, "54000".to_owned()));
    let many = "INSERT INTO c VALUES (1); SELECT repeat('x', 1000) FROM generate_series(1, 1000)";
    assert_eq!(code(&ask(&mut http, "k4", many)), (400, "54000".to_owned()));
    // Who ends the transaction, and what has no end.
    for query in ["INSERT INTO c VALUES (1); COMMIT", "BEGIN", "INSERT INTO c VALUES (1); ROLLBACK AND CHAIN"] {
        let answer = ask(&mut http, "k5", query).json().expect("results");
        let last = answer["results"].as_array().and_then(|results| results.last()).cloned().unwrap_or_default();
        assert_eq!(last["error"]["code"], "25000", "{answer}");
    }
    let answer = asked(&mut http, "k6", &[("Accept", "application/x-ndjson")], &json!({ "query": "SUBSCRIBE t" }));
    assert_eq!(code(&answer), (400, "0A000".to_owned()));
    let answer = asked(&mut http, "k6", &[("Accept", "text/event-stream")], &json!({ "query": "SUBSCRIBE t" }));
    assert_eq!(code(&answer), (400, "08P01".to_owned()));
    for key in ["", "a b", &"x".repeat(201)] {
        assert_eq!(code(&ask(&mut http, key, "SELECT 1")), (400, "08P01".to_owned()), "{key}");
    }
    assert_eq!(count(&mut http, "c"), 0);
}

#[test]
fn a_key_is_its_roles_own() {
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (a int); CREATE ROLE joe LOGIN; GRANT INSERT ON t TO joe");
    // Basic joe:
    for (headers, replayed) in [(&[][..], false), (&[("Authorization", "Basic am9lOg==")], false), (&[], true)] {
        let answer = asked(&mut http, "k", headers, &json!({ "query": "INSERT INTO t VALUES (1)" }));
        assert_eq!((answer.status, is_replayed(&answer)), (200, replayed), "{}", answer.text());
    }
    assert_eq!(count(&mut http, "t"), 2);
}

#[test]
fn of_those_beside_each_other_one_is_carried_out() {
    let server = start();
    let mut own = http(&server);
    results(&mut own, "CREATE TABLE t (a int PRIMARY KEY, n int DEFAULT 0); CREATE TABLE log (a int)");
    for (at, query) in [
        // One that fails the second time, one that reads what it changes, and one that reads nothing.
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET n = n + 1",
        "INSERT INTO log VALUES (1) RETURNING random()",
    ]
    .iter()
    .enumerate()
    {
        for round in 0..5 {
            let key = format!("k{at}-{}", if at == 0 { 0 } else { round });
            let answers = std::thread::scope(|scope| {
                let one = || ask(&mut http(&server), &key, query);
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|thread| thread.join().expect("an answer")).collect::<Vec<_>>()
            });
            let firsts = answers.iter().filter(|answer| !is_replayed(answer)).count();
            assert_eq!(firsts, usize::from(at > 0 || round == 0), "{query}");
            assert!(answers.iter().all(|it| it.status == 200 && it.body == answers[0].body), "{query}");
        }
    }
    let found = results(&mut own, "SELECT n FROM t; SELECT count(*) FROM log");
    assert_eq!((&found[0]["rows"], &found[1]["rows"]), (&json!([["5"]]), &json!([["5"]])));
}

fn load(http: &mut Http, key: &str, body: &str) -> Answer {
    let headers = [("Content-Type", "text/csv"), ("Idempotency-Key", key)];
    http.ask("POST", "/api/copy?table=t", &headers, body.as_bytes()).expect("an answer")
}

#[test]
fn rows_are_loaded_once() {
    let server = start();
    let mut http = http(&server);
    results(&mut http, "CREATE TABLE t (a int PRIMARY KEY)");
    let rows: String = std::iter::once("a\n".to_owned()).chain((0..50_000).map(|a| format!("{a}\n"))).collect();
    for replayed in [false, true] {
        let answer = load(&mut http, "k", &rows);
        assert_eq!((of(&answer)[0]["ok"].as_str(), is_replayed(&answer)), (Some("COPY 50000"), replayed));
    }
    assert_eq!(code(&load(&mut http, "k", "a\n-1\n")), (422, "22023".to_owned()));
    assert_eq!(code(&load(&mut http, "k2", "a\n-1\n0\n")), (409, "23505".to_owned()));
    // The next to use the session is another one.
    results(&mut http, "CREATE TABLE next (a int)");
    for replayed in [false, true] {
        let headers = [("Content-Type", "text/csv"), ("Idempotency-Key", "k3")];
        let answer = http.ask("POST", "/api/copy?table=next", &headers, b"a\n1\n").expect("an answer");
        assert_eq!((answer.status, is_replayed(&answer)), (200, replayed));
        let answer = http.ask("POST", "/api/copy?table=next", &headers[..1], b"a\n2\n").expect("an answer");
        assert_eq!(of(&answer)[0]["ok"], "COPY 1", "{}", answer.text());
    }
    assert_eq!(results(&mut http, "INSERT INTO next VALUES (3)")[0]["ok"], "INSERT 0 1");
    // Rows that are none are loaded once as well.
    for replayed in [false, true] {
        let answer = load(&mut http, "k2", "a\n");
        assert_eq!((of(&answer)[0]["ok"].as_str(), is_replayed(&answer)), (Some("COPY 0"), replayed));
    }
    assert_eq!(count(&mut http, "t"), 50_000);
}

/// Clients that send again what they have no answer to, while the server is killed: each is carried out once.
#[test]
fn keys_outlive_the_server() {
    const CLIENTS: u64 = 4;
    const KILLS: usize = 3;
    let mut server = start();
    results(&mut http(&server), "CREATE TABLE t (client int, n int)");
    let (goal, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let addr = server.http_addr();
    std::thread::scope(|scope| {
        let (goal, done) = (&goal, &done);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    let mut n = 0;
                    // Whoever has done what the others wait for goes on until all are through.
                    while goal.load(Ordering::Relaxed) < u64::MAX {
                        let body = json!({ "query": format!("INSERT INTO t VALUES ({client}, {n})") }).to_string();
                        let (key, mut http) = (format!("{client}-{n}"), None);
                        loop {
                            let headers = [JSON, ("Idempotency-Key", key.as_str())];
                            let answer =
                                http.take().map_or_else(|| Http::connect(addr), Ok).and_then(|mut it: Http| {
                                    it.ask("POST", "/api/sql", &headers, body.as_bytes()).map(|answer| (it, answer))
                                });
                            match answer {
                                Ok((_, answer)) if answer.status == 200 && answer.is_whole => break,
                                _ => std::thread::sleep(std::time::Duration::from_millis(20)),
                            }
                        }
                        n += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    n
                })
            })
            .collect();
        for kill in 0..=KILLS {
            let wanted = done.load(Ordering::Relaxed) + 40;
            crate::eventually("they go on", || done.load(Ordering::Relaxed) >= wanted);
            if kill < KILLS {
                server.kill9().expect("it is killed");
                server.restart().expect("it comes back");
            }
        }
        goal.store(u64::MAX, Ordering::Relaxed);
        let ns: Vec<u64> = clients.into_iter().map(|client| client.join().expect("a number")).collect();
        check(&server, &ns);
    });
}

fn check(server: &Server, ns: &[u64]) {
    let found = results(
        &mut http(server),
        "SELECT client, count(*), count(DISTINCT n), max(n) + 1 FROM t GROUP BY client ORDER BY client",
    );
    let of_client =
        |(client, n): (usize, &u64)| json!([client.to_string(), n.to_string(), n.to_string(), n.to_string()]);
    assert_eq!(found[0]["rows"], Value::Array(ns.iter().enumerate().map(of_client).collect()));
}
