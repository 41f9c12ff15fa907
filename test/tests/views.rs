//! Maintained views: after every batch of random changes, each view of `views/corpus.sql` gives the same rows from its
//! index, from its query run ad hoc, and from PostgreSQL.
//!
//! `VIEWS_SEED` replays a run, `VIEWS_ONLY=name` restricts it to one view, `VIEWS_STEPS=n` makes it longer. Needs PostgreSQL;
//! without one, the index is compared with the ad hoc answer only.

#![allow(clippy::print_stdout, reason = "what was compared, and what could not be, is part of a test's output")]

use glimpse_test::postgres_server::Postgres;
use glimpse_test::server::Server;
use glimpse_test::wire::{Message, Wire};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write;

const STEPS: usize = 6;

type Rows = Vec<Vec<Option<String>>>;

/// A view of the corpus.
struct View {
    name: String,
    query: String,
}

fn corpus(text: &str) -> Vec<View> {
    let only = std::env::var("VIEWS_ONLY").ok();
    let mut views = Vec::new();
    for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        let name = paragraph.lines().find_map(|line| line.strip_prefix("-- name: "));
        let lines: Vec<&str> = paragraph.lines().filter(|line| !line.starts_with("--")).collect();
        let (Some(name), false) = (name, lines.is_empty()) else { continue };
        let query = lines.join("\n").trim_end_matches(';').to_owned();
        if only.as_ref().is_none_or(|only| only == name) {
            views.push(View { name: name.trim().to_owned(), query });
        }
    }
    views
}

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

/// The rows of a query in one order, or its error as the only row.
fn answer(wire: &mut Wire, sql: &str) -> anyhow::Result<Rows> {
    let messages = wire.query(sql)?;
    if let Some(error) = messages.iter().find_map(Message::error) {
        return Ok(vec![vec![Some(format!("error {}", error.code))]]);
    }
    Ok(sorted(messages.iter().filter(|message| message.tag == b'D').map(Message::row_text).collect()))
}

fn sorted(mut rows: Rows) -> Rows {
    rows.sort();
    rows
}

/// Both answers if they differ.
fn difference(what: &str, left: &Rows, right: &Rows) -> Option<String> {
    if left == right {
        return None;
    }
    let only = |a: &Rows, b: &Rows| {
        let mut rest = b.clone();
        let mut only = Vec::new();
        for row in a {
            match rest.iter().position(|other| other == row) {
                Some(at) => drop(rest.swap_remove(at)),
                None => only.push(row.clone()),
            }
        }
        only
    };
    let mut text = format!("{what}: {} and {} rows", left.len(), right.len());
    for row in only(left, right).iter().take(5) {
        let _ = write!(text, "\n  only the first:  {row:?}");
    }
    for row in only(right, left).iter().take(5) {
        let _ = write!(text, "\n  only the second: {row:?}");
    }
    Some(text)
}

fn run(seed: u64) -> anyhow::Result<()> {
    let views = corpus(include_str!("../views/corpus.sql"));
    let server = Server::start()?;
    let mut glimpse = Wire::start(server.internal_sql_addr(), "mz_system", "materialize")?;
    let postgres =
        Postgres::start().inspect_err(|error| println!("SKIPPED comparison with PostgreSQL: {error:#}")).ok();
    let mut referee =
        postgres.as_ref().map(|server| Wire::start(server.addr(), "mz_system", "materialize")).transpose()?;
    let mut generator = Generator { random: StdRng::seed_from_u64(seed) };
    let mut setup: Vec<String> =
        include_str!("../views/schema.sql").split(';').map(|sql| sql.trim().to_owned()).collect();
    setup.retain(|sql| !sql.is_empty());
    for table in 1..=4 {
        setup.push(generator.insert(table, 12));
    }
    for sql in &setup {
        glimpse.execute(sql)?;
        if let Some(referee) = &mut referee {
            referee.execute(sql)?;
        }
    }
    let workers = generator.random.random_range(1..=3);
    glimpse.execute(&format!("CREATE CLUSTER views (WORKERS {workers})"))?;
    glimpse.execute("SET cluster = views")?;
    let mut refused = Vec::new();
    for view in &views {
        let create = format!("CREATE VIEW {} AS {}", view.name, view.query);
        let index = format!("CREATE DEFAULT INDEX ON {}", view.name);
        if let Err(error) = glimpse.execute(&create).and_then(|()| glimpse.execute(&index)) {
            refused.push(format!("{create}\n  {error:#}"));
        }
    }
    anyhow::ensure!(refused.is_empty(), "{}", refused.join("\n"));
    let steps = std::env::var("VIEWS_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(STEPS);
    let (mut failures, mut row_count) = (Vec::new(), 0);
    for step in 0..=steps {
        if step > 0 {
            let changes: Vec<String> = (0..generator.random.random_range(1..4)).map(|_| generator.change()).collect();
            for sql in &changes {
                glimpse.execute(sql)?;
                if let Some(referee) = &mut referee {
                    referee.execute(sql)?;
                }
            }
        }
        for view in &views {
            let indexed = answer(&mut glimpse, &format!("SELECT * FROM {}", view.name))?;
            let adhoc = answer(&mut glimpse, &view.query)?;
            row_count += indexed.len();
            let mut found = difference("index and ad hoc", &indexed, &adhoc);
            if let (None, Some(referee)) = (&found, &mut referee) {
                found = difference("index and PostgreSQL", &indexed, &answer(referee, &view.query)?);
            }
            if let Some(found) = found {
                failures.push(format!("step {step}, {}: {found}\n{}", view.name, view.query));
            }
        }
        anyhow::ensure!(failures.is_empty(), "VIEWS_SEED={seed}\n{}", failures.join("\n\n"));
    }
    println!(
        "{} views on {workers} workers compared {} times, {row_count} rows, VIEWS_SEED={seed}",
        views.len(),
        steps + 1
    );
    anyhow::ensure!(row_count > 0, "nothing was compared");
    Ok(())
}

/// What cannot be maintained is refused when the index is created, by name, and the server goes on.
#[test]
fn what_cannot_be_maintained_is_refused() {
    let server = Server::start().expect("a server");
    let mut glimpse = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    for sql in include_str!("../views/schema.sql").split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
        glimpse.execute(sql).expect("valid SQL");
    }
    for view in corpus(include_str!("../views/later.sql")) {
        // Some are refused as soon as they are planned.
        let created = glimpse.sqlstate(&format!("CREATE VIEW {} AS {}", view.name, view.query)).expect("an answer");
        if created.is_none() {
            let refused = glimpse.sqlstate(&format!("CREATE DEFAULT INDEX ON {}", view.name)).expect("an answer");
            assert_eq!(refused.as_deref(), Some("0A000"), "{}: {}", view.name, view.query);
        } else {
            assert_eq!(created.as_deref(), Some("0A000"), "{}: {}", view.name, view.query);
        }
    }
}

#[test]
fn a_difference_is_found() {
    let rows = |values: &[&str]| -> Rows { values.iter().map(|value| vec![Some((*value).to_owned())]).collect() };
    assert_eq!(difference("", &rows(&["a", "b"]), &rows(&["a", "b"])), None);
    assert!(difference("", &rows(&["a", "a"]), &rows(&["a"])).is_some());
    assert!(difference("", &rows(&["a"]), &rows(&["b"])).is_some());
}

#[test]
fn views_equal_their_queries() {
    let seed = std::env::var("VIEWS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    if let Err(error) = run(seed) {
        panic!("VIEWS_SEED={seed}\n{error:#}");
    }
}
