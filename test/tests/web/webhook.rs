//! Webhooks: what is sent becomes rows, of those only who may send, and secrets stay where they are.

use crate::{JSON, admin, eventually, http, results, start};
use glimpse_test::http::{Answer, Http};
use glimpse_test::server::Server;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The second test of RFC 4231.
const MESSAGE: &str = "what do ya want for nothing?";
const KEY: &str = "Jefe";
const SIGNATURE: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";

fn send(http: &mut Http, source: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    http.ask("POST", &format!("/api/webhook/materialize/public/{source}"), headers, body).expect("an answer")
}

fn sent(http: &mut Http, source: &str, headers: &[(&str, &str)], body: &[u8]) {
    let answer = send(http, source, headers, body);
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{}", answer.text());
}

fn refused(http: &mut Http, source: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let answer = send(http, source, headers, body);
    let error = answer.json().expect("an error")["error"].clone();
    (answer.status, error["code"].as_str().unwrap_or_default().to_owned())
}

fn rows(http: &mut Http, query: &str) -> Value {
    results(http, query)[0]["rows"].clone()
}

fn done(http: &mut Http, statements: &str) {
    let results = results(http, statements);
    let failed = results.as_array().and_then(|results| results.iter().find(|it| it["error"].is_object()));
    assert_eq!(failed, None, "{statements}");
}

/// The SQLSTATE of a statement that is refused.
fn code(http: &mut Http, statement: &str) -> String {
    let result = results(http, statement)[0].clone();
    result["error"]["code"].as_str().unwrap_or_else(|| panic!("{statement}: {result}")).to_owned()
}

#[test]
fn bodies_become_rows() {
    let server = start();
    let mut http = http(&server);
    for (name, format) in [
        ("texts", "TEXT"),
        ("jsons", "JSON"),
        ("arrays", "JSON ARRAY"),
        ("bytes", "BYTES"),
        ("csv", "CSV WITH 2 COLUMNS"),
        ("named", "CSV WITH HEADER (a, \"B\") DELIMITED BY ';'"),
    ] {
        done(&mut http, &format!("CREATE SOURCE {name} FROM WEBHOOK BODY FORMAT {format}"));
    }
    sent(&mut http, "texts", &[], "é\n{".as_bytes());
    sent(&mut http, "texts", &[], b"");
    assert_eq!(rows(&mut http, "SELECT * FROM texts ORDER BY body"), json!([[""], ["é\n{"]]));
    assert_eq!(refused(&mut http, "texts", &[], b"\xff"), (400, "22021".to_owned()));
    sent(&mut http, "bytes", &[], b"\xff\x00");
    assert_eq!(rows(&mut http, "SELECT * FROM bytes"), json!([["\\xff00"]]));
    // One or many, in lines or not, with all of their digits.
    sent(&mut http, "jsons", &[JSON], b"{\"n\": 1.50,\n \"a\": [1]}");
    sent(&mut http, "jsons", &[], b"{\"n\":12345678901234567890.5}\n\n{\"n\":3}\r\n[4]\n");
    let found = rows(&mut http, "SELECT body->>'n', body FROM jsons ORDER BY 1");
    let text = serde_json::to_string(&found).expect("it is JSON");
    for part in ["1.50", "12345678901234567890.5", "\"3\"", "[4]"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(found.as_array().map(Vec::len), Some(4), "{text}");
    for body in ["", " \n", "{", "{\"a\":1}\nx", "nul"] {
        assert_eq!(refused(&mut http, "jsons", &[], body.as_bytes()).0, 400, "{body}");
    }
    sent(&mut http, "arrays", &[], b"[{\"a\":1},{\"a\":2},[3]]");
    sent(&mut http, "arrays", &[], b"{\"a\":4}");
    sent(&mut http, "arrays", &[], b"[]");
    assert_eq!(rows(&mut http, "SELECT count(*), sum((body->>'a')::int) FROM arrays"), json!([["4", "7"]]));
    sent(&mut http, "csv", &[], b"1,\"x\ny\"\r\n2,\r\n");
    assert_eq!(rows(&mut http, "SELECT * FROM csv ORDER BY 1"), json!([["1", "x\ny"], ["2", null]]));
    sent(&mut http, "named", &[], b"a;B\n1;2\n");
    assert_eq!(rows(&mut http, "SELECT a, \"B\" FROM named"), json!([["1", "2"]]));
    for body in ["a,B\n1;2\n", "a;B\n1\n", "a;B\n1;2;3\n", "a;B\n\"1;2\n"] {
        assert_eq!(refused(&mut http, "named", &[], body.as_bytes()), (400, "22P04".to_owned()), "{body}");
    }
    assert_eq!(rows(&mut http, "SELECT count(*) FROM named"), json!([["1"]]), "all of a body or nothing");
}

#[test]
fn headers_have_columns() {
    let server = start();
    let mut http = http(&server);
    let create = "CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT INCLUDE HEADERS INCLUDE HEADER 'X-Id' AS id INCLUDE HEADER 'x-id' AS raw BYTES";
    done(&mut http, create);
    done(
        &mut http,
        "CREATE SOURCE few FROM WEBHOOK BODY FORMAT TEXT INCLUDE HEADERS ('x-a', 'authorization', NOT 'x-b')",
    );
    done(&mut http, "CREATE SOURCE others FROM WEBHOOK BODY FORMAT TEXT INCLUDE HEADERS (NOT 'X-A')");
    let headers =
        [("X-Id", "7"), ("X-A", "1"), ("x-a", "2"), ("Cookie", "c"), ("Authorization", "Basic bWF0ZXJpYWxpemU6")];
    for source in ["s", "few", "others"] {
        sent(&mut http, source, &headers, b"x");
    }
    sent(&mut http, "s", &[], b"y");
    let found = rows(
        &mut http,
        "SELECT body, id, raw, headers->>'x-a', headers ? 'cookie', headers ? 'host' FROM s ORDER BY 1",
    );
    assert_eq!(found, json!([["x", "7", "\\x37", "1, 2", false, true], ["y", null, null, null, false, true]]));
    let found = rows(&mut http, "SELECT headers FROM few");
    assert_eq!(
        found,
        json!([[{"x-a": "1, 2", "authorization": "Basic bWF0ZXJpYWxpemU6"}]]),
        "what is asked for by name"
    );
    assert_eq!(
        rows(&mut http, "SELECT headers ? 'x-a', headers ? 'x-id', headers ? 'authorization' FROM others"),
        json!([[false, true, false]])
    );
}

#[test]
fn who_signs_may_send() {
    let server = start();
    let mut http = http(&server);
    done(&mut http, &format!("CREATE SECRET signing AS '{KEY}'"));
    done(
        &mut http,
        "CREATE SOURCE signed IN CLUSTER quickstart FROM WEBHOOK BODY FORMAT TEXT CHECK (
             WITH (HEADERS, BODY AS request_body, SECRET signing AS key)
             constant_time_eq(decode(headers->'x-signature', 'hex'), hmac(request_body, key, 'sha256')))",
    );
    // Whoever it is: a name that may not even log in is not looked at.
    let right = [("X-Signature", SIGNATURE), ("Authorization", "Basic bm9ib2R5Og==")];
    sent(&mut http, "signed", &right, MESSAGE.as_bytes());
    let other = SIGNATURE.replace('5', "6");
    for headers in [&[][..], &[("X-Signature", other.as_str())], &[("X-Signature", "no hex")], &[("X-Signature", "")]] {
        let answer = send(&mut http, "signed", headers, MESSAGE.as_bytes());
        let error = answer.json().expect("an error")["error"].clone();
        assert_eq!((answer.status, error["code"].as_str()), (403, Some("42501")), "{error}");
        assert_eq!(error["message"], "the request does not satisfy the CHECK of source signed");
    }
    assert_eq!(refused(&mut http, "signed", &right, b"another").0, 403);
    // Nor does a key say anything to who does not sign.
    let keyed = [right[0], ("Idempotency-Key", "k")];
    sent(&mut http, "signed", &keyed, MESSAGE.as_bytes());
    for (body, key) in [(MESSAGE.as_bytes(), "k"), (b"x", "k"), (b"x", "other")] {
        assert_eq!(refused(&mut http, "signed", &[("Idempotency-Key", key)], body).0, 403);
    }
    let again = send(&mut http, "signed", &keyed, MESSAGE.as_bytes());
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(rows(&mut http, "SELECT body FROM signed"), json!([[MESSAGE], [MESSAGE]]));
    // Another secret from now on; of the same name or not.
    done(&mut http, "ALTER SECRET signing RENAME TO renamed; ALTER SECRET renamed AS decode('SmVmZg==', 'base64')");
    assert_eq!(refused(&mut http, "signed", &right, MESSAGE.as_bytes()).0, 403);
    done(&mut http, &format!("ALTER SECRET renamed AS '{KEY}'"));
    sent(&mut http, "signed", &right, MESSAGE.as_bytes());
    // What fails could show the secret, and what is not true is not enough.
    done(&mut http, "CREATE SOURCE fails FROM WEBHOOK BODY FORMAT TEXT CHECK (WITH (SECRET renamed) renamed::int = 7)");
    done(&mut http, "CREATE SOURCE never FROM WEBHOOK BODY FORMAT TEXT CHECK (WITH (HEADERS) headers->'x' = 'y')");
    done(
        &mut http,
        "CREATE SOURCE fresh FROM WEBHOOK BODY FORMAT TEXT CHECK (WITH (HEADERS AS h) abs(extract(epoch FROM now()) - (h->'x-time')::numeric) < 300)",
    );
    for source in ["fails", "never", "fresh"] {
        let answer = send(&mut http, source, &[], b"x");
        assert!(answer.status == 403 && !answer.text().contains(KEY), "{}", answer.text());
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970").as_secs();
    sent(&mut http, "fresh", &[("X-Time", &now.to_string())], b"x");
    assert_eq!(refused(&mut http, "fresh", &[("X-Time", &(now - 400).to_string())], b"x").0, 403);
    // Those that are none.
    for (check, sqlstate) in [
        ("WITH (HEADERS) headers", "42804"),
        ("WITH (BODY) EXISTS (SELECT 1)", "0A000"),
        ("WITH (BODY, HEADERS AS body) true", "42701"),
        ("WITH (SECRET nothing) true", "42704"),
        ("WITH (SECRET signed) true", "42809"),
        ("body = 'x'", "42703"),
    ] {
        let create = format!("CREATE SOURCE x FROM WEBHOOK BODY FORMAT TEXT CHECK ({check})");
        assert_eq!(code(&mut http, &create), sqlstate, "{check}");
    }
}

#[test]
fn without_a_check_it_takes_the_right_to_insert() {
    let server = start();
    let mut http = http(&server);
    done(&mut http, "CREATE SOURCE open FROM WEBHOOK BODY FORMAT TEXT; CREATE ROLE joe LOGIN; CREATE ROLE shut");
    // Basic joe:, shut:
    let (joe, shut) = ([("Authorization", "Basic am9lOg==")], [("Authorization", "Basic c2h1dDo=")]);
    assert_eq!(refused(&mut http, "open", &joe, b"x"), (403, "42501".to_owned()));
    done(&mut http, "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO joe; REVOKE ALL ON open FROM joe");
    assert_eq!(refused(&mut http, "open", &joe, b"x"), (403, "42501".to_owned()));
    done(&mut http, "GRANT INSERT ON open TO joe, shut; CREATE SCHEMA closed");
    done(&mut http, "CREATE SOURCE closed.hook FROM WEBHOOK BODY FORMAT TEXT; GRANT INSERT ON closed.hook TO joe");
    let answer = http.ask("POST", "/api/webhook/materialize/closed/hook", &joe, b"x").expect("an answer");
    assert_eq!(answer.status, 403, "the schema is closed");
    sent(&mut http, "open", &joe, b"x");
    assert_eq!(refused(&mut http, "open", &shut, b"x"), (403, "28000".to_owned()), "it may not log in");
    sent(&mut http, "open", &[], b"y");
    // Pages of strangers, and what is no request of one.
    assert_eq!(refused(&mut http, "open", &[("Origin", "http://elsewhere.example")], b"x").0, 403);
    assert_eq!(refused(&mut http, "open", &[("Content-Encoding", "gzip")], b"x").0, 415);
    assert_eq!(refused(&mut http, "none", &[], b"x"), (404, "42P01".to_owned()));
    done(&mut http, "CREATE TABLE plain (a text)");
    assert_eq!(refused(&mut http, "plain", &[], b"x"), (404, "42P01".to_owned()));
    let answer = http.ask("GET", "/api/webhook/materialize/public/open", &[], b"").expect("an answer");
    assert_eq!(answer.status, 405);
    let answer = http.ask("POST", "/api/webhook/materialize/public/open?options={}", &[], b"x").expect("an answer");
    assert_eq!(answer.status, 400);
    assert_eq!(rows(&mut http, "SELECT count(*) FROM open"), json!([["2"]]));
}

#[test]
fn sources_are_relations_that_nothing_else_writes_to() {
    let server = start();
    let mut http = http(&server);
    done(&mut http, "CREATE SCHEMA \"S x\"; CREATE SOURCE \"S x\".\"a/b\" FROM WEBHOOK BODY FORMAT JSON");
    let url = rows(&mut http, "SELECT url FROM mz_internal.mz_webhook_sources WHERE name = 'a/b'")[0][0].clone();
    let url = url.as_str().expect("an address");
    done(
        &mut http,
        "CREATE VIEW sums AS SELECT sum((body->>'n')::int) AS n FROM \"S x\".\"a/b\"; CREATE DEFAULT INDEX ON sums",
    );
    for n in ["1", "2"] {
        let answer = http.ask("POST", url, &[], format!("{{\"n\": {n}}}").as_bytes()).expect("an answer");
        assert_eq!(answer.status, 200, "{url}: {}", answer.text());
    }
    assert_eq!(rows(&mut http, "SELECT n FROM sums"), json!([["3"]]), "what is answered is seen");
    let source = "\"S x\".\"a/b\"";
    for statement in [
        "INSERT INTO {} VALUES ('1')",
        "UPDATE {} SET body = '1'",
        "DELETE FROM {}",
        "TRUNCATE {}",
        "ALTER TABLE {} ADD COLUMN x int",
        "DROP TABLE {}",
        "DROP VIEW {}",
        "SELECT * FROM {} FOR UPDATE",
    ] {
        assert_eq!(code(&mut http, &statement.replace("{}", source)), "42809", "{statement}");
    }
    done(&mut http, "CREATE SOURCE ids FROM WEBHOOK BODY FORMAT TEXT; CREATE UNIQUE INDEX ON ids (body)");
    sent(&mut http, "ids", &[], b"1");
    assert_eq!(refused(&mut http, "ids", &[], b"1"), (409, "23505".to_owned()));
    done(&mut http, "DROP SOURCE ids CASCADE");
    assert_eq!(code(&mut http, "CREATE SOURCE x FROM KAFKA CONNECTION k (TOPIC 't')"), "0A000");
    assert_eq!(code(&mut http, "CREATE SOURCE sums FROM WEBHOOK BODY FORMAT TEXT"), "42P07");
    assert_eq!(code(&mut http, "CREATE SOURCE x IN CLUSTER nowhere FROM WEBHOOK BODY FORMAT TEXT"), "42704");
    assert_eq!(code(&mut http, "CREATE SOURCE x FROM WEBHOOK BODY FORMAT TEXT INCLUDE HEADER a AS body"), "42701");
    done(&mut http, "CREATE SECRET s AS 'x'");
    done(
        &mut http,
        "CREATE SOURCE IF NOT EXISTS full_one FROM WEBHOOK BODY FORMAT CSV WITH HEADER (a, \"B c\") DELIMITED BY '|'
         INCLUDE HEADERS (NOT 'x', 'y') INCLUDE HEADER 'Z' AS \"Z\" BYTES
         CHECK (WITH (HEADERS, BODY AS b BYTES, SECRET s) headers->'y' = s AND length(b) > 0)",
    );
    // What is shown makes the same.
    let shown = |http: &mut Http| rows(http, "SHOW CREATE SOURCE full_one")[0][1].as_str().expect("a text").to_owned();
    let before = shown(&mut http);
    done(&mut http, "DROP SOURCE full_one");
    done(&mut http, &before);
    assert_eq!(shown(&mut http), before);
    assert_eq!(rows(&mut http, "SHOW SOURCES"), json!([["full_one", ""]]));
    let found = rows(&mut http, "SELECT name, type FROM mz_sources ORDER BY 1");
    assert_eq!(found, json!([["a/b", "webhook"], ["full_one", "webhook"]]));
    assert_eq!(rows(&mut http, "SELECT count(*) FROM mz_tables WHERE name = 'full_one'"), json!([["0"]]));
    done(&mut http, "COMMENT ON SOURCE full_one IS 'here'; ALTER SOURCE full_one RENAME TO other");
    assert_eq!(code(&mut http, "DROP SOURCE \"S x\".\"a/b\""), "2BP01");
    done(&mut http, "DROP SOURCE \"S x\".\"a/b\" CASCADE; DROP SOURCE other");
}

const HIDDEN: &str = "SomethingThatNobodySees";

#[test]
fn who_looks_at_statements_sees_no_secret() {
    let server = start();
    let (mut watched, mut looks) = (admin(&server), admin(&server));
    for statement in [
        format!("CREATE SECRET hidden AS '{HIDDEN}'"),
        format!("ALTER SECRET hidden AS '{HIDDEN}'"),
        format!("CREATE ROLE joe LOGIN PASSWORD '{HIDDEN}'"),
    ] {
        watched.execute(&statement).expect("it is done");
        let seen = looks.rows("SELECT query FROM pg_stat_activity").expect("rows");
        let (kind, shown) = (statement.split_whitespace().take(2).collect::<Vec<_>>().join(" "), format!("{seen:?}"));
        assert!(shown.contains(&kind) && !shown.contains(HIDDEN), "{shown}");
    }
}

#[test]
fn secrets_are_told_to_nobody() {
    let mut server = start();
    let mut own = http(&server);
    let mut admin = admin(&server);
    admin.execute("ALTER SYSTEM SET statement_logging_max_sample_rate = 1").expect("it is set");
    admin.execute("ALTER SYSTEM SET statement_logging_default_sample_rate = 1").expect("it is set");
    done(&mut own, &format!("CREATE SECRET hidden AS '{HIDDEN}'"));
    own.sql(&json!({ "query": "CREATE ROLE joe LOGIN" })).expect("an answer");
    for statement in [
        format!("CREATE SECRET x AS '{HIDDEN}' || 'x'"),
        format!("CREATE SECRET x AS '\\z{HIDDEN}'"),
        format!("CREATE SECRET x AS decode('{HIDDEN}_', 'base64')"),
        format!("CREATE SECRET x AS decode('base64', '{HIDDEN}')"),
        format!("CREATE SECRET hidden AS '{HIDDEN}'"),
    ] {
        let result = results(&mut own, &statement)[0].clone();
        assert!(result["error"].is_object() && !result.to_string().contains(HIDDEN), "{result}");
    }
    for (statement, sqlstate) in [
        ("SELECT * FROM hidden", "42809"),
        ("SHOW CREATE SECRET hidden", "0A000"),
        ("COPY hidden TO STDOUT", "42809"),
        ("CREATE INDEX ON hidden (a)", "42809"),
        ("INSERT INTO hidden VALUES (1)", "42809"),
        ("DROP TABLE hidden", "42809"),
    ] {
        assert_eq!(code(&mut own, statement), sqlstate, "{statement}");
    }
    assert_eq!(rows(&mut own, "SHOW SECRETS"), json!([["hidden", ""]]));
    assert_eq!(rows(&mut own, "SELECT name FROM mz_secrets"), json!([["hidden"]]));
    assert_eq!(rows(&mut own, "SELECT count(*) FROM pg_class WHERE relname = 'hidden'"), json!([["0"]]));
    // USAGE is needed, and the owner alone may change it.
    let create = "CREATE SOURCE theirs FROM WEBHOOK BODY FORMAT TEXT CHECK (WITH (SECRET hidden) hidden = 'x')";
    let mut joe = |statement: &str| {
        let headers = [JSON, ("Authorization", "Basic am9lOg==")];
        let body = json!({ "query": statement }).to_string();
        let answer =
            own.ask("POST", "/api/sql", &headers, body.as_bytes()).expect("an answer").json().expect("results");
        answer["results"][0]["error"]["code"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(joe(create), "42501");
    assert_eq!(joe("ALTER SECRET hidden AS 'x'"), "42501");
    assert_eq!(joe("DROP SECRET hidden"), "42501");
    admin.execute("GRANT USAGE ON SECRET hidden TO joe").expect("it is granted");
    assert_eq!(joe(create), "");
    assert_eq!(code(&mut own, "GRANT SELECT ON SECRET hidden TO joe"), "0LP01");
    assert_eq!(code(&mut own, "DROP SECRET hidden"), "2BP01");
    let history =
        "SELECT count(*) FILTER (WHERE sql LIKE '%SECRET%'), count(*) FILTER (WHERE sql LIKE '%Nobody' || 'Sees%')
                   FROM mz_internal.mz_recent_activity_log";
    let found = admin.rows(history).expect("the history");
    assert!(found[0][0].as_deref() != Some("0") && found[0][1].as_deref() == Some("0"), "{found:?}");
    for relation in ["pg_stat_activity", "mz_internal.mz_recent_activity_log", "mz_objects", "mz_sources", "mz_secrets"]
    {
        let found = admin.rows(&format!("SELECT * FROM {relation}")).expect("rows");
        assert!(!format!("{found:?}").contains(HIDDEN), "{relation}");
    }
    server.sigterm().expect("it stops");
    server.restart().expect("it comes back");
    let mut own = http(&server);
    assert_eq!(refused(&mut own, "theirs", &[], b"x").0, 403);
    done(&mut own, "ALTER SECRET hidden AS 'x'");
    sent(&mut own, "theirs", &[], b"x");
    assert!(!server.log().contains(HIDDEN), "the log");
    done(&mut own, "DROP SECRET hidden CASCADE");
    assert_eq!(refused(&mut own, "theirs", &[], b"x").0, 404);
}

/// Clients that send again what they have no answer to, while the server is killed: what was answered is there, and all of it once.
#[test]
fn what_is_answered_is_durable_and_keys_are_taken_once() {
    const CLIENTS: usize = 4;
    let mut server = start();
    done(&mut http(&server), "CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT");
    let (addr, stops) = (server.http_addr(), AtomicBool::new(false));
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let stops = &stops;
                scope.spawn(move || {
                    let mut count = 0;
                    let mut http: Option<Http> = None;
                    while !stops.load(Ordering::Relaxed) {
                        let row = format!("{client}-{count}");
                        let headers = [("Idempotency-Key", row.as_str())];
                        loop {
                            let mut open = match http.take().map_or_else(|| Http::connect(addr), Ok) {
                                Ok(open) => open,
                                Err(_) => {
                                    std::thread::sleep(Duration::from_millis(10));
                                    continue;
                                }
                            };
                            let path = "/api/webhook/materialize/public/s";
                            match open.ask("POST", path, &headers, row.as_bytes()) {
                                Ok(answer) if answer.status == 200 => {
                                    http = Some(open);
                                    break;
                                }
                                _ => std::thread::sleep(Duration::from_millis(10)),
                            }
                        }
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            server.kill9().expect("it is killed");
            server.restart().expect("it comes back");
        }
        let before = rows(&mut http(&server), "SELECT count(*) FROM s");
        eventually("they go on", || rows(&mut http(&server), "SELECT count(*) FROM s") != before);
        stops.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a number")).collect()
    });
    check(&server, &counts);
}

fn check(server: &Server, counts: &[usize]) {
    let sent: usize = counts.iter().sum();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let found = rows(&mut http(server), "SELECT count(*), count(DISTINCT body) FROM s");
    assert_eq!(found, json!([[sent.to_string(), sent.to_string()]]));
    // The same key with something else.
    let answer = send(&mut http(server), "s", &[("Idempotency-Key", "0-0")], b"another");
    assert_eq!(answer.status, 422);
    let answer = send(&mut http(server), "s", &[("Idempotency-Key", "0-0")], b"0-0");
    assert_eq!((answer.status, answer.header("idempotent-replayed")), (200, Some("true")));
}
