//! Damage in the data directory is never served: what a start finds is what was left there, or somebody is told.
//!
//! Two data directories are made, one left by a clean stop and one by a kill. A fault is put into a copy, and a server started
//! on it. Then either the start is refused, or every answer is an error or what it was before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use glimpse_test::amount;
use glimpse_test::server::{Launch, Server};
use glimpse_test::wire::Wire;
use glimpse_test::wire::message::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The exit code of a start that is refused because of what it finds.
const DAMAGED: i32 = 5;
const PAGE: usize = 4096;
const FRAME_HEADER: usize = 24;
/// The byte of the witness that says that nothing came after it.
const WITNESS_IS_CLEAN: usize = 8;

/// What is asked of a server.
const QUESTIONS: [&str; 9] = [
    "SELECT * FROM small ORDER BY a",
    "SELECT * FROM small WHERE a = 17",
    "SELECT count(*), sum(a), max(b) FROM large",
    "SELECT * FROM grouped ORDER BY b",
    "SELECT * FROM kept ORDER BY b",
    "SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'public' ORDER BY 1, 2, 3",
    "SELECT rolname FROM pg_roles ORDER BY 1",
    "SELECT * FROM changed ORDER BY a",
    "SELECT nextval('numbers') > 300",
];

type Answer = Result<Vec<Vec<Option<String>>>, String>;

/// One of the files of a data directory, or what is done with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Journal,
    Log,
    Database,
    Marker,
    Witness,
    Blob,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Flip,
    Zero,
    Cut,
    Remove,
    /// Puts back what the file was some commits ago.
    Earlier,
}

/// A data directory as it was left, and some commits before.
struct Image {
    left: PathBuf,
    earlier: PathBuf,
    answers: Vec<Answer>,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("readable") {
        let path = entry.expect("readable").path();
        let target = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}

fn ask(wire: &mut Wire, sql: &str) -> Answer {
    let messages = wire.query(sql).map_err(|error| error.to_string())?;
    match messages.iter().find_map(Message::error) {
        Some(error) => Err(format!("{}: {}", error.code, error.message)),
        None => Ok(messages.iter().filter(|message| message.tag == b'D').map(Message::row_text).collect()),
    }
}

/// Makes a data directory, in `scratch`.
fn image(scratch: &Path, is_killed: bool) -> Image {
    let mut server = Server::start().expect("the server starts");
    let data = server.directory().join("data");
    let name = if is_killed { "killed" } else { "stopped" };
    let (left, earlier) = (scratch.join(name), scratch.join(format!("{name}-earlier")));
    let session =
        |server: &Server| Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    let mut wire = session(&server);
    for sql in [
        "CREATE TABLE small (a int PRIMARY KEY, b text)",
        "CREATE TABLE large (a int, b text)",
        "CREATE TABLE changed (a int)",
        "CREATE SEQUENCE numbers",
        "CREATE ROLE somebody",
        "CREATE VIEW grouped AS SELECT b, count(*) AS n FROM small GROUP BY b",
        "CREATE INDEX grouped_b ON grouped (b)",
        "CREATE MATERIALIZED VIEW kept AS SELECT b, max(a) AS a FROM small GROUP BY b",
        "INSERT INTO large SELECT a, repeat('x', 100) || a FROM generate_series(1, 5000) a",
    ] {
        wire.execute(sql).expect("ours");
    }
    for a in 1..=300 {
        wire.execute(&format!("INSERT INTO small SELECT nextval('numbers'), 'b{}'", a % 7)).expect("ours");
        if a == 200 {
            // What the journal has no room for goes to the database by itself, and housekeeping copies a log that has grown.
            wire.execute(&format!("CREATE VIEW wide AS SELECT '{}' AS a", "w".repeat(3 << 20))).expect("ours");
            let database = data.join("consensus.db");
            let deadline = Instant::now() + Duration::from_secs(60);
            while fs::metadata(&database).expect("it is there").len() <= PAGE as u64 {
                assert!(Instant::now() < deadline, "the log is copied into the database");
                std::thread::sleep(Duration::from_millis(20));
            }
            copy(&data, &earlier);
            wire.execute("INSERT INTO changed VALUES (1), (2)").expect("ours");
            wire.execute("INSERT INTO large SELECT a, repeat('y', 100) || a FROM generate_series(1, 5000) a")
                .expect("ours");
        }
    }
    wire.execute("DELETE FROM changed WHERE a = 1").expect("ours");
    let answers = QUESTIONS.iter().map(|sql| ask(&mut wire, sql)).collect();
    if is_killed {
        server.kill9().expect("it ran");
    } else {
        assert!(server.sigterm().expect("it ran").success());
    }
    copy(&data, &left);
    let witness = fs::read(left.join("witness")).expect("it is there");
    assert_eq!(witness[WITNESS_IS_CLEAN], u8::from(!is_killed), "only a clean stop says that it was one");
    Image { left, earlier, answers }
}

/// How far a journal was written in this round: behind it there are only zeros.
fn written(journal: &[u8]) -> usize {
    journal.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1)
}

/// How much of a log SQLite reads: up to the first frame whose checksum is not that of all before it.
fn used(log: &[u8]) -> usize {
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().expect("four bytes"));
    let is_big = word(0) & 1 == 1;
    let read = |at: usize| {
        let bytes = log[at..at + 4].try_into().expect("four bytes");
        if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let sum = |(mut a, mut b): (u32, u32), from: usize, to: usize| {
        for at in (from..to).step_by(8) {
            a = a.wrapping_add(read(at)).wrapping_add(b);
            b = b.wrapping_add(read(at + 4)).wrapping_add(a);
        }
        (a, b)
    };
    let (mut at, mut sums) = (32, sum((0, 0), 0, 24));
    while at + FRAME_HEADER + PAGE <= log.len() {
        sums = sum(sum(sums, at, at + 8), at + FRAME_HEADER, at + FRAME_HEADER + PAGE);
        if (word(at + 8), word(at + 12)) != (word(16), word(20)) || (word(at + 16), word(at + 20)) != sums {
            break;
        }
        at += FRAME_HEADER + PAGE;
    }
    at
}

/// Puts a fault into a copy of a data directory; says what it did.
fn damage(data: &Path, earlier: &Path, of: Of, fault: Fault, random: &mut StdRng) -> String {
    let name = match of {
        Of::Journal => PathBuf::from("journal"),
        Of::Log => PathBuf::from("consensus.db-wal"),
        Of::Database => PathBuf::from("consensus.db"),
        Of::Marker => PathBuf::from("glimpse-data"),
        Of::Witness => PathBuf::from("witness"),
        Of::Blob => {
            let all =
                fs::read_dir(data.join("blobs")).expect("it is there").map(|entry| entry.expect("readable").path());
            let mut all: Vec<PathBuf> = all.filter(|path| path.is_file()).collect();
            all.sort();
            Path::new("blobs").join(all[random.random_range(0..all.len())].file_name().expect("it has a name"))
        }
    };
    let path = data.join(&name);
    let mut bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let used = match of {
        Of::Log => used(&bytes).max(1),
        Of::Journal => written(&bytes),
        _ => bytes.len(),
    };
    let at = random.random_range(0..used);
    match fault {
        Fault::Flip => bytes[at] ^= 1 << random.random_range(0..8),
        Fault::Zero => {
            let from = at - at % PAGE;
            let to = bytes.len().min(from + PAGE);
            bytes[from..to].fill(0);
        }
        Fault::Cut => bytes.truncate(at),
        Fault::Remove => {
            fs::remove_file(&path).expect("it is there");
            return format!("{} removed", name.display());
        }
        Fault::Earlier => {
            // A database that was copied while its log was behind it is no database without that.
            let names = match of {
                Of::Database | Of::Log => vec!["consensus.db", "consensus.db-wal"],
                Of::Journal => vec!["consensus.db", "consensus.db-wal", "journal"],
                _ => vec!["witness"],
            };
            for name in names {
                let _none = fs::remove_file(data.join(name));
                let _none = fs::copy(earlier.join(name), data.join(name));
            }
            return format!("{} as it was earlier", name.display());
        }
    }
    fs::write(&path, bytes).expect("writable");
    format!("{} {fault:?} at {at} of {used}", name.display())
}

/// What a start came to.
#[derive(Debug)]
enum Start {
    Refused(Option<i32>, String),
    Served(Vec<Answer>),
}

/// Starts a server on a data directory and asks it.
fn start(template: &Server, data: &Path) -> Start {
    let mut command: Command = template.command_on(data);
    let log = data.with_extension("log");
    let out = fs::File::create(&log).expect("writable");
    command.stdin(Stdio::null()).stdout(out.try_clone().expect("a handle")).stderr(out);
    let mut child = command.spawn().expect("it starts");
    let begun = Instant::now();
    let connect = || Wire::start(template.internal_sql_addr(), "mz_system", "materialize");
    let outcome = loop {
        if let Some(status) = child.try_wait().expect("ours") {
            let text = fs::read_to_string(&log).expect("readable");
            return Start::Refused(status.code(), text);
        }
        match connect() {
            Ok(mut wire) => break Start::Served(QUESTIONS.iter().map(|sql| ask(&mut wire, sql)).collect()),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(120), "{error:#}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().expect("ours");
    child.wait().expect("ours");
    outcome
}

#[test]
fn no_damage_is_served() {
    let seed = std::env::var("FAULTS_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    eprintln!("FAULTS_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let images = [image(scratch.path(), true), image(scratch.path(), false)];
    // Its flags and ports are those of the servers that are started here.
    let mut template = Server::launch(Launch::default()).expect("the server starts");
    template.kill9().expect("it ran");
    let (mut refused, mut told, mut harmless) = (0, 0, 0);
    for round in 0..amount(100) {
        let image = &images[usize::from(random.random_bool(0.3))];
        let has_log = image.left.join("consensus.db-wal").exists();
        let of = match random.random_range(0..13) {
            0..3 if has_log => Of::Log,
            0..6 => Of::Database,
            6..10 => Of::Journal,
            10 => Of::Marker,
            11 => Of::Witness,
            _ => Of::Blob,
        };
        let fault = match (of, random.random_range(0..10)) {
            (_, 0..5) => Fault::Flip,
            (_, 5) => Fault::Zero,
            (_, 6 | 7) => Fault::Cut,
            (Of::Journal | Of::Log | Of::Database | Of::Witness, 8) => Fault::Earlier,
            _ => Fault::Remove,
        };
        let data = scratch.path().join(format!("round-{round}"));
        copy(&image.left, &data);
        let what = damage(&data, &image.earlier, of, fault, &mut random);
        match start(&template, &data) {
            Start::Refused(code, log) => {
                let last = log.lines().last().unwrap_or_default();
                assert!(last.starts_with("environmentd: "), "{what}: {log}");
                // What may be of a newer version, or of somebody else, is not called damaged.
                let is_foreign = last.contains("has format version") || last.contains("nor a Glimpse data directory");
                assert!(code == Some(DAMAGED) || (code == Some(1) && is_foreign), "{what}: {code:?} {last}");
                eprintln!("{what}: refused: {last}");
                refused += 1;
            }
            Start::Served(answers) => {
                let mut is_told = false;
                for ((sql, answer), expected) in QUESTIONS.iter().zip(&answers).zip(&image.answers) {
                    is_told |= answer.is_err();
                    assert!(answer.is_err() || answer == expected, "{what} is served silently: {sql}: {answer:?}");
                }
                eprintln!("{what}: {}", if is_told { "told" } else { "harmless" });
                *(if is_told { &mut told } else { &mut harmless }) += 1;
            }
        }
        fs::remove_dir_all(&data).expect("ours");
    }
    eprintln!(
        "{refused} starts refused, {told} faults told by errors, {harmless} without any effect, 0 served silently"
    );
    assert!(refused > 0);
}
