//! A hundred thousand malformed frames, beside sixteen sessions that must not notice.
//!
//! What is sent comes from a seed (`HOSTILE_SEED` repeats a run, `HOSTILE_FRAMES` makes it longer). Of each frame it is counted
//! whether it was answered by an error and whether its connection was closed; frames after which a session goes on must leave it
//! whole. The named attacks, one test each, are in `wire.rs` and `security.rs`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glimpse_test::amount;
use glimpse_test::hostile::{Attacker, CLASSES, COPY_TABLE, Class, Delivery};
use glimpse_test::target::Target;
use glimpse_test::wire::frontend;

const FRAMES: u64 = 100_000;
const ATTACKERS: u64 = 8;
const WITNESSES: i64 = 16;
/// Frames that a session is sent if it has to survive them.
const BATCH: u64 = 50;
/// The rows that witnesses read.
const ROWS: i64 = 1000;
/// What a session that is whole answers.
const MARK: &str = "still here";
/// A connection that is silent for so long fails the test.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What became of the frames of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    frames: u64,
    connections: u64,
    errors: u64,
    closed: u64,
}

/// What a connection said to its end, which our end of writing asked for.
struct Said {
    errors: u64,
    has_mark: bool,
}

/// Sends everything, says that nothing follows, and reads to the end.
fn deliver(addr: SocketAddr, bytes: &[u8]) -> std::io::Result<Said> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut answer = Vec::new();
    // The server may hang up at any time, and reset what it has not read.
    let sent = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => return Err(error),
    }
    drop(sent);
    Ok(read(&answer))
}

/// Counts the errors among a server's messages, before which it may have refused encryption.
fn read(mut answer: &[u8]) -> Said {
    let mut said = Said { errors: 0, has_mark: false };
    while let Some(b'N' | b'G' | b'S') = answer.first() {
        // A message of these types has a length below 64 KiB.
        match answer.get(1) {
            Some(0) => break,
            _ => answer = &answer[1..],
        }
    }
    while let Some((&[tag, a, b, c, d], _)) = answer.split_first_chunk::<5>() {
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).expect("64 bits");
        said.errors += u64::from(tag == b'E');
        // PostgreSQL answers those who speak another protocol as protocol 2 did: without a length.
        let Some(body) = answer.get(5..=length) else { break };
        said.has_mark |= tag == b'D' && body.ends_with(MARK.as_bytes());
        answer = &answer[length + 1..];
    }
    said
}

/// Sends frames of one class until `count` are sent.
fn attack(addr: SocketAddr, attacker: &mut Attacker, class: Class, count: u64) -> Tally {
    let startup = frontend::startup(&[("user", "materialize"), ("database", "materialize")]);
    let question = frontend::query(&format!("SELECT '{MARK}'"));
    let mut tally = Tally::default();
    while tally.frames < count {
        let frames = match class.delivery() {
            Delivery::Amid => BATCH.min(count - tally.frames),
            Delivery::Opening | Delivery::Last => 1,
        };
        let mut bytes = if class.delivery() == Delivery::Opening { Vec::new() } else { startup.clone() };
        for _ in 0..frames {
            bytes.extend(attacker.attack(class));
            bytes.extend(frontend::sync());
        }
        // It ends a COPY that goes on.
        bytes.extend([frontend::copy_fail("enough"), frontend::sync(), question.clone()].concat());
        let said = deliver(addr, &bytes).unwrap_or_else(|error| panic!("{class:?}: {error}"));
        if class.delivery() == Delivery::Amid {
            assert!(said.has_mark, "{class:?}: the session did not survive {frames} frames");
        }
        tally.frames += frames;
        tally.connections += 1;
        tally.errors += said.errors;
        tally.closed += u64::from(!said.has_mark);
    }
    tally
}

/// A session that works, and checks what it is told. How many answers were right: all of them.
fn witness(target: &Target, number: i64, is_over: &AtomicBool) -> u64 {
    let mut wire = target.wire().expect("a session");
    let (mut answers, mut written) = (0, 0);
    let text = |number: i64| Some(number.to_string());
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let k = (round * 37 + number * 61) % ROWS;
        let rows = wire.rows(&format!("SELECT v FROM hostile_rows WHERE k = {k}")).expect("a row");
        assert_eq!(rows, [[text(k * k)]]);
        let messages = [
            frontend::parse("", "SELECT v + $2::int8 FROM hostile_rows WHERE k = $1", &[]),
            frontend::bind("", "", &[], &[Some(k.to_string().as_bytes()), Some(b"1")], &[]),
            frontend::execute("", 0),
            frontend::sync(),
        ];
        wire.send(&messages.concat()).expect("send");
        let messages = wire.until_ready().expect("an answer");
        assert_eq!(messages[2].row_text(), [text(k * k + 1)]);
        answers += 2;
        if round % 10 == 0 {
            let sql = format!("SELECT count(*), sum(v - k * k) FROM hostile_rows WHERE k <= {k}");
            assert_eq!(wire.rows(&sql).expect("a row"), [[text(k + 1), text(0)]]);
            wire.execute(&format!("INSERT INTO hostile_notes VALUES ({number}, {written})")).expect("a row is stored");
            written += 1;
            let sql = format!("SELECT count(*) FROM hostile_notes WHERE w = {number}");
            assert_eq!(wire.rows(&sql).expect("a count"), [[text(written)]]);
            answers += 3;
        }
        // Not a wait: on a machine with two cores, the attackers are to have their share.
        std::thread::sleep(Duration::from_millis(5));
    }
    answers
}

fn prepare(target: &Target) {
    let mut wire = target.wire().expect("a session");
    for sql in [
        format!("CREATE TABLE {COPY_TABLE} (id int4, note text)"),
        "CREATE TABLE hostile_notes (w int8, n int8)".to_owned(),
        "CREATE TABLE hostile_rows (k int8, v int8)".to_owned(),
        format!("INSERT INTO hostile_rows SELECT k, k * k FROM generate_series(0, {ROWS} - 1) AS g(k)"),
        "CREATE INDEX hostile_rows_k ON hostile_rows (k)".to_owned(),
    ] {
        wire.execute(&sql).expect(&sql);
    }
}

#[test]
fn a_hundred_thousand_malformed_frames_disturb_nobody() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("HOSTILE_SEED").unwrap_or_else(rand::random);
    let frames = number("HOSTILE_FRAMES").unwrap_or_else(|| amount(FRAMES));
    eprintln!("HOSTILE_SEED={seed}");
    let target = Target::start().expect("the server starts");
    prepare(&target);
    let (is_over, answers, start) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let tallies: BTreeMap<Class, Tally> = std::thread::scope(|scope| {
        let (target, is_over, answers) = (&target, &is_over, &answers);
        for number in 0..WITNESSES {
            scope.spawn(move || answers.fetch_add(witness(target, number, is_over), Ordering::Relaxed));
        }
        let attackers = (0..ATTACKERS).map(|at| {
            scope.spawn(move || {
                let mut attacker = Attacker::new(seed.wrapping_mul(ATTACKERS).wrapping_add(at));
                CLASSES.map(|(class, share)| {
                    let count = frames * u64::from(share) / 100 / ATTACKERS;
                    (class, attack(target.addr(), &mut attacker, class, count))
                })
            })
        });
        let attackers: Vec<_> = attackers.collect();
        let mut tallies: BTreeMap<Class, Tally> = BTreeMap::new();
        // Whatever happens to the attackers, the witnesses have to hear of the end.
        let ended: Vec<_> = attackers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        for (class, tally) in ended.into_iter().flat_map(|tallies| tallies.expect("an attacker gets through")) {
            let sum = tallies.entry(class).or_default();
            sum.frames += tally.frames;
            sum.connections += tally.connections;
            sum.errors += tally.errors;
            sum.closed += tally.closed;
        }
        tallies
    });
    let total = |part: fn(&Tally) -> u64| tallies.values().map(part).sum::<u64>();
    for (class, Tally { frames, connections, errors, closed }) in &tallies {
        eprintln!("{class:?}: {frames} frames on {connections} connections: {errors} errors, {closed} closed");
    }
    eprintln!(
        "{} frames on {} connections in {:.1} s: {} errors, {} connections closed; {} right answers beside them",
        total(|tally| tally.frames),
        total(|tally| tally.connections),
        start.elapsed().as_secs_f64(),
        total(|tally| tally.errors),
        total(|tally| tally.closed),
        answers.load(Ordering::Relaxed),
    );
    assert!(answers.load(Ordering::Relaxed) > 0, "the witnesses had no turn");
    let mut wire = target.wire().expect("the server goes on");
    assert_eq!(wire.rows("SELECT 1").expect("a row"), [[Some("1".to_owned())]]);
    if let Target::Glimpse(server) = &target {
        let log = server.log();
        assert!(!log.contains("panicked"), "the server panicked:\n{log}");
    }
}

/// The reading of answers, which the counts rest on.
#[test]
fn answers_are_counted() {
    let error = frontend::frame(b'E', b"SERROR\0\0");
    let mark = frontend::frame(b'D', &[b"\0\x01\0\0\0\x0a", MARK.as_bytes()].concat());
    let said = read(&[&b"N"[..], &error, &mark, &error, b"Z\0\0\0\x05"].concat());
    assert_eq!((said.errors, said.has_mark), (2, true));
    let said = read(b"NN");
    assert_eq!((said.errors, said.has_mark), (0, false));
}
