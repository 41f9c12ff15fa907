//! Temporal filters: rows come and go with time, at the very microsecond, without input. At any moment, and after `kill -9`,
//! each view gives what its query gives ad hoc, and what that gives with the time written in place of `mz_now()`.
//!
//! `TEMPORAL_SEED` repeats a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const CHECKS: usize = 10;
const WRITERS: u64 = 2;
/// A bound that nobody lives to see, though something may be added to it.
const FAR_US: i64 = 8_000_000_000_000_000_000;

/// How a view is kept.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    Indexed,
    /// On two workers.
    IndexedThere,
    Materialized,
    MaterializedThere,
}

/// What is live, over tables alone.
const LIVE: &str = "SELECT id, k, until_us FROM events WHERE {now} >= from_us AND {now} < until_us";

/// By name: how it is kept, how it is defined, and what that is over tables alone where that differs. `{now}`, `{tz}` and
/// `{ts}` are the time as a number, with and without time zone.
const VIEWS: &[(&str, Kept, &str, &str)] = &[
    ("live", Kept::Indexed, LIVE, ""),
    ("begun", Kept::IndexedThere, "SELECT id FROM events WHERE from_us <= {now}", ""),
    ("not_over", Kept::Indexed, "SELECT id, k FROM events WHERE {now} <= until_us AND k IS NOT NULL", ""),
    (
        "joined",
        Kept::IndexedThere,
        "SELECT e.id, n.at FROM events e JOIN notes n ON n.k = e.k
         WHERE {tz} BETWEEN n.at AND n.at + INTERVAL '1 second' AND {now} < e.until_us",
        "",
    ),
    (
        "crossing",
        Kept::Indexed,
        "SELECT e.id, n.k FROM events e JOIN notes n ON n.k = e.k WHERE {now} < e.until_us + n.k * 100000",
        "",
    ),
    (
        "outer_joined",
        Kept::Indexed,
        "SELECT n.k, l.id FROM notes n LEFT JOIN (SELECT id, k FROM events WHERE {now} < until_us) l ON l.k = n.k",
        "",
    ),
    (
        "counted",
        Kept::IndexedThere,
        "SELECT k, count(*) AS n, min(until_us) AS soon, sum(id) AS ids FROM events
         WHERE {now} BETWEEN from_us AND until_us GROUP BY k",
        "",
    ),
    (
        "groups",
        Kept::Indexed,
        "SELECT k, max(until_us) AS last FROM events GROUP BY k HAVING {now} < max(until_us) AND count(*) > 1",
        "",
    ),
    (
        "with_live",
        Kept::Indexed,
        "SELECT k, at FROM notes n WHERE EXISTS (SELECT 1 FROM events e WHERE e.k = n.k AND {now} < e.until_us)",
        "",
    ),
    (
        "without_live",
        Kept::Indexed,
        "SELECT k, at FROM notes n WHERE k NOT IN (SELECT e.k FROM events e WHERE {now} < e.until_us AND e.k IS NOT NULL)",
        "",
    ),
    (
        "next_to_go",
        Kept::IndexedThere,
        "SELECT id, until_us FROM events WHERE {now} < until_us ORDER BY until_us, id LIMIT 4",
        "",
    ),
    (
        "before_the_last",
        Kept::Indexed,
        "SELECT id FROM events WHERE {now} < (SELECT max(until_us) FROM events WHERE k < 3) AND id < 20",
        "",
    ),
    (
        "either",
        Kept::Indexed,
        "SELECT id FROM events WHERE {now} < from_us UNION SELECT k FROM notes WHERE {tz} > at",
        "",
    ),
    (
        "ranked",
        Kept::Indexed,
        "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id, until_us) AS r FROM events WHERE {now} < until_us",
        "",
    ),
    (
        "of_constants",
        Kept::Indexed,
        "SELECT v FROM (VALUES (1, 5), (2, 1e18)) AS c(v, until_us) WHERE {now} < until_us",
        "",
    ),
    (
        "reached",
        Kept::IndexedThere,
        "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT e.id % 5 FROM r JOIN events e ON e.k = r.n
         WHERE {now} BETWEEN e.from_us AND e.until_us) SELECT n FROM r",
        "",
    ),
    (
        "first_of_each",
        Kept::Indexed,
        "SELECT k, id FROM (SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY until_us, id) AS r FROM
         (SELECT * FROM events WHERE {now} < until_us) e) x WHERE r <= 2",
        "",
    ),
    (
        "first_while_there",
        Kept::Indexed,
        "SELECT k, id FROM (SELECT k, id, until_us, row_number() OVER (PARTITION BY k ORDER BY until_us DESC, id) AS r
         FROM events WHERE k IS NOT NULL) x WHERE r <= 2 AND {now} < until_us",
        "",
    ),
    ("safe", Kept::Indexed, "SELECT id FROM events WHERE k <> 0 AND {now} < until_us / k", ""),
    ("stamped", Kept::Indexed, "SELECT k FROM notes WHERE {ts} >= at AT TIME ZONE 'UTC' - INTERVAL '1 second'", ""),
    ("m_live", Kept::Materialized, LIVE, ""),
    (
        "m_counts",
        Kept::MaterializedThere,
        "SELECT k, count(*) AS n FROM m_live GROUP BY k",
        "SELECT k, count(*) AS n FROM ({live}) l GROUP BY k",
    ),
    (
        "m_joined",
        Kept::Materialized,
        "SELECT e.id, c.n FROM events e JOIN m_counts c ON c.k = e.k",
        "SELECT e.id, c.n FROM events e JOIN (SELECT k, count(*) AS n FROM ({live}) l GROUP BY k) c ON c.k = e.k",
    ),
    (
        "m_twice",
        Kept::IndexedThere,
        "SELECT l.id, n.at FROM m_live l JOIN notes n ON n.k = l.k WHERE {tz} >= n.at",
        "SELECT l.id, n.at FROM ({live}) l JOIN notes n ON n.k = l.k WHERE {tz} >= n.at",
    ),
    (
        "m_still",
        Kept::MaterializedThere,
        "SELECT s.k, c.n FROM m_plain s LEFT JOIN m_counts c ON c.k = s.k",
        "SELECT s.k, c.n FROM (SELECT k, count(*) FROM notes GROUP BY k) s
         LEFT JOIN (SELECT k, count(*) AS n FROM ({live}) l GROUP BY k) c ON c.k = s.k",
    ),
];

fn now_us() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since_1970.as_micros()).expect("fits")
}

fn seed() -> u64 {
    let given = std::env::var("TEMPORAL_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| u64::try_from(now_us() % 1_000_000_007).expect("not negative"));
    eprintln!("TEMPORAL_SEED={seed}");
    seed
}

fn run(wire: &mut Wire, sql: &str) {
    wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn one(wire: &mut Wire, sql: &str) -> String {
    let rows = wire.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows[0][0].clone().unwrap_or_else(|| panic!("{sql}: NULL"))
}

/// A definition with `mz_now()`.
fn defined(query: &str) -> String {
    query.replace("{live}", LIVE).replace("{now}", "mz_now()").replace("{tz}", "mz_now()").replace("{ts}", "mz_now()")
}

/// A definition as of a time.
fn at(query: &str, ts: &str) -> String {
    let shift = format!("INTERVAL '{ts} microseconds'");
    let query = query.replace("{live}", LIVE).replace("{now}", &format!("{ts}::numeric"));
    let query = query.replace("{tz}", &format!("(timestamptz '1970-01-01 00:00:00+00' + {shift})"));
    query.replace("{ts}", &format!("(timestamp '1970-01-01 00:00:00' + {shift})"))
}

fn create(wire: &mut Wire, (name, kept, query, _): &(&str, Kept, &str, &str)) {
    let query = defined(query);
    match kept {
        Kept::Materialized => run(wire, &format!("CREATE MATERIALIZED VIEW {name} AS {query}")),
        Kept::MaterializedThere => run(wire, &format!("CREATE MATERIALIZED VIEW {name} IN CLUSTER two AS {query}")),
        Kept::Indexed | Kept::IndexedThere => {
            run(wire, &format!("CREATE VIEW {name} AS {query}"));
            let cluster = if *kept == Kept::Indexed { "quickstart" } else { "two" };
            run(wire, &format!("CREATE DEFAULT INDEX IN CLUSTER {cluster} ON {name}"));
        }
    }
}

fn set_up(wire: &mut Wire) {
    run(wire, "CREATE CLUSTER two SIZE '2'");
    run(wire, "CREATE TABLE events (id int4, k int4, from_us int8, until_us int8)");
    run(wire, "CREATE TABLE notes (k int4, at timestamptz)");
    run(wire, "INSERT INTO notes SELECT i, now() + i * INTERVAL '1 second' FROM generate_series(0, 4) AS g(i)");
    run(wire, "CREATE MATERIALIZED VIEW m_plain AS SELECT k, count(*) FROM notes GROUP BY k");
    for view in VIEWS {
        create(wire, view);
        // The same, run ad hoc.
        if view.3.is_empty() {
            run(wire, &format!("CREATE VIEW adhoc_{} AS {}", view.0, defined(view.2)));
        }
    }
}

/// A bound within seconds from now, sometimes NULL or far off.
fn bound(random: &mut StdRng, later_us: i64) -> String {
    match random.random_range(0..20) {
        0 => "NULL".to_owned(),
        1 => FAR_US.to_string(),
        2 => "-5".to_owned(),
        _ => (now_us() + random.random_range(-1_000_000..1_500_000) + later_us).to_string(),
    }
}

/// Stops writers, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A random change; returns whether the server is still there.
fn change(wire: &mut Wire, random: &mut StdRng) -> bool {
    let (id, k) = (random.random_range(1..60), random.random_range(0..5));
    let sql = match random.random_range(0..10) {
        0..=5 => {
            let (from, until) = (bound(random, 0), bound(random, 500_000));
            format!("INSERT INTO events VALUES ({id}, {k}, {from}, {until}), ({id}, {k}, {from}, {until})")
        }
        6 => format!("UPDATE events SET until_us = until_us - 400000 WHERE k = {k} AND until_us > 1000000"),
        7 | 8 => format!("DELETE FROM events WHERE id = {id} OR id = {}", id + 1),
        _ => format!("UPDATE notes SET at = now() + INTERVAL '{} milliseconds' WHERE k = {k}", id * 20),
    };
    match wire.execute(&sql) {
        Ok(()) => true,
        // Two writers met.
        Err(error) if error.to_string().contains("40001") => wire.execute("ROLLBACK").is_ok(),
        Err(_) => false,
    }
}

/// Every view equals its query in one transaction.
fn check(wire: &mut Wire, views: &[(&str, Kept, &str, &str)], when: &str) {
    let sorted = |wire: &mut Wire, sql: &str| {
        let mut rows = wire.rows(sql).unwrap_or_else(|error| panic!("{when}: {sql}: {error}"));
        rows.sort();
        rows
    };
    run(wire, "BEGIN");
    let ts = one(wire, "SELECT mz_now()");
    for (name, _, query, over_tables) in views {
        let view = sorted(wire, &format!("SELECT * FROM {name}"));
        let query = if over_tables.is_empty() { query } else { over_tables };
        assert_eq!(view, sorted(wire, &at(query, &ts)), "{when}: {name} at {ts}");
        if over_tables.is_empty() {
            assert_eq!(view, sorted(wire, &format!("SELECT * FROM adhoc_{name}")), "{when}: {name} ad hoc at {ts}");
        }
    }
    assert_eq!(one(wire, "SELECT mz_now()"), ts, "{when}: time stands still in a transaction");
    run(wire, "COMMIT");
}

#[test]
fn views_equal_their_queries_as_time_goes_on_and_after_crashes() {
    let seed = seed();
    let mut target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    set_up(&mut wire);
    check(&mut wire, VIEWS, "at first");
    for round in 0..2_u64 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mut wire = target.admin().expect("a session starts");
                let (mut random, stop) = (StdRng::seed_from_u64(seed ^ (writer << 32) ^ round), &stop);
                scope.spawn(move || while !stop.load(Ordering::Relaxed) && change(&mut wire, &mut random) {});
            }
            let _stop = Stop(&stop);
            for at in 0..CHECKS {
                check(&mut wire, VIEWS, &format!("round {round}, check {at}"));
            }
            if round == 0 {
                // In the middle of updates.
                target.signal_kill().expect("the server can be killed");
            }
        });
        if round == 0 {
            target.reap_killed().expect("the server is gone");
            target.restart().expect("the server starts again");
            wire = target.admin().expect("a session starts");
            check(&mut wire, VIEWS, "after the crash");
        }
    }
    // Nobody writes any more. What is to come comes all the same.
    let to_come = "SELECT count(*) FROM (SELECT from_us AS t FROM events UNION ALL SELECT until_us FROM events
         UNION ALL SELECT (extract(epoch FROM at) * 1000000)::int8 + 1000000 FROM notes) AS all_times
         WHERE t > mz_now() AND t < 4000000000000000000";
    for at in 0.. {
        let is_over = one(&mut wire, to_come) == "0";
        check(&mut wire, VIEWS, &format!("check {at} in silence"));
        if is_over {
            break;
        }
    }
    target.sigterm().expect("the server ends");
    target.restart().expect("the server starts again");
    check(&mut target.admin().expect("a session starts"), VIEWS, "after a stop");
}

#[test]
fn bounds_of_every_type_and_size_mean_what_comparing_with_them_means() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    run(&mut wire, "CREATE TABLE x (id int4, n numeric(30, 6), f float8, i int8, z timestamptz, t timestamp, d date)");
    run(
        &mut wire,
        "INSERT INTO x VALUES (1, NULL, NULL, NULL, NULL, NULL, NULL),
         (2, 0, '0', 0, 'epoch', 'epoch', '1970-01-01'),
         (3, -0.000001, '-infinity', -9223372036854775808, '-infinity', '-infinity', '0001-01-01'),
         (4, 999999999999999999999999, 'infinity', 9223372036854775807, 'infinity', 'infinity', '9999-12-31'),
         (5, 1.5, 'NaN', 1, '2000-01-01 00:00:00+05', '2000-01-01', '2000-01-01'),
         (6, 18446744073709551615, '1e300', 2, '290000-01-01 00:00:00+00', '290000-01-01', '290000-01-01'),
         (7, 18446744073709551616.5, '-1e300', 3, '0100-01-01 00:00:00+00', '0100-01-01', '0100-01-01')",
    );
    let columns = [("n", "{now}"), ("f", "{now}"), ("i", "{now}"), ("z", "{tz}"), ("t", "{ts}"), ("d", "{ts}")];
    let names: Vec<(String, String)> = columns
        .iter()
        .flat_map(|(column, now)| {
            [("eq", "="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")]
                .map(|(name, op)| (format!("{column}_{name}"), format!("SELECT id FROM x WHERE {now} {op} {column}")))
        })
        .collect();
    let views: Vec<(&str, Kept, &str, &str)> =
        names.iter().map(|(name, query)| (name.as_str(), Kept::IndexedThere, query.as_str(), "")).collect();
    run(&mut wire, "CREATE CLUSTER two SIZE '2'");
    for view in &views {
        create(&mut wire, view);
        run(&mut wire, &format!("CREATE VIEW adhoc_{} AS {}", view.0, defined(view.2)));
    }
    check(&mut wire, &views, "with rows from the beginning");
    run(&mut wire, "INSERT INTO x SELECT id + 10, n, f, i, z, t, d FROM x");
    check(&mut wire, &views, "with more rows");
    run(&mut wire, "DELETE FROM x WHERE id < 5");
    check(&mut wire, &views, "with fewer rows");
}

/// A subscription's lines without those of progress, and when it began.
fn followed(wire: &mut Wire, to: &str, up_to: i64) -> (i64, Vec<(i64, i64, String)>) {
    let rows = wire.rows(&format!("SUBSCRIBE TO {to} WITH (PROGRESS) UP TO {up_to}")).expect("it ends");
    let field = |row: &Vec<Option<String>>, at: usize| row[at].clone().expect("not NULL");
    let time = |row: &Vec<Option<String>>| field(row, 0).parse::<i64>().expect("a time");
    let told = rows.iter().filter(|row| field(row, 1) == "f");
    let told = told.map(|row| (time(row), field(row, 2).parse().expect("a multiplicity"), field(row, 3)));
    (time(&rows[0]), told.collect())
}

#[test]
fn a_subscription_tells_each_row_when_it_comes_and_when_it_goes() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    run(&mut wire, "CREATE CLUSTER two SIZE '2'");
    run(&mut wire, "CREATE TABLE t (id int4, from_us numeric, until_us int8)");
    run(&mut wire, "CREATE VIEW v AS SELECT id FROM t WHERE mz_now() >= from_us AND mz_now() < until_us");
    run(&mut wire, "CREATE VIEW indexed AS SELECT id FROM v");
    run(&mut wire, "CREATE DEFAULT INDEX IN CLUSTER two ON indexed");
    run(&mut wire, "CREATE MATERIALIZED VIEW m AS SELECT id FROM v");
    run(&mut wire, "CREATE MATERIALIZED VIEW above IN CLUSTER two AS SELECT m.id FROM m JOIN t ON t.id = m.id");
    let start = now_us() + 700_000;
    let spans: Vec<(i64, i64, i64)> =
        (0..40).map(|id| (id, start + id * 7_001, start + 90_000 + id * id * 501)).collect();
    let rows: Vec<String> = spans.iter().map(|(id, from, until)| format!("({id}, {from}, {until})")).collect();
    run(&mut wire, &format!("INSERT INTO t VALUES {}", rows.join(", ")));
    let up_to = start + 1_000_000;
    std::thread::scope(|scope| {
        for to in ["v", "indexed", "m", "above", "(SELECT id FROM v)"] {
            let (mut wire, spans) = (target.admin().expect("a session starts"), &spans);
            scope.spawn(move || {
                let (as_of, told) = followed(&mut wire, to, up_to);
                let mut expected = Vec::new();
                for (id, from, until) in spans.iter().filter(|(_, _, until)| *until > as_of) {
                    expected.push((as_of.max(*from), 1, id.to_string()));
                    expected.push((*until, -1, id.to_string()));
                }
                let sorted = |mut lines: Vec<(i64, i64, String)>| {
                    lines.sort();
                    lines
                };
                assert!(told.is_sorted_by_key(|(ts, ..)| *ts), "{to}: time goes back");
                assert_eq!(sorted(told), sorted(expected), "{to} as of {as_of}");
            });
        }
    });
}

#[test]
fn an_error_in_a_bound_is_an_error_until_the_row_is_gone() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    run(&mut wire, "CREATE TABLE t (id int4, until_us int8, x int8)");
    run(&mut wire, "CREATE VIEW v AS SELECT id FROM t WHERE mz_now() < until_us / x");
    run(&mut wire, "CREATE DEFAULT INDEX ON v");
    run(&mut wire, "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM v");
    run(&mut wire, "CREATE VIEW other AS SELECT id FROM t WHERE x <> 0 AND mz_now() < until_us / x");
    run(&mut wire, "CREATE DEFAULT INDEX ON other");
    run(&mut wire, "INSERT INTO t VALUES (1, 9000000000000000, 1), (2, 1000, 1), (3, 9000000000000000, 0)");
    for read in ["SELECT * FROM v", "SELECT * FROM m"] {
        let error = wire.rows(read).expect_err("a row divides by zero");
        assert!(error.to_string().contains("22012"), "{read}: {error}");
    }
    assert_eq!(wire.rows("SELECT * FROM other").expect("the division is guarded").len(), 1);
    run(&mut wire, "DELETE FROM t WHERE id = 3");
    assert_eq!(one(&mut wire, "SELECT count(*) FROM v"), "1");
    assert_eq!(one(&mut wire, "SELECT n FROM m"), "1");
}

#[test]
fn now_is_now_in_a_query_of_its_own() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    for _ in 0..20 {
        let before = now_us();
        let now: i64 = one(&mut wire, "SELECT mz_now()").parse().expect("a number");
        assert!(now >= before, "{now} is before {before}");
    }
    run(&mut wire, "CREATE TABLE t (until_us int8)");
    run(&mut wire, &format!("INSERT INTO t VALUES ({}), ({})", now_us(), i64::MAX));
    run(&mut wire, "DELETE FROM t WHERE mz_now() > until_us");
    assert_eq!(one(&mut wire, "SELECT count(*) FROM t"), "1");
    run(&mut wire, "INSERT INTO t SELECT until_us FROM t WHERE mz_now() <= until_us");
    assert_eq!(one(&mut wire, "SELECT count(*) FROM t"), "2");
}
