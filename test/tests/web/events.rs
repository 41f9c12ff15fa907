//! SUBSCRIBE as events: what an `EventSource` hears, and that one that goes on where it broke off loses and repeats nothing.

use crate::{JSON, eventually, http, results, start};
use glimpse_test::http::{Http, metric};
use glimpse_test::server::Server;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// An event, and its id if it has one.
struct Event {
    data: Value,
    id: Option<String>,
}

impl Event {
    /// Its rows: whether they came or went, and what they are.
    fn rows(&self) -> impl Iterator<Item = (i64, &Value)> {
        let rows = self.data["rows"].as_array().expect("an event has rows");
        rows.iter().map(|row| {
            let diff = row["mz_diff"].as_str().and_then(|diff| diff.parse().ok());
            (diff.expect("a row has a multiplicity"), row)
        })
    }
}

/// Asks for events by GET.
fn asked(server: &Server, query: &str, headers: &[(&str, &str)]) -> Http {
    let mut http = http(server);
    let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    http.send("GET", &format!("/api/subscribe?query={query}"), headers, b"").expect("it is sent");
    http
}

/// The events of an answer.
fn events(http: Http) -> impl Iterator<Item = Event> + use<> {
    let mut lines = http.lines().expect("an answer").map(|line| line.expect("a line"));
    std::iter::from_fn(move || {
        let (mut data, mut id) = (None, None);
        loop {
            let line = lines.next()?;
            match line.split_once(": ") {
                Some(("data", text)) => data = Some(serde_json::from_str(text).expect("data are JSON")),
                Some(("id", text)) => id = Some(text.to_owned()),
                Some(("event", name)) => assert_eq!(name, "end"),
                _ if line.is_empty() && data.is_some() => return data.map(|data| Event { data, id }),
                _ => assert!(line.is_empty() || line == ":", "{line}"),
            }
        }
    })
}

fn follow(server: &Server, query: &str, after: Option<&str>) -> impl Iterator<Item = Event> + use<> {
    let headers: Vec<_> = after.map(|after| ("Last-Event-ID", after)).into_iter().collect();
    events(asked(server, query, &headers))
}

#[test]
fn an_event_is_what_has_happened_at_a_time() {
    let server = start();
    let mut other = http(&server);
    results(&mut other, "CREATE TABLE t (a int, b text)");
    let mut nothing_yet = follow(&server, "SUBSCRIBE t", None);
    let first = nothing_yet.next().expect("an event");
    assert_eq!(first.data, json!({ "snapshot": true, "rows": [], "complete": true }));
    results(&mut other, "INSERT INTO t VALUES (1, 'x' || chr(10) || 'y'), (2, NULL)");
    let event = nothing_yet.next().expect("an event");
    assert_eq!((&event.data["snapshot"], &event.data["complete"]), (&json!(false), &json!(true)));
    assert!(event.id.is_some() && event.id != first.id);
    let mut rows: Vec<String> = event.rows().map(|(diff, row)| format!("{diff} {} {}", row["a"], row["b"])).collect();
    rows.sort_unstable();
    assert_eq!(rows, ["1 \"1\" \"x\\ny\"", "1 \"2\" null"]);

    // What is too long comes in parts, of which the last has the id.
    results(&mut other, "INSERT INTO t SELECT i, repeat('z', 100) FROM generate_series(3, 5000) AS g(i)");
    for is_snapshot in [false, true] {
        let mut parts = 0;
        let mut rows = 0;
        let mut later = is_snapshot.then(|| follow(&server, "SUBSCRIBE t", None));
        let mut next = || later.as_mut().map_or_else(|| nothing_yet.next(), Iterator::next).expect("an event");
        let id = loop {
            let part = next();
            assert_eq!(part.data["snapshot"], json!(is_snapshot));
            (parts, rows) = (parts + 1, rows + part.rows().count());
            assert_eq!(part.data["complete"], json!(part.id.is_some()));
            if let Some(id) = part.id {
                break id;
            }
        };
        assert!(parts > 1 && id.parse::<u64>().is_ok());
        assert_eq!(rows, if is_snapshot { 5000 } else { 4998 });
    }

    // By POST as well; an end is told.
    let body = json!({ "query": "SUBSCRIBE (SELECT a FROM t WHERE a = 1) UP TO 1" }).to_string();
    let headers = [JSON, ("Accept", "text/event-stream")];
    let answer = other.ask("POST", "/api/sql", &headers, body.as_bytes()).expect("an answer");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    assert!(answer.is_whole && answer.text().ends_with("event: end\ndata: {}\n\n"), "{}", answer.text());

    results(&mut other, "CREATE TABLE keyed (a int PRIMARY KEY)");
    for (query, headers, status) in [
        ("SELECT 1", vec![], 400),
        ("SUBSCRIBE t; SUBSCRIBE t", vec![], 400),
        ("SUBSCRIBE t WITH (PROGRESS)", vec![], 400),
        ("SUBSCRIBE nobody", vec![], 400),
        ("SUBSCRIBE t", vec![("Last-Event-ID", "x")], 400),
        ("SUBSCRIBE keyed", vec![("Last-Event-ID", "17")], 410),
        ("SUBSCRIBE t", vec![("Sec-Fetch-Site", "cross-site")], 403),
        ("SUBSCRIBE t", vec![("Origin", "https://evil.example")], 403),
    ] {
        let answer = asked(&server, query, &headers).answer().expect("an answer");
        assert_eq!(answer.status, status, "{query} {headers:?}: {}", answer.text());
    }
}

/// Breaks off at any place, goes on behind the last id, and has in the end what is there.
#[test]
fn who_goes_on_loses_and_repeats_nothing() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    let seed = u64::try_from(now % 1_000_000_007).expect("it fits");
    let seed = std::env::var("EVENTS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(seed);
    eprintln!("EVENTS_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = start();
    let mut other = http(&server);
    results(&mut other, "CREATE TABLE t (k int, v int)");
    results(&mut other, "CREATE VIEW summed AS SELECT k, sum(v) AS v FROM t GROUP BY k");
    let stop = AtomicBool::new(false);
    let (rows, broken) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = http(&server);
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let many = if number % 17 == 0 { 2_000 } else { 3 };
                let text = format!(
                    "INSERT INTO t SELECT i % 1000, {number} FROM generate_series({number}, {number} + {many}) AS g(i)"
                );
                results(&mut writer, &text);
            }
            results(&mut writer, "INSERT INTO t VALUES (-1, 0)");
        });
        let (mut state, mut after, mut broken): (BTreeMap<String, i64>, Option<String>, usize) = Default::default();
        loop {
            let take = random.random_range(1..12);
            let mut pending = Vec::new();
            let mut is_over = false;
            for event in follow(&server, "SUBSCRIBE summed", after.as_deref()).take(take) {
                assert_eq!(event.data["snapshot"], json!(after.is_none()));
                for (diff, row) in event.rows() {
                    is_over |= row["k"] == json!("-1");
                    pending.push((format!("{}={}", row["k"], row["v"]), diff));
                }
                // What is not complete comes once more.
                let Some(id) = event.id else { continue };
                pending.drain(..).for_each(|(row, diff)| *state.entry(row).or_default() += diff);
                state.retain(|_, count| *count != 0);
                assert!(state.values().all(|count| *count == 1), "every key has one row");
                after = Some(id);
                if is_over {
                    break;
                }
            }
            if is_over && pending.is_empty() {
                break (state, broken);
            }
            broken += 1;
            if random.random_bool(0.3) {
                // Or begins anew, in the midst of what the others are told.
                (state, after) = Default::default();
            }
            if broken == 40 {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    assert!(broken >= 40);
    let found = results(&mut other, "SELECT k, v FROM summed");
    let found = found[0]["rows"].as_array().expect("rows").iter().map(|row| format!("{}={}", row[0], row[1]));
    let (mut found, rows): (Vec<_>, Vec<_>) = (found.collect(), rows.into_keys().collect());
    found.sort_unstable();
    assert_eq!(found, rows);
}

#[test]
fn what_is_followed_by_many_is_followed_once() {
    let server = start();
    let mut other = http(&server);
    for text in [
        "CREATE TABLE t (a int)",
        "CREATE VIEW twice AS SELECT a * 2 AS d FROM t",
        "INSERT INTO t VALUES (1)",
        "CREATE ROLE guest LOGIN",
        "GRANT SELECT ON twice TO guest",
    ] {
        results(&mut other, text);
    }
    let value = |series: &str| metric(server.internal_http_addr(), series).expect("a metric");
    let counts = || (value("mz_active_subscribes"), value("mz_subscribe_streams"));
    let mut readers: Vec<_> = (0..20).map(|_| follow(&server, "SUBSCRIBE twice", None)).collect();
    let mut seen = |expected: &str| {
        let first: Vec<_> = readers.iter_mut().map(|reader| reader.next().expect("an event")).collect();
        assert!(first.iter().all(|event| event.rows().all(|(diff, row)| diff == 1 && row["d"] == json!(expected))));
        first
    };
    seen("2");
    assert_eq!(counts(), (20.0, 1.0));
    results(&mut other, "INSERT INTO t VALUES (2)");
    let told = seen("4");
    assert!(told.iter().all(|event| event.id == told[0].id), "all hear of it as of the same time");
    // The same rows under another name, in another form, and others are other streams.
    let others = ["SUBSCRIBE (SELECT a * 2 AS e FROM t)", "SUBSCRIBE t", "SUBSCRIBE twice ENVELOPE UPSERT (KEY (d))"];
    let _others: Vec<_> = others.map(|query| follow(&server, query, None).next().expect("an event")).into();
    let id = told[0].id.clone().expect("it is complete");

    // After the last has gone what happens is kept for who comes back, with the right to see it.
    drop(readers);
    eventually("the readers go", || counts().0 < 1.0);
    results(&mut other, "INSERT INTO t VALUES (3)");
    let event = follow(&server, "SUBSCRIBE twice", Some(&id)).next().expect("an event");
    assert_eq!(event.rows().map(|(diff, row)| (diff, row["d"].clone())).collect::<Vec<_>>(), [(1, json!("6"))]);
    // base64 of guest:
    let guest = [("Authorization", "Basic Z3Vlc3Q6"), ("Last-Event-ID", id.as_str())];
    let event = events(asked(&server, "SUBSCRIBE twice", &guest)).next().expect("an event");
    assert_eq!(event.rows().count(), 1);
    results(&mut other, "REVOKE SELECT ON twice FROM guest");
    assert_eq!(asked(&server, "SUBSCRIBE twice", &guest).answer().expect("an answer").status, 403);

    // Who wants nothing kept leaves nothing.
    results(&mut other, "DROP VIEW twice");
    eventually("what followed it ends", || counts().1 <= 3.0);
    results(&mut other, "CREATE VIEW thrice AS SELECT a * 3 AS d FROM t");
    let before = counts().1;
    let options = "%7B%22subscribe_history%22%3A0%7D";
    let mut http = http(&server);
    http.send("GET", &format!("/api/subscribe?query=SUBSCRIBE%20thrice&options={options}"), &[], b"").expect("sent");
    let mut brief = events(http);
    brief.next().expect("an event");
    assert!((counts().1 - before - 1.0).abs() < 0.1);
    drop(brief);
    eventually("its stream ends", || counts().1 <= before);
}
