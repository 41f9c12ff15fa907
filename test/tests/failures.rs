//! A failure is never an answer: what fails in the middle is told as an error, and nothing of it is given out or committed.

use bugs::PANICS;
use glimpse_test::server::{Launch, Server};
use glimpse_test::wire::Wire;
use glimpse_test::wire::message::Message;

/// Panics that a test wants to see.
const PANICS_MIN: usize = 200;
/// About one in so many batches of an operator is a panic instead.
const ONE_IN: &str = "25";

/// Queries with every kind of operator.
const QUERIES: [&str; 12] = [
    "SELECT count(*), sum(a) FROM base",
    "SELECT a, b FROM base WHERE a % 3 = 0 ORDER BY b DESC, a LIMIT 50",
    "SELECT b, count(*), max(c) FROM base GROUP BY b ORDER BY b",
    "SELECT DISTINCT b FROM base ORDER BY b",
    "SELECT x.a, y.a FROM base x JOIN base y ON x.a = y.a + 7 ORDER BY 1",
    "SELECT count(*) FROM base x LEFT JOIN base y ON x.a < y.a AND y.a < 9",
    "SELECT a FROM base WHERE b IN (SELECT b FROM base WHERE a < 100) ORDER BY a",
    "SELECT a, rank() OVER (PARTITION BY b ORDER BY a) FROM base ORDER BY a",
    "SELECT a FROM base UNION ALL SELECT -a FROM base ORDER BY 1",
    "SELECT a FROM base EXCEPT SELECT a FROM base WHERE b = 1 ORDER BY 1",
    "SELECT a, n FROM base, generate_series(1, a % 3) n ORDER BY a, n",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 200) SELECT sum(n) FROM r",
];

/// Statements that change `base` or what there is, how `CHECK` tells that they did, and how to take them back.
const CHANGES: [[&str; 3]; 5] = [
    ["INSERT INTO made SELECT a FROM base", "SELECT count(*) FROM made", "DELETE FROM made"],
    [
        "INSERT INTO made WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 200) SELECT n FROM r",
        "SELECT count(*) FROM made",
        "DELETE FROM made",
    ],
    [
        "UPDATE base SET c = 'changed' WHERE a % 2 = 0",
        "SELECT count(*) FROM base WHERE c = 'changed'",
        "UPDATE base SET c = 'as before'",
    ],
    [
        "DELETE FROM spare WHERE a > 10",
        "SELECT count(*) FROM spare",
        "INSERT INTO spare SELECT a FROM base WHERE a > 10",
    ],
    ["CREATE TABLE copied AS SELECT a, b FROM base", "SELECT count(*) FROM copied", "DROP TABLE copied"],
];

type Rows = Vec<Vec<Option<String>>>;

/// A session, and how many of its statements have failed because something panicked.
struct Session {
    wire: Wire,
    panics: usize,
}

impl Session {
    /// The rows of a statement; `None` if it panicked.
    fn attempt(&mut self, sql: &str) -> Option<Rows> {
        let messages = self.wire.query(sql).expect("the session goes on");
        let Some(error) = messages.iter().find_map(Message::error) else {
            return Some(messages.iter().filter(|message| message.tag == b'D').map(Message::row_text).collect());
        };
        assert_eq!(error.code, "XX000", "{sql}: {}", error.message);
        assert!(messages.iter().all(|message| message.tag != b'C'), "{sql}: an error, and a success");
        self.panics += 1;
        None
    }

    /// Its rows in the end.
    fn insist(&mut self, sql: &str) -> Rows {
        loop {
            if let Some(rows) = self.attempt(sql) {
                return rows;
            }
        }
    }
}

fn session(server: &Server) -> Session {
    let wire = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    Session { wire, panics: 0 }
}

fn prepared(server: &Server) -> Session {
    let mut session = session(server);
    for sql in [
        "CREATE TABLE base (a int, b int, c text)",
        "CREATE TABLE made (a int)",
        "CREATE TABLE spare (a int)",
        "INSERT INTO base SELECT a, a % 5, 'as before' FROM generate_series(1, 3000) a",
        "INSERT INTO spare SELECT a FROM base",
    ] {
        session.insist(sql);
    }
    session
}

#[test]
fn a_panic_is_never_an_answer() {
    let whole = Server::start().expect("the server starts");
    let environment = vec![(PANICS.to_owned(), ONE_IN.to_owned())];
    let faulty = Server::launch(Launch { environment, ..Launch::default() }).expect("the server starts");
    let (mut expected, mut session) = (prepared(&whole), prepared(&faulty));
    let answers: Vec<Rows> = QUERIES.iter().map(|sql| expected.insist(sql)).collect();
    let states: Vec<[Rows; 2]> = CHANGES
        .iter()
        .map(|[change, check, undo]| {
            let before = if change.starts_with("CREATE") { Rows::new() } else { expected.insist(check) };
            expected.insist(change);
            let after = expected.insist(check);
            expected.insist(undo);
            [before, after]
        })
        .collect();
    assert_eq!(expected.panics, 0);
    while session.panics < PANICS_MIN {
        for (sql, answer) in QUERIES.iter().zip(&answers) {
            if let Some(rows) = session.attempt(sql) {
                assert_eq!(rows, *answer, "{sql}");
            }
        }
        for ([change, check, undo], [before, after]) in CHANGES.iter().zip(&states) {
            let is_done = session.attempt(change).is_some();
            match (is_done, change.starts_with("CREATE")) {
                (false, true) => {
                    let there = session.insist("SELECT count(*) FROM pg_class WHERE relname = 'copied'");
                    assert_eq!(there, [[Some("0".to_owned())]], "{change}");
                }
                _ => assert_eq!(session.insist(check), if is_done { after } else { before }.clone(), "{change}"),
            }
            if is_done {
                session.insist(undo);
            }
        }
    }
}

#[test]
fn rows_that_are_too_large_for_a_batch_are_all_counted() {
    let server = Server::start().expect("the server starts");
    let mut session = session(&server);
    session.insist("CREATE TABLE large (a int, c text)");
    for from in (1..=2_700).step_by(100) {
        session.insist(&format!(
            "INSERT INTO large SELECT a, repeat('y', 800000) FROM generate_series({from}, {from} + 99) a"
        ));
    }
    assert_eq!(session.insist("SELECT count(*) FROM large WHERE length(c) = 800000"), [[Some("2700".to_owned())]]);
}

#[test]
fn functions_that_make_much_of_little_are_given_few_rows_at_a_time() {
    let server = Server::start().expect("the server starts");
    let mut session = session(&server);
    session.insist("CREATE TABLE few (a int)");
    session.insist("INSERT INTO few SELECT generate_series(1, 4000)");
    let asked = "SELECT count(*) FROM few WHERE length(repeat('y', 1000000 + a)) > 1000000";
    assert_eq!(session.insist(asked), [[Some("4000".to_owned())]]);
    // All of them at once would have been 4 GB.
    let peak = server.peak_bytes().expect("the system knows");
    assert!(peak < 1 << 30, "{peak} bytes");
}
