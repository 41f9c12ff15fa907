//! Strict serializability as clients see it: a write acknowledged on one connection is seen by every later read on
//! any other, through an index and without, in both protocols; updates never lose each other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use glimpse_test::target::Target;
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const THREADS: usize = 8;
const ROUNDS: usize = 60;

fn admin(target: &Target) -> Wire {
    target.admin().expect("a session starts")
}

fn one(wire: &mut Wire, sql: &str) -> i64 {
    let rows = wire.rows(sql).expect("the query succeeds");
    rows[0][0].as_ref().map_or(0, |text| text.parse().expect("a number"))
}

/// The same through Parse, Bind and Execute.
fn one_extended(wire: &mut Wire, sql: &str, parameter: i64) -> i64 {
    let text = parameter.to_string();
    let bytes = [
        frontend::parse("", sql, &[]),
        frontend::bind("", "", &[], &[Some(text.as_bytes())], &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    wire.send(&bytes.concat()).expect("send");
    let messages = wire.until_ready().expect("the server answers");
    assert_eq!(messages.iter().find_map(Message::error), None, "{sql}");
    let row = messages.iter().find(|message| message.tag == b'D').expect("a row");
    row.row_text()[0].as_ref().expect("a value").parse().expect("a number")
}

/// Runs a write until it is not refused as a serialization failure.
fn write(wire: &mut Wire, sql: &str) {
    loop {
        match wire.sqlstate(sql).expect("the server answers").as_deref() {
            None => return,
            Some("40001") => {}
            Some(code) => panic!("{sql}: {code}"),
        }
    }
}

#[test]
fn an_acknowledged_write_is_seen_by_every_other_connection() {
    let target = Target::start().expect("the server starts");
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE bare (k int4, v int4)").expect("the table is made");
    wire.execute("CREATE TABLE indexed (k int4, v int4)").expect("the table is made");
    wire.execute("CREATE INDEX indexed_k ON indexed (k)").expect("the index is made");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let target = &target;
            scope.spawn(move || {
                let seed = u64::try_from(thread).expect("a few threads");
                let mut random = StdRng::seed_from_u64(seed);
                let mut connections: Vec<Wire> = (0..4).map(|_| admin(target)).collect();
                let key = i64::try_from(thread).expect("a few threads");
                for round in 1..=i64::try_from(ROUNDS).expect("a few rounds") {
                    let writer = random.random_range(0..connections.len());
                    let table = if random.random_bool(0.7) { "indexed" } else { "bare" };
                    let sql =
                        match one(&mut connections[writer], &format!("SELECT count(*) FROM {table} WHERE k = {key}")) {
                            0 => format!("INSERT INTO {table} VALUES ({key}, {round})"),
                            _ if round % 7 == 0 => format!("DELETE FROM {table} WHERE k = {key}"),
                            _ => format!("UPDATE {table} SET v = {round} WHERE k = {key}"),
                        };
                    write(&mut connections[writer], &sql);
                    let expected = if sql.starts_with("DELETE") { 0 } else { round };
                    for (reader, connection) in connections.iter_mut().enumerate() {
                        let point = format!("SELECT coalesce(max(v), 0) FROM {table} WHERE k = {key}");
                        let seen = one(connection, &point);
                        assert_eq!(seen, expected, "seed {seed}, round {round}: {writer} wrote, {reader} read: {sql}");
                        let rows =
                            connection.rows(&format!("SELECT v FROM {table} WHERE k = {key}")).expect("the rows");
                        assert_eq!(rows.len(), usize::from(expected != 0), "seed {seed}, round {round}: {sql}");
                        let prepared = format!("SELECT coalesce(max(v), 0) FROM {table} WHERE k = $1");
                        assert_eq!(
                            one_extended(connection, &prepared, key),
                            expected,
                            "seed {seed}, round {round}: {sql}"
                        );
                    }
                }
            });
        }
    });
}

#[test]
fn concurrent_increments_are_all_counted() {
    let target = Target::start().expect("the server starts");
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE counter (id int4, n int8)").expect("the table is made");
    wire.execute("CREATE INDEX counter_id ON counter (id)").expect("the index is made");
    wire.execute("INSERT INTO counter VALUES (1, 0), (2, 0)").expect("the rows are stored");
    let acked = AtomicI64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watchers: Vec<_> = (0..2)
            .map(|index| {
                let (target, acked, done) = (&target, &acked, &done);
                scope.spawn(move || {
                    let mut wire = admin(target);
                    let mut last = 0;
                    let sql = ["SELECT n FROM counter WHERE id = 1", "SELECT sum(n) FROM counter WHERE id < 2"][index];
                    while !done.load(Ordering::Relaxed) {
                        let before = acked.load(Ordering::SeqCst);
                        let seen = one(&mut wire, sql);
                        assert!(seen >= before, "{before} increments were acknowledged before a read that saw {seen}");
                        assert!(seen >= last, "the counter went back from {last} to {seen}");
                        last = seen;
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..THREADS)
            .map(|_| {
                let (target, acked) = (&target, &acked);
                scope.spawn(move || {
                    let mut wire = admin(target);
                    for _ in 0..40 {
                        write(&mut wire, "UPDATE counter SET n = n + 1 WHERE id = 1");
                        acked.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        for result in results.into_iter().chain(watchers.into_iter().map(std::thread::ScopedJoinHandle::join)) {
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let expected = i64::try_from(THREADS * 40).expect("a small number");
    assert_eq!(one(&mut wire, "SELECT n FROM counter WHERE id = 1"), expected);
    assert_eq!(one(&mut wire, "SELECT n FROM counter WHERE id = 2"), 0);
}

/// What others use locks on rows for: counters that are read, then written, and a queue of which each takes the first row.
#[test]
fn what_is_read_for_update_is_not_lost() {
    let target = Target::start().expect("the server starts");
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE counter (id int4 PRIMARY KEY, n int8)").expect("the table is made");
    wire.execute("CREATE TABLE queue (id int4 PRIMARY KEY)").expect("the table is made");
    wire.execute("INSERT INTO counter VALUES (1, 0)").expect("the row is stored");
    wire.execute("INSERT INTO queue SELECT generate_series(1, 100)").expect("the rows are stored");
    let taken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (target, taken) = (&target, &taken);
            scope.spawn(move || {
                let mut wire = admin(target);
                let mut counted = 0;
                while counted < 10 {
                    wire.execute("BEGIN").expect("a transaction begins");
                    let n = one(&mut wire, "SELECT n FROM counter WHERE id = 1 FOR UPDATE");
                    wire.execute(&format!("UPDATE counter SET n = {} WHERE id = 1", n + 1)).expect("the row is changed");
                    match wire.sqlstate("COMMIT").expect("the server answers").as_deref() {
                        None => counted += 1,
                        Some("40001") => {}
                        Some(code) => panic!("COMMIT: {code}"),
                    }
                }
                let take = [
                    "DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
                    "DELETE FROM queue WHERE id = (SELECT min(id) FROM queue) RETURNING id",
                ];
                loop {
                    let messages = wire.query(take[thread % 2]).expect("the server answers");
                    match messages.iter().find_map(Message::error) {
                        Some(error) if error.code == "40001" => continue,
                        error => assert_eq!(error, None),
                    }
                    let Some(row) = messages.iter().find(|message| message.tag == b'D') else { break };
                    taken.lock().expect("nobody panics").extend(row.row_text()[0].as_ref().map(|id| id.parse::<i32>()));
                }
            });
        }
    });
    let expected = i64::try_from(THREADS * 10).expect("a small number");
    assert_eq!(one(&mut wire, "SELECT n FROM counter"), expected);
    let mut taken = taken.into_inner().expect("nobody panicked");
    taken.sort_unstable_by_key(|id| id.clone().ok());
    assert_eq!(taken, (1..=100).map(Ok).collect::<Vec<_>>());
}

#[test]
fn a_sum_that_every_write_keeps_is_seen_by_every_read() {
    let target = Target::start().expect("the server starts");
    let mut wire = admin(&target);
    wire.execute("CREATE TABLE account (id int4, amount int8)").expect("the table is made");
    wire.execute("CREATE INDEX account_id ON account (id)").expect("the index is made");
    wire.execute("INSERT INTO account SELECT g, 100 FROM generate_series(0, 9) g(g)").expect("the rows are stored");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|index| {
                let (target, done) = (&target, &done);
                scope.spawn(move || {
                    let mut wire = admin(target);
                    let keys = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9";
                    let queries = [
                        "SELECT sum(amount) FROM account".to_owned(),
                        format!("SELECT amount FROM account WHERE id IN ({keys})"),
                        "SELECT sum(a.amount) FROM account a JOIN account b ON a.id = b.id".to_owned(),
                    ];
                    while !done.load(Ordering::Relaxed) {
                        let rows = wire.rows(&queries[index]).expect("the query succeeds");
                        let values = rows.iter().filter_map(|row| row[0].as_ref());
                        let sum: i64 = values.map(|value| value.parse::<i64>().expect("a number")).sum();
                        assert_eq!(sum, 1_000, "{}", queries[index]);
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..4_u64)
            .map(|seed| {
                let target = &target;
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed);
                    let mut wire = admin(target);
                    for _ in 0..40 {
                        let (from, to) = (random.random_range(0..10), random.random_range(0..10));
                        if from == to {
                            continue;
                        }
                        let x = random.random_range(1..20);
                        let sql = format!(
                            "UPDATE account SET amount = amount + CASE id WHEN {from} THEN -{x} ELSE {x} END WHERE id IN ({from}, {to})"
                        );
                        write(&mut wire, &sql);
                    }
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        for result in results.into_iter().chain(readers.into_iter().map(std::thread::ScopedJoinHandle::join)) {
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        }
    });
    assert_eq!(one(&mut wire, "SELECT sum(amount) FROM account"), 1_000);
}
