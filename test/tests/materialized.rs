//! Materialized views: equal to their queries at every moment, over each other and across clusters, while tables change,
//! after `kill -9`, after a stop, after their cluster changed.
//!
//! `MATERIALIZED_SEED` repeats a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ROUNDS: usize = 4;
const CHECKS: usize = 15;
const WRITERS: u64 = 3;

/// By name: how it is defined, and what that is over tables alone.
const VIEWS: &[(&str, &str, &str, &str)] = &[
    (
        "spent",
        "",
        "SELECT a.owner, sum(o.amount) AS total, count(*) AS n FROM orders o JOIN accounts a ON a.id = o.account GROUP BY a.owner",
        "SELECT a.owner, sum(o.amount) AS total, count(*) AS n FROM orders o JOIN accounts a ON a.id = o.account GROUP BY a.owner",
    ),
    (
        "big",
        "IN CLUSTER two",
        "SELECT owner, total FROM spent WHERE total > 500",
        "SELECT a.owner, sum(o.amount) AS total FROM orders o JOIN accounts a ON a.id = o.account GROUP BY a.owner
         HAVING sum(o.amount) > 500",
    ),
    (
        "shares",
        "IN CLUSTER two",
        "SELECT a.id, s.total, s.n FROM accounts a LEFT JOIN spent s ON s.owner = a.owner",
        "SELECT a.id, s.total, s.n FROM accounts a LEFT JOIN (SELECT a.owner, sum(o.amount) AS total, count(*) AS n
         FROM orders o JOIN accounts a ON a.id = o.account GROUP BY a.owner) s ON s.owner = a.owner",
    ),
    (
        "top",
        "",
        "SELECT b.owner, b.total, sh.id FROM big b JOIN shares sh ON sh.total = b.total ORDER BY b.total DESC, sh.id, b.owner LIMIT 3",
        "SELECT b.owner, b.total, sh.id FROM (SELECT a.owner, sum(o.amount) AS total FROM orders o
         JOIN accounts a ON a.id = o.account GROUP BY a.owner HAVING sum(o.amount) > 500) b
         JOIN (SELECT a.id, s.total FROM accounts a JOIN (SELECT a.owner, sum(o.amount) AS total FROM orders o
         JOIN accounts a ON a.id = o.account GROUP BY a.owner) s ON s.owner = a.owner) sh ON sh.total = b.total
         ORDER BY b.total DESC, sh.id, b.owner LIMIT 3",
    ),
    ("constant", "", "SELECT 7 AS seven", "SELECT 7 AS seven"),
    ("fragile", "", "SELECT id, 100 / amount AS part FROM orders", "SELECT id, 100 / amount AS part FROM orders"),
    ("above_fragile", "IN CLUSTER two", "SELECT count(*) AS n FROM fragile", "SELECT count(*) AS n FROM orders"),
];

fn seed() -> u64 {
    let given = std::env::var("MATERIALIZED_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() % 1_000_000_007)
            .expect("fits")
    });
    eprintln!("MATERIALIZED_SEED={seed}");
    seed
}

fn set_up(wire: &mut Wire) {
    let mut run = |sql: &str| wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run("CREATE CLUSTER two SIZE '2'");
    run("CREATE TABLE accounts (id int4, owner text)");
    run("CREATE TABLE orders (id int4, account int4, amount int4)");
    run("INSERT INTO accounts SELECT i, 'owner ' || i % 5 FROM generate_series(1, 20) AS g(i)");
    run("INSERT INTO orders SELECT i, 1 + i % 20, 1 + i * 7 % 50 FROM generate_series(1, 200) AS g(i)");
    // Which the joins read.
    run("CREATE INDEX accounts_id ON accounts (id)");
    run("CREATE INDEX orders_account ON orders (account)");
    for (name, place, query, _) in VIEWS {
        run(&format!("CREATE MATERIALIZED VIEW {name} {place} AS {query}"));
    }
    run(
        "CREATE VIEW joined AS SELECT s.owner, o.id FROM spent s JOIN accounts a ON a.owner = s.owner JOIN orders o ON o.account = a.id",
    );
    run("CREATE INDEX joined_owner IN CLUSTER two ON joined (owner)");
    run("CREATE INDEX big_total ON big (total)");
}

/// A random change; returns whether the server is still there.
fn change(wire: &mut Wire, random: &mut StdRng) -> bool {
    let (id, account) = (random.random_range(1..300), random.random_range(1..24));
    let amount = random.random_range(1..60);
    let sql = match random.random_range(0..10) {
        0..=3 => format!("INSERT INTO orders VALUES ({id}, {account}, {amount}), ({id}, {account}, {amount})"),
        4 | 5 => format!("UPDATE orders SET amount = {amount} WHERE id = {id}"),
        6 | 7 => format!("DELETE FROM orders WHERE account = {account} AND amount < {amount}"),
        8 => format!("UPDATE accounts SET owner = 'owner {}' WHERE id = {account}", amount % 7),
        _ => format!(
            "BEGIN; DELETE FROM accounts WHERE id = {account}; INSERT INTO accounts VALUES ({account}, 'new'); COMMIT"
        ),
    };
    match wire.execute(&sql) {
        Ok(_) => true,
        // Two writers met.
        Err(error) if error.to_string().contains("40001") => wire.execute("ROLLBACK").is_ok(),
        Err(_) => false,
    }
}

/// Every view equals its query in one transaction.
fn check(wire: &mut Wire, when: &str) {
    wire.execute("BEGIN").expect("a transaction begins");
    for (name, _, _, query) in VIEWS {
        let sorted = |wire: &mut Wire, sql: &str| {
            let mut rows = wire.rows(sql).unwrap_or_else(|error| panic!("{when}: {sql}: {error}"));
            rows.sort();
            rows
        };
        let (view, expected) = (sorted(wire, &format!("SELECT * FROM {name}")), sorted(wire, query));
        assert_eq!(view, expected, "{when}: {name}");
    }
    let one = |wire: &mut Wire, sql: &str| wire.rows(sql).expect("the query succeeds")[0][0].clone();
    let (view, query) = (
        "SELECT count(*) FROM joined",
        "SELECT count(*) FROM (SELECT DISTINCT owner FROM orders o JOIN accounts a ON a.id = o.account) s
         JOIN accounts a ON a.owner = s.owner JOIN orders o ON o.account = a.id",
    );
    assert_eq!(one(wire, view), one(wire, query), "{when}: joined");
    wire.execute("COMMIT").expect("the transaction ends");
}

#[test]
fn views_equal_their_queries_while_tables_change_and_after_crashes() {
    let seed = seed();
    let mut target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    set_up(&mut wire);
    check(&mut wire, "at first");
    for round in 0..ROUNDS {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mut wire = target.admin().expect("a session starts");
                let mut random = StdRng::seed_from_u64(seed ^ (writer << 32) ^ u64::try_from(round).expect("small"));
                let stop = &stop;
                scope.spawn(move || while !stop.load(Ordering::Relaxed) && change(&mut wire, &mut random) {});
            }
            for at in 0..CHECKS {
                check(&mut wire, &format!("round {round}, check {at}"));
            }
            match round {
                // In the middle of updates.
                0 | 1 => target.signal_kill().expect("the server can be killed"),
                _ => stop.store(true, Ordering::Relaxed),
            }
        });
        match round {
            0 | 1 => target.reap_killed().expect("the server is gone"),
            2 => drop(target.sigterm().expect("the server ends")),
            _ => break,
        }
        target.restart().expect("the server starts again");
        wire = target.admin().expect("a session starts");
        check(&mut wire, &format!("after restart {round}"));
    }
}

#[test]
fn views_move_and_go() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    set_up(&mut wire);
    let mut random = StdRng::seed_from_u64(seed());
    for sql in [
        "ALTER MATERIALIZED VIEW spent SET CLUSTER two",
        "ALTER CLUSTER two SET (SIZE '1')",
        "ALTER MATERIALIZED VIEW big SET CLUSTER quickstart",
        "ALTER MATERIALIZED VIEW spent SET CLUSTER quickstart",
        "DROP INDEX big_total",
        "DROP INDEX accounts_id",
        "ALTER CLUSTER quickstart SET (SIZE '2')",
    ] {
        wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        check(&mut wire, &format!("after {sql}"));
        assert!(change(&mut wire, &mut random));
        check(&mut wire, &format!("after {sql} and a change"));
    }
    let refused = wire.execute("DROP MATERIALIZED VIEW spent").expect_err("others read it");
    assert!(refused.to_string().contains("2BP01"), "{refused}");
    wire.execute("DROP MATERIALIZED VIEW spent CASCADE").expect("it goes with what reads it");
    assert!(wire.rows("SELECT * FROM top").is_err());
    assert!(change(&mut wire, &mut random));
}

#[test]
fn an_error_in_a_row_is_an_error_of_what_reads_it_until_the_row_is_gone() {
    let mut target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    set_up(&mut wire);
    wire.execute("INSERT INTO orders VALUES (1000, 1, 0)").expect("the row is stored");
    for restarted in [false, true] {
        if restarted {
            target.kill9().expect("the server can be killed");
            target.restart().expect("the server starts again");
            wire = target.admin().expect("a session starts");
        }
        for view in ["fragile", "above_fragile"] {
            let error = wire.rows(&format!("SELECT * FROM {view}")).expect_err("a row divides by zero");
            assert!(error.to_string().contains("22012"), "{view}: {error}");
        }
        wire.rows("SELECT * FROM spent").expect("other views never notice");
    }
    wire.execute("DELETE FROM orders WHERE id = 1000").expect("the row goes");
    check(&mut wire, "after the row is gone");
}

/// Writes until nothing more is stored: the journal is full, and its database refuses what is in it.
fn fill_journal(wire: &mut Wire) {
    for bytes in [60_000, 4_000, 0] {
        let insert = format!("INSERT INTO ballast VALUES (repeat('x', {bytes}))");
        let refused = (0..10_000).find_map(|_| wire.execute(&insert).err()).expect("the journal has an end");
        assert!(refused.to_string().contains("58030"), "{refused}");
    }
}

#[test]
fn nothing_is_seen_of_a_write_that_could_not_be_stored() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    set_up(&mut wire);
    let Target::Glimpse(server) = &target else { return };
    let store = rusqlite::Connection::open(server.directory().join("data/consensus.db")).expect("the store opens");
    store.busy_timeout(Duration::from_secs(60)).expect("a busy store is waited for");
    wire.execute("CREATE TABLE ballast (a text)").expect("the table is made");
    let mut random = StdRng::seed_from_u64(seed());
    for round in 0..3 {
        let when = format!("round {round}");
        let mut follower = target.admin().expect("a session starts");
        follower.execute("BEGIN").expect("a transaction begins");
        follower
            .execute("DECLARE c CURSOR FOR SUBSCRIBE (SELECT account, count(*) FROM orders GROUP BY account)")
            .expect("the cursor is made");
        follower.rows("FETCH ALL c").expect("the cursor gives what is there");
        store
            .execute_batch("CREATE TRIGGER refuse BEFORE INSERT ON batch BEGIN SELECT RAISE(ABORT, 'refused'); END")
            .expect("the trigger is made");
        fill_journal(&mut wire);
        for sql in [
            "INSERT INTO orders VALUES (7777, 7, 7)",
            "UPDATE accounts SET owner = 'nobody' WHERE id < 10",
            "DELETE FROM orders WHERE id > 0",
            "BEGIN; DELETE FROM accounts WHERE id > 0; DELETE FROM orders WHERE id > 0; COMMIT",
        ] {
            let error = wire.execute(sql).expect_err("it cannot be stored").to_string();
            assert!(error.contains("58030"), "{sql}: {error}");
            drop(wire.execute("ROLLBACK"));
            check(&mut wire, &format!("{when}, after {sql}"));
        }
        store.execute_batch("DROP TRIGGER refuse").expect("the trigger goes");
        let error = follower.rows("FETCH ALL c").expect_err("it has to follow anew").to_string();
        assert!(error.contains("55000"), "{error}");
        assert_eq!(
            wire.rows("SELECT * FROM orders WHERE id = 7777").expect("the query succeeds"),
            Vec::<Vec<_>>::new()
        );
        assert!(change(&mut wire, &mut random));
        check(&mut wire, &format!("{when}, after a change"));
    }
}

/// A transaction that reads what it has written finds it by every route: also below materialized views over each other.
#[test]
fn a_transaction_sees_its_own_writes_in_views() {
    let target = Target::start().expect("the server starts");
    if !target.is_glimpse() {
        return;
    }
    let mut wire = target.admin().expect("a session starts");
    for sql in [
        "CREATE TABLE t (a int4)",
        "INSERT INTO t VALUES (1)",
        "CREATE MATERIALIZED VIEW doubled AS SELECT 2 * a AS a FROM t",
        "CREATE MATERIALIZED VIEW total AS SELECT sum(a) AS a FROM doubled",
        "CREATE VIEW above AS SELECT a + 1 AS a FROM total",
        "CREATE DEFAULT INDEX ON above",
        "BEGIN",
        "INSERT INTO t VALUES (10)",
    ] {
        wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let mut all = |when: &str, expected: [&str; 4]| {
        for (relation, expected) in ["t", "doubled", "total", "above"].into_iter().zip(expected) {
            let rows = wire.rows(&format!("SELECT sum(a) FROM {relation}")).expect("it is readable");
            assert_eq!(rows[0][0].as_deref(), Some(expected), "{relation} {when}");
        }
        wire.execute(if when == "inside" { "ROLLBACK" } else { "SELECT 1" }).expect("it goes on");
    };
    all("inside", ["11", "22", "22", "23"]);
    all("after", ["1", "2", "2", "3"]);
}
