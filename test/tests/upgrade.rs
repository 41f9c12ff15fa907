//! Directories of former versions: they are opened, answer as if this version had made them, and are rewritten in the background; a kill
//! at any moment of that loses nothing.
//!
//! `test/upgrade/NAME.tar.gz` is what a server left that ran `test/upgrade/make.sql` and was stopped: `914e91d` that commit's server, which had
//! no witness and no journal and kept everything in parts of rows; `columns` that of ca95f75, the first with files of columns, which say
//! nothing about how many different values there are; `3772fe2` that commit's, whose catalog knew no semantic models.

use glimpse_test::server::{Launch, Server};
use glimpse_test::wire::Wire;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const MAKE: &str = include_str!("../upgrade/make.sql");

/// What is asked of each directory, before and after it is changed.
const QUESTIONS: [&str; 11] = [
    "SELECT * FROM kinds ORDER BY id",
    "SELECT * FROM events ORDER BY id, kind, amount",
    "SELECT kind, sum(amount), min(id), max(id) FROM events WHERE id > 700 GROUP BY kind ORDER BY kind",
    "SELECT * FROM customers ORDER BY id",
    "SELECT * FROM orders ORDER BY id",
    "SELECT * FROM by_kind ORDER BY kind",
    "SELECT * FROM by_kind WHERE kind = 'kind 3'",
    "SELECT * FROM by_city ORDER BY city",
    "SELECT * FROM events WHERE id = 4",
    "SELECT name, city FROM customers WHERE name = 'customer 7'",
    "SELECT count(*), sum(total) FROM customers JOIN orders ON customer = customers.id WHERE name LIKE '%9'",
];

/// What is changed afterwards, and what is refused.
const CHANGES: [&str; 6] = [
    "UPDATE events SET amount = amount * 2 WHERE id % 7 = 0",
    "DELETE FROM kinds WHERE id % 3 = 1",
    "INSERT INTO events SELECT id, 'more', 1 FROM orders",
    "INSERT INTO customers (id, name) VALUES (500, 'new')",
    "UPDATE orders SET customer = 500 WHERE id = 3",
    "SELECT nextval('numbers')",
];
const REFUSED: [(&str, &str); 3] = [
    ("INSERT INTO kinds (id) VALUES (1001)", "23505"),
    ("INSERT INTO customers (id, name) VALUES (501, 'customer 1')", "23505"),
    ("INSERT INTO customers VALUES (502, 'x', '')", "23514"),
];

type Rows = Vec<Vec<Option<String>>>;

fn archives() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("upgrade");
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("listable").path());
    let archives: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "gz")).collect();
    assert!(archives.len() >= 2, "{archives:?}");
    let is_small = |path: &PathBuf| std::fs::metadata(path).expect("it is there").len() <= 200_000;
    assert!(archives.iter().all(is_small), "{archives:?}");
    archives
}

fn opened(archive: &Path) -> Server {
    let launch = Launch { archive: Some(archive.to_owned()), ..Launch::default() };
    Server::launch(launch).unwrap_or_else(|error| panic!("{}: {error:#}", archive.display()))
}

fn session(server: &Server) -> Wire {
    Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session")
}

fn answers(server: &Server) -> Vec<Rows> {
    let mut wire = session(server);
    QUESTIONS.iter().map(|sql| wire.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"))).collect()
}

/// What this version says after it has run the same statements.
fn made() -> (Server, Vec<Rows>) {
    let server = Server::start().expect("the server starts");
    let mut wire = session(&server);
    for sql in MAKE.split(";\n") {
        wire.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
    }
    let answers = answers(&server);
    (server, answers)
}

/// Bytes of what says which rows have gone, at the most.
const REMOVALS_MAX: usize = 32 << 10;

/// Whether all rows are in files of columns; beside them there are lists of what has gone, which are short.
fn is_rewritten(server: &Server) -> bool {
    let blobs = std::fs::read_dir(server.directory().join("data/blobs")).expect("a folder");
    let blobs = blobs.map(|blob| std::fs::read(blob.expect("listable").path()).unwrap_or_default());
    let (columns, others): (Vec<_>, Vec<_>) = blobs.partition(|bytes| bytes.starts_with(b"PAR1"));
    !columns.is_empty() && others.iter().all(|bytes| bytes.len() <= REMOVALS_MAX)
}

#[test]
fn a_directory_of_a_former_version_is_as_if_this_one_had_made_it() {
    let (fresh, expected) = made();
    let change = |server: &Server| {
        let mut wire = session(server);
        for (sql, sqlstate) in REFUSED {
            assert_eq!(wire.sqlstate(sql).expect("an answer").as_deref(), Some(sqlstate), "{sql}");
        }
        for sql in CHANGES {
            wire.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
        }
        wire.rows("SELECT nextval('numbers') > 8").expect("a value")
    };
    let of_fresh = change(&fresh);
    let changed = answers(&fresh);
    for archive in archives() {
        let mut server = opened(&archive);
        assert!(answers(&server) == expected, "{}", archive.display());
        let until = Instant::now() + Duration::from_secs(120);
        while !is_rewritten(&server) {
            assert!(Instant::now() < until, "{} is not rewritten", archive.display());
            std::thread::yield_now();
        }
        assert!(answers(&server) == expected, "{}, rewritten", archive.display());
        assert_eq!(change(&server), of_fresh);
        assert!(answers(&server) == changed, "{}, changed", archive.display());
        server.kill9().expect("it ends");
        server.restart().expect("it starts");
        assert!(answers(&server) == changed, "{}, started again", archive.display());
    }
}

#[test]
fn a_kill_while_a_directory_is_rewritten_loses_nothing() {
    let (_fresh, expected) = made();
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    for archive in archives() {
        let mut server = opened(&archive);
        for _ in 0..glimpse_test::amount(3) {
            std::thread::sleep(Duration::from_millis(random.random_range(0..400)));
            server.kill9().expect("it ends");
            // Sometimes before it is ready.
            let mut early = server.command_on(&server.directory().join("data"));
            let mut child = early.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            std::thread::sleep(Duration::from_millis(random.random_range(0..700)));
            child.kill().expect("it ends");
            child.wait().expect("it ended");
            server.restart().expect("it starts");
        }
        assert!(answers(&server) == expected, "{}", archive.display());
    }
}
