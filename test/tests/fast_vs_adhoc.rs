//! The two read paths agree: random queries on indexed tables answer alike with the fast path and without.
//!
//! One session reads as users do; the other has `enable_frontend_peek_sequencing` off, which sends every SELECT to
//! the ad hoc executor. A third session writes between the comparisons, so that indexes have history to get right.
//! `FAST_VS_ADHOC_SEED` replays a run; the seed is printed with a disagreement.

use glimpse_test::amount;
use glimpse_test::target::Target;
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const SEEDS: u64 = 6;
const STEPS: usize = 150;

/// The columns of the table: name, type, and literals to draw from. NULL is drawn besides.
const COLUMNS: [(&str, &str, &[&str]); 17] = [
    ("a", "int4", &["0", "1", "2", "3", "-1", "2147483647"]),
    ("b", "text", &["''", "'x'", "'y'", "'xx'", "'é'", "'X'"]),
    ("c", "int8", &["0", "1", "9223372036854775807", "-5"]),
    ("d", "numeric", &["0", "1.5", "1.50", "-2.25", "1000000.000001"]),
    ("e", "float8", &["0", "1.5", "'NaN'", "'Infinity'", "'-Infinity'"]),
    ("f", "bool", &["true", "false"]),
    ("g", "date", &["'2024-01-01'", "'1999-12-31'", "'2024-02-29'"]),
    ("h", "timestamp", &["'2024-01-01 00:00:00'", "'2024-01-01 00:00:00.000001'"]),
    ("i", "timestamptz", &["'2024-01-01 00:00:00+00'", "'2024-01-01 01:00:00+01'", "'2030-01-01 00:00:00+00'"]),
    ("j", "uuid", &["'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]),
    ("k", "bytea", &["'\\x'", "'\\x00'", "'\\x00ff'"]),
    ("l", "time", &["'00:00:00'", "'23:59:59.999999'"]),
    ("m", "interval", &["'1 day'", "'24 hours'", "'1 mon'", "'30 days'", "'-1 day'"]),
    ("n", "int2", &["0", "1", "-32768"]),
    ("o", "float4", &["0", "1.5", "'NaN'"]),
    ("p", "varchar(4)", &["'v'", "'abcd'", "''"]),
    ("q", "char(3)", &["'a'", "'a  '", "'abc'", "'abc   '", "''", "'é'"]),
];

/// Key columns of the indexes, by position.
const INDEXES: [&[usize]; 14] = [
    &[0],
    &[1],
    &[0, 1],
    &[1, 5, 0],
    &[2],
    &[3],
    &[4],
    &[6, 7],
    &[8],
    &[9, 10],
    &[11, 12],
    &[13, 14, 15],
    &[16],
    &[16, 0],
];

/// What a query gave.
#[derive(Debug, PartialEq)]
enum Answer {
    Rows(Vec<Vec<Option<String>>>),
    Error(String),
}

fn ask(wire: &mut Wire, sql: &str, extended: bool) -> Answer {
    let bytes = match extended {
        false => frontend::query(sql),
        true => [
            frontend::parse("", sql, &[]),
            frontend::bind("", "", &[], &[], &[]),
            frontend::execute("", 0),
            frontend::sync(),
        ]
        .concat(),
    };
    wire.send(&bytes).expect("send");
    let messages = wire.until_ready().expect("the server answers");
    match messages.iter().find_map(Message::error) {
        Some(error) => Answer::Error(error.code),
        None => Answer::Rows(messages.iter().filter(|message| message.tag == b'D').map(Message::row_text).collect()),
    }
}

impl Answer {
    /// Without ORDER BY, rows may come in any order.
    fn sorted(mut self) -> Answer {
        if let Answer::Rows(rows) = &mut self {
            rows.sort();
        }
        self
    }
}

struct Generator {
    random: StdRng,
}

impl Generator {
    fn literal(&mut self, column: usize) -> String {
        let (_, kind, literals) = COLUMNS[column];
        if self.random.random_bool(0.08) {
            return "NULL".to_owned();
        }
        let literal = literals.choose(&mut self.random).expect("there are literals");
        // Half of them typed: both forms must find the index.
        if self.random.random_bool(0.5) { (*literal).to_owned() } else { format!("({literal})::{kind}") }
    }

    fn row(&mut self) -> String {
        let values: Vec<String> = (0..COLUMNS.len()).map(|column| self.literal(column)).collect();
        format!("({})", values.join(", "))
    }

    fn condition(&mut self, column: usize) -> String {
        let name = COLUMNS[column].0;
        match self.random.random_range(0..10) {
            0..=4 => format!("{name} = {}", self.literal(column)),
            5 | 6 => {
                let list: Vec<String> = (0..self.random.random_range(1..5)).map(|_| self.literal(column)).collect();
                format!("{name} IN ({})", list.join(", "))
            }
            7 => format!("{name} IS NULL"),
            8 => format!("{name} >= {}", self.literal(column)),
            _ => format!("{name} <> {}", self.literal(column)),
        }
    }

    /// A prefix of an index's key, whole keys most often, and sometimes another column.
    fn predicate(&mut self) -> String {
        let key = INDEXES.choose(&mut self.random).expect("there are indexes");
        let length = if self.random.random_bool(0.7) { key.len() } else { self.random.random_range(1..=key.len()) };
        let mut parts: Vec<String> = key[..length].iter().map(|&column| self.condition(column)).collect();
        if self.random.random_bool(0.3) {
            let column = self.random.random_range(0..COLUMNS.len());
            parts.push(self.condition(column));
        }
        let word = if self.random.random_bool(0.9) { " AND " } else { " OR " };
        parts.join(word)
    }

    fn projection(&mut self) -> String {
        if self.random.random_bool(0.4) {
            return "*".to_owned();
        }
        let forms = [
            "a",
            "b",
            "c",
            "d",
            "e",
            "f",
            "g",
            "h",
            "i",
            "j",
            "k",
            "l",
            "m",
            "n",
            "o",
            "p",
            "q",
            "a + 1",
            "upper(b)",
            "c - 1",
            "d * 2",
            "b || p",
            "f IS NULL",
            "coalesce(a, 0)",
            "10 / a",
            "length(b)",
            "7",
        ];
        let count = self.random.random_range(1..4);
        let chosen: Vec<&str> = (0..count).map(|_| *forms.choose(&mut self.random).expect("there are forms")).collect();
        chosen.join(", ")
    }

    /// A SELECT, and whether its rows have one order only.
    fn query(&mut self) -> (String, bool) {
        let filter = if self.random.random_bool(0.93) { format!(" WHERE {}", self.predicate()) } else { String::new() };
        if self.random.random_bool(0.1) {
            return (format!("SELECT count(*), count(a), max(c) FROM t{filter}"), true);
        }
        let mut sql = format!("SELECT {} FROM t{filter}", self.projection());
        let ordered = self.random.random_bool(0.35);
        if ordered {
            // Every column is in the order, so that LIMIT has one answer.
            let directions = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
            let start = self.random.random_range(0..COLUMNS.len());
            let keys: Vec<String> = (0..COLUMNS.len())
                .map(|offset| {
                    let direction = directions.choose(&mut self.random).expect("there are directions");
                    format!("{}{direction}", COLUMNS[(start + offset) % COLUMNS.len()].0)
                })
                .collect();
            sql = format!("{sql} ORDER BY {}", keys.join(", "));
            if self.random.random_bool(0.6) {
                sql = format!("{sql} LIMIT {}", self.random.random_range(0..6));
            }
            if self.random.random_bool(0.2) {
                sql = format!("{sql} OFFSET {}", self.random.random_range(0..4));
            }
        }
        (sql, ordered)
    }

    fn write(&mut self) -> String {
        match self.random.random_range(0..10) {
            0..=5 => {
                let rows: Vec<String> = (0..self.random.random_range(1..6)).map(|_| self.row()).collect();
                format!("INSERT INTO t VALUES {}", rows.join(", "))
            }
            6 | 7 => {
                let column = self.random.random_range(0..COLUMNS.len());
                format!("UPDATE t SET {} = {} WHERE {}", COLUMNS[column].0, self.literal(column), self.predicate())
            }
            _ => format!("DELETE FROM t WHERE {} AND {}", self.predicate(), self.predicate()),
        }
    }
}

/// Turns the fast path off; for the referee the closest thing is a plan without indexes.
fn slow_session(target: &Target, database: &str) -> Wire {
    let mut wire = Wire::start(target.admin_addr(), "mz_system", database).expect("a session starts");
    let settings: &[&str] = match target {
        Target::Glimpse(_) => &["SET enable_frontend_peek_sequencing = off"],
        Target::Postgres(_) => {
            &["SET enable_indexscan = off", "SET enable_bitmapscan = off", "SET enable_indexonlyscan = off"]
        }
    };
    for setting in settings {
        wire.execute(setting).expect("the setting exists");
    }
    wire
}

fn run(target: &Target, seed: u64) -> anyhow::Result<usize> {
    glimpse_test::slt::in_own_database(target, |database| {
        let mut generator = Generator { random: StdRng::seed_from_u64(seed) };
        let mut fast = Wire::start(target.admin_addr(), "mz_system", database)?;
        let mut writer = Wire::start(target.admin_addr(), "mz_system", database)?;
        let mut slow = slow_session(target, database);
        let columns: Vec<String> = COLUMNS.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
        writer.execute(&format!("CREATE TABLE t ({})", columns.join(", ")))?;
        let rows: Vec<String> = (0..60).map(|_| generator.row()).collect();
        writer.execute(&format!("INSERT INTO t VALUES {}", rows.join(", ")))?;
        for (number, key) in INDEXES.iter().enumerate() {
            let names: Vec<&str> = key.iter().map(|&column| COLUMNS[column].0).collect();
            writer.execute(&format!("CREATE INDEX t_{number} ON t ({})", names.join(", ")))?;
        }
        let mut not_empty = 0;
        for step in 0..STEPS {
            if step % 3 == 0 {
                let sql = generator.write();
                // A write may fail (a value too long); it must fail without effect, which the reads then show.
                let _ = writer.sqlstate(&sql)?;
            }
            let (sql, ordered) = generator.query();
            let extended = generator.random.random_bool(0.4);
            let (mut by_fast, mut by_slow) = (ask(&mut fast, &sql, extended), ask(&mut slow, &sql, extended));
            if !ordered {
                (by_fast, by_slow) = (by_fast.sorted(), by_slow.sorted());
            }
            not_empty += usize::from(matches!(&by_fast, Answer::Rows(rows) if !rows.is_empty()));
            // Whether an output expression is evaluated for rows that LIMIT drops is left open: then one path may fail where
            // the other does not.
            let fails = |answer: &Answer| matches!(answer, Answer::Error(code) if code == "22003" || code == "22012");
            if sql.contains(" LIMIT ") && (fails(&by_fast) != fails(&by_slow)) {
                continue;
            }
            anyhow::ensure!(
                by_fast == by_slow,
                "FAST_VS_ADHOC_SEED={seed}, step {step}, extended protocol: {extended}\n{sql}\nfast path: {by_fast:?}\nad hoc:    {by_slow:?}"
            );
        }
        Ok(not_empty)
    })
}

/// Without this the comparison could be of one path with itself.
#[test]
fn the_sessions_use_different_paths() {
    let target = Target::start().expect("the server starts");
    if !target.is_glimpse() {
        return;
    }
    let mut fast = target.admin().expect("a session starts");
    fast.execute("CREATE TABLE t (a int4, b text)").expect("the table is made");
    fast.execute("CREATE INDEX t_the_index ON t (a)").expect("the index is made");
    let mut slow = slow_session(&target, "materialize");
    let explain = |wire: &mut Wire| {
        let rows = wire.rows("EXPLAIN SELECT b FROM t WHERE a = 1").expect("it explains");
        rows.into_iter().flatten().flatten().collect::<Vec<String>>().join("\n")
    };
    let (by_fast, by_slow) = (explain(&mut fast), explain(&mut slow));
    assert!(by_fast.contains("t_the_index"), "the fast path names its index:\n{by_fast}");
    assert!(!by_slow.contains("t_the_index"), "the ad hoc path reads no index:\n{by_slow}");
}

/// Values of char(n) are looked up whatever blanks they end with, as constants and as parameters.
#[test]
fn char_is_looked_up_with_its_blanks() {
    let target = Target::start().expect("the server starts");
    let mut fast = target.admin().expect("a session starts");
    fast.execute("CREATE TABLE t (c char(3), n int4)").expect("the table is made");
    fast.execute("INSERT INTO t VALUES ('a', 1), ('abc', 2), ('', 3), (NULL, 4), ('é', 5)").expect("valid SQL");
    fast.execute("CREATE INDEX t_c ON t (c)").expect("the index is made");
    if target.is_glimpse() {
        let rows = fast.rows("EXPLAIN SELECT n FROM t WHERE c = 'a'").expect("it explains");
        let plan = rows.into_iter().flatten().flatten().collect::<Vec<String>>().join("\n");
        assert!(plan.contains("t_c (lookup"), "{plan}");
    }
    for (text, expected) in [
        ("a", Some("1")),
        ("a     ", Some("1")),
        ("abc", Some("2")),
        ("abc ", Some("2")),
        ("abcd", None),
        ("ab", None),
        ("", Some("3")),
        ("    ", Some("3")),
        ("é ", Some("5")),
        ("ab d", None),
    ] {
        let expected: Vec<Vec<Option<String>>> = expected.map(|n| vec![Some(n.to_owned())]).into_iter().collect();
        assert_eq!(fast.rows(&format!("SELECT n FROM t WHERE c = '{text}'")).expect("valid SQL"), expected, "{text:?}");
        for query in ["SELECT n FROM t WHERE c = $1", "SELECT n FROM t WHERE c IN ($1, 'nobody')"] {
            let bytes = [
                frontend::parse("", query, &[]),
                frontend::bind("", "", &[], &[Some(text.as_bytes())], &[]),
                frontend::execute("", 0),
                frontend::sync(),
            ];
            fast.send(&bytes.concat()).expect("send");
            let messages = fast.until_ready().expect("the server answers");
            let rows = messages.iter().filter(|message| message.tag == b'D').map(Message::row_text);
            assert_eq!(rows.collect::<Vec<_>>(), expected, "{query}, {text:?}");
        }
    }
}

#[test]
fn the_fast_path_agrees_with_the_ad_hoc_path() {
    let target = Target::start().expect("the server starts");
    let seeds: Vec<u64> = match std::env::var("FAST_VS_ADHOC_SEED") {
        Ok(seed) => vec![seed.parse().expect("a seed is a number")],
        Err(_) => (1..=amount(SEEDS)).collect(),
    };
    let mut failed = Vec::new();
    for seed in seeds {
        match run(&target, seed) {
            Ok(not_empty) => assert!(not_empty > STEPS / 4, "seed {seed}: only {not_empty} queries had rows"),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
