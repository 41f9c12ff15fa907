//! Servers of which everything durable is in stores that several processes reach: a PostgreSQL, and for large batches a directory
//! or S3. Outages, kills and successors under writers; stores that cannot be used; damage, beside which the rest is served.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glimpse_test::http;
use glimpse_test::postgres_server::Postgres;
use glimpse_test::process::Process;
use glimpse_test::s3_server::S3;
use glimpse_test::server::{Server, claim_ports, find_binary};
use glimpse_test::wire::Wire;
use glimpse_test::wire::frontend;
use glimpse_test::wire::message::Message;

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Every other writer writes rows that become a blob, this many at a time.
const LARGE_ROWS: i64 = 1000;
const WRITERS: i64 = 4;
/// Statements that have to be acknowledged before something happens, and between that and the next.
const ACKED_MIN: usize = 40;

struct Stores {
    postgres: Postgres,
    s3: Option<S3>,
}

impl Stores {
    /// With blobs in the servers' data directory.
    fn start() -> Stores {
        Stores { postgres: Postgres::start().expect("a PostgreSQL starts"), s3: None }
    }

    /// With blobs in S3, where that is installed.
    fn start_with_s3() -> Option<Stores> {
        let s3 = S3::start().expect("the emulator starts")?;
        Some(Stores { s3: Some(s3), ..Stores::start() })
    }

    fn both() -> impl Iterator<Item = Stores> {
        std::iter::once_with(|| Some(Stores::start())).chain(std::iter::once_with(Stores::start_with_s3)).flatten()
    }

    fn flags(&self, more: &[&str]) -> Vec<String> {
        let url = self.postgres.url();
        let flags =
            ["--timestamp-oracle-url", &url, "--persist-consensus-url", &url, "--timestamp-oracle-lease", "1000"];
        let blobs = self.s3.iter().flat_map(|s3| ["--persist-blob-url".to_owned(), s3.url("env")]);
        flags.iter().chain(more).map(|flag| (*flag).to_owned()).chain(blobs).collect()
    }

    fn serve(&self, beside: Option<&Server>, more: &[&str]) -> anyhow::Result<Server> {
        let flags = self.flags(more);
        let args: Vec<&str> = flags.iter().map(String::as_str).collect();
        match beside {
            Some(first) => first.start_beside(&args),
            None => Server::start_with(&args),
        }
    }
}

fn session(server: &Server) -> Wire {
    Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session starts")
}

fn admin(server: &Server) -> Wire {
    Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session starts")
}

fn one(wire: &mut Wire, sql: &str) -> i64 {
    let rows = wire.rows(sql).expect("the query succeeds");
    rows[0][0].as_deref().expect("a value").parse().expect("a number")
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A table with an index, which writers may write.
fn make_log(server: &Server) {
    let mut wire = admin(server);
    wire.execute("CREATE TABLE log (n int8, x int8, t text)").expect("the table is made");
    wire.execute("CREATE INDEX log_n ON log (n)").expect("the index is made");
    wire.execute("GRANT ALL ON log TO materialize").expect("the rights are given");
}

/// What one writer knows: statements that were acknowledged, and the one that was under way at the end.
#[derive(Default)]
struct Journal {
    acked: Vec<i64>,
    in_flight: Option<i64>,
    refused: Option<String>,
}

/// Writes until the connection ends, an error comes, or it is over. A statement of an odd writer is a blob.
fn write(mut wire: Wire, writer: i64, acked: &AtomicUsize, is_over: &AtomicBool) -> Journal {
    let mut journal = Journal::default();
    for at in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return journal;
        }
        let n = at * WRITERS + writer;
        let last = if writer % 2 == 0 { 1 } else { LARGE_ROWS };
        let sql = format!("INSERT INTO log SELECT {n}, x, repeat('a', 100) FROM generate_series(1, {last}) s (x)");
        journal.in_flight = Some(n);
        let answer = wire.send(&frontend::query(&sql)).and_then(|()| wire.until_ready());
        let Ok(messages) = answer else { return journal };
        if let Some(error) = messages.iter().find_map(Message::error) {
            journal.refused = Some(error.code);
            return journal;
        }
        journal.acked.push(n);
        journal.in_flight = None;
        acked.fetch_add(1, Ordering::SeqCst);
    }
    journal
}

/// Runs writers beside `meanwhile`, which is given how to wait for some more acknowledgements. They stop when it returns.
fn beside_writers<T>(server: &Server, meanwhile: impl FnOnce(&dyn Fn()) -> T) -> (Vec<Journal>, T) {
    let (acked, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (wire, acked, is_over) = (session(server), &acked, &is_over);
                scope.spawn(move || write(wire, writer, acked, is_over))
            })
            .collect();
        let some_more = || {
            let before = acked.load(Ordering::SeqCst);
            wait_until("writes do not go on", || acked.load(Ordering::SeqCst) >= before + ACKED_MIN);
        };
        let result = meanwhile(&some_more);
        is_over.store(true, Ordering::SeqCst);
        (writers.into_iter().map(|writer| writer.join().expect("no panic")).collect(), result)
    })
}

/// Every acknowledged statement is there once and whole, and of the others at most what was under way.
fn check_log(server: &Server, journals: &[Journal]) {
    let rows = admin(server).rows("SELECT n, count(*) FROM log GROUP BY n").expect("the query succeeds");
    let number = |value: &Option<String>| value.as_deref().expect("a value").parse::<i64>().expect("a number");
    let mut found: BTreeMap<i64, i64> = rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect();
    let expected = |n: i64| if n % 2 == 0 { 1 } else { LARGE_ROWS };
    for journal in journals {
        for n in &journal.acked {
            assert_eq!(found.remove(n), Some(expected(*n)), "rows of statement {n}, which was acknowledged");
        }
        if let Some(n) = journal.in_flight {
            let count = found.remove(&n).unwrap_or(expected(n));
            assert_eq!(count, expected(n), "rows of statement {n}, which was under way");
        }
    }
    assert!(found.is_empty(), "statements that nobody made: {found:?}");
}

#[test]
fn outages_of_the_stores_delay_and_fail_nothing() {
    for mut stores in Stores::both() {
        let mut server = stores.serve(None, &[]).expect("the server starts");
        make_log(&server);
        let (journals, ()) = beside_writers(&server, |some_more| {
            for _ in 0..2 {
                some_more();
                stores.postgres.kill9().expect("it ends");
                stores.postgres.restart().expect("it starts again");
                some_more();
                let waits = || server.log().matches("waiting for the shared store").count();
                let waited = waits();
                if let Some(s3) = &stores.s3 {
                    s3.stop().expect("it stops");
                    wait_until("nobody misses the blobs", || waits() > waited);
                    s3.start_again().expect("it starts again");
                    some_more();
                }
            }
        });
        for journal in &journals {
            assert_eq!(journal.refused, None);
        }
        check_log(&server, &journals);
        server.kill9().expect("it ends");
        server.restart().expect("it starts again");
        check_log(&server, &journals);
    }
}

#[test]
fn kills_under_writers_lose_nothing() {
    for stores in Stores::both() {
        let mut server = stores.serve(None, &[]).expect("the server starts");
        make_log(&server);
        for _ in 0..3 {
            let (journals, ()) = beside_writers(&server, |some_more| {
                some_more();
                server.signal("KILL").expect("it ends");
            });
            server.reap().expect("it has ended");
            server.restart().expect("it starts again");
            check_log(&server, &journals);
            admin(&server).execute("DELETE FROM log").expect("it is acknowledged");
        }
    }
}

#[test]
fn a_successor_has_every_acknowledged_write_once() {
    for stores in Stores::both() {
        let mut old = stores.serve(None, &[]).expect("the server starts");
        make_log(&old);
        let (mut journals, new) = beside_writers(&old, |some_more| {
            some_more();
            stores.serve(Some(&old), &["--takeover"]).expect("the successor starts")
        });
        for journal in &journals {
            let refused = journal.refused.as_deref();
            assert!(refused.is_none_or(|code| code.starts_with("57P")), "a session ended with {refused:?}");
        }
        let log = old.log();
        assert_eq!(old.reap().expect("it ends").code(), Some(3), "a fenced server says so");
        assert!(!log.contains("damaged") && !log.contains("missing"), "{log}");
        check_log(&new, &journals);
        // The new one goes on from there.
        let mut wire = admin(&new);
        wire.execute("INSERT INTO log VALUES (-2, 1, '')").expect("the new owner writes");
        journals.push(Journal { acked: vec![-2], ..Journal::default() });
        check_log(&new, &journals);
    }
}

#[test]
fn a_successor_of_a_dead_server_need_not_be_told_to_take_over() {
    for stores in Stores::both() {
        let mut old = stores.serve(None, &[]).expect("the server starts");
        admin(&old).execute("CREATE TABLE t (a int4)").expect("the table is made");
        admin(&old).execute("INSERT INTO t VALUES (1), (2)").expect("the rows are stored");
        old.kill9().expect("it ends");
        let new = stores.serve(Some(&old), &[]).expect("the successor starts");
        assert_eq!(one(&mut admin(&new), "SELECT count(*) FROM t"), 2);
    }
}

/// The first SQLSTATE of an answer; that of a connection which ended without one is 57P01, too.
fn refused(wire: &mut Wire, sql: &str) -> String {
    let messages = wire.send(&frontend::query(sql)).and_then(|()| wire.until_closed()).unwrap_or_default();
    let answered = messages.iter().any(|message| message.tag == b'D');
    assert!(!answered, "a stopped server that was replaced answers {sql}");
    messages.iter().find_map(Message::error).map_or("57P01".to_owned(), |error| error.code)
}

#[test]
fn a_stopped_server_that_was_replaced_answers_no_read_and_writes_nothing() {
    for stores in Stores::both() {
        let mut old = stores.serve(None, &[]).expect("the server starts");
        make_log(&old);
        let (mut reader, mut writer, mut idle) = (session(&old), session(&old), session(&old));
        writer.execute("INSERT INTO log VALUES (1, 1, '')").expect("it is acknowledged");
        // What it is in the middle of reading, its successor will have deleted.
        let mut half_read = session(&old);
        for sql in [
            "CREATE TABLE large (n int8, v text)".to_owned(),
            format!(
                "INSERT INTO large SELECT x, repeat('a', 100) || x FROM generate_series(1, {LARGE_ROWS} * 200) s (x)"
            ),
            "BEGIN".to_owned(),
            "DECLARE half CURSOR FOR TABLE large".to_owned(),
            "FETCH 10 FROM half".to_owned(),
        ] {
            half_read.execute(&sql).expect("it begins");
        }
        old.signal("STOP").expect("it stops");
        let new = stores.serve(Some(&old), &["--takeover"]).expect("the successor starts");
        let mut wire = admin(&new);
        wire.execute("INSERT INTO log VALUES (2, 1, '')").expect("the new owner writes");
        wire.execute("DROP TABLE large").expect("the new owner deletes");
        old.signal("CONT").expect("it goes on");
        assert!(refused(&mut reader, "SELECT count(*) FROM log").starts_with("57P"));
        let large =
            format!("INSERT INTO log SELECT 3, x, repeat('a', 100) FROM generate_series(1, {LARGE_ROWS}) s (x)");
        assert!(refused(&mut writer, &large).starts_with("57P"));
        let rest = half_read.send(&frontend::query("FETCH ALL FROM half")).and_then(|()| half_read.until_closed());
        let error = rest.unwrap_or_default().iter().find_map(Message::error);
        assert!(error.is_none_or(|error| error.code.starts_with("57P")), "a deleted blob is no damage");
        let told = idle.until_closed().unwrap_or_default();
        assert!(told.iter().filter_map(Message::error).all(|error| error.code.starts_with("57P")), "{told:?}");
        assert_eq!(old.reap().expect("it ends").code(), Some(3), "a fenced server says so");
        assert_eq!(one(&mut wire, "SELECT sum(n)::int8 FROM log"), 3);
    }
}

/// A server that may not come up: its command, on a data directory of its own.
fn command(args: &[String]) -> (tempfile::TempDir, Command) {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(find_binary().expect("a server"));
    command.arg("--data-dir").arg(data.path().join("data")).args(args);
    for flag in ["sql", "internal-sql", "http", "internal-http"] {
        command.arg(format!("--{flag}-listen-addr")).arg("127.0.0.1:0");
    }
    (data, command)
}

/// Runs a server that cannot start; returns the line that says why.
fn failed_start(args: &[String]) -> String {
    let (_data, mut command) = command(args);
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "it fails: {printed}");
    let last = printed.lines().last().unwrap_or_default();
    assert!(last.starts_with("environmentd: "), "the last line says why: {printed}");
    last.to_owned()
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line_and_replaces_nobody() {
    let stores = Stores::start();
    let owner = stores.serve(None, &[]).expect("the server starts");
    make_log(&owner);
    let large = format!("INSERT INTO log SELECT 1, x, repeat('a', 100) FROM generate_series(1, {LARGE_ROWS}) s (x)");
    admin(&owner).execute(&large).expect("it is acknowledged");
    let with_blobs = |url: &str| stores.flags(&["--takeover", "--persist-blob-url", url]);
    let nowhere = "s3://b?access_key_id=a&secret_access_key=hidden&endpoint";
    let mut cases = vec![
        (with_blobs("s3://"), "it names no bucket"),
        (with_blobs("gs://bucket/x"), "it begins with neither file:// nor s3://"),
        (with_blobs(&format!("{nowhere}=nonsense")), "its endpoint nonsense is not http(s)://host[:port]"),
        (with_blobs("file:///proc/nowhere"), "cannot open the store of --persist-blob-url"),
        // A directory without the blobs of this store.
        (stores.flags(&["--takeover"]), "does not hold the blobs of this consensus store"),
        (
            vec!["--persist-blob-url".to_owned(), "s3://b".to_owned()],
            "--persist-blob-url needs --persist-consensus-url",
        ),
        (vec!["--persist-consensus-url".to_owned(), stores.postgres.url()], "needs --timestamp-oracle-url"),
    ];
    let s3 = S3::start().expect("the emulator starts");
    if let Some(s3) = &s3 {
        let url = s3.url("x");
        cases.push((with_blobs(&url.replace("s3://glimpse", "s3://another")), "NoSuchBucket"));
        cases.push((with_blobs(&url.replace("access_key=", "access_key=hidden")), "SignatureDoesNotMatch"));
    }
    for (args, expected) in cases {
        let line = failed_start(&args);
        assert!(line.contains(expected) && !line.contains("hidden"), "{args:?}: {line}");
    }
    let mut args = with_blobs(&format!("{nowhere}=http://127.0.0.1:1"));
    args.extend(["--store-patience".to_owned(), "500".to_owned()]);
    let line = failed_start(&args);
    assert!(line.contains("s3://b/ at http://127.0.0.1:1") && !line.contains("hidden"), "{line}");
    // Whoever was to be replaced is still there.
    assert_eq!(one(&mut session(&owner), "SELECT count(*) FROM log"), LARGE_ROWS);
}

#[test]
fn a_server_that_waits_for_its_stores_is_alive_and_not_ready() {
    for mut stores in Stores::both() {
        let mut server = stores.serve(None, &[]).expect("the server starts");
        make_log(&server);
        server.sigterm().expect("it ends");
        stores.postgres.kill9().expect("it ends");
        stores.s3.iter().for_each(|s3| s3.stop().expect("it stops"));
        // On the data directory of the server that has ended, where its blobs may be.
        let ports = claim_ports().expect("free ports");
        let health = ports[3].addr();
        let logs = tempfile::tempdir().expect("a temporary directory");
        let waiting = Process::spawn(server.command(&ports), logs.path(), "KILL").expect("it runs");
        let is = |path: &str, status: &str| http::get(health, path).is_ok_and(|(line, _)| line.contains(status));
        wait_until("it does not say that it waits", || waiting.log().contains("waiting for the shared store"));
        assert!(is("/api/livez", "200") && is("/api/readyz", "503") && is("/metrics", "200"));
        stores.postgres.restart().expect("it starts again");
        if let Some(s3) = &stores.s3 {
            wait_until("it does not wait for the blobs", || waiting.log().contains("opening the blob store"));
            assert!(is("/api/readyz", "503"));
            s3.start_again().expect("it starts again");
        }
        wait_until("it is not ready", || is("/api/readyz", "200"));
        assert!(waiting.log().contains("the shared store answers again"));
    }
}

/// The blobs of a server's data directory.
fn blobs(server: &Server) -> Vec<PathBuf> {
    let entries = fs::read_dir(server.directory().join("data/blobs")).expect("it is there");
    entries.map(|entry| entry.expect("listable").path()).collect()
}

#[test]
fn a_damaged_blob_is_refused_and_the_rest_is_served() {
    let mut server = Server::start().expect("the server starts");
    let mut wire = admin(&server);
    for table in ["good", "bad"] {
        wire.execute(&format!("CREATE TABLE {table} (x int8, t text)")).expect("the table is made");
        wire.execute(&format!("CREATE INDEX {table}_x ON {table} (x)")).expect("the index is made");
        wire.execute(&format!("CREATE MATERIALIZED VIEW of_{table} AS SELECT sum(x) AS s FROM {table}")).expect("made");
    }
    wire.execute("CREATE VIEW pairs AS SELECT g.x FROM good g JOIN bad b ON g.x = b.x").expect("the view is made");
    wire.execute("CREATE INDEX pairs_x ON pairs (x)").expect("the index is made");
    wire.execute("INSERT INTO good VALUES (1, 'a'), (2, 'b')").expect("the rows are stored");
    wire.execute("INSERT INTO bad SELECT x, repeat('a', 100) FROM generate_series(1, 2000) s (x)").expect("stored");
    assert_eq!(one(&mut wire, "SELECT count(*) FROM pairs"), 2);
    server.kill9().expect("it ends");
    let blobs = blobs(&server);
    assert_eq!(blobs.len(), 1, "of the large table");
    let mut bytes = fs::read(&blobs[0]).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&blobs[0], &bytes).expect("writable");

    server.restart().expect("it starts all the same");
    let mut wire = admin(&server);
    // How many rows there are does not stand in the blob.
    assert_eq!(one(&mut wire, "SELECT count(*) FROM bad"), 2_000);
    for sql in [
        "SELECT sum(x) FROM bad",
        "SELECT count(*) FROM bad WHERE x > 0",
        "SELECT * FROM bad WHERE x = 7",
        "SELECT s FROM of_bad",
        "SELECT count(*) FROM pairs",
        "SELECT * FROM pairs WHERE x = 1",
        "UPDATE bad SET x = 0 WHERE x = 7",
    ] {
        let messages = wire.query(sql).expect("an answer");
        let error = messages.iter().find_map(Message::error).unwrap_or_else(|| panic!("{sql} is answered"));
        assert_eq!(error.code, "XX001", "{sql}: {error}");
        let text = error.to_string();
        assert!(text.contains("shard u") && text.contains("is corrupt: blob"), "{sql}: {text}");
    }
    wire.execute("INSERT INTO good VALUES (3, 'c')").expect("it is acknowledged");
    assert_eq!(one(&mut wire, "SELECT count(*) FROM good"), 3);
    assert_eq!(one(&mut wire, "SELECT count(*) FROM good WHERE x = 3"), 1);
    assert_eq!(one(&mut wire, "SELECT s::int8 FROM of_good"), 6);
    // It can be thrown away, and made again.
    wire.execute("DROP TABLE bad CASCADE").expect("it is dropped");
    wire.execute("CREATE TABLE bad (x int8)").expect("the table is made");
    wire.execute("INSERT INTO bad VALUES (1)").expect("the row is stored");
    server.kill9().expect("it ends");
    server.restart().expect("it starts again");
    let mut wire = admin(&server);
    assert_eq!(one(&mut wire, "SELECT count(*) FROM bad"), 1);
    assert_eq!(one(&mut wire, "SELECT count(*) FROM good"), 3);
}
