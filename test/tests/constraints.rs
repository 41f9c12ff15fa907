//! Constraints under concurrency and across crashes, and the words in which they refuse.
//!
//! What is refused, and with which code, is in `sqllogictest/statements/constraint.slt` and `on_conflict.slt`. Here several
//! write at once: of two rows with one key one is stored, whoever writes them and whatever happens to the server.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glimpse_test::target::Target;
use postgres::Client;
use postgres::error::SqlState;

const WRITERS: usize = 8;

fn start() -> Target {
    Target::start().expect("the server starts")
}

fn client(target: &Target) -> Client {
    target.client().expect("a session starts")
}

fn run(client: &mut Client, sql: &str) {
    client.batch_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

fn count(client: &mut Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

/// What a statement is refused with.
fn refusal(client: &mut Client, sql: &str) -> postgres::error::DbError {
    let error = client.batch_execute(sql).expect_err(sql);
    error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error:?}")).clone()
}

fn is_duplicate(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of statements and what is said to them")]
fn violations_are_put_in_the_words_of_postgres() {
    let target = start();
    let mut client = client(&target);
    run(
        &mut client,
        "CREATE TABLE words (id int4 PRIMARY KEY, \"B b\" text, c int4 CHECK (c > 0), UNIQUE (\"B b\", c))",
    );
    run(&mut client, "INSERT INTO words VALUES (1, 'x', 1), (2, 'y', 2)");
    let long = "z".repeat(70);
    let cases = [
        (
            "INSERT INTO words VALUES (3, 'z', 3), (1, 'q', 4)".to_owned(),
            "duplicate key value violates unique constraint \"words_pkey\"",
            "Key (id)=(1) already exists.".to_owned(),
        ),
        (
            "UPDATE words SET \"B b\" = 'x', c = 1 WHERE id = 2".to_owned(),
            "duplicate key value violates unique constraint \"words_B b_c_key\"",
            "Key (\"B b\", c)=(x, 1) already exists.".to_owned(),
        ),
        (
            "INSERT INTO words VALUES (5, NULL, -1)".to_owned(),
            "new row for relation \"words\" violates check constraint \"words_c_check\"",
            "Failing row contains (5, null, -1).".to_owned(),
        ),
        (
            format!("INSERT INTO words VALUES (5, '{long}', -1)"),
            "new row for relation \"words\" violates check constraint \"words_c_check\"",
            format!("Failing row contains (5, {}..., -1).", &long[..64]),
        ),
        (
            "INSERT INTO words VALUES (NULL, 'n', 1)".to_owned(),
            "null value in column \"id\" of relation \"words\" violates not-null constraint",
            "Failing row contains (null, n, 1).".to_owned(),
        ),
        (
            "UPDATE words SET id = NULL WHERE id = 2".to_owned(),
            "null value in column \"id\" of relation \"words\" violates not-null constraint",
            "Failing row contains (null, y, 2).".to_owned(),
        ),
        (
            "BEGIN; INSERT INTO words VALUES (9, 'p', 1); INSERT INTO words VALUES (9, 'q', 1)".to_owned(),
            "duplicate key value violates unique constraint \"words_pkey\"",
            "Key (id)=(9) already exists.".to_owned(),
        ),
    ];
    for (sql, message, detail) in cases {
        let error = refusal(&mut client, &sql);
        assert_eq!((error.message(), error.detail()), (message, Some(detail.as_str())), "{sql}");
        run(&mut client, "ROLLBACK");
    }
    run(&mut client, "CREATE TABLE late (id int4, c int4); INSERT INTO late VALUES (1, 1), (1, NULL)");
    for (sql, message, detail) in [
        (
            "ALTER TABLE late ADD PRIMARY KEY (id)",
            "could not create unique index \"late_pkey\"",
            Some("Key (id)=(1) is duplicated."),
        ),
        ("ALTER TABLE late ADD PRIMARY KEY (c)", "column \"c\" of relation \"late\" contains null values", None),
        (
            "ALTER TABLE late ADD CHECK (c > 1)",
            "check constraint \"late_c_check\" of relation \"late\" is violated by some row",
            None,
        ),
        ("ALTER TABLE late DROP CONSTRAINT x", "constraint \"x\" of relation \"late\" does not exist", None),
    ] {
        let error = refusal(&mut client, sql);
        assert_eq!((error.message(), error.detail()), (message, detail), "{sql}");
    }
    let twice = "INSERT INTO words VALUES (1, 'a', 1), (1, 'b', 1) ON CONFLICT (id) DO UPDATE SET c = 5";
    let error = refusal(&mut client, twice);
    assert_eq!(error.message(), "ON CONFLICT DO UPDATE command cannot affect row a second time");
    let hint = "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.";
    assert_eq!(error.hint(), Some(hint));
    assert_eq!(count(&mut client, "SELECT count(*) FROM words"), 2);
}

/// What of a key is not to be seen by who may only insert.
#[test]
fn rows_are_not_shown_to_who_may_not_see_them() {
    let target = start();
    let mut client = client(&target);
    run(&mut client, "CREATE TABLE hidden (id int4 PRIMARY KEY, c int4 NOT NULL); INSERT INTO hidden VALUES (1, 1)");
    run(
        &mut client,
        "CREATE ROLE writer; GRANT writer TO materialize; GRANT INSERT ON hidden TO writer; SET ROLE writer",
    );
    let error = refusal(&mut client, "INSERT INTO hidden VALUES (1, 2)");
    assert_eq!((error.code(), error.detail()), (&SqlState::UNIQUE_VIOLATION, None));
    run(&mut client, "INSERT INTO hidden VALUES (2, 2) ON CONFLICT DO NOTHING");
    let error = refusal(&mut client, "INSERT INTO hidden VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET c = 1");
    assert_eq!(error.code(), &SqlState::INSUFFICIENT_PRIVILEGE);
}

/// All writers insert the same keys, in every way in which rows are inserted.
#[test]
fn of_concurrent_rows_with_one_key_one_is_stored() {
    const KEYS: i32 = 60;
    let target = start();
    let mut admin = client(&target);
    run(&mut admin, "CREATE TABLE race (id int4 PRIMARY KEY, writer int4, v text)");
    run(&mut admin, "CREATE INDEX race_id ON race (id)");
    let won: Vec<Vec<i32>> = std::thread::scope(|scope| {
        let race = |writer: i32| {
            let mut client = client(&target);
            let mut won = Vec::new();
            for id in 0..KEYS {
                let result = match (writer + id) % 4 {
                    0 => client.execute("INSERT INTO race VALUES ($1, $2, 'x')", &[&id, &writer]).map(|_| 1),
                    1 => client
                        .execute("INSERT INTO race VALUES ($1, $2, 'x') ON CONFLICT (id) DO NOTHING", &[&id, &writer]),
                    2 => client
                        .batch_execute(&format!("BEGIN; INSERT INTO race VALUES ({id}, {writer}, 'x'); COMMIT"))
                        .map(|()| 1),
                    _ => copy(&mut client, &format!("{id}\t{writer}\tx\n")).map(|()| 1),
                };
                match result {
                    Ok(1) => won.push(id),
                    Ok(_) => {}
                    Err(error) => {
                        assert!(is_duplicate(&error), "{error:?}");
                        run(&mut client, "ROLLBACK");
                    }
                }
            }
            won
        };
        let writers = i32::try_from(WRITERS).expect("few");
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || race(writer))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no writer panics")).collect()
    });
    let mut all: Vec<i32> = won.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..KEYS).collect::<Vec<_>>(), "each key was won once");
    for (writer, won) in won.iter().enumerate() {
        let writer = i32::try_from(writer).expect("few");
        let stored = admin.query("SELECT id FROM race WHERE writer = $1", &[&writer]).expect("the query succeeds");
        let stored: BTreeSet<i32> = stored.iter().map(|row| row.get(0)).collect();
        assert_eq!(stored, won.iter().copied().collect(), "the rows of writer {writer}");
    }
}

fn copy(client: &mut Client, lines: &str) -> Result<(), postgres::Error> {
    use std::io::Write;
    let mut writer = client.copy_in("COPY race FROM STDIN")?;
    writer.write_all(lines.as_bytes()).expect("the lines are sent");
    writer.finish().map(drop)
}

/// Counting by upsert loses no count: with an index on the key and without, and by a unique index.
#[test]
fn upserts_lose_nothing() {
    const ROUNDS: usize = 25;
    let target = start();
    let mut admin = client(&target);
    for keys in [
        "PRIMARY KEY (id)",
        "PRIMARY KEY (id)); CREATE INDEX counted_id ON counted (id",
        "CHECK (n > 0)); CREATE UNIQUE INDEX ON counted (id",
    ] {
        run(
            &mut admin,
            &format!("DROP TABLE IF EXISTS counted; CREATE TABLE counted (id int4, n int4 NOT NULL, {keys})"),
        );
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    let mut client = client(&target);
                    for round in 0..ROUNDS {
                        let id = i32::try_from(round % 3).expect("small");
                        let sql =
                            "INSERT INTO counted VALUES ($1, 1), ($1 + 10, 1) ON CONFLICT (id) DO UPDATE SET n = counted.n + 1";
                        assert_eq!(client.execute(sql, &[&id]).expect("the upsert succeeds"), 2);
                    }
                });
            }
        });
        let total = i64::try_from(2 * WRITERS * ROUNDS).expect("few");
        assert_eq!(count(&mut admin, "SELECT sum(n) FROM counted"), total, "{keys}");
        assert_eq!(count(&mut admin, "SELECT count(*) FROM counted"), 6);
    }
}

#[test]
fn keys_are_known_after_kill_9() {
    let mut target = start();
    let mut admin = client(&target);
    run(&mut admin, "CREATE TABLE kept (id int4 PRIMARY KEY, u int4 UNIQUE, c int4 CHECK (c > 0), x int4)");
    run(&mut admin, "CREATE UNIQUE INDEX kept_x ON kept (x); INSERT INTO kept VALUES (-1, -1, 1, 7)");
    run(&mut admin, "INSERT INTO kept SELECT n, n + 1000, 1 FROM generate_series(1, 300) AS s(n)");
    run(&mut admin, "DELETE FROM kept WHERE id > 290");
    drop(admin);
    for round in 0..2 {
        let acked = AtomicUsize::new(0);
        let stored: Vec<Vec<i32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..WRITERS)
                .map(|_| {
                    let (mut client, acked) = (client(&target), &acked);
                    scope.spawn(move || {
                        let mut stored = Vec::new();
                        for id in (round + 1) * 1_000.. {
                            match client.execute("INSERT INTO kept VALUES ($1, NULL, 1)", &[&id]) {
                                Ok(_) => stored.push(id),
                                Err(error) if is_duplicate(&error) => {}
                                Err(error) => {
                                    assert!(
                                        error.as_db_error().is_none_or(|error| error.code().code().starts_with("57P")),
                                        "{error:?}"
                                    );
                                    return stored;
                                }
                            }
                            acked.fetch_add(1, Ordering::Relaxed);
                        }
                        stored
                    })
                })
                .collect();
            let started = Instant::now();
            while acked.load(Ordering::Relaxed) < 200 && started.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
            }
            target.signal_kill().expect("the server is killed");
            threads.into_iter().map(|thread| thread.join().expect("no writer panics")).collect()
        });
        target.reap_killed().expect("the server is gone");
        target.restart().expect("the server starts again");
        let mut client = client(&target);
        let acknowledged: Vec<i32> = stored.into_iter().flatten().collect();
        let distinct: BTreeSet<i32> = acknowledged.iter().copied().collect();
        assert_eq!(distinct.len(), acknowledged.len(), "no key was given twice");
        assert_eq!(count(&mut client, "SELECT count(*) - count(DISTINCT id) FROM kept"), 0);
        for id in acknowledged.iter().step_by(20) {
            let error = client.execute("INSERT INTO kept VALUES ($1, NULL, 1)", &[id]).expect_err("it is taken");
            assert!(is_duplicate(&error), "{error:?}");
        }
        let error = client.execute("INSERT INTO kept VALUES (5000, 1001, 1)", &[]).expect_err("u is taken");
        assert!(is_duplicate(&error), "{error:?}");
        let error = refusal(&mut client, "INSERT INTO kept VALUES (5000, 1, 1, 7)");
        assert_eq!((error.code(), error.constraint()), (&SqlState::UNIQUE_VIOLATION, Some("kept_x")));
        assert_eq!(refusal(&mut client, "INSERT INTO kept VALUES (5000, 1, 0)").code(), &SqlState::CHECK_VIOLATION);
        run(&mut client, "INSERT INTO kept VALUES (291, 1291, 1); DELETE FROM kept WHERE id = 291");
    }
}

/// A key is added while others write, some of them the same rows twice: from the moment in which it is there no two are alike,
/// and no number of writers keeps it from being added.
#[test]
fn a_key_is_added_while_others_write() {
    let target = start();
    let mut admin = client(&target);
    let ways = ["ALTER TABLE busy ADD PRIMARY KEY (id)", "CREATE UNIQUE INDEX busy_id ON busy (id)"];
    for round in 0..4 {
        run(&mut admin, "CREATE TABLE busy (id int4 NOT NULL, w int4)");
        let (is_over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
        let added = std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (is_over, refused, target) = (&is_over, &refused, &target);
                scope.spawn(move || {
                    let mut client = client(target);
                    let writer = i32::try_from(writer).expect("few");
                    for n in 0.. {
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        // Rounds with an odd number have no two rows alike until the key is there.
                        let id = if round % 2 == 0 { n } else { n * 100 + writer };
                        match client.execute("INSERT INTO busy VALUES ($1, $2)", &[&id, &writer]) {
                            Ok(_) => {}
                            Err(error) if is_duplicate(&error) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => panic!("{error:?}"),
                        }
                        if round % 2 == 0 && n % 16 == 15 {
                            // Makes room for the key: whoever is left has one of each.
                            let sql = "DELETE FROM busy WHERE w <> 0";
                            client.execute(sql, &[]).expect("rows are deleted");
                        }
                    }
                });
            }
            let started = Instant::now();
            let mut added = false;
            while !added && started.elapsed() < Duration::from_secs(30) {
                match admin.batch_execute(ways[round / 2]) {
                    Ok(()) => added = true,
                    Err(error) => {
                        assert!(is_duplicate(&error), "{error:?}");
                        assert!(round % 2 == 0, "no two rows are alike: {error:?}");
                        run(&mut admin, "DELETE FROM busy");
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(100));
            is_over.store(true, Ordering::Relaxed);
            added
        });
        assert!(added, "the key could not be added in half a minute, round {round}");
        assert_eq!(count(&mut admin, "SELECT count(*) - count(DISTINCT id) FROM busy"), 0, "round {round}");
        run(&mut admin, "DROP TABLE busy");
    }
}

/// Writers go on while columns come and go: every row that was acknowledged is there, once, with the columns' values, also in
/// what is computed from the table.
#[test]
fn columns_come_and_go_while_others_write() {
    let target = start();
    let mut admin = client(&target);
    run(&mut admin, "CREATE TABLE busy (id int4 PRIMARY KEY, w int4)");
    run(&mut admin, "CREATE INDEX busy_w ON busy (w)");
    run(&mut admin, "CREATE VIEW busy_counts AS SELECT w, count(*) AS n FROM busy GROUP BY w");
    if target.is_glimpse() {
        run(&mut admin, "CREATE INDEX busy_counts_w ON busy_counts (w)");
    }
    let is_over = AtomicBool::new(false);
    let write = |writer: i32| {
        let (mut client, mut acked) = (client(&target), 0);
        for n in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            match client.execute("INSERT INTO busy (id, w) VALUES ($1, $2)", &[&(n * 100 + writer), &writer]) {
                Ok(_) => acked += 1,
                Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        acked
    };
    let written: i64 = std::thread::scope(|scope| {
        let write = &write;
        let writers = i32::try_from(WRITERS).expect("few");
        let writers: Vec<_> = (0..writers).map(|writer| scope.spawn(move || write(writer))).collect();
        for round in 0..8 {
            run(&mut admin, &format!("ALTER TABLE busy ADD COLUMN c{round} int4 DEFAULT {round}"));
            let others = format!("SELECT count(*) FROM busy WHERE c{round} IS DISTINCT FROM {round}");
            assert_eq!(count(&mut admin, &others), 0, "round {round}");
            if round % 2 == 1 {
                run(&mut admin, &format!("ALTER TABLE busy DROP COLUMN c{}", round - 1));
            }
            run(&mut admin, &format!("ALTER TABLE busy RENAME COLUMN c{round} TO d{round}"));
            run(&mut admin, &format!("ALTER TABLE busy RENAME COLUMN d{round} TO c{round}"));
        }
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("the writer ends")).sum()
    });
    assert!(written > 0);
    assert_eq!(count(&mut admin, "SELECT count(*) FROM busy"), written);
    assert_eq!(count(&mut admin, "SELECT count(DISTINCT id) FROM busy"), written);
    assert_eq!(count(&mut admin, "SELECT sum(n)::int8 FROM busy_counts"), written);
    let error = admin.execute("INSERT INTO busy (id) SELECT min(id) FROM busy", &[]).expect_err("the key is taken");
    assert!(is_duplicate(&error), "{error:?}");
}

#[test]
fn nothing_of_a_copy_lands_that_violates_a_constraint() {
    let target = start();
    let mut client = client(&target);
    run(&mut client, "CREATE TABLE race (id int4 PRIMARY KEY, writer int4 CHECK (writer >= 0), v text NOT NULL)");
    run(&mut client, "INSERT INTO race VALUES (7, 0, 'x')");
    let many: String = (100..3_000).map(|id| format!("{id}\t1\tx\n")).collect();
    for (lines, code) in [
        (format!("{many}7\t1\tx\n"), SqlState::UNIQUE_VIOLATION),
        (format!("{many}100\t1\tx\n"), SqlState::UNIQUE_VIOLATION),
        (format!("{many}8\t-1\tx\n"), SqlState::CHECK_VIOLATION),
        (format!("{many}8\t1\t\\N\n"), SqlState::NOT_NULL_VIOLATION),
        (format!("{many}\\N\t1\tx\n"), SqlState::NOT_NULL_VIOLATION),
    ] {
        let error = copy(&mut client, &lines).expect_err("it is refused");
        assert_eq!(error.code(), Some(&code), "{error:?}");
        // The line; PostgreSQL adds its text where it still has it.
        let place = error.as_db_error().and_then(|error| error.where_()).unwrap_or_default();
        assert!(place.starts_with("COPY race, line 2901"), "{place}");
        assert_eq!(count(&mut client, "SELECT count(*) FROM race"), 1);
    }
    copy(&mut client, &many).expect("it is stored");
    assert_eq!(count(&mut client, "SELECT count(*) FROM race"), 2_901);
}

/// Clients tell by these fields which constraint was violated, and need not take messages apart.
#[test]
fn errors_name_what_they_are_about() {
    let target = start();
    let mut client = client(&target);
    run(
        &mut client,
        "CREATE SCHEMA s; CREATE TABLE s.\"T\" (id int4 PRIMARY KEY, n int4 NOT NULL, c int4 CHECK (c > 0))",
    );
    run(&mut client, "CREATE TABLE s.old (a int4); INSERT INTO s.old VALUES (1), (1), (NULL)");
    run(&mut client, "INSERT INTO s.\"T\" VALUES (1, 1, 1)");
    run(&mut client, "CREATE TABLE s.child (t int4 REFERENCES s.\"T\"); INSERT INTO s.child VALUES (1)");
    run(&mut client, "INSERT INTO s.old VALUES (3)");
    let cases = [
        ("INSERT INTO s.\"T\" VALUES (1, 1, 1)", "T", None, Some("T_pkey")),
        ("INSERT INTO s.\"T\" VALUES (2, 1, 1), (2, 1, 1)", "T", None, Some("T_pkey")),
        ("BEGIN; INSERT INTO s.\"T\" VALUES (1, 1, 1); COMMIT", "T", None, Some("T_pkey")),
        ("INSERT INTO s.\"T\" VALUES (2, NULL, 1)", "T", Some("n"), None),
        ("INSERT INTO s.\"T\" SELECT 2, NULL, 1", "T", Some("n"), None),
        ("UPDATE s.\"T\" SET n = NULL", "T", Some("n"), None),
        ("INSERT INTO s.\"T\" VALUES (2, 1, -1)", "T", None, Some("T_c_check")),
        ("UPDATE s.\"T\" SET c = -1", "T", None, Some("T_c_check")),
        ("ALTER TABLE s.old ADD PRIMARY KEY (a)", "old", None, Some("old_pkey")),
        ("ALTER TABLE s.old ADD CONSTRAINT k UNIQUE (a)", "old", None, Some("k")),
        ("ALTER TABLE s.old ADD CHECK (a > 1)", "old", None, Some("old_a_check")),
        ("CREATE UNIQUE INDEX old_a ON s.old (a)", "old", None, Some("old_a")),
        ("INSERT INTO s.child VALUES (7)", "child", None, Some("child_t_fkey")),
        ("BEGIN; INSERT INTO s.child VALUES (7)", "child", None, Some("child_t_fkey")),
        ("DELETE FROM s.\"T\"", "child", None, Some("child_t_fkey")),
        ("ALTER TABLE s.old ADD FOREIGN KEY (a) REFERENCES s.\"T\"", "old", None, Some("old_a_fkey")),
    ];
    for (sql, table, column, constraint) in cases {
        let error = refusal(&mut client, sql);
        let found = (error.schema(), error.table(), error.column(), error.constraint());
        assert_eq!(found, (Some("s"), Some(table), column, constraint), "{sql}: {error:?}");
        run(&mut client, "ROLLBACK");
    }
    for sql in ["SELECT nosuch FROM s.old", "SELECT 1 / 0", "INSERT INTO s.old VALUES ('x')"] {
        let error = refusal(&mut client, sql);
        assert_eq!(
            (error.schema(), error.table(), error.column(), error.constraint()),
            (None, None, None, None),
            "{sql}"
        );
    }
}

/// What PostgreSQL says of references, word by word.
#[test]
fn a_reference_to_nothing_is_put_into_words() {
    let target = start();
    let mut client = client(&target);
    run(
        &mut client,
        "CREATE TABLE pair (b text, a int4, PRIMARY KEY (a, b)); INSERT INTO pair VALUES ('x', 1), ('y', 2); \
         CREATE TABLE one (v text, u int4, CONSTRAINT fk FOREIGN KEY (v, u) REFERENCES pair (b, a)); \
         INSERT INTO one VALUES ('x', 1); \
         CREATE TABLE full_one (v text, u int4, FOREIGN KEY (v, u) REFERENCES pair (b, a) MATCH FULL); \
         CREATE TABLE late (v text, u int4, FOREIGN KEY (v, u) REFERENCES pair (b, a) DEFERRABLE INITIALLY DEFERRED)",
    );
    let missing = "insert or update on table \"one\" violates foreign key constraint \"fk\"";
    let left = "update or delete on table \"pair\" violates foreign key constraint \"fk\" on table \"one\"";
    for (sql, message, detail) in [
        ("INSERT INTO one VALUES ('z', 1)", missing, "Key (v, u)=(z, 1) is not present in table \"pair\"."),
        ("BEGIN; UPDATE one SET u = 2", missing, "Key (v, u)=(x, 2) is not present in table \"pair\"."),
        ("DELETE FROM pair", left, "Key (b, a)=(x, 1) is still referenced from table \"one\"."),
        ("BEGIN; UPDATE pair SET b = 'w'", left, "Key (b, a)=(x, 1) is still referenced from table \"one\"."),
        (
            "INSERT INTO full_one VALUES ('x', NULL)",
            "insert or update on table \"full_one\" violates foreign key constraint \"full_one_v_u_fkey\"",
            "MATCH FULL does not allow mixing of null and nonnull key values.",
        ),
        (
            "BEGIN; INSERT INTO late VALUES ('z', 3); COMMIT",
            "insert or update on table \"late\" violates foreign key constraint \"late_v_u_fkey\"",
            "Key (v, u)=(z, 3) is not present in table \"pair\".",
        ),
    ] {
        let error = refusal(&mut client, sql);
        assert_eq!((error.code().code(), error.message(), error.detail()), ("23503", message, Some(detail)), "{sql}");
        run(&mut client, "ROLLBACK");
    }
}

/// Transactions that overlap: of two that take one key, the second to commit fails, and is undone altogether.
/// Waits until a session waits for a lock.
fn await_waiting(target: &Target) {
    let mut observer = client(target);
    while count(&mut observer, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn of_overlapping_transactions_one_gets_the_key() {
    let target = start();
    let (mut one, mut two) = (client(&target), client(&target));
    run(&mut one, "CREATE TABLE over (id int4 PRIMARY KEY, v int4); CREATE TABLE other (v int4)");
    // The second waits for the first, and is told when that has committed.
    let mut refused = |first: &str, second: &str| {
        run(&mut one, first);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| refusal(&mut two, second));
            await_waiting(&target);
            run(&mut one, "COMMIT");
            let refused = waiting.join().expect("it is told");
            assert_eq!(refused.code(), &SqlState::UNIQUE_VIOLATION);
        });
        run(&mut two, "ROLLBACK");
    };
    refused(
        "BEGIN; INSERT INTO over VALUES (1, 1)",
        "BEGIN; INSERT INTO other VALUES (2); INSERT INTO over VALUES (1, 2)",
    );
    refused("BEGIN; INSERT INTO over VALUES (2, 1), (3, 1)", "BEGIN; INSERT INTO over VALUES (3, 2), (4, 2)");
    // So it is with what changes the catalog.
    refused(
        "BEGIN; CREATE TABLE third (id int4 PRIMARY KEY); INSERT INTO over VALUES (6, 1)",
        "BEGIN; INSERT INTO over VALUES (6, 2)",
    );
    assert_eq!(count(&mut two, "SELECT count(*) FROM other"), 0);
    // The keys that it would have had are free.
    run(&mut two, "INSERT INTO over VALUES (4, 4)");
    if !target.is_glimpse() {
        // PostgreSQL lets ALTER TABLE wait for who has written to the table.
        return;
    }
    // A row that was planned before there was a constraint is checked when it commits.
    run(&mut one, "BEGIN; INSERT INTO over VALUES (5, -1)");
    run(&mut two, "ALTER TABLE over ADD CHECK (v > 0)");
    assert_eq!(refusal(&mut one, "COMMIT").code(), &SqlState::CHECK_VIOLATION);
    assert_eq!(count(&mut two, "SELECT count(*) FROM over"), 5);
}
