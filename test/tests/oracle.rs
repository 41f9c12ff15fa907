//! Servers whose time is in a PostgreSQL: reads under a lease and without, a store that goes away and comes back, and a
//! second server that takes over.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glimpse_test::http::{self, metric};
use glimpse_test::postgres_server::Postgres;
use glimpse_test::server::{Server, find_binary};
use glimpse_test::wire::Wire;
use glimpse_test::wire::frontend;
use glimpse_test::wire::message::Message;

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
const HITS: &str = "mz_ts_oracle_fast_path_total{result=\"hit\"}";
const MISSES: &str = "mz_ts_oracle_fast_path_total{result=\"miss\"}";

/// A server whose time is in `store`.
fn start(store: &Postgres, more: &[&str]) -> Server {
    let url = store.url();
    let args = [&["--timestamp-oracle-url", &url], more].concat();
    Server::start_with(&args).expect("the server starts")
}

fn session(addr: SocketAddr) -> Wire {
    Wire::start(addr, "materialize", "materialize").expect("a session starts")
}

fn admin(server: &Server) -> Wire {
    Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session starts")
}

fn one(wire: &mut Wire, sql: &str) -> i64 {
    let rows = wire.rows(sql).expect("the query succeeds");
    rows[0][0].as_deref().expect("a value").parse().expect("a number")
}

/// Writers that add to their own row, each checked by a reader on another connection right after it was told, in a table
/// and in a view with an index.
fn read_own_writes(server: &Server, writes: usize) {
    let mut wire = admin(server);
    wire.execute("CREATE TABLE counters (id int4, n int8)").expect("the table is made");
    wire.execute("CREATE INDEX counters_id ON counters (id)").expect("the index is made");
    wire.execute("CREATE VIEW total AS SELECT sum(n) AS n FROM counters").expect("the view is made");
    wire.execute("CREATE INDEX total_n ON total (n)").expect("the index is made");
    wire.execute("GRANT ALL ON counters, total TO materialize").expect("the rights are given");
    std::thread::scope(|scope| {
        for id in 0..4 {
            scope.spawn(move || {
                let (mut writer, mut reader) = (session(server.sql_addr()), session(server.sql_addr()));
                let (mut sum, mut first) = (0, true);
                for n in 1..=i64::try_from(writes).expect("few") {
                    let sql = match first {
                        true => format!("INSERT INTO counters VALUES ({id}, 1)"),
                        false => format!("UPDATE counters SET n = n + 1 WHERE id = {id}"),
                    };
                    first = false;
                    writer.execute(&sql).expect("it is acknowledged");
                    assert_eq!(one(&mut reader, &format!("SELECT n FROM counters WHERE id = {id}")), n);
                    let total = one(&mut reader, "SELECT n FROM total");
                    assert!(total >= sum.max(n), "the view went back to {total} from {sum}, or lacks one of {n}");
                    sum = total;
                }
            });
        }
    });
    assert_eq!(one(&mut wire, "SELECT n FROM total"), 4 * i64::try_from(writes).expect("few"));
}

#[test]
fn reads_under_the_lease_are_one_load() {
    let store = Postgres::start().expect("a PostgreSQL starts");
    let mut server = start(&store, &["--timestamp-oracle-lease", "3000"]);
    read_own_writes(&server, 100);
    let value = |series: &str| metric(server.internal_http_addr(), series).expect("a metric");
    assert!(value(HITS) >= 800.0, "{} hits", value(HITS));
    assert!(value(HITS) > 99.0 * value(MISSES), "{} hits, {} misses", value(HITS), value(MISSES));
    // All of it survives a kill, and time goes on.
    let before = one(&mut admin(&server), "SELECT mz_now()::text::int8");
    server.kill9().expect("it ends");
    server.restart().expect("it starts again");
    let mut wire = admin(&server);
    assert_eq!(one(&mut wire, "SELECT n FROM total"), 400);
    assert!(one(&mut wire, "SELECT mz_now()::text::int8") >= before);
}

#[test]
fn reads_without_a_lease_share_calls_to_the_store() {
    let store = Postgres::start().expect("a PostgreSQL starts");
    let server = start(&store, &["--timestamp-oracle-reads", "store"]);
    read_own_writes(&server, 100);
    let value = |series: &str| metric(server.internal_http_addr(), series).expect("a metric");
    let calls = value("mz_ts_oracle_batch_inner_read_seconds_count{op=\"read_ts\"}");
    let answered = value("mz_ts_oracle_batch_wait_seconds_count{op=\"read_ts\"}");
    assert!(value(HITS) == 0.0 && value(MISSES) >= 800.0, "{} hits, {} misses", value(HITS), value(MISSES));
    assert!(calls <= answered, "{calls} calls for {answered} reads");
}

#[test]
fn a_transaction_asks_for_the_time_once() {
    let store = Postgres::start().expect("a PostgreSQL starts");
    let server = start(&store, &["--timestamp-oracle-reads", "store"]);
    let mut wire = admin(&server);
    wire.execute("CREATE TABLE t (a int4)").expect("the table is made");
    let misses = || metric(server.internal_http_addr(), MISSES).expect("a metric");
    wire.execute("BEGIN").expect("it begins");
    let before = misses();
    for _ in 0..5 {
        assert_eq!(one(&mut wire, "SELECT count(*) FROM t"), 0);
    }
    assert_eq!(misses() - before, 1.0);
    wire.execute("COMMIT").expect("it ends");
}

#[test]
fn a_server_whose_writes_wait_for_its_store_is_not_ready() {
    let mut store = Postgres::start().expect("a PostgreSQL starts");
    let server = start(&store, &[]);
    let ready = || http::get(server.internal_http_addr(), "/api/readyz").expect("an answer");
    let wait_for = |status: &str| {
        let begun = Instant::now();
        loop {
            let (line, body) = ready();
            if line.contains(status) {
                return body;
            }
            assert!(begun.elapsed() < PATIENCE, "not {status}, but {line}: {body}");
        }
    };
    wait_for("200");
    store.kill9().expect("it ends");
    let why = wait_for("503");
    assert!(why.contains("a write has not been answered for") || why.contains("writes fail"), "{why}");
    store.restart().expect("it starts again");
    wait_for("200");
}

/// Every statement is answered in the end, and none with an error, though the store restarts under them.
fn write_and_read_over_restarts(store: &mut Postgres, server: &Server) {
    admin(server).execute("CREATE TABLE log (n int8)").expect("the table is made");
    admin(server).execute("GRANT ALL ON log TO materialize").expect("the rights are given");
    let is_over = AtomicBool::new(false);
    let (written, read) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let (mut wire, mut count) = (session(server.sql_addr()), 0);
            while !is_over.load(Ordering::SeqCst) {
                wire.execute("INSERT INTO log VALUES (1)").expect("it is acknowledged");
                count += 1;
            }
            count
        });
        let reading = scope.spawn(|| {
            let (mut wire, mut latest) = (session(server.sql_addr()), 0);
            while !is_over.load(Ordering::SeqCst) {
                let count = one(&mut wire, "SELECT count(*) FROM log");
                assert!(count >= latest, "{count} after {latest}");
                latest = count;
            }
            latest
        });
        let mut wire = session(server.sql_addr());
        for _ in 0..3 {
            let before = one(&mut wire, "SELECT count(*) FROM log");
            store.kill9().expect("it ends");
            // Longer than the lease takes to run out: reads ask the store, and wait for it.
            store.restart().expect("it starts again");
            let deadline = Instant::now() + PATIENCE;
            while one(&mut wire, "SELECT count(*) FROM log") == before {
                assert!(Instant::now() < deadline, "writes do not go on");
            }
        }
        is_over.store(true, Ordering::SeqCst);
        (writing.join().expect("no error"), reading.join().expect("no error"))
    });
    assert!(read <= written);
    assert_eq!(one(&mut session(server.sql_addr()), "SELECT count(*) FROM log"), written);
}

#[test]
fn a_restart_of_the_store_delays_and_fails_nothing() {
    let mut store = Postgres::start().expect("a PostgreSQL starts");
    let server = start(&store, &["--timestamp-oracle-lease", "200"]);
    write_and_read_over_restarts(&mut store, &server);
}

/// The first SQLSTATE of an answer; that of a connection which ended without one is 57P01, too.
fn refused(wire: &mut Wire, sql: &str) -> Option<String> {
    match wire.send(&frontend::query(sql)).and_then(|()| wire.until_closed()) {
        Ok(messages) => {
            let answered = messages.iter().any(|message| message.tag == b'D');
            assert!(!answered, "a stopped server that was replaced answers {sql}");
            Some(messages.iter().find_map(Message::error).map_or("57P01".to_owned(), |error| error.code))
        }
        Err(_) => Some("57P01".to_owned()),
    }
}

#[test]
fn a_stopped_server_that_was_replaced_answers_no_read() {
    let store = Postgres::start().expect("a PostgreSQL starts");
    let mut old = start(&store, &["--timestamp-oracle-lease", "1000"]);
    admin(&old).execute("CREATE TABLE t (a int4)").expect("the table is made");
    admin(&old).execute("GRANT ALL ON t TO materialize").expect("the rights are given");
    let (mut reader, mut writer, mut idle) =
        (session(old.sql_addr()), session(old.sql_addr()), session(old.sql_addr()));
    assert_eq!(one(&mut reader, "SELECT count(*) FROM t"), 0);
    writer.execute("INSERT INTO t VALUES (1)").expect("it is acknowledged");
    old.signal("STOP").expect("it stops");
    // On a data directory of its own: what is shared here is the time.
    let new = start(&store, &["--takeover"]);
    let mut wire = admin(&new);
    wire.execute("CREATE TABLE t (a int4)").expect("the new owner writes");
    old.signal("CONT").expect("it goes on");
    assert_eq!(refused(&mut reader, "SELECT count(*) FROM t").as_deref(), Some("57P01"));
    assert_eq!(refused(&mut writer, "INSERT INTO t VALUES (2)").as_deref(), Some("57P01"));
    let told = idle.until_closed().unwrap_or_default();
    assert!(told.iter().filter_map(Message::error).all(|error| error.code == "57P01"), "{told:?}");
    let status = old.reap().expect("it ends");
    assert_eq!(status.code(), Some(3), "a fenced server says so");
    assert_eq!(one(&mut wire, "SELECT count(*) FROM t"), 0);
}

/// Runs a server that cannot start; returns what it printed.
fn failed_start(args: &[&str]) -> String {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(find_binary().expect("a server"));
    command.arg("--data-dir").arg(data.path().join("data")).args(args).stdin(Stdio::null());
    for flag in ["sql", "internal-sql", "http", "internal-http"] {
        command.arg(format!("--{flag}-listen-addr")).arg("127.0.0.1:0");
    }
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "it fails");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_store_that_is_not_there_is_waited_for_and_then_named() {
    let args = ["--timestamp-oracle-url", "postgres://me:secret@127.0.0.1:1/time", "--store-patience", "1000"];
    let printed = failed_start(&args);
    for said in ["waiting for the shared store", "127.0.0.1:1/time", "the shared store cannot be reached"] {
        assert!(printed.contains(said), "{said:?} is not in\n{printed}");
    }
    assert!(!printed.contains("secret"), "{printed}");
}

#[test]
fn a_url_that_cannot_be_used_is_refused_at_once() {
    let printed = failed_start(&["--timestamp-oracle-url", "mysql://h/db"]);
    assert!(printed.contains("the store's URL cannot be used"), "{printed}");
    let store = Postgres::start().expect("a PostgreSQL starts");
    let nobody = store.url().replace("mz_system", "nobody_of_that_name");
    let printed = failed_start(&["--timestamp-oracle-url", &nobody]);
    assert!(printed.contains("nobody_of_that_name"), "{printed}");
}
