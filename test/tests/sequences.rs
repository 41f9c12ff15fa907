//! Sequences: no value is given twice, to however many sessions at once, and after `kill -9`.

use glimpse_test::target::Target;
use glimpse_test::wire::{Wire, frontend};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SESSIONS: usize = 16;
const ROUNDS: usize = 3;
/// Values that all sessions together are given in a round before the server is killed.
const GIVEN_MIN: usize = 600;
/// Rows of an INSERT of several.
const ROWS: usize = 3;

fn start() -> Target {
    Target::start().expect("the server starts")
}

fn admin(target: &Target) -> Wire {
    target.admin().expect("a session starts")
}

fn value(wire: &mut Wire, sql: &str) -> i64 {
    let rows = wire.rows(sql).expect("the query succeeds");
    rows[0][0].as_deref().expect("it is not NULL").parse().expect("it is a number")
}

/// Takes values until the connection breaks; returns those that were acknowledged.
fn take(mut wire: Wire, session: usize, given: &AtomicUsize) -> Vec<i64> {
    let mut values = Vec::new();
    for turn in 0.. {
        let sql = match (turn + session) % 3 {
            0 => "SELECT nextval('s')".to_owned(),
            1 => "SELECT nextval('s') FROM generate_series(1, 3)".to_owned(),
            _ => {
                let rows: Vec<String> = (0..ROWS).map(|_| "(DEFAULT)".to_owned()).collect();
                format!("INSERT INTO t VALUES {} RETURNING id", rows.join(", "))
            }
        };
        let Ok(rows) = wire.rows(&sql) else { break };
        given.fetch_add(rows.len(), Ordering::Relaxed);
        values.extend(
            rows.iter().map(|row| row[0].as_deref().expect("it is not NULL").parse::<i64>().expect("a number")),
        );
    }
    values
}

#[test]
fn no_value_is_given_twice_though_the_server_is_killed() {
    let mut target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE SEQUENCE s").expect("the sequence is made");
    wire.execute("CREATE TABLE t (id bigint DEFAULT nextval('s') PRIMARY KEY)").expect("the table is made");
    let mut all = BTreeSet::new();
    for round in 0..ROUNDS {
        let given = AtomicUsize::new(0);
        let taken: Vec<Vec<i64>> = std::thread::scope(|scope| {
            let sessions: Vec<_> = (0..SESSIONS)
                .map(|session| {
                    let (wire, given) = (admin(&target), &given);
                    scope.spawn(move || take(wire, session, given))
                })
                .collect();
            let deadline = Instant::now() + Duration::from_secs(60);
            while given.load(Ordering::Relaxed) < GIVEN_MIN {
                assert!(Instant::now() < deadline, "round {round}: the sessions are given values");
                std::thread::sleep(Duration::from_millis(5));
            }
            target.kill9().expect("the server is killed");
            sessions.into_iter().map(|session| session.join().expect("the session ends")).collect()
        });
        for value in taken.into_iter().flatten() {
            assert!(all.insert(value), "round {round}: {value} was given twice");
        }
        target.restart().expect("the server starts again");
    }
    let mut wire = admin(&target);
    let next = value(&mut wire, "SELECT nextval('s')");
    assert!(all.last().is_some_and(|last| next > *last), "{next} is not beyond all that were given");
    assert!(value(&mut wire, "SELECT max(id) FROM t") < next, "{next} is not beyond what is stored");
}

#[test]
fn a_server_that_stops_gives_back_what_it_reserved() {
    let mut target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE t (id serial, v text)").expect("the table is made");
    wire.execute("INSERT INTO t (v) VALUES ('a'), ('b')").expect("the rows are stored");
    wire.execute("CREATE SEQUENCE unused START 5").expect("the sequence is made");
    wire.execute("CREATE SEQUENCE placed").expect("the sequence is made");
    assert_eq!(value(&mut wire, "SELECT setval('placed', 41)"), 41);
    target.sigterm().expect("the server ends");
    target.restart().expect("the server starts again");
    let mut wire = admin(&target);
    assert_eq!(value(&mut wire, "INSERT INTO t (v) VALUES ('c') RETURNING id"), 3);
    assert_eq!(value(&mut wire, "SELECT nextval('unused')"), 5);
    assert_eq!(value(&mut wire, "SELECT nextval('placed')"), 42);
    target.kill9().expect("the server is killed");
    target.restart().expect("the server starts again");
    let mut wire = admin(&target);
    assert!(value(&mut wire, "INSERT INTO t (v) VALUES ('d') RETURNING id") > 3);
    assert!(value(&mut wire, "SELECT nextval('placed')") > 42);
}

#[test]
fn what_a_transaction_made_and_used_is_there_after_kill_9() {
    let mut target = start();
    let mut wire = admin(&target);
    for sql in [
        "BEGIN",
        "CREATE TABLE t (id serial PRIMARY KEY, v text)",
        "INSERT INTO t (v) VALUES ('a'), ('b')",
        "COMMIT",
        "CREATE TABLE u (v text)",
        "INSERT INTO u VALUES ('a'), ('b'), ('c')",
        "ALTER TABLE u ADD COLUMN id serial",
    ] {
        wire.execute(sql).expect(sql);
    }
    target.kill9().expect("the server is killed");
    target.restart().expect("the server starts again");
    let mut wire = admin(&target);
    assert_eq!(value(&mut wire, "INSERT INTO t (v) VALUES ('c') RETURNING id"), 3);
    assert_eq!(value(&mut wire, "INSERT INTO u (v) VALUES ('d') RETURNING id"), 4);
}

#[test]
fn each_row_of_a_copy_gets_a_value_of_its_own() {
    let target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE t (id serial, r double precision DEFAULT random(), v text)").expect("the table is made");
    let lines: String = (0..100).map(|line| format!("{line}\n")).collect();
    let copy = [frontend::query("COPY t (v) FROM STDIN"), frontend::copy_data(lines.as_bytes()), frontend::copy_done()];
    wire.send(&copy.concat()).expect("send");
    wire.until_ready().expect("the rows are stored");
    assert_eq!(value(&mut wire, "SELECT count(DISTINCT id) FROM t"), 100);
    assert_eq!(value(&mut wire, "SELECT max(id) FROM t"), 100);
    assert!(value(&mut wire, "SELECT count(DISTINCT r) FROM t") > 90);
}

/// The SQLSTATE with which a statement fails.
fn refused(wire: &mut Wire, sql: &str) -> String {
    wire.sqlstate(sql).expect("the server answers").unwrap_or_else(|| panic!("{sql} succeeds"))
}

#[test]
fn a_transaction_whose_sequence_another_has_changed_cannot_go_on() {
    let target = start();
    let (mut one, mut other) = (admin(&target), admin(&target));
    one.execute("CREATE SEQUENCE s").expect("the sequence is made");
    one.execute("CREATE TABLE t (id int DEFAULT nextval('s'), v int)").expect("the table is made");
    for (change, use_it) in [
        ("ALTER SEQUENCE s RESTART 100", "SELECT nextval('s')"),
        ("ALTER SEQUENCE s RESTART 200", "INSERT INTO t (v) VALUES (1)"),
        ("ALTER SEQUENCE s RESTART 300", "SELECT setval('s', 5)"),
        ("DROP SEQUENCE s CASCADE", "INSERT INTO t (v) VALUES (1)"),
    ] {
        one.execute("BEGIN").expect("a block begins");
        one.execute("CREATE TEMP TABLE x (a int)").expect("the block changes the catalog");
        other.execute(change).expect(change);
        assert_eq!(refused(&mut one, use_it), "40001", "{use_it} after {change}");
        one.execute("ROLLBACK").expect("the block ends");
    }
    assert_eq!(value(&mut other, "SELECT count(*) FROM t"), 0);
}

#[test]
fn a_sequence_that_two_take_from_while_one_changes_it_gives_no_value_twice() {
    let target = start();
    let (mut one, mut other) = (admin(&target), admin(&target));
    one.execute("CREATE SEQUENCE s").expect("the sequence is made");
    one.execute("BEGIN").expect("a block begins");
    one.execute("ALTER SEQUENCE s MAXVALUE 1000").expect("the block changes the sequence");
    let of_one = value(&mut one, "SELECT nextval('s')");
    let of_other = value(&mut other, "SELECT nextval('s')");
    assert_eq!((of_one, of_other), (1, 1), "each is given what its sequence has");
    assert_eq!(refused(&mut one, "COMMIT"), "40001", "both values would be there");
    assert_eq!(value(&mut other, "SELECT nextval('s')"), 2);
    // Who takes none, or takes all, commits.
    one.execute("BEGIN").expect("a block begins");
    one.execute("ALTER SEQUENCE s MAXVALUE 2000").expect("the block changes the sequence");
    assert_eq!(value(&mut other, "SELECT nextval('s')"), 3);
    one.execute("COMMIT").expect("it has taken no value");
    one.execute("BEGIN").expect("a block begins");
    one.execute("ALTER SEQUENCE s MAXVALUE 3000").expect("the block changes the sequence");
    assert_eq!(value(&mut one, "SELECT nextval('s')"), 4);
    one.execute("COMMIT").expect("nobody else has taken one");
    assert_eq!(value(&mut other, "SELECT nextval('s')"), 5);
}

#[test]
fn an_identity_begins_again_beside_writers() {
    let target = start();
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE t (id serial, v int)").expect("the table is made");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let written = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (mut writer, stop, written) = (admin(&target), &stop, &written);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                writer.execute("INSERT INTO t (v) VALUES (1)").expect("the row is stored");
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..20 {
            let before = written.load(Ordering::Relaxed);
            while written.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
            wire.execute("TRUNCATE t RESTART IDENTITY").expect("it is repeated until it fits");
        }
        stop.store(true, Ordering::Relaxed);
    });
    wire.execute("TRUNCATE t RESTART IDENTITY").expect("nobody writes");
    assert_eq!(value(&mut wire, "INSERT INTO t (v) VALUES (1) RETURNING id"), 1);
}
