//! Restarts: nothing acknowledged is lost or doubled, by SIGTERM or `kill -9`, and one data directory has one server.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glimpse_test::server::claim_ports;
use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use glimpse_test::wire::frontend;
use glimpse_test::wire::message::Message;

const WRITERS: usize = 16;
const ROUNDS: usize = 3;
/// Statements of each writer that must be acknowledged in a round before the server is killed.
const ACKED_MIN: usize = 25;

fn start() -> Target {
    Target::start().expect("the server starts")
}

fn admin(target: &Target) -> Wire {
    target.admin().expect("a session starts")
}

fn one(wire: &mut Wire, sql: &str) -> String {
    let rows = wire.rows(sql).expect("the query succeeds");
    rows[0][0].clone().unwrap_or_else(|| "NULL".to_owned())
}

#[test]
fn sigterm_tells_sessions_exits_0_and_loses_nothing() {
    let mut target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE kept (id int4, v text)").expect("the table is made");
    wire.execute("INSERT INTO kept VALUES (1, 'a'), (2, 'b')").expect("the rows are stored");
    let mut idle = target.wire().expect("a session starts");
    let mut busy = admin(&target);
    busy.send(&frontend::query(
        "SELECT sum(a.x * b.x % 7) FROM generate_series(1, 100000) a(x) CROSS JOIN generate_series(1, 1000000) b(x)",
    ))
    .expect("send");
    let status = target.sigterm().expect("the server ends");
    assert_eq!(status.code(), Some(0), "SIGTERM is a clean exit");
    for (name, session) in [("idle", &mut idle), ("busy", &mut busy)] {
        let messages = session.until_closed().expect("the session ends");
        let codes: Vec<String> = messages.iter().filter_map(Message::error).map(|error| error.code).collect();
        assert!(codes.contains(&"57P01".to_owned()), "the {name} session was told {codes:?}");
    }
    target.restart().expect("the server starts again");
    let mut wire = admin(&target);
    assert_eq!(one(&mut wire, "SELECT count(*) FROM kept"), "2");
    wire.execute("INSERT INTO kept VALUES (3, 'c')").expect("the row is stored");
    assert_eq!(one(&mut wire, "SELECT sum(id) FROM kept"), "6");
}

#[test]
fn temporary_tables_go_with_their_session() {
    let mut target = start();
    let mut other = admin(&target);
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE t (v text)").expect("the table is made");
    wire.execute("INSERT INTO t VALUES ('kept')").expect("the row is stored");
    // What the other session plans before there is a temporary table, and after, is shared with nobody.
    let read = "SELECT v FROM t";
    assert_eq!((one(&mut wire, read), one(&mut other, read)), ("kept".to_owned(), "kept".to_owned()));
    wire.execute("CREATE TEMP TABLE t (v text)").expect("the temporary table is made");
    wire.execute("CREATE INDEX ON t (v)").expect("the index is made");
    wire.execute("INSERT INTO t VALUES ('temporary')").expect("the row is stored");
    assert_eq!((one(&mut wire, read), one(&mut other, read)), ("temporary".to_owned(), "kept".to_owned()));
    other.execute("CREATE TEMP TABLE t (v text)").expect("each session has its own");
    other.execute("INSERT INTO t VALUES ('other')").expect("the row is stored");
    assert_eq!((one(&mut wire, read), one(&mut other, read)), ("temporary".to_owned(), "other".to_owned()));
    let left = "SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'";
    let mut third = admin(&target);
    third.execute("BEGIN").expect("a block begins");
    third.execute("CREATE TABLE made (v text)").expect("the block changes the catalog");
    third.execute("INSERT INTO made VALUES ('made')").expect("the row is written");
    drop(wire);
    let deadline = Instant::now() + Duration::from_secs(30);
    while one(&mut other, left) != "1" {
        assert!(Instant::now() < deadline, "the temporary table of the session that ended is there");
        std::thread::sleep(Duration::from_millis(20));
    }
    third.execute("COMMIT").expect("that a session has ended is no conflict");
    assert_eq!(one(&mut other, "SELECT v FROM made"), "made");
    if target.is_glimpse() {
        target.kill9().expect("the server is killed");
        target.restart().expect("the server starts again");
        let mut wire = admin(&target);
        assert_eq!(one(&mut wire, left), "0");
        assert_eq!(one(&mut wire, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pg_temp%'"), "0");
        assert_eq!(one(&mut wire, read), "kept");
    }
}

/// What one writer knows: statements that were acknowledged, and the one that was under way at the end.
#[derive(Debug, Default)]
struct Journal {
    acked: Vec<usize>,
    in_flight: Option<usize>,
}

/// Writes until the connection breaks. Statement `n` of writer `w` inserts the three rows `(w, n, 0..3)`, in one of
/// the ways that a client can.
fn write_until_killed(mut wire: Wire, writer: usize, first: usize, acked: &AtomicUsize) -> Journal {
    let mut journal = Journal::default();
    for n in first.. {
        let rows = |part: std::ops::Range<usize>| {
            let values: Vec<String> = part.map(|i| format!("({writer}, {n}, {i})")).collect();
            format!("INSERT INTO log VALUES {}", values.join(", "))
        };
        let bytes = match n % 3 {
            0 => frontend::query(&rows(0..3)),
            1 => frontend::query(&format!("BEGIN; {}; {}; COMMIT", rows(0..1), rows(1..3))),
            _ => [
                frontend::parse("", &rows(0..3), &[]),
                frontend::bind("", "", &[], &[], &[]),
                frontend::execute("", 0),
                frontend::sync(),
            ]
            .concat(),
        };
        journal.in_flight = Some(n);
        let answer = wire.send(&bytes).and_then(|()| wire.until_ready());
        let Ok(messages) = answer else { return journal };
        match messages.iter().find_map(Message::error) {
            None => {
                journal.acked.push(n);
                journal.in_flight = None;
                acked.fetch_add(1, Ordering::Relaxed);
            }
            // A server that dies may still say so; anything else is a bug.
            Some(error) => {
                assert!(error.code.starts_with("57P"), "writer {writer}: {error}");
                return journal;
            }
        }
    }
    journal
}

#[test]
fn kill_9_under_writers_keeps_every_acknowledged_row_once() {
    let mut target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE log (w int4, n int4, i int4)").expect("the table is made");
    wire.execute("CREATE INDEX log_w ON log (w, n)").expect("the index is made");
    drop(wire);
    let mut journals: Vec<Journal> = (0..WRITERS).map(|_| Journal::default()).collect();
    let mut in_doubt: Vec<Vec<usize>> = vec![Vec::new(); WRITERS];
    for round in 0..ROUNDS {
        let acked: [AtomicUsize; WRITERS] = std::array::from_fn(|_| AtomicUsize::new(0));
        let slowest = || acked.iter().map(|count| count.load(Ordering::Relaxed)).min().unwrap_or(0);
        let first = round * 1_000_000;
        let found = Mutex::new(Vec::new());
        let sessions: Vec<Wire> = (0..WRITERS).map(|_| admin(&target)).collect();
        std::thread::scope(|scope| {
            for (writer, session) in sessions.into_iter().enumerate() {
                let (acked, found) = (&acked[writer], &found);
                scope.spawn(move || {
                    let journal = write_until_killed(session, writer, first, acked);
                    found.lock().expect("no writer panics with the lock").push((writer, journal));
                });
            }
            let start = Instant::now();
            while slowest() < ACKED_MIN && start.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
            }
            target.signal_kill().expect("the server is killed");
        });
        assert!(slowest() >= ACKED_MIN, "too few writes in a minute: {acked:?}");
        for (writer, journal) in found.into_inner().expect("no writer panicked") {
            journals[writer].acked.extend(journal.acked);
            in_doubt[writer].extend(journal.in_flight);
        }
        target.reap_killed().expect("the server is gone");
        target.restart().expect("the server starts again");
        check_log(&mut admin(&target), &journals, &in_doubt);
    }
    // The index came back with the same rows, and writes go on.
    let mut wire = admin(&target);
    for (writer, journal) in journals.iter().enumerate() {
        let n = journal.acked.last().expect("every writer got through");
        let count = one(&mut wire, &format!("SELECT count(*) FROM log WHERE w = {writer} AND n = {n}"));
        assert_eq!(count, "3", "writer {writer}, statement {n}, through the index");
    }
    wire.execute("INSERT INTO log VALUES (99, 1, 0)").expect("writes go on");
    assert_eq!(one(&mut wire, "SELECT count(*) FROM log WHERE w = 99"), "1");
}

/// Every acknowledged statement has its three rows once; one in doubt has all or none; there is nothing else.
fn check_log(wire: &mut Wire, journals: &[Journal], in_doubt: &[Vec<usize>]) {
    let rows =
        wire.rows("SELECT w, n, count(*), count(DISTINCT i) FROM log GROUP BY w, n").expect("the log is readable");
    let number = |value: &Option<String>| value.as_ref().and_then(|text| text.parse().ok()).expect("a number");
    let mut found: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    for row in &rows {
        found.insert((number(&row[0]), number(&row[1])), (number(&row[2]), number(&row[3])));
    }
    for (writer, journal) in journals.iter().enumerate() {
        for &n in &journal.acked {
            let rows = found.remove(&(writer, n));
            assert_eq!(rows, Some((3, 3)), "writer {writer}, acknowledged statement {n}");
        }
        for &n in &in_doubt[writer] {
            let rows = found.remove(&(writer, n));
            assert!(
                rows.is_none_or(|rows| rows == (3, 3)),
                "writer {writer}, statement {n} in doubt is torn: {rows:?}"
            );
        }
    }
    assert!(found.is_empty(), "rows that nobody wrote: {found:?}");
}

#[test]
fn ddl_updates_and_deletes_survive_kill_9() {
    let mut target = start();
    let mut wire = admin(&target);
    for sql in [
        "CREATE DATABASE other",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int4 NOT NULL, v text DEFAULT 'dflt', n numeric(6,2), d date, a int4[], u uuid, ts timestamptz)",
        "INSERT INTO s.t VALUES (1, 'one', 1.5, '2024-01-02', '{1,2}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-01-02 03:04:05+00')",
        "INSERT INTO s.t (id) VALUES (2), (3), (4)",
        "CREATE INDEX t_id ON s.t (id)",
        "CREATE VIEW s.v AS SELECT id, upper(v) AS up FROM s.t WHERE id < 4",
        "UPDATE s.t SET v = 'two' WHERE id = 2",
        "DELETE FROM s.t WHERE id = 4",
        "CREATE TABLE gone (id int4)",
        "INSERT INTO gone VALUES (1)",
        "DROP TABLE gone",
        "CREATE TABLE again (id int4)",
        "INSERT INTO again VALUES (1)",
        "DROP TABLE again",
        "CREATE TABLE again (other text)",
        "CREATE ROLE reader",
        "GRANT SELECT ON s.t TO materialize",
        "GRANT USAGE ON SCHEMA s TO materialize",
    ] {
        wire.execute(sql).expect("the statement succeeds");
    }
    let before = wire.rows("SELECT * FROM s.t ORDER BY id").expect("the rows are there");
    for _ in 0..2 {
        target.kill9().expect("the server is killed");
        target.restart().expect("the server starts again");
        let mut wire = admin(&target);
        assert_eq!(wire.rows("SELECT * FROM s.t ORDER BY id").expect("the rows are there"), before);
        assert_eq!(one(&mut wire, "SELECT v FROM s.t WHERE id = 2"), "two");
        assert_eq!(one(&mut wire, "SELECT v FROM s.t WHERE id = 3"), "dflt");
        assert_eq!(one(&mut wire, "SELECT up FROM s.v WHERE id = 1"), "ONE");
        assert_eq!(one(&mut wire, "SELECT count(*) FROM again"), "0");
        for (sql, code) in [
            ("SELECT * FROM gone", "42P01"),
            ("INSERT INTO s.t (v) VALUES ('x')", "23502"),
            ("CREATE DATABASE other", "42P04"),
            ("CREATE ROLE reader", "42710"),
            ("CREATE INDEX t_id ON s.t (v)", "42P07"),
        ] {
            assert_eq!(wire.sqlstate(sql).expect("the server answers").as_deref(), Some(code), "{sql}");
        }
        let mut user = target.wire().expect("a session starts");
        assert_eq!(one(&mut user, "SELECT count(*) FROM s.t"), "3");
        let code = user.sqlstate("INSERT INTO s.t (id) VALUES (9)").expect("the server answers");
        assert_eq!(code.as_deref(), Some("42501"), "privileges survive");
        Wire::start(target.addr(), "materialize", "other").expect("the database survives");
    }
}

/// Transactions that make a table, fill it, and note it in a log: each is there as a whole or not at all.
#[test]
fn ddl_and_rows_of_a_transaction_survive_kill_9_together() {
    let mut target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE log (n int4)").expect("the table is made");
    wire.execute("CREATE INDEX log_n ON log (n)").expect("the index is made");
    let next = AtomicUsize::new(0);
    let mut acked = Vec::new();
    for round in 0..ROUNDS {
        let addr = target.admin_addr();
        let in_doubt = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut wire = Wire::start(addr, "mz_system", "materialize").expect("a session starts");
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let transaction = [
                        "BEGIN".to_owned(),
                        format!("INSERT INTO log VALUES ({n})"),
                        format!("CREATE TABLE t{n} (id int4 NOT NULL)"),
                        format!("INSERT INTO t{n} SELECT generate_series(1, 100)"),
                        format!("CREATE INDEX t{n}_id ON t{n} (id)"),
                        format!("CREATE VIEW v{n} AS SELECT count(*) AS n FROM t{n}"),
                        "COMMIT".to_owned(),
                    ];
                    if transaction.iter().any(|sql| wire.execute(sql).is_err()) {
                        return n;
                    }
                    acked.push(n);
                }
            });
            let start = Instant::now();
            while next.load(Ordering::Relaxed) < (round + 1) * 8 {
                assert!(start.elapsed() < Duration::from_secs(60), "transactions commit");
                std::thread::sleep(Duration::from_millis(2));
            }
            target.signal_kill().expect("the server is killed");
            writer.join().expect("the writer ends")
        });
        target.reap_killed().expect("the server is gone");
        target.restart().expect("the server starts again");
        let mut wire = admin(&target);
        let logged = wire.rows("SELECT n FROM log ORDER BY n").expect("the log is readable");
        let logged: Vec<usize> = logged.iter().filter_map(|row| row[0].as_ref()?.parse().ok()).collect();
        for n in 0..=in_doubt {
            let code = wire.sqlstate(&format!("SELECT n FROM v{n}")).expect("the server answers");
            let is_logged = logged.contains(&n);
            assert_eq!(code.is_none(), is_logged, "transaction {n} is torn: {code:?}");
            if is_logged {
                assert_eq!(one(&mut wire, &format!("SELECT n FROM v{n}")), "100", "transaction {n}");
                assert_eq!(one(&mut wire, &format!("SELECT count(*) FROM t{n} WHERE id = 7")), "1", "transaction {n}");
            }
        }
        assert!(acked.iter().all(|n| logged.contains(n)), "acknowledged {acked:?}, found {logged:?}");
    }
}

/// Columns that are added under writers: each is there with its value in every row, or not at all, and no row is lost.
#[test]
fn columns_and_their_values_survive_kill_9_together() {
    let mut target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE grown (id int4 PRIMARY KEY)").expect("the table is made");
    wire.execute("CREATE MATERIALIZED VIEW grown_count AS SELECT count(*) AS n FROM grown").expect("the view is made");
    let (next, added) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut acked = Vec::new();
    for round in 0..ROUNDS {
        let addr = target.admin_addr();
        let session = || Wire::start(addr, "mz_system", "materialize").expect("a session starts");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (mut wire, mut acked) = (session(), Vec::new());
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    match wire.sqlstate(&format!("INSERT INTO grown (id) VALUES ({id})")) {
                        Ok(None) => acked.push(id),
                        Ok(Some(code)) => assert_eq!(code, "40001"),
                        Err(_) => return acked,
                    }
                }
            });
            let adder = scope.spawn(|| {
                let mut wire = session();
                loop {
                    let n = added.load(Ordering::Relaxed);
                    match wire.sqlstate(&format!("ALTER TABLE grown ADD COLUMN c{n} int4 DEFAULT {n}")) {
                        Ok(code) => assert_eq!(code, None),
                        Err(_) => return,
                    }
                    added.fetch_add(1, Ordering::Relaxed);
                }
            });
            let start = Instant::now();
            while added.load(Ordering::Relaxed) < (round + 1) * 6 {
                assert!(start.elapsed() < Duration::from_secs(60), "columns are added");
                std::thread::sleep(Duration::from_millis(2));
            }
            target.signal_kill().expect("the server is killed");
            acked.extend(writer.join().expect("the writer ends"));
            adder.join().expect("the other ends");
        });
        target.reap_killed().expect("the server is gone");
        target.restart().expect("the server starts again");
        let mut wire = admin(&target);
        // The last one may have been added without anybody being told.
        let n = added.load(Ordering::Relaxed);
        if wire.sqlstate(&format!("SELECT c{n} FROM grown")).expect("the server answers").is_none() {
            added.fetch_add(1, Ordering::Relaxed);
        }
        for n in 0..added.load(Ordering::Relaxed) {
            let others = format!("SELECT count(*) FROM grown WHERE c{n} IS DISTINCT FROM {n}");
            assert_eq!(one(&mut wire, &others), "0", "column {n}");
        }
        let ids = wire.rows("SELECT id FROM grown").expect("the rows are readable");
        let ids: Vec<usize> = ids.iter().filter_map(|row| row[0].as_ref()?.parse().ok()).collect();
        assert!(acked.iter().all(|id| ids.contains(id)), "acknowledged {acked:?}, found {ids:?}");
        assert_eq!(one(&mut wire, "SELECT count(DISTINCT id) FROM grown"), ids.len().to_string());
        if target.is_glimpse() {
            assert_eq!(one(&mut wire, "SELECT n FROM grown_count"), ids.len().to_string());
        }
    }
}

#[test]
fn the_quickstart_survives_kill_9() {
    let mut target = start();
    if !target.is_glimpse() {
        return;
    }
    let mut system = admin(&target);
    for sql in [
        "CREATE TABLE t (id text, value int4);",
        "CREATE DEFAULT INDEX IN CLUSTER quickstart ON t;",
        "INSERT INTO t VALUES ('hello', 42);",
        "GRANT SELECT ON TABLE t TO materialize;",
        "ALTER SYSTEM SET enable_frontend_peek_sequencing=true;",
        "ALTER SYSTEM SET statement_logging_max_sample_rate=0;",
    ] {
        system.execute(sql).expect("the statement succeeds");
    }
    for round in 0..2 {
        let mut user = target.wire().expect("a session starts");
        let row = [Some("hello".to_owned()), Some("42".to_owned())];
        assert_eq!(user.rows("SELECT * FROM t").expect("the row is there"), [row], "round {round}");
        let code = user.sqlstate("INSERT INTO t VALUES ('x', 1)").expect("the server answers");
        assert_eq!(code.as_deref(), Some("42501"), "round {round}");
        target.kill9().expect("the server is killed");
        target.restart().expect("the server starts again");
    }
}

#[test]
fn settings_of_the_system_survive() {
    let mut target = start();
    if !target.is_glimpse() {
        return;
    }
    let mut wire = admin(&target);
    wire.execute("ALTER SYSTEM SET enable_frontend_peek_sequencing = false").expect("the setting exists");
    target.kill9().expect("the server is killed");
    target.restart().expect("the server starts again");
    assert_eq!(one(&mut admin(&target), "SHOW enable_frontend_peek_sequencing"), "off");
    admin(&target).execute("ALTER SYSTEM RESET enable_frontend_peek_sequencing").expect("the setting exists");
}

/// Rights are checked when a view is created and when it is read; the server maintains it whatever became of them.
#[test]
fn a_revoked_right_does_not_keep_the_server_from_starting() {
    let mut target = start();
    if !target.is_glimpse() {
        return;
    }
    let mut system = admin(&target);
    system.execute("CREATE TABLE t (a int4)").expect("the table is made");
    system.execute("INSERT INTO t VALUES (1), (2)").expect("the rows are stored");
    system.execute("GRANT SELECT ON t TO materialize").expect("it is granted");
    let mut user = target.wire().expect("a session starts");
    user.execute("CREATE VIEW v AS SELECT sum(a) AS s FROM t").expect("the view is made");
    user.execute("CREATE INDEX i ON v (s)").expect("the index is made");
    system.execute("REVOKE SELECT ON t FROM materialize").expect("it is revoked");
    for session in [&mut system, &mut user] {
        let error = session.execute("SELECT * FROM v").expect_err("its owner may not read t");
        assert!(error.to_string().contains("42501"), "{error}");
    }
    target.kill9().expect("the server is killed");
    target.restart().expect("the server starts again");
    let mut system = admin(&target);
    system.execute("INSERT INTO t VALUES (3)").expect("the row is stored");
    system.execute("GRANT SELECT ON t TO materialize").expect("it is granted again");
    assert_eq!(one(&mut system, "SELECT s FROM v"), "6");
}

/// What is stored of a view says of which schema's table a column was when it was created.
#[test]
fn views_that_name_a_schema_outlive_its_name() {
    let mut target = start();
    if !target.is_glimpse() {
        return;
    }
    let mut wire = admin(&target);
    for sql in [
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (a int4)",
        "INSERT INTO s.t VALUES (1)",
        "CREATE VIEW v AS SELECT s.t.a, materialize.s.t.a AS b FROM s.t WHERE s.t.a > 0",
        "CREATE INDEX i ON v (a)",
        "CREATE MATERIALIZED VIEW m AS SELECT s.t.* FROM s.t",
        "ALTER SCHEMA s RENAME TO r",
        "ALTER TABLE r.t RENAME TO u",
    ] {
        wire.execute(sql).expect("it is done");
    }
    assert_eq!(one(&mut wire, "SELECT v.a + v.b + m.a FROM v, m"), "3");
    target.kill9().expect("the server is killed");
    target.restart().expect("the server starts again");
    let mut wire = admin(&target);
    assert_eq!(one(&mut wire, "SELECT v.a + v.b + m.a FROM v, m"), "3");
    let error = wire.execute("SELECT s.u.a FROM r.u").expect_err("there is no such schema");
    assert!(error.to_string().contains("42P01"), "{error}");
}

/// Views over the table of a million rows, cheap ones and dear ones.
const VIEWS: [&str; 10] = [
    "SELECT count(*) AS n FROM facts",
    "SELECT k % 100 AS a, count(*) AS n, sum(v) AS s FROM facts GROUP BY 1",
    "SELECT k, sum(v) AS s FROM facts GROUP BY k",
    "SELECT k % 7 AS a, min(v) AS least, max(v) AS most FROM facts GROUP BY 1",
    "SELECT id, v FROM facts WHERE v = 77",
    "SELECT n.name, count(*) AS n FROM facts f JOIN names n ON n.k = f.k GROUP BY n.name",
    "SELECT DISTINCT v FROM facts",
    "SELECT id, k, v FROM facts ORDER BY v DESC, id LIMIT 20",
    "SELECT n.name FROM names n WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE f.k = n.k AND f.v > 995)",
    "SELECT k, avg(v) AS mean FROM facts WHERE id % 3 = 0 GROUP BY k HAVING count(*) > 300",
];

/// Prints when the server is ready again, and when each view is.
#[test]
fn a_million_rows_and_ten_views_are_back_after_kill_9() {
    let mut target = start();
    if !target.is_glimpse() {
        return;
    }
    let mut wire = admin(&target);
    let mut run = |sql: &str| wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run("CREATE TABLE facts (id int4, k int4, v int4)");
    run("CREATE TABLE names (k int4, name text)");
    run("INSERT INTO names SELECT k, 'name ' || k % 50 FROM generate_series(0, 1200) AS g(k)");
    run("INSERT INTO facts SELECT id, id % 1000, id % 9973 * 7919 % 1000 FROM generate_series(1, 1000000) AS g(id)");
    for (at, query) in VIEWS.iter().enumerate() {
        run(&format!("CREATE VIEW v{at} AS {query}"));
        run(&format!("CREATE DEFAULT INDEX ON v{at}"));
    }
    let contents = |wire: &mut Wire, view: &str| {
        let mut rows = wire.rows(&format!("SELECT * FROM {view}")).expect("the view is readable");
        rows.sort();
        rows
    };
    let before: Vec<_> = (0..VIEWS.len()).map(|at| contents(&mut wire, &format!("v{at}"))).collect();
    assert!(before.iter().all(|rows| !rows.is_empty()), "a view without rows proves nothing");
    target.kill9().expect("the server is killed");
    let started = Instant::now();
    target.restart().expect("the server starts again");
    println!("answers after {:?}", started.elapsed());
    let mut wire = admin(&target);
    let mut left: Vec<usize> = (0..VIEWS.len()).collect();
    while !left.is_empty() {
        let hydrated = wire
            .rows(
                "SELECT o.name FROM mz_internal.mz_hydration_statuses h JOIN mz_indexes i ON i.id = h.object_id
                 JOIN mz_objects o ON o.id = i.on_id WHERE h.hydrated",
            )
            .expect("the statuses are readable");
        let is_there = |at: &usize| hydrated.contains(&vec![Some(format!("v{at}"))]);
        let (there, not_yet): (Vec<usize>, Vec<usize>) = left.into_iter().partition(is_there);
        for at in there {
            println!("v{at} is there after {:?}, {} others are not", started.elapsed(), not_yet.len());
            assert_eq!(contents(&mut wire, &format!("v{at}")), before[at], "{}", VIEWS[at]);
        }
        left = not_yet;
        std::thread::sleep(Duration::from_millis(5));
    }
    wire.execute("INSERT INTO facts VALUES (0, 0, 0)").expect("writes go on");
    assert_eq!(one(&mut wire, "SELECT n FROM v0"), "1000001");
}

#[test]
fn a_second_server_on_the_same_data_refuses() {
    let target = start();
    let Target::Glimpse(server) = &target else { return };
    admin(&target).execute("CREATE TABLE t (id int4)").expect("the table is made");
    let ports = claim_ports().expect("ports are free");
    let mut second = server.command(&ports);
    let mut child =
        second.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().expect("it can be killed");
            panic!("the second server runs on");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(!status.success(), "the second server must fail: {status}");
    let mut said = String::new();
    child.stderr.take().expect("stderr is piped").read_to_string(&mut said).expect("text");
    child.stdout.take().expect("stdout is piped").read_to_string(&mut said).expect("text");
    let clear = said.contains("data directory") || said.contains("in use") || said.contains("lock");
    assert!(clear && !said.contains("panicked"), "the refusal says why: {said}");
    // The first one is not disturbed.
    admin(&target).execute("INSERT INTO t VALUES (1)").expect("the first server goes on");
}
