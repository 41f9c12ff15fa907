//! Advisory locks: sessions take, share, give up and wait for them as in PostgreSQL; and what waits for one sees what the
//! holder before it has done.

use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use glimpse_test::postgres_server::Postgres;
use glimpse_test::server::Server;
use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use glimpse_test::wire::message::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const SESSIONS: usize = 3;
const STEPS: usize = 400;
const SEEDS: u64 = 4;

/// What is locked, who waits for what, without what differs from run to run. Sessions are numbered by their processes.
const STATE: &str = "SELECT l.classid::int8, l.objid::int8, l.objsubid, dense_rank() OVER (ORDER BY l.pid), l.mode, l.granted \
                     FROM pg_locks l WHERE l.locktype = 'advisory' ORDER BY 1, 2, 3, 4, 5, 6";

fn value(wire: &mut Wire, sql: &str) -> Option<String> {
    wire.rows(sql).expect(sql)[0][0].clone()
}

/// What a statement gives: its rows, or its error. `void` is an empty text or NULL.
fn outcome(wire: &mut Wire, sql: &str) -> String {
    let messages = wire.query(sql).expect("the server answers");
    let error = messages.iter().find_map(Message::error).map(|error| error.code);
    let shown = |value: Option<String>| value.unwrap_or_default();
    let row = |message: &Message| message.row_text().into_iter().map(shown).collect::<Vec<_>>();
    let rows: Vec<_> = messages.iter().filter(|message| message.tag == b'D').map(row).collect();
    format!("{error:?} {rows:?}")
}

/// Waits until a query gives this.
fn wait_for(wire: &mut Wire, sql: &str, expected: &str) {
    while value(wire, sql).as_deref() != Some(expected) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a statement of a session beside the others.
fn beside(mut wire: Wire, sql: &'static str) -> JoinHandle<(Wire, String)> {
    std::thread::spawn(move || {
        let outcome = outcome(&mut wire, sql);
        (wire, outcome)
    })
}

fn random_step(random: &mut StdRng) -> String {
    let key = match random.random_range(0..4) {
        0 => "1",
        1 => "-2",
        2 => "0, 1",
        _ => "3, -4",
    };
    let mode = ["", "_shared"][random.random_range(0..2)];
    match random.random_range(0..24) {
        0..6 => format!("SELECT pg_try_advisory_lock{mode}({key})"),
        6..10 => format!("SELECT pg_try_advisory_xact_lock{mode}({key})"),
        // There is nobody who could give it up meanwhile.
        10 => format!("SELECT pg_advisory_lock{mode}({key})"),
        11 => format!("SELECT pg_advisory_xact_lock{mode}({key})"),
        12..17 => format!("SELECT pg_advisory_unlock{mode}({key})"),
        17 => "SELECT pg_advisory_unlock_all()".to_owned(),
        18 | 19 => "BEGIN".to_owned(),
        20 => ["COMMIT", "ROLLBACK"][random.random_range(0..2)].to_owned(),
        21 => "SAVEPOINT s".to_owned(),
        22 => "ROLLBACK TO s".to_owned(),
        _ => ["SELECT 1 / 0", "RELEASE s", "DISCARD ALL"][random.random_range(0..3)].to_owned(),
    }
}

#[test]
fn locks_are_taken_and_given_up_as_in_postgres() {
    let glimpse = Server::start().expect("the server starts");
    let postgres = Postgres::start().expect("PostgreSQL starts");
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut ours = sessions(|| Wire::start(glimpse.internal_sql_addr(), "mz_system", "materialize"));
        let mut theirs = sessions(|| Wire::start(postgres.addr(), "mz_system", "materialize"));
        let mut steps = Vec::new();
        for _ in 0..STEPS {
            let (at, sql) = (random.random_range(0..SESSIONS), random_step(&mut random));
            // Both are told again because DISCARD ALL forgets it.
            for wire in [&mut ours[at], &mut theirs[at]] {
                outcome(wire, "SET lock_timeout = '20ms'");
            }
            steps.push(format!("{at}: {sql}"));
            let (our, their) = (outcome(&mut ours[at], &sql), outcome(&mut theirs[at], &sql));
            assert_eq!(our, their, "seed {seed}: {steps:#?}");
            let observer = SESSIONS;
            let (our, their) = (outcome(&mut ours[observer], STATE), outcome(&mut theirs[observer], STATE));
            assert_eq!(our, their, "seed {seed}: {steps:#?}");
        }
    }
}

/// Some that take locks, and one that looks on; opened one after the other, so that their processes are in order.
fn sessions(open: impl Fn() -> anyhow::Result<Wire>) -> Vec<Wire> {
    let mut wires: Vec<Wire> = (0..=SESSIONS).map(|_| open().expect("a session")).collect();
    wires.iter_mut().for_each(|wire| wire.execute("SELECT 1").expect("it answers"));
    wires
}

#[test]
fn a_lock_is_handed_to_who_has_waited_longest() {
    let target = Target::start().expect("the server starts");
    let (mut holder, mut observer) = (target.admin().expect("a session"), target.admin().expect("a session"));
    holder.execute("SELECT pg_advisory_lock(7)").expect("nobody holds it");
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    let mut waiters = Vec::new();
    for (at, sql) in
        ["SELECT pg_advisory_lock(7)", "SELECT pg_advisory_lock_shared(7)", "SELECT pg_advisory_lock_shared(7)"]
            .into_iter()
            .enumerate()
    {
        waiters.push(beside(target.admin().expect("a session"), sql));
        wait_for(&mut observer, waiting, &(at + 1).to_string());
    }
    // Nobody overtakes them.
    holder.execute("SELECT pg_advisory_unlock(7)").expect("it held it");
    wait_for(&mut observer, waiting, "2");
    assert_eq!(value(&mut holder, "SELECT pg_try_advisory_lock_shared(7)").as_deref(), Some("f"));
    let (mut first, outcome) = waiters.remove(0).join().expect("it has the lock");
    assert_eq!(outcome, "None [[\"\"]]");
    first.execute("SELECT pg_advisory_unlock_all()").expect("it held it");
    // Those who share it come together.
    let sharing: Vec<Wire> = waiters.into_iter().map(|waiter| waiter.join().expect("it has the lock").0).collect();
    assert_eq!(value(&mut holder, "SELECT pg_try_advisory_lock(7)").as_deref(), Some("f"));
    assert_eq!(value(&mut holder, "SELECT pg_try_advisory_lock_shared(7)").as_deref(), Some("t"));
    // What a session holds ends with it.
    drop(sharing);
    wait_for(&mut observer, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "1");
    assert_eq!(value(&mut holder, "SELECT pg_try_advisory_lock(7)").as_deref(), Some("t"));
}

#[test]
fn who_gives_up_waiting_holds_nobody_up() {
    let target = Target::start().expect("the server starts");
    let (mut holder, mut observer) = (target.admin().expect("a session"), target.admin().expect("a session"));
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    holder.execute("SELECT pg_advisory_lock_shared(7)").expect("nobody holds it");
    let mut wire = target.admin().expect("a session");
    let pid = value(&mut wire, "SELECT pg_backend_pid()").expect("a number");
    let exclusive = beside(wire, "SELECT pg_advisory_lock(7)");
    wait_for(&mut observer, waiting, "1");
    let shared = beside(target.admin().expect("a session"), "SELECT pg_advisory_lock_shared(7)");
    wait_for(&mut observer, waiting, "2");
    let holder_pid = value(&mut holder, "SELECT pg_backend_pid()").expect("a number");
    let mut blocking = |pid: &str| value(&mut observer, &format!("SELECT pg_blocking_pids({pid})"));
    assert_eq!(blocking(&pid), Some(format!("{{{holder_pid}}}")));
    assert_eq!(blocking(&holder_pid).as_deref(), Some("{}"));
    assert_eq!(blocking("-1").as_deref(), Some("{}"));
    let behind = "SELECT pg_blocking_pids(pid) FROM pg_locks WHERE NOT granted AND mode = 'ShareLock'";
    assert_eq!(value(&mut observer, behind), Some(format!("{{{pid}}}")));
    observer.execute(&format!("SELECT pg_cancel_backend({pid})")).expect("it is there");
    let (mut wire, outcome) = exclusive.join().expect("it ends");
    assert_eq!(outcome, "Some(\"57014\") []");
    // The one behind it had waited for nobody else.
    let (_shared, outcome) = shared.join().expect("it ends");
    assert_eq!(outcome, "None [[\"\"]]");
    assert_eq!(value(&mut observer, waiting).as_deref(), Some("0"));
    wire.execute("SET lock_timeout = '10ms'").expect("a setting");
    assert_eq!(wire.sqlstate("SELECT pg_advisory_xact_lock(7)").expect("an answer").as_deref(), Some("55P03"));
    wire.execute("SET statement_timeout = '10ms'; SET lock_timeout = 0").expect("settings");
    assert_eq!(wire.sqlstate("SELECT pg_advisory_lock(7)").expect("an answer").as_deref(), Some("57014"));
    assert_eq!(value(&mut observer, waiting).as_deref(), Some("0"));
    // A connection that goes while it waits.
    wire.execute("SET statement_timeout = 0").expect("a setting");
    wire.send(&glimpse_test::wire::frontend::query("SELECT pg_advisory_lock(7)")).expect("it is sent");
    wait_for(&mut observer, waiting, "1");
    drop(wire);
    wait_for(&mut observer, waiting, "0");
}

#[test]
fn sessions_that_wait_for_each_other_are_told() {
    let target = Target::start().expect("the server starts");
    let mut observer = target.admin().expect("a session");
    let mut wires: Vec<Wire> = (0..3).map(|_| target.admin().expect("a session")).collect();
    for (at, wire) in wires.iter_mut().enumerate() {
        wire.execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({at})")).expect("nobody holds it");
    }
    let steps =
        ["SELECT pg_advisory_xact_lock(1)", "SELECT pg_advisory_xact_lock(2)", "SELECT pg_advisory_xact_lock(0)"];
    let waiting = wires.into_iter().zip(steps).map(|(wire, sql)| {
        std::thread::spawn(move || {
            let mut wire = wire;
            let outcome = outcome(&mut wire, sql);
            // What failed has given up its lock, and so the others come to theirs, one after the other.
            wire.execute("ROLLBACK").expect("the transaction ends");
            outcome
        })
    });
    let waiting: Vec<_> = waiting.collect();
    let mut outcomes: Vec<String> = waiting.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    outcomes.sort();
    let granted = "None [[\"\"]]";
    assert_eq!(outcomes, [granted, granted, "Some(\"40P01\") []"]);
    wait_for(&mut observer, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0");
    // Two that hold a lock together and each want it for itself.
    let mut wires: Vec<Wire> = (0..2).map(|_| target.admin().expect("a session")).collect();
    for wire in &mut wires {
        wire.execute("BEGIN; SELECT pg_advisory_xact_lock_shared(5)").expect("they share it");
    }
    let waiting: Vec<_> = wires
        .into_iter()
        .map(|mut wire| {
            std::thread::spawn(move || {
                let outcome = outcome(&mut wire, "SELECT pg_advisory_xact_lock(5)");
                wire.execute("ROLLBACK").expect("the transaction ends");
                outcome
            })
        })
        .collect();
    let mut outcomes: Vec<String> = waiting.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    outcomes.sort();
    assert_eq!(outcomes, [granted, "Some(\"40P01\") []"]);
}

/// Read, then write, under a lock: nothing fails, because what reads next has waited for what was written before.
#[test]
fn what_comes_next_sees_what_came_before() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 20;
    let target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    admin.execute("CREATE TABLE counter (n int8)").expect("a table");
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (target, seen) = (&target, &seen);
            scope.spawn(move || {
                let mut wire = target.admin().expect("a session");
                for _ in 0..ROUNDS {
                    wire.execute("BEGIN").expect("a block");
                    if thread % 2 == 0 {
                        wire.execute("SELECT pg_advisory_xact_lock(11)").expect("it gets the lock");
                    } else {
                        wait_for(&mut wire, "SELECT pg_try_advisory_xact_lock(11)", "t");
                    }
                    let next = value(&mut wire, "SELECT coalesce(max(n), 0) + 1 FROM counter").expect("a number");
                    wire.execute(&format!("INSERT INTO counter VALUES ({next})")).expect("a row");
                    wire.execute("COMMIT").expect("nobody was in between");
                    seen.lock().expect("no thread fails").push(next.parse::<usize>().expect("a number"));
                }
            });
        }
    });
    let mut seen = seen.into_inner().expect("no thread fails");
    seen.sort_unstable();
    assert_eq!(seen, (1..=THREADS * ROUNDS).collect::<Vec<_>>());
}
