//! Accounts between which money moves: whatever is read, by whatever route, the total is the same, and in the end the
//! accounts say what the log of transfers says.

use rand::Rng;

use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Asked, Stage};

const ACCOUNTS: u64 = 8;
const EACH: i64 = 100;
/// Ways to ask for the total.
const TOTALS: [&str; 6] = [
    "SELECT sum(balance) FROM accounts",
    "SELECT sum(balance) FROM (SELECT balance FROM accounts WHERE id + 0 < 1000) AS part",
    "SELECT total FROM total_indexed",
    "SELECT total FROM total_kept",
    "SELECT sum(a.balance) FROM accounts a JOIN accounts b ON a.id = b.id",
    "SELECT total FROM total_plain",
];

fn expected() -> i64 {
    i64::try_from(ACCOUNTS).expect("few") * EACH
}

/// Makes the tables and views.
pub fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute_each([
        "CREATE TABLE accounts (id int8, balance int8)".to_owned(),
        "CREATE INDEX accounts_id ON accounts (id)".to_owned(),
        "CREATE TABLE transfers (source int8, target int8, amount int8)".to_owned(),
        "CREATE VIEW total_plain AS SELECT sum(balance) AS total FROM accounts".to_owned(),
        "CREATE VIEW total_indexed AS SELECT sum(balance) AS total FROM accounts".to_owned(),
        "CREATE DEFAULT INDEX ON total_indexed".to_owned(),
        "CREATE MATERIALIZED VIEW total_kept AS SELECT sum(balance) AS total FROM accounts".to_owned(),
        format!("INSERT INTO accounts SELECT n, {EACH} FROM generate_series(0, {}) AS series(n)", ACCOUNTS - 1),
    ])
}

/// Runs clients until the end; returns how many transfers were acknowledged and how many may have happened.
pub fn run(stage: &Stage, clients: usize, seed: u64) -> (u64, u64) {
    let moves = stage.clients(clients, seed, act);
    let count = |which: Move| u64::try_from(moves.iter().filter(|done| **done == which).count()).expect("few");
    (count(Move::Acknowledged), count(Move::Unknown))
}

/// Compares accounts and log after everything.
pub fn last_word(session: &mut Session, (acknowledged, unknown): (u64, u64)) -> Result<(), Failure> {
    for sql in TOTALS {
        total(session, sql)?;
    }
    let wrong = session.rows(&format!(
        "SELECT id, balance FROM accounts EXCEPT
         SELECT id, {EACH} + coalesce((SELECT sum(amount) FROM transfers WHERE target = id), 0)
                - coalesce((SELECT sum(amount) FROM transfers WHERE source = id), 0) FROM accounts"
    ))?;
    if !wrong.is_empty() {
        return Err(Failure::Wrong(format!("accounts that are not what their transfers say: {wrong:?}")));
    }
    let logged = session.value("SELECT count(*) FROM transfers")?.and_then(|count| count.parse().ok()).unwrap_or(0_u64);
    if !(acknowledged..=acknowledged + unknown).contains(&logged) {
        let what =
            format!("{logged} transfers are logged, {acknowledged} were acknowledged, {unknown} may have happened");
        return Err(Failure::Wrong(what));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Acknowledged,
    Unknown,
    Read,
}

fn act(actor: &mut Actor<'_>) -> Option<Move> {
    let random = &mut actor.random;
    let choice = random.random_range(0..100);
    if choice < 50 {
        let sql = TOTALS[random.random_range(0..TOTALS.len())];
        let asked = actor.ask(|session| total(session, sql))?;
        never_refused(actor, &asked);
        return Some(Move::Read);
    }
    if choice < 65 {
        let (first, second) = (random.random_range(0..TOTALS.len()), random.random_range(0..TOTALS.len()));
        let thinks = random.random_bool(0.02);
        let asked = actor.ask(|session| {
            session.block(|session| {
                total(session, TOTALS[first])?;
                if thinks {
                    session.think();
                }
                total(session, TOTALS[second])
            })
        })?;
        never_refused(actor, &asked);
        return Some(Move::Read);
    }
    let source = random.random_range(0..ACCOUNTS);
    let target = (source + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
    let (amount, reads) = (random.random_range(1..20), random.random_bool(0.5));
    let asked = actor.ask(|session| session.block(|session| transfer(session, source, target, amount, reads)))?;
    match asked.answer {
        Answer::Given(()) => Some(Move::Acknowledged),
        Answer::Lost => Some(Move::Unknown),
        Answer::Refused(_) => None,
    }
}

fn never_refused(actor: &Actor<'_>, asked: &Asked<()>) {
    if asked.is_refused() {
        actor.stage.report("a transaction that only reads is refused".to_owned());
    }
}

/// Moves money, in one statement or read by read, and logs it; in a block.
fn transfer(session: &mut Session, source: u64, target: u64, amount: i64, reads: bool) -> Result<(), Failure> {
    if reads {
        for (id, change) in [(source, -amount), (target, amount)] {
            let balance = session.value(&format!("SELECT balance FROM accounts WHERE id = {id}"))?;
            let balance: i64 = balance.and_then(|text| text.parse().ok()).unwrap_or_default();
            session.execute(&format!("UPDATE accounts SET balance = {} WHERE id = {id}", balance + change))?;
        }
    } else {
        session.execute(&format!(
            "UPDATE accounts SET balance = balance + CASE id WHEN {source} THEN -{amount} ELSE {amount} END
             WHERE id IN ({source}, {target})"
        ))?;
    }
    session.execute(&format!("INSERT INTO transfers VALUES ({source}, {target}, {amount})")).map(drop)
}

fn total(session: &mut Session, sql: &str) -> Result<(), Failure> {
    let found = session.value(sql)?.and_then(|total| total.parse().ok());
    if found == Some(expected()) {
        return Ok(());
    }
    Err(Failure::Wrong(format!("the total is {found:?}, not {}: {sql}", expected())))
}
