//! SUBSCRIBE: applied to its snapshot it gives what SELECT gives, at every timestamp, while tables change, and from where a
//! subscription that broke off has ended. Envelopes, cursors, bounds.
//!
//! `SUBSCRIBE_SEED` repeats a run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glimpse_test::target::Target;
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};
use postgres::Client;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Timestamps at which a subscription is compared with SELECT … AS OF.
const COMPARED_MIN: usize = 15;
const PATIENCE: Duration = Duration::from_secs(120);

/// What is subscribed to, and the columns of its rows.
const QUERIES: &[(&str, &str)] = &[
    ("plain", "SELECT id, g, v FROM plain"),
    ("indexed", "SELECT id, v FROM indexed"),
    ("summed", "SELECT g, n, total FROM summed"),
    (
        "(SELECT p.g, count(*) AS n, max(i.v) AS v FROM plain p JOIN indexed i ON i.id = p.id GROUP BY p.g)",
        "SELECT p.g, count(*) AS n, max(i.v) AS v FROM plain p JOIN indexed i ON i.id = p.id GROUP BY p.g",
    ),
    ("viewed", "SELECT id, s FROM viewed"),
];

fn now_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since_1970.as_micros()).expect("fits until the year 586524")
}

fn seed() -> u64 {
    let given = std::env::var("SUBSCRIBE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| now_us() % 1_000_000_007);
    eprintln!("SUBSCRIBE_SEED={seed}");
    seed
}

fn set_up(wire: &mut Wire) {
    for sql in [
        "CREATE TABLE plain (id int4, g int4, v text)",
        "CREATE TABLE indexed (id int4, v int4)",
        "CREATE INDEX indexed_id ON indexed (id)",
        "CREATE MATERIALIZED VIEW summed AS SELECT p.g, count(*) AS n, sum(i.v) AS total FROM plain p
         JOIN indexed i ON i.id = p.id GROUP BY p.g",
        "CREATE VIEW viewed AS SELECT id, v * 2 AS s FROM indexed WHERE v > 10",
        "INSERT INTO plain SELECT i, i % 4, 'v' || i FROM generate_series(1, 40) AS g(i)",
        "INSERT INTO indexed SELECT i, i FROM generate_series(1, 50) AS g(i)",
        "GRANT SELECT ON plain, indexed, summed, viewed TO materialize",
    ] {
        wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

fn write(mut wire: Wire, mut random: StdRng, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let (id, v) = (random.random_range(1..60), random.random_range(0..100));
        let sql = match random.random_range(0..6) {
            0 => format!(
                "BEGIN; DELETE FROM plain WHERE g = {}; INSERT INTO plain VALUES ({id}, {}, 'w{v}'); COMMIT",
                v % 9,
                v % 5
            ),
            1 => format!(
                "BEGIN; DELETE FROM indexed WHERE id = {id}; INSERT INTO indexed VALUES ({id}, {v}), ({id}, {v}); COMMIT"
            ),
            2 => format!("UPDATE indexed SET v = {v} WHERE id = {id}"),
            3 => format!("DELETE FROM indexed WHERE id = {id}"),
            4 => format!("BEGIN; DELETE FROM plain WHERE id = {id}; INSERT INTO plain VALUES ({id}, 1, NULL); COMMIT"),
            _ => format!("UPDATE plain SET g = {} WHERE id < {id}", v % 3),
        };
        if wire.execute(&sql).is_err() {
            // Two writers met.
            wire.execute("ROLLBACK").expect("the session goes on");
        }
        // Those who compare must keep up: they read what they compare with a second later at most.
        wire.rows("SELECT count(*) FROM plain").expect("a table can be read");
    }
}

type Rows = BTreeMap<String, i64>;

/// A line of COPY (SUBSCRIBE … WITH (PROGRESS)): time, whether it is progress, multiplicity, row.
fn parse(line: &str) -> (u64, bool, i64, String) {
    let mut fields = line.splitn(4, '\t');
    let mut next = || fields.next().expect("a subscription's line has a time, a flag, a multiplicity and columns");
    let (ts, progressed, diff) = (next(), next(), next());
    let ts = ts.parse().expect("a time is a number");
    match progressed {
        "t" => (ts, true, 0, String::new()),
        _ => (ts, false, diff.parse().expect("a multiplicity is a number"), next().to_owned()),
    }
}

/// What SELECT gives as of a time; `None` if that is compacted away.
fn select(client: &mut Client, query: &str, ts: u64) -> Option<Rows> {
    let rows = match client.simple_query(&format!("{query} AS OF {ts}")) {
        Ok(rows) => rows,
        Err(error) => {
            let message = error.to_string();
            let detail = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or(message);
            assert!(detail.contains("not readable"), "{query} AS OF {ts}: {detail}");
            return None;
        }
    };
    let mut found = Rows::new();
    for row in rows {
        if let postgres::SimpleQueryMessage::Row(row) = row {
            let columns: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("\\N")).collect();
            *found.entry(columns.join("\t")).or_default() += 1;
        }
    }
    Some(found)
}

/// Follows until enough timestamps were compared, breaking off and going on from the last progress now and then.
fn follow(target: &Target, to: &str, query: &str, mut random: StdRng) {
    let (mut state, mut compared, mut resume) = (Rows::new(), 0, None);
    let mut selects = target.client().expect("a client connects");
    let deadline = Instant::now() + PATIENCE;
    while compared < COMPARED_MIN {
        let mut client = target.client().expect("a client connects");
        let from = match resume {
            None => "WITH (PROGRESS)".to_owned(),
            // As of the last time that was complete: what comes is what changed after it.
            Some(ts) => format!("WITH (PROGRESS, SNAPSHOT = false) AS OF {ts}"),
        };
        let token = client.cancel_token();
        let reader = match client.copy_out(&format!("COPY (SUBSCRIBE TO {to} {from}) TO STDOUT")) {
            Ok(reader) => reader,
            Err(error) => {
                // A slow machine may come too late for the time it stopped at.
                let message = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
                assert!(message.contains("not readable"), "{to}: {error} {message}");
                (state, resume) = (Rows::new(), None);
                continue;
            }
        };
        let break_off = random.random_range(5..25);
        let (mut pending, mut progressed, mut latest) = (Vec::new(), 0, resume);
        for line in BufReader::new(reader).lines() {
            assert!(Instant::now() < deadline, "{to}: compared {compared} timestamps only");
            let (ts, is_progress, diff, row) = parse(&line.expect("the subscription goes on"));
            assert!(latest.is_none_or(|latest| ts >= latest), "{to}: time goes back");
            latest = Some(ts);
            if !is_progress {
                assert!(resume.is_none_or(|resume| ts > resume), "{to}: told twice");
                pending.push((ts, row, diff));
                continue;
            }
            let changed_at: Option<u64> = pending.iter().map(|(ts, ..)| *ts).max();
            assert!(changed_at.is_none_or(|changed| changed < ts), "{to}: a change came after its time was complete");
            for (_, row, diff) in pending.drain(..) {
                let count = state.entry(row.clone()).or_default();
                *count += diff;
                assert!(*count >= 0, "{to}: {row} has a negative multiplicity");
                if *count == 0 {
                    state.remove(&row);
                }
            }
            progressed += 1;
            // Everything below the progress is known: also what SELECT gives just below it.
            let at = ts - 1;
            if progressed > 1 {
                resume = Some(at);
                // Whoever has fallen behind catches up first: what is long past cannot be read any more.
                if now_us().saturating_sub(at) < 300_000
                    && let Some(expected) = select(&mut selects, query, at)
                {
                    assert_eq!(state, expected, "{to} at {at}");
                    compared += 1;
                }
            }
            if progressed > break_off || compared >= COMPARED_MIN {
                // Or the client would wait for an end that never comes.
                token.cancel_query(postgres::NoTls).expect("the server is there");
                break;
            }
        }
    }
}

#[test]
fn changes_applied_to_the_snapshot_are_what_select_gives_at_every_timestamp() {
    let seed = seed();
    let target = Target::start().expect("the server starts");
    set_up(&mut target.admin().expect("a session starts"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let wire = target.admin().expect("a session starts");
                let (random, stop) = (StdRng::seed_from_u64(seed ^ (writer << 32)), &stop);
                scope.spawn(move || write(wire, random, stop))
            })
            .collect();
        let followers: Vec<_> = QUERIES
            .iter()
            .map(|(to, query)| {
                let (target, random) = (&target, StdRng::seed_from_u64(seed ^ 77));
                scope.spawn(move || follow(target, to, query, random))
            })
            .collect();
        let results: Vec<_> = followers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("the writer ends"));
        results.into_iter().for_each(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
}

/// The lines of a FETCH without their times.
fn fetch(wire: &mut Wire, sql: &str) -> Vec<String> {
    let rows = wire.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
    rows.iter().map(|row| row[1..].iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn cursors_give_envelopes_and_orders() {
    let target = Target::start().expect("the server starts");
    let (mut wire, mut writer) = (target.admin().expect("a session"), target.admin().expect("a session"));
    writer.execute("CREATE TABLE t (k int4, a text, b int4)").expect("the table is made");
    writer.execute("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20)").expect("rows are stored");
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("", &["1 1 x 10", "1 2 y 20"], &["-1 1 x 10", "-1 2 y 20", "1 1 z 10", "1 3 n NULL", "1 3 m NULL"]),
        (
            "ENVELOPE UPSERT (KEY (k))",
            &["upsert 1 x 10", "upsert 2 y 20"],
            &["delete 2 NULL NULL", "key_violation 3 NULL NULL", "upsert 1 z 10"],
        ),
        (
            "ENVELOPE DEBEZIUM (KEY (b, k))",
            &["insert 10 1 NULL x", "insert 20 2 NULL y"],
            &["upsert 10 1 x z", "delete 20 2 y NULL", "key_violation NULL 3 NULL NULL"],
        ),
        (
            "WITHIN TIMESTAMP ORDER BY a DESC, mz_diff",
            &["1 2 y 20", "1 1 x 10"],
            &["1 1 z 10", "-1 2 y 20", "-1 1 x 10", "1 3 n NULL", "1 3 m NULL"],
        ),
    ];
    for (envelope, snapshot, changes) in cases {
        wire.execute("BEGIN").expect("a block begins");
        wire.execute(&format!("DECLARE c CURSOR FOR SUBSCRIBE t {envelope}")).expect("the cursor is made");
        let (is_sorted, sorted) = (envelope.starts_with("WITHIN"), |mut lines: Vec<String>| {
            lines.sort();
            lines
        });
        let expected = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let compare = |found: Vec<String>, lines: &[&str]| match is_sorted {
            true => assert_eq!(found, expected(lines), "{envelope}"),
            false => assert_eq!(sorted(found), sorted(expected(lines)), "{envelope}"),
        };
        compare(fetch(&mut wire, &format!("FETCH {} c", snapshot.len())), snapshot);
        writer
            .execute(
                "BEGIN; UPDATE t SET a = 'z' WHERE k = 1; DELETE FROM t WHERE k = 2;
                 INSERT INTO t VALUES (3, 'n', NULL), (3, 'm', NULL); COMMIT",
            )
            .expect("one transaction, one time");
        let mut found = Vec::new();
        while found.len() < changes.len() {
            found.extend(fetch(&mut wire, "FETCH ALL c"));
        }
        compare(found, changes);
        assert_eq!(fetch(&mut wire, "FETCH 5 c WITH (TIMEOUT = '1ms')"), Vec::<String>::new(), "{envelope}");
        wire.execute("COMMIT").expect("the block ends");
        writer
            .execute("BEGIN; DELETE FROM t; INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20); COMMIT")
            .expect("as it was");
    }
}

#[test]
fn a_subscription_ends_where_it_was_told_to_and_with_what_it_follows() {
    let target = Target::start().expect("the server starts");
    let (mut wire, mut writer) = (target.admin().expect("a session"), target.admin().expect("a session"));
    writer.execute("CREATE TABLE t (k int4)").expect("the table is made");
    writer.execute("CREATE VIEW v AS SELECT 10 / k AS q FROM t").expect("the view is made");
    writer.execute("INSERT INTO t VALUES (1)").expect("the row is stored");
    // An end that the clock reaches although nothing happens.
    let now = wire.rows("SELECT (extract(epoch FROM now()) * 1000000)::int8 + 300000").expect("a time");
    let up_to = now[0][0].clone().expect("not NULL");
    let lines = fetch(&mut wire, &format!("SUBSCRIBE t UP TO {up_to}"));
    assert_eq!(lines, ["1 1"]);
    // An end before the beginning.
    assert_eq!(fetch(&mut wire, "SUBSCRIBE t UP TO 5"), Vec::<String>::new());
    // Errors of rows.
    wire.execute("BEGIN").expect("a block begins");
    wire.execute("DECLARE c CURSOR FOR SUBSCRIBE v").expect("the cursor is made");
    assert_eq!(fetch(&mut wire, "FETCH 1 c"), ["1 10"]);
    writer.execute("INSERT INTO t VALUES (0)").expect("the row is stored");
    let error = wire.rows("FETCH 1 c").expect_err("a row divides by zero");
    assert!(error.to_string().contains("22012"), "{error}");
    wire.execute("ROLLBACK").expect("the block ends");
    let error = wire.rows("SUBSCRIBE v").expect_err("the row is there still");
    assert!(error.to_string().contains("22012"), "{error}");
    // DROP.
    wire.execute("BEGIN").expect("a block begins");
    wire.execute("DECLARE c CURSOR FOR SUBSCRIBE t").expect("the cursor is made");
    assert_eq!(fetch(&mut wire, "FETCH 2 c").len(), 2);
    writer.execute("DROP TABLE t CASCADE").expect("the table goes");
    let error = wire.rows("FETCH 1 c").expect_err("what it follows is gone");
    assert!(error.to_string().contains("terminated because"), "{error}");
}

#[test]
fn times_that_cannot_be_read_are_named_with_both_bounds() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    wire.execute("CREATE TABLE t (k int4)").expect("the table is made");
    wire.execute("CREATE INDEX i ON t (k)").expect("the index is made");
    for (sql, sqlstate) in [
        ("SELECT * FROM t AS OF 1", "72000"),
        ("SELECT * FROM t AS OF now() + INTERVAL '1 day'", "22023"),
        ("SUBSCRIBE t AS OF 1", "72000"),
    ] {
        // A table without an index was empty at every time before it was made; the index that is being built was not there.
        let deadline = Instant::now() + PATIENCE;
        let error = loop {
            match wire.rows(sql) {
                Ok(rows) => assert!(rows.is_empty() && Instant::now() < deadline, "{sql}: {rows:?}"),
                // The index came between the look at what is readable and the reading: to be tried again.
                Err(error) if error.to_string().contains("40001") => {}
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains(sqlstate) && error.contains("not readable"), "{sql}: {error}");
    }
    wire.execute("INSERT INTO t VALUES (7)").expect("the row is stored");
    assert_eq!(wire.rows("SELECT * FROM t AS OF AT LEAST 1").expect("there is such a time").len(), 0);
    for sql in ["SELECT k AS of FROM t", "SELECT 1 AS of", "SELECT of.k FROM t AS of"] {
        wire.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn a_client_that_does_not_read_is_ended_and_nobody_else_suffers() {
    let target = Target::start().expect("the server starts");
    let (mut slow, mut writer) = (target.admin().expect("a session"), target.admin().expect("a session"));
    writer.execute("CREATE TABLE t (k int4, v text)").expect("the table is made");
    slow.execute("BEGIN").expect("a block begins");
    slow.execute("DECLARE c CURSOR FOR SUBSCRIBE t").expect("the cursor is made");
    let mut ended = None;
    for _ in 0..60 {
        writer
            .execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) AS g(i)")
            .expect("writers never notice");
        writer.execute("DELETE FROM t").expect("writers never notice");
    }
    for _ in 0..100_000 {
        if let Err(error) = slow.rows("FETCH 1000 c WITH (TIMEOUT = '10ms')") {
            ended = Some(error.to_string());
            break;
        }
    }
    let ended = ended.expect("the subscription ends");
    assert!(ended.contains("53400"), "{ended}");
    assert_eq!(writer.rows("SELECT count(*) FROM t").expect("the server goes on")[0][0].as_deref(), Some("0"));
}

#[test]
fn a_subscription_ends_when_its_right_is_taken_away() {
    let target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in [
        "CREATE TABLE kept (id int4)",
        "CREATE TABLE taken (id int4)",
        "CREATE VIEW over_both AS SELECT k.id FROM kept k JOIN taken t ON t.id = k.id",
        "GRANT SELECT ON kept, taken, over_both TO materialize",
    ] {
        admin.execute(sql).expect(sql);
    }
    let start = |sql: &str| {
        let mut wire = Wire::start(target.addr(), "materialize", "materialize").expect("a session");
        wire.send(&frontend::query(sql)).expect("it is sent");
        // CopyOutResponse: it has begun.
        while wire.receive().expect("an answer").tag != b'H' {}
        wire
    };
    // The view is its owner's affair.
    let mut kept = start("COPY (SUBSCRIBE over_both) TO STDOUT");
    let mut ended = start("COPY (SUBSCRIBE taken) TO STDOUT");
    admin.execute("REVOKE SELECT ON taken FROM materialize").expect("it is revoked");
    let messages = ended.until_ready().expect("the subscription ends");
    let error = messages.iter().find_map(Message::error).expect("with an error");
    assert_eq!(error.code, "42501", "{error}");
    admin.execute("INSERT INTO taken VALUES (1)").expect("a row");
    admin.execute("INSERT INTO kept VALUES (1)").expect("a row");
    assert_eq!(kept.receive().expect("it goes on").tag, b'd');
    // An open cursor goes on, as in PostgreSQL.
    let mut wire = Wire::start(target.addr(), "materialize", "materialize").expect("a session");
    wire.execute("BEGIN").expect("a transaction");
    wire.execute("DECLARE open CURSOR FOR SELECT * FROM kept").expect("a cursor");
    admin.execute("REVOKE SELECT ON kept FROM materialize").expect("it is revoked");
    assert_eq!(wire.rows("FETCH ALL FROM open").expect("its rows").len(), 1);
}

#[test]
fn what_was_told_is_kept_for_who_goes_on() {
    let target = Target::start().expect("the server starts");
    let (mut wire, mut writer) = (target.admin().expect("a session"), target.admin().expect("a session"));
    writer.execute("CREATE TABLE t (k int4 PRIMARY KEY)").expect("the table is made");
    wire.execute("SET subscribe_history = '2h'").expect("it is a duration");
    let error = wire.rows("SUBSCRIBE t").expect_err("that is too long");
    assert!(error.to_string().contains("22023"), "{error}");
    wire.execute("SET subscribe_history = '60s'").expect("it is set");
    wire.execute("BEGIN").expect("a block begins");
    wire.execute("DECLARE c CURSOR FOR SUBSCRIBE t").expect("the cursor is made");
    wire.rows("FETCH 1 c WITH (TIMEOUT = '1ms')").expect("it has begun");
    writer.execute("INSERT INTO t VALUES (1)").expect("a row is stored");
    let told = wire.rows("FETCH 1 c").expect("a row");
    let seen: u64 = told[0][0].as_deref().and_then(|ts| ts.parse().ok()).expect("a time");
    for k in 2..5 {
        writer.execute(&format!("INSERT INTO t VALUES ({k})")).expect("a row is stored");
    }
    wire.execute("ROLLBACK").expect("the block ends");
    // An index keeps a second.
    let deadline = Instant::now() + PATIENCE;
    while wire.rows(&format!("SELECT * FROM t AS OF {seen}")).is_ok() {
        assert!(Instant::now() < deadline, "{seen} can still be read");
        writer.execute("INSERT INTO t VALUES (100); DELETE FROM t WHERE k = 100").expect("time goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let from = |more: &str| format!("SUBSCRIBE t WITH (SNAPSHOT = false{more}) AS OF {seen}");
    let now = wire.rows("SELECT mz_now()").expect("a time")[0][0].clone().expect("not NULL");
    // In another form it was not told, and so not kept; without, it was.
    let error = wire.rows(&from(", PROGRESS")).expect_err("nobody followed that");
    assert!(error.to_string().contains("72000"), "{error}");
    let rows = wire.rows(&format!("{} UP TO {now}", from(""))).expect("it was kept");
    let keys: Vec<_> = rows.iter().filter_map(|row| row[2].as_deref()).filter(|key| *key != "100").collect();
    assert_eq!(keys, ["2", "3", "4"]);

    // With lines of progress, the first of them comes before what was told already.
    let (mut first, mut second) = (target.admin().expect("a session"), target.admin().expect("a session"));
    first.execute("SET subscribe_history = '60s'; BEGIN").expect("a block begins");
    first.execute("DECLARE c CURSOR FOR SUBSCRIBE t WITH (PROGRESS)").expect("the cursor is made");
    let begun = first.rows("FETCH 1 c").expect("a line")[0][0].clone().expect("a time");
    writer.execute("INSERT INTO t VALUES (5)").expect("a row is stored");
    while !first.rows("FETCH 1 c").expect("a line").iter().any(|line| line[3].as_deref() == Some("5")) {}
    let now = second.rows("SELECT mz_now()").expect("a time")[0][0].clone().expect("not NULL");
    let sql = format!("SUBSCRIBE t WITH (PROGRESS, SNAPSHOT = false) AS OF {begun} UP TO {now}");
    let lines = second.rows(&sql).expect("it was kept");
    let times: Vec<u64> = lines.iter().filter_map(|line| line[0].as_deref()?.parse().ok()).collect();
    assert!(times.is_sorted() && times.len() == lines.len(), "{lines:?}");
    assert_eq!((lines[0][0].as_deref(), lines[0][1].as_deref()), (Some(begun.as_str()), Some("t")));
}

/// What was followed without an index is gone on with after one was built.
#[test]
fn who_goes_on_need_not_know_of_indexes() {
    let target = Target::start().expect("the server starts");
    let (mut wire, mut writer) = (target.admin().expect("a session"), target.admin().expect("a session"));
    writer.execute("CREATE TABLE t (k int4)").expect("the table is made");
    writer.execute("CREATE VIEW v AS SELECT k + 1 AS k FROM t").expect("the view is made");
    wire.execute("SET subscribe_history = '60s'; BEGIN").expect("a block begins");
    wire.execute("DECLARE c CURSOR FOR SUBSCRIBE v").expect("the cursor is made");
    wire.rows("FETCH 1 c WITH (TIMEOUT = '1ms')").expect("it has begun");
    for k in 1..4 {
        writer.execute(&format!("INSERT INTO t VALUES ({k})")).expect("a row is stored");
    }
    let told = wire.rows("FETCH 1 c").expect("a row");
    let seen: u64 = told[0][0].as_deref().and_then(|ts| ts.parse().ok()).expect("a time");
    wire.execute("ROLLBACK").expect("the block ends");
    writer.execute("CREATE INDEX ON v (k)").expect("the index is made");
    // The index begins with a time after this one, and keeps a second.
    let deadline = Instant::now() + PATIENCE;
    while wire.rows(&format!("SELECT * FROM v AS OF {seen}")).is_ok() {
        assert!(Instant::now() < deadline, "{seen} can still be read");
        writer.execute("INSERT INTO t VALUES (100); DELETE FROM t WHERE k = 100").expect("time goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let now = wire.rows("SELECT mz_now()").expect("a time")[0][0].clone().expect("not NULL");
    let sql = format!("SUBSCRIBE v WITH (SNAPSHOT = false) AS OF {seen} UP TO {now}");
    let rows = wire.rows(&sql).expect("it was kept");
    let keys: Vec<_> = rows.iter().filter_map(|row| row[2].as_deref()).filter(|key| *key != "101").collect();
    assert_eq!(keys, ["3", "4"]);
}
