//! One statement never harms another session: while any of these runs, point reads and writes beside it go on as if nothing was, the
//! session is answered soon after its timeout, and the server's memory stays within its limit.
//!
//! Readers and a writer begin each operation at a time that was fixed beforehand, and count from it: who is held up for a second has
//! all that should have begun in that second late. `--long` runs the build that users get, and holds it to the bar; otherwise the
//! figures are printed, and what must hold on any machine is checked: they go on meanwhile.

use glimpse_test::server::{Launch, Server};
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const READERS: usize = 16;
/// How often each reader reads.
const READ_EVERY: Duration = Duration::from_millis(8);
/// How often the writer writes.
const WRITE_EVERY: Duration = Duration::from_millis(20);
/// What the server may use, in MiB.
const MEMORY_LIMIT: u64 = 3_072;
/// The bar of `--long`.
const READ_P99_MAX: Duration = Duration::from_millis(10);
/// Of what it is beside another process that computes on all cores.
const WRITE_P99_TIMES: u32 = 3;
/// Of commits beside something long that the committer has to see to.
const COMMIT_P99_MAX: Duration = Duration::from_millis(50);
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// What a statement may end with, if it fails: it took too long, or asked for more memory, a longer value or a more complex plan than
/// there may be.
const REFUSALS: [&str; 4] = ["57014", "53200", "54000", "54001"];

/// A statement that asks for much.
struct Harm {
    name: &'static str,
    /// What has to be there before.
    before: &'static [&'static str],
    /// The bytes that ask for it.
    request: fn() -> Vec<u8>,
    /// What its first row begins with, if it succeeds and has rows.
    gives: Option<&'static str>,
}

const fn harm(name: &'static str, request: fn() -> Vec<u8>, gives: Option<&'static str>) -> Harm {
    Harm { name, before: &[], request, gives }
}

fn simple(sql: impl AsRef<str>) -> Vec<u8> {
    frontend::query(sql.as_ref())
}

/// An unnamed statement with one parameter, from Parse to Sync.
fn extended(sql: &str, parameter: &[u8]) -> Vec<u8> {
    [
        frontend::parse("", sql, &[]),
        frontend::bind("", "", &[], &[Some(parameter)], &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ]
    .concat()
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    let mut out = String::new();
    for at in 0..count {
        let comma = if at == 0 { "" } else { "," };
        write!(out, "{comma}{}", item(at)).expect("a string takes everything");
    }
    out
}

fn joins(count: usize) -> String {
    let joined = |at: usize| format!(" JOIN point t{at} ON t{at}.id = t0.id");
    format!("SELECT count(*) FROM point t0{}", (1..count).map(joined).collect::<String>())
}

fn doubling_ctes(count: usize) -> String {
    let double = |at: usize| format!("c{at} AS (SELECT x.* FROM c{0} x JOIN c{0} y ON x.id = y.id)", at - 1);
    let all: Vec<String> = (1..count).map(double).collect();
    format!("WITH c0 AS (SELECT * FROM point), {} SELECT count(*) FROM c{}", all.join(", "), count - 1)
}

const HARMS: [Harm; 46] = [
    // Constants.
    harm(
        "constant: more than a value may have",
        || simple("SELECT length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))"),
        None,
    ),
    harm(
        "constant: most that a value may have",
        || simple("SELECT length(replace(repeat('a', 30000), 'a', repeat('b', 30000)))"),
        Some("900000000"),
    ),
    // VALUES.
    harm("values: two large ones", || simple("VALUES (length(repeat('x', 1000000000))), (2)"), Some("1000000000")),
    harm(
        "values: in FROM",
        || simple("SELECT sum(a) FROM (VALUES (length(lpad('', 200000000, 'xy'))), (0)) v (a)"),
        Some("200000000"),
    ),
    // INSERT.
    harm("insert: a large value", || simple("INSERT INTO sink VALUES (1, repeat('x', 300000000))"), None),
    harm(
        "insert: a pattern",
        || simple("INSERT INTO sink VALUES (1, regexp_replace(repeat('a', 20000000), '(a|aa)*(a|aa)*b', 'c'))"),
        None,
    ),
    harm(
        "insert: a million rows",
        || simple(format!("INSERT INTO sink VALUES {}", list(1_000_000, |at| format!("({at},upper('v{at}'))")))),
        None,
    ),
    harm(
        "insert: from a query",
        || simple("INSERT INTO sink SELECT a, repeat('x', 100) FROM generate_series(1, 2000000) a"),
        None,
    ),
    // DEFAULT.
    harm("default: of one row", || simple("INSERT INTO defaults (a) VALUES (1)"), None),
    harm("default: of several", || simple("INSERT INTO defaults (a) VALUES (1), (2), (3), (4)"), None),
    // CHECK.
    harm("check: of an insert", || simple("INSERT INTO checked VALUES ('a')"), None),
    harm(
        "check: of a copy",
        || [simple("COPY checked FROM STDIN"), frontend::copy_data(b"a\n"), frontend::copy_done()].concat(),
        None,
    ),
    // RETURNING.
    harm(
        "returning: of an insert",
        || simple("INSERT INTO sink VALUES (1, 'a') RETURNING length(repeat(v, 1000000000))"),
        Some("1000000000"),
    ),
    harm(
        "returning: of an update",
        || {
            simple(
                "UPDATE point SET v = v WHERE id = 1 RETURNING length(replace(repeat(v, 10000), v, repeat(v, 10000)))",
            )
        },
        None,
    ),
    // EXECUTE and PREPARE.
    Harm {
        name: "execute: its arguments",
        before: &["PREPARE lengths (text) AS SELECT length($1)"],
        request: || simple("EXECUTE lengths(repeat('x', 800000000))"),
        gives: Some("800000000"),
    },
    harm("prepare: a large join", || simple(format!("PREPARE joins AS {}", joins(200))), None),
    // LIMIT and OFFSET.
    harm("limit", || simple("SELECT 1 LIMIT length(repeat('a', 1000000000))"), Some("1")),
    harm("offset", || simple("SELECT 1 OFFSET length(replace(repeat('a', 30000), 'a', repeat('b', 30000)))"), None),
    // Filters of a peek.
    harm(
        "filter of an index: replace",
        || simple("SELECT id FROM wide WHERE id < 3000 AND length(replace(v, 'x', repeat('b', 100000))) < 0"),
        None,
    ),
    harm(
        "filter of an index: a pattern",
        || simple("SELECT id FROM wide WHERE id < 3000 AND repeat(v, 1000) ~ '(x|y|xy)*z{20}w'"),
        None,
    ),
    // Outputs of a peek.
    harm(
        "output of an index: lengths",
        || simple("SELECT length(repeat(v, 100000)) FROM wide WHERE id = 7 OR id = 8"),
        Some("100000000"),
    ),
    harm("output of an index: large rows", || simple("SELECT repeat(v, 10000) FROM wide WHERE id < 50"), None),
    // Large rows.
    harm("rows: one of 200 MB", || simple("SELECT repeat('x', 200000000)"), Some("xxxx")),
    harm("rows: bytes of 100 MB", || simple("SELECT convert_to(repeat('x', 100000000), 'UTF8')"), Some("\\x7878")),
    // Texts.
    harm(
        "text: a literal of 100 MB",
        || simple(format!("SELECT length('{}')", "x".repeat(100_000_000))),
        Some("100000000"),
    ),
    harm(
        "text: a million in a list",
        || simple(format!("SELECT count(*) FROM point WHERE id IN ({})", list(1_000_000, |at| at.to_string()))),
        Some("10000"),
    ),
    harm("text: nested", || simple(format!("SELECT {}1{}", "(".repeat(500_000), ")".repeat(500_000))), None),
    harm("text: a long sum", || simple(format!("SELECT {}", vec!["1"; 500_000].join("+"))), None),
    // Plans.
    harm("plan: 200 joins", || simple(joins(200)), Some("10000")),
    harm(
        "plan: 60 in a list",
        || {
            let from = list(60, |at| format!("point t{at}"));
            let conditions: Vec<String> = (1..60).map(|at| format!("t{at}.id = t{}.id", at - 1)).collect();
            simple(format!("SELECT count(*) FROM {from} WHERE {}", conditions.join(" AND ")))
        },
        Some("10000"),
    ),
    harm("plan: doubling tables", || simple(doubling_ctes(24)), None),
    harm("plan: doubling views", || simple("SELECT count(*) FROM doubled12"), None),
    harm("plan: explained", || simple(format!("EXPLAIN {}", joins(200))), None),
    harm(
        "plan: a cube",
        || {
            let columns = list(12, |at| format!("id % {}", at + 2));
            simple(format!("SELECT count(*) FROM (SELECT 1 FROM point GROUP BY CUBE ({columns})) g"))
        },
        None,
    ),
    // Parameters.
    harm("parameter: of 100 MB", || extended("SELECT length($1)", &vec![b'x'; 100_000_000]), Some("100000000")),
    harm(
        "parameter: jsonb of 50 MB",
        || {
            extended(
                "SELECT jsonb_array_length($1::jsonb)",
                format!("[{}]", list(10_000_000, |_| "1234".to_owned())).as_bytes(),
            )
        },
        Some("10000000"),
    ),
    // Cursors.
    Harm {
        name: "cursor: fetch all",
        before: &["BEGIN", "DECLARE much CURSOR FOR SELECT * FROM many"],
        request: || simple("FETCH ALL FROM much"),
        gives: None,
    },
    Harm {
        name: "cursor: move over all",
        before: &["BEGIN", "DECLARE much CURSOR FOR SELECT id, repeat(v, 1000) FROM many"],
        request: || simple("MOVE ALL FROM much"),
        gives: None,
    },
    // Many rows changed by an index.
    harm("change: many rows", || simple("UPDATE many SET v = v || 'x' WHERE id < 10"), None),
    harm("change: all rows", || simple("DELETE FROM many WHERE v LIKE 'no%'"), None),
    // COPY.
    harm(
        "copy: one message of 50 MB",
        || {
            [
                simple("COPY sink FROM STDIN"),
                frontend::copy_data("1\tabc\n".repeat(8_000_000).as_bytes()),
                frontend::copy_done(),
            ]
            .concat()
        },
        None,
    ),
    harm("copy: a large row out", || simple("COPY (SELECT repeat('x', 100000000)) TO STDOUT"), None),
    // Ad hoc queries.
    harm("ad hoc: endless", || simple("SELECT count(*) FROM many x, many y, many z"), None),
    harm(
        "ad hoc: much kept",
        || simple("SELECT count(*) FROM (SELECT DISTINCT a, repeat('x', 100) FROM generate_series(1, 40000000) a) d"),
        None,
    ),
    harm(
        "ad hoc: one long string",
        || simple("SELECT length(string_agg(repeat('x', 10000), ',')) FROM generate_series(1, 1000000)"),
        None,
    ),
    harm(
        "ad hoc: functions of rows",
        || {
            simple(
                "SELECT sum(length(replace(repeat('a', 10000), 'a', repeat('b', 10000)))) FROM generate_series(1, 1000)",
            )
        },
        None,
    ),
];

/// When operations should have begun, and how long after that they were done.
type Timed = Vec<(Instant, Duration)>;

/// Does something again and again until told to stop.
struct Neighbour {
    stop: Arc<AtomicBool>,
    has_begun: Arc<AtomicBool>,
    thread: JoinHandle<Timed>,
}

impl Neighbour {
    fn start(addr: SocketAddr, every: Duration, sql: impl Fn(u64) -> String + Send + 'static) -> Neighbour {
        let stop = Arc::new(AtomicBool::new(false));
        let has_begun = Arc::new(AtomicBool::new(false));
        let (stopped, began) = (Arc::clone(&stop), Arc::clone(&has_begun));
        let thread = std::thread::spawn(move || {
            let mut wire = Wire::start(addr, "materialize", "materialize").expect("a session");
            let (mut due, mut timed) = (Instant::now(), Timed::new());
            let mut turn = 0;
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                wire.execute(&sql(turn)).expect("a neighbour's statement");
                timed.push((due, due.elapsed()));
                began.store(true, Ordering::Relaxed);
                (due, turn) = (due + every, turn + 1);
            }
            timed
        });
        Neighbour { stop, has_begun, thread }
    }

    fn stop(self) -> Timed {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a neighbour is never failed")
    }
}

/// Threads that compute and do nothing else, one per core, in a process that is not the server: what the operating system lets its
/// neighbours wait for.
struct Computing {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Computing {
    fn start() -> Computing {
        let stop = Arc::new(AtomicBool::new(false));
        let compute = |stopped: Arc<AtomicBool>| move || while !stopped.load(Ordering::Relaxed) {};
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cores).map(|_| std::thread::spawn(compute(Arc::clone(&stop)))).collect();
        Computing { stop, threads }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("it only computes"));
    }
}

/// Readers and a writer.
struct Neighbours {
    readers: Vec<Neighbour>,
    writer: Neighbour,
}

impl Neighbours {
    fn start(addr: SocketAddr) -> Neighbours {
        let read = |turn: u64| format!("SELECT v FROM point WHERE id = {}", turn * 7_919 % 10_000);
        let readers = (0..READERS).map(|_| Neighbour::start(addr, READ_EVERY, read)).collect();
        Neighbours {
            readers,
            writer: Neighbour::start(addr, WRITE_EVERY, |turn| format!("INSERT INTO log VALUES ({turn})")),
        }
    }

    /// Waits until each has done something.
    fn await_first(&self) {
        let all = || self.readers.iter().chain([&self.writer]);
        while all().any(|neighbour| !neighbour.has_begun.load(Ordering::Relaxed)) {
            std::thread::yield_now();
        }
    }

    /// All reads and all writes.
    fn stop(self) -> (Timed, Timed) {
        (self.readers.into_iter().flat_map(Neighbour::stop).collect(), self.writer.stop())
    }
}

/// The 99th percentile and the longest of what was due within a time.
fn late(timed: &Timed, from: Instant, to: Instant) -> (Duration, Duration, usize) {
    let mut late: Vec<Duration> =
        timed.iter().filter(|(due, _)| (from..=to).contains(due)).map(|(_, late)| *late).collect();
    late.sort_unstable();
    let at = |share: usize| late.get((late.len() * share).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
    (at(99), at(100), late.len())
}

/// How a statement ended: its first value, or its SQLSTATE.
fn ended(messages: &[Message]) -> Result<Option<String>, String> {
    match messages.iter().find_map(Message::error) {
        Some(error) => Err(error.code),
        None => Ok(messages.iter().find(|message| message.tag == b'D').and_then(|row| row.row_text().swap_remove(0))),
    }
}

fn set_up(server: &Server) {
    let mut wire = Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session");
    for sql in [
        "CREATE TABLE point (id int4, v text)",
        "INSERT INTO point SELECT a, 'v' || a FROM generate_series(0, 9999) a",
        "CREATE INDEX point_id ON point (id)",
        "CREATE TABLE wide (id int4, v text)",
        "INSERT INTO wide SELECT a, repeat('x', 1000) FROM generate_series(1, 10000) a",
        "CREATE INDEX wide_id ON wide (id)",
        "CREATE TABLE many (id int4, v text)",
        "INSERT INTO many SELECT a % 20, 'value ' || a FROM generate_series(1, 300000) a",
        "CREATE INDEX many_id ON many (id)",
        "CREATE TABLE sink (a int4, v text)",
        "CREATE TABLE log (a int4)",
        "CREATE TABLE defaults (a int4, v text DEFAULT repeat('x', 100000000))",
        "CREATE TABLE checked (v text CHECK (length(replace(repeat(v, 30000), v, repeat(v, 30000))) > 0))",
        "CREATE VIEW doubled0 AS SELECT * FROM point",
    ] {
        wire.execute(sql).expect(sql);
    }
    for at in 1..=12 {
        let below = at - 1;
        let sql =
            format!("CREATE VIEW doubled{at} AS SELECT x.* FROM doubled{below} x JOIN doubled{below} y ON x.id = y.id");
        wire.execute(&sql).expect("a view");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn no_statement_harms_another_session() {
    // The bar is for the build that people use.
    let is_long = glimpse_test::is_long() && std::env::var_os("GLIMPSE_ENVIRONMENTD").is_some();
    let args = vec![format!("--memory-limit={MEMORY_LIMIT}")];
    let server = Server::launch(Launch { args, ..Launch::default() }).expect("the server starts");
    set_up(&server);
    let addr = server.sql_addr();
    let timeout = Duration::from_millis(if is_long { 3_000 } else { 400 });
    // What is usual on this machine.
    let (from, neighbours) = (Instant::now(), Neighbours::start(addr));
    std::thread::sleep(timeout);
    let (reads, writes) = neighbours.stop();
    let now = Instant::now();
    println!("alone: reads {:?}, writes {:?}", late(&reads, from, now), late(&writes, from, now));
    let (from, neighbours, computing) = (Instant::now(), Neighbours::start(addr), Computing::start());
    std::thread::sleep(timeout);
    let (reads, writes) = neighbours.stop();
    computing.stop();
    let now = Instant::now();
    let (write_usual, ..) = late(&writes, from, now);
    println!(
        "beside a process that computes: reads {:?}, writes {:?}",
        late(&reads, from, now),
        late(&writes, from, now)
    );
    let mut broken = Vec::new();
    let only = std::env::var("HARM").unwrap_or_default();
    for harm in HARMS.iter().filter(|harm| harm.name.contains(&only)) {
        let mut wire = Wire::start(addr, "materialize", "materialize").expect("a session");
        for sql in harm.before {
            wire.execute(sql).expect(sql);
        }
        wire.execute(&format!("SET statement_timeout = '{}ms'", timeout.as_millis())).expect("it is set");
        let request = (harm.request)();
        let neighbours = Neighbours::start(addr);
        neighbours.await_first();
        let from = Instant::now();
        wire.send(&request).expect("it is sent");
        let sent = Instant::now();
        let messages = wire.until_ready().expect("it is answered");
        let to = Instant::now();
        let (reads, writes) = neighbours.stop();
        let ((read, read_max, read_count), (write, write_max, _)) = (late(&reads, from, to), late(&writes, from, to));
        let ended = ended(&messages);
        println!(
            "{:38} {:>6} ms  {:12} reads {read_count:5} p99 {read:9.2?} max {read_max:9.2?}  writes p99 {write:9.2?} max {write_max:9.2?}  peak {:5} MB",
            harm.name,
            (to - sent).as_millis(),
            match &ended {
                Ok(_) => "succeeded",
                Err(code) => code,
            },
            server.peak_bytes().expect("it runs") >> 20,
        );
        let mut hold = |holds: bool, what: &str| {
            if !holds {
                broken.push(format!("{}: {what}", harm.name));
            }
        };
        match &ended {
            Ok(Some(value)) => {
                hold(harm.gives.is_none_or(|gives| value.starts_with(gives)), &format!("it gives {value:.40}"));
            }
            Ok(None) => hold(true, ""),
            Err(code) => hold(REFUSALS.contains(&code.as_str()), &format!("it ended with {code}")),
        }
        if to - from > Duration::from_millis(300) {
            let done = |(due, late): &&(Instant, Duration)| *due > from && *due + *late < to;
            hold(reads.iter().filter(done).count() >= READERS, "the readers stood still");
        }
        // A statement that succeeds does so in time, too.
        let answered = to - sent;
        if is_long {
            hold(read < READ_P99_MAX, &format!("reads took {read:?}"));
            hold(write < WRITE_P99_TIMES * write_usual, &format!("writes took {write:?}, usually {write_usual:?}"));
            hold(answered < timeout + ANSWERED_WITHIN, &format!("it was answered after {answered:?}"));
        }
        wire.query("ROLLBACK").expect("the session goes on");
        wire.execute("INSERT INTO log VALUES (-1)").expect("the session goes on");
        assert_eq!(wire.rows("SELECT 1").expect("the session goes on").len(), 1);
    }
    let peak = server.peak_bytes().expect("it runs") >> 20;
    println!("peak {peak} MB of {MEMORY_LIMIT}");
    assert!(peak < MEMORY_LIMIT, "the server had {peak} MB of {MEMORY_LIMIT}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// What is about many rows, or a large plan, and changes the catalog or claims keys: were the committer to do it, nobody could commit.
/// Each with another write to the same table, which waits, and is there afterwards.
const LONG_WORK: [(&str, &str); 8] = [
    ("the first write after a start", "INSERT INTO keyed (id, v) VALUES (-1, 'first')"),
    ("a check", "ALTER TABLE keyed ADD CONSTRAINT filled CHECK (length(v) > 0)"),
    ("a unique index", "CREATE UNIQUE INDEX keyed_v ON keyed (v, id)"),
    ("a column", "ALTER TABLE keyed ADD COLUMN w text DEFAULT 'w'"),
    ("another type", "ALTER TABLE keyed ALTER COLUMN id TYPE numeric"),
    ("NOT NULL", "ALTER TABLE keyed ALTER COLUMN v SET NOT NULL"),
    ("a large materialized view", "CREATE MATERIALIZED VIEW joined AS"),
    ("the end", "DROP TABLE keyed"),
];

#[test]
fn long_work_holds_up_no_other_commit() {
    let is_long = glimpse_test::is_long() && std::env::var_os("GLIMPSE_ENVIRONMENTD").is_some();
    let (row_count, joined) = if is_long { (10_000_000, 200) } else { (150_000, 40) };
    let mut server = Server::start().expect("the server starts");
    let mut wire = Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session");
    let insert =
        |from: i32, to: i32| format!("INSERT INTO keyed SELECT g, 'value ' || g FROM generate_series({from}, {to}) g");
    let pieces = (0..row_count).step_by(1_000_000).map(|from| insert(from + 1, row_count.min(from + 1_000_000)));
    let tables = [
        "CREATE TABLE point (id int4, v text)",
        "INSERT INTO point SELECT a, 'v' || a FROM generate_series(0, 9999) a",
        "CREATE INDEX point_id ON point (id)",
        "CREATE TABLE log (a int4)",
        "CREATE TABLE keyed (id int8 PRIMARY KEY, v text)",
    ];
    for sql in tables.map(str::to_owned).into_iter().chain(pieces) {
        wire.execute(&sql).expect("the tables");
    }
    server.sigterm().expect("it stops");
    server.restart().expect("it starts again");
    let addr = server.sql_addr();
    let mut broken = Vec::new();
    for (turn, (name, sql)) in (0_usize..).zip(LONG_WORK) {
        let sql = if sql.ends_with("AS") { format!("{sql} {}", joins(joined)) } else { sql.to_owned() };
        let neighbours = Neighbours::start(addr);
        neighbours.await_first();
        let mut wire = Wire::start(addr, "materialize", "materialize").expect("a session");
        let (from, late_id) = (Instant::now(), -10 - i32::try_from(turn).expect("they are few"));
        wire.send(&simple(&sql)).expect("it is sent");
        let mut other = Wire::start(addr, "materialize", "materialize").expect("a session");
        let beside = other.execute(&format!("INSERT INTO keyed (id, v) VALUES ({late_id}, 'late')"));
        let messages = wire.until_ready().expect("it is answered");
        // What it has used is given back a moment later.
        std::thread::sleep(if is_long { Duration::from_secs(1) } else { Duration::ZERO });
        let to = Instant::now();
        let (reads, writes) = neighbours.stop();
        let ((read, ..), (write, write_max, write_count)) = (late(&reads, from, to), late(&writes, from, to));
        println!(
            "{name:30} {:>6} ms  reads p99 {read:9.2?}  {write_count:4} writes p99 {write:9.2?} max {write_max:9.2?}",
            (to - from).as_millis(),
        );
        assert_eq!(ended(&messages).err(), None, "{name}");
        if sql.starts_with("DROP") {
            // Before or after.
            assert!(beside.is_ok() || wire.rows("SELECT FROM keyed").is_err());
            continue;
        }
        beside.expect(name);
        let found = wire.rows(&format!("SELECT v FROM keyed WHERE id = {late_id}")).expect("it can be read");
        assert_eq!(found, [[Some("late".to_owned())]], "{name}");
        if is_long && write > COMMIT_P99_MAX {
            broken.push(format!("{name}: {write:?}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
