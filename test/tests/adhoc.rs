//! Ad hoc queries that ask for too much: they give others a turn, and get no more memory than there is for them.

use glimpse_test::server::Server;
use glimpse_test::target::Target;
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};

/// None of these would come to an end.
const ENDLESS: [&str; 5] = [
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
    "SELECT count(*) FROM generate_series(1, 5000) a, generate_series(1, 5000) b, generate_series(1, 5000) c",
    "SELECT sum(b) FROM generate_series(1, 1000000) a, generate_series(a, a + 1000000) b",
    "SELECT count(*) FROM much x, much y, much z WHERE x.a + y.a + z.a > 0",
    "SELECT sum(x.a) FROM much x JOIN much y ON x.a <> y.a JOIN much z ON y.a % 2 = z.a % 2",
];

/// 9 million rows.
const NINE_MILLION: &str = "(SELECT a * 3000 + b AS x FROM generate_series(1, 3000) a, generate_series(1, 3000) b) d";

fn value(wire: &mut Wire, sql: &str) -> String {
    wire.rows(sql).expect(sql)[0][0].clone().expect("a value")
}

#[test]
fn endless_queries_let_others_run() {
    let target = Target::start_with(&["--adhoc-threads=2"]).expect("the server starts");
    let mut wire = target.admin().expect("a session");
    wire.execute("CREATE TABLE much (a int4)").expect("a table");
    wire.execute("INSERT INTO much SELECT generate_series(1, 20000)").expect("rows");
    let mut endless: Vec<Wire> = ENDLESS.iter().map(|_| target.admin().expect("a session")).collect();
    for (wire, sql) in endless.iter_mut().zip(ENDLESS) {
        wire.send(&frontend::query(sql)).expect("it is sent");
    }
    let active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT%generate_series%' \
                  OR state = 'active' AND query LIKE 'SELECT%much%'";
    while value(&mut wire, active).parse::<usize>().expect("a number") < ENDLESS.len() {}
    assert_eq!(value(&mut wire, "SELECT sum(a) FROM much WHERE a % 2 = 0"), "100010000");
    let end =
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()";
    assert_eq!(value(&mut wire, end), ENDLESS.len().to_string());
    for (mut wire, sql) in endless.into_iter().zip(ENDLESS) {
        let messages = wire.until_ready().expect("the server answers");
        let error = messages.iter().find_map(Message::error).expect(sql);
        assert_eq!(error.code, "57014", "{sql}");
    }
    assert_eq!(value(&mut wire, "SELECT sum(a) FROM much WHERE a % 2 = 1"), "100000000");
    // What follows from numbers of rows has an end.
    assert_eq!(value(&mut wire, "SELECT count(*) FROM much x, much y, much z"), "8000000000000");
}

/// With a single turn, what has no end and what waits for something else let others have it.
#[test]
fn turns_are_taken_by_all() {
    let server = Server::start_with(&["--adhoc-statements=1"]).expect("the server starts");
    let session = || Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    let (mut wire, mut other) = (session(), session());
    wire.execute("CREATE TABLE much (a int4)").expect("a table");
    wire.execute("INSERT INTO much SELECT generate_series(1, 20000)").expect("rows");
    // Rows that nobody takes, and a time that nobody can shorten.
    wire.execute("BEGIN").expect("it begins");
    wire.execute("DECLARE c CURSOR FOR SELECT * FROM much x, much y").expect("a cursor");
    assert_eq!(wire.rows("FETCH 1 FROM c").expect("a row").len(), 1);
    let mut asleep = session();
    asleep.send(&frontend::query("SELECT pg_sleep(3600)")).expect("it is sent");
    assert_eq!(value(&mut other, "SELECT sum(a) FROM much"), "200010000");
    let mut endless: Vec<Wire> = ENDLESS.iter().map(|_| session()).collect();
    for (wire, sql) in endless.iter_mut().zip(ENDLESS) {
        wire.send(&frontend::query(sql)).expect("it is sent");
    }
    // All but the one that looks, and the one that runs if it is not that.
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'AdHocAdmission' AND wait_event_type = 'Extension'";
    while value(&mut other, waiting).parse::<usize>().expect("a number") < ENDLESS.len() - 1 {}
    assert_eq!(value(&mut other, "SELECT sum(a) FROM much WHERE a % 2 = 0"), "100010000");
    assert_eq!(wire.rows("FETCH 1000 FROM c").expect("rows").len(), 1000);
    // Who waits is cancelled as who runs.
    let end =
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()";
    assert_eq!(value(&mut other, end), (ENDLESS.len() + 1).to_string());
    for (mut wire, sql) in endless.into_iter().zip(ENDLESS).chain([(asleep, "pg_sleep")]) {
        let messages = wire.until_ready().expect("the server answers");
        let error = messages.iter().find_map(Message::error).expect(sql);
        assert_eq!(error.code, "57014", "{sql}");
    }
    while value(&mut other, waiting) != "0" {}
}

#[test]
fn what_takes_too_much_memory_is_refused() {
    let server = Server::start_with(&["--adhoc-memory=16", "--spill-reserve=100"]).expect("the server starts");
    let mut wire = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    for sql in [
        format!("SELECT x FROM {NINE_MILLION} ORDER BY x % 7, x"),
        format!("SELECT count(*) FROM (SELECT x FROM {NINE_MILLION} GROUP BY x) e"),
        format!("SELECT count(*) FROM (SELECT DISTINCT x FROM {NINE_MILLION}) e"),
        format!("SELECT count(*) FROM {NINE_MILLION} JOIN {} ON d.x = e.x", NINE_MILLION.replace(") d", ") e")),
    ] {
        assert_eq!(wire.sqlstate(&sql).expect("an answer").as_deref(), Some("53200"), "{sql}");
        // What it had is free again.
        let sql =
            "SELECT count(*) FROM (SELECT a % 1000 AS x FROM generate_series(1, 100000) a GROUP BY 1 ORDER BY 1) d";
        assert_eq!(value(&mut wire, sql), "1000");
    }
}

/// An operator and all below it.
fn operators(plan: &serde_json::Value) -> Vec<&serde_json::Value> {
    let below = plan["Plans"].as_array().into_iter().flatten().flat_map(operators);
    std::iter::once(plan).chain(below).collect()
}

#[test]
fn what_does_not_fit_in_memory_is_put_aside() {
    let mut server = Server::start_with(&["--adhoc-memory=256", "--spill-reserve=0"]).expect("the server starts");
    let mut wire = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    wire.execute("CREATE TABLE wide (a int4 NOT NULL, b text)").expect("a table");
    for part in 0..16 {
        let rows = format!("generate_series({}, {}) a", part * 62_500 + 1, (part + 1) * 62_500);
        wire.execute(&format!("INSERT INTO wide SELECT a, repeat('x', 380) || a FROM {rows}")).expect("rows");
    }
    let last: i64 = 3_000 * 3_000 + 3_000;
    for (sql, expected) in [
        // The last of those that leave a remainder of six.
        (format!("SELECT x FROM {NINE_MILLION} ORDER BY x % 7, x OFFSET 8999999"), (last - (last - 6) % 7).to_string()),
        (format!("SELECT count(*) FROM (SELECT x FROM {NINE_MILLION} GROUP BY x) e"), "9000000".to_owned()),
        (format!("SELECT count(*) FROM (SELECT DISTINCT x FROM {NINE_MILLION}) e"), "9000000".to_owned()),
        (
            "SELECT sum(length(l.b) + r.a) FROM wide l JOIN wide r ON l.b = r.b AND l.a = r.a".to_owned(),
            (1..=1_000_000_i64).map(|a| 380 + a.to_string().len() as i64 + a).sum::<i64>().to_string(),
        ),
        (
            "SELECT count(*) FROM wide l WHERE NOT EXISTS (SELECT FROM wide r WHERE r.b = l.b AND r.a > 1000)"
                .to_owned(),
            "1000".to_owned(),
        ),
    ] {
        assert_eq!(value(&mut wire, &sql), expected, "{sql}");
    }
    let told = value(&mut wire, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM (SELECT DISTINCT b FROM wide) d");
    let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
    assert!(
        operators(&told[0]["Plan"]).iter().any(|of| of["Extras"]["spilled_bytes"].as_u64() > Some(1 << 20)),
        "{told}"
    );
    // Nothing of it has a name, and whatever has is gone at the next start.
    let directory = server.directory().join("data/spill");
    let files = || std::fs::read_dir(&directory).expect("a directory").count();
    assert_eq!(files(), 0);
    std::fs::write(directory.join("left"), "by a system without such files").expect("a file");
    server.kill9().expect("it ends");
    server.restart().expect("it starts again");
    assert_eq!(files(), 0);
}

/// Nothing else happens: time comes to when nobody reads the rows any more, and the background to their file.
#[test]
fn the_file_of_rows_that_have_gone_is_rewritten_by_itself() {
    let server = Server::start().expect("the server starts");
    let mut wire = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    wire.execute("CREATE TABLE holed (a int4, b text)").expect("a table");
    wire.execute("INSERT INTO holed SELECT a, 'row ' || a FROM generate_series(1, 200000) a").expect("rows");
    let blobs = server.directory().join("data/blobs");
    let files = || -> Vec<_> {
        let entries = std::fs::read_dir(&blobs).expect("a directory").flatten();
        entries.filter(|blob| blob.metadata().is_ok_and(|of| of.len() > 100_000)).map(|blob| blob.path()).collect()
    };
    let before = files();
    assert!(!before.is_empty());
    wire.execute("DELETE FROM holed WHERE a % 20 = 0").expect("they go");
    while before.iter().any(|file| file.exists()) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(!files().is_empty());
    assert_eq!(value(&mut wire, "SELECT count(*) || ' ' || sum(a) FROM holed"), "190000 19000000000");
}

#[test]
fn what_a_transaction_keeps_back_is_refused_where_it_is_too_much() {
    let server = Server::start_with(&["--adhoc-memory=16"]).expect("the server starts");
    let mut wire = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    wire.execute("CREATE TABLE kept (a int4)").expect("valid SQL");
    let insert = "INSERT INTO kept SELECT a FROM generate_series(1, 100000) a";
    for _ in 0..3 {
        for sql in ["BEGIN", insert, "SAVEPOINT s", insert, "ROLLBACK TO s"] {
            wire.execute(sql).expect(sql);
        }
        // Each for itself is little.
        let ended = (0..20).find_map(|_| wire.sqlstate(insert).expect("an answer"));
        assert_eq!(ended.as_deref(), Some("53200"));
        wire.execute("ROLLBACK").expect("it ends");
    }
    assert_eq!(value(&mut wire, "SELECT count(*) FROM kept"), "0");
    for sql in ["BEGIN", insert, insert, "COMMIT"] {
        wire.execute(sql).expect(sql);
    }
    assert_eq!(value(&mut wire, "SELECT count(*) FROM kept"), "200000");
}

/// What EXPLAIN ANALYZE tells of the operators is what they gave.
#[test]
fn what_ran_is_told() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session");
    for sql in [
        "CREATE TABLE t (a int4, b int4)",
        "INSERT INTO t SELECT a, a % 7 FROM generate_series(1, 20000) a",
        "CREATE TABLE k (a int4 PRIMARY KEY)",
        "INSERT INTO k SELECT generate_series(1, 10)",
    ] {
        wire.execute(sql).expect(sql);
    }
    let query = "SELECT b, count(*) FROM t WHERE a > 15000 GROUP BY b";
    let told = value(&mut wire, &format!("EXPLAIN (ANALYZE, FORMAT JSON) {query}"));
    let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
    let statement = &told[0];
    assert_eq!(
        (statement["Executor"].as_str(), statement["Actual Rows"].as_u64()),
        (Some("ad hoc"), Some(7)),
        "{told}"
    );
    assert!(statement["Execution Time"].as_f64().is_some_and(|ms| ms > 0.0), "{told}");
    let scans = operators(&statement["Plan"]).into_iter().filter(|operator| operator["Node Type"] == "CollectionExec");
    let scans: Vec<_> = scans.map(|operator| operator["Actual Rows"].as_u64()).collect();
    assert_eq!(scans, [Some(5_000)], "{told}");
    let lines = wire.rows(&format!("EXPLAIN ANALYZE {query}")).expect("it runs");
    let lines: Vec<&str> = lines.iter().filter_map(|line| line[0].as_deref()).collect();
    assert!(lines.contains(&"Rows: 7"), "{lines:?}");
    let peek = wire.rows("EXPLAIN ANALYZE SELECT * FROM k WHERE a IN (3, 4, 50)").expect("it runs");
    assert_eq!(peek[0][0].as_deref(), Some("Executor: peek"), "{peek:?}");
    assert_eq!(peek[peek.len() - 2][0].as_deref(), Some("Rows: 2"), "{peek:?}");
    // It runs: what fails fails, and what would write is refused.
    for (sql, sqlstate) in [
        ("EXPLAIN ANALYZE SELECT 1 / (b - b) FROM t", "22012"),
        ("EXPLAIN ANALYZE SELECT 1 / (a - 3) FROM k", "22012"),
        ("EXPLAIN ANALYZE DELETE FROM t", "0A000"),
        ("EXPLAIN ANALYZE INSERT INTO k VALUES (11)", "0A000"),
    ] {
        assert_eq!(wire.sqlstate(sql).expect("an answer").as_deref(), Some(sqlstate), "{sql}");
    }
    assert_eq!(value(&mut wire, "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM k)"), "20010");
}

/// What is known of files of columns is not known of rows that came after them.
#[test]
fn what_is_known_of_files_is_an_estimate() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session");
    for sql in [
        "CREATE TABLE days (u int4, day date)",
        "INSERT INTO days SELECT a, DATE '2026-08-31' FROM generate_series(1, 20000) a",
        "INSERT INTO days VALUES (20001, '2026-09-03'), (20002, '2026-09-01'), (20003, '2026-09-02'), (20004, NULL)",
    ] {
        wire.execute(sql).expect(sql);
    }
    let latest = "(SELECT *, row_number() OVER (PARTITION BY u ORDER BY day DESC) AS n FROM days) s";
    let sql = format!("SELECT day FROM {latest} WHERE n = 1 AND day >= '2026-08-31' ORDER BY day");
    let found: Vec<_> = wire.rows(&sql).expect("it runs").into_iter().map(|row| row[0].clone()).collect();
    assert!(found.is_sorted() && found.len() == 20_003);
    for (sql, expected) in [
        ("SELECT count(DISTINCT day) FROM days WHERE day >= '2026-08-31'", "4"),
        ("SELECT count(*) FROM (SELECT day FROM days WHERE day > '2020-01-01' GROUP BY day) d", "4"),
        ("SELECT count(*) FROM days WHERE day > '2026-08-31'", "3"),
        ("SELECT count(*) FROM days WHERE day IS NULL", "1"),
        ("SELECT count(*) FROM days l JOIN days r ON l.day = r.day AND l.u = r.u WHERE r.day > '2026-09-01'", "2"),
    ] {
        assert_eq!(value(&mut wire, sql), expected, "{sql}");
    }
    let told = value(&mut wire, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM days WHERE day > '2026-08-31'");
    let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
    let left_out = |of: &&serde_json::Value| of["Extras"]["row_groups_left_out"].as_u64() == Some(1);
    assert!(operators(&told[0]["Plan"]).iter().any(left_out), "{told}");
}

/// Of what little is known below many joins, these are not looked at again and again.
#[test]
fn deep_joins_are_planned_once() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session");
    wire.execute("CREATE TABLE t (a int4, b int4)").expect("a table");
    wire.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 10) g").expect("rows");
    let mut query = "SELECT g AS a, g AS b FROM generate_series(1, 10) g".to_owned();
    for _ in 0..18 {
        query = format!("SELECT s.a, max(t.b) AS b FROM ({query}) s JOIN t ON t.a = s.a AND t.b = s.b GROUP BY s.a");
    }
    assert_eq!(value(&mut wire, &format!("SELECT count(*) FROM ({query}) d")), "10");
}
