//! What a door can do with the statement API alone, over a server in this process.

use adapter::answer::{Answer, Follows, Statement, no_values};
use adapter::client::{Client, Config, Running};
use adapter::reading::batches::row_bytes;
use adapter::seat::Seat;
use adapter::startup::StartupParams;
use ore::clock::Clock;
use ore::memory::Share;
use ore::metrics::Registry;
use persist::PersistClient;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use timestamp_oracle::local::LocalOracle;
use tokio::runtime::Runtime;

/// A server with this door and no other.
struct Server {
    client: Client,
    addr: SocketAddr,
    runtime: Runtime,
    running: Option<Running>,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let persist = PersistClient::open(dir.path()).expect("the directory is ours");
        let oracle = Arc::new(LocalOracle::open(&persist, Clock::system()).expect("it has its time"));
        let (client, running) = Client::start(Config {
            persist,
            oracle,
            spawner: Box::new(compute::LocalWorkers),
            adhoc: runtime.handle().clone(),
            memory: Share::root(usize::MAX, None),
            adhoc_statements: 4,
            adhoc_memory: 1 << 30,
            spill: None,
            maintained_memory: 1 << 30,
            clock: Clock::system(),
            registry: Registry::new(),
            system_defaults: Vec::new(),
            retain: Duration::from_secs(1),
        })
        .expect("it starts");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let addr = listener.local_addr().expect("it listens");
        runtime.spawn(glimpse_trial::serve(listener, client.clone()));
        Server { client, addr, runtime, running: Some(running), _dir: dir }
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.addr).expect("it listens");
        let mut connection = Connection { lines: BufReader::new(stream), key: Value::Null };
        connection.key = connection.line()["session"].clone();
        connection
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.client.shutdown();
        drop(self.running.take());
    }
}

fn startup() -> StartupParams {
    let (database, peer, local, encryption) = (None, None, None, None);
    StartupParams {
        user: "materialize".to_owned(),
        database,
        internal: false,
        options: Vec::new(),
        claims: None,
        peer,
        local,
        encryption,
    }
}

struct Connection {
    lines: BufReader<TcpStream>,
    key: Value,
}

impl Connection {
    fn send(&mut self, line: &str) {
        self.lines.get_mut().write_all(format!("{line}\n").as_bytes()).expect("it listens");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// All lines up to the one that ends a statement.
    fn answer(&mut self) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let line = self.line();
            if line.get("done").is_some() || line.get("error").is_some() {
                return (before, line);
            }
            before.push(line);
        }
    }

    fn run(&mut self, line: &str) -> (Vec<Value>, Value) {
        self.send(line);
        self.answer()
    }

    fn done(&mut self, line: &str) -> (Vec<Value>, String) {
        let (before, end) = self.run(line);
        let tag = end["done"].as_str().unwrap_or_else(|| panic!("{line}: {end}"));
        (before, tag.to_owned())
    }

    fn failed(&mut self, line: &str) -> Value {
        let (_, end) = self.run(line);
        assert!(end.get("error").is_some(), "{line}: {end}");
        end["error"].clone()
    }
}

#[test]
fn statements_have_values_rows_tags_and_notices() {
    let server = Server::start();
    let mut one = server.connect();
    assert_eq!(
        one.done("SELECT 1 AS a, 'x' AS b, NULL AS c"),
        (vec![json!({"a": 1, "b": "x"})], "SELECT 1".to_owned())
    );
    assert_eq!(one.done("CREATE TABLE t (id int PRIMARY KEY, v text)").1, "CREATE TABLE");
    let insert = "INSERT INTO t VALUES ($1, $2) RETURNING id";
    assert_eq!(one.done(&format!("{insert}\t[1, \"one\"]")), (vec![json!({"id": 1})], "INSERT 0 1".to_owned()));
    assert_eq!(one.done(&format!("{insert}\t[2, null]")).0, [json!({"id": 2})]);
    let rows = vec![json!({"id": 1, "v": "one"}), json!({"id": 2})];
    assert_eq!(one.done("SELECT * FROM t ORDER BY id"), (rows.clone(), "SELECT 2".to_owned()));
    // Also where an index answers.
    one.done("CREATE INDEX by_id ON t (id)");
    assert_eq!(one.done("SELECT * FROM t WHERE id = $1\t[1]").0, rows[..1]);
    let (notices, tag) = one.done("DROP TABLE IF EXISTS missing");
    assert_eq!((notices.len(), tag.as_str()), (1, "DROP TABLE"));
    assert!(notices[0]["notice"].as_str().is_some_and(|text| text.contains("does not exist")), "{notices:?}");
    assert_eq!(one.done("").1, "");
}

#[test]
fn a_transaction_is_seen_when_it_ends_and_an_error_ends_it() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.done("CREATE TABLE t (a int)");
    for (end, count) in [("COMMIT", 1), ("ROLLBACK", 1)] {
        assert_eq!(one.done("BEGIN").1, "BEGIN");
        one.done("INSERT INTO t VALUES (1)");
        assert_eq!(other.done("SELECT count(*) AS n FROM t").0, [json!({"n": count - i32::from(end == "COMMIT")})]);
        assert_eq!(one.done(end).1, end);
        assert_eq!(other.done("SELECT count(*) AS n FROM t").0, [json!({"n": count})]);
    }
    one.done("BEGIN");
    assert_eq!(one.failed("SELECT 1 / 0")["sqlstate"], "22012");
    assert_eq!(one.failed("SELECT 1")["sqlstate"], "25P02");
    assert_eq!(one.done("COMMIT").1, "ROLLBACK");
    // Outside of a block a statement that fails takes nothing with it.
    one.failed("SELECT 1 / 0");
    assert_eq!(one.done("SELECT 1 AS a").0, [json!({"a": 1})]);
}

#[test]
fn errors_have_everything_that_a_client_is_told() {
    let server = Server::start();
    let mut one = server.connect();
    let error = one.failed("SELECT nothing FROM mz_tables");
    assert_eq!((&error["sqlstate"], &error["position"]), (&json!("42703"), &json!(8)), "{error}");
    assert_eq!(one.failed("SELECT $1::int\t[]")["sqlstate"], "42601");
    assert_eq!(one.failed("SELECT $1::int\t[1, 2]")["sqlstate"], "42601");
    assert_eq!(one.failed("SELECT $1::int\t[\"x\"]")["sqlstate"], "22P02");
    assert_eq!(one.failed("SELECT $1::int\t{}")["sqlstate"], "22P02");
    assert_eq!(one.failed("SELECT 1; SELECT 2")["sqlstate"], "42601");
    one.done("CREATE TABLE t (a int)");
    assert_eq!(one.failed("COPY t FROM STDIN")["sqlstate"], "0A000");
    assert_eq!(one.failed("COPY t TO STDOUT")["sqlstate"], "0A000");
    assert_eq!(one.failed("CREATE TABLE t (a int)")["sqlstate"], "42P07");
}

#[test]
fn what_runs_can_be_cancelled_and_its_session_goes_on() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let cancel = format!("\\cancel {} {}", one.key[0], one.key[1]);
    one.send("SELECT pg_sleep(3600)");
    // Until it runs, a cancel finds nothing.
    let running = "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE '%3600%' AND state = 'active' AND pid <> pg_backend_pid()";
    while other.done(running).0 != [json!({"n": 1})] {}
    other.send(&cancel);
    let (_, end) = one.answer();
    assert_eq!(end["error"]["sqlstate"], "57014", "{end}");
    assert_eq!(one.done("SELECT 1 AS a").0, [json!({"a": 1})]);
    // A wrong secret cancels nothing.
    other.send(&format!("\\cancel {} 0", one.key[0]));
    assert_eq!(one.done("SELECT 2 AS a").0, [json!({"a": 2})]);
}

#[test]
fn a_cancel_that_comes_too_late_ends_nothing() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.done("SELECT 1");
    other.send(&format!("\\cancel {} {}", one.key[0], one.key[1]));
    // Lines of a connection are taken one after the other.
    other.done("SELECT 1");
    // Long enough to be given up by.
    assert_eq!(one.done("SELECT pg_sleep(0.5)").1, "SELECT 1");
}

#[test]
fn a_session_rests_when_its_statement_has_ended() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.done("SET statement_logging_sample_rate = 1");
    // One in a hundred would be logged of it as well.
    other.done("SET statement_logging_sample_rate = 0");
    // A lock of the statement's transaction.
    one.done("SELECT pg_advisory_xact_lock(7)");
    assert_eq!(other.done("SELECT pg_try_advisory_xact_lock(7) AS free").0, [json!({"free": true})]);
    let states = "SELECT DISTINCT state FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
    assert_eq!(other.done(states).0, [json!({"state": "idle"})]);
    one.failed("SELECT 1 / (SELECT 0)");
    let log = "SELECT finished_status AS s FROM mz_internal.mz_recent_activity_log WHERE sql LIKE 'SELECT%' ORDER BY began_at";
    assert_eq!(other.done(log).0, [json!({"s": "success"}), json!({"s": "error"})]);
}

#[test]
fn what_is_known_of_a_statement_takes_no_time_from_it() {
    let server = Server::start();
    server.connect().done("CREATE TABLE t (a int, b text)");
    let mut seat = Seat::new(server.client.connect(startup()).expect("a session"));
    let run = async {
        let text = |sql: &str| Statement::Text(sql.to_owned());
        let set = "SET statement_timeout = '200ms'";
        assert!(matches!(seat.answer(text(set), no_values(), Follows::Nothing, 1).await, Ok(Answer::Done(_))));
        let described = seat.describe(text("SELECT b FROM t WHERE a = $1")).await.expect("it can be planned");
        assert_eq!(described.params, [repr::PgType::Int4]);
        assert_eq!(described.rows.expect("it has rows").desc.columns[0].name, "b");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(matches!(seat.answer(text("SELECT 1"), no_values(), Follows::Nothing, 1).await, Ok(Answer::Rows(_))));
        // An error comes once, and then there is nothing.
        match seat.answer(text("SELECT 1 / (SELECT 0)"), no_values(), Follows::Nothing, 1).await {
            Ok(Answer::Rows(mut rows)) => {
                assert!(rows.next().await.is_err());
                assert!(matches!(rows.next().await, Ok(None)));
            }
            _ => panic!("it fails when its rows are wanted"),
        }
        seat.close().await;
    };
    server.runtime.block_on(run);
}

/// A session's statements of one text, and how each ended.
async fn all_of(seat: &mut Seat, text: &str) -> Vec<String> {
    let mut ends = Vec::new();
    let mut asked = match seat.ask(text.to_owned()).await {
        Ok(asked) => asked,
        Err(error) => return vec![error.sqlstate().code().to_owned()],
    };
    loop {
        let end = match seat.next_answer(&mut asked, 1_000).await {
            Ok(None) => return ends,
            Ok(Some(Answer::Rows(mut rows))) => loop {
                match rows.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => break Ok(rows.tag().to_string()),
                    Err(error) => break Err(error),
                }
            },
            Ok(Some(Answer::Done(tag))) => Ok(tag.to_string()),
            Ok(Some(Answer::Empty)) => Ok(String::new()),
            Err(error) => Err(error),
        };
        let failed = end.is_err();
        ends.push(end.unwrap_or_else(|error| error.sqlstate().code().to_owned()));
        if failed {
            return ends;
        }
    }
}

#[test]
fn statements_of_one_text_are_one_transaction() {
    let server = Server::start();
    let mut other = server.connect();
    other.done("CREATE TABLE t (a int)");
    let mut seat = Seat::new(server.client.connect(startup()).expect("a session"));
    let mut all = |text: &str| server.runtime.block_on(all_of(&mut seat, text));
    assert_eq!(all("INSERT INTO t VALUES (1); SELECT * FROM t"), ["INSERT 0 1", "SELECT 1"]);
    assert_eq!(all("INSERT INTO t VALUES (2); SELECT 1 / (SELECT 0)"), ["INSERT 0 1", "22012"]);
    assert_eq!(all("SELECT a FROM t"), ["SELECT 1"], "what failed is undone");
    assert_eq!(all("SELEC 1"), ["42601"]);
    assert_eq!(all(""), [""]);
    assert_eq!(
        all("BEGIN; INSERT INTO t VALUES (3); COMMIT; SELECT 1 / (SELECT 0)"),
        ["BEGIN", "INSERT 0 1", "COMMIT", "22012"]
    );
    // Planned elsewhere, and one after the other.
    let many = "SELECT count(*) FROM t a, t b, t c WHERE a.a + b.a < c.a;".repeat(300);
    assert_eq!(all(&many), ["SELECT 1"; 300]);
    assert_eq!(other.done("SELECT a FROM t ORDER BY a").0, [json!({"a": 1}), json!({"a": 3})]);

    // The same with values, a statement at a time.
    let one = |seat: &mut Seat, sql: &str, follows| {
        let run = async {
            let answer = seat.answer(Statement::Text(sql.to_owned()), no_values(), follows, 1_000).await;
            answer.map(drop).map_err(|error| error.sqlstate().code().to_owned())
        };
        server.runtime.block_on(run)
    };
    assert_eq!(one(&mut seat, "INSERT INTO t VALUES (4)", Follows::Others), Ok(()));
    assert_eq!(other.done("SELECT count(*) AS n FROM t").0, [json!({"n": 2})], "it is not committed");
    assert_eq!(one(&mut seat, "INSERT INTO t VALUES (5)", Follows::Others), Ok(()));
    server.runtime.block_on(seat.commit()).expect("they commit");
    assert_eq!(other.done("SELECT count(*) AS n FROM t").0, [json!({"n": 4})]);
    assert_eq!(one(&mut seat, "INSERT INTO t VALUES (6)", Follows::Others), Ok(()));
    assert_eq!(one(&mut seat, "SELECT nothing", Follows::Others), Err("42703".to_owned()));
    server.runtime.block_on(seat.commit()).expect("nothing is left to commit");
    assert_eq!(other.done("SELECT count(*) AS n FROM t").0, [json!({"n": 4})]);
    server.runtime.block_on(seat.close());
}

#[test]
fn what_a_session_keeps_of_its_statements_shows() {
    let server = Server::start();
    server.connect().done("CREATE TABLE t (a int); ");
    server.connect().done("CREATE SEQUENCE s");
    let after = |text: &str| {
        let mut seat = Seat::new(server.client.connect(startup()).expect("a session"));
        let ends = server.runtime.block_on(all_of(&mut seat, text));
        let is_as_new = seat.is_as_new();
        server.runtime.block_on(seat.close());
        (is_as_new, ends)
    };
    for text in [
        "SELECT 1",
        "INSERT INTO t VALUES (1); SELECT * FROM t",
        "BEGIN; DELETE FROM t; ROLLBACK",
        "SELECT 1 / (SELECT 0)",
        "nonsense",
        "CREATE TABLE u (a int); DROP TABLE u",
        "SELECT pg_advisory_xact_lock(1)",
        "BEGIN; SET LOCAL search_path = public; COMMIT",
    ] {
        let (is_as_new, ends) = after(text);
        // SET LOCAL is over, but a parameter was changed, which is enough.
        assert_eq!(is_as_new, !text.contains("SET LOCAL"), "{text}: {ends:?}");
    }
    for text in [
        "BEGIN",
        "BEGIN; SELECT nothing",
        "SET search_path = pg_catalog",
        "SELECT set_config('my.name', 'x', false)",
        "PREPARE p AS SELECT 1",
        "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT",
        "CREATE TEMPORARY TABLE u (a int)",
        "SELECT pg_advisory_lock(1)",
        "SELECT nextval('s')",
        "SET enable_frontend_peek_sequencing = off",
        "SET ROLE materialize",
    ] {
        let (is_as_new, ends) = after(text);
        assert!(!is_as_new, "{text}: {ends:?}");
    }
}

#[test]
fn changes_are_followed_until_that_is_cancelled() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.done("CREATE TABLE t (a int)");
    one.done("INSERT INTO t VALUES (1)");
    one.send("SUBSCRIBE (SELECT a FROM t)");
    let mut change = || {
        let line = one.line();
        (line["a"].as_i64(), line["mz_diff"].as_i64())
    };
    assert_eq!(change(), (Some(1), Some(1)), "what is there");
    other.done("UPDATE t SET a = 2");
    let mut changes = [change(), change()];
    changes.sort_unstable();
    assert_eq!(changes, [(Some(1), Some(-1)), (Some(2), Some(1))]);
    other.send(&format!("\\cancel {} {}", one.key[0], one.key[1]));
    let (_, end) = one.answer();
    assert_eq!(end["error"]["sqlstate"], "57014", "{end}");
}

#[test]
fn a_million_rows_come_in_batches_of_bounded_bytes() {
    const ROWS: usize = 1_000_000;
    const BYTES_MAX: usize = 10_000;
    let server = Server::start();
    let mut one = server.connect();
    one.send(&format!("SELECT x, 'row ' || x AS t FROM generate_series(1, {ROWS}) x"));
    let (mut count, mut sum) = (0, 0);
    let end = loop {
        let line = one.line();
        let Some(x) = line["x"].as_u64() else { break line };
        (count, sum) = (count + 1, sum + x);
    };
    assert_eq!(end, json!({"done": format!("SELECT {ROWS}")}));
    assert_eq!((count, sum), (ROWS, (ROWS * (ROWS + 1) / 2) as u64));

    // What the door is given: also of rows that are stored, and where one row has more.
    let mut seat = Seat::new(server.client.connect(startup()).expect("a session"));
    for sql in [
        "CREATE TABLE t (x int, t text)",
        "INSERT INTO t SELECT x, repeat('y', CASE x WHEN 500 THEN 20000 ELSE x % 100 END) FROM generate_series(1, 1000) x",
        "CREATE INDEX by_x ON t (x)",
    ] {
        one.done(sql);
    }
    for sql in ["SELECT * FROM t", "SELECT * FROM t WHERE x >= 0", "SELECT x + 1, t || 'z' FROM t"] {
        let answer = seat.answer(Statement::Text(sql.to_owned()), no_values(), Follows::Nothing, BYTES_MAX);
        let rows = server.runtime.block_on(async {
            let Answer::Rows(mut rows) = answer.await.expect(sql) else { panic!("{sql} has rows") };
            let mut count = 0;
            while let Some(batch) = rows.next().await.expect(sql) {
                let bytes: usize = (0..batch.num_rows()).map(|row| row_bytes(&batch, row)).sum();
                assert!(batch.num_rows() == 1 || bytes <= BYTES_MAX, "{sql}: {bytes} bytes");
                count += batch.num_rows();
            }
            count
        });
        assert_eq!(rows, 1000, "{sql}");
    }
    server.runtime.block_on(seat.close());
}
