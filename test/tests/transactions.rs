//! Transactions beside each other: who waits for whom, what is read again after waiting, what fails and what does not.
//!
//! At READ COMMITTED random transactions give what they give in PostgreSQL, step by step: rows, errors, and who waits. At the default level
//! it is told by hand what has to come of them.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use glimpse_test::postgres_server::Postgres;
use glimpse_test::server::Server;
use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use glimpse_test::wire::message::Message;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const SESSIONS: usize = 3;
/// Worlds, and steps in each.
const WORLDS: u64 = 12;
const WORLDS_LONG: u64 = 4_000;
const STEPS: usize = 40;
/// Longer than PostgreSQL waits before it looks for a circle.
const SETTLED: Duration = Duration::from_millis(25);
const DEADLOCK_TIMEOUT: &str = "deadlock_timeout=5ms";
/// Who waits, waits for a session.
const AUTOVACUUM: &str = "autovacuum=off";

/// What a statement gives: its error, or its rows and tags.
fn outcome(wire: &mut Wire, sql: &str) -> String {
    let messages = wire.query(sql).expect("the server answers");
    if let Some(error) = messages.iter().find_map(Message::error) {
        return error.code;
    }
    let shown = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
    let rows = messages.iter().filter(|message| message.tag == b'D');
    let rows = rows.map(|row| row.row_text().into_iter().map(shown).collect::<Vec<_>>().join(","));
    let tags = messages.iter().filter_map(Message::command_tag);
    rows.chain(tags).collect::<Vec<_>>().join(" ")
}

fn value(wire: &mut Wire, sql: &str) -> String {
    wire.rows(sql).expect(sql)[0][0].clone().unwrap_or_default()
}

/// A session that runs statements on a thread of its own.
struct Session {
    pid: String,
    statements: Sender<String>,
    outcomes: Receiver<String>,
    is_busy: bool,
    _thread: JoinHandle<()>,
}

impl Session {
    fn new(mut wire: Wire) -> Session {
        let pid = value(&mut wire, "SELECT pg_backend_pid()");
        let ((statements, asked), (answered, outcomes)) = (channel::<String>(), channel());
        let thread = std::thread::spawn(move || {
            while let Ok(sql) = asked.recv() {
                if answered.send(outcome(&mut wire, &sql)).is_err() {
                    return;
                }
            }
        });
        Session { pid, statements, outcomes, is_busy: false, _thread: thread }
    }

    fn ask(&mut self, sql: &str) {
        assert!(!self.is_busy, "it runs something else");
        self.is_busy = true;
        self.statements.send(sql.to_owned()).expect("its thread goes on");
    }

    /// What it has been answered, if it has.
    fn poll(&mut self) -> Option<String> {
        match self.outcomes.try_recv() {
            Ok(outcome) => {
                self.is_busy = false;
                Some(outcome)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("its thread has ended"),
        }
    }
}

/// Some sessions of one server, and one that looks on.
struct Sessions {
    all: Vec<Session>,
    observer: Wire,
}

impl Sessions {
    fn of(count: usize, open: impl Fn() -> Wire) -> Sessions {
        Sessions { all: (0..count).map(|_| Session::new(open())).collect(), observer: open() }
    }

    /// Waits until everybody has answered or waits for another; what was answered meanwhile, by session.
    fn settle(&mut self) -> Vec<(usize, String)> {
        let mut outcomes = Vec::new();
        let mut was_settled = false;
        loop {
            let before = outcomes.len();
            for (at, session) in self.all.iter_mut().enumerate().filter(|(_, session)| session.is_busy) {
                outcomes.extend(session.poll().map(|outcome| (at, outcome)));
            }
            let waiting = self.observer.rows("SELECT DISTINCT pid FROM pg_locks WHERE NOT granted").expect("who waits");
            let waits = |session: &Session| waiting.iter().any(|row| row[0].as_ref() == Some(&session.pid));
            let busy: Vec<&Session> = self.all.iter().filter(|session| session.is_busy).collect();
            let is_settled = outcomes.len() == before && busy.iter().all(|session| waits(session));
            match (is_settled, busy.is_empty()) {
                (true, true) => break,
                (true, false) if was_settled => break,
                // Who waits in a circle is told after a while.
                (true, false) => std::thread::sleep(SETTLED),
                (false, _) => std::thread::sleep(Duration::from_micros(200)),
            }
            was_settled = is_settled;
        }
        outcomes.sort();
        outcomes
    }

    fn step(&mut self, at: usize, sql: &str) -> Vec<(usize, String)> {
        self.all[at].ask(sql);
        self.settle()
    }

    fn one(&mut self, at: usize, sql: &str) -> String {
        match self.step(at, sql).as_slice() {
            [(from, outcome)] if *from == at => outcome.clone(),
            outcomes => panic!("{sql}: {outcomes:?}"),
        }
    }
}

/// What those wait for who wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    No,
    ForARow,
    ForAKey,
}

/// What a world has done so far, as far as it matters for what comes next.
struct World {
    random: StdRng,
    in_block: [bool; SESSIONS],
    /// Keys that were never deleted: where one is deleted and comes again, PostgreSQL's snapshots tell the rows apart, and a
    /// statement that is run again does not.
    fresh: i32,
    /// The rows that refer to others and were inserted.
    children: i32,
}

impl World {
    /// What a session does next, while these statements of others wait.
    fn statement(&mut self, session: usize, waiting: &[&str]) -> String {
        let random = &mut self.random;
        let kinds = waiting.iter().map(|sql| match sql.starts_with("UPDATE r SET v") {
            true => Waits::ForARow,
            false => Waits::ForAKey,
        });
        let waits = kinds.max().unwrap_or(Waits::No);
        match self.in_block[session] {
            false if random.random_bool(0.3) => return "BEGIN".to_owned(),
            true if random.random_bool(0.15) => {
                return (*["COMMIT", "COMMIT", "ROLLBACK"].choose(random).expect("some")).to_owned();
            }
            _ => {}
        }
        // Of several that wait for one row, PostgreSQL lets chance decide which comes first.
        let is_waited_for = |row: &i32| waiting.iter().any(|sql| sql.ends_with(&format!(" id = {row}")));
        let rows: Vec<i32> = (1..=6).filter(|row| !is_waited_for(row)).collect();
        let old = *rows.choose(random).expect("not all are waited for");
        let new = self.fresh + random.random_range(0..2);
        let unique = random.random_range(1..=12);
        let (parent, child) = (random.random_range(1..=4), random.random_range(1..=8));
        let children = *["k", "m"].choose(random).expect("some");
        // Who is in the way of a row's going, and about to go, is waited for in PostgreSQL if it is found before who is in the way for good.
        let freed = if self.in_block[session] { "m" } else { children };
        let kind = match random.random_range(0..42) {
            // Likewise of several that wait for a key.
            7 | 8 | 10..17 | 26..42 if waits == Waits::ForARow => 0,
            // Who waits for a key looks at the row that has it afterwards, which another may have changed by then.
            0..17 | 26..42 if waits == Waits::ForAKey => 25,
            kind => kind,
        };
        match kind {
            0..7 => format!("UPDATE r SET v = v + {unique} WHERE id = {old}"),
            7 | 8 => format!("UPDATE r SET u = {unique} WHERE id = {old}"),
            9 => format!("UPDATE r SET v = v + 1 WHERE id = {new} RETURNING v"),
            10 => format!("DELETE FROM r WHERE id = {old} RETURNING v"),
            11..14 => {
                self.fresh += i32::from(random.random_bool(0.3));
                format!("INSERT INTO r VALUES ({new}, {}, 0)", unique * 10 + new)
            }
            14 => format!("INSERT INTO r VALUES ({new}, {unique}, 0)"),
            15 => format!("INSERT INTO r VALUES ({new}, {}, 0) ON CONFLICT (id) DO NOTHING", 1_000 + new),
            16 => {
                format!(
                    "INSERT INTO r VALUES ({new}, {}, 0) ON CONFLICT (id) DO UPDATE SET v = r.v + 100 RETURNING v",
                    1_000 + new
                )
            }
            17 => "SELECT id, u, v FROM r ORDER BY id".to_owned(),
            18 => format!("SELECT v FROM r WHERE id = {old}"),
            22 if self.in_block[session] => "SAVEPOINT s".to_owned(),
            23 if self.in_block[session] => "ROLLBACK TO s".to_owned(),
            24 if self.in_block[session] => "SELECT 1 / 0".to_owned(),
            26..30 => {
                self.children += 1;
                format!("INSERT INTO {children} VALUES ({}, {parent}, 0)", self.children)
            }
            30 | 31 => format!("UPDATE {freed} SET q = {parent} WHERE id = {child}"),
            32 => format!("UPDATE {children} SET v = v + 1 WHERE id = {child} RETURNING q"),
            33 => format!("DELETE FROM {freed} WHERE id = {child}"),
            34..36 => format!("UPDATE q SET v = v + 1 WHERE id = {parent}"),
            36 | 37 => format!("DELETE FROM q WHERE id = {parent}"),
            38 => format!("UPDATE q SET id = {} WHERE id = {parent}", 100 + new),
            39 => format!("INSERT INTO q VALUES ({}, 0)", 10 + new),
            40 => format!("INSERT INTO {children} VALUES ({}, {}, 0)", 100 + new, 10 + new),
            41 => format!("SELECT id, q, v FROM {children} ORDER BY id"),
            _ => format!("UPDATE n SET v = v + 1 WHERE id = {old}"),
        }
    }
}

const TABLES: &str = "DROP TABLE IF EXISTS r, n, k, m, q; \
                      CREATE TABLE q (id int PRIMARY KEY, v int); \
                      CREATE TABLE k (id int PRIMARY KEY, q int REFERENCES q, v int); \
                      CREATE TABLE m (id int PRIMARY KEY, q int REFERENCES q ON DELETE CASCADE ON UPDATE CASCADE, v int); \
                      INSERT INTO q SELECT i, 0 FROM generate_series(1, 4) AS g (i); \
                      INSERT INTO k SELECT i, 1 + i % 2, 0 FROM generate_series(1, 4) AS g (i); \
                      INSERT INTO m SELECT i, 1 + i % 4, 0 FROM generate_series(1, 8) AS g (i); \
                      CREATE TABLE r (id int PRIMARY KEY, u int UNIQUE, v int); \
                      CREATE TABLE n (id int, v int); INSERT INTO r SELECT i, i, 0 FROM generate_series(1, 6) AS g (i); \
                      INSERT INTO n SELECT i, 0 FROM generate_series(1, 6) AS g (i)";

fn open(addr: SocketAddr) -> Wire {
    let mut wire = Wire::start(addr, "mz_system", "materialize").expect("a session");
    wire.execute("SET default_transaction_isolation = 'read committed'").expect("a setting");
    wire
}

#[test]
fn at_read_committed_random_transactions_are_those_of_postgres() {
    let glimpse = Server::start().expect("the server starts");
    let postgres =
        Postgres::start_with([DEADLOCK_TIMEOUT, AUTOVACUUM].map(str::to_owned).to_vec()).expect("PostgreSQL starts");
    let seeds = match std::env::var("TRANSACTIONS_SEED") {
        Ok(seeds) => {
            let (first, after) = seeds.split_once("..").unwrap_or((&seeds, ""));
            let first: u64 = first.parse().expect("a number, or two with .. between");
            first..if after.is_empty() { first + 1 } else { after.parse().expect("a number") }
        }
        Err(_) => 0..if glimpse_test::is_long() { WORLDS_LONG } else { WORLDS },
    };
    let (mut waits, mut blocks, mut alone) = (0, 0, 0);
    for seed in seeds {
        let mut ours = Sessions::of(SESSIONS, || open(glimpse.internal_sql_addr()));
        let mut theirs = Sessions::of(SESSIONS, || open(postgres.addr()));
        for sessions in [&mut ours, &mut theirs] {
            sessions.observer.execute(TABLES).expect("the tables are made");
        }
        let mut world =
            World { random: StdRng::seed_from_u64(seed), in_block: [false; SESSIONS], fresh: 10, children: 8 };
        let (mut steps, mut asked) = (Vec::new(), [const { String::new() }; SESSIONS]);
        for _ in 0..STEPS {
            let idle: Vec<usize> = (0..SESSIONS).filter(|at| !ours.all[*at].is_busy).collect();
            let at = *idle.choose(&mut world.random).expect("not everybody waits for another");
            let waiting = (0..SESSIONS).filter(|at| ours.all[*at].is_busy).map(|at| asked[at].as_str());
            let sql = world.statement(at, &waiting.collect::<Vec<_>>());
            match sql.as_str() {
                "BEGIN" => world.in_block[at] = true,
                "COMMIT" | "ROLLBACK" => {
                    blocks += 1;
                    world.in_block[at] = false;
                }
                _ => alone += usize::from(!world.in_block[at]),
            }
            steps.push(format!("{at}: {sql}"));
            asked[at].clone_from(&sql);
            let (our, their) = (ours.step(at, &sql), theirs.step(at, &sql));
            steps.push(format!("    {their:?}"));
            assert_eq!(our, their, "TRANSACTIONS_SEED={seed}: {steps:#?}");
            waits += usize::from(ours.all.iter().any(|session| session.is_busy));
        }
        blocks += world.in_block.into_iter().filter(|in_block| *in_block).count();
        // Who is not waited for goes first.
        for _ in 0..SESSIONS {
            for at in 0..SESSIONS {
                if !ours.all[at].is_busy {
                    let (our, their) = (ours.step(at, "COMMIT"), theirs.step(at, "COMMIT"));
                    steps.push(format!("{at}: COMMIT"));
                    assert_eq!(our, their, "TRANSACTIONS_SEED={seed}: {steps:#?}");
                }
            }
        }
        for sql in [
            "SELECT * FROM r ORDER BY id",
            "SELECT * FROM n ORDER BY id, v",
            "SELECT * FROM q ORDER BY id",
            "SELECT * FROM k ORDER BY id",
            "SELECT * FROM m ORDER BY id",
            "SELECT count(*) FROM pg_locks WHERE NOT granted",
        ] {
            let (our, their) = (outcome(&mut ours.observer, sql), outcome(&mut theirs.observer, sql));
            assert_eq!(our, their, "TRANSACTIONS_SEED={seed}: {sql}: {steps:#?}");
        }
    }
    println!("{blocks} transactions, {alone} of one statement besides, {waits} steps while somebody waited");
    assert!(waits > 0 || std::env::var("TRANSACTIONS_SEED").is_ok(), "nobody has waited for anybody");
}

/// Two sessions of the default level over a table with ten rows.
fn two() -> (Target, Sessions) {
    some(2)
}

fn some(count: usize) -> (Target, Sessions) {
    let target = Target::start().expect("the server starts");
    let mut sessions = Sessions::of(count, || target.admin().expect("a session"));
    sessions
        .observer
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) AS g (i); \
             CREATE TABLE w (x int)",
        )
        .expect("the tables are made");
    (target, sessions)
}

#[test]
fn what_was_looked_up_must_not_have_changed_when_a_transaction_commits() {
    let (_target, mut two) = two();
    // That a row is not there is something to be looked up as well.
    for (id, seen, write) in
        [(1, "0 SELECT 1", "UPDATE t SET v = 1 WHERE id = 1"), (99, "SELECT 0", "INSERT INTO t VALUES (99, 0)")]
    {
        two.one(0, "BEGIN");
        assert_eq!(two.one(0, &format!("SELECT v FROM t WHERE id = {id}")), seen);
        two.one(1, write);
        assert_eq!(two.one(0, "INSERT INTO w VALUES (1)"), "INSERT 0 1");
        assert_eq!(two.one(0, "COMMIT"), "40001", "{write}");
    }
    // Rows that nobody has looked up may change as they like.
    assert_eq!(two.one(0, "BEGIN"), "BEGIN");
    assert_eq!(two.one(0, "SELECT v FROM t WHERE id = 2"), "0 SELECT 1");
    assert_eq!(two.one(1, "UPDATE t SET v = 2 WHERE id = 1"), "UPDATE 1");
    assert_eq!(two.one(0, "UPDATE t SET v = 2 WHERE id = 3"), "UPDATE 1");
    assert_eq!(two.one(0, "SELECT v FROM t WHERE id = 1"), "2 SELECT 1", "the transaction has moved to a later time");
    assert_eq!(two.one(0, "COMMIT"), "COMMIT");
}

#[test]
fn who_wants_what_another_changes_waits_and_moves_on() {
    let (_target, mut two) = two();
    two.one(0, "BEGIN");
    two.one(0, "UPDATE t SET v = v + 1 WHERE id = 1");
    two.one(1, "BEGIN");
    assert_eq!(two.one(1, "SELECT v FROM t WHERE id = 2"), "0 SELECT 1");
    assert_eq!(two.step(1, "UPDATE t SET v = v + 10 WHERE id = 1 RETURNING v"), []);
    let waits = "SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    assert_eq!(outcome(&mut two.observer, waits), "Lock,tuple SELECT 1");
    let blocked = format!("SELECT pg_blocking_pids({}) = ARRAY[{}]", two.all[1].pid, two.all[0].pid);
    assert_eq!(value(&mut two.observer, &blocked), "t");
    let after = two.step(0, "COMMIT");
    assert_eq!(after, [(0, "COMMIT".to_owned()), (1, "11 UPDATE 1".to_owned())]);
    assert_eq!(two.one(1, "COMMIT"), "COMMIT");
    // What it has read has changed by the time at which it can go on.
    two.one(0, "BEGIN");
    two.one(0, "UPDATE t SET v = 1 WHERE id IN (3, 4)");
    two.one(1, "BEGIN");
    assert_eq!(two.one(1, "SELECT v FROM t WHERE id = 3"), "0 SELECT 1");
    assert_eq!(two.step(1, "DELETE FROM t WHERE id = 4"), []);
    assert_eq!(two.step(0, "COMMIT"), [(0, "COMMIT".to_owned()), (1, "40001".to_owned())]);
    assert_eq!(two.one(1, "ROLLBACK"), "ROLLBACK");
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM pg_locks"), "0");
}

#[test]
fn what_a_transaction_has_taken_back_others_may_change() {
    let (_target, mut two) = two();
    two.one(0, "BEGIN ISOLATION LEVEL READ COMMITTED");
    two.one(0, "SAVEPOINT s");
    assert_eq!(two.one(0, "UPDATE t SET v = 5 WHERE id = 1"), "UPDATE 1");
    assert_eq!(two.one(0, "ROLLBACK TO s"), "ROLLBACK");
    assert_eq!(two.one(1, "UPDATE t SET v = 6 WHERE id = 1"), "UPDATE 1");
    assert_eq!(two.one(0, "UPDATE t SET v = 7 WHERE id = 2"), "UPDATE 1");
    assert_eq!(two.one(0, "COMMIT"), "COMMIT");
    assert_eq!(outcome(&mut two.observer, "SELECT v FROM t WHERE id < 3 ORDER BY id"), "6 7 SELECT 2");
}

#[test]
fn who_takes_a_key_twice_waits_for_nobody() {
    let (_target, mut two) = two();
    two.observer
        .execute("CREATE TABLE twice (id int PRIMARY KEY, u int UNIQUE); INSERT INTO twice VALUES (5, 5)")
        .expect("rows");
    two.one(0, "BEGIN");
    two.one(1, "BEGIN");
    assert_eq!(two.one(0, "INSERT INTO twice VALUES (10, 80)"), "INSERT 0 1");
    assert_eq!(two.one(1, "UPDATE twice SET u = 2 WHERE id = 5"), "UPDATE 1");
    // Its first key it has taken itself; of the second it would have to wait and see.
    assert_eq!(two.one(0, "INSERT INTO twice VALUES (10, 5)"), "23505");
    assert_eq!(two.one(1, "COMMIT"), "COMMIT");
}

#[test]
fn who_changes_a_key_to_one_that_is_taken_waits_for_nobody_who_refers_to_the_row() {
    let (_target, mut two) = two();
    two.observer
        .execute(
            "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1), (2); \
             CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON UPDATE CASCADE, v int); INSERT INTO c VALUES (1, 1, 0)",
        )
        .expect("the tables are made");
    for begin in ["BEGIN", "SELECT 1"] {
        two.one(0, "BEGIN");
        assert_eq!(two.one(0, "UPDATE c SET v = 1 WHERE id = 1"), "UPDATE 1");
        two.one(1, begin);
        assert_eq!(two.one(1, "UPDATE p SET id = 2 WHERE id = 1"), "23505");
        two.one(1, "ROLLBACK");
        assert_eq!(two.one(0, "COMMIT"), "COMMIT");
    }
}

/// A row that has gone, or is not there, is locked by nobody: who waited for it in vain keeps nobody else waiting.
#[test]
fn what_is_not_found_is_not_locked() {
    let (_target, mut three) = some(3);
    three.one(0, "BEGIN");
    assert_eq!(three.one(0, "DELETE FROM t WHERE id = 1"), "DELETE 1");
    for waiting in [1, 2] {
        three.one(waiting, "BEGIN ISOLATION LEVEL READ COMMITTED");
        assert_eq!(three.step(waiting, "UPDATE t SET v = 1 WHERE id = 1"), []);
    }
    let nothing = || "UPDATE 0".to_owned();
    assert_eq!(three.step(0, "COMMIT"), [(0, "COMMIT".to_owned()), (1, nothing()), (2, nothing())]);
    assert_eq!(three.one(1, "UPDATE t SET v = 1 WHERE id IN (2, 11)"), "UPDATE 1");
    assert_eq!(three.one(2, "INSERT INTO t VALUES (1, 5), (11, 5)"), "INSERT 0 2");
}

/// A statement that looks for its rows anew finds one that another has locked which waits for those that it has locked itself.
#[test]
fn who_looks_again_waits_in_no_circle() {
    let (_target, mut three) = some(3);
    three.one(0, "BEGIN");
    three.one(0, "UPDATE t SET v = 1 WHERE id = 3");
    three.one(0, "INSERT INTO w VALUES (1)");
    three.observer.execute("INSERT INTO w VALUES (2), (3)").expect("rows");
    assert_eq!(three.step(1, "DELETE FROM t WHERE id IN (SELECT x FROM w)"), []);
    assert_eq!(three.step(2, "DELETE FROM t WHERE id IN (1, 2)"), []);
    let deleted = |count: usize| format!("DELETE {count}");
    assert_eq!(three.step(0, "COMMIT"), [(0, "COMMIT".to_owned()), (1, deleted(1)), (2, deleted(2))]);
}

#[test]
fn who_refers_to_a_row_keeps_it_from_going_and_from_nothing_else() {
    let (_target, mut two) = two();
    two.observer.execute("CREATE TABLE c (t int REFERENCES t)").expect("a table");
    two.one(0, "BEGIN");
    assert_eq!(two.one(0, "INSERT INTO c VALUES (1)"), "INSERT 0 1");
    assert_eq!(two.one(1, "UPDATE t SET v = 1 WHERE id = 1"), "UPDATE 1");
    assert_eq!(two.one(1, "INSERT INTO c VALUES (1)"), "INSERT 0 1");
    assert_eq!(two.one(1, "INSERT INTO t VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET v = 5"), "INSERT 0 1");
    assert_eq!(two.one(1, "INSERT INTO t VALUES (1, 5)"), "23505");
    assert_eq!(two.step(1, "DELETE FROM t WHERE id = 1"), []);
    assert_eq!(two.step(0, "COMMIT"), [(0, "COMMIT".to_owned()), (1, "23503".to_owned())]);
    for (end, refers) in [("ROLLBACK", "INSERT 0 1"), ("COMMIT", "23503")] {
        two.one(0, "BEGIN");
        two.one(0, "DELETE FROM t WHERE id = 2");
        assert_eq!(two.step(1, "INSERT INTO c VALUES (2)"), [], "{end}");
        assert_eq!(two.step(0, end), [(0, end.to_owned()), (1, refers.to_owned())]);
        two.one(1, "DELETE FROM c WHERE t = 2");
    }
    // Who keeps a row from going, and is about to go, is waited for.
    for (end, deleted) in [("ROLLBACK", "23503"), ("COMMIT", "DELETE 1")] {
        two.one(0, "BEGIN");
        two.one(0, "DELETE FROM c WHERE t = 1");
        assert_eq!(two.step(1, "DELETE FROM t WHERE id = 1"), [], "{end}");
        assert_eq!(two.step(0, end), [(0, end.to_owned()), (1, deleted.to_owned())]);
    }
    // What another has not committed is not there, and not waited for.
    two.one(0, "BEGIN");
    two.one(0, "INSERT INTO t VALUES (20, 0)");
    assert_eq!(two.one(1, "INSERT INTO c VALUES (20)"), "23503");
    two.one(0, "ROLLBACK");
}

#[test]
fn foreign_keys_that_change_each_other_without_end_are_stopped() {
    let (_target, mut two) = two();
    two.observer
        .execute("CREATE TABLE loop (id int PRIMARY KEY REFERENCES loop (id) ON UPDATE CASCADE); INSERT INTO loop VALUES (1), (2)")
        .expect("a table");
    two.one(1, "SET statement_timeout = '20ms'");
    assert_eq!(two.one(1, "UPDATE loop SET id = 3 - id"), "57014");
    assert_eq!(two.one(0, "UPDATE loop SET id = 3 - id"), "54000");
    // Not by who has 20 ms, which a busy machine may need for more.
    assert_eq!(two.one(0, "SELECT id FROM loop ORDER BY id"), "1 2 SELECT 2");
}

#[test]
fn locks_go_with_whatever_took_them() {
    let (target, mut two) = two();
    for (undo, outcome) in [("ROLLBACK", "ROLLBACK"), ("ROLLBACK TO s", "ROLLBACK"), ("SELECT 1 / 0", "22012")] {
        two.one(0, "BEGIN");
        two.one(0, "SAVEPOINT s");
        two.one(0, "UPDATE t SET v = -1 WHERE id = 1");
        assert_eq!(two.step(1, "UPDATE t SET v = v + 1 WHERE id = 1"), []);
        assert_eq!(two.step(0, undo), [(0, outcome.to_owned()), (1, "UPDATE 1".to_owned())], "{undo}");
        two.one(0, "ROLLBACK");
    }
    // With the connection.
    let mut gone = target.admin().expect("a session");
    gone.execute("BEGIN; DELETE FROM t WHERE id = 1").expect("nobody is in the way");
    assert_eq!(two.step(1, "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v"), []);
    drop(gone);
    while two.all[1].is_busy {
        if let Some(outcome) = two.all[1].poll() {
            assert_eq!(outcome, "4 UPDATE 1");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Those who give up waiting hold nobody up.
    two.one(0, "BEGIN");
    two.one(0, "UPDATE t SET v = 0 WHERE id = 1");
    two.one(1, "SET lock_timeout = '5ms'");
    two.all[1].ask("DELETE FROM t WHERE id = 1");
    while two.all[1].is_busy {
        if let Some(outcome) = two.all[1].poll() {
            assert_eq!(outcome, "55P03");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    two.one(0, "COMMIT");
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM pg_locks"), "0");
}

/// The first statement of a transaction without a block has read as the others have.
#[test]
fn statements_of_one_message_read_at_one_time() {
    let (_target, mut two) = two();
    two.one(0, "BEGIN");
    two.one(0, "UPDATE t SET v = 1 WHERE id = 1");
    assert_eq!(two.step(1, "INSERT INTO w SELECT id FROM t; UPDATE t SET v = v + 1 WHERE id = 1"), []);
    two.one(0, "INSERT INTO t VALUES (50, 0)");
    assert_eq!(two.step(0, "COMMIT"), [(0, "COMMIT".to_owned()), (1, "40001".to_owned())]);
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM w"), "0");
}

/// Changes of the catalog lock no rows. What they do to rows that a transaction has read or removed its COMMIT sees, at either level.
#[test]
fn what_changes_the_catalog_makes_no_row_go_twice() {
    let (_target, mut two) = two();
    // A table whose rows are others now contradicts who has looked them up.
    two.one(0, "BEGIN");
    assert_eq!(two.one(0, "SELECT v FROM t WHERE id = 1"), "0 SELECT 1");
    assert_eq!(two.one(1, "ALTER TABLE t ADD COLUMN c int"), "ALTER TABLE");
    assert_eq!(two.one(1, "UPDATE t SET v = 1 WHERE id = 1"), "UPDATE 1");
    assert_eq!(two.one(0, "INSERT INTO w VALUES (1)"), "INSERT 0 1");
    assert_eq!(two.one(0, "COMMIT"), "40001");
    // Without its key, a row is locked in another way.
    two.one(0, "BEGIN ISOLATION LEVEL READ COMMITTED");
    assert_eq!(two.one(0, "DELETE FROM t WHERE id = 2"), "DELETE 1");
    assert_eq!(two.one(1, "ALTER TABLE t DROP CONSTRAINT t_pkey"), "ALTER TABLE");
    assert_eq!(two.one(1, "DELETE FROM t WHERE id = 2"), "DELETE 1");
    assert_eq!(two.one(0, "COMMIT"), "40001");
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM t"), "9");
    // What a change of the columns has copied is all that there is.
    two.one(0, "BEGIN ISOLATION LEVEL READ COMMITTED");
    assert_eq!(two.one(0, "ALTER TABLE t DROP COLUMN c"), "ALTER TABLE");
    assert_eq!(two.one(1, "INSERT INTO t VALUES (60, 0)"), "INSERT 0 1");
    assert_eq!(two.one(0, "COMMIT"), "40001");
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM t WHERE id = 60"), "1");
}

/// What refers to a row is found by an index that begins when the foreign key is made.
#[test]
fn who_has_read_before_a_foreign_key_was_made_lets_nothing_go_by_it() {
    let (_target, mut two) = two();
    two.observer.execute("CREATE TABLE child (p int); INSERT INTO child VALUES (1), (1), (2)").expect("a table");
    two.one(0, "BEGIN");
    assert_eq!(two.one(0, "SELECT v FROM t WHERE id = 1"), "0 SELECT 1");
    let made = "ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES t ON DELETE CASCADE";
    assert_eq!(two.one(1, made), "ALTER TABLE");
    assert_eq!(two.one(0, "DELETE FROM t WHERE id = 1"), "40001");
    two.one(0, "ROLLBACK");
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM child"), "3");
    assert_eq!(two.one(0, "DELETE FROM t WHERE id = 1"), "DELETE 1");
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM child"), "1");
}

#[test]
fn who_waits_for_rows_keeps_nobody_from_changing_the_catalog() {
    let (_target, mut two) = two();
    two.observer
        .execute("CREATE TABLE s (id serial PRIMARY KEY, v int); INSERT INTO s (v) VALUES (1)")
        .expect("a table");
    two.one(0, "BEGIN");
    two.one(0, "UPDATE s SET v = 2 WHERE id = 1");
    assert_eq!(two.step(1, "TRUNCATE s RESTART IDENTITY"), []);
    assert_eq!(two.one(0, "CREATE TABLE made (a int)"), "CREATE TABLE");
    let outcomes = two.step(0, "COMMIT");
    assert_eq!(outcomes.first(), Some(&(0, "COMMIT".to_owned())), "{outcomes:?}");
}

/// Time itself can be read, and is another one later.
#[test]
fn a_transaction_that_has_read_the_time_stays_there() {
    let (_target, mut two) = two();
    two.one(0, "BEGIN");
    two.one(0, "SELECT count(*) FROM t WHERE mz_now() > 0");
    assert_eq!(two.one(1, "UPDATE t SET v = 1 WHERE id = 2"), "UPDATE 1");
    assert_eq!(two.one(0, "UPDATE t SET v = 1 WHERE id = 1"), "40001");
    // An index that is built anew with more workers finds a transaction's own rows.
    two.observer.execute("CREATE INDEX t_v ON t (v)").expect("an index");
    two.one(1, "BEGIN ISOLATION LEVEL READ COMMITTED");
    for id in 100..110 {
        two.one(1, &format!("INSERT INTO t VALUES ({id}, {id})"));
    }
    let own = "SELECT sum(id) FROM t WHERE v BETWEEN 100 AND 109";
    let looked_up =
        |two: &mut Sessions| (100..110).map(|v| two.one(1, &format!("SELECT id FROM t WHERE v = {v}"))).collect();
    let (before, before_up): (String, Vec<String>) = (two.one(1, own), looked_up(&mut two));
    two.observer.execute("ALTER CLUSTER quickstart SET (SIZE '2')").expect("the cluster gets another worker");
    let (after, after_up): (String, Vec<String>) = (two.one(1, own), looked_up(&mut two));
    assert_eq!((before, before_up), (after, after_up));
}

/// Of many who change one row, nobody fails and nothing is lost, in blocks and without.
#[test]
fn a_hot_row_is_changed_in_turns() {
    const THREADS: usize = 16;
    const ROUNDS: usize = 20;
    let (target, mut two) = two();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let target = &target;
            scope.spawn(move || {
                let mut wire = target.admin().expect("a session");
                for _ in 0..ROUNDS {
                    match thread % 2 {
                        0 => wire.execute("UPDATE t SET v = v + 1 WHERE id = 5").expect("nobody fails"),
                        _ => {
                            wire.execute("BEGIN").expect("a block");
                            let mine = format!("SELECT v FROM t WHERE id = {}", 6 + thread % 4);
                            wire.rows(&mine).expect("it reads");
                            wire.execute("UPDATE t SET v = v + 1 WHERE id = 5").expect("nobody fails");
                            wire.execute("COMMIT").expect("nobody fails");
                        }
                    }
                }
            });
        }
    });
    assert_eq!(value(&mut two.observer, "SELECT v FROM t WHERE id = 5"), (THREADS * ROUNDS).to_string());
    assert_eq!(value(&mut two.observer, "SELECT count(*) FROM pg_locks"), "0");
}

/// What a transaction has written it reads through the index as it would read it without: random writes, the same look-ups and
/// scans both ways.
#[test]
fn own_writes_are_read_through_the_index() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session");
    wire.execute("CREATE TABLE o (a int PRIMARY KEY, b int, c text)").expect("the table is made");
    wire.execute("CREATE INDEX o_b ON o (b, c)").expect("the index is made");
    wire.execute("INSERT INTO o SELECT i, i % 7, 'n' || i % 3 FROM generate_series(1, 200) AS g (i)").expect("rows");
    let reads = |key: i32| {
        [
            format!("SELECT * FROM o WHERE a = {key}"),
            format!("SELECT * FROM o WHERE a IN ({key}, {}, 203) ORDER BY a", key + 1),
            format!("SELECT * FROM o WHERE b = {} AND c = 'n1' ORDER BY a", key % 7),
            format!("SELECT * FROM o WHERE b = {} ORDER BY a LIMIT 5 OFFSET 1", key % 7),
            "SELECT count(*), sum(a), sum(b) FROM o".to_owned(),
            format!("SELECT x.a, y.a FROM o x JOIN o y ON x.a = y.b WHERE x.a = {} ORDER BY 1, 2", key % 7),
        ]
    };
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        wire.execute("BEGIN").expect("a block");
        for step in 0..60 {
            let key = random.random_range(1..210);
            let sql = match random.random_range(0..8) {
                0 | 1 => format!("INSERT INTO o VALUES ({key}, {}, 'n1')", key % 5),
                2 | 3 => format!("UPDATE o SET b = b + 1 WHERE a = {key}"),
                4 => format!("UPDATE o SET a = a + 1000 WHERE b = {}", key % 9),
                5 => format!("DELETE FROM o WHERE a = {key}"),
                6 => {
                    format!("INSERT INTO o VALUES ({key}, 1, 'n2') ON CONFLICT (a) DO UPDATE SET c = 'n1', b = o.b + 1")
                }
                _ => format!("DELETE FROM o WHERE b = {} AND c = 'n1'", key % 9),
            };
            wire.execute("SAVEPOINT s").expect("a savepoint");
            let undone = outcome(&mut wire, &sql).len() == 5 || random.random_bool(0.1);
            if undone {
                wire.execute("ROLLBACK TO s").expect("it goes back");
            }
            for read in reads(key) {
                let through = outcome(&mut wire, &read);
                wire.execute("SET LOCAL enable_frontend_peek_sequencing = off").expect("a setting");
                let without = outcome(&mut wire, &read);
                wire.execute("SET LOCAL enable_frontend_peek_sequencing = on").expect("a setting");
                assert_eq!(through, without, "seed {seed}, step {step}: {sql}: {read}");
            }
        }
        wire.execute(if seed % 2 == 0 { "ROLLBACK" } else { "COMMIT" }).expect("it ends");
    }
    wire.execute("BEGIN; INSERT INTO o VALUES (5000, 1, 'n1')").expect("a row");
    let explained = outcome(&mut wire, "EXPLAIN SELECT * FROM o WHERE a = 5000");
    assert!(explained.contains("Executor: peek") && explained.contains("o_pkey (lookup a = 5000)"), "{explained}");
}
