//! Maintained views: after every batch of random changes, each view of `views/corpus.sql` gives the same rows from its
//! index, from its query run ad hoc, and from PostgreSQL.
//!
//! `VIEWS_SEED` replays a run, `VIEWS_ONLY=name` restricts it to one view, `VIEWS_STEPS=n` makes it longer. Needs PostgreSQL;
//! without one, the index is compared with the ad hoc answer only.

use glimpse_test::amount;
use glimpse_test::target::Target;
use glimpse_test::views::{Comparison, corpus, say, script, setting};
use glimpse_test::wire::Wire;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const STEPS: u64 = 6;

/// What joins of the corpus are on: indexes by these are read by the views that are made after them.
const TABLE_INDEXES: [(&str, &str); 8] = [
    ("t1_id", "t1 (id)"),
    ("t1_g", "t1 (g)"),
    ("t1_x_g", "t1 (x, g)"),
    ("t2_id", "t2 (id)"),
    ("t2_k", "t2 (k)"),
    ("t3_a", "t3 (a)"),
    ("t3_c", "t3 (c)"),
    ("t4_k", "t4 (k)"),
];

/// Draws rows and changes. Values are few, so that joins hit, groups have members and rows repeat.
struct Generator {
    random: StdRng,
}

impl Generator {
    fn integer(&mut self, max: i64) -> String {
        if self.random.random_bool(0.12) { "NULL".to_owned() } else { self.random.random_range(0..=max).to_string() }
    }

    fn choose(&mut self, values: &[&str]) -> String {
        if self.random.random_bool(0.12) {
            return "NULL".to_owned();
        }
        values[self.random.random_range(0..values.len())].to_owned()
    }

    fn row(&mut self, table: usize) -> String {
        match table {
            1 => {
                let (id, g, x) = (self.integer(9), self.integer(4), self.integer(20));
                let (s, b) = (self.choose(&["'a'", "'b'", "'ab'", "''", "'c'"]), self.choose(&["true", "false"]));
                format!("({id}, {g}, {x}, {s}, {b})")
            }
            2 => {
                let (id, k, y) = (self.integer(9), self.integer(5), self.integer(30));
                let n = self.choose(&["0.00", "1.50", "2.25", "-3.75", "10.00"]);
                let d = self.choose(&["'2024-01-01'", "'2024-02-29'", "'1999-12-31'"]);
                format!("({id}, {k}, {y}, {n}, {d})")
            }
            3 => format!("({}, {})", self.integer(6), self.integer(6)),
            _ => {
                let k = self.random.random_range(0..=5);
                let (v, f) = (self.choose(&["'x'", "'y'", "'z'"]), self.choose(&["0", "1.5", "-2", "1e10"]));
                let ts = self.choose(&["'2024-01-01 00:00:00'", "'2024-06-01 12:30:00'"]);
                format!("({k}, {v}, {f}, {ts})")
            }
        }
    }

    fn insert(&mut self, table: usize, count: usize) -> String {
        let rows: Vec<String> = (0..count).map(|_| self.row(table)).collect();
        format!("INSERT INTO t{table} VALUES {}", rows.join(", "))
    }

    /// A statement that both servers understand alike.
    fn change(&mut self) -> String {
        let table = self.random.random_range(1..=4);
        let key = ["id", "id", "a", "k"][table - 1];
        match self.random.random_range(0..12) {
            0..=5 => {
                let count = self.random.random_range(1..5);
                self.insert(table, count)
            }
            6..=8 => format!("DELETE FROM t{table} WHERE {key} = {}", self.random.random_range(0..6)),
            9 | 10 => {
                let set = match table {
                    1 => format!("x = {}, g = {}", self.integer(20), self.integer(4)),
                    2 => format!("y = {}, k = {}", self.integer(30), self.integer(5)),
                    3 => format!("c = {}", self.integer(6)),
                    _ => format!("f = {}", self.choose(&["0", "1.5", "7"])),
                };
                format!("UPDATE t{table} SET {set} WHERE {key} = {}", self.random.random_range(0..6))
            }
            _ => format!("DELETE FROM t{table}"),
        }
    }
}

fn run(seed: u64, table_indexes: bool) -> anyhow::Result<()> {
    let views = corpus(include_str!("../views/corpus.sql"), std::env::var("VIEWS_ONLY").ok().as_deref());
    let mut both = Comparison::start()?;
    let mut generator = Generator { random: StdRng::seed_from_u64(seed) };
    for sql in script(include_str!("../views/schema.sql")) {
        both.execute(sql)?;
    }
    for table in 1..=4 {
        both.execute(&generator.insert(table, 12))?;
    }
    let workers = generator.random.random_range(1..=3);
    both.glimpse.execute(&format!("CREATE CLUSTER views (WORKERS {workers})"))?;
    both.glimpse.execute("SET cluster = views")?;
    for (name, on) in TABLE_INDEXES.iter().filter(|_| table_indexes) {
        both.glimpse.execute(&format!("CREATE INDEX {name} ON {on}"))?;
    }
    let mut readers = 0;
    for view in &views {
        both.create(view)?;
        let plan = both.glimpse.rows(&format!("EXPLAIN PHYSICAL PLAN FOR VIEW {}", view.name))?;
        readers += usize::from(format!("{plan:?}").contains("from index"));
    }
    anyhow::ensure!(
        (readers > 0) == (table_indexes && views.len() > 100) || views.len() <= 100,
        "{readers} read indexes"
    );
    let steps = setting("VIEWS_STEPS").unwrap_or_else(|| amount(STEPS));
    let mut row_count = 0;
    for step in 0..=steps {
        // Whoever reads them goes on.
        if table_indexes && step == steps / 2 {
            for (name, _) in TABLE_INDEXES {
                both.glimpse.execute(&format!("DROP INDEX {name}"))?;
            }
        }
        if step > 0 {
            for _ in 0..generator.random.random_range(1..4) {
                both.execute(&generator.change())?;
            }
        }
        row_count += both.compare_all(&views, &format!("step {step}"))?;
    }
    let views = views.len();
    say(&format!(
        "{views} views, {readers} reading indexes of tables, compared {} times, {row_count} rows, VIEWS_SEED={seed}",
        steps + 1
    ));
    anyhow::ensure!(row_count > 0, "nothing was compared");
    Ok(())
}

/// What cannot be maintained is refused when the index is created, by name, and the server goes on.
#[test]
fn what_cannot_be_maintained_is_refused() {
    let mut both = Comparison::start().expect("servers start");
    for sql in script(include_str!("../views/schema.sql")) {
        both.execute(sql).expect("valid SQL");
    }
    for view in corpus(include_str!("../views/later.sql"), None) {
        // Some are refused as soon as they are planned.
        let create = format!("CREATE VIEW {} AS {}", view.name, view.query);
        let mut refused = both.glimpse.sqlstate(&create).expect("an answer");
        if refused.is_none() {
            refused = both.glimpse.sqlstate(&format!("CREATE DEFAULT INDEX ON {}", view.name)).expect("an answer");
        }
        assert_eq!(refused.as_deref(), Some("0A000"), "{}: {}", view.name, view.query);
    }
}

/// A recursion without end keeps its readers waiting and nobody else; it can be cancelled and dropped, and a server that has
/// one starts and stops.
#[test]
fn a_recursion_without_end_harms_nobody_else() {
    let mut target = Target::start().expect("the server starts");
    if !target.is_glimpse() {
        return;
    }
    let endless = "WITH MUTUALLY RECURSIVE (RECURSION LIMIT 1000000000000) n(i int8) AS
        (SELECT coalesce((SELECT i + 1 FROM n), 0) + (SELECT count(*) FROM t)) SELECT i FROM n";
    let mut wire = target.admin().expect("a session starts");
    wire.execute("CREATE TABLE t (i int8)").expect("valid SQL");
    for (name, workers) in [("one", 1), ("two", 2)] {
        for sql in [
            &format!("CREATE CLUSTER {name} (WORKERS {workers})"),
            &format!("SET cluster = {name}"),
            &format!(
                "CREATE VIEW ends_{name} AS WITH RECURSIVE n(i) AS (SELECT i FROM t UNION SELECT i - 1 FROM n WHERE i > 0) TABLE n"
            ),
            &format!("CREATE DEFAULT INDEX ON ends_{name}"),
            &format!("CREATE VIEW endless_{name} AS {endless}"),
            &format!("CREATE DEFAULT INDEX ON endless_{name}"),
        ] {
            wire.execute(sql).expect("valid SQL");
        }
    }
    let timed_out = Some("57014".to_owned());
    for round in 0..4_i64 {
        wire.execute(&format!("INSERT INTO t VALUES ({round})")).expect("valid SQL");
        for name in ["one", "two"] {
            wire.execute(&format!("SET cluster = {name}")).expect("valid SQL");
            let rows = wire.rows(&format!("SELECT count(*) FROM ends_{name}")).expect("valid SQL");
            assert_eq!(rows, [[Some((round + 1).to_string())]], "round {round}, cluster {name}");
            wire.execute("SET statement_timeout = '200ms'").expect("valid SQL");
            for sql in [endless, &format!("SELECT * FROM endless_{name}")] {
                assert_eq!(wire.sqlstate(sql).expect("an answer"), timed_out, "round {round}: {sql}");
            }
            wire.execute("SET statement_timeout = 0").expect("valid SQL");
        }
        match round {
            0 => {
                target.kill9().expect("the server ends");
                target.restart().expect("the server starts again");
                wire = target.admin().expect("a session starts");
            }
            1 => wire.execute("DROP INDEX endless_one_primary_idx, endless_two_primary_idx").expect("valid SQL"),
            2 => {
                for sql in [
                    "DROP VIEW endless_one, endless_two",
                    &format!("CREATE VIEW endless_one AS {endless}"),
                    &format!("CREATE VIEW endless_two AS {endless}"),
                    "CREATE INDEX IN CLUSTER one ON endless_one (i)",
                    "CREATE INDEX IN CLUSTER two ON endless_two (i)",
                ] {
                    wire.execute(sql).expect("valid SQL");
                }
            }
            _ => {}
        }
    }
    assert_eq!(target.sigterm().expect("the server ends").code(), Some(0), "it stops in good order");
}

#[test]
fn views_equal_their_queries() {
    let seed = setting("VIEWS_SEED").unwrap_or_else(rand::random);
    if let Err(error) = run(seed, false) {
        panic!("VIEWS_SEED={seed}\n{error:#}");
    }
}

#[test]
fn views_over_indexed_tables_equal_their_queries() {
    let seed = setting("VIEWS_SEED").unwrap_or_else(rand::random);
    if let Err(error) = run(seed, true) {
        panic!("VIEWS_SEED={seed}\n{error:#}");
    }
}

/// Equal subplans are one, others are not: how often the plan says that something is made.
#[test]
fn what_is_read_twice_is_made_once() {
    const CASES: [(&str, &str, usize); 12] = [
        ("WITH q AS (SELECT k, sum(w) AS s FROM b GROUP BY k) SELECT x.k FROM q x JOIN q y ON x.s = y.s", "Reduce", 1),
        (
            "SELECT x.p FROM (SELECT k AS p, sum(w) AS s FROM b GROUP BY k) x
                JOIN (SELECT k AS q, sum(w) AS t FROM b GROUP BY k) y ON x.s = y.t",
            "Reduce",
            1,
        ),
        (
            "SELECT x.k FROM (SELECT k, sum(w) AS s FROM b GROUP BY k) x
                JOIN (SELECT k, sum(w) AS s FROM b WHERE w > 1 GROUP BY k) y ON x.s = y.s",
            "Reduce",
            2,
        ),
        (
            "SELECT x.k FROM (SELECT k, sum(w) AS s FROM b GROUP BY k) x
                JOIN (SELECT k, sum(l) AS s FROM b GROUP BY k) y ON x.s = y.s",
            "Reduce",
            2,
        ),
        (
            "SELECT x.k FROM (SELECT k, count(w) AS s FROM b GROUP BY k) x
                JOIN (SELECT k, count(DISTINCT w) AS s FROM b GROUP BY k) y ON x.s = y.s",
            "Reduce",
            2,
        ),
        (
            "WITH j AS (SELECT a.v, b.w FROM a JOIN b ON a.k = b.k) SELECT v, w FROM j UNION ALL SELECT v, w + 1 FROM j",
            "Join",
            1,
        ),
        ("SELECT x.v, y.v AS other FROM a x JOIN a y ON x.k = y.k", "Get u", 1),
        ("SELECT x.w, y.w AS other FROM b x JOIN b y ON x.k = y.k AND x.l = y.l", "Get u", 1),
        ("SELECT x.v, y.l FROM a x JOIN a y ON x.k = y.l", "Get u", 2),
        ("SELECT v FROM a UNION ALL SELECT v FROM a", "Get u", 2),
        ("SELECT v, (SELECT max(w) FROM b) + 1 AS p, (SELECT max(w) FROM b) - 1 AS m FROM a", "Reduce", 1),
        ("SELECT sum(w) OVER (ORDER BY k) FROM b UNION ALL SELECT sum(w) OVER (ORDER BY k) FROM b", "Window", 2),
    ];
    let target = Target::start().expect("the server starts");
    if !target.is_glimpse() {
        return;
    }
    let mut wire = target.admin().expect("a session starts");
    wire.execute("CREATE TABLE a (v text, l int8, k int4)").expect("valid SQL");
    wire.execute("CREATE TABLE b (k int4, w int4, l int8)").expect("valid SQL");
    for (at, (query, operator, expected)) in CASES.iter().enumerate() {
        wire.execute(&format!("CREATE VIEW v{at} AS {query}")).expect("valid SQL");
        let rows = wire.rows(&format!("EXPLAIN PHYSICAL PLAN FOR VIEW v{at}")).expect("it is explained");
        let plan: Vec<String> = rows.into_iter().flatten().flatten().collect();
        let plan = plan.join("\n");
        let count = plan.lines().filter(|line| line.trim_start().starts_with(operator)).count();
        assert_eq!(count, *expected, "{query}\n{plan}");
    }
}

/// A join reads the indexes that are there when it is built, also where the other table alone is written, where keys are NULL,
/// where conditions were to be met before, and after the index was dropped and the server was restarted.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn joins_read_the_indexes_of_their_tables() {
    const QUERY: &str = "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k AND a.l = b.l WHERE a.v > 'a' AND b.w <> 7";
    const LEFT: &str = "SELECT c.k, c.z, a.v, EXISTS (SELECT 1 FROM b WHERE b.k = c.k AND b.l = c.z) FROM c
        LEFT JOIN a ON a.k = c.k AND a.l = c.z AND a.v || 'y' > c.k::text";
    let mut target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    let run = |wire: &mut Wire, sql: &str| wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    for sql in [
        "CREATE TABLE a (v text, l int8, k int4)",
        "CREATE TABLE b (k int4 NOT NULL, w int4, l int8 NOT NULL)",
        "CREATE TABLE c (k int4, z int4)",
        "CREATE INDEX a_key ON a (k, l)",
        "CREATE INDEX b_key ON b (k, l)",
        "CREATE INDEX c_key ON c (k)",
        "INSERT INTO a VALUES ('a', 1, 1), ('b', 1, 1), ('c', 1, 1), ('c', 1, 1), ('d', NULL, 1), ('e', 2, NULL)",
        "INSERT INTO b VALUES (1, 1, 1), (1, 7, 1), (2, 3, 1)",
    ] {
        run(&mut wire, sql);
    }
    // Time goes on for what is not written any more, too.
    run(&mut wire, "INSERT INTO c VALUES (1, 1), (NULL, 2)");
    run(&mut wire, &format!("CREATE VIEW joined AS {QUERY}"));
    run(&mut wire, "CREATE INDEX joined_k ON joined (k)");
    run(&mut wire, &format!("CREATE MATERIALIZED VIEW kept AS SELECT q.*, c.z FROM ({QUERY}) q JOIN c ON c.k = q.k"));
    run(&mut wire, "CREATE MATERIALIZED VIEW nulls AS SELECT x.z, y.z AS other FROM c x JOIN c y ON x.k = y.k");
    run(&mut wire, &format!("CREATE MATERIALIZED VIEW lefts AS {LEFT}"));
    let read_from = |wire: &mut Wire, what: &str| {
        let rows = wire.rows(&format!("EXPLAIN PHYSICAL PLAN FOR {what}")).expect("it is explained");
        let text: Vec<String> = rows.into_iter().flatten().flatten().collect();
        text.iter().filter(|line| line.contains("from index")).count()
    };
    // Both sides have rows with a NULL key in the last: one index is read, and one arrangement is made without them.
    let counts =
        ["INDEX joined_k", "MATERIALIZED VIEW kept", "MATERIALIZED VIEW nulls"].map(|what| read_from(&mut wire, what));
    assert_eq!(counts, [2, 3, 1]);
    let check = |wire: &mut Wire, when: &str| {
        let z = format!("SELECT q.*, c.z FROM ({QUERY}) q JOIN c ON c.k = q.k");
        let nulls = "SELECT x.z, y.z AS other FROM c x JOIN c y ON x.k = y.k";
        for (view, query) in [("joined", QUERY), ("kept", z.as_str()), ("nulls", nulls), ("lefts", LEFT)] {
            let mut answers =
                [format!("SELECT * FROM {view}"), query.to_owned()].map(|sql| wire.rows(&sql).expect("an answer"));
            answers.iter_mut().for_each(|rows| rows.sort());
            assert_eq!(answers[0], answers[1], "{when}: {view}");
            assert!(!answers[0].is_empty(), "{when}: {view}");
        }
    };
    check(&mut wire, "at first");
    let changes = |wire: &mut Wire, when: &str| {
        for sql in [
            "INSERT INTO b VALUES (1, 8, 1)",
            "INSERT INTO c VALUES (1, 3), (NULL, 3)",
            "UPDATE a SET v = v || 'x' WHERE l = 1",
            "DELETE FROM b WHERE w = 1",
            "INSERT INTO a VALUES ('f', 1, 2), ('g', NULL, NULL)",
            "DELETE FROM c WHERE k IS NULL",
        ] {
            wire.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            check(wire, &format!("{when}: {sql}"));
        }
    };
    changes(&mut wire, "with indexes");
    run(&mut wire, "DROP INDEX a_key, c_key");
    changes(&mut wire, "without some of the indexes");
    run(&mut wire, "DROP INDEX joined_k");
    run(&mut wire, "CREATE INDEX a_key ON a (l, k)");
    run(&mut wire, "CREATE INDEX joined_k ON joined (k)");
    changes(&mut wire, "with an index in another order");
    target.kill9().expect("the server ends");
    target.restart().expect("the server starts again");
    wire = target.admin().expect("a session starts");
    check(&mut wire, "after kill -9");
    changes(&mut wire, "after kill -9");
    run(&mut wire, "DROP MATERIALIZED VIEW kept");
    run(&mut wire, "DROP TABLE a CASCADE");
    assert_eq!(target.sigterm().expect("the server ends").code(), Some(0), "it stops in good order");
}
