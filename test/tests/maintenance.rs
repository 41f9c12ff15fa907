//! Indexes and materialized views that want more memory than there is, or take long to be built: each is stopped alone, says so with
//! figures, and can be built anew; how far one is can be seen.

use glimpse_test::server::Server;
use glimpse_test::wire::Wire;
use glimpse_test::wire::message::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What indexes and views may have, in MiB.
const MEMORY: usize = 64;
const PATIENCE: Duration = Duration::from_secs(120);

fn session(server: &Server) -> Wire {
    Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session")
}

fn all(wire: &mut Wire, statements: &[&str]) {
    for sql in statements {
        wire.execute(sql).expect(sql);
    }
}

fn texts(wire: &mut Wire, sql: &str) -> Vec<Vec<String>> {
    let rows = wire.rows(sql).expect(sql);
    rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect()
}

/// Waits until what is maintained under a name has this status.
fn await_status(wire: &mut Wire, name: &str, status: &str) {
    let (sql, from) =
        (format!("SELECT status FROM mz_internal.mz_maintained_statuses WHERE name = '{name}'"), Instant::now());
    loop {
        let now = texts(wire, &sql);
        if now == [[status]] {
            return;
        }
        assert!(from.elapsed() < PATIENCE, "{name} is {now:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The SQLSTATE and the message of a statement that fails.
fn failure(wire: &mut Wire, sql: &str) -> (String, String) {
    let messages = wire.query(sql).expect("the connection stays");
    let error = messages.iter().find_map(Message::error).expect(sql);
    (error.code, error.message)
}

#[test]
fn what_wants_too_much_memory_is_stopped_alone() {
    let mut server = Server::start_with(&[&format!("--maintained-memory={MEMORY}")]).expect("the server starts");
    let mut wire = session(&server);
    all(
        &mut wire,
        &[
            "CREATE TABLE a (id int4, v text)",
            "INSERT INTO a SELECT g, 'value ' || g FROM generate_series(1, 4000) g",
            "CREATE TABLE wide (id int4, v text)",
            "INSERT INTO wide SELECT g, repeat('x', 1000) || g FROM generate_series(1, 100000) g",
            "CREATE TABLE small (id int4)",
            "CREATE INDEX small_id ON small (id)",
            "CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM small",
            "CREATE VIEW crossed AS SELECT x.id AS left_id, y.id AS right_id, x.v FROM a x, a y",
            "CREATE INDEX crossed_left ON crossed (left_id)",
            "CREATE MATERIALIZED VIEW crossed_too AS SELECT x.id + y.id AS id, y.v FROM a x, a y",
            "CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM crossed_too",
            "CREATE INDEX wide_id ON wide (id)",
        ],
    );
    for name in ["crossed_left", "crossed_too", "above", "wide_id"] {
        await_status(&mut wire, name, "failed");
    }
    let (code, message) = failure(&mut wire, "SELECT v FROM crossed WHERE left_id = 7");
    let figures = "SELECT memory_used, memory_allowed, error FROM mz_internal.mz_maintained_statuses WHERE name = ";
    let [row] = &texts(&mut wire, &format!("{figures}'crossed_left'"))[..] else { panic!("it is listed once") };
    let [used, allowed, error] = &row[..] else { panic!("three columns") };
    assert_eq!((code.as_str(), &message), ("53200", error));
    assert!(message.contains(used) && message.contains(allowed), "{message} has {used} of {allowed}");
    assert_eq!(allowed.parse(), Ok(MEMORY << 20));
    for sql in ["SELECT count(*) FROM crossed", "SELECT count(*) FROM crossed_too", "TABLE above"] {
        assert_eq!(failure(&mut wire, sql).0, "53200", "{sql}");
    }

    // Nothing else notices: what is small goes on, and a table is read without its index.
    all(&mut wire, &["INSERT INTO small VALUES (1), (2)", "INSERT INTO a VALUES (0, 'another')"]);
    all(&mut wire, &["INSERT INTO wide VALUES (0, 'y')"]);
    assert_eq!(texts(&mut wire, "SELECT id FROM small WHERE id = 2"), [["2"]]);
    assert_eq!(texts(&mut wire, "TABLE total"), [["2"]]);
    assert_eq!(texts(&mut wire, "SELECT v FROM wide WHERE id = 0"), [["y"]]);
    assert_eq!(texts(&mut wire, "SELECT count(*) FROM wide"), [["100001"]]);

    // It is built anew when it is asked for, and dropped like any other.
    all(&mut wire, &["DELETE FROM a WHERE id > 10", "REINDEX INDEX crossed_left"]);
    all(&mut wire, &["REFRESH MATERIALIZED VIEW crossed_too", "DELETE FROM wide WHERE id > 10", "REINDEX TABLE wide"]);
    for name in ["crossed_left", "crossed_too", "above", "wide_id"] {
        await_status(&mut wire, name, "running");
    }
    assert_eq!(texts(&mut wire, "SELECT count(*) FROM crossed WHERE left_id = 7"), [["11"]]);
    assert_eq!(texts(&mut wire, "SELECT (SELECT count(*) FROM crossed_too), n FROM above"), [["121", "121"]]);
    all(&mut wire, &["INSERT INTO wide VALUES (-1, 'z')", "INSERT INTO a VALUES (-1, 'z')"]);
    assert_eq!(texts(&mut wire, "SELECT v FROM wide WHERE id = -1"), [["z"]]);
    assert_eq!(texts(&mut wire, "TABLE above"), [["144"]]);

    all(&mut wire, &["INSERT INTO a SELECT g FROM generate_series(1, 4000) g"]);
    await_status(&mut wire, "crossed_left", "failed");
    all(&mut wire, &["DROP INDEX crossed_left"]);
    assert_eq!(failure(&mut wire, "REINDEX INDEX crossed_left").0, "42P01");
    server.sigterm().expect("it stops");
    server.restart().expect("what it cannot build keeps it from nothing");
    let mut wire = session(&server);
    await_status(&mut wire, "crossed_too", "failed");
    await_status(&mut wire, "wide_id", "running");
    assert_eq!(texts(&mut wire, "TABLE total"), [["2"]]);
    all(&mut wire, &["DROP MATERIALIZED VIEW crossed_too CASCADE"]);
}

/// What nothing is made of is not read when a view is hydrated; what changes afterwards comes with all columns.
#[test]
fn a_view_of_few_columns_is_what_the_query_says() {
    let server = Server::start().expect("the server starts");
    let mut wire = session(&server);
    let query = "SELECT n % 7 AS k, count(*) AS rows, sum(id) AS ids FROM t WHERE at < 20000 GROUP BY n % 7";
    all(
        &mut wire,
        &[
            "CREATE TABLE t (id int8, filler text NOT NULL, n int4, at int4 NOT NULL, other numeric(10, 2) NOT NULL)",
            // Some megabytes, which are kept by column.
            "INSERT INTO t SELECT i, repeat('x', 100) || i, nullif(i % 100, 3), i, i / 100.0 FROM generate_series(1, 25000) i",
            &format!("CREATE VIEW v AS {query}"),
            "CREATE INDEX v_k ON v (k)",
        ],
    );
    await_status(&mut wire, "v_k", "running");
    let read = "SELECT rows_read, bytes_read = bytes_total FROM mz_internal.mz_maintained_statuses WHERE name = 'v_k'";
    assert_eq!(texts(&mut wire, read), [["25000", "t"]]);
    let mut check = || {
        let (view, again) =
            (texts(&mut wire, "SELECT * FROM v ORDER BY k"), texts(&mut wire, &format!("{query} ORDER BY k")));
        assert_eq!(view.len(), 8);
        assert_eq!(view, again);
    };
    check();
    for change in
        ["DELETE FROM t WHERE id % 5 = 0", "UPDATE t SET filler = 'y' WHERE id % 3 = 0", "UPDATE t SET n = n + 1"]
    {
        all(&mut session(&server), &[change]);
        check();
    }
}

#[test]
fn progress_can_be_seen() {
    let server = Server::start().expect("the server starts");
    let mut wire = session(&server);
    all(
        &mut wire,
        &[
            "CREATE TABLE t (id int8)",
            "INSERT INTO t VALUES (1), (2), (3)",
            "CREATE INDEX t_id ON t (id)",
            // Goes round and round.
            "CREATE VIEW endless AS WITH MUTUALLY RECURSIVE (RECURSION LIMIT 1000000000000) n (i int8) AS
                 (SELECT id FROM t UNION SELECT i + 1 FROM n WHERE i < 1000000000) SELECT i FROM n",
            "CREATE INDEX endless_i ON endless (i)",
        ],
    );
    await_status(&mut wire, "t_id", "running");
    let read = "SELECT schema, type, cluster, status, rows_read, rows_total, bytes_read = bytes_total,
                       hydration_time > '0' FROM mz_internal.mz_maintained_statuses WHERE name = ";
    let t_id = texts(&mut wire, &format!("{read}'t_id'"));
    assert_eq!(t_id, [["public", "index", "quickstart", "running", "3", "3", "t", "t"]]);
    let progress = "SELECT datname, relid::regclass, index_relid::regclass, command, tuples_total
                    FROM pg_stat_progress_create_index";
    assert_eq!(texts(&mut wire, progress), [["materialize", "endless", "endless_i", "CREATE INDEX", "3"]]);

    // Who waits for it is told, while it waits.
    for sql in ["SELECT i FROM endless WHERE i = 7", "SELECT count(*) FROM endless"] {
        wire.send(&glimpse_test::wire::frontend::query(sql)).expect("it is sent");
        let notice = loop {
            if let Some(notice) = wire.receive().expect("it is told").notice() {
                break notice;
            }
        };
        assert!(notice.message.contains("endless_i"), "{}", notice.message);
        session(&server)
            .execute(
                "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
                                  WHERE query LIKE '%endless%' AND pid <> pg_backend_pid()",
            )
            .expect("it is cancelled");
        let rest = wire.until_ready().expect("it ends");
        assert_eq!(rest.iter().find_map(Message::error).map(|error| error.code).as_deref(), Some("57014"));
    }
    all(&mut wire, &["DROP INDEX endless_i"]);
    assert_eq!(texts(&mut wire, progress).len(), 0);
}

/// A recursion that gives a row too often is over there: it does not begin again and go on to its last round, through all of
/// whose rounds a later change of what it reads would have to go.
#[test]
fn a_recursion_that_doubles_a_row_ends_where_it_fails() {
    let server = Server::start().expect("the server starts");
    let mut wire = session(&server);
    all(
        &mut wire,
        &[
            "CREATE TABLE t (i int4)",
            "INSERT INTO t VALUES (1), (2)",
            "CREATE VIEW doubled AS WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n FROM r CROSS JOIN t)
                 SELECT n FROM r",
            "CREATE DEFAULT INDEX ON doubled",
        ],
    );
    let (code, message) = failure(&mut wire, "SELECT n FROM doubled");
    assert_eq!(code, "54000");
    assert!(message.contains("the same row more than 1048576 times"), "{message}");
    all(&mut wire, &["DELETE FROM t"]);
    assert_eq!(texts(&mut wire, "SELECT n FROM doubled"), [["1"]]);
}

/// What a transaction with changes of the catalog has read and written is as it was when it commits, although the changes are worked out
/// beside other commits: nothing that is acknowledged is lost, and nothing is there twice.
#[test]
fn a_transaction_that_changes_the_catalog_loses_no_write() {
    const TURNS: usize = 12;
    let server = Server::start().expect("the server starts");
    let mut wire = session(&server);
    all(
        &mut wire,
        &[
            "CREATE TABLE counter (id int4 PRIMARY KEY, n int8)",
            "INSERT INTO counter VALUES (1, 0)",
            // Takes long to plan.
            &format!(
                "CREATE VIEW shown AS SELECT c0.id, c0.n FROM counter c0{}",
                (1..40).map(|at| format!(" JOIN counter c{at} ON c{at}.id = c0.id")).collect::<String>()
            ),
            "CREATE TABLE wide (id int8)",
            "INSERT INTO wide SELECT g FROM generate_series(1, 12000) g",
        ],
    );
    let is_over = Arc::new(AtomicBool::new(false));
    let beside = |sql: fn(usize) -> String| {
        let (mut wire, over) = (session(&server), Arc::clone(&is_over));
        std::thread::spawn(move || {
            let mut acked = 0;
            while !over.load(Ordering::Relaxed) {
                match wire.sqlstate(&sql(acked)).expect("the connection stays").as_deref() {
                    None => acked += 1,
                    Some("40001") => {}
                    Some(other) => panic!("{other}"),
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            acked
        })
    };
    let counting = beside(|_| "UPDATE counter SET n = n + 1 WHERE id = 1".to_owned());
    let filling = beside(|turn| format!("INSERT INTO wide (id) VALUES ({})", 1_000_000 + turn));
    let mut counted = 0;
    for turn in 0..TURNS {
        let changes = [
            vec![format!("CREATE INDEX i{turn} ON shown (n)"), "UPDATE counter SET n = n + 1 WHERE id = 1".to_owned()],
            vec![format!("ALTER TABLE wide ADD COLUMN c{turn} int4 DEFAULT 7")],
        ];
        for (changes, adds) in changes.into_iter().zip([1, 0]) {
            wire.execute("BEGIN").expect("it begins");
            let failed = changes.iter().find_map(|sql| wire.sqlstate(sql).expect("the connection stays"));
            let ended = wire.sqlstate(if failed.is_none() { "COMMIT" } else { "ROLLBACK" }).expect("it ends");
            match failed.or(ended).as_deref() {
                None => counted += adds,
                Some("40001") => {}
                Some(other) => panic!("{changes:?}: {other}"),
            }
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let counted = counted + counting.join().expect("it counts");
    let filled = 12_000 + filling.join().expect("it fills");
    println!("{counted} counted, {filled} rows");
    assert_eq!(texts(&mut wire, "TABLE counter"), [["1".to_owned(), counted.to_string()]]);
    assert_eq!(texts(&mut wire, "SELECT n FROM shown"), [[counted.to_string()]]);
    assert_eq!(
        texts(&mut wire, "SELECT count(*), count(DISTINCT id) FROM wide"),
        [[filled.to_string(), filled.to_string()]]
    );
}
